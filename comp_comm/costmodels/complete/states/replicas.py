"""Which devices hold the same parameters, and the groups that gradients and weights are sent over."""

from __future__ import annotations

from typing import NamedTuple

from comp_comm.choices import Switch
from comp_comm.formulas.arrays import Array, everywhere, isnan, somewhere, to_float, where
from comp_comm.group import Group
from comp_comm.layout import Layout
from comp_comm.optimizers import Optimizer
from comp_comm.placement import REPLICA_GROUPS, STAGE_GROUPS
from comp_comm.structs import struct


class ReplicaGroups(NamedTuple):
    """Groups of replicas: all of them, those that share out one copy, and those that hold the same shard."""

    all: Group
    shards: Group
    same_shard: Group


@struct
class Replicas:
    """The devices that hold the same parameters: their number, and over how many of them states are sharded.

    ``over`` are the parallel groups that they lie on, ``stride`` how far apart neighbours are there.
    """

    count: Array
    shards: Array
    stride: Array
    over: tuple[str, ...]

    def groups(self, layout: Layout) -> ReplicaGroups:
        """Return the groups that collectives of gradients and weights are over."""
        across = self.count / self.shards

        def group(size: Array, stride: Array) -> Group:
            return Group(size, parts=layout.spread(self.over, size, stride))

        return ReplicaGroups(
            group(self.count, self.stride),
            group(self.shards, self.stride),
            group(across, self.stride * self.shards),
        )


def dense_replicas(layout: Layout) -> Replicas:
    """Return the replicas of parameters that are not experts'."""
    return Replicas(layout.replicas, to_float(layout.dp_shard), to_float(1.0), REPLICA_GROUPS)


def expert_replicas(layout: Layout) -> Replicas:
    """Return the replicas of experts' parameters."""
    shards = layout.expert_shards
    return Replicas(layout.expert_replicas, shards, to_float(layout.ep) * layout.etp, STAGE_GROUPS)


def replica_groups(layout: Layout, experts: bool) -> list[Group]:
    """Return the groups that collectives of states are over."""
    replicas = [dense_replicas(layout), *([expert_replicas(layout)] if experts else [])]
    tensors = [layout.group("tp"), layout.etp_group] if somewhere(Optimizer.MUON.where(layout.optimizer)) else []
    between = [smaller for each in replicas if (smaller := between_passes(layout, each)) is not None]
    return [*(group for each in replicas for group in each.groups(layout)), *between, *tensors]


def between_passes(layout: Layout, replicas: Replicas) -> Group | None:
    """Return the devices that weights are sharded over between the passes (FSDP2's `reshard_after_forward=N`).

    None where no point has them; a group of one at points that have not.
    """
    between = to_float(layout.reshard_shards)
    if everywhere(isnan(between)):
        return None
    fewer = Switch.ON.where(layout.reshard_after_forward) & ~isnan(between) & (between < replicas.shards)
    size = where(fewer, between, 1.0)
    return Group(size, parts=layout.spread(replicas.over, size, replicas.stride))
