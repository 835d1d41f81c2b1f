"""What every cost model answers with, and the columns that are made of it.

The arrays of an answer are not broadcast against each other: each has only the axes it depends on. A column (a ratio of
them, say) joins them, and only when it is asked for: that is what makes a sweep of 10^8 points cheap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comp_comm.formulas.arrays import Array, Index, take
from comp_comm.violation import Violation


class Answer:
    """Arrays over a grid, with the rules its points break. Subclasses have the arrays as attributes."""

    violations: tuple[Violation, ...]

    def arrays(self) -> Iterable[Array]:
        """Return the arrays a sweep has to hold, for it to choose how much of a grid it evaluates at once."""
        raise NotImplementedError

    def at(self, index: Index) -> Any:
        """Return the part of every array that lies in a block of the grid (see `take`), cut when it is asked for."""
        return _Part(self, index)

    def part(self, of: Callable[[Any], Array]) -> Array:
        """Return what a function makes of the whole answer; of a block of it, the part that lies there."""
        return of(self)

    @cached_property
    def broken(self) -> NDArray[np.bool_]:
        """Where any rule is broken (0-d False where none is)."""
        result = np.asarray(False)
        for violation in self.violations:
            if violation.broken.any():
                result = result | violation.broken
        return np.asarray(result)


class _Part:
    """A block of an answer: a column mostly needs two of its arrays, so the others are never cut."""

    def __init__(self, whole: Answer, index: Index) -> None:
        self._whole, self._index = whole, index

    def part(self, of: Callable[[Any], Array]) -> Array:
        return take(np.asarray(of(self._whole)), self._index)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._whole, name)
        if name == "violations":
            cut: Any = tuple(replace(rule, broken=take(rule.broken, self._index)) for rule in value)
        else:
            cut = take(value, self._index)
        setattr(self, name, cut)
        return cut


@dataclass(frozen=True)
class Column:
    """An output: its name, unit, meaning, and how it is made of an answer.

    ``needs`` is a field without which it has no value; ``extra`` columns are made only where they are asked for.
    """

    name: str
    unit: str
    help: str
    of: Callable[[Any], Array]
    needs: str = ""
    extra: bool = False


Columns = dict[str, Column]


def table_of(columns: Iterable[Column]) -> Columns:
    """Return columns by name."""
    return {column.name: column for column in columns}
