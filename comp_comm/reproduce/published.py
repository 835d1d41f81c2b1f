"""What papers published: tables shipped beside their studies, and how ours is compared with them."""

from __future__ import annotations

import csv
from collections.abc import Sequence

from comp_comm.configs import catalogue
from comp_comm.configs.overrides import override_key
from comp_comm.configs.strict_yaml import load_value
from comp_comm.errors import ConfigError, nearest, one_of
from comp_comm.fields import FIELDS, Value


def read_table(name: str) -> list[dict[str, str]]:
    """Return the rows of a table in ``configs/papers``, as text.

    >>> len(read_table("foundation-models.csv"))
    360
    """
    with open(catalogue.root() / catalogue.PAPERS / name, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def read_settings(overrides: Sequence[str], allowed: Sequence[str]) -> dict[str, Value]:
    """Return what ``"key=value"`` texts set, of those fields that are ``allowed``. Raises ``ConfigError``.

    >>> read_settings(["network=2"], ["network"])
    {'network': 2.0}
    """
    settings: dict[str, Value] = {}
    for text in overrides:
        _, equals, value = text.partition("=")
        name = override_key(text)
        if not equals or not name:
            raise ConfigError(f"--set {text}: write it as key=value")
        if name not in allowed:
            raise ConfigError(f"--set {text}: '{name}' cannot be set here{nearest(name, allowed)} ({one_of(allowed)})")
        if name in settings:
            raise ConfigError(f"--set {name}: {name} is given twice")
        try:
            settings[name] = FIELDS[name].parse(load_value(value, f"--set {name}", name).data[name])
        except ValueError as error:
            raise ConfigError(f"--set {name}: {error}") from None
    return settings


def relative_error(ours: float | None, published: float) -> float | None:
    """Return how far a value of ours is from a published one, as a share of it."""
    return None if ours is None else ours / published - 1
