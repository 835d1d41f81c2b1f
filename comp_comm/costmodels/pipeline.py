"""Stages of a pipeline: what each has to do in a micro-batch, and which of them sets the pace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from comp_comm.costmodels.layer_times import LayerTimes, visible
from comp_comm.costmodels.near import PickedTimes
from comp_comm.formulas.arrays import Array, Numeric, to_float
from comp_comm.formulas.pipeline import bubble_seconds, stage_layers, zero_bubble_seconds
from comp_comm.layout import FULL, NO_RECOMPUTE, SELECTIVE, ZERO_BUBBLE
from comp_comm.operations.context import Context
from comp_comm.operations.memory import recomputed_layers
from comp_comm.timing.kernels import Passes


@dataclass(frozen=True)
class Stage:
    """One stage: how many layers it has, and whether it has the embedding and the logits (1 or 0)."""

    layers: Array
    embedding: Numeric
    logits: Numeric


@dataclass(frozen=True)
class Pipeline:
    """The stages of a model, from the times of an average layer and of the ends (compute and visible communication).

    ``sends_s`` are the seconds of a micro-batch's sends over a boundary, in one direction.
    """

    c: Context
    layer: LayerTimes | PickedTimes
    embedding: Passes
    logits: Passes
    sends_s: Array

    @cached_property
    def recomputes(self) -> bool:
        """Whether anything is computed again."""
        return bool(np.any(np.asarray(self.c.layout.recompute) != NO_RECOMPUTE))

    @cached_property
    def again_compute(self) -> Array:
        """Seconds of compute to make one layer's activations again."""
        recompute = np.asarray(self.c.layout.recompute)
        full = np.where(recompute == FULL, self.layer.compute.forward, 0.0)
        return full + np.where(recompute == SELECTIVE, self.layer.attention_core.forward, 0.0)

    @cached_property
    def again(self) -> Array:
        """Seconds of making one layer's activations again, with the communication that full recompute repeats."""
        full = np.asarray(self.c.layout.recompute) == FULL
        return self.again_compute + np.where(full, visible(self.layer.forward), 0.0)

    def layers_again(self, stage: Stage) -> Array:
        """Return how many layers of a stage are computed again."""
        recompute = np.asarray(self.c.layout.recompute)
        if not (recompute == FULL).any():
            return stage.layers
        return np.where(recompute == FULL, recomputed_layers(self.c, stage.layers), stage.layers)

    def forward(self, stage: Stage) -> Array:
        """Return the seconds of a stage's forward pass of one micro-batch."""
        layers = stage.layers * self._forward
        return layers + stage.embedding * self.embedding.forward + stage.logits * self.logits.forward

    def backward(self, stage: Stage) -> Array:
        """Return the seconds of a stage's backward pass of one micro-batch, recomputation in it."""
        layers = stage.layers * self._backward
        if self.recomputes:
            layers = layers + self.layers_again(stage) * self.again
        return layers + stage.embedding * self.embedding.backward + stage.logits * self.logits.backward

    @cached_property
    def _forward(self) -> Array:
        return self.layer.compute.forward + visible(self.layer.forward)

    @cached_property
    def _backward(self) -> Array:
        return self.layer.compute.backward + visible(self.layer.backward)

    @cached_property
    def kinds(self) -> tuple[Stage, ...]:
        """The stages that differ (see `stage_kinds`)."""
        return stage_kinds(self.c)

    @property
    def slowest(self) -> Stage:
        """The stage that sets the pace."""
        return self._pace[0]

    @property
    def slowest_kind(self) -> NDArray[np.intp]:
        """Which of the ``kinds`` that is."""
        return self._pace[1]

    @cached_property
    def _pace(self) -> tuple[Stage, NDArray[np.intp]]:
        slowest, kind = self.kinds[0], np.asarray(0, np.intp)
        if len(self.kinds) == 1:
            return slowest, kind
        pace = self.forward(slowest) + self.backward(slowest)
        for number, stage in enumerate(self.kinds[1:], 1):
            took = self.forward(stage) + self.backward(stage)
            slower = took > pace
            pace = np.maximum(pace, took)
            slowest, kind = _choose(slower, stage, slowest), np.where(slower, number, kind)
        return slowest, kind

    @cached_property
    def average(self) -> Stage:
        """An even share of the whole model: what a bubble consists of."""
        pp = to_float(self.c.layout.pp)
        layers = (to_float(self.c.t.all_layers) + self.c.t.mtp_layers) / pp
        return Stage(layers, 1 / pp, 1 / pp)

    @cached_property
    def bubble_s(self) -> Array:
        """Seconds a stage waits in a step, for other stages to begin or to end."""
        layout, sends = self.c.layout, self.sends_s
        forward, backward = self.forward(self.average) + sends, self.backward(self.average) + sends
        normally = bubble_seconds(layout.pp, layout.vpp, forward, backward)
        zero = np.asarray(layout.schedule) == ZERO_BUBBLE
        if not zero.any():
            return normally
        weights = self.average.layers * self.layer.compute.for_weights
        return np.where(zero, zero_bubble_seconds(layout.pp, forward, backward, weights), normally)


def stage_kinds(c: Context) -> tuple[Stage, ...]:
    """Return the stages that differ: the first, one between, and the last (with modules of multi-token prediction).

    Where there is one stage only, it is the first, and the others are empty; where that is so everywhere, there is one.
    """
    layers, pp = to_float(c.t.all_layers), to_float(c.layout.pp)
    one = pp == 1
    if one.all():
        return (Stage(layers + c.t.mtp_layers, 1.0, 1.0),)
    first, between, last = stage_layers(layers, pp, c.layout.vpp)
    last = last + c.t.mtp_layers
    if not one.any():
        return Stage(first, 1.0, 0.0), Stage(between, 0.0, 0.0), Stage(last, 0.0, 1.0)
    alone = to_float(one)
    first = np.where(one, layers + c.t.mtp_layers, first)
    return Stage(first, 1.0, alone), Stage(between, 0.0, 0.0), Stage(last * (1 - alone), 0.0, 1 - alone)


def stacked(kinds: Sequence[Stage], rank: int) -> Stage:
    """Return kinds of stages along an axis before the ``rank`` others."""

    def stack(numbers: Sequence[Numeric]) -> Array:
        parts = np.broadcast_arrays(*map(to_float, numbers))
        return np.stack([part.reshape((1,) * (rank - part.ndim) + part.shape) for part in parts])

    return Stage(*(stack([getattr(kind, part.name) for kind in kinds]) for part in fields(Stage)))


def _choose(where: NDArray[np.bool_], one: Stage, other: Stage) -> Stage:
    return Stage(*(np.where(where, a, b) for a, b in ((one.layers, other.layers), (one.embedding, other.embedding),
                                                      (one.logits, other.logits))))  # fmt: skip
