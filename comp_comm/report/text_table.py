"""Cells as lines of text: a plain table for terminals, and one of Markdown.

As the package tabulate writes them (its formats "simple" and "pipe"), which costs a fifth of a command's start to load.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

STYLES = ("table", "markdown")
GAP = "  "


def text_table(cells: Sequence[Sequence[str]], headers: Sequence[str], right: Sequence[bool], style: str) -> str:
    """Return a table in a style of `STYLES`: columns that are ``right`` end at the right, the others begin at the left.

    A header or a cell may have several lines.

    >>> print(text_table([["gemm", "12.5"], ["all_reduce", "3"]], ["name", "time (ms)"], [False, True], "table"))
    name        time (ms)
    ----------  ---------
    gemm             12.5
    all_reduce          3
    >>> print(text_table([["gemm", "12.5"]], ["name", "ms"], [False, True], "markdown"))
    | name |   ms |
    |:-----|-----:|
    | gemm | 12.5 |
    """
    marked = style == "markdown"
    lines = [[[line.strip() for line in text.splitlines()] or [""] for text in row] for row in (headers, *cells)]
    widths = [max(_width(line) for cell in column for line in cell) for column in zip(*lines, strict=True)]
    rows = [_row(parts, widths, right, marked) for row in lines for parts in zip_longest(*row, fillvalue="")]
    rule = _marks(widths, right) if marked else GAP.join("-" * wide for wide in widths).rstrip()
    after = max(map(len, lines[0]), default=0)
    return "\n".join([*rows[:after], rule, *rows[after:]])


def _row(parts: Sequence[str], widths: Sequence[int], right: Sequence[bool], marked: bool) -> str:
    filled = []
    for part, wide, at_end in zip(parts, widths, right, strict=True):
        blanks = " " * (wide - _width(part))
        filled.append(blanks + part if at_end else part + blanks)
    return f"| {' | '.join(filled)} |" if marked else GAP.join(filled).rstrip()


def _marks(widths: Sequence[int], right: Sequence[bool]) -> str:
    marks = ["-" * (wide + 1) + ":" if at_end else ":" + "-" * (wide + 1)
             for wide, at_end in zip(widths, right, strict=True)]  # fmt: skip
    return f"|{'|'.join(marks)}|"


def _width(text: str) -> int:
    """Return the cells of a terminal that a text takes: two for a wide letter, none for a mark over one."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(letter) else 1 + (east_asian_width(letter) in "WF") for letter in text)
