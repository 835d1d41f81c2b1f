"""The sweep engine: the grid in blocks, the best rows or all of them.

The cost model runs once per block of the open grid. Its arrays have only the axes they depend on, so that is cheap:
a block is cut so that many points share few of its numbers. What joins all axes (a ratio, say) is then made tile by
tile, each small enough to stay in the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comp_comm.configs.axes import Axis
from comp_comm.costmodels import Answer
from comp_comm.errors import CompcommError
from comp_comm.formulas.arrays import Array, Index
from comp_comm.sweep.blocks import Block, box_size, boxes, extent, inside, slabs
from comp_comm.sweep.plan import FEASIBLE, REASON, Plan

BLOCK_NUMBERS = 2**18  # what the cost model's arrays hold of a block, all together
TILE_POINTS = 2**17
SAMPLE_POINTS = 2**14
TABLE_POINTS = 2**15
# Told of points that are done; returns whether to stop.
Progress = Callable[[int], bool]


@dataclass(frozen=True)
class _Tile:
    """One tile: its columns by name, made when asked for."""

    plan: Plan
    index: Index
    shape: tuple[int, ...]
    answer: Answer

    def column(self, name: str) -> NDArray[Any]:
        """Return a column on the axes it depends on."""
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            if name in self.plan.made:
                return np.asarray(self.plan.made[name].of(self.answer))
            if name == FEASIBLE:
                return ~self.answer.broken
            if name in self.plan.model.derived:
                return np.asarray(self.plan.model.derived[name](self.answer))
        return self.plan.grid.column(name, self.index)

    def kept(self, wanted: NDArray[np.bool_] | None = None) -> NDArray[np.bool_] | None:
        """Return which points pass every condition (and ``wanted``); None for all of them."""
        mask = wanted
        for condition in self.plan.where:
            holds = condition.holds(self.column)
            outputs = any(name in self.plan.made for name in condition.columns)
            holds = holds & self.column(FEASIBLE) if outputs else holds
            mask = holds if mask is None else mask & holds
        return mask

    def reasons(self) -> NDArray[Any]:
        """Return why each point is infeasible, empty where it is feasible."""
        text = np.full(self.shape, "", dtype=object)
        for violation in self.answer.violations if self.answer.broken.any() else ():
            broken = np.broadcast_to(violation.broken, self.shape)
            text = np.where(broken, np.where(text == "", violation.reason, text + ("; " + violation.reason)), text)
        return text


def _tiles(plan: Plan, block: Block) -> Iterator[_Tile]:
    answer = plan.evaluate(block)
    for tile in slabs(extent(block), TILE_POINTS):
        yield _Tile(plan, inside(block, tile), extent(tile), answer.at(tile))


@dataclass
class Rows:
    """Rows of a sweep as columns: numbers, words or truth, with None where there is no number."""

    columns: dict[str, NDArray[Any]]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()))) if self.columns else 0


def row_blocks(plan: Plan, columns: Sequence[str], progress: Progress | None = None) -> Iterator[Rows]:
    """Yield the rows of the whole grid, block by block, in order; those that fail a condition are left out."""
    for block in slabs(plan.grid.shape, TILE_POINTS):
        for tile in _tiles(plan, block):
            kept = tile.kept()
            keep = slice(None) if kept is None else np.flatnonzero(np.broadcast_to(kept, tile.shape))
            yield _rows(tile, columns, keep)
        if progress and progress(int(np.prod(extent(block), dtype=np.int64))):
            return


def _rows(tile: _Tile, columns: Sequence[str], keep: Any) -> Rows:
    feasible = np.broadcast_to(tile.column(FEASIBLE), tile.shape).reshape(-1)[keep]
    found: dict[str, NDArray[Any]] = {}
    for name in columns:
        if name == REASON:
            found[name] = tile.reasons().reshape(-1)[keep]
            continue
        values = np.broadcast_to(tile.column(name), tile.shape).reshape(-1)[keep]
        if name in tile.plan.made:
            if not np.isfinite(values[feasible]).all():
                raise CompcommError(f"{name} is no finite number at points that break no rule; nothing was written")
            values = values if feasible.all() else np.where(feasible, values, np.nan)
        found[name] = values
    return Rows(found)


@dataclass
class _Best:
    """The best rows so far: their flat indices and values, and the value a new one must beat once there are enough."""

    count: int
    values: Array = field(default_factory=lambda: np.empty(0))
    flat: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    @property
    def threshold(self) -> float:
        return float(self.values[-1]) if self.values.size == self.count else -np.inf

    def add(self, values: Array, flat: NDArray[np.int64]) -> None:
        flat, first = np.unique(np.concatenate([self.flat, flat]), return_index=True)
        values = np.concatenate([self.values, values])[first]
        order = np.lexsort((flat, -values))[: self.count]
        self.values, self.flat = values[order], flat[order]


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
    not specified. Where ``progress`` stops it, the best so far are yielded.
    """
    chunk = _box(plan)
    # The longest last: inner loops are then long, whatever order the study names its axes in.
    order = sorted(range(len(chunk)), key=lambda axis: chunk[axis])
    turned = plan.over(*(plan.grid.axes[axis] for axis in order))
    best, shape = _Best(count), plan.grid.shape
    _rank_sample(turned, by, ascending, shape, order, best)
    cut = boxes(turned.grid.shape, [chunk[axis] for axis in order])
    for tile in (tile for block in cut for tile in _tiles(turned, block)):
        _rank(tile, by, ascending, shape, order, best)
        if progress and progress(int(np.prod(tile.shape, dtype=np.int64))):
            break
    yield from _points(plan, columns, best.flat)


