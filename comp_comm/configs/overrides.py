"""What takes the place of something in a study: ``--set``, and the flags of fields."""

from __future__ import annotations

import re
from collections.abc import Sequence

from comp_comm.configs.strict_yaml import Document, load_value
from comp_comm.errors import ConfigError, one_of
from comp_comm.fields import FIELDS
from comp_comm.other_names import nearest_name

TOP_LEVEL_SETS = ("hardware", "model", "cost_model", "batch_tokens")
LISTS = (*FIELDS, "batch_tokens")  # what may be several values with commas between them


def override_key(text: str) -> str:
    """Return the key of an override ``key=value``, a flag's name as the field's.

    >>> override_key("--global-batch=8"), override_key("tp = 4"), override_key("--set-b tp=4")
    ('global_batch', 'tp', 'tp')
    """
    return _flag_and_rest(text)[1].partition("=")[0].strip().removeprefix("--").replace("-", "_")


def _flag_and_rest(text: str) -> tuple[str, str]:
    """Return the flag that gave an override (``--set`` if it does not say so: ``--set-b tp=4``), and what it gave."""
    match = re.match(r"(--set-\w) (.*)", text, re.DOTALL)
    return (match[1], match[2]) if match else ("--set", text)


def read_overrides(overrides: Sequence[str]) -> dict[str, Document]:
    """Return the value of each override ``key=value``, as a document of that key, which is named by its flag.

    Raises ``ConfigError`` for a key that is unknown or given twice, and for a value that is no YAML.

    >>> read_overrides(["tp=8"])["tp"].data
    {'tp': 8}
    """
    documents: dict[str, Document] = {}
    for override in overrides:
        flag, text = _flag_and_rest(override)
        given, equals, value = text.partition("=")
        name = override_key(text)
        if not equals or not name:
            raise ConfigError(f"{flag} {text}: write it as key=value")
        allowed = (*FIELDS, *TOP_LEVEL_SETS)
        if name not in allowed:
            raise ConfigError(f"{flag} {text}: unknown key '{name}'{nearest_name(name, allowed)} ({one_of(allowed)})")
        label = given if given.startswith("--") else f"{flag} {name}"
        if name in documents:
            raise ConfigError(f"{label}: {name} is given twice")
        documents[name] = load_value(listed_value(name, value, label), label, name)
    return documents


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
