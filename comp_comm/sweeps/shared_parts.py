"""What many rows of a table of layouts have in common, evaluated once.

Most of a step's arithmetic is that of a layer, and it depends on few of a layout's numbers (TP and micro-batch, not
the stages or replicas). Where layouts move together along one axis, such a part of a cost model is evaluated on the
distinct rows of those numbers, and gathered from there for every layout.

For instance: a search of GPT-3 175B on 64 A100 with a batch of 128 has 16,250 rows of degrees and placements. They have
216 different layers: GEMMs depend on tp, cp and micro_batch alone. With collectives, which depend on where a group is
on the network as well, they are 702. `SharedPart.ignores` lists what a part does not depend on (pp, vpp, dp, ...).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from comp_comm.configs.axes import Axis, AxisColumn
from comp_comm.costmodels.model import Parts, SharedPart
from comp_comm.distinct import DistinctRows, distinct_rows, used_codes
from comp_comm.formulas.arrays import WHOLE, Array, Index, distinct, take, to_float
from comp_comm.group import Group
from comp_comm.hardware.numbers import Hardware
from comp_comm.layout import Layout, resolved_layout
from comp_comm.placement import PLACEMENT_FIELDS, fields_that_move_a_layer
from comp_comm.records import Record
from comp_comm.structs import struct
from comp_comm.sweeps.grid import Grid
from comp_comm.timing.members import closes_to_rings, filled_axes, members_in
from comp_comm.views import Pick, lazy_view

SHARED_POINTS = 2**20  # of rows that points share: so many are worked out together
MOST_ROWS = 2**17  # more of them are not worked out together: arrays would not fit the cache
PLACEMENT = "placement"


@struct
class Gather:
    """How numbers of shared rows become those of a block's points: gathered along one axis, cut along the others."""

    axis: int
    row: NDArray[np.intp]  # of each point along that axis
    part: Index  # of the other axes

    def pick(self, array: Array) -> Array:
        """Return a number of the shared rows for each point; numbers may have more axes before those of the grid.

        >>> Gather(0, np.array([0, 1, 0]), (WHOLE,)).pick(to_float([5.0, 7.0]))
        array([5., 7., 5.])
        """
        if not array.ndim:
            return array
        more = array.ndim - len(self.part)
        array = take(array, (*(WHOLE,) * more, *self.part))
        axis = self.axis + more
        return array if array.shape[axis] == 1 else array.take(self.row, axis=axis)


class MadePart(NamedTuple):
    """A part that was made of shared rows, and for which part of the other axes."""

    others: Index
    part: Any

    def is_for(self, others: Index) -> bool:
        """Return whether it was made for this part of the other axes: the same slices, and the very same arrays."""
        return all(each == other if isinstance(each, slice) and isinstance(other, slice) else each is other
                   for each, other in zip(self.others, others, strict=True))  # fmt: skip


