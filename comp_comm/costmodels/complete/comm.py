"""What a device of the slowest stage sends in a step: seconds by group, every collective, bytes."""

from __future__ import annotations

from dataclasses import replace

from comp_comm.choices import Switch
from comp_comm.costmodels.comm_seconds import NO_COMM, CommSeconds
from comp_comm.costmodels.complete.pointwise import stage_at
from comp_comm.costmodels.complete.schedule.pipeline import Pipeline
from comp_comm.costmodels.complete.schedule.stage_seconds import StageSeconds, widest_windows
from comp_comm.costmodels.complete.states.muon import gathers_of_shards
from comp_comm.costmodels.complete.states.overlap import state_comm
from comp_comm.costmodels.complete.states.stage_states import StageStates
from comp_comm.costmodels.complete.states.state_collectives import copy_collectives, with_step_counts
from comp_comm.costmodels.complete.states.state_costs import StateCosts
from comp_comm.costmodels.complete.step_collectives import gradient_norm, step_collectives
from comp_comm.costmodels.complete.traffic import (
    CountedCollective,
    Traffic,
    counted_in_layers,
    counted_once,
    counted_sends,
    traffic_by_group,
)
from comp_comm.costmodels.work import Work
from comp_comm.formulas.arrays import ZERO, Array, add_up, somewhere, where
from comp_comm.group import Group
from comp_comm.layers.pipeline_parallel import boundary_collectives
from comp_comm.layers.tensor_parallel import embedding_collectives, head_collectives
from comp_comm.lazy import cached_property
from comp_comm.structs import struct
from comp_comm.timing.timed_collectives import Network, TimedCollective


