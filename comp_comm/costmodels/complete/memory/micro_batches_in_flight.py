"""Micro-batches that a stage of a pipeline holds the activations of."""

from __future__ import annotations

from comp_comm.choices import Schedule
from comp_comm.formulas.arrays import Array, maximum, somewhere, to_float, where
from comp_comm.formulas.pipeline import in_flight
from comp_comm.formulas.zero_bubble import dualpipe_in_flight, zero_bubble_in_flight
from comp_comm.layout import Layout

# Schedules whose stages hold another number of micro-batches than 1F1B's, interleaved or not.
OTHER_SCHEDULES = (Schedule.GPIPE, Schedule.ZERO_BUBBLE, Schedule.ZB_H2, Schedule.ZB_V, Schedule.DUALPIPE)


def micro_batches_in_flight(layout: Layout, place: Array) -> Array:
    """Return how many micro-batches the stage at a place holds; GPipe holds all of them, where there is a pipeline.

    >>> float(micro_batches_in_flight(Layout(pp=4, accumulation=16), to_float(0.0)))
    4.0
    """
    pp, micro_batches = layout.pp, to_float(layout.accumulation)
    held = maximum(in_flight(pp, layout.vpp, place, micro_batches), 0.0)

    def of(schedule: Schedule) -> Array:
        if schedule is Schedule.GPIPE:
            return where(to_float(pp) > 1, micro_batches, 1.0)
        if schedule is Schedule.DUALPIPE:
            return dualpipe_in_flight(pp)
        return zero_bubble_in_flight(pp, micro_batches, 2.0 if schedule is Schedule.ZB_H2 else 1.0)

    for schedule in OTHER_SCHEDULES:
        here = schedule.where(layout.schedule)
        held = where(here, of(schedule), held) if somewhere(here) else held
    return held