@dataclass(eq=False)
class SharedRows:
    """The parts of a grid's cost model that many points have in common: found once, made when they are asked for.

    Rows are looked for along the longest axis alone, which a search's layouts are; a part is shared where at most half
    of the rows differ in what it depends on. It is made in one of three ways (`_view`):

    - of all distinct rows and for all values of the other axes, where that is few enough (`SHARED_POINTS`): once;
    - of all distinct rows, for those values of the other axes that a block has, where it depends on them: the last one
      made is kept, as blocks that follow each other want the same;
    - of the rows of a block alone, where a model asks for that (``by_block``) or there are too many (`MOST_ROWS`).
    """

    grid: Grid
    # Of each part, along which axis points share it and which rows of that are distinct; None where too few share it.
    _tables: dict[str, tuple[int, DistinctRows] | None] = field(default_factory=dict)
    # The last one made of each, which the next block often wants as well.
    _made: dict[str, MadePart] = field(default_factory=dict)
    _columns: dict[str, Array] = field(default_factory=dict)

    def parts(self, index: Index) -> Parts:
        """Return views of the parts that points of a block share: each is made when something of it is asked for."""
        return {name: lazy_view(partial(self._view, name, part, index, table))
                for name, part in self.grid.model.parts.items() if (table := self._shared(name, part))}  # fmt: skip

    def _shared(self, name: str, part: SharedPart) -> tuple[int, DistinctRows] | None:
        if name not in self._tables:
            self._tables[name] = self._distinct_rows_of(part)
        return self._tables[name]

    def _view(self, name: str, part: SharedPart, index: Index, table: tuple[int, DistinctRows]) -> tuple[object, Pick]:
        """Return a part made of shared rows, and what gathers its numbers for the points of a block.

        The part is made for the same part of every other axis that it depends on. Along the others its arrays have
        length 1, whatever part of them the block has: so that one part is right for many blocks, it is made for all.
        """
        axis, rows = table
        matters = [i != axis and self._matters(part, i) for i in range(len(index))]
        others_made = tuple(each if matter else WHOLE for each, matter in zip(index, matters, strict=True))
        others_taken = tuple(WHOLE if matter or i == axis else index[i] for i, matter in enumerate(matters))
        if part.by_block or rows.first.size > MOST_ROWS:
            used, row = used_codes(rows.row[index[axis]], rows.first.size)
            return self._make(part, others_made, axis, rows.first[used]), Gather(axis, row, others_taken).pick
        # Few enough for all values of the other axes at once: then every block takes its part of them.
        others = prod(len(each) for each, matter in zip(self.grid.axes, matters, strict=True) if matter)
        if rows.first.size * others <= SHARED_POINTS:
            others_made, others_taken = (
                (WHOLE,) * len(index),
                tuple(WHOLE if i == axis else each for i, each in enumerate(index)),
            )
        made = self._made_or_kept(name, part, others_made, axis, rows.first)
        return made, Gather(axis, rows.row[index[axis]], others_taken).pick

    def _matters(self, part: SharedPart, axis: int) -> bool:
        """Return whether a part depends on any field of an axis."""
        return not set(self.grid.axes[axis].values) <= set(part.ignores)

    def _made_or_kept(
        self, name: str, part: SharedPart, others_made: Index, axis: int, first: NDArray[np.intp]
    ) -> object:
        """Return a part made of distinct rows, for a part of the other axes: the last one made, if it was that."""
        made = self._made.get(name)
        if made is None or not made.is_for(others_made):
            made = self._made[name] = MadePart(others_made, self._make(part, others_made, axis, first))
        return made.part

    def _make(self, part: SharedPart, others_made: Index, axis: int, first: NDArray[np.intp]) -> object:
        """Return a part made of some rows, for a part of the other axes; it may see other parts, as they share them."""
        columns: Record = {
            field: values.part(first) if isinstance(values, AxisColumn) else tuple(values[i] for i in first)
            for field, values in self.grid.axes[axis].values.items()
        }
        axes = (*self.grid.axes[:axis], Axis(columns), *self.grid.axes[axis + 1 :])
        index = tuple(first if i == axis else each for i, each in enumerate(others_made))
        return part.make(replace(self.grid, axes=axes).scenario(others_made), self.parts(index))

    def _distinct_rows_of(self, part: SharedPart) -> tuple[int, DistinctRows] | None:
        """Return the longest axis, and those of its rows that differ in what matters, where they are few."""
        grid = self.grid
        axis = max(range(len(grid.axes)), key=lambda i: len(grid.axes[i]), default=None)
        if axis is None or not set(part.needs) <= set(grid.names):
            return None
        values = grid.axes[axis].values
        # With one of these on another axis, a row has several places.
        placed = all(grid.axis_of(name) in (None, axis) for name in PLACEMENT_FIELDS)
        if part.groups is None:
            ignored = part.ignores
        else:
            ignored = (*part.ignores, PLACEMENT) if placed else _ignored(part, grid.words(PLACEMENT))
        if not set(values) & set(ignored):
            return None
        told = [name for name in values if name not in ignored]
        columns = self._members(axis, part.groups) if placed and part.groups else []
        table = self._distinct(axis, told, columns)
        return (axis, table) if 2 * table.first.size <= len(grid.axes[axis]) else None

    def _numbers(self, axis: int, name: str) -> Array:
        """Return the numbers of a field along an axis, of words their places (`Grid.values`)."""
        if name not in self._columns:
            along = tuple(WHOLE if i == axis else slice(0, 1) for i in range(len(self.grid.axes)))
            self._columns[name] = self.grid.values(name, along).reshape(-1)
        return self._columns[name]

    def _distinct(self, axis: int, names: Sequence[str], others: Sequence[Array] = ()) -> DistinctRows:
        """Return the distinct rows of some fields along an axis, and of ``others``.

        Columns that name rows of one shorter table are told apart there.
        """
        tables: dict[int, list[AxisColumn]] = {}
        columns = list(others)
        for name in names:
            values = self.grid.axes[axis].values[name]
            if isinstance(values, AxisColumn) and not values.straight:
                tables.setdefault(id(values.rows), []).append(values)
            else:
                columns.append(self._numbers(axis, name))
        for of_table in tables.values():
            short = distinct_rows([column.table for column in of_table], of_table[0].table.size)
            columns.append(to_float(short.row).take(of_table[0].rows))
        return distinct_rows(columns, len(self.grid.axes[axis]))

    def _members(self, axis: int, groups: Callable[[Layout, bool], Sequence[Group]]) -> list[Array]:
        """Return a code of how many members of each group share a domain of each tier, worked out where degrees
        differ."""
        grid, values = self.grid, self.grid.axes[axis].values
        placed = [name for name in (*PLACEMENT_FIELDS, "dp_shard") if name in values]
        if not placed:
            return []
        rows = self._distinct(axis, placed)
        along = tuple(rows.first if i == axis else slice(0, 1) for i in range(len(grid.axes)))
        layout = resolved_layout(grid.noun(Layout, along))
        experts = bool(np.any(grid.values("experts", (WHOLE,) * len(along)) > 0))
        hardware, _ = grid.hardware((WHOLE,) * len(along))
        numbers = [number.reshape(-1) for number in members(groups(layout, experts), hardware) if number.size > 1]
        return [to_float(distinct_rows(numbers, rows.first.size).row).take(rows.row)]


def members(groups: Sequence[Group], hardware: Hardware) -> list[Array]:
    """Return the size of each group, how many of its members share a domain of each tier but the outermost, and how
    many axes of a torus they fill.

    That is all that the network knows of a group. Where domains move, it is said of each of their sizes.
    """
    sizes = distinct(np.concatenate([to_float(tier.domain).reshape(-1) for tier in hardware.tiers]))
    tiers = [replace(hardware.tiers[0], domain=size) for size in sizes[np.isfinite(sizes)]]
    collected = []
    for group in groups:
        collected += [to_float(group.size), *(members_in(tier, group) for tier in tiers)]
        collected += [filled_axes(tier, group) for tier in hardware.tiers if closes_to_rings(tier)]
    return collected


def _ignored(part: SharedPart, placements: tuple[str, ...]) -> tuple[str, ...]:
    """Return the fields that do not matter where groups are placed in one order; none where the order moves.

    Degrees nearer the inside than those of a layer move its devices apart.
    """
    if len(placements) != 1:
        return ()
    moved = fields_that_move_a_layer(placements[0])
    return tuple(name for name in part.ignores if name not in moved)
