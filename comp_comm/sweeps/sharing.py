"""What many rows of a table of layouts have in common, worked out once.

Most of a step's arithmetic is that of a layer, and it depends on few of a layout's numbers (TP and micro-batch, not
the stages or replicas). Where layouts move together along one axis, such a part of a cost model is evaluated on the
distinct rows of those numbers, and every layout sees its own row of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from comp_comm.configs.axes import Axis, AxisColumn
from comp_comm.costmodels.model import Parts, SharedPart
from comp_comm.distinct import DistinctRows, distinct_rows
from comp_comm.formulas.arrays import WHOLE, Array, Index, take, to_float
from comp_comm.hardware.numbers import Hardware
from comp_comm.layout import STAGE, Layout, resolved_layout
from comp_comm.records import Record
from comp_comm.sweeps.grid import Grid
from comp_comm.views import view_of

SHARED_POINTS = 2**20  # of rows that points share: so many are worked out together
PLACEMENT = "placement"
DEGREES = {"dp": ("dp", "gpus"), "pp": ("pp",)}
# What says where on the network each group is.
PLACED = ("tp", "cp", "dp", "pp", "ep", "etp", "gpus", PLACEMENT)


@dataclass(frozen=True, eq=False)
class PointsOfRows:
    """How the points of a block see shared rows: the row of each along one axis, and their part of the other axes."""

    axis: int
    row: NDArray[np.intp]
    part: Index

    def pick(self, array: Array) -> Array:
        """Return a number of the shared rows for each point; numbers may have more axes before those of the grid.

        >>> PointsOfRows(0, np.array([0, 1, 0]), (WHOLE,)).pick(to_float([5.0, 7.0]))
        array([5., 7., 5.])
        """
        if not array.ndim:
            return array
        more = array.ndim - len(self.part)
        array = take(array, (*(WHOLE,) * more, *self.part))
        axis = self.axis + more
        return array if array.shape[axis] == 1 else array.take(self.row, axis=axis)


class Made(NamedTuple):
    """A part that was made of shared rows: for which other points, and what."""

    others: tuple[object, ...]
    part: Any


@dataclass(eq=False)
class SharedRows:
    """The parts of a grid's cost model that many points have in common: found once, made when they are asked for.

    The last one made of each part is kept.
    """

    grid: Grid
    _tables: dict[str, tuple[int, DistinctRows] | None] = field(default_factory=dict)
    _made: dict[str, Made] = field(default_factory=dict)

    def parts(self, index: Index) -> Parts:
        """Return the parts that points of a block share, as they see them."""
        return {name: view for name, part in self.grid.model.parts.items()
                if (view := self._view(name, part, index)) is not None}  # fmt: skip

    def _view(self, name: str, part: SharedPart, index: Index) -> object:
        if name not in self._tables:
            self._tables[name] = self._table(part)
        table = self._tables[name]
        if table is None:
            return None
        axis, rows = table
        others = tuple(WHOLE if i == axis else each for i, each in enumerate(index))
        unbounded = (WHOLE,) * len(index)
        # Few enough for all choices at once: then every block takes its part of them.
        everywhere = rows.first.size * self.grid.points // len(self.grid.axes[axis]) <= SHARED_POINTS
        made = self._make(name, part, unbounded if everywhere else others, table)
        return view_of(made, PointsOfRows(axis, rows.row[index[axis]], others if everywhere else unbounded).pick)

    def _make(self, name: str, part: SharedPart, others: Index, table: tuple[int, DistinctRows]) -> object:
        """Return a part made of the distinct rows, for a part of the other axes."""
        key = tuple((each.start, each.stop) if isinstance(each, slice) else id(each) for each in others)
        made = self._made.get(name)
        if made is None or made.others != key:
            axis, rows = table
            columns: Record = {
                field: values.part(rows.first)
                if isinstance(values, AxisColumn)
                else tuple(values[i] for i in rows.first)
                for field, values in self.grid.axes[axis].values.items()
            }
            axes = (*self.grid.axes[:axis], Axis(columns), *self.grid.axes[axis + 1 :])
            made = self._made[name] = Made(key, part.make(replace(self.grid, axes=axes).scenario(others)[0]))
        return made.part

    def _table(self, part: SharedPart) -> tuple[int, DistinctRows] | None:
        """Return the longest axis, and those of its rows that differ in what matters, where they are few."""
        grid = self.grid
        axis = max(range(len(grid.axes)), key=lambda i: len(grid.axes[i]), default=None)
        if axis is None or not set(part.needs) <= set(grid.names):
            return None
        values = grid.axes[axis].values
        along = tuple(WHOLE if i == axis else slice(0, 1) for i in range(len(grid.axes)))
        placed = all(grid.axis_of(name) in (None, axis) for name in PLACED)  # elsewhere a row has several places
        ignored = (*part.ignores, PLACEMENT) if placed else _ignored(part, grid.words(PLACEMENT))
        if not set(values) & set(ignored):
            return None
        columns = [grid.values(name, along).reshape(-1) for name in values if name not in ignored]
        if placed and part.groups:
            experts = bool(np.any(grid.values("experts", (WHOLE,) * len(along)) > 0))
            hardware, _ = grid.hardware((WHOLE,) * len(along))
            columns += places(part, resolved_layout(grid.noun(Layout, along)), experts, hardware)
        table = distinct_rows(columns, len(grid.axes[axis]))
        return (axis, table) if 2 * table.first.size <= len(grid.axes[axis]) else None


def places(part: SharedPart, layout: Layout, experts: bool, hardware: Hardware) -> list[Array]:
    """Return how many neighbours of each group there are and how far apart, as far as the network tells.

    Those that share no domain of any tier, but the outermost, may be as far apart as they like; so may groups of one.
    """
    domains = [to_float(tier.domain) for tier in hardware.tiers]
    furthest = max(float(np.max(domain, where=np.isfinite(domain), initial=1.0)) for domain in domains)
    names = STAGE if experts and not part.exchanges else part.groups
    spread = [(to_float(getattr(layout, name)), layout.stride(name)) for name in names]
    if experts and part.exchanges:
        spread += [*layout.spread(STAGE, layout.ep, layout.etp), *layout.spread(STAGE, layout.etp)]
    numbers = []
    for size, stride in spread:
        numbers += [size, np.where(size > 1, np.minimum(stride, furthest), 0.0)]
    return [number.reshape(-1) for number in numbers if number.size > 1]


def _ignored(part: SharedPart, placements: tuple[str, ...]) -> tuple[str, ...]:
    """Return the fields that do not matter where groups are placed in one order; none where the order moves.

    Degrees nearer the inside than those of a layer move its devices apart.
    """
    if len(placements) != 1:
        return ()
    order = placements[0].split("-")
    inside = [name for name, last in (("dp", ("tp", "cp")), ("pp", ("tp", "cp", "dp")))
              if order.index(name) < max(order.index(other) for other in last)]  # fmt: skip
    moved = {name for group in inside for name in DEGREES[group]}
    return tuple(name for name in part.ignores if name not in moved)
