"""What every cost model answers with, and the columns that are made of it.

The arrays of an answer are not broadcast against each other: each has only the axes it depends on. A column (a ratio of
them, say) joins them, and only when it is asked for: that is what makes a sweep of 10^8 points cheap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Generic, TypeVar

import numpy as np

from comp_comm.formulas.arrays import Array, Index, Mask, take
from comp_comm.lazy import cached_property
from comp_comm.structs import struct
from comp_comm.units import DAY_S, GIB, HOUR_S
from comp_comm.views import view_of
from comp_comm.violation import Violation, broken_rules

AnswerT = TypeVar("AnswerT", bound="Answer")


class Answer:
    """Arrays over a grid, with the rules its points break. Subclasses have the arrays as attributes."""

    violations: tuple[Violation, ...]

    def arrays(self) -> Iterable[Array]:
        """Return the arrays a sweep has to hold, for it to choose how much of a grid it evaluates at once."""
        raise NotImplementedError

    def at(self: AnswerT, index: Index) -> AnswerT:
        """Return the part of every array that lies in a block of the grid (see `take`), cut when it is asked for."""
        return view_of(self, partial(_taken, index=index))

    @cached_property
    def broken(self) -> Mask:
        """Where any rule is broken (0-d False where none is)."""
        result = np.asarray(False)
        for violation in broken_rules(self.violations):
            result = result | violation.broken
        return np.asarray(result)


def _taken(array: Array, index: Index) -> Array:
    return take(array, index)


@struct
class Column(Generic[AnswerT]):
    """An output: its name, unit, meaning, and how it is made of an answer.

    ``needs`` is a field without which it has no value; ``extra`` columns are made only where they are asked for.
    """

    name: str
    unit: str
    help: str
    of: Callable[[AnswerT], Array]
    needs: str = ""
    extra: bool = False


# Columns under their names of the release before: exposed_comm_s is a part only of what the share counts.
OLD_NAMES = {"visible_comm_fraction": "exposed_comm_fraction"}
Columns = dict[str, Column[AnswerT]]


def table_of(columns: Iterable[Column[AnswerT]]) -> Columns[AnswerT]:
    """Return columns by name; one that was renamed is made under its old name too, where that is asked for.

    >>> list(table_of([Column("visible_comm_fraction", "", "", lambda answer: answer)]))
    ['visible_comm_fraction', 'exposed_comm_fraction']
    """
    known = {column.name: column for column in columns}
    for new, old in OLD_NAMES.items():
        if new in known:
            known[old] = replace(known[new], name=old, help=f"the old name of {new}, for one release", extra=True)
    return known


__all__ = ["DAY_S", "GIB", "HOUR_S", "Answer", "AnswerT", "Column", "Columns", "table_of"]