@struct
class StepComm:
    """The communication of a step: of layers and sends in the ``slowest`` stage, of states where they take longest.

    ``states`` may be seen through what many points share.
    """

    pipeline: Pipeline
    slowest: StageSeconds
    states: StateCosts

    @property
    def work(self) -> Work:
        """What is laid out, and how."""
        return self.pipeline.work

    @property
    def network(self) -> Network:
        """What times collectives that layers and states do not share."""
        return self.pipeline.network

    # -- once a step --------------------------------------------------------------------------------------------------

    @cached_property
    def once_per_step(self) -> list[TimedCollective]:
        """Gradients of tied embeddings and of norms, tokens of experts: beside states, once a step."""
        return self.network.timed(step_collectives(self.work))

    @cached_property
    def gradient_norm(self) -> list[TimedCollective]:
        """Collectives of the gradients' norm: over all that hold parts of the model, wherever each of them is."""
        return self.network.timed(gradient_norm(self.work))

    @cached_property
    def after_passes_s(self) -> dict[str, Array]:
        """Seconds of what is sent once a step after the passes, beside which nothing runs, in the order it is sent."""
        return {
            "gradients of norms and tied embeddings": _seconds(self.once_per_step),
            "gradients of whole matrices": self.states.longest.seconds.muon_over_tp,
            "norm of all gradients": _seconds(self.gradient_norm),
        }

    # -- gradients and weights ----------------------------------------------------------------------------------------

    @property
    def replicated(self) -> bool:
        """Whether any weights are held more than once."""
        layout = self.work.layout
        many = somewhere(layout.replicas > 1) or somewhere(layout.copies > 1)
        return bool(many or (self.work.transformer.has_experts and somewhere(layout.expert_replicas > 1)))

    @cached_property
    def states_comm(self) -> CommSeconds:
        """Seconds of the collectives of gradients and weights in a step, of the stage whose states take longest.

        A step ends when every stage has done with its states. Those that wait for the slowest one may send meanwhile:
        for the stage with most states it is as if its passes took as long.
        """
        if not self.replicated:
            return NO_COMM
        sent = self.states.longest.seconds
        between = _seconds(self.between_copies)
        if between is not ZERO:
            slowed = where(Switch.ON.where(self.work.layout.overlap_dp), self.work.scenario.interference, 1.0)
            sent = sent._replace(reductions_once=add_up((sent.reductions_once, slowed * between)))
        # All of them: which can be the slowest depends on the other points of a sweep, and a window must not.
        stages = self.work.stages.candidates
        each = [StageSeconds(self.pipeline, stage) for stage in stages] if len(stages) > 1 else [self.slowest]
        return state_comm(self.work, sent, widest_windows(each))

    @cached_property
    def stage_states(self) -> StageStates:
        """The states of the stage whose states take longest, in full, whatever points share."""
        slowest = stage_at(self.work.stages.candidates, self.states.longest.stage_number)
        return StateCosts(self.work).of(slowest)

    @cached_property
    def muon(self) -> list[TimedCollective]:
        """What Muon gathers in a step, on the stage whose states take longest."""
        often = gathers_of_shards(self.work.layout)
        return self.network.timed([
            replace(each, count=each.count * often) if each.parallelism == "dp" else each
            for each in self.stage_states.muon.collectives
        ])  # fmt: skip

    @cached_property
    def between_copies(self) -> list[TimedCollective]:
        """Collectives of the gradients of two copies of the model in a pipeline."""
        if not somewhere(self.work.layout.copies > 1):
            return []
        return self.network.timed(copy_collectives(self.work.context, self.stage_states.parameters))

    # -- between stages -----------------------------------------------------------------------------------------------

    @property
    def sends(self) -> list[TimedCollective]:
        """Sends between stages."""
        return self.pipeline.sends

    @property
    def sends_comm(self) -> CommSeconds:
        """Seconds of sends between stages in a step."""
        return self.slowest.sends.times(self.work.layout.stage_micro_batches) if self.sends else NO_COMM

    @cached_property
    def sends_visible_s(self) -> Array:
        """Seconds in a step that sends between stages take from the slowest one."""
        return self.work.layout.stage_micro_batches * self.slowest.sends.visible if self.sends else ZERO

    # -- all of it ----------------------------------------------------------------------------------------------------

    @cached_property
    def by_group(self) -> dict[str, CommSeconds]:
        """Seconds of communication in a step by group; groups that do not communicate are left out.

        A second of compute hides one second of one group: the layers' first, then sends, then states.
        """
        spent = dict(self.slowest.layers_comm_by_group)
        if self.sends:
            spent["pp"] = self.sends_comm
        if (gathering := self.states.longest.seconds.muon_over_tp) is not ZERO:
            spent["tp"] = spent.get("tp", NO_COMM).plus(CommSeconds(gathering, ZERO, ZERO))
        if self.replicated:
            spent["dp"] = self.states_comm
        if somewhere(self.pipeline.offload.applies):
            spent["host"] = self.pipeline.offload_comm(self.slowest.stage).times(self.work.layout.stage_micro_batches)
        for call in (*self.once_per_step, *self.gradient_norm):
            group = call.collective.parallelism
            seconds = CommSeconds(call.seconds * call.collective.count, ZERO, ZERO)
            spent[group] = spent[group].plus(seconds) if group in spent else seconds
        return spent

    @cached_property
    def counted_collectives(self) -> list[CountedCollective]:
        """Every collective with its calls in a step."""
        layout, stage = self.work.layout, self.slowest.stage
        of_states = with_step_counts(self.stage_states.collectives, layout.zero, layout.stage_micro_batches)
        once = [*self.network.timed(of_states), *self.muon, *self.between_copies, *self.once_per_step]
        sends = [*self.sends, *self.pipeline.offload.transfers(stage)]
        return [
            *counted_in_layers(self.pipeline, stage),
            *counted_sends(sends, layout.stage_micro_batches),
            *counted_once([*once, *self.gradient_norm]),
        ]

    @cached_property
    def traffic(self) -> dict[str, Traffic]:
        """Bytes and calls of a step by group."""
        return traffic_by_group(self.counted_collectives)

    def groups(self) -> list[tuple[str, Group]]:
        """Return every group that communicates, by what its collectives call it."""
        c = self.work.context
        layers = [each for kind in self.work.pattern.kinds for each in kind.collectives(kind.context(c))]
        states = [each.collective for each in self.stage_states.collectives]
        states += [call.collective for call in (*self.between_copies, *self.once_per_step, *self.muon)]
        collectives = [*layers, *embedding_collectives(c), *head_collectives(c), *boundary_collectives(c), *states,
                       *gradient_norm(self.work)]  # fmt: skip
        return list({each.group: (each.parallelism, each.group) for each in reversed(collectives)}.values())


def _seconds(calls: list[TimedCollective]) -> Array:
    return add_up(call.seconds * call.collective.count for call in calls)
