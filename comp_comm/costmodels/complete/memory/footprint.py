"""Memory of a device, for the stage that needs most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from comp_comm.choices import MasterWeights, Recompute
from comp_comm.costmodels.complete.activation_offload import ActivationOffload
from comp_comm.costmodels.complete.layer_costs import LayerCosts
from comp_comm.costmodels.complete.memory.fsdp_buffers import fsdp_buffers
from comp_comm.costmodels.complete.memory.message_buffers import message_buffers, stage_outputs
from comp_comm.costmodels.complete.memory.micro_batches_in_flight import micro_batches_in_flight
from comp_comm.costmodels.complete.memory.packed_weights import unpacked_bytes, whole_weights
from comp_comm.costmodels.complete.memory.state_bytes import StageStateBytes, of_kinds
from comp_comm.costmodels.complete.memory.step_buffers import bucket_bytes, flat_gradients, weight_gradients
from comp_comm.costmodels.complete.pointwise import pointwise_max
from comp_comm.costmodels.work import Work
from comp_comm.formulas.arrays import (
    ZERO,
    Array,
    add_up,
    by_code,
    largest,
    maximum,
    minimum,
    somewhere,
    to_float,
    where,
)
from comp_comm.layers.block import LayerParameters
from comp_comm.layers.ends import embedding_activations, head_activations, head_unused
from comp_comm.layers.stages import Stage
from comp_comm.lazy import cached_property
from comp_comm.violation import Mask

# Of what is held for tensors, that lies between them: an assumption. Of torchtitan's ten published runs, which print
# reserved memory and not what is allocated, it brings the median to what they print.
UNUSED = 0.05


class MemoryParts(NamedTuple):
    """Bytes of a stage's memory by what they are for, at its peak."""

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
        return pointwise_max((stage.parts, stage.total) for stage in self.stages)[0]

    @cached_property
    def total(self) -> Array:
        """Bytes of the stage that needs most."""
        return largest(stage.total for stage in self.stages)

    @cached_property
    def allocated(self) -> Array:
        """Bytes of tensors at the peak, as `torch.cuda.max_memory_allocated` counts them."""
        return self.total - to_float(self.work.scenario.framework_bytes)

    @cached_property
    def reserved(self) -> Array:
        """Bytes that the caching allocator holds at the peak, at most what the device has beside the framework.

        Whether a step fits is asked of what is allocated: an allocator that runs out gives back what it holds unused.
        """
        framework = to_float(self.work.scenario.framework_bytes)
        rest = to_float(self.work.hardware.memory_capacity) - framework
        held = largest(stage.total + stage.unused for stage in self.stages) - framework
        return maximum(minimum(held * (1 + UNUSED), rest), self.allocated)


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
        weights, gradients, optimizer = self._states.of_zero(zero)
        framework = to_float(self.work.scenario.framework_bytes)

        def peak(part: int) -> Array:
            return by_code(zero, lambda code: self._at_peak(code)[part])

        there = gradients - peak(0)
        return MemoryParts(
            weights=weights,
            gradients=there,
            optimizer=optimizer,
            activations=peak(1),
            logits=peak(2),
            state_buffers=peak(3),
            message_buffers=self._message_buffers,
            framework=framework,
        )

    # -- states -------------------------------------------------------------------------------------------------------

    @cached_property
    def _states(self) -> StageStateBytes:
        return StageStateBytes(self.work, self.costs, self.stage)

    @cached_property
    def _states_with_buffers(self) -> Array:
        """Bytes of states with their buffers, each stage of ZeRO evaluated alone."""
        return by_code(np.asarray(self.work.layout.zero),
                       lambda zero: add_up((*self._states.of_zero(zero), self._beside(zero))))  # fmt: skip

    def _beside(self, zero: int) -> Array:
        """Return what is needed at the peak beside states, activations and logits; less than 0 where some of these are
        not there then."""
        if zero < 3:
            return self._below_three
        late, loss, backward, end, gradients = self._moments
        first = maximum(loss, backward - self._logits) - gradients
        return where(late, end - self._activations - self._logits, first) + self._at_step

    def _at_peak(self, zero: int) -> tuple[Array, Array, Array, Array]:
        """Return at the peak gradients that are not there yet, activations, logits, and buffers of states."""
        if zero < 3:
            return ZERO, self._activations, self._logits, self._below_three
        late, loss, backward, end, gradients = self._moments
        in_layers = backward > loss + self._logits
        buffers = where(late, end, where(in_layers, backward, loss))
        logits = where(late | in_layers, 0.0, self._logits)
        buffers = buffers + self._at_step
        return where(late, 0.0, gradients), where(late, 0.0, self._activations), logits, buffers

    @cached_property
    def _moments(self) -> tuple[Mask, Array, Array, Array, Array]:
        """Whether memory is fullest when the last gradients are scattered (and not with the loss or the layers going
        backward); what ZeRO 3 has beside at each of these moments; and the gradients that are not there before.

        FSDP's gradients are freed when the optimizer is done: a first micro-batch finds none.
        """
        layout, zero = self.work.layout, to_float(0.0)
        replicated = layout.replicas > 1
        if not somewhere(replicated):
            return np.asarray(False), zero, self._unpacked, zero, zero
        sent = [(count, whole_weights(self.work, held)) for count, held in self._layers]
        largest_layer = largest((count > 0) * numbers for count, numbers in sent)
        ends, tied = self.costs.end_parameters, self.work.transformer.tied
        beside, head = ends.of_stage(self.stage, tied), ends.head_of_stage(self.stage, tied)
        whole = add_up(self._states.parameters)
        if somewhere(self.work.scenario.formats.packs):
            whole = add_up((*(count * numbers for count, numbers in sent), beside))
        sizes = fsdp_buffers(self.work, whole, largest_layer, beside, head)
        loss, backward, end = (replicated * size for size in sizes)
        backward = backward + self._unpacked
        alone = MasterWeights.SHARDS.where(layout.master_weights) & (layout.stage_micro_batches <= 1)
        missing = where(alone, self._states.of_zero(3).gradients, 0.0) if somewhere(alone) else zero
        before = self._activations + maximum(loss + self._logits, backward) - missing
        return end > before, loss, backward, end, missing

    @cached_property
    def _below_three(self) -> Array:
        """Bytes beside states below ZeRO 3: a bucket, gradients of 16 bits beside 32, those made for a step."""
        ends = self.costs.end_parameters
        head = self.stage.head * where(to_float(self.work.transformer.tied) > 0, ends.embedding, ends.head)
        replicated = to_float((self.work.layout.replicas > 1) & (self.stage.layer_count > 0))
        bucket = replicated * bucket_bytes(self.work, add_up(self._states.trained_parameters))
        return add_up((bucket, weight_gradients(self.work, self._layers, head), self._unpacked, self._at_step))

    @cached_property
    def _layers(self) -> list[tuple[Array, LayerParameters]]:
        """Layers of each kind of the stage, and the parameters of one."""
        return list(zip(self.stage.layers, of_kinds(self.work, self.costs.parameters), strict=True))

    @cached_property
    def _unpacked(self) -> Array:
        """Bytes of a matrix of 4 bits as it is made 16 for a product."""
        return unpacked_bytes(self.work, self._layers)

    @cached_property
    def _flat(self) -> Array:
        """Bytes of flat gradients that are made for the optimizer's step, when activations are gone."""
        return flat_gradients(self.work, *self._states.trained_parameters)

    @cached_property
    def _at_step(self) -> Array:
        """Bytes of these for which the place of activations is too small."""
        return maximum(self._flat - self._gone, 0.0) if somewhere(self._flat) else ZERO

    @cached_property
    def _gone(self) -> Array:
        """Bytes that are free again when the optimizer begins."""
        return add_up((self._activations, self._logits, self._message_buffers))

    @cached_property
    def unused(self) -> Array:
        """Bytes that the caching allocator holds beside: its blocks of activations do not become a larger tensor."""
        c = self.work.context
        unused = self.stage.head * head_unused(c, self.work.vocab) if c.has_vocab else ZERO
        return unused + minimum(self._flat, self._gone) if somewhere(self._flat) else to_float(unused)

    # -- activations --------------------------------------------------------------------------------------------------

    @cached_property
    def _activations(self) -> Array:
        """What layers and embedding keep of the micro-batches the stage holds, and what one recomputed needs beside."""
        layers = by_code(np.asarray(self.work.layout.recompute), self._activations_of)
        masks = embedding_activations(self.work.context)
        return layers + self.stage.embedding * masks * self._micro_batches if somewhere(masks) else layers

    def _activations_of(self, code: int) -> Array:
        """Return the bytes of activations of the layers, by the code of an option of recomputation."""
        saved = list(
            zip(self.stage.layers, self.stage.recomputed, of_kinds(self.work, self.costs.activations), strict=True)
        )
        held, offload = self._micro_batches, ActivationOffload(self.work, self.costs)
        if code == Recompute.FULL:
            partly = add_up(
                recomputed * layer.input_size + (count - recomputed) * layer.size for count, recomputed, layer in saved
            )
            return held * partly + largest((recomputed > 0) * layer.size for _, recomputed, layer in saved)
        layers = held * add_up(
            count * size for count, size in zip(self.stage.layers, offload.activations(code), strict=True)
        )
        # What is recomputed of one block is there at once, while its gradients are made.
        at_work = largest(to_float(count > 0) * maximum(size, 0.0)
                           for count, freed in zip(self.stage.layers, offload.freed(code), strict=True)
                           for size in freed)  # fmt: skip
        there = add_up((layers, at_work))
        return there - offload.offloaded_bytes(self.stage, held, code) if somewhere(offload.applies) else there

    @cached_property
    def _micro_batches(self) -> Array:
        """Micro-batches that the stage holds the activations of."""
        return micro_batches_in_flight(self.work.layout, self.stage.place)

    @cached_property
    def _logits(self) -> Array:
        """What the last stage needs after its layers."""
        c = self.work.context
        return self.stage.head * head_activations(c, self.work.vocab) if c.has_vocab else to_float(0.0)

    @cached_property
    def _message_buffers(self) -> Array:
        """What collectives and sends of activations need beside their operands."""
        messages = to_float(self.stage.layer_count > 0) * message_buffers(self.work)
        return messages + (1 - self.stage.head) * stage_outputs(self.work, self._micro_batches)
