"""What every importer does: take the keys it knows, and name those it does not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from comp_comm.configs.strict_yaml import Document, Path
from comp_comm.errors import Problem, Problems, nearest, printable
from comp_comm.fields import FIELDS, Value

SHOWN = 60  # characters of a value that a message shows
Given = Mapping[str, Value]
NOTHING: Given = {}
Chosen = TypeVar("Chosen")


@dataclass(frozen=True)
class Imported:
    """What a file says, as fields of a study: ``fields`` are those of the model and of the layout.

    ``model`` is a model of the catalogue (or a path) that the file names instead of describing one, ``needs_model``
    says that it has none. ``notes`` say what is not as the file has it.
    """

    kind: str
    name: str
    title: str
    source: str
    fields: dict[str, Value]
    notes: tuple[str, ...] = ()
    model: str = ""
    hardware: str = ""
    cost_model: str = ""
    year: int = 0
    needs_model: bool = False


@dataclass
class Findings:
    """Fields found so far, with notes and problems.

    ``given`` are fields that the user gives: what the file says of them is not asked. ``ours`` says that the file is
    one of our own, where ``tp: required`` may stand. ``named`` are fields that a problem names already: they are not
    missing, too.
    """

    document: Document
    given: Given = field(default_factory=dict)
    ours: bool = False
    problems: Problems = field(default_factory=Problems)
    fields: dict[str, Value] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    named: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.fields |= self.given
        for key in self.document.duplicates:
            self.note(f"{key} is there twice: the last counts")

    def count(self, name: str, otherwise: int = 1) -> int:
        """Return a field found so far as a whole number; ``otherwise`` where there is none."""
        value = self.fields.get(name, otherwise)
        return otherwise if isinstance(value, str) else int(value)

    def set(self, name: str, raw: object, path: Path = ()) -> None:
        """Set a field to what the key at ``path`` says; note a problem there if the field does not allow it."""
        if name in self.given:
            return
        try:
            value = FIELDS[name].parse(raw)
            if isinstance(value, str) and FIELDS[name].kind not in ("choice", "text") and not self.ours:
                raise ValueError(f"{shown(raw)} is not a number")
        except ValueError as error:
            self.wrong(path, str(error))
            return
        self.fields[name] = value

    def wrong(self, path: Path, message: str) -> None:
        """Note a problem at a key."""
        self.problems.add(self.document.problem(path, message))

    def missing(self, message: str, name: str = "") -> None:
        """Note something that the file does not say, unless the user gives it."""
        if name not in self.given and name not in self.named:
            self.problems.add(Problem(message, file=self.document.file))

    def note(self, text: str) -> None:
        """Note something that a reader should know."""
        text = printable(text)
        if text not in self.notes:
            self.notes.append(text)


class Keys:
    """The keys of one mapping of a file: each is taken, knowingly ignored, or in the end named as not understood."""

    def __init__(self, findings: Findings, mapping: Mapping[str, object], path: Path = ()) -> None:
        self.findings, self.mapping, self.path = findings, mapping, path
        self.used: set[str] = set()

    def has(self, *names: str) -> bool:
        """Return whether one of these keys has a value that is not null."""
        return any(self.mapping.get(name) is not None for name in names)

    def name_of(self, *names: str) -> str | None:
        """Return which of the spellings of a key is there, with a value that is not null."""
        return next((name for name in names if self.mapping.get(name) is not None), None)

    def take(self, *names: str, default: object = None) -> Any:
        """Return the value of a key, under the first of its spellings that is there; null is as if not there."""
        self.used.update(names)
        name = self.name_of(*names)
        return default if name is None else self.mapping[name]

    def place(self, *names: str) -> Path:
        """Return the path of the spelling that is there."""
        return (*self.path, self.name_of(*names) or names[0])

    def set(
        self, name: str, *keys: str, convert: Callable[[object], object] | None = None, default: object = None
    ) -> bool:
        """Set a field from a key; return whether there was one (or a default)."""
        raw = self.take(*keys, default=default)
        if name in self.findings.given:
            return True
        if raw is None:
            return False
        place = self.place(*keys)
        try:
            value = raw if convert is None else convert(raw)
        except (ValueError, TypeError) as error:
            self.findings.wrong(place, str(error))
            return False
        self.findings.set(name, value, place)
        return True

    def number(self, *names: str, default: float | None = None) -> float | None:
        """Return a key's number; a problem where it is none."""
        raw = self.take(*names, default=default)
        if raw is None:
            return None
        if isinstance(raw, bool) or not isinstance(raw, (int, float)):
            self.wrong(names, f"{shown(raw)} is not a number")
            return default
        return raw

    def truth(self, *names: str, default: bool = False) -> bool:
        """Return whether a key is true; a problem where it is neither true nor false."""
        raw = self.take(*names, default=default)
        if not isinstance(raw, bool):
            self.wrong(names, f"{shown(raw)} is neither true nor false")
            return default
        return raw

    def some(self, *names: str) -> bool:
        """Return whether one of several keys is true; all of them are taken."""
        return True in [self.truth(name) for name in names]

    def mapping_of(self, *names: str) -> Keys | None:
        """Return the keys of a nested mapping, None where there is none."""
        raw = self.take(*names)
        if raw is None:
            return None
        if not isinstance(raw, dict):
            self.wrong(names, "must be a mapping of keys to values")
            return None
        return Keys(self.findings, raw, self.place(*names))

    def only(self, name: str, *allowed: object) -> None:
        """Take a key that is understood with these values alone."""
        raw = self.take(name)
        if raw is not None and raw not in allowed:
            self.wrong((name,), f"{shown(raw)} is not understood; {accepted(allowed)}")

    def choice(
        self, names: tuple[str, ...], choices: Mapping[str, Chosen], default: str, only: str = ""
    ) -> Chosen | None:
        """Return what a word stands for; a problem with all that are known, and None, where it is none of them.

        ``only`` says those that are known in fewer words.
        """
        raw = self.take(*names, default=default)
        if isinstance(raw, (str, int, float)) and spelled(raw) in choices:
            return choices[spelled(raw)]
        self.wrong(names, f"{shown(raw)} is not understood; {only or accepted(list(choices))}")
        return None

    def off(self, names: Iterable[str], reason: str = "") -> None:
        """Take features that are off: false, 0, none, nothing in them; one that is on is refused, with the reason."""
        for name in names:
            raw = self.take(name)
            if not is_off(raw):
                why = f" is not modelled: {reason}" if reason else " is not understood"
                self.wrong((name,), f"{shown(raw)}{why}; leave it out, or off")

    def wrong(self, names: tuple[str, ...], message: str) -> None:
        """Note a problem at the spelling of a key that is there."""
        self.findings.wrong(self.place(*names), message)

    def ignore(self, names: Iterable[str]) -> None:
        """Take keys that change nothing a step's time or memory depends on."""
        self.used.update(names)

    def finish(self) -> None:
        """Name every key that nobody took; a key that is null says nothing."""
        for name, value in self.mapping.items():
            if name not in self.used and value is not None:
                guess = nearest(str(name), self.used)
                self.findings.wrong((*self.path, name), f"{shown(value)} is not understood{guess}")