def _box(plan: Plan) -> list[int]:
    """Return the box in which to rank: the cost model itself tells which axes its arrays have."""
    shape = plan.grid.shape
    answer = plan.evaluate(tuple(slice(0, 2) for _ in shape))
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        arrays = [np.asarray(array) for array in answer.arrays()]
    supports = {tuple(n > 1 for n in array.shape) or (False,) * len(shape) for array in arrays}
    return box_size(shape, sorted(supports), BLOCK_NUMBERS)


def _scores(tile: _Tile, by: str, ascending: bool) -> NDArray[Any]:
    """Return what is to be large, minus infinity where a point does not count; broadcastable to the tile."""
    values = tile.column(by)
    values = -values if ascending else values
    broken = tile.answer.broken
    mask = tile.kept(~broken if broken.any() else None)
    return values if mask is None else np.where(mask, values, -np.inf)


def _rank_sample(
    plan: Plan, by: str, ascending: bool, shape: tuple[int, ...], order: Sequence[int], best: _Best
) -> None:
    """Rank a coarse part of the grid first, with the ends of every axis: few tiles then have anything to add."""
    if plan.grid.points <= SAMPLE_POINTS:
        return
    index = _sample(plan)
    sample = _Tile(plan, index, tuple(part.size for part in index), plan.evaluate(index))
    _rank(sample, by, ascending, shape, order, best)


def _sample(plan: Plan) -> tuple[NDArray[np.intp], ...]:
    """Return some indices along every axis, its ends among them, that span a few thousand points."""
    sizes = plan.grid.shape
    most = max(2, int(SAMPLE_POINTS ** (1 / max(1, sum(n > 1 for n in sizes)))))
    return tuple(np.unique(np.linspace(0, n - 1, min(n, most)).astype(np.intp)) for n in sizes)


def _rank(tile: _Tile, by: str, ascending: bool, shape: tuple[int, ...], order: Sequence[int], best: _Best) -> None:
    """Add what a tile has among the best."""
    scores, threshold = _scores(tile, by, ascending), best.threshold
    if not scores.max() > threshold:
        return
    scores = np.broadcast_to(scores, tile.shape).reshape(-1)
    place = np.flatnonzero(scores > threshold)
    if place.size > best.count:
        edge = np.partition(scores[place], place.size - best.count)[place.size - best.count]
        above, equal = place[scores[place] > edge], place[scores[place] == edge]
        place = np.concatenate([above, equal[: best.count - above.size]])
    local = np.unravel_index(place, tile.shape) if tile.shape else ()
    where = {axis: _global(tile.index[i], local[i]) for i, axis in enumerate(order)}
    flat = np.ravel_multi_index(tuple(where[axis] for axis in range(len(shape))), shape) if shape else place
    best.add(scores[place], np.asarray(flat, dtype=np.int64))


def _global(part: slice | NDArray[np.intp], local: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return where on an axis of the grid the points of a tile are."""
    return local + part.start if isinstance(part, slice) else part[local]


def _points(plan: Plan, columns: Sequence[str], flat: NDArray[np.int64]) -> Iterator[Rows]:
    """Yield the rows at flat indices of the grid, some at a time: a table of points is a grid of one axis."""
    for start in range(0, flat.size, TABLE_POINTS):
        values = plan.grid.at(flat[start : start + TABLE_POINTS])
        table = plan.over(*([Axis(values)] if values else []))
        index = tuple(slice(0, n) for n in table.grid.shape)
        yield _rows(_Tile(table, index, table.grid.shape, table.evaluate(index)), columns, slice(None))


def reasons(plan: Plan) -> set[str]:
    """Return the rules that points of the grid break, on a sample of it."""
    return {violation.reason for violation in plan.evaluate(_sample(plan)).violations if violation.broken.any()}


__all__ = ["Rows", "ranked_blocks", "reasons", "row_blocks"]
