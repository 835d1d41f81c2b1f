"""Seconds of the stages of a pipeline: which of them sets the pace, and how long it waits for the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from comp_comm.choices import Recompute, Schedule, Switch
from comp_comm.costmodels.complete.host_memory import HostMemory
from comp_comm.costmodels.complete.layer_costs import LayerCosts
from comp_comm.costmodels.layer_times import LayerTimes
from comp_comm.costmodels.timed import NO_COMM, CommSeconds, Network, TimedCollective
from comp_comm.costmodels.work import Work
from comp_comm.formulas.arrays import (
    Array,
    add_up,
    by_code,
    distinct_codes,
    maximum,
    somewhere,
    to_codes,
    to_float,
    where,
)
from comp_comm.formulas.pipeline import bubble_seconds
from comp_comm.formulas.uneven import gpipe_bubble_seconds, uneven_bubble_seconds
from comp_comm.formulas.zero_bubble import dualpipe_seconds, zb_h2_seconds, zb_v_seconds, zero_bubble_seconds
from comp_comm.layers.kind import LayerKind
from comp_comm.layers.module import made_again
from comp_comm.layers.pipeline_parallel import boundary_collectives
from comp_comm.layers.stages import Stage
from comp_comm.layout import Layout
from comp_comm.lazy import cached_property

# What is done again in a layer, by what is asked for.
PASSES: dict[str, Callable[[LayerTimes], Array]] = {
    "forward_s": lambda times: times.forward_s, "compute": lambda times: times.compute.forward,
    "host": lambda times: times.waits[0], "busy": lambda times: times.busy[0],
    "hidden": lambda times: times.hidden_forward_s,
}  # fmt: skip
# Schedules that do gradients of weights apart from those of inputs.
SPLIT = (Schedule.ZERO_BUBBLE, Schedule.ZB_H2, Schedule.ZB_V, Schedule.DUALPIPE)


@dataclass(frozen=True, eq=False)
class Pipeline:
    """The stages of a model, timed; ``network`` is what times sends between them."""

    work: Work
    costs: LayerCosts
    network: Network

    @cached_property
    def sends(self) -> list[TimedCollective]:
        """Sends between stages."""
        return self.network.timed(boundary_collectives(self.work.context))

    @cached_property
    def sends_s(self) -> Array:
        """Seconds of a micro-batch's sends over a boundary, one way."""
        return add_up(call.seconds * call.collective.count for call in self.sends)

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
        return somewhere(to_codes(self.layout.recompute) != int(Recompute.NONE))

    def parts(self, stage: Stage) -> list[tuple[LayerTimes, Array]]:
        """Return the layers of each kind and the ends, each with how many of them a stage has."""
        layers = list(zip(self.layers, stage.layers, strict=True))
        return [*layers, (self.costs.embedding, stage.embedding), (self.costs.head, stage.head)]

    def again(self, stage: Stage, seconds: str) -> Array:
        """Return the seconds of a stage's recomputation: a name of ``PASSES``."""

        def option(code: int) -> Array:
            parts = ((PASSES[seconds](times), count) for _, times, count in self.made_again(stage, code))
            return add_up((to_float(0.0), *(count * each for each, count in parts)))

        return by_code(to_codes(self.layout.recompute), option)

    def made_again(self, stage: Stage, code: int) -> list[tuple[LayerKind, LayerTimes, Array]]:
        """Return what an option of recomputation makes again in a stage: of which kind of layer, and how often."""
        kinds = self.work.pattern.kinds
        if code == Recompute.FULL:
            made = list(zip(kinds, self.layers, stage.recomputed, strict=True))
            early = Switch.ON.where(self.layout.recompute_early_stop)
            if somewhere(early):
                made += [(kind, self.costs.left_out[kind], -to_float(early) * count) for kind, _, count in made]
            return made
        counts = zip(kinds, stage.layers, strict=True) if Recompute.at(code).modules else ()
        again = self.costs.again
        return [(kind, part.times, count) for kind, count in counts for part in made_again(again[kind], code)]

    def made_again_anywhere(self, stage: Stage) -> list[tuple[LayerKind, LayerTimes, Array]]:
        """Return what any point makes again in a stage, as often as each of them does."""
        codes = np.asarray(self.layout.recompute)
        options = ((codes == code, self.made_again(stage, code)) for code in distinct_codes(codes))
        return [(kind, times, chosen * count) for chosen, made in options for kind, times, count in made]

    def passes_s(self, stage: Stage) -> Array:
        """Return the seconds of both passes of one micro-batch through a stage, recomputation in them."""
        both = self._own_passes_s(stage)
        return both + self.of_host(stage).exposed if somewhere(self.host.asked) else both

    def _own_passes_s(self, stage: Stage) -> Array:
        """Return the seconds of both passes through a stage, but for activations that go to the host and back."""
        both = add_up(count * times.passes_s for times, count in self.parts(stage))
        return both + self.again(stage, "forward_s") if self.recomputes else both

    @property
    def own_passes_s(self) -> Array:
        """Seconds of both passes of one micro-batch through all stages of one copy of the model, but for the host's
        link."""
        return self._own_passes_s(self._model)

    @cached_property
    def host(self) -> HostMemory:
        """Activations that are kept with the host."""
        return HostMemory(self.work, self.costs)

    def of_host(self, stage: Stage) -> CommSeconds:
        """Return the seconds of the link to the host for one micro-batch, beside the compute of a stage."""
        forward, backward = (add_up(count * times.compute[i] for times, count in self.parts(stage)) for i in range(2))
        return self.host.spent(stage, forward, backward + self.again(stage, "compute"))

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """The stages that may be the slowest: not the first, where the last has as many layers, and more beside."""
        stages = self.work.stages
        outdone = stages.last_has_most and self.costs.head_takes_longer
        return stages.distinct[1:] if outdone else stages.distinct

    @property
    def slowest(self) -> Stage:
        """The stage whose passes take longest."""
        return self._pace[0]

    @property
    def pace_s(self) -> Array:
        """Seconds of both passes of one micro-batch through the slowest stage."""
        return self._pace[1]

    @cached_property
    def _pace(self) -> tuple[Stage, Array]:
        first, *others = self.stages
        slowest, pace = first, self.passes_s(first)
        for stage in others:
            seconds = self.passes_s(stage)
            slower = seconds > pace
            if somewhere(slower):
                slowest, pace = _choose(slower, stage, slowest), maximum(pace, seconds)
        return slowest, pace

    @cached_property
    def all_passes_s(self) -> Array:
        """Seconds of both passes through all stages together while every layer sees one micro-batch."""
        once = self.passes_s(self._model)
        return self.layout.copies * once if somewhere(self.layout.copies != 1) else once

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
            if somewhere(there):
                normally = where(there, waits(*self._runs, layout.accumulation), normally)
        split = [option for option in SPLIT if somewhere(option.where(schedule))]
        if not split:
            return normally
        passes = self._passes_of_others
        for option in split:
            normally = where(option.where(schedule), self._waits(option, passes), normally)
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
        each, count = self._all, maximum(to_float(self.layout.pp) - 1, 1.0)

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
        """Return the communication of a group that recomputation repeats in a stage."""
        spent = NO_COMM
        for _, times, count in self.made_again_anywhere(stage):
            if group in times.groups:
                spent = spent.plus(times.forward[group].times(count))
        return spent


def _total(seconds: list[Array], counts: tuple[Array, ...]) -> Array:
    return add_up(count * each for each, count in zip(seconds, counts, strict=True))


def chosen_stage(stages: Sequence[Stage], number: NDArray[np.intp]) -> Stage:
    """Return at each point the stage of a number."""
    chosen = stages[0]
    for place, stage in enumerate(stages[1:], 1):
        there = number == place
        if somewhere(there):
            chosen = _choose(there, stage, chosen)
    return chosen


def _choose(mask: NDArray[np.bool_], one: Stage, other: Stage) -> Stage:
    def choose(a: Array, b: Array) -> Array:
        return a if a is b else where(mask, a, b)

    layers, recomputed = (
        tuple(map(choose, getattr(one, name), getattr(other, name))) for name in ("layers", "recomputed")
    )
    ends = (choose(getattr(one, name), getattr(other, name)) for name in ("embedding", "head", "place"))
    return Stage(layers, recomputed, *ends)
