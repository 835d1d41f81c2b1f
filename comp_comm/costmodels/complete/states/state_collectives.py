"""Collectives of gradients and weights: what data parallelism and ZeRO send for a stage of the pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import NamedTuple

import numpy as np

from comp_comm.choices import Switch
from comp_comm.costmodels.complete.states.replicas import Replicas, between_passes, dense_replicas, expert_replicas
from comp_comm.costmodels.complete.states.stage_parameters import StageParameters
from comp_comm.formulas.arrays import (
    Array,
    Mask,
    Numeric,
    add_up,
    everywhere,
    isnan,
    maximum,
    somewhere,
    to_float,
    where,
)
from comp_comm.group import Group
from comp_comm.layers.block import LayerParameters
from comp_comm.layers.expert_tokens import experts_with_dense
from comp_comm.operations.context import Context, any_of
from comp_comm.operations.shapes import Collective
from comp_comm.sharding import FsdpUnits, GradientSync, adds_up_apart

SHARDED, BY_LAYER = (1, 2), (3,)  # ZeRO stages that send a stage's states at once, and a layer at a time


class StateCollective(NamedTuple):
    """A collective of states, and the ZeRO stages that do it: ``count`` is calls of one occasion.

    There is an occasion a step; one a micro-batch where ``repeats`` is 1.
    """

    collective: Collective
    zero: tuple[int, ...]
    repeats: Array

    def occasions(self, zero: Numeric, micro_batches: Numeric) -> Array:
        """Return how many occasions a step of so many micro-batches has, at each point's ZeRO stage."""
        does = _among(zero, self.zero)
        return to_float(does) * where(self.repeats > 0, micro_batches, 1.0)


class FsdpUnit(NamedTuple):
    """Parameters whose states are sent together (an FSDP unit), as often as there are such units.

    ``gathered`` are bytes of a gathered weight, ``trained`` how many of the parameters are trained, and ``regathered``
    is 1 where the weights are gathered again for the backward pass. ``packed`` of the parameters have a format of few
    bits, which they are gathered in.
    """

    number: Array
    parameters: Array
    gathered: Array
    trained: Array
    regathered: Array = to_float(1.0)
    packed: Array = to_float(0.0)


def state_collectives(c: Context, parameters: StageParameters) -> list[StateCollective]:
    """Return the collectives of gradients and weights of one step, for a stage.

    ==== ============================================== =====================================================
    ZeRO gradients                                      weights
    ==== ============================================== =====================================================
    0    all-reduce over replicas, once
    1    reduce-scatter over shards, once (*)           all-gather over shards, once
    2    reduce-scatter after every micro-batch         all-gather over shards, once
    3    reduce-scatter of a unit, every micro-batch    all-gather of a unit, forward and backward, every
                                                        micro-batch
    ==== ============================================== =====================================================

    A unit is a layer, or what is beside the layers. Experts are sent apart where they are not on the devices that all
    else is on (torchtitan wraps them by their own mesh, Megatron-LM has buffers of their own for them, both with
    expert parallelism alone). An embedding that is also the head is one unit with the final norm, which torchtitan
    does not shard again (`apply_fsdp_to_decoder`). (*) DeepSpeed's optimizer that sums in 32 bit all-reduces them
    (`PipelineEngine._bf16_reduce_grads`). With fewer shards than replicas (HSDP) the shards' gradients are all-reduced
    over the others, too: once, or under ZeRO 3 when they are scattered. A pipeline of PyTorch's (gradients reduced
    after the last micro-batch) gathers once more than it has micro-batches, as a forward pass finds what the backward
    pass before it left.
    """
    layout = c.layout
    gathered, weight = (to_float(size) for size in (c.formats.gathered, c.formats.weight))
    pairs = list(zip(parameters.counts, parameters.layers, strict=True))
    trains = to_float(not parameters.frozen)
    with_dense = experts_with_dense(layout) if c.t.has_experts else to_float(0.0)
    units = [_layer_unit(count, layer, gathered, with_dense) for count, layer in pairs]
    one, ends_apart = to_float(1.0), to_float(FsdpUnits.ENDS.where(layout.fsdp_units))
    ends = parameters.ends - ends_apart * parameters.head
    units.append(FsdpUnit(one, ends, weight, trains * ends))
    if any_of(ends_apart):
        head = parameters.head
        units.append(FsdpUnit(ends_apart * (head > 0), head, weight, trains * head, to_float(0.0)))
    trained = parameters.trained
    dense = trained.dense + with_dense * trained.experts if any_of(with_dense) else trained.dense
    collectives = _ReplicaCollectives(c, "", dense_replicas(layout)).of(dense, units)
    apart = 1.0 - with_dense
    if c.t.has_experts and any_of(apart):
        units = [FsdpUnit(count * apart, layer.experts, gathered, layer.trained.experts, packed=layer.expert_packed)
                 for count, layer in pairs]  # fmt: skip
        experts = _ReplicaCollectives(c, "expert ", expert_replicas(layout))
        collectives += experts.of(apart * trained.experts, units)
    return collectives


