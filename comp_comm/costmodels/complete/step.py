"""One training step on one device: it has work, layers, a pipeline, states, communication, and a footprint."""

from __future__ import annotations

from collections.abc import Iterable

from comp_comm.costmodels.comm_seconds import CommSeconds
from comp_comm.costmodels.complete.comm import StepComm
from comp_comm.costmodels.complete.layer_costs import LayerCosts
from comp_comm.costmodels.complete.memory.footprint import Footprint
from comp_comm.costmodels.complete.schedule.bubble import Bubble
from comp_comm.costmodels.complete.schedule.pipeline import Pipeline
from comp_comm.costmodels.complete.schedule.stage_seconds import StageSeconds
from comp_comm.costmodels.complete.space import idle_choices
from comp_comm.costmodels.complete.states.accumulation import accumulations
from comp_comm.costmodels.complete.states.state_costs import StateCosts
from comp_comm.costmodels.complete.traffic import Traffic
from comp_comm.costmodels.layout_space import Bound, SearchableAnswer
from comp_comm.costmodels.machine import network_of
from comp_comm.costmodels.profile_rules import ProfileRules
from comp_comm.costmodels.work import Work
from comp_comm.costmodels.work_rules import layout_violations
from comp_comm.formulas.arrays import ZERO, Array, Mask, add_up, somewhere, to_float, where
from comp_comm.kernel_choices import Recipe
from comp_comm.layers.stages import Stage
from comp_comm.lazy import cached_property
from comp_comm.structs import struct
from comp_comm.timing.timed_collectives import Network
from comp_comm.violation import Violation, no_room


