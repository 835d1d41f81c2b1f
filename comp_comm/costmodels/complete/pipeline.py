"""Seconds of the stages of a pipeline: which of them sets the pace, and how long it waits for the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from comp_comm.choices import Recompute, Schedule
from comp_comm.costmodels.complete.layer_costs import LayerCosts
from comp_comm.costmodels.layer_times import LayerTimes
from comp_comm.costmodels.timed import NO_COMM, CommSeconds
from comp_comm.costmodels.work import Work
from comp_comm.formulas.arrays import Array, add_up, by_code, to_float
from comp_comm.formulas.pipeline import bubble_seconds
from comp_comm.formulas.uneven import gpipe_bubble_seconds, uneven_bubble_seconds
from comp_comm.formulas.zero_bubble import dualpipe_seconds, zb_h2_seconds, zb_v_seconds, zero_bubble_seconds
from comp_comm.layers.stages import Stage
from comp_comm.layout import Layout

# Schedules that do gradients of weights apart from those of inputs.
SPLIT = (Schedule.ZERO_BUBBLE, Schedule.ZB_H2, Schedule.ZB_V, Schedule.DUALPIPE)


@dataclass(frozen=True, eq=False)
class Pipeline:
    """The stages of a model, timed. ``sends_s`` are the seconds of a micro-batch's sends over a boundary, one way."""

    work: Work
    costs: LayerCosts
    sends_s: Array

    @property
    def layout(self) -> Layout:
        """How the model is laid out."""
        return self.work.layout

    @cached_property
    def layers(self) -> list[LayerTimes]:
        """Seconds of a layer of each kind, in the order of the counts of a stage."""
        return [self.costs.layers[kind] for kind in self.work.pattern.kinds]

    @property
    def recomputes(self) -> bool:
        """Whether anything is computed again."""
        return bool(np.any(np.asarray(self.layout.recompute) != Recompute.NONE))

    def parts(self, stage: Stage) -> list[tuple[LayerTimes, Array]]:
        """Return the layers of each kind and the ends, each with how many of them a stage has."""
        layers = list(zip(self.layers, stage.layers, strict=True))
        return [*layers, (self.costs.embedding, stage.embedding), (self.costs.head, stage.head)]

    def again(self, stage: Stage, seconds: str) -> Array:
        """Return the seconds of a stage's recomputation: ``forward_s`` of its layers, or ``compute`` of them alone."""

        def option(code: int) -> Array:
            if code == Recompute.FULL:
                each = [times.forward_s if seconds == "forward_s" else times.compute.forward for times in self.layers]
                return _total(each, stage.recomputed)
            if code == Recompute.SELECTIVE:
                return _total([times.core_attention.forward for times in self.layers], stage.layers)
            return to_float(0.0)

        return by_code(np.asarray(self.layout.recompute), option)

    def passes_s(self, stage: Stage) -> Array:
        """Return the seconds of both passes of one micro-batch through a stage, recomputation in them."""
        both = add_up(count * times.passes_s for times, count in self.parts(stage))
        return both + self.again(stage, "forward_s") if self.recomputes else both

    @property
    def slowest(self) -> Stage:
        """The stage that sets the pace."""
        return self._pace[0]

    @property
    def slowest_number(self) -> NDArray[np.intp]:
        """Which of the stages that differ it is."""
        return self._pace[1]

    @property
    def pace_s(self) -> Array:
        """Seconds of both passes of one micro-batch through the slowest stage."""
        return self._pace[2]

    @cached_property
    def _pace(self) -> tuple[Stage, NDArray[np.intp], Array]:
        first, *others = self.work.stages.distinct
        slowest, number, pace = first, np.asarray(0, np.intp), self.passes_s(first)
        for place, stage in enumerate(others, 1):
            seconds = self.passes_s(stage)
            slower = seconds > pace
            if slower.any():
                pace = np.maximum(pace, seconds)
                slowest, number = _choose(slower, stage, slowest), np.where(slower, place, number)
        return slowest, number, pace

    @cached_property
    def all_passes_s(self) -> Array:
        """Seconds of both passes through all stages together while every layer sees one micro-batch."""
        once = self.passes_s(self._model)
        return self.layout.copies * once if np.any(self.layout.copies != 1) else once

    @cached_property
    def _model(self) -> Stage:
        """The model as if it were one stage."""
        one = to_float(1.0)
        return Stage(tuple(self.work.pattern.totals), self.work.stages.recomputed, one, one, to_float(0.0))

    @cached_property
    def bubble_s(self) -> Array:
        """Seconds a stage waits in a step, for other stages to begin or to end."""
        layout, schedule = self.layout, np.asarray(self.layout.schedule)
        others = self.all_passes_s - self.pace_s
        normally = bubble_seconds(layout.pp, layout.vpp, others, 2 * self.sends_s)
        for option, waits in ((Schedule.ONE_F_ONE_B, uneven_bubble_seconds), (Schedule.GPIPE, gpipe_bubble_seconds)):
            there = option.where(schedule) & (to_float(layout.pp) > 1)
            if there.any():
                normally = np.where(there, waits(*self._runs, layout.accumulation), normally)
        split = [option for option in SPLIT if option.where(schedule).any()]
        if not split:
            return normally
        passes = self._passes_of_others
        for option in split:
            normally = np.where(option.where(schedule), self._waits(option, passes), normally)
        return normally

    @cached_property
    def _runs(self) -> tuple[list[Array], list[Array], tuple[Array, ...]]:
        """F and B of the stages of each run of like stages with the sends that follow, and how many are in it."""
        stages, counts = zip(*self.work.stages.runs, strict=True)
        forward = [self._all(stage, lambda times: times.forward_s) for stage in stages]
        backward = [self.passes_s(stage) - seconds + self.sends_s
                    for stage, seconds in zip(stages, forward, strict=True)]  # fmt: skip
        return [seconds + self.sends_s for seconds in forward], backward, counts

    @cached_property
    def _passes_of_others(self) -> tuple[Array, Array, Array]:
        """F, B and W of a stage, the mean of all but the slowest: sends are in F and B, recomputation is in B."""
        each, count = self._all, np.maximum(to_float(self.layout.pp) - 1, 1.0)

        def mean(of_stage: Callable[[Stage], Array]) -> Array:
            return (self.layout.copies * of_stage(self._model) - of_stage(self.slowest)) / count

        forward = mean(lambda stage: each(stage, lambda times: times.forward_s))
        weights = mean(lambda stage: _total([times.compute.for_weights for times in self.layers], stage.layers))
        both = (self.all_passes_s - self.pace_s) / count
        return forward + self.sends_s, both - forward - weights + self.sends_s, weights

    def _all(self, stage: Stage, seconds: Callable[[LayerTimes], Array]) -> Array:
        """Return seconds of all parts of a stage."""
        return add_up(count * seconds(times) for times, count in self.parts(stage))

    def _waits(self, schedule: Schedule, passes: tuple[Array, Array, Array]) -> Array:
        """Return how long a stage waits under a schedule that splits the backward pass."""
        pp = self.layout.pp
        if schedule is Schedule.ZERO_BUBBLE:
            return zero_bubble_seconds(pp, self.layout.accumulation, *passes)
        if schedule is Schedule.ZB_H2:
            return zb_h2_seconds(pp, *passes)
        chunk = tuple(seconds / 2 for seconds in passes)
        return zb_v_seconds(pp, *chunk) if schedule is Schedule.ZB_V else dualpipe_seconds(pp, *chunk)

    def again_comm(self, group: str, stage: Stage) -> CommSeconds:
        """Return the communication of a group that full recomputation repeats in a stage."""
        full, spent = Recompute.FULL.where(self.layout.recompute), NO_COMM
        for times, again in zip(self.layers, stage.recomputed, strict=True):
            if group in times.groups:
                spent = spent.plus(times.forward[group].times(full * again))
        return spent


def _total(seconds: list[Array], counts: tuple[Array, ...]) -> Array:
    return add_up(count * each for each, count in zip(seconds, counts, strict=True))


def _choose(where: NDArray[np.bool_], one: Stage, other: Stage) -> Stage:
    def choose(a: Array, b: Array) -> Array:
        return a if a is b else np.where(where, a, b)

    layers, recomputed = (
        tuple(map(choose, getattr(one, name), getattr(other, name))) for name in ("layers", "recomputed")
    )
    ends = (choose(getattr(one, name), getattr(other, name)) for name in ("embedding", "head", "place"))
    return Stage(layers, recomputed, *ends)
