"""Memory of a device, for the stage that needs most."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TypeVar

import numpy as np

from comp_comm.choices import MasterWeights, Recompute, Switch
from comp_comm.costmodels.complete.gathered import gathered
from comp_comm.costmodels.complete.held_micro_batches import held_micro_batches
from comp_comm.costmodels.complete.host_memory import HostMemory
from comp_comm.costmodels.complete.layer_costs import LayerCosts
from comp_comm.costmodels.complete.message_buffers import message_buffers
from comp_comm.costmodels.machine import work_in_training
from comp_comm.costmodels.scenario import Scenario
from comp_comm.costmodels.work import Work
from comp_comm.formulas.arrays import ZERO, Array, Numeric, add_up, by_code, to_float
from comp_comm.formulas.memory import StateBytes, state_bytes
from comp_comm.layers.ends import embedding_kept, head_kept
from comp_comm.layers.kind import LayerKind
from comp_comm.layers.stages import Stage
from comp_comm.sharding import GradientSync
from comp_comm.violation import Mask

Of = TypeVar("Of")
# Of what is allocated, that the caching allocator holds beside: torchtitan's two runs of Llama 3 8B at 32K and 262K
# tokens (its table of December 2024: 83.9 and 84.5 GiB reserved) over the 79.8 and 80.1 GiB counted here for them.
UNUSED = 0.05
BUCKET = 40e6  # elements of gradients reduced at once (Megatron-LM's default)
MEMORY_PARTS = ("weights", "gradients", "optimizer", "activations", "logits", "buffers", "framework")


@dataclass(frozen=True)
class MemoryParts:
    """Bytes of a stage's memory by what they are for, when it needs most."""

    weights: Array
    gradients: Array
    optimizer: Array
    activations: Array
    logits: Array
    state_buffers: Array
    message_buffers: Array
    framework: Array

    @property
    def buffers(self) -> Array:
        """What collectives and sends need beside their operands."""
        return self.state_buffers + self.message_buffers


@dataclass(frozen=True, eq=False)
class Footprint:
    """Memory of the stages that may need most: those that differ."""

    work: Work
    costs: LayerCosts

    @cached_property
    def stages(self) -> list[StageMemory]:
        """The memory of each stage that differs."""
        return [StageMemory(self.work, self.costs, stage) for stage in self.work.stages.distinct]

    @cached_property
    def parts(self) -> MemoryParts:
        """The parts of the stage that needs most."""
        first, *others = self.stages
        fullest, most = first.parts, first.total
        for stage in others:
            more = stage.total > most
            both = ((getattr(stage.parts, item.name), getattr(fullest, item.name)) for item in fields(MemoryParts))
            fullest = MemoryParts(*(np.where(more, new, old) for new, old in both))
            most = np.maximum(most, stage.total)
        return fullest

    @cached_property
    def total(self) -> Array:
        """Bytes of the stage that needs most."""
        return _largest(stage.total for stage in self.stages)

    @cached_property
    def allocated(self) -> Array:
        """Bytes of tensors at the peak, as `torch.cuda.max_memory_allocated` counts them."""
        return self.total - to_float(self.work.scenario.framework_bytes)

    @cached_property
    def reserved(self) -> Array:
        """Bytes that the caching allocator holds at the peak, at most what the device has beside the framework.

        Whether a step fits is asked of what is allocated: an allocator that runs out gives back what it holds unused.
        """
        rest = to_float(self.work.hardware.memory_capacity) - to_float(self.work.scenario.framework_bytes)
        return np.maximum(np.minimum(self.allocated * (1 + UNUSED), rest), self.allocated)


def footprint(scenario: Scenario) -> Footprint:
    """Return the memory of a scenario's stages."""
    work = work_in_training(scenario)
    return Footprint(work, LayerCosts(work))


