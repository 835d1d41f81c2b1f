"""Making a table as wide as the terminal: long texts are folded between words, and columns left out last."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

GAP = 2  # blanks between columns
LEAST_TEXT = 16  # a text is folded no narrower, so that it can be read
# Of columns that are no inputs, those kept where there is not room for all.
FIRST = ("time (ms)", "share (%)", "seconds", "exposed (s)", "step_s", "visible_comm_fraction",
         "serialized_comm_fraction", "mfu", "tokens_per_s", "memory_gib", "achieved", "value", "reason",
         "meaning")  # fmt: skip


ASKED = ("cost", "energy")  # there only where somebody gave a price or a power


def fit(
    cells: Sequence[Sequence[str]],
    headers: Sequence[str],
    names: Sequence[str],
    width: int,
    inputs: Sequence[str] = (),
    leave_out: bool = True,
) -> tuple[list[list[str]], list[str], list[str]]:
    """Return cells and headers of a table no wider than ``width`` (0: as wide as it is), and the names left out.

    Without ``leave_out`` texts are folded, and every column stays, however wide that is.

    Headers may have several lines; ``names`` are what columns are called elsewhere, ``inputs`` those kept first.

    >>> fit([["gpt", "a b c d e f g h i j k l m n", "7"]], ["name", "text", "tp"], ["name", "text", "tp"], 26)[0]
    [['gpt', 'a b c d e f g h\\ni j k l m n', '7']]
    >>> fit([["1" * 30, "2" * 30, "3"]], ["a", "b", "c"], ["a", "b", "c"], 40, ["a"])[1:]
    (['a', 'c'], ['b'])
    """
    widths = [_widest([header, *(row[i] for row in cells)]) for i, header in enumerate(headers)]
    if not width or _total(widths) <= width:
        return [list(row) for row in cells], list(headers), []
    columns = [[row[i] for row in cells] for i in range(len(headers))]
    least = [_widest([header]) for header in headers]
    narrow = [min(wide, max(at, LEAST_TEXT, _longest_word(column))) if any(" " in cell for cell in column) else wide
              for wide, at, column in zip(widths, least, columns, strict=True)]  # fmt: skip
    kept = _kept(narrow, names, width, inputs) if leave_out else list(range(len(names)))
    final = _widened([widths[i] for i in kept], [narrow[i] for i in kept], width)
    folded = [[textwrap.fill(cell, size, break_long_words=False, break_on_hyphens=False) if len(cell) > size else cell
               for cell in columns[i]] for i, size in zip(kept, final, strict=True)]  # fmt: skip
    rows = [list(row) for row in zip(*folded, strict=True)]
    return rows, [headers[i] for i in kept], [names[i] for i in range(len(names)) if i not in kept]


def blocks(sizes: Sequence[int], left: int, width: int) -> list[slice]:
    """Return which columns of a pivot go into one table, beside ``left`` characters of row labels.

    >>> blocks([10, 10, 10], 6, 30)
    [slice(0, 2, None), slice(2, 3, None)]
    """
    parts, start, used = [], 0, left
    for i, size in enumerate(sizes):
        if width and i > start and used + GAP + size > width:
            parts.append(slice(start, i))
            start, used = i, left
        used += GAP + size
    return [*parts, slice(start, len(sizes))]


def _kept(widths: Sequence[int], names: Sequence[str], width: int, inputs: Sequence[str]) -> list[int]:
    """Return the places of the columns there is room for: the first one, inputs, then what most people look for."""
    order = sorted(range(len(names)), key=lambda i: (_rank(i, names[i], inputs), i))
    kept: list[int] = []
    for i in order:
        if not kept or _total([widths[k] for k in (*kept, i)]) <= width:
            kept.append(i)
    return sorted(kept)


def _rank(place: int, name: str, inputs: Sequence[str]) -> int:
    if place == 0 or name.startswith(ASKED):
        return -1
    if name in inputs:
        return 0
    return 1 + FIRST.index(name) if name in FIRST else 1 + len(FIRST)


def _widened(wide: Sequence[int], narrow: Sequence[int], width: int) -> list[int]:
    """Give columns that were folded what room is left, the ones that lack most first."""
    sizes = list(narrow)
    room = width - _total(sizes)
    for i in sorted(range(len(sizes)), key=lambda i: sizes[i] - wide[i]):
        more = min(room, wide[i] - sizes[i])
        sizes[i], room = sizes[i] + max(more, 0), room - max(more, 0)
    return sizes


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def _widest(texts: Sequence[str]) -> int:
    return max((len(line) for text in texts for line in text.split("\n")), default=0)


def _longest_word(texts: Sequence[str]) -> int:
    return max((len(word) for text in texts for word in text.split()), default=0)
