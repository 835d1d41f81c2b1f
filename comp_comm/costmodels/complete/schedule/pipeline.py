"""Seconds of the stages of a pipeline, and which of them sets the pace."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from comp_comm.choices import Recompute, Switch
from comp_comm.costmodels.comm_seconds import NO_COMM, CommSeconds
from comp_comm.costmodels.complete.activation_offload import ActivationOffload
from comp_comm.costmodels.complete.layer_costs import LayerCosts
from comp_comm.costmodels.complete.pointwise import pointwise_max
from comp_comm.costmodels.layer_times import LayerTimes
from comp_comm.costmodels.work import Work
from comp_comm.formulas.arrays import (
    ZERO,
    Array,
    add_up,
    by_code,
    distinct_codes,
    somewhere,
    to_codes,
    to_float,
)
from comp_comm.layers.kind import LayerKind
from comp_comm.layers.module import selected_modules
from comp_comm.layers.pipeline_parallel import boundary_collectives
from comp_comm.layers.stages import Stage
from comp_comm.layout import Layout
from comp_comm.lazy import cached_property
from comp_comm.structs import struct
from comp_comm.timing.timed_collectives import Network, TimedCollective


@struct
class Pipeline:
    """The stages of a model, timed; ``network`` is what times sends between them."""

    work: Work
    layer_costs: LayerCosts
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
    def layer_times(self) -> list[LayerTimes]:
        """Seconds of a layer of each kind, in the order of the counts of a stage."""
        return [self.layer_costs.times[kind] for kind in self.work.pattern.kinds]

    @property
    def recomputes(self) -> bool:
        """Whether anything is computed again."""
        return somewhere(to_codes(self.layout.recompute) != int(Recompute.NONE))

    def layers_and_ends(self, stage: Stage) -> list[tuple[LayerTimes, Array]]:
        """Return the layers of each kind and the ends, each with how many of them a stage has."""
        layers = list(zip(self.layer_times, stage.layer_counts, strict=True))
        return [*layers, (self.layer_costs.embedding, stage.embedding), (self.layer_costs.head, stage.head)]

    def total_s(self, stage: Stage, seconds: Callable[[LayerTimes], Array]) -> Array:
        """Return seconds of a layer or an end, added up over those of a stage, or a chunk."""
        return add_up(
            count * each for times, count in self.layers_and_ends(stage) if (each := seconds(times)) is not ZERO
        )

    def recomputed_s(self, stage: Stage, seconds: Callable[[LayerTimes], Array]) -> Array:
        """Return seconds of a forward pass, added up over what a stage recomputes of a micro-batch."""

        def option(code: int) -> Array:
            parts = ((seconds(times), count) for _, times, count in self.recomputed(stage, code))
            return add_up((to_float(0.0), *(count * each for each, count in parts)))

        return by_code(to_codes(self.layout.recompute), option)

    def recomputed(self, stage: Stage, code: int) -> list[tuple[LayerKind, LayerTimes, Array]]:
        """Return what an option recomputes in a stage: kinds of layers, seconds of a part of one, how many of them."""
        kinds = self.work.pattern.kinds
        if code == Recompute.FULL:
            made = list(zip(kinds, self.layer_times, stage.recomputed_or_offloaded, strict=True))
            early = Switch.ON.where(self.layout.recompute_early_stop)
            if somewhere(early):
                made += [
                    (kind, self.layer_costs.skipped_by_early_stop[kind], -to_float(early) * count)
                    for kind, _, count in made
                ]
            return made
        counts = zip(kinds, stage.layer_counts, strict=True) if Recompute.at(code).modules else ()
        again = self.layer_costs.recomputable
        return [(kind, part.times, count) for kind, count in counts for part in selected_modules(again[kind], code)]

    def recomputed_at_any_point(self, stage: Stage) -> list[tuple[LayerKind, LayerTimes, Array]]:
        """Return what any point recomputes in a stage, as often as each of them does."""
        codes = np.asarray(self.layout.recompute)
        options = ((codes == code, self.recomputed(stage, code)) for code in distinct_codes(codes))
        return [(kind, times, chosen * count) for chosen, made in options for kind, times, count in made]

    def both_passes_s(self, stage: Stage) -> Array:
        """Return the seconds of both passes of one micro-batch through a stage, recomputation in them."""
        both = self.total_s(stage, lambda times: times.both_passes_s)
        if self.recomputes:
            both = both + self.recomputed_s(stage, lambda times: times.forward_pass_s)
        return both + self.offload_comm(stage).exposed if somewhere(self.offload.applies) else both

    @property
    def model_passes_s(self) -> Array:
        """Seconds of both passes of one micro-batch through all stages of one copy of the model, but for the host's
        link."""
        return add_up(
            (self.layer_costs.model_passes_s, by_code(to_codes(self.layout.recompute), self._recomputed_in_model))
        )

    def _recomputed_in_model(self, code: int) -> Array:
        if Recompute.at(code).modules:
            return self.layer_costs.model_modules[code].forward_pass_s
        return add_up(count * times.forward_pass_s for _, times, count in self.recomputed(self.model, code))

    @cached_property
    def offload(self) -> ActivationOffload:
        """Activations that are offloaded to the host."""
        return ActivationOffload(self.work, self.layer_costs)

    def offload_comm(self, stage: Stage) -> CommSeconds:
        """Return the seconds of the link to the host for one micro-batch, beside the compute of a stage."""
        forward = self.total_s(stage, lambda times: times.compute.forward)
        backward = self.total_s(stage, lambda times: times.compute.backward)
        return self.offload.seconds(
            stage, forward, backward + self.recomputed_s(stage, lambda times: times.compute.forward)
        )

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """The stages that may be the slowest: not the first, where the last has as many layers, and more beside."""
        stages = self.work.stages
        outdone = stages.last_has_most and self.layer_costs.head_takes_longer
        return stages.candidates[1:] if outdone else stages.candidates

    @property
    def slowest_stage(self) -> Stage:
        """The stage whose passes take longest."""
        return self._pace[0]

    @property
    def pace_s(self) -> Array:
        """Seconds of both passes of one micro-batch through the slowest stage."""
        return self._pace[1]

    @cached_property
    def _pace(self) -> tuple[Stage, Array]:
        return pointwise_max((stage, self.both_passes_s(stage)) for stage in self.stages)

    @cached_property
    def model(self) -> Stage:
        """The model as if it were one stage."""
        one = to_float(1.0)
        return Stage(tuple(self.work.pattern.totals), self.work.stages.recomputed_or_offloaded, one, one, to_float(0.0))

    def forward_pass_s(self, stage: Stage) -> Array:
        """Return the seconds of the forward pass of one micro-batch through a stage, or a chunk."""
        return self.total_s(stage, lambda times: times.forward_pass_s)

    def weights_s(self, stage: Stage) -> Array:
        """Return the seconds of the gradients of the weights of a stage's layers, or a chunk's, waits in them."""
        parts = zip(self.layer_times, stage.layer_counts, strict=True)
        return add_up(count * times.weights_s for times, count in parts)

    def recompute_comm(self, group: str, stage: Stage) -> CommSeconds:
        """Return the communication of a group that recomputation repeats in a stage."""
        spent = NO_COMM
        for _, times, count in self.recomputed_at_any_point(stage):
            if group in times.groups:
                spent = spent.plus(times.forward_comm[group].times(count))
        return spent
