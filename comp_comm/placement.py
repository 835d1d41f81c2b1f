"""Where the groups of parallelism sit on the network: their orders, and what says where the devices of each are."""

from __future__ import annotations

from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from comp_comm.choice import Choice

# The groups of parallelism that a device is in; EP and experts' TP take theirs among the devices of a stage.
GROUPS = ("tp", "cp", "dp", "pp")
# The devices that hold the same weights, and those of a stage.
REPLICA_GROUPS, STAGE_GROUPS = ("cp", "dp"), ("tp", "cp", "dp")


class GroupOrder(Choice):
    """An order of the parallel groups on the network."""

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups, from the inside out: the first takes neighbours."""
        return tuple(self.word.split("-"))


# Every order of the groups; the first is Megatron-LM's.
Placement: type[GroupOrder] = GroupOrder(  # type: ignore[assignment]
    "Placement",
    {"_".join(order).upper(): "-".join(order) for order in permutations(GROUPS)},  # type: ignore[arg-type]
)
# INSIDE[p, i, j] is 1 where placement p has group j nearer the inside than group i.
INSIDE = np.array(
    [[[place.groups.index(j) < place.groups.index(i) for j in GROUPS] for i in GROUPS] for place in Placement],
    dtype=float,
)
# The fields that say where on the network each group is.
PLACEMENT_FIELDS = (*GROUPS, "ep", "etp", "gpus", "placement")
# The fields that a degree follows from which a layer has no part in: replicas are what stages leave of the devices.
_DEGREE_FIELDS = {"dp": ("dp", "gpus", "pp"), "pp": ("pp",)}


def _orders(groups: tuple[str, ...]) -> NDArray[np.intp]:
    """Return for each placement the places in ``groups`` of its groups, from the inside out."""
    placed = ([name for name in place.groups if name in groups] for place in Placement)
    return np.array([[groups.index(name) for name in order] for order in placed], np.intp)


ORDERS: dict[tuple[str, ...], NDArray[np.intp]] = {groups: _orders(groups) for groups in (REPLICA_GROUPS, STAGE_GROUPS)}


def fields_that_move_a_layer(placement: str) -> set[str]:
    """Return the fields of degrees that move a layer's devices apart: those of groups nearer the inside than its own.

    >>> fields_that_move_a_layer("tp-cp-dp-pp"), fields_that_move_a_layer("tp-cp-pp-dp")
    (set(), {'pp'})
    """
    order = placement.split("-")
    inside = [name for number, name in enumerate(GROUPS)
              if name in _DEGREE_FIELDS and order.index(name) < max(map(order.index, GROUPS[:number]))]  # fmt: skip
    return {field for name in inside for field in _DEGREE_FIELDS[name]}
