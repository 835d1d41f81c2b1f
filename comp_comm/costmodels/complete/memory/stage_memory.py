"""Memory of a device of one stage: its model states, the activations it saves, and what is there only for a while.

A step has several moments at which memory may be fullest. Below ZeRO 3 it is the beginning of the backward pass, when
all activations are there; under ZeRO 3, where weights are gathered and gradients scattered a layer at a time, it may
also be the middle or the end of that pass (`FsdpMoments`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from comp_comm.choices import Recompute
from comp_comm.costmodels.complete.activation_offload import ActivationOffload
from comp_comm.costmodels.complete.layer_costs import LayerCosts
from comp_comm.costmodels.complete.memory.fsdp_moments import FsdpMoments, Kept, Moment, Units
from comp_comm.costmodels.complete.memory.message_buffers import message_buffers, stage_outputs
from comp_comm.costmodels.complete.memory.micro_batches_in_flight import micro_batches_in_flight
from comp_comm.costmodels.complete.memory.packed_weights import unpacked_bytes, whole_weights
from comp_comm.costmodels.complete.memory.state_bytes import StageStateBytes, of_kinds
from comp_comm.costmodels.complete.memory.step_buffers import bucket_bytes, flat_gradients, weight_gradients
from comp_comm.costmodels.complete.pointwise import pick, pointwise_max
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
from comp_comm.layers.ends import embedding_activations, head_activations, head_unused, logits_gradient
from comp_comm.layers.stages import Stage
from comp_comm.lazy import cached_property
from comp_comm.structs import struct


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


@struct
class StageMemory:
    """Memory of a device of one stage."""

    work: Work
    layer_costs: LayerCosts
    stage: Stage

    @cached_property
    def total(self) -> Array:
        """Bytes of all of it: what depends on ZeRO, and what on a micro-batch, each added up alone before they meet."""
        rest = to_float(self.work.scenario.framework_bytes) + self._message_buffers
        return self._states_with_buffers + (rest + self._activations)

    @cached_property
    def parts(self) -> MemoryParts:
        """The total by what it is for."""
        zero = np.asarray(self.work.layout.zero)
        weights, gradients, optimizer = self._states.of_zero(zero)
        framework = to_float(self.work.scenario.framework_bytes)

        def at_peak(name: str) -> Array:
            return by_code(zero, lambda code: getattr(self._at_peak(code), name))

        return MemoryParts(
            weights=weights,
            gradients=gradients - at_peak("missing_gradients"),
            optimizer=optimizer,
            activations=at_peak("activations"),
            logits=at_peak("logits"),
            state_buffers=at_peak("buffers"),
            message_buffers=self._message_buffers,
            framework=framework,
        )

    # -- states -------------------------------------------------------------------------------------------------------

    @cached_property
    def _states(self) -> StageStateBytes:
        return StageStateBytes(self.work, self.layer_costs, self.stage)

    @cached_property
    def _states_with_buffers(self) -> Array:
        """Bytes of states with their buffers, each stage of ZeRO evaluated alone."""
        return by_code(np.asarray(self.work.layout.zero),
                       lambda zero: add_up((*self._states.of_zero(zero), self._buffers(zero))))  # fmt: skip

    def _buffers(self, zero: int) -> Array:
        """Return what is needed at the peak beside states and activations; less than 0 where some of these are not
        there then.

        It is `_at_peak` as one number, which the total is made of: arrays that only ZeRO moves are added up first.
        """
        if zero < 3:
            return self._buffers_below_zero3
        alone = self._unpacked + self._extra_at_step
        sharded = self.work.layout.replicas > 1
        if not somewhere(sharded):
            return alone
        peak = largest(moment.total for moment in self._moments) - self._activations
        return where(sharded, peak + self._extra_at_step, alone)

    def _at_peak(self, zero: int) -> Moment:
        """Return what is there at the peak beside the states, under a stage of ZeRO."""
        again = self._recomputed > self._logits
        both = (self._kept + where(again, self._recomputed, 0.0), where(again, 0.0, self._logits))
        sharded = (self.work.layout.replicas > 1) & (zero == 3)
        if not somewhere(sharded):
            return Moment(ZERO, *both, self._buffers(zero))
        peak, _ = pointwise_max((moment, moment.total) for moment in self._moments)
        return pick(sharded, peak._replace(buffers=peak.buffers + self._extra_at_step),
                    Moment(ZERO, *both, self._unpacked + self._extra_at_step))  # fmt: skip

    @cached_property
    def _moments(self) -> list[Moment]:
        """What ZeRO 3 has at the moments that may be the peak.

        FSDP's gradients are freed when the optimizer is done: a first micro-batch finds none.
        """
        gathered = [(count, whole_weights(self.work, layer)) for count, layer in self._states.layers]
        parameters, tied = self.layer_costs.end_parameters, self.work.transformer.tied
        ends, head = parameters.of_stage(self.stage, tied), parameters.head_of_stage(self.stage, tied)
        whole = add_up(self._states.parameters)
        if somewhere(self.work.scenario.formats.packs):
            whole = add_up((*(count * numbers for count, numbers in gathered), ends))
        units = Units(whole, largest((count > 0) * numbers for count, numbers in gathered), ends, head)
        layers = to_float(self.stage.total_layers)
        each = self._of_layers / maximum(layers * self._in_flight, 1.0)
        c = self.work.context
        of_logits = self.stage.head * logits_gradient(c, self.work.vocab) if c.has_vocab else to_float(0.0)
        saved = zip(self.stage.layer_counts, of_kinds(self.work, self.layer_costs.activations), strict=True)
        first = largest((count > 0) * layer.last_input for count, layer in saved)
        kept = Kept(self._kept, each, self._recomputed, minimum(first, each + self._recomputed), of_logits,
                    self._logits, layers)  # fmt: skip
        return FsdpMoments(self.work, units, kept, self._states.of_zero(3).gradients, self._unpacked).moments

    @cached_property
    def _buffers_below_zero3(self) -> Array:
        """Bytes beside states below ZeRO 3: a bucket, gradients of 16 bits beside 32, those made for a step."""
        ends = self.layer_costs.end_parameters
        head = self.stage.head * where(to_float(self.work.transformer.tied) > 0, ends.embedding, ends.head)
        replicated = to_float((self.work.layout.replicas > 1) & (self.stage.total_layers > 0))
        bucket = replicated * bucket_bytes(self.work, add_up(self._states.trained_parameters))
        return add_up(
            (bucket, weight_gradients(self.work, self._states.layers, head), self._unpacked, self._extra_at_step)
        )

    @cached_property
    def _unpacked(self) -> Array:
        """Bytes of a matrix of 4 bits as it is made 16 for a product."""
        return unpacked_bytes(self.work, self._states.layers)

    @cached_property
    def _flat_gradients(self) -> Array:
        """Bytes of flat gradients that are made for the optimizer's step, when activations are gone."""
        return flat_gradients(self.work, *self._states.trained_parameters)

    @cached_property
    def _extra_at_step(self) -> Array:
        """Bytes of flat gradients for which the place of activations is too small."""
        return maximum(self._flat_gradients - self._freed_before_step, 0.0) if somewhere(self._flat_gradients) else ZERO

    @cached_property
    def _freed_before_step(self) -> Array:
        """Bytes of the backward pass that are free again when the optimizer begins."""
        return self._activations + self._message_buffers

    @cached_property
    def unused(self) -> Array:
        """Bytes that the caching allocator holds beside: its blocks of activations do not become a larger tensor."""
        c = self.work.context
        unused = self.stage.head * head_unused(c, self.work.vocab) if c.has_vocab else ZERO
        return (
            unused + minimum(self._flat_gradients, self._freed_before_step)
            if somewhere(self._flat_gradients)
            else to_float(unused)
        )

    # -- activations --------------------------------------------------------------------------------------------------

    @cached_property
    def _activations(self) -> Array:
        """Activations with those of the loss, or of what is made again: a backward pass has done with the loss then."""
        return self._kept + maximum(self._logits, self._recomputed)

    @cached_property
    def _kept(self) -> Array:
        """Activations of layers and embedding of the micro-batches in flight, as a forward pass leaves them."""
        masks = embedding_activations(self.work.context)
        return self._of_layers + self.stage.embedding * masks * self._in_flight if somewhere(masks) else self._of_layers

    @cached_property
    def _of_layers(self) -> Array:
        return by_code(np.asarray(self.work.layout.recompute), self._activations_of)

    @cached_property
    def _recomputed(self) -> Array:
        """What is made again of a layer, or of one of its blocks: it is there at once, while its gradients are made."""
        return by_code(np.asarray(self.work.layout.recompute), self._recomputed_of)

    def _recomputed_of(self, code: int) -> Array:
        if code == Recompute.FULL:
            sizes = of_kinds(self.work, self.layer_costs.activations)
            saved = zip(self.stage.recomputed_or_offloaded, sizes, strict=True)
            return largest((recomputed > 0) * layer.size for recomputed, layer in saved)
        freed = ActivationOffload(self.work, self.layer_costs).freed(code)
        return largest([to_float(0.0), *(to_float(count > 0) * maximum(size, 0.0)
                                         for count, sizes in zip(self.stage.layer_counts, freed, strict=True)
                                         for size in sizes)])  # fmt: skip

    def _activations_of(self, code: int) -> Array:
        """Return the bytes of activations of the layers, by the code of an option of recomputation."""
        in_flight, offload = self._in_flight, ActivationOffload(self.work, self.layer_costs)
        if code == Recompute.FULL:
            counts, sizes = self.stage.layer_counts, of_kinds(self.work, self.layer_costs.activations)
            saved = zip(counts, self.stage.recomputed_or_offloaded, sizes, strict=True)
            return in_flight * add_up(
                recomputed * layer.input_size + (count - recomputed) * layer.size for count, recomputed, layer in saved
            )
        layers = in_flight * add_up(
            count * size for count, size in zip(self.stage.layer_counts, offload.activations(code), strict=True)
        )
        return layers - offload.offloaded_bytes(self.stage, in_flight, code) if somewhere(offload.applies) else layers

    @cached_property
    def _in_flight(self) -> Array:
        """Micro-batches that the stage holds the activations of."""
        return micro_batches_in_flight(self.work.layout, self.stage.place)

    @cached_property
    def _logits(self) -> Array:
        """Bytes that logits and loss need, on the last stage."""
        c = self.work.context
        return self.stage.head * head_activations(c, self.work.vocab) if c.has_vocab else to_float(0.0)

    @cached_property
    def _message_buffers(self) -> Array:
        """Bytes that collectives and sends of activations need beside their operands."""
        messages = to_float(self.stage.total_layers > 0) * message_buffers(self.work)
        return messages + (1 - self.stage.head) * stage_outputs(self.work, self._in_flight)
