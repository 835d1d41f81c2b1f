"""What an expression of a Python file is where nothing is run: a literal, an object that a call makes, a name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

MOST_STEPS = 30_000  # statements and calls that are gone through
DEEPEST = 20  # functions within functions


class CodeLimitError(Exception):
    """A file that does more than is read of it."""


@dataclass
class Made:
    """An object that a call makes, by the name of what is called; ``values`` are its arguments by name, and attributes.

    ``source`` is the object whose method made it. One that ``is_implied`` is an attribute that nothing has set.
    """

    name: str
    args: list[Any] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
    line: int = 0
    source: Any = None
    is_implied: bool = False
    lines: dict[str, int] = field(default_factory=dict)

    @property
    def last(self) -> str:
        """Return the last part of the name.

        >>> Made("a.b.Config").last
        'Config'
        """
        return self.name.rsplit(".", 1)[-1]

    def get(self, name: str) -> Any:
        """Return an attribute: one that nothing has set is an implied object, whose own attributes may be set."""
        if name not in self.values:
            self.values[name] = Made(f"{self.name}.{name}", is_implied=True)
        return self.values[name]

    def set(self, name: str, value: Any, line: int = 0) -> None:
        """Set an attribute."""
        self.values[name] = value
        self.lines[name] = line

    def find(self, *names: str) -> Any:
        """Return what is at the end of a path of attributes, None where something of it is not set."""
        found: Any = self
        for name in names:
            if not isinstance(found, Made) or name not in found.values:
                return None
            found = found.values[name]
        return found


@dataclass(frozen=True)
class Reference:
    """A name that the file does not say the value of: a module, a class, ``torch.bfloat16``."""

    name: str

    @property
    def last(self) -> str:
        """Return the last part of the name."""
        return self.name.rsplit(".", 1)[-1]


@dataclass(frozen=True)
class NotLiteral:
    """A value that is not known without running the file: its text, and the line that it is on."""

    text: str
    line: int = 0


def is_known(value: Any) -> bool:
    """Return whether a value, and everything in it, is a literal.

    >>> is_known([1, "a"]), is_known((NotLiteral("f(x)"),)), is_known(Made("f"))
    (True, False, False)
    """
    if isinstance(value, (Made, NotLiteral, Reference)):
        return False
    if isinstance(value, dict):
        return all(is_known(each) for each in value.values())
    if isinstance(value, (list, tuple, set)):
        return all(is_known(each) for each in value)
    return True
