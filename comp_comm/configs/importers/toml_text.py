"""A TOML text as data, with the line of every key."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

from comp_comm.configs.strict_yaml import MAX_DEPTH, MAX_NODES, Document, Path
from comp_comm.errors import ConfigError, MissingExtraError, Problem

SECTION = re.compile(r"[ \t]*\[([A-Za-z0-9_.\-]+)\][ \t]*(?:#.*)?$")
ENTRY = re.compile(r"[ \t]*([A-Za-z0-9_\-]+)[ \t]*=")


def read_toml(text: str, file: str) -> Document:
    """Return a TOML text as data, with the line of every key. Raises ``ConfigError`` where it is not valid.

    >>> document = read_toml("[training]\\nseq_len = 8192", "a.toml")
    >>> document.data["training"]["seq_len"], document.lines[("training", "seq_len")]
    (8192, 2)
    """
    try:
        data = _toml().loads(text)
    except (ValueError, RecursionError) as error:
        what = "nested too deeply" if isinstance(error, RecursionError) else error
        raise ConfigError([Problem(f"not valid TOML: {what}", file=file)]) from None
    if not _is_small(data):
        raise ConfigError([Problem(f"more than {MAX_NODES:,} values, or deeper than {MAX_DEPTH} levels", file=file)])
    lines: dict[Path, int] = {}
    section: Path = ()
    for number, line in enumerate(text.split("\n"), 1):
        if match := SECTION.match(line):
            section = tuple(match[1].split("."))
            lines.setdefault(section, number)
        elif match := ENTRY.match(line):
            lines.setdefault((*section, match[1]), number)
    return Document(data, file, lines)


def _is_small(data: Any) -> bool:
    """Return whether data holds no more values, and is no deeper, than a file of this program may be."""
    waiting, count = [(data, 0)], 0
    while waiting:
        value, depth = waiting.pop()
        count += 1
        if depth > MAX_DEPTH or count > MAX_NODES:
            return False
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        waiting += [(each, depth + 1) for each in inner]
    return True


def _toml() -> Any:
    """Return the reader of TOML: Python's own, or before 3.11 the library it came from."""
    for name in ("tomllib", "tomli"):
        try:
            return import_module(name)
        except ImportError:
            continue
    raise MissingExtraError("reading TOML before Python 3.11", "toml")


def is_toml(text: str) -> bool:
    """Return whether a text looks like TOML: its first line that is no comment is a section or an entry."""
    first = next((line for line in text.split("\n") if line.strip() and not line.lstrip().startswith("#")), "")
    return bool(SECTION.match(first) or re.match(r"[A-Za-z0-9_\-.]{1,99}[ \t]*=[ \t]*[\"'\[{0-9tf]", first))


def has_sections(text: str) -> bool:
    """Return whether a text has lines that begin a section of TOML: [training]."""
    return any(SECTION.match(line) for line in text.split("\n"))
