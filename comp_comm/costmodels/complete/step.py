"""One training step on one device: it has work, layers, a pipeline, states, communication, and a footprint."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from comp_comm.choices import Switch
from comp_comm.costmodels.complete.accumulation import accumulations
from comp_comm.costmodels.complete.bubble import Bubble
from comp_comm.costmodels.complete.footprint import Footprint
from comp_comm.costmodels.complete.layer_costs import LayerCosts
from comp_comm.costmodels.complete.pipeline import Pipeline, chosen_stage
from comp_comm.costmodels.complete.stage_seconds import StageSeconds, widest
from comp_comm.costmodels.complete.state_collectives import (
    copy_collectives,
    counted,
)
from comp_comm.costmodels.complete.state_comm import state_comm
from comp_comm.costmodels.complete.states import StageStates, StateCosts
from comp_comm.costmodels.complete.step_collectives import gradient_norm, step_collectives
from comp_comm.costmodels.complete.traffic import CountedCollective, Traffic, of_layers, of_sends, of_step, traffic
from comp_comm.costmodels.layout_space import Bound, SearchableAnswer
from comp_comm.costmodels.machine import network_of
from comp_comm.costmodels.profile_rules import ProfileRules, layout_violations
from comp_comm.costmodels.timed import NO_COMM, CommSeconds, Network, TimedCollective
from comp_comm.costmodels.work import Work
from comp_comm.formulas.arrays import ZERO, Array, add_up, somewhere, to_float, where
from comp_comm.group import Group
from comp_comm.layers.pipeline_parallel import boundary_collectives
from comp_comm.layers.stages import Stage
from comp_comm.layers.tensor_parallel import embedding_collectives, head_collectives
from comp_comm.lazy import cached_property
from comp_comm.violation import Mask, Violation, no_room


@dataclass(frozen=True, eq=False)
class Step(SearchableAnswer):
    """A step as arrays that are made when they are asked for; all seconds are those of a device of the slowest stage.

    ``layers`` and ``states`` are what layers and states cost, ``footprint`` is the memory of the stage that needs
    most: each perhaps seen through what many points share.
    """

    work: Work
    layers: LayerCosts
    states: StateCosts
    footprint: Footprint

    def arrays(self) -> Iterable[Array]:
        """Return what a sweep over steps holds."""
        return [self.step_s, self.memory_bytes, *(times.compute.forward for times in self.layers.layers.values())]

    @cached_property
    def network(self) -> Network:
        """What times collectives that layers and states do not share."""
        return network_of(self.work)

    @property
    def sends(self) -> list[TimedCollective]:
        """Sends between stages."""
        return self.pipeline.sends

    @cached_property
    def beside(self) -> list[TimedCollective]:
        """What is sent once a step beside states: gradients of tied embeddings and of norms, counts of tokens."""
        return self.network.timed(step_collectives(self.work))

    @cached_property
    def pipeline(self) -> Pipeline:
        """The stages."""
        return Pipeline(self.work, self.layers, self.network)

    @cached_property
    def bubble(self) -> Bubble:
        """What stages wait for each other."""
        return Bubble(self.pipeline)

    @property
    def stage(self) -> Stage:
        """The slowest stage, that whose passes take longest."""
        return self.pipeline.slowest

    @cached_property
    def slowest(self) -> StageSeconds:
        """The seconds of the slowest stage."""
        return StageSeconds(self.pipeline, self.stage)

    @cached_property
    def _states(self) -> CommSeconds:
        """The collectives of gradients and weights, of the stage that has most of them.

        A step ends when every stage has done with its states. Those that wait for the slowest one may send meanwhile:
        for the stage that has most it is as if its passes took as long.
        """
        sent = self.states.most.seconds
        between = add_up(call.collective.count * call.seconds for call in self.between_copies)
        if between is not ZERO:
            slowed = where(Switch.ON.where(self.work.layout.overlap_dp), self.work.scenario.interference, 1.0)
            sent = sent._replace(once=add_up((sent.once, slowed * between)))
        # All of them: which can be the slowest depends on the other points of a sweep, and a window must not.
        stages = self.work.stages.distinct
        each = [StageSeconds(self.pipeline, stage) for stage in stages] if len(stages) > 1 else [self.slowest]
        return state_comm(self.work, sent, widest(each))

    # -- seconds ------------------------------------------------------------------------------------------------------

    @property
    def forward_s(self) -> Array:
        """Seconds of forward compute in a step."""
        return self.slowest.forward_s

    @property
    def backward_s(self) -> Array:
        """Seconds of backward compute in a step."""
        return self.slowest.backward_s

    @property
    def compute_s(self) -> Array:
        """Seconds of forward and backward compute."""
        return self.forward_s + self.backward_s

    @property
    def recompute_s(self) -> Array:
        """Seconds of recomputation of activations."""
        return self.slowest.recompute_s

    @property
    def host_s(self) -> Array:
        """Seconds the slowest stage waits for the host to launch kernels."""
        return add_up(self.slowest.waits)

    @property
    def optimizer_s(self) -> Array:
        """Seconds of the gradients' norm and the optimizer's step, and of states that go to the host and back.

        And of the weights that are quantised: once, or under ZeRO 3 with every micro-batch; and of gradients that the
        optimizer adds up.
        """
        return add_up((self.states.most.seconds.optimizer, self.quantise_s, self.accumulate_s))

    @property
    def accumulate_s(self) -> Array:
        """Seconds of adding gradients up in a step, in the stage that has most, and while others wait for it."""
        accumulate = self.states.most.seconds.accumulate
        return accumulate if accumulate is ZERO else accumulate * accumulations(self.work)

    @property
    def quantise_s(self) -> Array:
        """Seconds of quantising the weights of the stage that has most states in a step."""
        quantise, layout = self.states.most.seconds.quantise, self.work.layout
        if quantise is ZERO:
            return ZERO
        return quantise * where(to_float(layout.zero) >= 3, layout.stage_steps, 1.0)

    @cached_property
    def bubble_s(self) -> Array:
        """Seconds of waiting for other stages."""
        return self.bubble.seconds

    @cached_property
    def comm(self) -> dict[str, CommSeconds]:
        """Seconds of communication in a step by group; groups that do not communicate are left out.

        A second of compute hides one second of one group: the layers' first, then sends, then states.
        """
        spent = dict(self.slowest.in_layers)
        if self.sends:
            spent["pp"] = self.sent_on
        if (gathering := self.states.most.seconds.over_tp) is not ZERO:
            spent["tp"] = spent.get("tp", NO_COMM).plus(CommSeconds(gathering, ZERO, ZERO))
        if self.replicated:
            spent["dp"] = self.states_sent
        if somewhere(self.pipeline.host.asked):
            spent["host"] = self.pipeline.of_host(self.stage).times(self.work.layout.stage_steps)
        for call in (*self.beside, *self.world):
            group = call.collective.parallelism
            once = CommSeconds(call.seconds * call.collective.count, ZERO, ZERO)
            spent[group] = spent[group].plus(once) if group in spent else once
        return spent

    @cached_property
    def muon(self) -> list[TimedCollective]:
        """What Muon gathers in a step, of the stage that has most states."""
        return self.network.timed(self.stage_states.muon.collectives)

    @property
    def sent_on(self) -> CommSeconds:
        """Seconds of sends between stages in a step."""
        return self.slowest.sends.times(self.work.layout.stage_steps) if self.sends else NO_COMM

    @property
    def states_sent(self) -> CommSeconds:
        """Seconds of the collectives of gradients and weights in a step."""
        return self._states if self.replicated else NO_COMM

    @cached_property
    def world(self) -> list[TimedCollective]:
        """Collectives of the gradients' norm: over all that hold parts of the model, wherever each of them is."""
        return self.network.timed(gradient_norm(self.work))

    @cached_property
    def world_s(self) -> Array:
        """Seconds of the collectives of the gradients' norm."""
        return add_up(call.seconds * call.collective.count for call in self.world)

    @property
    def beside_s(self) -> Array:
        """Seconds of what is sent once a step beside states, but for the gradients' norm."""
        return add_up(call.seconds * call.collective.count for call in self.beside)

    @property
    def replicated(self) -> bool:
        """Whether any weights are held more than once."""
        layout = self.work.layout
        many = somewhere(layout.replicas > 1) or somewhere(layout.copies > 1)
        return bool(many or (self.work.transformer.has_experts and somewhere(layout.expert_replicas > 1)))

    @cached_property
    def between_copies(self) -> list[TimedCollective]:
        """Collectives of the gradients of two copies of the model in a pipeline."""
        if not somewhere(self.work.layout.copies > 1):
            return []
        return self.network.timed(copy_collectives(self.work.context, self.stage_states.held))

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
    def sends_visible_s(self) -> Array:
        """Seconds in a step that sends between stages take from the slowest one."""
        return self.work.layout.stage_steps * self.slowest.sends.visible if self.sends else ZERO

    @cached_property
    def step_s(self) -> Array:
        """Seconds of a step."""
        return self._with(self.bubble_s)

    def _with(self, bubble_s: Array) -> Array:
        """Return the seconds of a step with such a bubble."""
        # What ZeRO has a say in is the largest array of all: the rest is added up before it joins.
        busy = add_up((self.work.layout.stage_steps * self.pipeline.pace_s, self.sends_visible_s))
        states = self._states.visible if self.replicated else ZERO
        return add_up((busy, bubble_s, self.beside_s, self.states.most.seconds.over_tp, self.world_s)) + add_up(
            (self.optimizer_s, states)
        )

    def least_step_s(self, bound: Bound) -> Array:
        """Return the seconds that a step takes at least: by passes alone, or with all but the walks of the bubble."""
        layout = self.work.layout
        if bound is Bound.AVERAGE:
            return to_float(layout.stage_steps / to_float(layout.pp) * self.pipeline.own_passes_s)
        if bound is Bound.SLOWEST:
            return to_float(layout.stage_steps * self.pipeline.pace_s)
        return self._with(self.bubble.least)

    @property
    def takes_long(self) -> bool:
        """Whether passes have to be walked through at some point."""
        return self.bubble.walks

    def step_where(self, wanted: Mask) -> Array:
        """Return the seconds of a step where they are wanted; elsewhere perhaps infinity."""
        return self._with(self.bubble.seconds_where(wanted))

    # -- collectives --------------------------------------------------------------------------------------------------

    @cached_property
    def stage_states(self) -> StageStates:
        """The states of the stage that has most of them, in full."""
        return self.own_states.of(chosen_stage(self.work.stages.distinct, self.states.most.number))

    @property
    def own_states(self) -> StateCosts:
        """The states of every point, whatever points share."""
        return StateCosts(self.work)

    @cached_property
    def counted(self) -> list[CountedCollective]:
        """Every collective of a device of the slowest stage, with its calls in a step; of states of the stage that has
        most of them."""
        layout = self.work.layout
        states = self.network.timed(counted(self.stage_states.collectives, layout.zero, layout.stage_steps))
        beside = [*self.muon, *self.between_copies, *self.beside, *self.world]
        return [*of_layers(self.pipeline, self.stage),
                *of_sends([*self.sends, *self.pipeline.host.transfers(self.stage)], layout.stage_steps),
                *of_step([*states, *beside])]  # fmt: skip

    @cached_property
    def traffic(self) -> dict[str, Traffic]:
        """Bytes and calls of a step by group."""
        return traffic(self.counted)

    # -- whether it fits ----------------------------------------------------------------------------------------------

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
        whole = ep & ((to_float(layout.etp) == 1) | (to_float(self.work.transformer.experts) == 0))
        silent = alone & (layout.expert_replicas <= 1) & (layout.copies <= 1)
        return {"sp": tp, "sequence_inputs": tp, "overlap_tp": tp, "cp_comm": cp, "cp_implementation": cp,
                "overlap_pp": pp, "schedule": pp, "zero": alone, "overlap_dp": silent, "overlap_ep": whole,
                "ep_dispatch": whole}  # fmt: skip

    def groups(self) -> list[tuple[str, Group]]:
        """Return every group that communicates, by what its collectives call it."""
        c = self.work.context
        layers = [each for kind in self.work.pattern.kinds for each in kind.collectives(kind.context(c))]
        states = [each.collective for each in self.stage_states.collectives]
        states += [call.collective for call in (*self.between_copies, *self.beside, *self.muon)]
        collectives = [*layers, *embedding_collectives(c), *head_collectives(c), *boundary_collectives(c), *states,
                       *gradient_norm(self.work)]  # fmt: skip
        return list({each.group: (each.parallelism, each.group) for each in reversed(collectives)}.values())

    @property
    def shape_violations(self) -> tuple[Violation, ...]:
        """The rules that points break, but for that of memory."""
        return (*self.layout_violations, *(self.profile_rules.violations(self.groups()) if self.may_lack else []))

    @cached_property
    def violations(self) -> tuple[Violation, ...]:  # type: ignore[override]
        """The rules that points break."""
        over = no_room(self.memory_bytes, self.memory_capacity)
        return (*self.shape_violations, *([over] if somewhere(over.broken) else []))
