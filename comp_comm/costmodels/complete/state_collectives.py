"""Collectives of gradients and weights: what data parallelism and ZeRO send for a stage of the pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import NamedTuple

import numpy as np

from comp_comm.choices import Schedule, Switch
from comp_comm.formulas.arrays import (
    Array,
    Numeric,
    add_up,
    everywhere,
    isnan,
    maximum,
    minimum,
    somewhere,
    to_float,
    where,
)
from comp_comm.group import Group
from comp_comm.layers.block import HeldParameters
from comp_comm.layout import REPLICAS, STAGE, Layout
from comp_comm.operations.context import Context, any_of
from comp_comm.operations.shapes import Collective
from comp_comm.optimizers import Optimizer
from comp_comm.sharding import FsdpUnits, GradientSync, adds_up_apart
from comp_comm.violation import Mask

SHARDED, BY_LAYER = (1, 2), (3,)  # ZeRO stages that send a stage's states at once, and a layer at a time


class StageParameters(NamedTuple):
    """What a stage holds on a device: layers of each kind, parameters of a layer, and those beside the layers, of
    which ``head`` are final norm and head. ``frozen`` says that only adapters of layers are trained."""

    counts: Sequence[Array]
    layers: Sequence[HeldParameters]
    ends: Array
    head: Array
    frozen: bool = False

    @property
    def trained(self) -> StageParameters:
        """What of it is trained: all, or adapters of layers."""
        if not self.frozen:
            return self
        none = to_float(0.0)
        return StageParameters(self.counts, [each.trained for each in self.layers], none, none)

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

    There is an occasion a step; one a micro-batch where ``repeats`` is 1.
    """

    collective: Collective
    zero: tuple[int, ...]
    repeats: Array

    def occasions(self, zero: Numeric, steps: Numeric) -> Array:
        """Return how many occasions a step of so many micro-batches has, at each point's ZeRO stage."""
        does = _among(zero, self.zero)
        return to_float(does) * where(self.repeats > 0, steps, 1.0)


class Unit(NamedTuple):
    """Parameters whose states are sent together: how many such there are, how many numbers, bytes of one when weights
    are gathered, how many of the numbers are trained, and whether they are gathered backward once more."""

    number: Array
    parameters: Array
    gathered: Array
    trained: Array
    again: Array = to_float(1.0)


@dataclass(frozen=True)
class Replicas:
    """Who holds the same parameters: so many devices, in so many shards, ``apart`` on the groups they lie on."""

    count: Array
    shards: Array
    apart: Array
    over: tuple[str, ...]

    def groups(self, layout: Layout) -> tuple[Group, Group, Group]:
        """Return all replicas, those that share a copy, and those that hold the same shard."""
        across = self.count / self.shards

        def group(size: Array, apart: Array) -> Group:
            return Group(size, parts=layout.spread(self.over, size, apart))

        return group(self.count, self.apart), group(self.shards, self.apart), group(across, self.apart * self.shards)


def dense_replicas(layout: Layout) -> Replicas:
    """Return who holds the same parameters that are no experts'."""
    return Replicas(layout.replicas, to_float(layout.dp_shard), to_float(1.0), REPLICAS)


def expert_replicas(layout: Layout) -> Replicas:
    """Return who holds the same experts."""
    shards = layout.expert_shards
    return Replicas(layout.expert_replicas, shards, to_float(layout.ep) * layout.etp, STAGE)


def replica_groups(layout: Layout, experts: bool) -> list[Group]:
    """Return the groups that collectives of states are over."""
    replicas = [dense_replicas(layout), *([expert_replicas(layout)] if experts else [])]
    tensors = [layout.group("tp"), layout.etp_group] if somewhere(Optimizer.MUON.where(layout.optimizer)) else []
    between = [smaller for each in replicas if (smaller := _between_passes(layout, each)) is not None]
    return [*(group for each in replicas for group in each.groups(layout)), *between, *tensors]


