"""Braces outside quotes that stand for several words: ``{a,b}``, ``{1..8}``, ``{08..10}``, ``{a..e}``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from comp_comm.configs.importers.shell_scope import ShellLimitError

MOST = 1000  # words that one word with braces becomes
RANGE = re.compile(r"(-?[0-9]{1,9}|[A-Za-z])\.\.(-?[0-9]{1,9}|[A-Za-z])(?:\.\.(-?[0-9]{1,9}))?")


class WordPiece(NamedTuple):
    """A part of a word: its text, whether blanks cut it, whether a word ends after it, whether braces mean something.

    Those of ``bare`` do: letters of the script itself, outside quotes.
    """

    text: str
    cut: bool = False
    ends: bool = False
    bare: bool = False


Atom = str | WordPiece  # a letter outside quotes, or a part that is taken as it is


def spread(pieces: Sequence[WordPiece]) -> list[list[WordPiece]]:
    """Return the words, in pieces, that one word becomes. Raises ``ShellLimitError`` where there are too many.

    >>> ["".join(piece.text for piece in word) for word in spread([WordPiece("x{1..2}{a,b}", bare=True)])]
    ['x1a', 'x1b', 'x2a', 'x2b']
    """
    if not any(piece.bare and "{" in piece.text for piece in pieces):
        return [list(pieces)]
    atoms: list[Atom] = []
    for piece in pieces:
        atoms += list(piece.text) if piece.bare else [piece]
    return [[WordPiece(each) if isinstance(each, str) else each for each in word] for word in _alternatives(atoms)]


def _alternatives(atoms: list[Atom]) -> list[list[Atom]]:
    for begin, end, commas in _braces(atoms):
        inside = atoms[begin + 1 : end]
        if commas:
            bounds = [begin, *commas, end]
            parts = [each for one, other in pairwise(bounds) for each in _alternatives(atoms[one + 1 : other])]
        else:
            ranged = _range("".join(each if isinstance(each, str) else "\0" for each in inside))
            if ranged is None:
                continue
            parts = [list(each) for each in ranged]
        rest = _alternatives(atoms[end + 1 :])
        if len(parts) * len(rest) > MOST:
            raise ShellLimitError(f"has braces that make more than {MOST:,} words")
        return [[*atoms[:begin], *part, *more] for part in parts for more in rest]
    return [atoms]


def _braces(atoms: Sequence[Atom]) -> Iterator[tuple[int, int, list[int]]]:
    """Yield where braces that belong together are, and the commas of theirs, the first to open first."""
    open_: list[tuple[int, list[int]]] = []
    closed: list[tuple[int, int, list[int]]] = []
    for place, atom in enumerate(atoms):
        if atom == "{":
            open_.append((place, []))
        elif atom == "," and open_:
            open_[-1][1].append(place)
        elif atom == "}" and open_:
            begin, commas = open_.pop()
            closed.append((begin, place, commas))
    yield from sorted(closed)


def _range(text: str) -> list[str] | None:
    """Return what a range stands for; None where it is none.

    >>> _range("08..10"), _range("a..c"), _range("5..1..2"), _range("a..3")
    (['08', '09', '10'], ['a', 'b', 'c'], ['5', '3', '1'], None)
    """
    match = RANGE.fullmatch(text)
    if match is None or match[1].isalpha() != match[2].isalpha():
        return None
    letters = match[1].isalpha()
    first, last = (ord(match[1]), ord(match[2])) if letters else (int(match[1]), int(match[2]))
    step = abs(int(match[3] or 1)) or 1
    if abs(last - first) // step >= MOST:
        raise ShellLimitError(f"has braces that make more than {MOST:,} words")
    numbers = range(first, last + 1, step) if first <= last else range(first, last - 1, -step)
    if letters:
        return [chr(number) for number in numbers]
    padded = any(re.match(r"-?0[0-9]", each) for each in (match[1], match[2]))
    return [f"{number:0{max(len(match[1]), len(match[2])) if padded else 1}d}" for number in numbers]
