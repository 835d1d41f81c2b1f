"""Collectives of gradients and weights: what data parallelism and ZeRO send for a stage of the pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from comp_comm.formulas.arrays import Array, Numeric, add_up, to_float
from comp_comm.group import Group
from comp_comm.layers.block import HeldParameters
from comp_comm.layout import REPLICAS, STAGE
from comp_comm.operations.context import Context, any_of
from comp_comm.operations.shapes import Collective

FP32 = 4.0
SHARDED, BY_LAYER = (1, 2), (3,)  # ZeRO stages that send a stage's states at once, and a layer at a time


class StageParameters(NamedTuple):
    """What a stage holds on a device: layers of each kind, and parameters of a layer and beside the layers."""

    counts: Sequence[Array]
    layers: Sequence[HeldParameters]
    ends: Array

    @property
    def dense(self) -> Array:
        """Parameters that all replicas hold."""
        layers = zip(self.counts, self.layers, strict=True)
        return to_float(sum((count * held.dense for count, held in layers), self.ends))

    @property
    def experts(self) -> Array:
        """Parameters of experts."""
        layers = zip(self.counts, self.layers, strict=True)
        return to_float(sum((count * held.experts for count, held in layers), to_float(0.0)))


class StateCollective(NamedTuple):
    """A collective of states, and the ZeRO stages that do it: ``count`` is calls of one occasion.

    There is an occasion a step; of scatters from ZeRO 2 on, and of all else under ZeRO 3, one a micro-batch.
    """

    collective: Collective
    zero: tuple[int, ...]

    def occasions(self, zero: Numeric, steps: Numeric) -> Array:
        """Return how many occasions a step of so many micro-batches has, at each point's ZeRO stage."""
        does = np.isin(to_float(zero), self.zero)
        repeats = to_float(zero) >= (2 if self.collective.kind == "reduce_scatter" else 3)
        return to_float(does) * np.where(repeats & self.per_micro_batch, steps, 1.0)

    @property
    def per_micro_batch(self) -> bool:
        """Whether there may be an occasion a micro-batch: gradients over the shards' replicas are reduced once."""
        return self.collective.kind != "all_reduce"


class Unit(NamedTuple):
    """Parameters whose states are sent together: how many such there are, how many numbers, and bytes of one when
    weights are gathered."""

    layers: Array
    parameters: Array
    gathered: Array


@dataclass(frozen=True)
class Replicas:
    """Who holds the same parameters: so many devices, in so many shards, ``apart`` on the groups they lie on."""

    count: Array
    shards: Array
    apart: Array
    over: tuple[str, ...]

    def groups(self, c: Context) -> tuple[Group, Group, Group]:
        """Return all replicas, those that share a copy, and those that hold the same shard."""
        across = self.count / self.shards

        def group(size: Array, apart: Array) -> Group:
            return Group(size, parts=c.layout.spread(self.over, size, apart))

        return group(self.count, self.apart), group(self.shards, self.apart), group(across, self.apart * self.shards)


def state_collectives(c: Context, held: StageParameters) -> list[StateCollective]:
    """Return the collectives of gradients and weights of one step, for a stage.

    ZeRO 0 all-reduces gradients once. ZeRO 1 scatters them and gathers weights, once; ZeRO 2 scatters after every
    micro-batch; ZeRO 3 gathers weights, forward and backward, and scatters, every micro-batch: a layer at a time, and
    all that is beside the layers at once. With fewer shards than replicas (HSDP), the shards' gradients are all-reduced
    over the others, once.
    """
    layout = c.layout
    dense = Replicas(layout.replicas, to_float(layout.dp_shard), to_float(1.0), REPLICAS)
    gathered, weight = (to_float(size) for size in (c.formats.gathered, c.formats.weight))
    layers = [Unit(count, layer.dense, gathered) for count, layer in zip(held.counts, held.layers, strict=True)]
    collectives = _states(c, "", held.dense, [*layers, Unit(to_float(1.0), held.ends, weight)], dense)
    if c.t.has_experts:
        shards = np.minimum(layout.dp_shard, layout.expert_replicas)
        experts = Replicas(layout.expert_replicas, shards, to_float(layout.ep) * layout.etp, STAGE)
        layers = [Unit(count, layer.experts, gathered) for count, layer in zip(held.counts, held.layers, strict=True)]
        collectives += _states(c, "expert ", held.experts, layers, experts)
    return collectives


