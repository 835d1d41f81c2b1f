"""What can go wrong, said to a person: file, line, key, what is wrong, what is allowed."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

MOST_PROBLEMS = 200  # of one input: whoever has more has one cause, or the wrong kind of file
MOST_NAMED = 3  # names of which all parts of a wrong one are parts
LONGEST_NAME = 60  # of what may be a slip of the pen


class Problem(NamedTuple):
    """One thing wrong with an input, and where.

    >>> print(Problem("must be at least 1, not 0", key="set.hidden", file="study.yaml", line=3))
    study.yaml:3: set.hidden: must be at least 1, not 0
    """

    message: str
    key: str = ""
    file: str = ""
    line: int | None = None

    def __str__(self) -> str:
        file = printable(self.file)
        place = file if self.line is None else f"{file}:{self.line}"
        message = "\n".join(map(printable, self.message.split("\n")))
        return ": ".join(part for part in (place, printable(self.key), message) if part)


class CompcommError(Exception):
    """Base of every error a user can cause; ``exit_code`` is what the command line ends with."""

    exit_code = 2


class ConfigError(CompcommError):
    """A wrong input. Holds every problem found, not only the first."""

    def __init__(self, problems: Iterable[Problem] | str):
        self.problems = (Problem(problems),) if isinstance(problems, str) else tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class InfeasibleError(CompcommError):
    """The input is right but no point of it is feasible."""

    exit_code = 3


class CheckFailedError(CompcommError):
    """A check that the user asked for failed (lint, validation, regression)."""

    exit_code = 1


class MissingExtraError(CompcommError):
    """An optional library is not installed."""

    def __init__(self, what: str, extra: str):
        super().__init__(f"{what} needs the extra '{extra}': pip install 'compcomm[{extra}]'")


class Problems:
    """Collects problems so that all of them are shown at once, up to so many that nobody reads on."""

    def __init__(self) -> None:
        self.noted: list[Problem] = []

    def add(self, problem: Problem) -> None:
        """Note one problem (the same one only once). Raises ``ConfigError`` where there are more than are shown."""
        if problem in self.noted:
            return
        self.noted.append(problem)
        if len(self.noted) >= MOST_PROBLEMS:
            more = Problem(f"and more: the first {MOST_PROBLEMS} problems are shown", file=problem.file)
            raise ConfigError([*self._sorted(), more])

    def raise_if_any(self) -> None:
        """Raise ``ConfigError`` with everything found so far, in the order of the lines."""
        if self.noted:
            raise ConfigError(self._sorted())

    def _sorted(self) -> list[Problem]:
        return sorted(self.noted, key=lambda problem: (problem.file, problem.line or 0))


def printable(text: str) -> str:
    """Return a text on one line, what controls a terminal or ends a line written as an escape.

    >>> print(printable("a\\x1b[31m b\\n"))
    a\\x1b[31m b\\n
    """
    return text if text.isprintable() else "".join(map(_escape, text))


def _escape(letter: str) -> str:
    return letter if letter.isprintable() else letter.encode("unicode_escape", "surrogatepass").decode("ascii")


def nearest(name: str, allowed: Collection[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the closest allowed name, or nothing.

    >>> nearest("hiden", ["hidden", "seq_len"])
    "; did you mean 'hidden'?"
    >>> nearest("llama-70b", ["llama-7b", "llama-2-70b", "llama-3-70b"])
    "; did you mean 'llama-2-70b' or 'llama-3-70b'?"
    >>> nearest("zzz", ["hidden"])
    ''
    """
    if len(name) > LONGEST_NAME:
        return ""
    begins = sorted((one for one in allowed if name and one.startswith(name.lower())), key=len)
    if begins:
        return f"; did you mean '{begins[0]}'?"
    parts = set(re.split(r"[-_. ]+", name.lower())) - {""}
    within = [one for one in allowed if len(parts) > 1 and parts <= set(re.split(r"[-_. ]+", one.lower()))]
    if within:
        return f"; did you mean {' or '.join(f'{one!r}' for one in within[:MOST_NAMED])}?"
    import difflib  # here: only what is wrong needs it

    close = difflib.get_close_matches(name.lower().replace("-", "_"), list(allowed), n=1, cutoff=0.6)
    close = close or difflib.get_close_matches(name.lower(), list(allowed), n=1, cutoff=0.6)
    return f"; did you mean '{close[0]}'?" if close else ""


def so_many(number: float, noun: str) -> str:
    """Return how many of something there are, in words that fit one of it too.

    >>> so_many(1, "device"), so_many(2048, "device")
    ('1 device', '2,048 devices')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def one_of(allowed: Sequence[str], most: int = 40) -> str:
    """Return a readable list of allowed values.

    >>> one_of(["a", "b"])
    'allowed: a, b'
    """
    shown = ", ".join(allowed[:most])
    return f"allowed: {shown}" + (f", and {len(allowed) - most} more" if len(allowed) > most else "")
