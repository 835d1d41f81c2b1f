"""The best rows of a grid: points are ranked box by box, and only the rows kept are made.

A box is cut so that many points share few of the cost model's numbers; what it has at best is then found tile by tile.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from comp_comm.configs.axes import Axis
from comp_comm.formulas.arrays import AnyArray, Array, unwarned
from comp_comm.lazy import cached_property
from comp_comm.structs import struct
from comp_comm.sweeps.blocks import box_count, box_size, extent, nth_box
from comp_comm.sweeps.engine import SAMPLE_POINTS, Progress, Rows, Tile, rows_of, sample, tiles
from comp_comm.sweeps.plan import Plan

BLOCK_NUMBERS = 2**18  # what the cost model's arrays hold of a block, all together
BOX_POINTS = 2**24  # what is ranked between two looks at whether to stop, and the least a worker is given
TABLE_POINTS = 2**15


@dataclass
class Best:
    """The best rows so far. Of equal values the earlier rows are better."""

    count: int  # so many are kept
    # What a row must be better than while there are fewer: the `threshold` of what others found elsewhere.
    cutoff: tuple[float, int] = (-np.inf, -1)
    values: Array = field(default_factory=lambda: np.empty(0))  # the larger the better
    flat: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # their numbers in the grid

    @property
    def threshold(self) -> tuple[float, int]:
        """The value, and the row, that a new one must be better than."""
        return (float(self.values[-1]), int(self.flat[-1])) if self.values.size == self.count else self.cutoff

    def add(self, values: Array, flat: NDArray[np.int64]) -> None:
        """Add rows; the best of all remain."""
        flat, first = np.unique(np.concatenate([self.flat, flat]), return_index=True)
        values = np.concatenate([self.values, values])[first]
        order = np.lexsort((flat, -values))[: self.count]
        self.values, self.flat = values[order], flat[order]


@struct
class Ranking:
    """The ``count`` rows of a plan with the largest (or smallest) value of column ``by``.

    The grid is cut into ``boxes``, which can be ranked in any order and anywhere: equal values are told apart by their
    rows, so that what is best does not depend on who came first.
    """

    plan: Plan
    by: str
    count: int
    ascending: bool = False

    @cached_property
    def _box_size(self) -> list[int]:
        return _box_of(self.plan)

    @cached_property
    def _order(self) -> list[int]:
        # The longest last: inner loops are then long, whatever order the study names its axes in.
        return sorted(range(len(self._box_size)), key=lambda axis: self._box_size[axis])

    @cached_property
    def _transposed(self) -> Plan:
        return self.plan.over(*(self.plan.grid.axes[axis] for axis in self._order))

    @cached_property
    def boxes(self) -> int:
        """How many boxes there are."""
        return box_count(self.plan.grid.shape, self._box_size)

    @property
    def box_points(self) -> int:
        """Points of a whole box."""
        return int(np.prod(self._box_size, dtype=np.int64))

    def begin(self) -> Best:
        """Return the best of a coarse part of the grid, with the ends of every axis: few tiles have more to add."""
        best = Best(self.count)
        if self.plan.grid.points > SAMPLE_POINTS:
            index = sample(self._transposed)
            shape = tuple(part.size for part in index)
            self._rank(Tile(self._transposed, index, shape, self._transposed.evaluate(index)), best)
        return best

    def add(self, number: int, best: Best) -> int:
        """Add what a box has among the best; return how many points it has."""
        box = nth_box(self._transposed.grid.shape, [self._box_size[axis] for axis in self._order], number)
        for tile in tiles(self._transposed, box):
            self._rank(tile, best)
        return int(np.prod(extent(box), dtype=np.int64))

    def rows(self, columns: Sequence[str], best: Best) -> Iterator[Rows]:
        """Yield the rows found, best first."""
        yield from _points(self.plan, columns, best.flat)

    def _rank(self, tile: Tile, best: Best) -> None:
        scores, (value, last) = _scores(tile, self.by, self.ascending), best.threshold
        top = scores.max()
        # The corner of a tile is its earliest row: whether one that is only equal could be earlier than the last.
        tied = top >= value and last >= 0 and self._flat(tile, np.zeros(1, np.intp))[0] < last
        if not (top > value or tied):
            return
        scores = np.broadcast_to(scores, tile.shape).reshape(-1)
        place = np.flatnonzero(scores >= value if tied else scores > value)
        if tied:
            place = place[(scores[place] > value) | (self._flat(tile, place) < last)]
        if place.size > best.count:
            edge = np.partition(scores[place], place.size - best.count)[place.size - best.count]
            above, equal = place[scores[place] > edge], place[scores[place] == edge]
            earliest = np.argsort(self._flat(tile, equal))[: best.count - above.size]
            place = np.concatenate([above, equal[earliest]])
        best.add(scores[place], self._flat(tile, place))

    def _flat(self, tile: Tile, place: NDArray[np.intp]) -> NDArray[np.int64]:
        """Return which rows of the sweep points of a tile are, whose axes are in another order."""
        lengths, flat = self.plan.grid.shape, np.zeros(place.shape, np.int64)
        local = np.unravel_index(place, tile.shape) if tile.shape else ()
        for part, where, axis in zip(tile.index, local, self._order, strict=True):
            along = where + part.start if isinstance(part, slice) else part[where]
            flat += along * int(np.prod(lengths[axis + 1 :], dtype=np.int64))
        return flat


def ranked_blocks(
    plan: Plan,
    columns: Sequence[str],
    by: str,
    count: int,
    ascending: bool = False,
    progress: Progress | None = None,
) -> Iterator[Rows]:
    """Yield the ``count`` rows with the largest (or smallest) value of column ``by``, best first.

    Rows with equal values come in row order, and the first of them are kept. Where ``progress`` stops it, the best so
    far are yielded.
    """
    ranking = Ranking(plan, by, count, ascending)
    best = ranking.begin()
    for number in range(ranking.boxes):
        points = ranking.add(number, best)
        if progress and progress(points):
            break
    yield from ranking.rows(columns, best)


def _box_of(plan: Plan) -> list[int]:
    """Return the box in which to rank: the cost model itself tells which axes its arrays have."""
    shape = plan.grid.shape
    answer = plan.evaluate(tuple(slice(0, 2) for _ in shape))
    with unwarned():
        arrays = [np.asarray(array) for array in answer.arrays()]
    supports = {tuple(n > 1 for n in array.shape) or (False,) * len(shape) for array in arrays}
    return box_size(shape, sorted(supports), BLOCK_NUMBERS, BOX_POINTS)


def _scores(tile: Tile, by: str, ascending: bool) -> AnyArray:
    """Return what is to be large, minus infinity where a point does not count; broadcastable to the tile."""
    values = tile.column(by)
    values = -values if ascending else values
    broken = tile.answer.broken
    mask = tile.kept(~broken if broken.any() else None)
    return values if mask is None else np.where(mask, values, -np.inf)


def _points(plan: Plan, columns: Sequence[str], flat: NDArray[np.int64]) -> Iterator[Rows]:
    """Yield the rows at flat indices of the grid, some at a time: a table of points is a grid of one axis."""
    for start in range(0, flat.size, TABLE_POINTS):
        values = plan.grid.at(flat[start : start + TABLE_POINTS])
        table = plan.over(*([Axis(values)] if values else []))
        index = tuple(slice(0, n) for n in table.grid.shape)
        yield rows_of(Tile(table, index, table.grid.shape, table.evaluate(index)), columns, slice(None))
