"""Placements of a table of degrees: which of them are the same order, and which the network cannot tell apart.

A placement is the order in which groups take devices (`tp-cp-dp-pp`: the members of a TP group are neighbours). Most of
the 24 orders cost the same as another, for two reasons. A group of one device may stand anywhere. And a collective
depends on how many of its members share a domain of each tier: members that are further apart than half of the largest
domain share none, however far apart they are. So placements under which every group of several devices has the same
stride (the devices from one member to the next), as far as that, are one class, of which one is evaluated.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from comp_comm.costmodels.layout_space import Columns
from comp_comm.distinct import distinct_rows
from comp_comm.formulas.arrays import to_float
from comp_comm.hardware.numbers import Hardware
from comp_comm.layout import Layout
from comp_comm.lazy import cached_property
from comp_comm.placement import GROUPS, Placement
from comp_comm.structs import struct


@struct
class PlacementClasses:
    """Classes of placements that cost the same, for each distinct (tp, cp, pp) of a table of degrees."""

    names: tuple[str, ...]  # all placements that are tried
    combination: NDArray[np.intp]  # which distinct (tp, cp, pp) each row of the table has
    class_of: NDArray[np.intp]  # the class of each placement (second axis) at each (tp, cp, pp)
    first_of_order: NDArray[np.bool_]  # the same shape: whether no placement before it is the same order there

    @cached_property
    def counts(self) -> NDArray[np.uint8]:
        """How many layouts each placement stands for at each (tp, cp, pp): 0 where one before it does."""
        columns = []
        for number in range(len(self.names)):
            own = self.class_of[:, number : number + 1]
            first = ~(self.class_of[:, :number] == own).any(axis=1)
            columns.append(np.where(first, ((self.class_of == own) & self.first_of_order).sum(axis=1), 0))
        return np.stack(columns, axis=1).astype(np.uint8)

    def equivalent(self, row: int, placement: int) -> tuple[str, ...]:
        """Return the placements that cost a row of the table the same as one of them does, that one among them."""
        at = self.combination[row]
        same = (self.class_of[at] == self.class_of[at, placement]) & self.first_of_order[at]
        return tuple(self.names[number] for number in np.flatnonzero(same))


def placement_classes(table: Columns, gpus: int, placements: tuple[str, ...], hardware: Hardware) -> PlacementClasses:
    """Return which placements cost the same at each row of a table of degrees."""
    distinct = distinct_rows([to_float(table[name]) for name in ("tp", "cp", "pp")], table["tp"].size)
    tp, cp, pp = (to_float(table[name][distinct.first])[:, None] for name in ("tp", "cp", "pp"))
    codes = to_float([int(Placement.of(name)) for name in placements])[None, :]
    layout = Layout(tp=tp, cp=cp, dp=gpus // (tp * cp * pp), pp=pp, placement=codes)
    # The groups of several devices, as bits.
    several = sum(((getattr(layout, name)[:, 0] > 1).astype(np.intp) << place for place, name in enumerate(GROUPS)))
    largest = _largest_domain(hardware)
    strides, shape = [], (distinct.first.size, len(placements))
    for name in GROUPS:
        stride = np.where(layout.stride(name) > largest / 2, largest, layout.stride(name))
        strides.append(np.broadcast_to(np.where(getattr(layout, name) > 1, stride, 0.0), shape).reshape(-1))
    row = np.repeat(np.arange(distinct.first.size, dtype=float), len(placements))
    class_of = distinct_rows([row, *strides], row.size).row.reshape(-1, len(placements))
    return PlacementClasses(placements, distinct.row, class_of, first_of_orders(placements)[:, several].T)


def _largest_domain(hardware: Hardware) -> float:
    """Return the devices of the largest domain that is not all of the network."""
    domains = [to_float(tier.domain) for tier in hardware.tiers]
    return max(float(np.max(domain, where=np.isfinite(domain), initial=1.0)) for domain in domains)


@cache
def first_of_orders(placements: tuple[str, ...]) -> NDArray[np.bool_]:
    """Return for each placement, and each set of groups with several devices, whether it is the first of that order.

    Groups of one device may stand anywhere: placements that differ only there are one. Sets are numbers whose bits are
    groups, in the order of `GROUPS`.

    >>> first_of_orders(("tp-cp-dp-pp", "cp-tp-dp-pp"))[1, [0b0001, 0b0011]]  # TP alone; TP and CP
    array([False,  True])
    """
    table = np.zeros((len(placements), 2 ** len(GROUPS)), bool)
    for several in range(2 ** len(GROUPS)):
        known: set[tuple[str, ...]] = set()
        for number, placement in enumerate(placements):
            order = tuple(name for name in placement.split("-") if several >> GROUPS.index(name) & 1)
            table[number, several] = order not in known
            known.add(order)
    return table
