"""YAML as its users believe it to be: YAML 1.2 numbers, no surprises, and a line for every key.

PyYAML's own loaders read ``5e-6`` as a string, ``off`` as False, ``12:30`` as 750, and silently keep the last
of two equal keys. This reader builds plain Python data from the parser's events instead: duplicate keys, tags,
merge keys, several documents, and aliases that expand without bound are errors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field
from functools import lru_cache
from typing import Any

import yaml

from comp_comm.errors import ConfigError, Problem
from comp_comm.records import Record
from comp_comm.structs import struct

Path = tuple[str | int, ...]

MAX_BYTES = 4 * 2**20
MAX_NODES = 200_000  # after aliases are expanded
MAX_DEPTH = 50

_WORDS = {"": None, "~": None, "null": None, "Null": None, "NULL": None, "true": True, "True": True, "TRUE": True,
          "false": False, "False": False, "FALSE": False}  # fmt: skip
_INT = re.compile(r"[-+]?[0-9]{1,4000}$")
_RADIX = re.compile(r"0(?:o[0-7]{1,24}|x[0-9a-fA-F]{1,18})$")  # of more digits it is a text: no number here is so large
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$")
_SPECIAL = re.compile(r"(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$")


@struct
class Document:
    """What a YAML text says, and on which line it says it.

    ``data`` is plain Python (dict, list, str, int, float, bool, None); ``lines`` gives the line of every key
    and item by its path; ``file`` is what messages call the text; ``duplicates`` are keys that are there twice, where
    another tool's file may have them.
    """

    data: Record
    file: str
    lines: dict[Path, int] = field(default_factory=dict)
    duplicates: tuple[str, ...] = ()

    def problem(self, path: Path, message: str) -> Problem:
        """Return a problem at ``path``, with the line of the nearest key that has one."""
        if self.file.startswith("--"):  # a flag: it names its key itself, but no key within that
            return Problem(message, key=dotted(path[1:]) if path and isinstance(path[-1], str) else "", file=self.file)
        line = next((self.lines[path[:n]] for n in range(len(path), 0, -1) if path[:n] in self.lines), None)
        return Problem(message, key=dotted(path), file=self.file, line=line)


def dotted(path: Path) -> str:
    """Return a path as people write it.

    >>> dotted(("sweep", "tp", 2))
    'sweep.tp[2]'
    """
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def resolve_scalar(text: str) -> object:
    """Return the value of a plain scalar by the YAML 1.2 core schema.

    >>> [resolve_scalar(t) for t in ("5e-6", "1e9", "off", "12:30", "010", "0x10", "true", "~")]
    [5e-06, 1000000000.0, 'off', '12:30', 10, 16, True, None]
    """
    if text in _WORDS:
        return _WORDS[text]
    if text[0].isalpha():
        return text  # none of the patterns below begins so
    if _INT.match(text):
        return int(text)
    if _RADIX.match(text):
        return int(text, 0)
    if _FLOAT.match(text):
        return float(text)
    if _SPECIAL.match(text):
        return float(text.replace(".", "", 1))
    return text


def load(text: str | bytes, file: str, foreign: bool = False) -> Document:
    """Parse ``text`` strictly. Raises ``ConfigError`` naming ``file`` and line for whatever is not allowed.

    A ``foreign`` text, another tool's, may merge mappings (``<<``), and have a key twice: both are noted.

    >>> load("latency: 5e-6", "x.yaml").data
    {'latency': 5e-06}
    """
    if len(text) > MAX_BYTES:
        raise ConfigError([Problem(f"is larger than {MAX_BYTES // 2**20} MiB", file=file)])
    builder = _Builder(file, foreign)
    try:
        for event in _events(text):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        tab = mark is not None and "cannot start any token" in str(error.problem) and _letter(text, mark) == "\t"
        what = f"not valid YAML: {'a tab: lines are indented by blanks' if tab else error.problem or error.context}"
        raise ConfigError([Problem(what, file=file, line=mark.line + 1 if mark else None)]) from None
    except (yaml.YAMLError, UnicodeError, ValueError):
        what = "not valid YAML: not text, or a character YAML does not allow"
        raise ConfigError([Problem(what, file=file)]) from None
    if not isinstance(builder.root, dict):
        what = "is empty" if builder.root is None else "must be a mapping of keys to values"
        raise ConfigError([Problem(what, file=file)])
    return Document(builder.root, file, builder.lines, tuple(builder.duplicates))


def _letter(text: str | bytes, mark: yaml.Mark) -> str:
    """Return the letter that a mark is at, none where there is no such line."""
    lines = (text if isinstance(text, str) else text.decode("utf-8", "replace")).splitlines()
    return lines[mark.line][mark.column : mark.column + 1] if mark.line < len(lines) else ""


@lru_cache(maxsize=128)
def load_shared(text: str | bytes, file: str) -> Document:
    """Return `load` of a text, the same document where it was asked for before: nobody may change it."""
    return load(text, file)


def load_value(text: str, file: str, name: str) -> Document:
    """Parse ``text`` as the value of one key ``name`` (as ``--set name=text`` needs it)."""
    builder = _Builder(file)
    try:
        for event in _events(text):
            builder.take(event)
    except (yaml.YAMLError, UnicodeError, ValueError):
        raise ConfigError([Problem(f"'{text}' is not a value YAML can read", key=name, file=file)]) from None
    return Document({name: builder.root}, file)


def _events(text: str | bytes) -> Iterator[yaml.Event]:
    loader = getattr(yaml, "CLoader", yaml.Loader)  # only its parser is used: nothing is constructed
    parsed: Iterator[yaml.Event] = yaml.parse(text, Loader=loader)
    return parsed


class _Builder:
    """Builds data from events with its own stack, so that depth and size are bounded."""

    def __init__(self, file: str, foreign: bool = False) -> None:
        self.file, self.foreign = file, foreign
        self.duplicates: list[str] = []
        self.root: Any = None
        self.lines: dict[Path, int] = {}
        self._stack: list[tuple[Any, Path, str | None]] = []  # container, its path, its anchor
        self._key: list[str | None] = []
        self._anchors: dict[str, tuple[Any, int, int]] = {}  # value, nodes, levels
        self._nodes = 0
        self._documents = 0

    def take(self, event: Any) -> None:
        if isinstance(event, yaml.ScalarEvent):  # most are
            self._scalar(event)
        elif isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                self._fail(event, "one document a file: '---' starts a second one")
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event)
        elif isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            self._open(event)
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            container, _, anchor = self._stack.pop()
            self._key.pop()
            if anchor:
                self._anchors[anchor] = (container, *_extent(container))

    def _fail(self, event: Any, message: str) -> None:
        line = event.start_mark.line + 1 if event.start_mark else None
        raise ConfigError([Problem(message, file=self.file, line=line)])

    def _count(self, event: Any, nodes: int) -> None:
        self._nodes += nodes
        if self._nodes > MAX_NODES:
            self._fail(event, f"more than {MAX_NODES:,} values (aliases counted as often as they are used)")

    def _deepen(self, event: Any, levels: int) -> None:
        if len(self._stack) + levels > MAX_DEPTH:
            self._fail(event, f"nested deeper than {MAX_DEPTH} levels")

    def _refuse_tag(self, event: Any) -> None:
        if event.tag is not None:
            self._fail(event, f"tags are not allowed ('{event.tag}')")

    def _alias(self, event: Any) -> None:
        if event.anchor not in self._anchors:
            self._fail(event, f"alias '*{event.anchor}' is not defined before its use (or contains itself)")
        value, size, levels = self._anchors[event.anchor]
        self._count(event, size)
        self._deepen(event, levels)
        self._place(event, value)

    def _scalar(self, event: Any) -> None:
        self._refuse_tag(event)
        self._count(event, 1)
        if self._stack and isinstance(self._stack[-1][0], dict) and self._key[-1] is None:
            self._take_key(event)
            return
        value = resolve_scalar(event.value) if event.implicit[0] else event.value
        if event.anchor:
            self._anchors[event.anchor] = (value, 1, 0)
        self._place(event, value)

    def _take_key(self, event: Any) -> None:
        mapping, path, _ = self._stack[-1]
        key, line = str(event.value), event.start_mark.line + 1
        place: Path = (*path, key)
        if event.implicit[0] and key == "<<" and not self.foreign:
            self._fail(event, "merge keys ('<<') are not allowed; use 'extends' in a hardware profile")
        if key in mapping and (place in self.lines or not self.foreign):
            first = self.lines[place]
            where = f"lines {first} and {line}" if first != line else f"line {line}, twice"
            if not self.foreign:
                self._fail(event, f"duplicate key '{dotted(place)}' ({where})")
            self.duplicates.append(f"{dotted(place)} ({where})")
        mapping[key] = None
        self.lines[place] = line
        self._key[-1] = key

    def _open(self, event: Any) -> None:
        self._refuse_tag(event)
        self._count(event, 1)
        self._deepen(event, 1)
        container: Any = {} if isinstance(event, yaml.MappingStartEvent) else []
        path = self._place(event, container)
        self._stack.append((container, path, event.anchor))
        self._key.append(None)

    def _place(self, event: Any, value: Any) -> Path:
        if not self._stack:
            self.root = value
            return ()
        container, path, _ = self._stack[-1]
        if isinstance(container, dict):
            key = self._key[-1]
            if key is None:
                self._fail(event, "a key must be a plain word")
            self._key[-1] = None
            if key == "<<" and self.foreign:
                return self._merge(event, container, path, value)
            container[key] = value
            return (*path, key or "")
        container.append(value)
        place: Path = (*path, len(container) - 1)
        self.lines[place] = event.start_mark.line + 1
        return place

    def _merge(self, event: Any, container: dict[str, Any], path: Path, value: Any) -> Path:
        """Take what another mapping has and this one has not."""
        container.pop("<<", None)
        for each in value if isinstance(value, list) else [value]:
            if not isinstance(each, dict):
                self._fail(event, "what is merged ('<<') must be a mapping, by its alias")
            self._count(event, len(each))
            for name, inner in each.items():
                container.setdefault(name, inner)
        return path


def _extent(value: Any) -> tuple[int, int]:
    """Return how many values a container holds, itself included, and how many levels deep it is."""
    if not isinstance(value, (dict, list)):
        return 1, 0
    parts = [_extent(item) for item in (value.values() if isinstance(value, dict) else value)]
    return 1 + sum(nodes for nodes, _ in parts), 1 + max((levels for _, levels in parts), default=0)
