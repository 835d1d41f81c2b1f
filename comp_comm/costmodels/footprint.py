"""Memory of a device, for the stage that needs most."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from comp_comm.costmodels.pipeline import Pipeline, Stage
from comp_comm.costmodels.step_work import beside_layers
from comp_comm.formulas.arrays import Array, Numeric, to_float
from comp_comm.formulas.pipeline import in_flight
from comp_comm.layout import GPIPE
from comp_comm.operations.context import Context
from comp_comm.operations.memory import (
    Activations,
    kept_activations,
    logit_bytes,
    message_buffer_bytes,
    state_buffer_bytes,
    state_bytes,
    working_set,
)
from comp_comm.operations.parameters import Parameters


@dataclass(frozen=True)
class Parts:
    """Bytes of a stage's memory by what they are for."""

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

    @property
    def total(self) -> Array:
        """All of it: what depends on ZeRO, and what on a micro-batch, each added up alone before they meet."""
        states = self.weights + self.gradients + self.optimizer + self.state_buffers
        return states + (self.logits + self.framework + self.message_buffers + self.activations)


PARTS = ("weights", "gradients", "optimizer", "activations", "logits", "buffers", "framework")


@dataclass(frozen=True)
class Footprint:
    """Memory of the stages that may need most: the first holds most activations, the last has the logits."""

    c: Context
    each: Activations
    held: Parameters
    vocab: Array
    pipeline: Pipeline
    framework_bytes: Numeric

    @cached_property
    def parts(self) -> Parts:
        """The parts of the stage that needs most."""
        stages = self._stages()
        worst, most = stages[0], stages[0].total
        for stage in stages[1:]:
            more = stage.total > most
            both = ((getattr(stage, item.name), getattr(worst, item.name)) for item in fields(Parts))
            worst = Parts(*(np.where(more, new, old) for new, old in both))
            most = np.maximum(most, stage.total)
        return worst

    @cached_property
    def total(self) -> Array:
        """Bytes of the stage that needs most."""
        stages = self._stages()
        most = stages[0].total
        for stage in stages[1:]:
            most = np.maximum(most, stage.total)
        return most

    def _stages(self) -> list[Parts]:
        kinds = self.pipeline.kinds
        if len(kinds) == 1:
            return [self._parts(kinds[0], 0.0)]
        places: tuple[Numeric, ...] = (0.0, 1.0, to_float(self.c.layout.pp) - 1)
        return [self._parts(stage, place) for stage, place in zip(kinds, places, strict=True)]

    def _held(self, stage: Numeric) -> Array:
        """Return how many micro-batches a stage holds the activations of; GPipe holds all of them."""
        layout = self.c.layout
        held = in_flight(layout.pp, layout.vpp, stage, layout.accumulation)
        return np.where(np.asarray(layout.schedule) == GPIPE, layout.accumulation, np.maximum(held, 0.0))

    def _parts(self, stage: Stage, place: Numeric) -> Parts:
        c, layout, layers, last = self.c, self.c.layout, stage.layers, to_float(stage.logits)
        ends, held = beside_layers(self.held, c.t, stage.embedding, stage.logits), self._held(place)
        states = list(state_bytes(c, layers * self.held.layer + ends, layout.dp_shard))
        if c.t.has_experts:
            shards = np.minimum(layout.dp_shard, layout.expert_replicas)
            more = state_bytes(c, layers * self.held.layer_experts, shards)
            states = [dense + experts for dense, experts in zip(states, more, strict=True)]
        weights, gradients, optimizer = states
        here = to_float(layers > 0)
        activations = kept_activations(c, self.each, layers, held) + here * self._working_set
        layer = self.held.layer + self.held.layer_experts
        buffers = here * state_buffer_bytes(c, layer, layers * layer + ends), here * self._message_buffers
        framework = to_float(self.framework_bytes)
        return Parts(weights, gradients, optimizer, activations, last * self._logits, *buffers, framework)

    @cached_property
    def _working_set(self) -> Array:
        return working_set(self.c, self.each)

    @cached_property
    def _message_buffers(self) -> Array:
        return message_buffer_bytes(self.c)

    @cached_property
    def _logits(self) -> Array:
        return logit_bytes(self.c, self.vocab)