def state_collectives(c: Context, held: StageParameters) -> list[StateCollective]:
    """Return the collectives of gradients and weights of one step, for a stage.

    ZeRO 0 all-reduces gradients once. ZeRO 1 scatters them and gathers weights, once (DeepSpeed's optimizer that
    sums in 32 bit all-reduces them: `PipelineEngine._bf16_reduce_grads`); ZeRO 2 scatters after every micro-batch;
    ZeRO 3 gathers weights, forward and backward, and scatters, every micro-batch: a layer at a time, and what is beside
    the layers. A pipeline of PyTorch's (gradients reduced after the last micro-batch) gathers once more than it has
    micro-batches, as a forward pass finds what the backward pass before it left. With fewer shards than replicas
    (HSDP), the shards' gradients are all-reduced over the others: once, or under ZeRO 3 when they are scattered.
    """
    layout = c.layout
    dense = dense_replicas(layout)
    gathered, weight = (to_float(size) for size in (c.formats.gathered, c.formats.weight))
    pairs, trains = list(zip(held.counts, held.layers, strict=True)), to_float(not held.frozen)
    units = [Unit(count, layer.dense, gathered, layer.trained.dense) for count, layer in pairs]
    one, apart = to_float(1.0), to_float(FsdpUnits.ENDS.where(layout.fsdp_units))
    ends = held.ends - apart * held.head
    units.append(Unit(one, ends, weight, trains * ends))
    if any_of(apart):
        units.append(Unit(apart * (held.head > 0), held.head, weight, trains * held.head, to_float(0.0)))
    collectives = _states(c, "", held.trained.dense, units, dense)
    if c.t.has_experts:
        experts = expert_replicas(layout)
        units = [Unit(count, layer.experts, gathered, layer.trained.experts) for count, layer in pairs]
        collectives += _states(c, "expert ", held.trained.experts, units, experts)
    return collectives


def _states(c: Context, name: str, parameters: Array, units: list[Unit], replicas: Replicas) -> list[StateCollective]:
    """Return the collectives of some parameters: of all of them, or of units."""
    if not any_of(replicas.count - 1):
        return []
    zero = to_float(c.layout.zero)
    everyone, sharing, others = replicas.groups(c.layout)
    many, sharded, several = (to_float(size > 1) for size in (replicas.count, replicas.shards, others.size))
    grad = to_float(c.formats.grad)
    calls, part = _bucketed(c, parameters)
    weights = add_up(unit.number * unit.trained * unit.gathered for unit in units) / calls
    collectives: list[StateCollective] = []

    def add(title: str, kind: str, size: Array, count: Array, group: Group, stages: tuple[int, ...],
            repeats: Numeric = 0.0) -> None:  # fmt: skip
        if any_of(count) and any_of(to_float(size)) and somewhere(_among(zero, stages)):
            sent = Collective(f"{name}{title}", "p P", count, kind, "dp", size, to_float(0.0), group)
            collectives.append(StateCollective(sent, stages, to_float(repeats)))

    # DeepSpeed's optimizer that sums in 32 bit reduces whole sums, of which a device needs a part.
    all_sums = adds_up_apart(zero, c.layout.zero_implementation) & (grad > c.formats.weight)
    add("gradient all-reduce", "all_reduce", part * grad, many * (all_sums | (zero == 0)) * calls, everyone, (0, 1))
    sums = sharded * ~all_sums * calls
    add("gradient reduce-scatter", "reduce_scatter", part * grad, sums, sharing, SHARDED, zero == 2)
    add("weight all-gather", "all_gather", weights, sharded * calls, sharing, SHARDED)
    add("all-reduce over replicas", "all_reduce", part * grad / replicas.shards, several * ~all_sums * calls, others,
        SHARDED)  # fmt: skip
    if not somewhere(_among(zero, BY_LAYER)):
        return collectives
    scattered, reduced = (GradientSync.look_up(name, c.layout.gradient_sync) for name in ("shards", "replicas"))
    again, smaller = _gathered_again(c, replicas)
    # A pipeline of PyTorch's keeps what a backward pass gathered until the next forward pass, which shards it again, or
    # for good: its reduction is the last one's.
    piped = to_float((to_float(c.layout.pp) > 1) & GradientSync.LAST.where(c.layout.gradient_sync))
    for unit in units:
        if any_of(unit.parameters):
            calls, part = _bucketed(c, unit.parameters)
            reduced_calls, reduced_part = (
                (calls, part) if unit.trained is unit.parameters else _bucketed(c, unit.trained)
            )
            times, shard = sharded * calls * unit.number, reduced_part * grad / replicas.shards
            each, replicated = 1 - piped + again * unit.again, several * reduced_calls * unit.number
            scatters = sharded * reduced_calls * unit.number
            add(
                "gradient reduce-scatter", "reduce_scatter", reduced_part * grad, scatters, sharing, BY_LAYER, scattered
            )
            add("weight all-gather", "all_gather", part * unit.gathered, times * each, sharing, BY_LAYER, 1)
            add("weight all-gather", "all_gather", part * unit.gathered, times * piped, sharing, BY_LAYER)
            if smaller is not None:
                more = times * (smaller.size > 1) * unit.again
                add("weight all-gather again", "all_gather", part * unit.gathered, more, smaller, BY_LAYER, 1)
            add("all-reduce over replicas", "all_reduce", shard, replicated, others, BY_LAYER, reduced)
    return collectives