def _layer_unit(count: Array, layer: LayerParameters, gathered: Array, with_dense: Array) -> FsdpUnit:
    """Return the unit of a layer, with its experts where they are on the devices that all else is on."""
    if not any_of(with_dense * layer.experts):
        return FsdpUnit(count, layer.dense, gathered, layer.trained.dense, packed=layer.packed)
    parameters = layer.dense + with_dense * layer.experts
    trained = layer.trained.dense + with_dense * layer.trained.experts
    return FsdpUnit(count, parameters, gathered, trained, packed=layer.packed + with_dense * layer.expert_packed)


class _ReplicaCollectives:
    """What is sent of parameters that some replicas hold; ``name`` goes before the names of its collectives."""

    def __init__(self, c: Context, name: str, replicas: Replicas) -> None:
        self.c, self.name, self.replicas = c, name, replicas
        self.groups = replicas.groups(c.layout)
        self.sharded, self.shard_copies = (
            to_float(size > 1) for size in (replicas.shards, self.groups.same_shard.size)
        )
        self.grad = to_float(c.formats.grad)
        self.made: list[StateCollective] = []

    def of(self, parameters: Array, units: Sequence[FsdpUnit]) -> list[StateCollective]:
        """Return the collectives: under ZeRO 0 to 2 of all parameters at once, under ZeRO 3 of their units."""
        if any_of(self.replicas.count - 1):
            self._of_all(parameters, units)
            if somewhere(_among(self.c.layout.zero, BY_LAYER)):
                for unit in units:
                    if any_of(unit.parameters):
                        self._of_unit(unit)
        return self.made

    def _add(self, title: str, kind: str, size: Array, count: Array, group: Group, stages: tuple[int, ...],
             repeats: Numeric = 0.0) -> None:  # fmt: skip
        """Add a collective of some ZeRO stages; ``repeats`` is 1 where every micro-batch has it."""
        if any_of(count) and any_of(to_float(size)) and somewhere(_among(self.c.layout.zero, stages)):
            sent = Collective(
                f"{self.name}{title}",
                "p P",
                count=count,
                kind=kind,
                parallelism="dp",
                message_bytes=size,
                backward_count=to_float(0.0),
                group=group,
            )
            self.made.append(StateCollective(sent, stages, to_float(repeats)))

    def _of_all(self, parameters: Array, units: Sequence[FsdpUnit]) -> None:
        zero, layout, shards = to_float(self.c.layout.zero), self.c.layout, self.replicas.shards
        calls, part = _bucketed(self.c, parameters)
        # DeepSpeed's optimizer that sums in 32 bit reduces whole sums, of which a device needs a part.
        all_sums = adds_up_apart(zero, layout.zero_implementation) & (self.grad > self.c.formats.weight)
        reduces = to_float(self.replicas.count > 1) * (all_sums | (zero == 0)) * calls
        scatters = ~all_sums * calls
        weights = add_up(unit.number * unit.trained * unit.gathered for unit in units) / calls
        grads = part * self.grad
        self._add("gradient all-reduce", "all_reduce", grads, reduces, self.groups.all, (0, 1))
        sharded_scatters = self.sharded * scatters
        self._add("gradient reduce-scatter", "reduce_scatter", grads, sharded_scatters, self.groups.shards, SHARDED,
                  zero == 2)  # fmt: skip
        self._add("weight all-gather", "all_gather", weights, self.sharded * calls, self.groups.shards, SHARDED)
        self._add("all-reduce over replicas", "all_reduce", grads / shards, self.shard_copies * scatters,
                  self.groups.same_shard, SHARDED)  # fmt: skip

    def _of_unit(self, unit: FsdpUnit) -> None:
        layout = self.c.layout
        calls, part = _bucketed(self.c, unit.parameters)
        trains_all = unit.trained is unit.parameters
        grad_calls, grad_part = (calls, part) if trains_all else _bucketed(self.c, unit.trained)
        gathers, grads = self.sharded * calls * unit.number, grad_part * self.grad
        every_micro_batch = GradientSync.look_up("shards", layout.gradient_sync)
        scatters = self.sharded * grad_calls * unit.number
        self._add("gradient reduce-scatter", "reduce_scatter", grads, scatters, self.groups.shards, BY_LAYER,
                  every_micro_batch)  # fmt: skip
        # A pipeline of PyTorch's keeps what a backward pass gathered until the next forward pass, which shards it
        # again, or for good: its reduction is the last one's.
        piped = to_float((to_float(layout.pp) > 1) & GradientSync.LAST.where(layout.gradient_sync))
        smaller = between_passes(layout, self.replicas)
        times = 1 - piped + self._regathered(smaller) * unit.regathered
        weights = part * unit.gathered
        if any_of(unit.packed):
            weights = weights - unit.packed / calls * (unit.gathered - self.c.formats.packed("size"))
        self._add("weight all-gather", "all_gather", weights, gathers * times, self.groups.shards, BY_LAYER, 1)
        self._add("weight all-gather", "all_gather", weights, gathers * piped, self.groups.shards, BY_LAYER)
        if smaller is not None:
            more = gathers * (smaller.size > 1) * unit.regathered
            self._add("weight all-gather again", "all_gather", weights, more, smaller, BY_LAYER, 1)
        self._add("all-reduce over replicas", "all_reduce", grads / self.replicas.shards,
                  self.shard_copies * grad_calls * unit.number, self.groups.same_shard, BY_LAYER,
                  GradientSync.look_up("replicas", layout.gradient_sync))  # fmt: skip

    def _regathered(self, smaller: Group | None) -> Array:
        """Return where weights are gathered over all shards a second time, for the backward pass."""
        again = Switch.ON.where(self.c.layout.reshard_after_forward)
        return to_float(again if smaller is None else again & ~(to_float(smaller.size) > 1))


