"""Placements of a table of degrees: which of them are the same order, and which the network cannot tell apart.

Groups of one device may stand anywhere. And a collective depends on how many of its members share a domain of each
tier: neighbours that are further apart than half of the largest domain share none, however far apart they are. So
placements under which every group of several devices is as far apart, as far as that, cost the same in every way.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from comp_comm.choices import GROUPS, Placement
from comp_comm.costmodels.layout_space import Columns
from comp_comm.distinct import distinct_rows
from comp_comm.formulas.arrays import to_float
from comp_comm.hardware.numbers import Hardware
from comp_comm.layout import Layout
from comp_comm.lazy import cached_property


@dataclass(frozen=True, eq=False)
class PlacementClasses:
    """Classes of placements that cost the same, for each distinct (tp, cp, pp) of a table of degrees.

    ``degrees`` says which of them each row of the table is; ``code`` has the class of every placement there, ``named``
    whether a placement is the first of its order.
    """

    names: tuple[str, ...]
    degrees: NDArray[np.intp]
    code: NDArray[np.intp]
    named: NDArray[np.bool_]

    @cached_property
    def counts(self) -> NDArray[np.uint8]:
        """How many layouts each placement stands for at each (tp, cp, pp): 0 where one before it does."""
        columns = []
        for number in range(len(self.names)):
            code = self.code[:, number : number + 1]
            first = ~(self.code[:, :number] == code).any(axis=1)
            columns.append(np.where(first, ((self.code == code) & self.named).sum(axis=1), 0))
        return np.stack(columns, axis=1).astype(np.uint8)

    def alike(self, row: int, placement: int) -> tuple[str, ...]:
        """Return the placements that cost a row of the table the same as one of them does, that one among them."""
        degrees = self.degrees[row]
        same = (self.code[degrees] == self.code[degrees, placement]) & self.named[degrees]
        return tuple(self.names[number] for number in np.flatnonzero(same))


def placement_classes(table: Columns, gpus: int, placements: tuple[str, ...], hardware: Hardware) -> PlacementClasses:
    """Return which placements cost the same at each row of a table of degrees."""
    tied = distinct_rows([to_float(table[name]) for name in ("tp", "cp", "pp")], table["tp"].size)
    tp, cp, pp = (to_float(table[name][tied.first])[:, None] for name in ("tp", "cp", "pp"))
    codes = to_float([int(Placement.of(name)) for name in placements])[None, :]
    layout = Layout(tp=tp, cp=cp, dp=gpus // (tp * cp * pp), pp=pp, placement=codes)
    many = sum(((getattr(layout, name)[:, 0] > 1).astype(np.intp) << place for place, name in enumerate(GROUPS)))
    furthest = _furthest(hardware)
    apart, shape = [], (tied.first.size, len(placements))
    for name in GROUPS:
        stride = np.where(layout.stride(name) > furthest / 2, furthest, layout.stride(name))
        apart.append(np.broadcast_to(np.where(getattr(layout, name) > 1, stride, 0.0), shape).reshape(-1))
    row = np.repeat(np.arange(tied.first.size, dtype=float), len(placements))
    code = distinct_rows([row, *apart], row.size).row.reshape(-1, len(placements))
    return PlacementClasses(placements, tied.row, code, first_names(placements)[:, many].T)


def _furthest(hardware: Hardware) -> float:
    """Return the devices of the largest domain that is not all of the network."""
    domains = [to_float(tier.domain) for tier in hardware.tiers]
    return max(float(np.max(domain, where=np.isfinite(domain), initial=1.0)) for domain in domains)


@cache
def first_names(placements: tuple[str, ...]) -> NDArray[np.bool_]:
    """Return for each placement, and each set of groups with several devices, whether it is the first of that order.

    Groups of one device may stand anywhere: placements that differ only there are one.

    >>> first_names(("tp-cp-dp-pp", "cp-tp-dp-pp"))[1, [0b0001, 0b0011]]  # TP alone; TP and CP
    array([False,  True])
    """
    table = np.zeros((len(placements), 2 ** len(GROUPS)), bool)
    for many in range(2 ** len(GROUPS)):
        seen: set[tuple[str, ...]] = set()
        for number, placement in enumerate(placements):
            order = tuple(name for name in placement.split("-") if many >> GROUPS.index(name) & 1)
            table[number, many] = order not in seen
            seen.add(order)
    return table