def _among(zero: Numeric, stages: Sequence[int]) -> Mask:
    """Return where the ZeRO stage is one of some."""
    given = to_float(zero)
    return reduce(or_, (given == stage for stage in stages))


def _gathered_again(c: Context, replicas: Replicas) -> tuple[Array, Group | None]:
    """Return where weights are gathered over all shards once more backward, and the devices they are gathered over
    where they were sharded over fewer between the passes."""
    again, smaller = Switch.ON.where(c.layout.reshard_after_forward), _between_passes(c.layout, replicas)
    return to_float(again if smaller is None else again & ~(to_float(smaller.size) > 1)), smaller


def _between_passes(layout: Layout, replicas: Replicas) -> Group | None:
    """Return the devices that weights are sharded over between the passes, where these are fewer; of others 1."""
    between = to_float(layout.reshard_shards)
    if everywhere(isnan(between)):
        return None
    fewer = Switch.ON.where(layout.reshard_after_forward) & ~isnan(between) & (between < replicas.shards)
    size = where(fewer, between, 1.0)
    return Group(size, parts=layout.spread(replicas.over, size, replicas.apart))


def copy_collectives(c: Context, held: StageParameters) -> list[Collective]:
    """Return the all-reduces of gradients between the two stages that hold the same chunks, once a step.

    A stage of a bidirectional pipeline has chunks of both copies of the model, and its mirror image has the same: that
    of the first stage is the last one, which is taken for all. What is sharded over replicas is reduced by shards.
    """
    layout = c.layout
    many = to_float(layout.copies > 1)
    if not any_of(many):
        return []
    mirror = Group(layout.copies, layout.stride("pp") * maximum(to_float(layout.pp) - 1, 1.0))
    sharded, shards = to_float(layout.zero) >= 1, to_float(layout.dp_shard)
    held = held.trained
    parts = [("", held.dense, shards)]
    if c.t.has_experts:
        parts.append(("expert ", held.experts, minimum(shards, layout.expert_replicas)))
    collectives = []
    for name, parameters, over in parts:
        calls, part = _bucketed(c, parameters)
        size = part * c.formats.grad / where(sharded, over, 1.0)
        title = f"{name}all-reduce over copies"
        collectives.append(Collective(title, "p P", many * calls, "all_reduce", "dp", size, 0.0 * many, mirror))
    return collectives


def tied_collectives(c: Context, vocab: Array) -> list[Collective]:
    """Return the all-reduce of the gradients of tied embeddings between the first and the last stage, once a step.

    Megatron-LM reduces them whole, in the format of other gradients, after the last backward pass. Schedules that have
    embedding and loss on one stage have no copy.
    """
    layout = c.layout
    apart = (Schedule.look_up("turns", layout.schedule) == 1) & (layout.copies == 1) & (to_float(layout.pp) > 1)
    times = to_float(apart & (to_float(c.t.tied) > 0) & (to_float(c.t.vocab) > 0) & (not c.frozen))
    if not any_of(times):
        return []
    ends = Group(where(times > 0, 2.0, 1.0), layout.stride("pp") * maximum(to_float(layout.pp) - 1, 1.0))
    size = vocab / layout.tp * c.t.hidden * c.formats.grad
    name = "tied embedding all-reduce"
    return [Collective(name, "p H V / tp", times, "all_reduce", "pp", size, 0.0 * times, ends)]


def _bucketed(c: Context, parameters: Array) -> tuple[Array, Array]:
    """Return in how many equal parts parameters are sent, and the size of a part."""
    bucket = to_float(c.layout.bucket)
    if everywhere(isnan(bucket)):
        return to_float(1.0), parameters
    calls = where(isnan(bucket), 1.0, maximum(np.ceil(parameters / bucket), 1.0))
    return calls, parameters / calls


def counted(states: Sequence[StateCollective], zero: Numeric, steps: Numeric) -> list[Collective]:
    """Return the collectives with their calls in a step of so many micro-batches."""
    return [replace(each.collective, count=each.collective.count * each.occasions(zero, steps)) for each in states]