def is_off(value: object) -> bool:
    """Return whether a value says that a feature is off.

    >>> is_off(0), is_off("none"), is_off({"enabled": False}), is_off(1)
    (True, True, True, False)
    """
    if isinstance(value, dict):
        return all(is_off(each) for each in value.values()) or value.get("enabled") is False
    if isinstance(value, str):
        return value.strip().lower() in ("", "none", "null", "false", "no", "off", "0")
    return value is None or value is False or value == 0 or value == []


def accepted(allowed: Sequence[object]) -> str:
    """Return what a refusal says that it would take.

    >>> accepted([False, None]), accepted([None])
    ('only false', 'leave it out')
    """
    choices = [spelled(value) for value in allowed if value not in (None, {}, [], "")]
    return f"only {', '.join(choices)}" if choices else "leave it out"


def spelled(value: object) -> str:
    """Return a value as files spell it.

    >>> spelled(True), spelled("silu")
    ('true', 'silu')
    """
    return str(value).lower() if isinstance(value, bool) else str(value)


def shown(value: object) -> str:
    """Return a value for a message: a long one by its beginning.

    >>> shown(False), shown({"a": 1})
    ("'false'", 'a mapping')
    """
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return f"a list ({', '.join(map(spelled, value[:3]))}{', ...' if len(value) > 3 else ''})"
    text = spelled(value)
    return f"'{text[:SHOWN]}...'" if len(text) > SHOWN else f"'{text}'"
