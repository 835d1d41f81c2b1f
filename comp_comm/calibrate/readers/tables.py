"""CSV as rows of named cells: every row as wide as its header, or the file is refused."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass

from comp_comm.calibrate.readers.text import first_of, positive, refuse

# Seconds of a unit that a column's name can end with.
TIMES = {
    "time_s": 1.0, "seconds": 1.0, "time_mean_us": 1e-6, "time_us": 1e-6, "time_ms": 1e-3, "time_ns": 1e-9,
    "latency_us": 1e-6, "latency_ms": 1e-3,
}  # fmt: skip


@dataclass(frozen=True)
class Table:
    """A CSV file: its header, and each row with its line."""

    file: str
    header: tuple[str, ...]
    rows: list[tuple[int, dict[str, str]]]

    def seconds_column(self) -> tuple[str, float]:
        """Return the column that has the time, and how many seconds its unit is."""
        name = first_of(TIMES, self.header)
        if name is None:
            raise refuse(self.file, f"no column has the time; one of: {', '.join(TIMES)}", 1)
        return name, TIMES[name]

    def seconds(self, line: int, row: dict[str, str]) -> float:
        """Return the seconds of a row, 0 where there are none."""
        name, unit = self.seconds_column()
        return positive(self.file, line, name, row[name]) * unit if row[name].strip() else 0.0


def header_of(line: str) -> tuple[str, ...]:
    """Return the names of a header, without case and blanks.

    >>> header_of("M, N,K")
    ('m', 'n', 'k')
    """
    return tuple(cell.strip().lower() for cell in next(csv.reader([line]), []))


def parse(file: str, text: str, first_line: int = 1) -> Table:
    """Return a CSV text as a table; names in the header lose case and blanks.

    >>> parse("a.csv", "M,N\\n1,2\\n").rows
    [(2, {'m': '1', 'n': '2'})]
    """
    reader = csv.reader(io.StringIO(text))
    header: tuple[str, ...] = ()
    rows = []
    try:
        for cells in reader:
            line = first_line - 1 + reader.line_num
            if not any(cell.strip() for cell in cells):
                continue
            if not header:
                header = tuple(cell.strip().lower() for cell in cells)  # as in `header_of`
            elif len(cells) != len(header):
                what = f"{len(cells)} cell{'s' * (len(cells) != 1)} where the header has {len(header)}"
                raise refuse(file, f"{what}: the file is cut off, or not one table", line)
            else:
                rows.append((line, dict(zip(header, cells, strict=True))))
    except csv.Error as error:
        raise refuse(file, f"is not a CSV file: {error}", first_line - 1 + reader.line_num) from None
    double = next((name for name in header if header.count(name) > 1), None)
    if double is not None:
        raise refuse(file, f"two columns are called '{double}'", first_line)
    if not rows:
        raise refuse(file, "has a header and no rows")
    return Table(file, header, rows)