@struct
class Step(SearchableAnswer):
    """A step as arrays that are made when they are asked for; all seconds are those of a device of the slowest stage.

    ``step_s`` is a sum of its own, in an order that is quick; the parts that are shown (`STEP_PARTS`) add up to it
    (`tests/test_parts_of_a_step.py`). ``layer_costs`` and ``states`` are what layers and states cost, ``footprint`` is
    the memory of the stage that needs most: each perhaps seen through what many points share.
    """

    work: Work
    layer_costs: LayerCosts
    states: StateCosts
    footprint: Footprint

    def arrays(self) -> Iterable[Array]:
        """Return what a sweep over steps holds."""
        return [self.step_s, self.memory_bytes, *(times.compute.forward for times in self.layer_costs.times.values())]

    @cached_property
    def network(self) -> Network:
        """What times collectives that layers and states do not share."""
        return network_of(self.work)

    @cached_property
    def pipeline(self) -> Pipeline:
        """The stages."""
        return Pipeline(self.work, self.layer_costs, self.network)

    @cached_property
    def bubble(self) -> Bubble:
        """What stages wait for each other."""
        return Bubble(self.pipeline)

    @cached_property
    def communication(self) -> StepComm:
        """What the step communicates."""
        return StepComm(self.pipeline, self.slowest_stage_seconds, self.states)

    @property
    def slowest_stage(self) -> Stage:
        """The slowest stage, that whose passes take longest."""
        return self.pipeline.slowest_stage

    @cached_property
    def slowest_stage_seconds(self) -> StageSeconds:
        """The seconds of the slowest stage."""
        return StageSeconds(self.pipeline, self.slowest_stage)

    # -- seconds ------------------------------------------------------------------------------------------------------

    @property
    def forward_compute_s(self) -> Array:
        """Seconds of forward compute in a step."""
        return self.slowest_stage_seconds.forward_compute_s

    @property
    def backward_compute_s(self) -> Array:
        """Seconds of backward compute in a step."""
        return self.slowest_stage_seconds.backward_compute_s

    @property
    def compute_s(self) -> Array:
        """Seconds of forward and backward compute."""
        return self.forward_compute_s + self.backward_compute_s

    @property
    def recompute_s(self) -> Array:
        """Seconds of recomputation of activations."""
        return self.slowest_stage_seconds.recompute_s

    @property
    def host_s(self) -> Array:
        """Seconds the slowest stage waits for the host to launch kernels."""
        return add_up(self.slowest_stage_seconds.host_waits)

    @property
    def optimizer_s(self) -> Array:
        """Seconds of the gradients' norm and the optimizer's step, and of states that go to the host and back.

        And of the weights that are quantised: once, or with every micro-batch under ZeRO 3 and by recipes that store
        none; and of gradients that the optimizer adds up.
        """
        return add_up((self.states.longest.seconds.optimizer, self.quantise_s, self.accumulate_s))

    @property
    def accumulate_s(self) -> Array:
        """Seconds of adding gradients up in a step, in the stage that has most, and while others wait for it."""
        accumulate = self.states.longest.seconds.accumulate
        return accumulate if accumulate is ZERO else accumulate * accumulations(self.work)

    @property
    def quantise_s(self) -> Array:
        """Seconds of quantising the weights of the stage that has most states in a step."""
        quantise, layout = self.states.longest.seconds.quantise, self.work.layout
        if quantise is ZERO:
            return ZERO
        each = (to_float(layout.zero) >= 3) | (Recipe.look_up("stored", self.work.scenario.formats.recipe) == 0)
        return quantise * where(each, layout.stage_micro_batches, 1.0)

    @cached_property
    def bubble_s(self) -> Array:
        """Seconds of waiting for other stages."""
        return self.bubble.seconds

    @property
    def comm(self) -> dict[str, CommSeconds]:
        """Seconds of communication in a step by group; groups that do not communicate are left out."""
        return self.communication.by_group

    @property
    def traffic(self) -> dict[str, Traffic]:
        """Bytes and calls of communication in a step by group."""
        return self.communication.traffic

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
        return self._total_s(self.bubble_s)

    def _total_s(self, bubble_s: Array) -> Array:
        """Return the seconds of a step with such a bubble."""
        # What ZeRO has a say in is the largest array of all: the rest is added up before it joins.
        return self._passes_and_messages_s + bubble_s + self._states_s

    @cached_property
    def _passes_and_messages_s(self) -> Array:
        """Seconds of passes and of messages that follow them, without the bubble and without states."""
        passes, comm = self.work.layout.stage_micro_batches * self.pipeline.pace_s, self.communication
        return add_up((passes, comm.sends_visible_s, *comm.after_passes_s.values()))

    @cached_property
    def _states_s(self) -> Array:
        """Seconds of the optimizer, and of what is seen of the collectives of gradients and weights."""
        return add_up((self.optimizer_s, self.communication.states_comm.visible))

    def least_step_s(self, bound: Bound) -> Array:
        """Return the seconds that a step takes at least: by passes alone, or with the bubble's closed forms."""
        layout = self.work.layout
        if bound is Bound.AVERAGE:
            return to_float(layout.stage_micro_batches / to_float(layout.pp) * self.pipeline.model_passes_s)
        if bound is Bound.SLOWEST:
            return to_float(layout.stage_micro_batches * self.pipeline.pace_s)
        return self._total_s(self.bubble.least)

    @property
    def needs_longest_path(self) -> bool:
        """Whether the longest path through a task graph has to be found at some point."""
        return self.bubble.needs_longest_path

    def step_where(self, wanted: Mask) -> Array:
        """Return the seconds of a step where they are wanted; elsewhere perhaps infinity."""
        return self._total_s(self.bubble.seconds_where(wanted))

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
        return layout_violations(self.work, self.layer_costs.rules)

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
        return idle_choices(self.work.layout, self.work.transformer)

    @property
    def shape_violations(self) -> tuple[Violation, ...]:
        """The rules that points break, but for that of memory."""
        return (
            *self.layout_violations,
            *(self.profile_rules.violations(self.communication.groups()) if self.may_lack else []),
        )

    @cached_property
    def violations(self) -> tuple[Violation, ...]:  # type: ignore[override]
        """The rules that points break."""
        over = no_room(self.memory_bytes, self.memory_capacity)
        return (*self.shape_violations, *([over] if somewhere(over.broken) else []))
