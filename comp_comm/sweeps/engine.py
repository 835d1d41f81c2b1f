"""The sweep engine: the grid in blocks, the best rows or all of them.

The cost model runs once per block of the open grid. Its arrays have only the axes they depend on, so that is cheap:
a block is cut so that many points share few of its numbers. What joins all axes (a ratio, say) is then made tile by
tile, each small enough to stay in the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from comp_comm.costmodels import Answer
from comp_comm.errors import CompcommError
from comp_comm.formulas.arrays import AnyArray, Index, distinct, unwarned
from comp_comm.structs import struct
from comp_comm.sweeps.blocks import Block, box_count, extent, inside, nth_box, slab_size, slabs
from comp_comm.sweeps.plan import FEASIBLE, REASON, Plan

TILE_POINTS = 2**17
SAMPLE_POINTS = 2**14
# Told of points that are done; returns whether to stop.
Progress = Callable[[int], bool]


@struct
class Tile:
    """One tile: its columns by name, made when asked for."""

    plan: Plan
    index: Index
    shape: tuple[int, ...]
    answer: Answer

    def column(self, name: str) -> AnyArray:
        """Return a column on the axes it depends on."""
        with unwarned():
            if name in self.plan.output_columns:
                return np.asarray(self.plan.output_columns[name].of(self.answer))
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
            outputs = any(name in self.plan.output_columns for name in condition.columns)
            holds = holds & self.column(FEASIBLE) if outputs else holds
            mask = holds if mask is None else mask & holds
        return mask

    def reasons(self) -> AnyArray:
        """Return why each point is infeasible, empty where it is feasible."""
        text = np.full(self.shape, "", dtype=object)
        for violation in self.answer.violations if self.answer.broken.any() else ():
            broken = np.broadcast_to(violation.broken, self.shape)
            text = np.where(broken, np.where(text == "", violation.reason, text + ("; " + violation.reason)), text)
        return text


def tiles(plan: Plan, block: Block) -> Iterator[Tile]:
    """Yield the tiles of a block, which is evaluated once."""
    answer = plan.evaluate(block)
    for tile in slabs(extent(block), TILE_POINTS):
        yield Tile(plan, inside(block, tile), extent(tile), answer.at(tile))


@dataclass
class Rows:
    """Rows of a sweep as columns: numbers, words or truth, with None where there is no number."""

    columns: dict[str, AnyArray]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()))) if self.columns else 0


def row_blocks(plan: Plan, columns: Sequence[str], progress: Progress | None = None) -> Iterator[Rows]:
    """Yield the rows of the whole grid, block by block, in order; those that fail a condition are left out."""
    for number in range(block_count(plan)):
        rows, points = nth_rows(plan, columns, number)
        yield rows
        if progress and progress(points):
            return


def block_count(plan: Plan) -> int:
    """Return in how many blocks the rows of a plan come."""
    return box_count(plan.grid.shape, slab_size(plan.grid.shape, TILE_POINTS))


def nth_rows(plan: Plan, columns: Sequence[str], number: int) -> tuple[Rows, int]:
    """Return the rows of one block by its number, and how many points of the grid it has."""
    block = nth_box(plan.grid.shape, slab_size(plan.grid.shape, TILE_POINTS), number)
    tile = Tile(plan, block, extent(block), plan.evaluate(block))
    kept = tile.kept()
    keep = slice(None) if kept is None else np.flatnonzero(np.broadcast_to(kept, tile.shape))
    return rows_of(tile, columns, keep), int(np.prod(tile.shape, dtype=np.int64))


def rows_of(tile: Tile, columns: Sequence[str], keep: AnyArray | slice | None) -> Rows:
    """Return rows of a tile: those that ``keep`` picks of its points, in row order."""
    feasible = np.broadcast_to(tile.column(FEASIBLE), tile.shape).reshape(-1)[keep]
    arrays: dict[str, AnyArray] = {}
    for name in columns:
        if name == REASON:
            arrays[name] = tile.reasons().reshape(-1)[keep]
            continue
        values = np.broadcast_to(tile.column(name), tile.shape).reshape(-1)[keep]
        if name in tile.plan.output_columns:
            if not np.isfinite(values[feasible]).all():
                raise CompcommError(f"{name} is no finite number at points that break no rule; nothing was written")
            values = values if feasible.all() else np.where(feasible, values, np.nan)
        elif name in tile.plan.model.derived and not feasible.all():
            values = np.where(feasible | (values == np.round(values)), values, np.nan)  # 10.7 replicas are none
        arrays[name] = values
    return Rows(arrays)


def sample(plan: Plan) -> tuple[NDArray[np.intp], ...]:
    """Return some indices along every axis, its ends among them, that span a few thousand points."""
    sizes = plan.grid.shape
    length = max(2, int(SAMPLE_POINTS ** (1 / max(1, sum(n > 1 for n in sizes)))))
    return tuple(distinct(np.linspace(0, n - 1, min(n, length)).astype(np.intp)) for n in sizes)


def reasons(plan: Plan) -> set[str]:
    """Return the rules that points of the grid break, on a sample of it."""
    with unwarned():
        return {violation.reason for violation in plan.evaluate(sample(plan)).violations if violation.broken.any()}
