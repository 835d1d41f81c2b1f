"""Dimensions of a model of the catalogue, for files that name one and override some of it."""

from __future__ import annotations

from comp_comm.configs import catalogue
from comp_comm.configs.model_names import DIMENSIONS, catalogue_name
from comp_comm.fields import FIELDS, Value


def dimensions_of(model: str) -> dict[str, Value]:
    """Return the dimensions of a model of the catalogue; none for another, a file, say.

    >>> dimensions_of("llama-3.1-8b")["layers"], dimensions_of("./config.json")
    (32, {})
    """
    name = catalogue_name(model)
    if name is None:
        return {}
    data = catalogue.read("model", name).data
    return {key: FIELDS[key].parse(value) for key, value in data.items() if key in DIMENSIONS}
