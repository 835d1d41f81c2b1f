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
    buffer_bytes,
    kept_activations,
    logit_bytes,
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
    buffers: Array
    framework: Array

    @property
    def total(self) -> Array:
        """All of it."""
        return to_float(sum((getattr(self, item.name) for item in fields(self)), to_float(0.0)))


PARTS = tuple(item.name for item in fields(Parts))


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
            worst = Parts(*(np.where(more, getattr(stage, name), getattr(worst, name)) for name in PARTS))
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
        between, first, last = kinds
        places = ((first, 0.0), (between, 1.0), (last, to_float(self.c.layout.pp) - 1))
        return [self._parts(stage, place) for stage, place in places]

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
        activations = held * kept_activations(c, self.each, layers) + here * working_set(c, self.each)
        layer = self.held.layer + self.held.layer_experts
        buffers = here * buffer_bytes(c, layer, layers * layer + ends)
        framework = to_float(self.framework_bytes)
        ends_bytes = last * logit_bytes(c, self.vocab)
        return Parts(weights, gradients, optimizer, activations, ends_bytes, buffers, framework)
