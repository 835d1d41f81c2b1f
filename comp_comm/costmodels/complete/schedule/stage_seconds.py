"""The seconds of one stage of a pipeline in a step: its passes and their communication."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from comp_comm.choices import Switch
from comp_comm.costmodels.comm_seconds import NO_COMM, CommSeconds, overlapped
from comp_comm.costmodels.complete.schedule.pipeline import Pipeline
from comp_comm.costmodels.layer_times import LayerTimes
from comp_comm.costmodels.records import GROUP_TITLES
from comp_comm.costmodels.work import Work
from comp_comm.formulas.arrays import ZERO, Array, add_up, maximum, minimum, somewhere, where
from comp_comm.layers.stages import Stage
from comp_comm.lazy import cached_property
from comp_comm.structs import struct


@struct
class StageSeconds:
    """What a stage does in a step, but for its states."""

    pipeline: Pipeline
    stage: Stage

    @property
    def work(self) -> Work:
        """What is laid out, and how."""
        return self.pipeline.work

    @property
    def _micro_batches(self) -> Array:
        return self.work.layout.stage_micro_batches

    def _total(self, seconds: Callable[[LayerTimes], Array]) -> Array:
        return self.pipeline.total_s(self.stage, seconds)

    @cached_property
    def forward_compute_s(self) -> Array:
        """Seconds of forward compute in a step."""
        return self._micro_batches * self._total(lambda times: times.compute.forward)

    @cached_property
    def backward_compute_s(self) -> Array:
        """Seconds of backward compute in a step."""
        return self._micro_batches * self._total(lambda times: times.compute.backward)

    @cached_property
    def recompute_s(self) -> Array:
        """Seconds of recomputation of activations."""
        return self._micro_batches * self.pipeline.recomputed_s(self.stage, lambda times: times.compute.forward)

    @cached_property
    def host_waits(self) -> tuple[Array, Array]:
        """Seconds of waiting for the host: in forward passes, and in backward ones with what they repeat."""
        recomputes = self.pipeline.recomputes  # what is recomputed may wait where the passes do not
        forward, backward = (
            self._total(lambda times: times.host_waits[0]),
            self._total(lambda times: times.host_waits[1]),
        )
        if forward is ZERO and not recomputes:
            return ZERO, ZERO
        recomputed = self.pipeline.recomputed_s(self.stage, lambda times: times.host_waits[0]) if recomputes else ZERO
        return self._micro_batches * forward, self._micro_batches * add_up((backward, recomputed))

    def layers_comm(self, group: str) -> CommSeconds:
        """Return what a group spends in the layers and at the ends."""
        spent = NO_COMM
        for times, count in self.pipeline.layers_and_ends(self.stage):
            if group in times.groups:
                spent = spent.plus(times.forward_comm[group].times(count)).plus(times.backward_comm[group].times(count))
        if self.pipeline.recomputes:
            spent = self.pipeline.recompute_comm(group, self.stage).plus(spent)
        return spent.times(self._micro_batches)

    @cached_property
    def layers_comm_by_group(self) -> dict[str, CommSeconds]:
        """What each group spends in the layers and at the ends."""
        there = {group for times, _ in self.pipeline.layers_and_ends(self.stage) for group in times.groups}
        return {group: self.layers_comm(group) for group in GROUP_TITLES if group in there}

    @cached_property
    def _hidden_in_layers(self) -> Array:
        """Seconds of compute that already hide communication of the layers, for one micro-batch."""
        hidden = self._total(lambda times: times.hidden_s)
        if hidden is ZERO or not self.pipeline.recomputes:
            return hidden
        return add_up((hidden, self.pipeline.recomputed_s(self.stage, lambda times: times.hidden_forward_s)))

    @cached_property
    def _passes(self) -> tuple[Array, Array]:
        """Seconds of compute and of waiting for the host of one micro-batch, forward and backward."""
        forward, backward = (
            self._total(lambda times: times.busy.forward),
            self._total(lambda times: times.busy.backward),
        )
        recomputed = (
            self.pipeline.recomputed_s(self.stage, lambda times: times.busy.forward)
            if self.pipeline.recomputes
            else ZERO
        )
        return forward, add_up((backward, recomputed))

    @cached_property
    def _overlap_window(self) -> Array:
        """Seconds of passes beside which something may be sent yet: the network does not wait for the host."""
        busy = add_up(self._passes)
        return busy if self._hidden_in_layers is ZERO else maximum(busy - self._hidden_in_layers, 0.0)

    @cached_property
    def sends(self) -> CommSeconds:
        """The sends of the stage for one micro-batch: it comes in and goes out, forward and backward."""
        if self.pipeline.sends_s is ZERO:
            return NO_COMM
        overlaps = Switch.ON.where(self.work.layout.overlap_pp)
        total = 2.0 * self.pipeline.sends_s
        if not somewhere(overlaps):
            return CommSeconds(total, ZERO, ZERO)
        total = total * where(overlaps, self.work.scenario.interference, 1.0)
        return overlapped(total, minimum(total, self._overlap_window), overlaps)

    @cached_property
    def overlap_windows(self) -> tuple[Array, Array]:
        """Compute of one micro-batch, forward and backward, that hides nothing yet: of layers first, then of sends."""
        forward, backward = self._passes
        if self._hidden_in_layers is ZERO and self.sends.hidden is ZERO:
            return forward, backward
        compute = forward + backward
        share = maximum(self._overlap_window - self.sends.hidden, 0.0) / where(compute > 0, compute, 1.0)
        return share * forward, share * backward


def widest_windows(stages: Sequence[StageSeconds]) -> tuple[Array, Array]:
    """Return the most compute of a micro-batch that any stage has forward and backward, beside which states may be
    sent."""
    forward, backward = stages[0].overlap_windows
    for stage in stages[1:]:
        more, longer = stage.overlap_windows
        forward, backward = maximum(forward, more), maximum(backward, longer)
    return forward, backward
