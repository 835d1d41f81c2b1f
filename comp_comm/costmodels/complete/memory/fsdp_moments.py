"""What ZeRO 3 (FSDP) has in memory at the moments of a step when it may be fullest.

Beside shards there are gathered weights, gradients of them, and what these are scattered from. FSDP2 gathers the next
unit while one is at work, frees a unit's weights before its gradients are scattered, and frees what those are scattered
from when the next unit's are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from comp_comm.choices import MasterWeights, Switch
from comp_comm.costmodels.work import Work
from comp_comm.formulas.arrays import (
    ZERO,
    Array,
    Mask,
    add_up,
    everywhere,
    isnan,
    maximum,
    minimum,
    somewhere,
    to_float,
    where,
)
from comp_comm.lazy import cached_property
from comp_comm.sharding import FsdpUnits, GradientSync
from comp_comm.structs import struct


class Moment(NamedTuple):
    """Bytes beside weights and optimizer states: gradients that are not there yet, activations, logits, buffers."""

    missing_gradients: Array
    activations: Array
    logits: Array
    buffers: Array

    @property
    def total(self) -> Array:
        """All of it, less the gradients that are not there."""
        there = add_up((self.activations, self.logits, self.buffers))
        return there if self.missing_gradients is ZERO else there - self.missing_gradients


class Units(NamedTuple):
    """Parameters of what is gathered at once: all of a stage, its largest layer, its ends, and of these the head."""

    all: Array
    layer: Array
    ends: Array
    head: Array


class Kept(NamedTuple):
    """Bytes that a stage's ``layers`` and its ends keep: all activations, those of a layer as it keeps them, what is
    made again, what a layer's backward pass needs first, the gradient of logits, and logits with their loss."""

    all: Array
    layer: Array
    again: Array
    first: Array
    logits_gradient: Array
    logits: Array
    layers: Array


