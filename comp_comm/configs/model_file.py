"""Reading a model (its published dimensions) from YAML."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from comp_comm.configs import catalogue
from comp_comm.configs.strict_yaml import Document
from comp_comm.errors import Problems, nearest, one_of
from comp_comm.fields import FIELDS, Value

# Dimensions of a model that are published but that no cost model here reads as a field of a study.
DIMENSIONS = ("heads", "ffn_hidden")
TEXTS = ("name", "title", "architecture", "source")
KEYS = (*TEXTS, "year", "notes", "layers", "hidden", "seq_len", "parameters", *DIMENSIONS)


@dataclass(frozen=True)
class Model:
    """A published model: its fields, and where they are from. ``notes`` say what the source has wrong."""

    name: str
    title: str
    year: int
    architecture: str
    source: str
    fields: dict[str, Value]
    dimensions: dict[str, int]
    notes: tuple[str, ...] = ()


def load_model(reference: str, beside: str = "") -> Model:
    """Return the model a catalogue name or a path means. Raises ``ConfigError`` with every problem in it."""
    document = catalogue.read("model", reference, beside)
    problems = Problems()
    data = document.data
    for key in data:
        if key not in KEYS:
            problems.add(document.problem((key,), f"unknown key{nearest(key, KEYS)} ({one_of(KEYS)})"))
    texts = {key: _text(document, key, problems) for key in TEXTS}
    fields: dict[str, Value] = {}
    for key in KEYS:
        if key in FIELDS and key in data:
            try:
                fields[key] = FIELDS[key].parse(data[key])
            except ValueError as error:
                problems.add(document.problem((key,), str(error)))
    dimensions = {key: _whole(document, key, problems) for key in DIMENSIONS if key in data}
    notes = data.get("notes", [])
    if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
        problems.add(document.problem(("notes",), "must be a list of texts"))
        notes = []
    year = _whole(document, "year", problems) if "year" in data else 0
    problems.raise_if_any()
    return Model(fields=fields, dimensions=dimensions, notes=tuple(notes), year=year, **texts)


def _text(document: Document, key: str, problems: Problems) -> str:
    default = document.file.rsplit("/", 1)[-1].rsplit(".", 1)[0] if key in ("name", "title") else ""
    value: Any = document.data.get(key, default)
    if not isinstance(value, str):
        problems.add(document.problem((key,), "must be text"))
        return default
    return value


def _whole(document: Document, key: str, problems: Problems) -> int:
    value = document.data[key]
    if type(value) is not int or value < 1:
        problems.add(document.problem((key,), "must be a whole number of at least 1"))
        return 1
    return value
