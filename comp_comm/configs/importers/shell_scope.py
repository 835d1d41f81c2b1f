"""What a shell knows while a script is read: variables, the script's arguments, and how much it may still make.

What a script leaves to its caller ($1, a variable of the environment) is a mark, `UNSET`, so that whoever reads the
words can tell; what depends on a condition that the script does not decide is another, `UNDECIDED`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

UNSET, UNDECIDED = "\ue000", "\ue001"  # of Unicode's private use: no script holds them (see `shell_tree`)
ShellValue = str | list[str] | dict[str, str]
MARK = re.compile(f"[{UNSET}{UNDECIDED}]([^{UNSET}{UNDECIDED}]*)[{UNSET}{UNDECIDED}]")
SHOWN = 60  # characters of what a mark is for
HIDDEN = 0xE100  # where letters that mean something to a shell are, in the name of a mark
HOLDS_FLAGS = "--"  # before the name in a mark of `UNDECIDED`: it may hold arguments

MAX_TEXT = 8 * 2**20  # characters that all expansions of a script make together
WORD = 20  # characters that a word counts as beside its own
COPIED_IN_A_STEP = 50  # variables
MAX_STEPS = 50_000  # commands and words that are gone through, loops counted as often as they run


class ShellLimitError(Exception):
    """A script that makes more than is read of it."""


@dataclass
class Limits:
    """How much a script may still do, and may still make."""

    steps: int = MAX_STEPS
    characters: int = MAX_TEXT
    nested: int = 0

    def step(self, count: int = 1) -> None:
        """Count one command or word, or what takes as long as so many."""
        self.steps -= count
        if self.steps < 0:
            raise ShellLimitError(f"runs more than {MAX_STEPS:,} commands and words")

    def made(self, text: str, words: int = 0) -> str:
        """Count a text that an expansion made, of so many words, and return it."""
        self.characters -= len(text) + WORD * words
        if self.characters < 0:
            raise ShellLimitError(f"expands to more than {MAX_TEXT // 2**20} million characters")
        return text


@dataclass
class Scope:
    """Variables of a script; ``arguments`` are those it was called with, None where its caller is not known.

    ``integers`` are the variables that are declared as numbers, ``mappings`` those whose elements have names, ``asked``
    those without a value that something depended on, ``script`` is $0 where it is known. An array with gaps is held as
    its elements by their places.
    """

    values: dict[str, ShellValue] = field(default_factory=dict)
    exported: set[str] = field(default_factory=set)
    integers: set[str] = field(default_factory=set)
    mappings: set[str] = field(default_factory=set)
    arguments: list[str] | None = None
    limits: Limits = field(default_factory=Limits)
    asked: dict[str, None] = field(default_factory=dict)
    script: str | None = None

    def value(self, name: str) -> str:
        """Return a variable as one text; a mark where it has no value."""
        if name.isdigit() or name in ("@", "*", "#"):
            return self._argument(name)
        stored = self.values.get(name)
        if stored is None:
            return unset(name)
        if isinstance(stored, str):
            return stored
        first = stored.get("0") if isinstance(stored, dict) else next(iter(stored), None)
        return unset(name) if first is None else first  # of an array, a name alone is its first element

    def list_of(self, name: str) -> list[str]:
        """Return a variable as the words of an array; a plain one is an array of one, one without a value is a mark."""
        if name in ("@", "*"):
            return [unset("@")] if self.arguments is None else list(self.arguments)
        stored = self.values.get(name)
        return [unset(name)] if stored is None else items(stored)

    def element(self, name: str, key: str) -> str:
        """Return one element of an array, or of a mapping."""
        stored = self.values.get(name)
        if isinstance(stored, dict):
            numbered = [place for place in stored if place.isdigit()] if re.fullmatch(r"-[0-9]{1,9}", key) else []
            key = numbered[int(key)] if 0 < -int(key if numbered else 0) <= len(numbered) else key
            return stored.get(key, unset(f"{name}[{key}]"))
        if UNSET in key or UNDECIDED in key or (isinstance(stored, str) and UNDECIDED in stored):
            return undecided(name, *([] if stored is None else items(stored)))
        listed = [] if stored is None else items(stored)
        place = int(key) if re.fullmatch(r"-?[0-9]{1,9}", key) else 0
        return listed[place] if -len(listed) <= place < len(listed) else unset(f"{name}[{key}]")

    def separators(self) -> str:
        """Return a pattern of what cuts words: blanks, or what the script sets IFS to; nothing where that is empty."""
        letters = self.values.get("IFS")
        if not isinstance(letters, str) or MARK.search(letters):
            return r"[ \t\n]+"
        return f"[{re.escape(letters)}]+" if letters else ""

    def joiner(self) -> str:
        """Return what is between the words of ``"$*"``."""
        letters = self.values.get("IFS")
        return letters[:1] if isinstance(letters, str) and not MARK.search(letters) else " "

    def copied(self) -> dict[str, ShellValue]:
        """Return the variables as they are now; many of them take as long as so many words."""
        self.limits.step(len(self.values) // COPIED_IN_A_STEP)
        return dict(self.values)

    def set(self, name: str, value: ShellValue) -> None:
        """Set a variable."""
        self.values[name] = value

    def _argument(self, name: str) -> str:
        if name == "0":
            return unset(name) if self.script is None else self.script
        if self.arguments is None:
            return unset(name)
        if name == "#":
            return str(len(self.arguments))
        if name in ("@", "*"):
            return (self.joiner() if name == "*" else " ").join(self.arguments)
        place = int(name) if len(name) < 6 else 10**6
        return self.arguments[place - 1] if 0 < place <= len(self.arguments) else ""


def items(value: ShellValue) -> list[str]:
    """Return the words of an array, or the values of a mapping; of a plain value, itself."""
    if isinstance(value, str):
        return [value]
    return list(value) if isinstance(value, list) else list(value.values())


def unset(what: str) -> str:
    """Return what stands for something that the script does not say."""
    return f"{UNSET}{_named(what)}{UNSET}"


def undecided(name: str, *values: str | None) -> str:
    """Return the mark of a variable that depends on a condition; dashes in it say that it may hold arguments."""
    words = [word for value in values if value for word in value.split()]
    dashes = HOLDS_FLAGS if any(word.startswith("--") for word in words) else ""
    return f"{UNDECIDED}{dashes}{_named(name)}{UNDECIDED}"


def _named(what: str) -> str:
    """Return a name as a mark holds it: nothing in it means anything to a shell, should it be read again."""
    name = " ".join(MARK.sub(lambda match: _shown(match[1]), what).split()).replace(UNSET, "").replace(UNDECIDED, "")
    name = name[:SHOWN] + "..." if len(name) > SHOWN else name
    return "".join(
        letter if letter.isalnum() or letter in "_-." else chr(HIDDEN + ord(letter) % 256) for letter in name
    )


def _shown(name: str) -> str:
    return "".join(chr(ord(letter) - HIDDEN) if HIDDEN <= ord(letter) < HIDDEN + 256 else letter for letter in name)


def without_unset(text: str) -> str:
    """Return a text as a shell has it that runs the script with nothing set before: unset variables are empty.

    >>> without_unset(f"a{unset('X')}b"), without_unset(undecided("Y")) == undecided("Y")
    ('ab', True)
    """
    return MARK.sub(lambda match: "" if match[0][0] == UNSET else match[0], text)


def names_in(text: str) -> list[str]:
    """Return the names of the variables that a text has marks of.

    >>> names_in(unset("A") + "x" + undecided("B", "--y"))
    ['A', 'B']
    """
    return [_shown(name.removeprefix(HOLDS_FLAGS)) for name in MARK.findall(text)]


def readable(text: str) -> str:
    """Return a text for a message: a variable without a value by its name.

    >>> readable(unset("$(pwd)") + "/x/" + unset("A"))
    '$(pwd)/x/$A'
    """

    def name(match: re.Match[str]) -> str:
        inner = _shown(match[1].removeprefix(HOLDS_FLAGS))
        return inner if inner.startswith(("$", "`")) else f"${inner}"

    return MARK.sub(name, text)


def is_unset(text: str) -> bool:
    """Return whether something in a text has no value."""
    return UNSET in text


def is_undecided(text: str) -> bool:
    """Return whether something in a text depends on a condition."""
    return UNDECIDED in text


def is_written(text: str) -> bool:
    """Return whether a text is what a command writes, which is not known: set, whatever it is."""
    return text.startswith(UNSET) and _shown(text[1:2]) in ("$", "`")


def joined(outcomes: Sequence[Mapping[str, ShellValue]]) -> dict[str, ShellValue]:
    """Return variables as they are after one of several branches: what differs between them is undecided."""
    values = dict(outcomes[0])
    for name in {name for each in outcomes for name in each}:
        stored = [each.get(name) for each in outcomes]
        if any(value != stored[0] for value in stored):
            values[name] = undecided(name, *(part for value in stored if value is not None for part in items(value)))
    return values
