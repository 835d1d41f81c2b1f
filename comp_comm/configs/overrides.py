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

    >>> override_key("--global-batch=8"), override_key("tp = 4")
    ('global_batch', 'tp')
    """
    return text.partition("=")[0].strip().removeprefix("--").replace("-", "_")


def read_overrides(overrides: Sequence[str]) -> dict[str, Document]:
    """Return the value of each override ``key=value``, as a document of that key.

    Raises ``ConfigError`` for a key that is unknown or given twice, and for a value that is no YAML.

    >>> read_overrides(["tp=8"])["tp"].data
    {'tp': 8}
    """
    documents: dict[str, Document] = {}
    for text in overrides:
        given, equals, value = text.partition("=")
        name = override_key(text)
        if not equals or not name:
            raise ConfigError(f"--set {text}: write it as key=value")
        allowed = (*FIELDS, *TOP_LEVEL_SETS)
        if name not in allowed:
            raise ConfigError(f"--set {text}: unknown key '{name}'{nearest_name(name, allowed)} ({one_of(allowed)})")
        label = given if given.startswith("--") else f"--set {name}"
        if name in documents:
            raise ConfigError(f"{label}: {name} is given twice")
        documents[name] = load_value(_listed(name, value, label), label, name)
    return documents


def _listed(name: str, value: str, label: str = "") -> str:
    """Return an override's text, a field's values with commas between them as the list they are.

    Raises ``ConfigError`` where there is nothing between two commas.

    >>> _listed("gpus", "64,128"), _listed("gpus", "[64, 128]"), _listed("hardware", "a,b.yaml"), _listed("tp", "1,024")
    ('[64,128]', '[64, 128]', 'a,b.yaml', '1,024')
    """
    thousands = any(re.fullmatch(r"\s*0\d+", part) for part in value.split(","))  # 1,024 is one number to its writer
    if name not in LISTS or "," not in value or value.lstrip().startswith(("[", "{")) or thousands:
        return value
    if not all(part.strip() for part in value.removesuffix(",").split(",")):
        raise ConfigError(f"{label}: '{value}' has no value beside a comma: write several as 2,4,8")
    return f"[{value}]"
