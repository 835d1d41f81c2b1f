"""CSV as rows of named cells: every row as wide as its header, or the file is refused.

Commas, semicolons and tabs divide cells; a first column without a name is an index (pandas writes one) and left out.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from comp_comm.calibration.readers.text import MOST_SECONDS, first_of, positive, refuse
from comp_comm.lazy import cached_property

# Seconds of a unit that a column's name can end with; of several columns, the first of these is the time.
UNITS = {"s": 1.0, "us": 1e-6, "ms": 1e-3, "ns": 1e-9}
TIMES = {
    "time_s": 1.0, "seconds": 1.0, "time_mean_us": 1e-6, "time_us": 1e-6, "time_ms": 1e-3, "time_ns": 1e-9,
    **{f"{name}_{unit}": UNITS[unit] for name in ("latency", "duration", "median", "p50", "mean", "avg")
       for unit in ("us", "ms", "ns", "s")},
    "us": 1e-6, "ms": 1e-3,
}  # fmt: skip
UNIT_IN_BRACKETS = re.compile(r"[ _]{0,3}[(\[] {0,3}(s|us|ms|ns) {0,3}[)\]]$")
MARKS = (",", "\t", ";")
MOST_COLUMNS = 5_000
NO_ROWS = "has a header and no rows"


@dataclass(frozen=True)
class LogTable:
    """A CSV file: its header, and each row with its line, read as they are asked for, once."""

    file: str
    header: tuple[str, ...]
    rows: Iterator[tuple[int, dict[str, str]]]
    line: int = 1

    @cached_property
    def seconds_column(self) -> tuple[str, float]:
        """The column that has the time, and how many seconds its unit is."""
        plain = {plain_time(name): name for name in reversed(self.header)}
        name = first_of(TIMES, plain)
        if name is None:
            some = ", ".join(("time_s", "time_ms", "time_us", "time_ns", "latency_us", "median_ms", "mean_us", "us"))
            raise refuse(self.file, f"no column has the time and its unit; for instance: {some}", self.line)
        return plain[name], TIMES[name]

    def seconds(self, line: int, row: dict[str, str]) -> float:
        """Return the seconds of a row, 0 where there are none."""
        name, unit = self.seconds_column
        return positive(self.file, line, name, row[name], MOST_SECONDS / unit) * unit if row[name].strip() else 0.0


def plain_time(name: str) -> str:
    """Return the name of a column with its unit as we write it.

    >>> plain_time("time (us)"), plain_time("avg[ms]"), plain_time("m")
    ('time_us', 'avg_ms', 'm')
    """
    return UNIT_IN_BRACKETS.sub(r"_\1", name)


def mark_of(line: str) -> str:
    """Return what divides the cells of a header: the mark it has most of.

    >>> mark_of("m;n;k;time_us"), mark_of("m,n")
    (';', ',')
    """
    return max(MARKS, key=line.count)


def header_of(line: str) -> tuple[str, ...]:
    """Return the names of a header, without case and blanks, and without the name of an index.

    >>> header_of("M, N,K"), header_of(";m;n")
    (('m', 'n', 'k'), ('m', 'n'))
    """
    try:
        cells = next(csv.reader([line], delimiter=mark_of(line), skipinitialspace=True), [])
    except csv.Error:
        return ()
    names = tuple(cell.strip().lower() for cell in cells)
    return names[1:] if _has_index(names) else names


def _has_index(names: tuple[str, ...]) -> bool:
    return len(names) > 2 and names[0] in ("", "unnamed: 0")


def parse(file: str, lines: Iterable[tuple[int, str]]) -> LogTable:
    """Return lines as a table, the first that is not blank its header; names lose case and blanks.

    >>> list(parse("a.csv", [(1, "M,N"), (2, "1,2")]).rows)
    [(2, {'m': '1', 'n': '2'})]
    """
    numbered = iter(lines)
    first, head = next(((number, line) for number, line in numbered if line.strip()), (1, ""))
    names = header_of(head)
    if len(names) > MOST_COLUMNS:
        raise refuse(file, f"has more than {MOST_COLUMNS:,} columns", first)
    double = next((name for name, count in Counter(names).items() if count > 1), None)
    if double is not None:
        raise refuse(file, f"two columns are called '{double[:40]}'", first)
    cells = next(csv.reader([head], delimiter=mark_of(head), skipinitialspace=True), []) if names else []
    return LogTable(file, names, _rows(file, names, numbered, mark_of(head), len(cells) - len(names)), first)


def _rows(
    file: str, names: tuple[str, ...], numbered: Iterator[tuple[int, str]], mark: str, index: int
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the rows below a header; ``index`` is how many cells of each stand before them."""
    at = [0]

    def text() -> Iterator[str]:
        for number, line in numbered:
            at[0] = number
            yield line + "\n"

    any_row = False
    try:
        for cells in csv.reader(text(), delimiter=mark, skipinitialspace=True):
            if not "".join(cells).strip():
                continue
            if len(cells) != len(names) + index:
                what = f"{len(cells)} cell{'s' * (len(cells) != 1)} where the header has {len(names) + index}"
                raise refuse(file, f"{what}: the file is cut off, or not one table", at[0])
            any_row = True
            yield at[0], dict(zip(names, cells[index:], strict=True))
    except csv.Error as error:
        raise refuse(file, f"is not a CSV file: {error}", at[0]) from None
    if not any_row:
        raise refuse(file, NO_ROWS)
