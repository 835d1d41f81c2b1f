"""What a field is: a name, a type, bounds, and how a raw value becomes one of its values."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from numbers import Real
from typing import Literal

from comp_comm.choice import Choice
from comp_comm.errors import nearest
from comp_comm.structs import struct

Value = int | float | str

_SUFFIX = r"([-+]?[0-9]+(?:\.[0-9]+)?)\s*([KMBGT%])$"
COUNTED = 1e12  # what may be so many is a count, and may be written 2T
LISTED = 8  # of more words only so many are listed
_BINARY_SUFFIX = {"K": 1024, "M": 1024**2}
_DECIMAL_SUFFIX = {"K": 1e3, "M": 1e6, "B": 1e9, "G": 1e9, "T": 1e12}  # of what is no whole number: tokens, parameters


@struct
class Field:
    """One field: its name, type, bounds and meaning.

    ``low`` and ``high`` are inclusive; ``words`` are values that are not numbers (all of them, for a choice, where they
    are those of the class ``choice``); ``solve`` is the span `compcomm solve` searches. A text is ``checked`` by what
    raises ``ValueError`` for one that says nothing. ``essential`` fields say what a model is made of: a cost model that
    does not take one refuses the models that have it.
    """

    name: str
    group: Literal["transformer", "layout", "evolution", "convention"]
    kind: Literal["int", "float", "choice", "text"]
    help: str
    unit: str = ""
    low: float = 1
    high: float = 1e9
    words: tuple[str, ...] = ()
    default: Value | None = None
    solve: tuple[float, float] | None = None
    choice: type[Choice] | None = None
    checked: Callable[[str], None] | None = None
    essential: bool = False

    @property
    def flag(self) -> str:
        """The command-line flag of this field."""
        return "--" + self.name.replace("_", "-")

    def allowed(self) -> str:
        """Return what a value may be, in words."""
        if self.choice is not None and self.choice.allowed():
            return self.choice.allowed()
        if self.kind == "choice":
            listed = self.words[:LISTED]
            more = f", ... ({len(self.words)} in all)" if len(self.words) > LISTED else ""
            return "one of: " + ", ".join(listed) + more if self.words else "a name"
        if self.kind == "text":
            return "a text"
        number = "a whole number" if self.kind == "int" else "a number"
        extra = f", or '{self.words[0]}'" if self.words else ""
        suffix = " (1K = 1024)" if self.kind == "int" else " (1T = 1e12)" if self.high >= COUNTED else ""
        turned_on = self.essential and self.kind == "int" and self.default is None and self.low > 0
        absent = "; to have none, leave it out" if turned_on else ""
        return f"{number} from {short(self.low)} to {short(self.high)}{suffix}{extra}{absent}"

    def parse(self, raw: object) -> Value:
        """Return ``raw`` (as YAML or a flag gives it) as a value of this field.

        Raises ``ValueError`` saying what is wrong and what is allowed.

        >>> Field("hidden", "transformer", "int", "").parse("64K")
        65536
        """
        if self.kind == "choice":
            word = self._word(raw)
            if isinstance(word, str) and (word in self.words or not self.words):
                return word
            guess = nearest(raw, self.words) if isinstance(raw, str) else ""
            raise ValueError(
                f"{_show(raw)} is not allowed{guess or ';'} {'M' if guess else 'm'}ust be {self.allowed()}"
            )
        if self.kind == "text":
            return self._text(raw)
        if isinstance(raw, str) and raw in self.words:
            return raw
        return self.check(self.number(raw))

    def _text(self, raw: object) -> str:
        if isinstance(raw, bool) or not isinstance(raw, (str, int)):
            raise ValueError(f"{_show(raw)} is not allowed; must be {self.allowed()}")
        if self.checked is not None:
            self.checked(str(raw))
        return str(raw)

    def _word(self, raw: object) -> object:
        """Return the word that ``raw`` means: YAML's true and false are on and off, a whole number is its digits."""
        if isinstance(raw, bool) and "on" in self.words:
            return "on" if raw else "off"
        if isinstance(raw, str) and raw not in self.words:  # FP8, BF16, as data sheets write them
            raw = next((word for word in self.words if word.lower() == raw.lower()), raw)
        return raw if self.choice is None else self.choice.spelled(raw)

    def check(self, number: float) -> int | float:
        """Return ``number`` if it is within this field's bounds, as int for a whole-number field."""
        if not math.isfinite(number):
            raise ValueError(f"must be a finite number, not {number}")
        if self.kind == "int" and number != int(number):
            raise ValueError(f"{short(number)} is not a whole number; must be {self.allowed()}")
        if not self.low <= number <= self.high:
            raise ValueError(f"{short(number)} is out of range; must be {self.allowed()}")
        return int(number) if self.kind == "int" else float(number)

    def number(self, raw: object) -> float:
        """Return ``raw`` as a number, its suffix counted, its bounds not checked; ``ValueError`` where it is none."""
        number = self._number(raw)
        if number is None:
            raise ValueError(f"{_show(raw)} is not a number{self._meant(raw)}; must be {self.allowed()}")
        return number

    def _number(self, raw: object) -> float | None:
        if isinstance(raw, str):
            match = re.match(_SUFFIX, raw.strip())
            scales = _BINARY_SUFFIX if self.kind == "int" else _DECIMAL_SUFFIX if self.high >= COUNTED else {}
            if match and match.group(2) in scales:
                return float(match.group(1)) * scales[match.group(2)]
            if match and match.group(2) == "%" and self.kind == "float":
                return float(match.group(1)) / 100
        elif isinstance(raw, Real) and not isinstance(raw, bool):
            try:
                return float(raw)
            except OverflowError:
                raise ValueError(f"is out of range; must be {self.allowed()}") from None
        return None

    def _meant(self, raw: object) -> str:
        """Return how a number that is written as elsewhere (8k, 2x, 4,000) is written here."""
        plain = str(raw).strip().upper().removesuffix("TOKENS").removesuffix("X").replace(",", "").strip()
        plainly = re.fullmatch(r"[-+]?[0-9]+(\.[0-9]+)?", plain)
        return f": write {plain}" if plainly or self._number(plain) is not None else ""


def short(number: float) -> str:
    """Return a number as people write it, a whole one with its thousands.

    >>> short(2.0**20), short(0.25)
    ('1,048,576', '0.25')
    """
    return f"{int(number):,}" if number == int(number) and abs(number) < 1e12 else f"{number:g}"


def _show(raw: object) -> str:
    if raw is None:
        return "an empty value"
    if isinstance(raw, (list, dict)):
        return "a list" if isinstance(raw, list) else "a mapping"
    return f"'{str(raw).lower() if isinstance(raw, bool) else str(raw)[:60]}'"


def word(name: str, group: str, choice: type[Choice], help_text: str, default: str | None,
          words: tuple[str, ...] = ()) -> Field:  # fmt: skip
    """Return a field whose values are words of a choice: all of them, or ``words``."""
    if default is not None:
        choice.of(default)
    return Field(name, group, "choice", help_text, words=words or choice.words(), default=default, choice=choice)  # type: ignore[arg-type]
