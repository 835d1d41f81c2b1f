"""What takes the place of something in a study: ``--set``, and the flags of fields."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from comp_comm.configs.strict_yaml import Document, load_value
from comp_comm.errors import ConfigError, one_of
from comp_comm.fields import FIELDS, Value
from comp_comm.other_names import nearest_name

TOP_LEVEL_SETS = ("hardware", "model", "cost_model", "batch_tokens")
LISTS = (*FIELDS, "batch_tokens")  # what may be several values with commas between them


class Override(NamedTuple):
    """What takes the place of a study's value: the key, the value as text, and the flag that says so."""

    key: str
    value: str
    label: str


Overrides = Sequence[str | Override]


def parse_override(text: str, flag: str = "--set", allowed: Sequence[str] = (*FIELDS, *TOP_LEVEL_SETS)) -> Override:
    """Return the override that ``key=value`` is, given by a flag; the key may be written as a flag's name.

    Raises ``ConfigError`` for what is no such text, and for a key that is not allowed.

    >>> parse_override("global-batch = 8"), parse_override("tp=4", "--set-b").label
    (Override(key='global_batch', value=' 8', label='--set global_batch'), '--set-b tp')
    """
    given, equals, value = text.partition("=")
    key = given.strip().removeprefix("--").replace("-", "_")
    if not equals or not key:
        example = "tp=8" if "tp" in allowed else f"{allowed[0]}=2"
        raise ConfigError(f"{flag} {text}: write it as key=value ({flag} {example})")
    if key not in allowed:
        what = f"'{key}' cannot be set here" if key in FIELDS else f"unknown key '{key}'"
        raise ConfigError(f"{flag} {text}: {what}{nearest_name(key, allowed)} ({one_of(allowed)})")
    return Override(key, value, f"{flag} {key}")


def parsed(overrides: Overrides) -> list[Override]:
    """Return overrides, a text being what ``--set`` takes. Raises ``ConfigError``."""
    return [parse_override(each) if isinstance(each, str) else each for each in overrides]


def read_overrides(overrides: Overrides) -> dict[str, Document]:
    """Return the value of each override, as a document that its flag names.

    Raises ``ConfigError`` for a key that is unknown or given twice, and for a value that is no YAML.

    >>> read_overrides(["tp=8"])["tp"].data
    {'tp': 8}
    """
    documents: dict[str, Document] = {}
    for key, value, label in parsed(overrides):
        if key in documents:
            raise ConfigError(f"{label}: {key} is given twice")
        documents[key] = load_value(listed_value(key, value, label), label, key)
    return documents


def read_settings(overrides: Sequence[str], allowed: Sequence[str]) -> dict[str, Value]:
    """Return the values that ``"key=value"`` texts give to fields, of those ``allowed``. Raises ``ConfigError``.

    >>> read_settings(["network=2"], ["network"])
    {'network': 2.0}
    """
    settings: dict[str, Value] = {}
    for name, document in read_overrides([parse_override(text, allowed=allowed) for text in overrides]).items():
        try:
            settings[name] = FIELDS[name].parse(document.data[name])
        except ValueError as error:
            raise ConfigError(f"{document.file}: {error}") from None
    return settings


def listed_value(name: str, value: str, label: str = "") -> str:
    """Return an override's text, a field's values with commas between them as the list they are.

    Raises ``ConfigError`` where there is nothing between two commas.

    >>> listed_value("gpus", "64,128"), listed_value("gpus", "[64, 128]"), listed_value("tp", "1,024")
    ('[64,128]', '[64, 128]', '1,024')
    >>> listed_value("hardware", "a,b.yaml")
    'a,b.yaml'
    """
    thousands = any(re.fullmatch(r"\s*0\d+", part) for part in value.split(","))  # 1,024 is one number to its writer
    if name not in LISTS or "," not in value or value.lstrip().startswith(("[", "{")) or thousands:
        return value
    if not all(part.strip() for part in value.removesuffix(",").split(",")):
        raise ConfigError(f"{label}: '{value}' has no value beside a comma: write several as 2,4,8")
    return f"[{value}]"
