"""Gradients of micro-batches added up by the optimizer itself, where GEMMs do not add to the sum as they are made."""

from __future__ import annotations

from comp_comm.costmodels.work import Work
from comp_comm.formulas.arrays import ZERO, Array, somewhere, to_float, where
from comp_comm.formulas.memory import accumulation_traffic
from comp_comm.sharding import adds_up_apart


def accumulation_seconds(work: Work, parameters: Array, per_byte: Array) -> Array:
    """Return the seconds of adding the gradients of one micro-batch of so many parameters to those before."""
    apart = adds_up_apart(work.layout.zero, work.layout.zero_implementation)
    if not somewhere(apart):
        return ZERO
    return to_float(apart * parameters * accumulation_traffic(work.scenario.formats.weight, _summed(work)) * per_byte)


def accumulations(work: Work) -> Array:
    """Return how often that is done in a step, with those times that other stages wait for it.

    The first gradient in 16 bits is not added to anything; a sum in more bits begins with zeros.
    """
    layout = work.layout
    steps = to_float(layout.stage_steps)
    filled = 1 + (to_float(layout.pp) - 1) / (to_float(layout.vpp) * steps)
    return filled * where(_summed(work) > work.scenario.formats.weight, steps, steps - 1)


def _summed(work: Work) -> Array:
    """Return the bytes of a gradient in the sum over micro-batches."""
    formats = work.scenario.formats
    return where(to_float(formats.accumulate) > 0, formats.accumulate, formats.grad)