def _states(c: Context, name: str, parameters: Array, units: list[Unit], replicas: Replicas
            ) -> list[StateCollective]:  # fmt: skip
    """Return the collectives of some parameters: of all of them, or of units (a layer of each kind) of which there are
    so many."""
    if not any_of(replicas.count - 1):
        return []
    zero = to_float(c.layout.zero)
    everyone, sharing, others = replicas.groups(c)
    many, sharded, several = (to_float(size > 1) for size in (replicas.count, replicas.shards, others.size))
    grad = to_float(c.formats.grad)
    calls, part = _bucketed(c, parameters)
    weights = add_up(unit.layers * unit.parameters * unit.gathered for unit in units) / calls
    collectives: list[StateCollective] = []

    def add(title: str, kind: str, size: Array, count: Array, group: Group, stages: tuple[int, ...]) -> None:
        if any_of(count) and np.isin(zero, stages).any():
            sent = Collective(f"{name}{title}", "p P", count, kind, "dp", size, to_float(0.0), group)
            collectives.append(StateCollective(sent, stages))

    add("gradient all-reduce", "all_reduce", part * grad, many * calls, everyone, (0,))
    add("gradient reduce-scatter", "reduce_scatter", part * grad, sharded * calls, sharing, SHARDED)
    add("weight all-gather", "all_gather", weights, sharded * calls, sharing, SHARDED)
    for count, unit, gathered in units:
        if np.isin(zero, BY_LAYER).any() and any_of(unit):
            calls, part = _bucketed(c, unit)
            times = sharded * calls * count
            add("gradient reduce-scatter", "reduce_scatter", part * grad, times, sharing, BY_LAYER)
            add("weight all-gather", "all_gather", part * gathered, 2 * times, sharing, BY_LAYER)
            shard = part * grad / replicas.shards
            add("all-reduce over replicas", "all_reduce", shard, several * calls * count, others, BY_LAYER)
    calls, part = _bucketed(c, parameters)
    add("all-reduce over replicas", "all_reduce", part * grad / replicas.shards, several * calls, others, SHARDED)
    return collectives


def copy_collectives(c: Context, held: StageParameters) -> list[Collective]:
    """Return the all-reduces of gradients between the two stages that hold the same chunks, once a step.

    A stage of a bidirectional pipeline has chunks of both copies of the model, and its mirror image has the same: that
    of the first stage is the last one, which is taken for all. What is sharded over replicas is reduced by shards.
    """
    layout = c.layout
    many = to_float(layout.copies > 1)
    if not any_of(many):
        return []
    mirror = Group(layout.copies, layout.stride("pp") * np.maximum(to_float(layout.pp) - 1, 1.0))
    sharded, shards = to_float(layout.zero) >= 1, to_float(layout.dp_shard)
    parts = [("", held.dense, shards)]
    if c.t.has_experts:
        parts.append(("expert ", held.experts, np.minimum(shards, layout.expert_replicas)))
    collectives = []
    for name, parameters, over in parts:
        calls, part = _bucketed(c, parameters)
        size = part * c.formats.grad / np.where(sharded, over, 1.0)
        title = f"{name}all-reduce over copies"
        collectives.append(Collective(title, "p P", many * calls, "all_reduce", "dp", size, 0.0 * many, mirror))
    return collectives


def _bucketed(c: Context, parameters: Array) -> tuple[Array, Array]:
    """Return in how many equal parts parameters are sent, and the size of a part."""
    bucket = to_float(c.layout.bucket)
    if np.isnan(bucket).all():
        return to_float(1.0), parameters
    calls = np.where(np.isnan(bucket), 1.0, np.maximum(np.ceil(parameters / bucket), 1.0))
    return calls, parameters / calls


def counted(states: Sequence[StateCollective], zero: Numeric, steps: Numeric) -> list[Collective]:
    """Return the collectives with their calls in a step of so many micro-batches."""
    return [replace(each.collective, count=each.collective.count * each.occasions(zero, steps)) for each in states]


def world_collectives(c: Context) -> list[Collective]:
    """Return the all-reduce of the gradients' norm over all devices, once a step."""
    if not any_of(to_float(c.layout.gpus) - 1):
        return []
    times = to_float(to_float(c.layout.gpus) > 1)
    return [
        Collective(
            "gradient norm", "4 B", times, "all_reduce", "world", to_float(FP32), 0.0 * times, Group(c.layout.gpus)
        )
    ]