def _among(zero: Numeric, stages: Sequence[int]) -> Mask:
    """Return where the ZeRO stage is one of some."""
    given = to_float(zero)
    return reduce(or_, (given == stage for stage in stages))


def copy_collectives(c: Context, parameters: StageParameters) -> list[Collective]:
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
    trained = parameters.trained
    parts = [("", trained.dense, shards)]
    if c.t.has_experts:
        parts.append(("expert ", trained.experts, layout.expert_shards))
    collectives = []
    for name, count, over in parts:
        calls, part = _bucketed(c, count)
        size = part * c.formats.grad / where(sharded, over, 1.0)
        title = f"{name}all-reduce over copies"
        collectives.append(
            Collective(
                title,
                "p P",
                count=many * calls,
                kind="all_reduce",
                parallelism="dp",
                message_bytes=size,
                backward_count=0.0 * many,
                group=mirror,
            )
        )
    return collectives


def _bucketed(c: Context, parameters: Array) -> tuple[Array, Array]:
    """Return in how many equal parts parameters are sent, and the size of a part."""
    bucket = to_float(c.layout.bucket)
    if everywhere(isnan(bucket)):
        return to_float(1.0), parameters
    calls = where(isnan(bucket), 1.0, maximum(np.ceil(parameters / bucket), 1.0))
    return calls, parameters / calls


def with_step_counts(states: Sequence[StateCollective], zero: Numeric, micro_batches: Numeric) -> list[Collective]:
    """Return the collectives with their calls in a step of so many micro-batches."""
    return [
        replace(each.collective, count=each.collective.count * each.occasions(zero, micro_batches)) for each in states
    ]
