"""Gradients of micro-batches added up by a kernel of its own, where GEMMs do not add to the sum as they are made."""

from __future__ import annotations

from comp_comm.costmodels.work import Work
from comp_comm.formulas.arrays import ZERO, Array, somewhere, to_float, where
from comp_comm.formulas.memory import accumulation_traffic
from comp_comm.sharding import adds_up_apart


def accumulation_seconds(work: Work, parameters: Array, per_byte: Array) -> Array:
    """Return the seconds of adding the gradients of one micro-batch of so many parameters to those before."""
    layout, formats = work.layout, work.scenario.formats
    apart = 1 - to_float(layout.gradient_accumulation_fusion)
    if not somewhere(apart > 0):
        return ZERO
    casts = to_float(adds_up_apart(layout.zero, layout.zero_implementation))
    moved = apart * parameters * accumulation_traffic(formats.weight, formats.main_grad, casts)
    return to_float(moved * per_byte)


def accumulations(work: Work) -> Array:
    """Return how often that is done in a step, with those times that other stages wait for it.

    The first gradient in 16 bits is not added to anything; a sum in more bits begins with zeros.
    """
    layout = work.layout
    micro_batches = to_float(layout.stage_micro_batches)
    filled = 1 + (to_float(layout.pp) - 1) / (to_float(layout.vpp) * micro_batches)
    own_format = work.scenario.formats.main_grad > work.scenario.formats.weight
    return filled * where(own_format, micro_batches, micro_batches - 1)
