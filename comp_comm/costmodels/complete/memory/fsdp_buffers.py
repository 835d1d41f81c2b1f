"""What ZeRO 3 (FSDP) needs beside its shards for a while: gathered weights, and gradients not scattered yet."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from comp_comm.choices import Switch
from comp_comm.costmodels.work import Work
from comp_comm.formulas.arrays import Array, isnan, maximum, to_float, where
from comp_comm.sharding import FsdpUnits, GradientSync


class FsdpBuffers(NamedTuple):
    """Bytes at three moments: while the loss is made, while layers go backward, and at the end, when the last gradients
    are scattered and activations are freed."""

    at_loss: Array
    in_backward: Array
    at_end: Array


def fsdp_buffers(work: Work, parameters: Array, largest_layer: Array, ends: Array, head: Array) -> FsdpBuffers:
    """Return what is gathered of a stage with so many parameters, the largest layer's, those of its ends and its head.

    Going backward, a layer and the next one are whole, and its gradients, which are copied to be scattered. What is
    beside the layers is a unit that ends with the first layer's backward pass (FSDP2's root, and an embedding that is
    the head, too), or is done before.
    Weights that are not sharded again after a forward pass, or over fewer devices, are there all the time.
    """
    f, layout = work.scenario.formats, work.layout
    trains = to_float(not work.context.frozen)  # what is sent of adapters is little
    weight, grad = to_float(f.weight), trains * to_float(f.grad)
    ends_apart = FsdpUnits.ENDS.where(layout.fsdp_units)
    at_last = GradientSync.LAST.where(layout.gradient_sync)  # whole until then: counted as gradients
    unscattered = trains * where(at_last, 0.0, weight)
    between = to_float(layout.reshard_shards)
    shards = where(isnan(between), np.inf, between)
    unsharded = weight * parameters * where(Switch.OFF.where(layout.reshard_after_forward), 1.0, 1.0 / shards)
    layer = largest_layer * (2 * weight + unscattered + grad)
    root = where(ends_apart & (to_float(work.transformer.tied) == 0), 0.0, ends)
    late = where(ends_apart, maximum(ends - head, head), ends) * (weight + unscattered + grad)
    return FsdpBuffers(
        unsharded + where(ends_apart, head, 0.0) * weight,
        unsharded + maximum(layer + root * (weight + unscattered), where(ends_apart, late, 0.0)),
        unsharded + late,
    )
