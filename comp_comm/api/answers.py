"""Answers as Python has them: rows with what they mean, for people, for NumPy, and for pandas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from comp_comm.errors import MissingExtraError
from comp_comm.formulas.arrays import AnyArray
from comp_comm.lazy import cached_property
from comp_comm.records import Record, Records
from comp_comm.report.table import column_format, setup_line
from comp_comm.sweeps.result import Result

if TYPE_CHECKING:
    import pandas

SHOWN_ROWS, SHOWN_COLUMNS = 10, 9


class Table:
    """Rows of an answer: ``columns`` by name as arrays (NaN where there is no number), and ``meta``, what they are.

    A table is a sequence of rows, each a dictionary of plain Python values with None where there is nothing to say;
    ``table["step_s"]`` is a column.

    >>> table = Table([{"tp": 1, "step_s": 2.0}, {"tp": 2, "step_s": None}], {"title": "Two points"})
    >>> len(table), table["step_s"], table.to_records()[1]
    (2, array([ 2., nan]), {'tp': 2, 'step_s': None})
    >>> table
    Two points: 2 rows of 2 columns
    <BLANKLINE>
      tp    step (s)
    ----  ----------
       1           2
       2           -
    """

    def __init__(self, records: Records, meta: Mapping[str, Any], shown: Sequence[str] = ()) -> None:
        """Hold the rows; ``shown`` are the columns that a short text of them has, all if none is named."""
        self._records = records
        self.meta: Record = dict(meta)
        self._shown = tuple(shown)

    @cached_property
    def columns(self) -> dict[str, AnyArray]:
        """Each column as an array: numbers as float64 with NaN for None, words as objects."""
        names = dict.fromkeys(name for row in self._records for name in row)
        return {name: _array([row.get(name) for row in self._records]) for name in names}

    def to_records(self) -> Records:
        """Return the rows as dictionaries of plain Python values, None where there is no number."""
        return [dict(row) for row in self._records]

    def to_pandas(self) -> pandas.DataFrame:
        """Return the rows as a data frame, with ``meta`` in its ``attrs``.

        Raises ``MissingExtraError`` where pandas is not installed.
        """
        try:
            import pandas
        except ImportError:
            raise MissingExtraError("a data frame", "pandas") from None
        frame: pandas.DataFrame = pandas.DataFrame(self.to_records())
        frame.attrs["meta"] = self.meta
        return frame

    def __len__(self) -> int:
        return len(self._records)

    def _first(self, count: int) -> Records:
        """Return the first rows."""
        return self._records[:count]

    def __iter__(self) -> Iterator[Record]:
        return iter(self.to_records())

    def __getitem__(self, name: str) -> AnyArray:
        """Return a column. Raises ``KeyError`` for a name that is none."""
        return self.columns[name]

    def __repr__(self) -> str:
        return f"{self._summary()}\n\n{self._text('simple')}{self._rest()}"

    def _repr_html_(self) -> str:
        from html import escape

        rest = self._rest().strip()
        return f"<p>{escape(self._summary())}</p>{self._text('html')}" + (f"<p>{escape(rest)}</p>" if rest else "")

    def _summary(self) -> str:
        setup = setup_line(self.meta) if "fixed" in self.meta else ""
        title = str(self.meta.get("title") or setup or self.meta.get("command") or "Answer")
        return f"{title}: {len(self):,} rows of {len(self.columns)} columns"

    def _text(self, style: str) -> str:
        from tabulate import tabulate

        known = [name for name in self._shown if name in self.columns] or list(self.columns)
        names, rows = known[:SHOWN_COLUMNS], self._first(SHOWN_ROWS)
        formats = [column_format(name, [row.get(name) for row in rows]) for name in names]
        cells = [[show(row.get(name)) for name, (_, show) in zip(names, formats, strict=True)] for row in rows]
        aligned = ["left" if self.columns[name].dtype == object else "right" for name in names]
        headers = [header for header, _ in formats]
        return tabulate(cells, headers, tablefmt=style, disable_numparse=True, colalign=aligned if cells else None)

    def _rest(self) -> str:
        rows = f"{len(self) - SHOWN_ROWS:,} rows more" if len(self) > SHOWN_ROWS else ""
        left = len(self.columns) - min(len(self._shown) or len(self.columns), SHOWN_COLUMNS)
        columns = f"{left} columns more (.columns)" if left > 0 else ""
        more = ", ".join(text for text in (rows, columns) if text)
        return f"\n... {more}" if more else ""


class SweepTable(Table):
    """The rows of a sweep, which may be millions: held as arrays, made into rows when they are asked for."""

    def __init__(self, result: Result, shown: Sequence[str] = ()) -> None:
        """Hold the result of a sweep."""
        super().__init__([], result.meta, shown)
        self._result = result

    @cached_property
    def columns(self) -> dict[str, AnyArray]:
        """Each column as an array (NaN where a row is infeasible)."""
        return dict(self._result.columns)

    def to_records(self) -> Records:
        """Return the rows as dictionaries of plain Python values, None where there is no number."""
        return self._result.to_records()

    def __len__(self) -> int:
        return len(self._result)

    def _first(self, count: int) -> Records:
        return Result({name: values[:count] for name, values in self.columns.items()}, self.meta).to_records()


def _array(values: list[Any]) -> AnyArray:
    if all(value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)) for value in values):
        return np.asarray([np.nan if value is None else value for value in values], np.float64)
    if all(isinstance(value, bool) for value in values):
        return np.asarray(values)
    held = np.empty(len(values), object)
    held[:] = values
    return held


class PointAnswer(dict[str, Any]):
    """The answer about one point, as JSON has it: a dictionary, with its longest list as rows.

    ``rows`` is the key of that list (the operations of `explain`, the parts of `memory`, the layouts of a search).
    """

    def __init__(self, record: Mapping[str, Any], rows: str, table: Table, lines: Sequence[str] = ()) -> None:
        """Hold a record, the key of its list, the list as a table, and what a short text begins with."""
        super().__init__(record)
        self.rows, self.table, self._lines = rows, table, tuple(lines)

    @property
    def meta(self) -> Record:
        """What the numbers are: study, hardware, fixed fields, notes."""
        return dict(self["meta"])

    def to_records(self) -> Records:
        """Return the list as dictionaries of plain Python values."""
        return self.table.to_records()

    def to_pandas(self) -> pandas.DataFrame:
        """Return the list as a data frame. Raises ``MissingExtraError`` where pandas is not installed."""
        return self.table.to_pandas()

    def __repr__(self) -> str:
        return "\n".join([*self._lines, "", repr(self.table)])

    def _repr_html_(self) -> str:
        from html import escape

        return "".join(f"<p>{escape(line)}</p>" for line in self._lines) + self.table._repr_html_()
