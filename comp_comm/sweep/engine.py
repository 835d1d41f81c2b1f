"""The sweep engine: the grid in blocks, the best rows or all of them.

The cost model runs once per block of the open grid. Its arrays have only the axes they depend on, so that is cheap;
what joins all axes (a ratio, say) is then made tile by tile, each small enough to stay in the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comp_comm.configs.axes import Axis
from comp_comm.costmodels.breakdown import COLUMNS, Breakdown
from comp_comm.formulas.arrays import Array, Index
from comp_comm.sweep.plan import FEASIBLE, REASON, Plan

BLOCK_POINTS = 2**22
TILE_POINTS = 2**15
SAMPLE_POINTS = 2**14
FINITE = np.finfo(np.float64).max
Progress = Callable[[int], None]


def blocks(shape: Sequence[int], most: int) -> Iterator[tuple[slice, ...]]:
    """Yield slices that cut a grid into blocks of at most ``most`` points, in row order.

    Trailing axes stay whole as far as they fit, so that a block is contiguous.

    >>> [block for block in blocks((2, 3), 3)]
    [(slice(0, 1, None), slice(0, 3, None)), (slice(1, 2, None), slice(0, 3, None))]
    """
    size, split = 1, len(shape)
    while split and size * shape[split - 1] <= most:
        split -= 1
        size *= shape[split]
    whole = tuple(slice(0, n) for n in shape[split:])
    if not split:
        yield whole
        return
    step = max(1, most // size)
    cut = [slice(start, min(start + step, shape[split - 1])) for start in range(0, shape[split - 1], step)]
    for lead in product(*(range(n) for n in shape[: split - 1])):
        for part in cut:
            yield (*(slice(i, i + 1) for i in lead), part, *whole)


def extent(index: tuple[slice, ...]) -> tuple[int, ...]:
    """Return the shape of a block."""
    return tuple(part.stop - part.start for part in index)


def inside(outer: tuple[slice, ...], inner: tuple[slice, ...]) -> tuple[slice, ...]:
    """Return a tile of a block as slices of the whole grid."""
    return tuple(slice(o.start + i.start, o.start + i.stop) for o, i in zip(outer, inner, strict=True))


@dataclass(frozen=True)
class _Tile:
    """One tile: its columns by name, made when asked for."""

    plan: Plan
    index: Index
    shape: tuple[int, ...]
    breakdown: Breakdown

    def column(self, name: str) -> NDArray[Any]:
        """Return a column on the axes it depends on."""
        if name in COLUMNS:
            return np.asarray(COLUMNS[name].of(self.breakdown))
        if name == FEASIBLE:
            return ~self.breakdown.broken()
        return self.plan.grid.column(name, self.index)

    def kept(self, wanted: NDArray[np.bool_] | None = None) -> NDArray[np.bool_] | None:
        """Return which points pass every condition (and ``wanted``); None for all of them."""
        mask = wanted
        for condition in self.plan.where:
            holds = condition.holds(self.column)
            outputs = any(name in COLUMNS for name in condition.columns)
            holds = holds & self.column(FEASIBLE) if outputs else holds
            mask = holds if mask is None else mask & holds
        return mask

    def reasons(self) -> NDArray[Any]:
        """Return why each point is infeasible, empty where it is feasible."""
        text = np.zeros(self.shape, dtype=object)
        text[...] = ""
        for violation in self.breakdown.violations:
            broken = np.broadcast_to(violation.broken, self.shape)
            text = np.where(broken, np.where(text == "", violation.reason, text + ("; " + violation.reason)), text)
        return text


def _tiles(plan: Plan, block: tuple[slice, ...]) -> Iterator[_Tile]:
    breakdown = plan.evaluate(block)
    for tile in blocks(extent(block), TILE_POINTS):
        yield _Tile(plan, inside(block, tile), extent(tile), breakdown.at(tile))


@dataclass
class Rows:
    """Rows of a sweep as columns: numbers, words or truth, with None where there is no number."""

    columns: dict[str, NDArray[Any]]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()))) if self.columns else 0


def row_blocks(plan: Plan, columns: Sequence[str], progress: Progress | None = None) -> Iterator[Rows]:
    """Yield the rows of the whole grid, block by block, in order; those that fail a condition are left out."""
    for block in blocks(plan.grid.shape, TILE_POINTS):
        for tile in _tiles(plan, block):
            kept = tile.kept()
            keep = slice(None) if kept is None else np.flatnonzero(np.broadcast_to(kept, tile.shape))
            yield _rows(tile, columns, keep)
        if progress:
            progress(int(np.prod(extent(block), dtype=np.int64)))


def _rows(tile: _Tile, columns: Sequence[str], keep: Any) -> Rows:
    feasible = np.broadcast_to(tile.column(FEASIBLE), tile.shape).reshape(-1)[keep]
    found: dict[str, NDArray[Any]] = {}
    for name in columns:
        if name == REASON:
            found[name] = tile.reasons().reshape(-1)[keep]
            continue
        values = np.broadcast_to(tile.column(name), tile.shape).reshape(-1)[keep]
        if name in COLUMNS and not feasible.all():
            values = np.where(feasible, values, np.nan)
        found[name] = values
    return Rows(found)


@dataclass
class _Best:
    """The best rows so far: their flat indices and values, and the value a new one must beat."""

    count: int
    threshold: float
    values: Array = field(default_factory=lambda: np.empty(0))
    flat: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def add(self, values: Array, flat: NDArray[np.int64]) -> None:
        values, flat = np.concatenate([self.values, values]), np.concatenate([self.flat, flat])
        order = np.lexsort((flat, -values))[: self.count]
        self.values, self.flat = values[order], flat[order]
        if len(order) == self.count:
            self.threshold = float(self.values[-1])


def ranked_blocks(
    plan: Plan,
    columns: Sequence[str],
    by: str,
    count: int,
    ascending: bool = False,
    progress: Progress | None = None,
) -> Iterator[Rows]:
    """Yield the ``count`` rows with the largest (or smallest) value of column ``by``, best first.

    Rows with equal values come in row order; which of several equal ones at the edge are among them is fixed but
    not specified. Interrupting it (``KeyboardInterrupt``) yields the best so far before the interrupt goes on.
    """
    # The longest axis last: inner loops are then long, whatever order the study names its axes in.
    order = sorted(range(len(plan.grid.axes)), key=lambda axis: plan.grid.shape[axis])
    turned = _reordered(plan, order)
    best = _Best(count, _sample_threshold(turned, by, count, ascending))
    try:
        for block in blocks(turned.grid.shape, BLOCK_POINTS):
            for tile in _tiles(turned, block):
                _rank(tile, by, ascending, plan.grid.shape, order, best)
                if progress:
                    progress(int(np.prod(tile.shape, dtype=np.int64)))
    except KeyboardInterrupt:
        yield from _points(plan, columns, best.flat)
        raise
    yield from _points(plan, columns, best.flat)


def _reordered(plan: Plan, order: Sequence[int]) -> Plan:
    return replace(plan, grid=replace(plan.grid, axes=tuple(plan.grid.axes[axis] for axis in order)))


def _scores(tile: _Tile, by: str, ascending: bool) -> NDArray[Any]:
    """Return what is to be large, minus infinity where a point does not count; broadcastable to the tile."""
    values = tile.column(by)
    values = -values if ascending else values
    broken = tile.breakdown.broken()
    mask = tile.kept(~broken if broken.any() else None)
    return values if mask is None else np.where(mask, values, -np.inf)


def _sample_threshold(plan: Plan, by: str, count: int, ascending: bool) -> float:
    """Return a value that at least ``count`` points reach: the first tiles then need no sorting.

    The ``count``-th best of any part of the grid will do; a coarse one with the ends of every axis is near.
    """
    shape = plan.grid.shape
    if plan.grid.points <= SAMPLE_POINTS:
        return -np.inf
    most = max(2, int(SAMPLE_POINTS ** (1 / max(1, sum(n > 1 for n in shape)))))
    index: Index = tuple(np.unique(np.linspace(0, n - 1, min(n, most)).astype(np.intp)) for n in shape)
    sample = tuple(len(part) for part in index)  # type: ignore[arg-type]
    scores = _scores(_Tile(plan, index, sample, plan.evaluate(index)), by, ascending)
    flat = np.broadcast_to(scores, sample).reshape(-1)
    return float(np.sort(flat)[-count]) if flat.size >= count else -np.inf


def _rank(tile: _Tile, by: str, ascending: bool, shape: tuple[int, ...], order: Sequence[int], best: _Best) -> None:
    scores = _scores(tile, by, ascending)
    full = len(best.flat) == best.count
    if not (scores.max() > best.threshold if full else scores.max() >= best.threshold):
        return
    scores = np.broadcast_to(scores, tile.shape).reshape(-1)
    # Before `count` rows are found the threshold is only a bound that they reach, so equal values count.
    place = np.flatnonzero(scores > best.threshold if full else scores >= max(best.threshold, -FINITE))
    if place.size > best.count:
        edge = np.partition(scores[place], place.size - best.count)[place.size - best.count]
        above, equal = place[scores[place] > edge], place[scores[place] == edge]
        place = np.concatenate([above, equal[: best.count - above.size]])
    local = np.unravel_index(place, tile.shape)
    where = {axis: local[i] + tile.index[i].start for i, axis in enumerate(order)}  # type: ignore[union-attr]
    flat = np.ravel_multi_index(tuple(where[axis] for axis in range(len(shape))), shape) if shape else place
    best.add(scores[place], np.asarray(flat, dtype=np.int64))


def _points(plan: Plan, columns: Sequence[str], flat: NDArray[np.int64]) -> Iterator[Rows]:
    """Yield the rows at flat indices of the grid: a table of points is a grid of one axis."""
    if not flat.size:
        return
    places = np.unravel_index(flat, plan.grid.shape) if plan.grid.shape else ()
    values = {
        name: tuple(labels[int(i)] for i in place)
        for axis, place in zip(plan.grid.axes, places, strict=True)
        for name, labels in axis.values.items()
    }
    table = replace(plan, grid=replace(plan.grid, axes=(Axis(values),) if values else ()))
    index = tuple(slice(0, n) for n in table.grid.shape)
    yield _rows(_Tile(table, index, table.grid.shape, table.evaluate(index)), columns, slice(None))


__all__ = ["Rows", "blocks", "ranked_blocks", "row_blocks"]
