"""One training step on one device: it has work, layers, a pipeline, states, communication, and a footprint."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from comp_comm.choices import Switch
from comp_comm.costmodels.complete.footprint import Footprint
from comp_comm.costmodels.complete.layer_costs import LayerCosts
from comp_comm.costmodels.complete.pipeline import Pipeline
from comp_comm.costmodels.complete.state_collectives import copy_collectives, counted, world_collectives
from comp_comm.costmodels.complete.states import StageStates, StateCosts, StateSeconds, of_stage, state_comm
from comp_comm.costmodels.complete.traffic import CountedCollective, Traffic, of_layers, of_sends, of_step, traffic
from comp_comm.costmodels.layout_space import SearchableAnswer
from comp_comm.costmodels.machine import network_of
from comp_comm.costmodels.profile_rules import ProfileRules, layout_violations
from comp_comm.costmodels.records import GROUPS
from comp_comm.costmodels.timed import NO_COMM, CommSeconds, Network, TimedCollective, overlapped
from comp_comm.costmodels.work import Work
from comp_comm.formulas.arrays import ZERO, Array, add_up, to_float
from comp_comm.group import Group
from comp_comm.layers.pipeline_parallel import boundary_collectives
from comp_comm.layers.stages import Stage
from comp_comm.layers.tensor_parallel import embedding_collectives, head_collectives
from comp_comm.violation import Mask, Violation, no_room


@dataclass(frozen=True, eq=False)
class Step(SearchableAnswer):
    """A step as arrays that are made when they are asked for; all seconds are those of a device of the slowest stage.

    ``layers`` and ``states`` are what layers and states cost, each perhaps seen through what many points share.
    """

    work: Work
    layers: LayerCosts
    states: StateCosts

    def arrays(self) -> Iterable[Array]:
        """Return what a sweep over steps holds."""
        return [self.step_s, self.memory_bytes, *(times.compute.forward for times in self.layers.layers.values())]

    @cached_property
    def network(self) -> Network:
        """What times collectives that layers and states do not share."""
        return network_of(self.work)

    @cached_property
    def sends(self) -> list[TimedCollective]:
        """Sends between stages."""
        return self.network.timed(boundary_collectives(self.work.context))

    @cached_property
    def pipeline(self) -> Pipeline:
        """The stages."""
        sends_s = to_float(sum((call.seconds * call.collective.count for call in self.sends), ZERO))
        return Pipeline(self.work, self.layers, sends_s)

    @property
    def stage(self) -> Stage:
        """The slowest stage."""
        return self.pipeline.slowest

    @cached_property
    def state_seconds(self) -> StateSeconds:
        """Seconds of the slowest stage's states."""
        return of_stage(self.states, self.pipeline.slowest_number)

    # -- seconds ------------------------------------------------------------------------------------------------------

    @cached_property
    def forward_s(self) -> Array:
        """Seconds of forward compute in a step."""
        each = add_up(count * times.compute.forward for times, count in self.pipeline.parts(self.stage))
        return self.work.layout.stage_steps * each

    @cached_property
    def backward_s(self) -> Array:
        """Seconds of backward compute in a step."""
        each = add_up(count * times.compute.backward for times, count in self.pipeline.parts(self.stage))
        return self.work.layout.stage_steps * each

    @property
    def compute_s(self) -> Array:
        """Seconds of forward and backward compute."""
        return self.forward_s + self.backward_s

    @cached_property
    def recompute_s(self) -> Array:
        """Seconds of compute that makes activations again."""
        return self.work.layout.stage_steps * self.pipeline.again(self.stage, "compute")

    @property
    def optimizer_s(self) -> Array:
        """Seconds of the gradients' norm and the optimizer's step, and of states that go to the host and back."""
        return self.state_seconds.optimizer

    @property
    def bubble_s(self) -> Array:
        """Seconds of waiting for other stages."""
        return self.pipeline.bubble_s

    @cached_property
    def comm(self) -> dict[str, CommSeconds]:
        """Seconds of communication in a step by group; groups that do not communicate are left out.

        A second of compute hides one second of one group: the layers' first, then sends, then states.
        """
        spent = {group: self._in_layers(group) for group in GROUPS if group in self._layer_groups}
        compute = self.compute_s + self.recompute_s
        free = compute - add_up(each.hidden for each in spent.values())
        if self.sends:
            spent["pp"] = self._of_sends(np.maximum(free, 0.0))
            free = free - spent["pp"].hidden
        if self.replicated:
            windows = self._windows
            if any(each.hidden is not ZERO for each in spent.values()):
                share = np.maximum(free, 0.0) / compute
                forward, backward, step = windows
                windows = share * forward, share * backward, share * step
            spent["dp"] = state_comm(self.work, self._states_of_copies, windows)
        if self.pipeline.host.asked.any():
            spent["host"] = self.pipeline.of_host(self.stage).times(self.work.layout.stage_steps)
        if self.states.world_s is not ZERO:
            spent["world"] = CommSeconds(self.states.world_s, ZERO, ZERO)
        return spent

    @property
    def replicated(self) -> bool:
        """Whether any weights are held more than once."""
        layout = self.work.layout
        many = np.any(layout.replicas > 1) or np.any(layout.copies > 1)
        return bool(many or (self.work.transformer.has_experts and np.any(layout.expert_replicas > 1)))

    @cached_property
    def between_copies(self) -> list[TimedCollective]:
        """Collectives of the gradients of two copies of the model in a pipeline."""
        if not np.any(self.work.layout.copies > 1):
            return []
        return self.network.timed(copy_collectives(self.work.context, self.stage_states.held))

    @property
    def _states_of_copies(self) -> StateSeconds:
        """Seconds of the slowest stage's states, with what is reduced once a step between copies."""
        if not self.between_copies:
            return self.state_seconds
        slowed = np.where(Switch.ON.where(self.work.layout.overlap_dp), self.work.scenario.interference, 1.0)
        seconds = slowed * add_up(call.collective.count * call.seconds for call in self.between_copies)
        return self.state_seconds._replace(once=add_up((self.state_seconds.once, seconds)))

    @cached_property
    def _layer_groups(self) -> list[str]:
        """Groups that communicate within layers and at the ends."""
        parts = (*self.layers.layers.values(), self.layers.embedding, self.layers.head)
        return list(dict.fromkeys(group for times in parts for group in times.groups))

    def _in_layers(self, group: str) -> CommSeconds:
        """Return what a group spends in the layers and at the ends of the slowest stage."""
        spent = NO_COMM
        for times, count in self.pipeline.parts(self.stage):
            if group in times.groups:
                spent = spent.plus(times.forward[group].times(count)).plus(times.backward[group].times(count))
        spent = self.pipeline.again_comm(group, self.stage).plus(spent)
        return spent.times(self.work.layout.stage_steps)

    def _of_sends(self, free: Array) -> CommSeconds:
        """Return the sends of the slowest stage: a micro-batch in and out, forward and backward."""
        overlaps = Switch.ON.where(self.work.layout.overlap_pp)
        total = 2.0 * self.work.layout.stage_steps * self.pipeline.sends_s
        if not overlaps.any():
            return CommSeconds(total, ZERO, ZERO)
        total = total * np.where(overlaps, self.work.scenario.interference, 1.0)
        return overlapped(total, np.minimum(total, free), overlaps)

    @property
    def _windows(self) -> tuple[Array, Array, Array]:
        """The compute beside which states may be sent: a micro-batch forward, one backward, and all of them."""
        steps = self.work.layout.stage_steps
        backward = self.backward_s + self.recompute_s
        return self.forward_s / steps, backward / steps, self.forward_s + backward

    @cached_property
    def serialized_comm_s(self) -> Array:
        """Seconds of communication that cannot overlap."""
        return add_up(spent.serialized for spent in self.comm.values())

    @cached_property
    def hidden_comm_s(self) -> Array:
        """Seconds of communication that ran under compute."""
        return add_up(spent.hidden for spent in self.comm.values())

    @cached_property
    def exposed_comm_s(self) -> Array:
        """Seconds of communication that could overlap but did not fit."""
        return add_up(spent.exposed for spent in self.comm.values())

    @cached_property
    def step_s(self) -> Array:
        """Seconds of a step."""
        # What ZeRO has a say in is the largest array of all: the rest is added up before it joins.
        states = self.comm.get("dp", NO_COMM)
        others = (spent.visible for group, spent in self.comm.items() if group in ("pp", "world"))
        busy = self.work.layout.stage_steps * self.pipeline.pace_s
        return add_up((busy, self.bubble_s, *others)) + add_up((self.optimizer_s, states.visible))

    # -- collectives --------------------------------------------------------------------------------------------------

    @cached_property
    def stage_states(self) -> StageStates:
        """The states of the slowest stage, in full."""
        return self.own_states.of(self.stage)

    @property
    def own_states(self) -> StateCosts:
        """The states of every point, whatever points share."""
        return StateCosts(self.work)

    @cached_property
    def counted(self) -> list[CountedCollective]:
        """Every collective of a device of the slowest stage, with its calls in a step."""
        layout = self.work.layout
        states = self.network.timed(counted(self.stage_states.collectives, layout.zero, layout.stage_steps))
        return [*of_layers(self.pipeline, self.stage),
                *of_sends([*self.sends, *self.pipeline.host.transfers(self.stage)], layout.stage_steps),
                *of_step([*states, *self.between_copies, *self.own_states.world])]  # fmt: skip

    @cached_property
    def traffic(self) -> dict[str, Traffic]:
        """Bytes and calls of a step by group."""
        return traffic(self.counted)

    # -- whether it fits ----------------------------------------------------------------------------------------------

    @cached_property
    def footprint(self) -> Footprint:
        """Memory of the stage that needs most."""
        return Footprint(self.work, self.layers)

    @property
    def memory_bytes(self) -> Array:
        """Bytes of memory of the stage that needs most."""
        return self.footprint.total

    @property
    def memory_capacity(self) -> Array:
        """Bytes of memory of a device."""
        return to_float(self.work.hardware.memory_capacity)

    @cached_property
    def layout_violations(self) -> tuple[Violation, ...]:
        """The rules of model and layout that points break."""
        return layout_violations(self.work, self.layers.rules)

    @cached_property
    def profile_rules(self) -> ProfileRules:
        """What the step needs of the hardware profile."""
        return ProfileRules(self.work, self.network)

    @property
    def may_lack(self) -> bool:
        """Whether something of the hardware may be missing for some point, wherever its groups are placed."""
        return self.profile_rules.may_be_broken

    def idle_choices(self) -> dict[str, Mask]:
        """Return where each choice of the layout has no effect, by the field it is about."""
        layout = self.work.layout
        tp, cp, pp, ep = (to_float(size) == 1 for size in (layout.tp, layout.cp, layout.pp, layout.ep))
        alone = layout.replicas == 1  # experts may have replicas all the same, which ZeRO does not shard
        silent = alone & (layout.expert_replicas <= 1) & (layout.copies <= 1)
        return {"sp": tp, "overlap_tp": tp, "cp_comm": cp, "overlap_pp": pp, "schedule": pp, "zero": alone,
                "overlap_dp": silent, "overlap_ep": ep}  # fmt: skip

    def groups(self) -> list[tuple[str, Group]]:
        """Return every group that communicates, by what its collectives call it."""
        c = self.work.context
        layers = [each for kind in self.work.pattern.kinds for each in kind.collectives(kind.context(c))]
        states = [each.collective for each in self.stage_states.collectives]
        states += [call.collective for call in self.between_copies]
        collectives = [*layers, *embedding_collectives(c), *head_collectives(c), *boundary_collectives(c), *states,
                       *world_collectives(c)]  # fmt: skip
        return list({each.group: (each.parallelism, each.group) for each in reversed(collectives)}.values())

    @property
    def shape_violations(self) -> tuple[Violation, ...]:
        """The rules that points break, but for that of memory."""
        return (*self.layout_violations, *(self.profile_rules.violations(self.groups()) if self.may_lack else []))

    @cached_property
    def violations(self) -> tuple[Violation, ...]:  # type: ignore[override]
        """The rules that points break."""
        over = no_room(self.memory_bytes, self.memory_capacity)
        return (*self.shape_violations, *([over] if over.broken.any() else []))