@dataclass(frozen=True, eq=False)
class StageMemory:
    """Memory of a device of one stage."""

    work: Work
    costs: LayerCosts
    stage: Stage

    @cached_property
    def total(self) -> Array:
        """All of it: what depends on ZeRO, and what on a micro-batch, each added up alone before they meet."""
        rest = to_float(self.work.scenario.framework_bytes) + self._message_buffers
        return self._states_with_buffers + (rest + (self._logits + self._activations))

    @cached_property
    def parts(self) -> MemoryParts:
        """Its parts."""
        zero = np.asarray(self.work.layout.zero)
        weights, gradients, optimizer = self._states(zero)
        framework = to_float(self.work.scenario.framework_bytes)

        def peak(part: int) -> Array:
            return by_code(zero, lambda code: self._at_peak(code)[part])

        there = gradients - peak(0)
        return MemoryParts(weights, there, optimizer, peak(1), peak(2), peak(3), self._message_buffers, framework)

    # -- states -------------------------------------------------------------------------------------------------------

    def _of_kinds(self, each: Mapping[LayerKind, Of]) -> list[Of]:
        """Return something of a layer of each kind, in the order of the counts of a stage."""
        return [each[kind] for kind in self.work.pattern.kinds]

    @cached_property
    def _held(self) -> tuple[Array, Array]:
        """Parameters of the stage, and those of its experts."""
        layers = list(zip(self.stage.layers, self._of_kinds(self.costs.parameters), strict=True))
        beside = self.costs.end_parameters.of_stage(self.stage, self.work.transformer.tied)
        dense = add_up((*(count * held.dense for count, held in layers), beside))
        experts = add_up(count * held.experts for count, held in layers) if self.work.transformer.has_experts else ZERO
        return dense, experts

    def _states(self, zero: Numeric) -> StateBytes:
        layout = self.work.layout
        f = self.work.scenario.formats.held(MasterWeights.SHARDS.where(layout.master_weights))
        dense, experts = self._held
        kept = 1 - to_float(Switch.ON.where(layout.offload_optimizer))
        sizes = (
            to_float(f.weight),
            to_float(f.grad) + f.accumulate,
            (to_float(f.master) + 2 * to_float(f.moment)) * kept,
        )
        states = state_bytes(dense, layout.dp_shard, zero, *sizes)
        if experts is not ZERO:
            more = state_bytes(experts, np.minimum(layout.dp_shard, layout.expert_replicas), zero, *sizes)
            states = StateBytes(*(one + other for one, other in zip(states, more, strict=True)))
        last = GradientSync.LAST.where(layout.gradient_sync) & (to_float(layout.dp_shard) > 1)
        if not last.any():
            return self._with_copies(states, zero)
        # Not scattered before the last micro-batch: they are added up whole, in the format that they are reduced in.
        summed = np.where(last, self.work.scenario.formats.grad * (dense + experts), states.gradients)
        return self._with_copies(states._replace(gradients=summed), zero)

    def _with_copies(self, states: StateBytes, zero: Numeric) -> StateBytes:
        """Return the states with weights as the recipe keeps them: beside those of 16 bits, or instead of them.

        Under ZeRO 3 they are made of gathered weights, and go with them.
        """
        copies = to_float(self.work.scenario.formats.copies)
        if not copies.any():
            return states
        dense, experts = self._held
        beside = self.costs.end_parameters.of_stage(self.stage, self.work.transformer.tied)
        more = np.where(to_float(zero) < 3, copies * (add_up((dense, experts)) - beside), 0.0)
        return states._replace(weights=states.weights + more)

    @cached_property
    def _states_with_buffers(self) -> Array:
        """Bytes of states with their buffers, each stage of ZeRO evaluated alone."""
        return by_code(np.asarray(self.work.layout.zero),
                       lambda zero: add_up((*self._states(zero), self._beside(zero))))  # fmt: skip

    def _beside(self, zero: int) -> Array:
        """Return what is needed at the peak beside states, activations and logits; less than 0 where some of these are
        not there then."""
        if zero < 3:
            return self._bucket
        late, loss, backward, end, gradients = self._moments
        first = np.maximum(loss, backward - self._logits) - gradients
        return np.where(late, end - self._activations - self._logits, first)

    def _at_peak(self, zero: int) -> tuple[Array, Array, Array, Array]:
        """Return at the peak gradients that are not there yet, activations, logits, and buffers of states."""
        if zero < 3:
            return ZERO, self._activations, self._logits, self._bucket
        late, loss, backward, end, gradients = self._moments
        in_layers = backward > loss + self._logits
        buffers = np.where(late, end, np.where(in_layers, backward, loss))
        logits = np.where(late | in_layers, 0.0, self._logits)
        return np.where(late, 0.0, gradients), np.where(late, 0.0, self._activations), logits, buffers

    @cached_property
    def _moments(self) -> tuple[Mask, Array, Array, Array, Array]:
        """Whether memory is fullest when the last gradients are scattered (and not with the loss or the layers going
        backward); what ZeRO 3 has beside at each of these moments; and the gradients that are not there before.

        FSDP's gradients are freed when the optimizer is done: a first micro-batch finds none.
        """
        layout, zero = self.work.layout, to_float(0.0)
        replicated = layout.replicas > 1
        if not replicated.any():
            return np.asarray(False), zero, zero, zero, zero
        layers = list(zip(self.stage.layers, self._of_kinds(self.costs.parameters), strict=True))
        largest = _largest((count > 0) * (held.dense + held.experts) for count, held in layers)
        ends, tied = self.costs.end_parameters, self.work.transformer.tied
        head = ends.kept_of_stage(self.stage, tied)
        sizes = gathered(self.work, add_up(self._held), largest, ends.of_stage(self.stage, tied), head)
        loss, backward, end = (replicated * size for size in sizes)
        alone = MasterWeights.SHARDS.where(layout.master_weights) & (layout.stage_steps <= 1)
        missing = np.where(alone, self._states(3).gradients, 0.0) if alone.any() else zero
        before = self._activations + np.maximum(loss + self._logits, backward) - missing
        return end > before, loss, backward, end, missing

    @cached_property
    def _bucket(self) -> Array:
        """Bytes of the gradients that are reduced at once."""
        layout, f = self.work.layout, self.work.scenario.formats
        replicated = layout.replicas > 1
        if not replicated.any():
            return ZERO
        there = replicated * to_float(self.stage.layer_count > 0)
        given = to_float(layout.bucket)
        bucket = np.minimum(np.where(np.isnan(given), BUCKET, given), add_up(self._held))
        return there * bucket * f.grad

    # -- activations --------------------------------------------------------------------------------------------------

    @cached_property
    def _activations(self) -> Array:
        """What layers and embedding keep of the micro-batches the stage holds, and what one made again needs beside."""
        layers = by_code(np.asarray(self.work.layout.recompute), self._kept)
        masks = embedding_kept(self.work.context)
        return layers + self.stage.embedding * masks * self._micro_batches if masks.any() else layers

    def _kept(self, code: int) -> Array:
        kept = list(zip(self.stage.layers, self.stage.recomputed, self._of_kinds(self.costs.kept), strict=True))
        held, host = self._micro_batches, HostMemory(self.work, self.costs)
        if code == Recompute.FULL:
            partly = add_up(again * layer.entry + (count - again) * layer.size for count, again, layer in kept)
            return held * partly + _largest((again > 0) * layer.size for _, again, layer in kept)
        layers = held * add_up(count * size for count, size in zip(self.stage.layers, host.kept(code), strict=True))
        # What is made again of one block is there at once, while its gradients are made.
        at_work = _largest(to_float(count > 0) * np.maximum(size, 0.0)
                           for count, freed in zip(self.stage.layers, host.freed(code), strict=True)
                           for size in freed)  # fmt: skip
        there = add_up((layers, at_work))
        return there - host.away(self.stage, held, code) if host.asked.any() else there

    @cached_property
    def _micro_batches(self) -> Array:
        """Micro-batches that the stage holds the activations of."""
        return held_micro_batches(self.work.layout, self.stage.place)

    @cached_property
    def _logits(self) -> Array:
        """What the last stage needs after its layers."""
        c = self.work.context
        return self.stage.head * head_kept(c, self.work.vocab) if c.has_vocab else to_float(0.0)

    @cached_property
    def _message_buffers(self) -> Array:
        """What collectives and sends of activations need beside their operands."""
        return to_float(self.stage.layer_count > 0) * message_buffers(self.work)


def _largest(sizes: Iterable[Array]) -> Array:
    largest = ZERO
    for size in sizes:
        largest = size if largest is ZERO else np.maximum(largest, size)
    return largest