@struct
class FsdpMoments:
    """The moments of a step of one stage, with its sharded ``gradients`` (bytes)."""

    work: Work
    units: Units
    kept: Kept
    gradients: Array
    unpacked: Array

    @cached_property
    def moments(self) -> list[Moment]:
        """All moments that may be the peak."""
        return [self._loss, *self._head, *self._layers, *self._end]

    @property
    def _weight(self) -> Array:
        return to_float(self.work.scenario.formats.weight)

    @cached_property
    def _made(self) -> Array:
        """Bytes of a gradient as it is made; counted as gradients where nothing is scattered until the end."""
        at_last = GradientSync.LAST.where(self.work.layout.gradient_sync)
        return self._trains * where(at_last, 0.0, self._weight)

    @cached_property
    def _sent(self) -> Array:
        return self._trains * to_float(self.work.scenario.formats.grad)

    @property
    def _trains(self) -> Array:
        return to_float(not self.work.context.frozen)  # what is sent of adapters is little

    @cached_property
    def _apart(self) -> Array:
        """1 where norm and head are a unit by themselves; ends that share a weight are one, as the root is."""
        alone = FsdpUnits.ENDS.where(self.work.layout.fsdp_units) & (to_float(self.work.transformer.tied) == 0)
        return to_float(alone)

    @cached_property
    def _root(self) -> Array:
        """Parameters of what is gathered all through the backward pass: the root, or ends that share a weight."""
        return (1 - self._apart) * self.units.ends

    @cached_property
    def _left(self) -> Array:
        """Parameters without a head that is a unit by itself."""
        return self.units.all - self._apart * self.units.head

    @cached_property
    def _kept_head(self) -> Array:
        """Parameters of the unit that a forward pass leaves whole: norm and head, with a shared weight all ends."""
        ends = FsdpUnits.ENDS.where(self.work.layout.fsdp_units)
        return where(ends, where(self._apart > 0, self.units.head, self.units.ends), 0.0)

    @cached_property
    def _stays(self) -> Array:
        """The share of weights that is there between both passes: not sharded again, or over fewer devices."""
        between = to_float(self.work.layout.reshard_shards)
        shards = where(isnan(between), np.inf, between)
        return where(Switch.OFF.where(self.work.layout.reshard_after_forward), 1.0, 1.0 / shards)

    def _moment(self, numbers: Array, activations: Array, gathered: Array, buffers: Array,
                whole: Array, logits: Array) -> Moment:  # fmt: skip
        """Return a moment when gradients of so many ``numbers`` are missing, ``gathered`` are whole for it alone, and
        of ``whole`` ones what stays."""
        missing = ZERO
        if somewhere(self._comes_once):
            missing = where(self._comes_once, self.gradients * numbers / maximum(self.units.all, 1.0), 0.0)
        if somewhere(self._stays):
            gathered = self._stays * whole + (1 - self._stays) * gathered
        weights = ZERO if gathered is ZERO else self._weight * gathered
        return Moment(missing, activations, logits, add_up((weights, buffers)))

    @cached_property
    def _comes_once(self) -> Mask:
        """Where gradients are not there before the only micro-batch makes them."""
        once = to_float(self.work.layout.stage_micro_batches) <= 1
        return MasterWeights.SHARDS.where(self.work.layout.master_weights) & once

    @property
    def _loss(self) -> Moment:
        """While the loss is made nothing is gathered, but a head that a forward pass leaves whole."""
        units, kept = self.units, self.kept
        return self._moment(units.all, kept.all, self._kept_head, ZERO, units.all, kept.logits)

    @property
    def _head(self) -> Iterator[Moment]:
        """While the root's weights come; when the head's gradients are made of those of logits; when they are
        scattered, if it is a unit by itself.

        Its weights are there then, and the buffer that they were gathered into, as FSDPMemTracker has it.
        """
        units, kept = self.units, self.kept
        of_logits, made, apart = kept.logits_gradient, self._made * units.head, somewhere(self._apart)
        coming, whole = 2 * self._root, self._root + units.layer
        if somewhere(self._kept_head):
            coming = where(self._kept_head > 0, self._kept_head, coming)
        if apart:
            whole = where(self._apart > 0, units.head, self._root) + units.layer
        yield self._moment(units.all, kept.all, coming, ZERO, units.all, of_logits)
        yield self._moment(units.all, kept.all, whole, made, units.all, of_logits)
        if apart:
            sent = self._apart * self._sent * units.head
            yield self._moment(self._left, kept.all, 2 * self._apart * units.head, sent, self._left, ZERO)

    @property
    def _layers(self) -> Iterator[Moment]:
        """The last layer's backward pass, its beginning and its end; the end of the one before it, and of the second.

        Two layers are gathered, where there are two, and the root; gradients of one are there as they are made, and of
        what was before it as they are scattered from.
        """
        units, kept, left = self.units, self.kept, self._left
        gathered = minimum(kept.layers, 2.0) * units.layer + self._root
        of_head = (1 - self._apart) * self._made * units.head
        first = of_head + self._apart * self._sent * units.head + self.unpacked
        made, then = self._made * units.layer, of_head + self.unpacked + (self._made + self._sent) * units.layer
        begin, end = kept.all + kept.again, kept.all + kept.again - kept.first
        yield self._moment(left, begin, gathered, first, left, ZERO)
        yield self._moment(left, end, gathered, first + made, left, ZERO)
        for layers in (minimum(1.0, kept.layers - 1), maximum(kept.layers - 2, 0.0)):
            rest = left - layers * units.layer
            active, whole, held, stays = maximum(end - layers * kept.layer, 0.0), gathered, then, rest
            if not everywhere(layers > 0):  # of a single layer there is none before it
                active, whole, held, stays = (where(layers > 0, each, 0.0) for each in (active, whole, held, stays))
            yield self._moment(rest, active, whole, held, stays, ZERO)

    @property
    def _end(self) -> Iterator[Moment]:
        """When the last gradients are there, with activations gone; and when they are scattered.

        A shared weight has gradients of the head and of the embedding, and their sum.
        """
        units = self.units
        late = units.ends - self._apart * units.head
        twice = 2 * to_float(self.work.transformer.tied) * units.head
        rest = maximum(self.kept.all - self.kept.layers * self.kept.layer, 0.0)
        yield self._moment(late, rest, late, self._made * (late + twice) + self._sent * units.layer, late, ZERO)
        yield self._moment(late, rest, ZERO, (self._made + self._sent) * late, ZERO, ZERO)
