"""The cost model of a complete training step: every parallelism, every byte, memory.

A step is a list of operations (`comp_comm.operations`), timed one by one (`comp_comm.timing`) on the slowest stage of a
pipeline. Compute, recomputation, optimizer, visible communication and the bubble add up to the step exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from comp_comm.costmodels.footprint import Footprint
from comp_comm.costmodels.layer_times import (
    NOTHING,
    ZERO,
    Call,
    LayerTimes,
    Spent,
    add_up,
    overlapped,
    time_operations,
    visible,
)
from comp_comm.costmodels.near import Near, PickedTimes
from comp_comm.costmodels.pipeline import Pipeline, Stage, stacked, stage_kinds
from comp_comm.costmodels.scenario import Scenario
from comp_comm.costmodels.states import StageStates, StateCosts, state_costs, state_spent
from comp_comm.costmodels.step_rules import blank_violations, layout_violations, may_lack, step_violations
from comp_comm.costmodels.step_work import StepWork
from comp_comm.costmodels.traffic import Traffic, traffic
from comp_comm.formulas.arrays import Array, Numeric, to_float
from comp_comm.hardware.numbers import Hardware
from comp_comm.layout import FULL, resolved_layout
from comp_comm.operations import messages as wire
from comp_comm.operations.attention import attention_block
from comp_comm.operations.context import Context
from comp_comm.operations.ends import embedding, logits
from comp_comm.operations.feed_forward import feed_forward_block, norms_and_residuals
from comp_comm.operations.memory import Activations, layer_activations
from comp_comm.operations.parameters import Parameters, held_parameters
from comp_comm.operations.rules import layer_rules
from comp_comm.operations.shapes import Message, Peers
from comp_comm.operations.work import PASSES, Work, forward_work, layers_run
from comp_comm.timing.collectives import Group
from comp_comm.timing.kernels import Kernels, Passes
from comp_comm.timing.network import collective_seconds
from comp_comm.timing.spans import Span, span_of
from comp_comm.transformer import resolved
from comp_comm.violation import Violation

GROUPS = ("tp", "cp", "ep", "pp", "dp", "world")


@dataclass(frozen=True)
class Step(StepWork):
    """One training step on one device, as arrays that are made when they are asked for.

    ``layout`` and ``transformer`` are resolved; all seconds are those of a device of the slowest stage.
    """

    def arrays(self) -> Iterable[Array]:
        """Return what a sweep over steps holds."""
        return [self.step_s, self.memory_bytes, self.layer.compute.forward]

    @cached_property
    def hardware_flops(self) -> Array:
        """FLOP of a step with those of recomputation and of the padded vocabulary, over all devices."""
        work: Work = forward_work(self.transformer, self.vocab, self.scenario.count_causal)
        layers, pipe, pp = layers_run(self.transformer), self.pipeline, to_float(self.layout.pp)
        again = np.minimum(pipe.layers_again(Stage(layers / pp, 0.0, 0.0)) * pp, layers)
        full = np.asarray(self.layout.recompute) == FULL
        extra = np.where(full, work.gemms, 0.0) + work.attention
        repeated = again * extra * (np.asarray(self.layout.recompute) > 0)
        once = PASSES * (layers * (work.gemms + work.attention) + work.ends)
        return to_float(self.layout.global_batch) * (once + repeated)

    # -- how long it takes --------------------------------------------------------------------------------------------

    @cached_property
    def kernels(self) -> Kernels:
        """What times kernels here."""
        f = self.scenario.formats
        held = np.where(to_float(f.accumulate) > 0, f.accumulate, f.grad)
        return Kernels(self.hardware, f.operand, f.activation, held, self.scenario.sustained)

    def _call(self, message: Message) -> Call:
        span, algorithm = self.span(message.peers), self.layout.collective_algorithm
        return Call(message, collective_seconds(self.hardware, message.kind, message.message_bytes, span, algorithm))

    def span(self, peers: Peers) -> Span:
        """Return what a group crosses on the network: found once for all of its collectives."""
        if peers not in self._spans:
            self._spans[peers] = span_of(self.hardware, Group(peers.size, peers.stride, peers.parts))
        return self._spans[peers]

    def groups(self) -> list[tuple[str, Peers]]:
        """Return every group that communicates, by what a message calls it."""
        c = self.context
        messages = [*wire.layer_messages(c), *wire.embedding_messages(c), *wire.logit_messages(c)]
        calls = [call.message for call in (*self.sends, *self.state_calls, *self.world)]
        return list({m.peers: (m.group, m.peers) for m in (*messages, *calls)}.values())

    def _calls(self, found: Sequence[Message]) -> list[Call]:
        return [self._call(message) for message in found]

    @cached_property
    def _spans(self) -> dict[Peers, Span]:
        return {}

    @cached_property
    def near(self) -> Step | None:
        """The step of the rows that points share, where they share any."""
        if self.scenario.near is None:
            return None
        return _shared_step(self.scenario.near)

    def _picked(self, name: str) -> PickedTimes | None:
        """Return times from the rows that points share."""
        if self.near is None or self.scenario.near is None:
            return None
        return PickedTimes(getattr(self.near, name), self.scenario.near)

    @cached_property
    def layer(self) -> LayerTimes | PickedTimes:
        """The average layer."""
        return self._picked("layer_here") or self.layer_here

    @cached_property
    def embedding(self) -> LayerTimes | PickedTimes:
        """What the first stage does before its layers."""
        return self._picked("embedding_here") or self.embedding_here

    @cached_property
    def logits(self) -> LayerTimes | PickedTimes:
        """What the last stage does after its layers."""
        return self._picked("logits_here") or self.logits_here

    @cached_property
    def held(self) -> Parameters:
        """Parameters of one device by kind."""
        if self.near is None or self.scenario.near is None:
            return held_parameters(self.context, self.vocab)
        return Parameters(*map(self.scenario.near.pick, self.near.held))

    @cached_property
    def activations(self) -> Activations:
        """Bytes an average layer keeps of a micro-batch."""
        if self.near is None or self.scenario.near is None:
            return layer_activations(self.context)
        return Activations(*map(self.scenario.near.pick, self.near.activations))

    @cached_property
    def layer_here(self) -> LayerTimes:
        """The average layer, evaluated for each point."""
        c = self.context
        operations = [*attention_block(c), *feed_forward_block(c), norms_and_residuals(c)]
        timed = time_operations(self.kernels, operations, self.layout.attention_kernel)
        calls = self._calls(wire.layer_messages(c))
        return LayerTimes(c, timed, calls, self.scenario.interference)

    @cached_property
    def embedding_here(self) -> LayerTimes:
        """The first stage's beginning, evaluated for each point."""
        timed = time_operations(self.kernels, embedding(self.context), 0)
        return LayerTimes(self._alone, timed, self._calls(wire.embedding_messages(self.context)), 1.0)

    @cached_property
    def logits_here(self) -> LayerTimes:
        """The last stage's end, evaluated for each point."""
        timed = time_operations(self.kernels, logits(self.context, self.vocab), 0)
        return LayerTimes(self._alone, timed, self._calls(wire.logit_messages(self.context)), 1.0)

    @cached_property
    def _alone(self) -> Context:
        """The context of what overlaps with nothing."""
        return replace(self.context, layout=replace(self.layout, overlap_tp=0, overlap_ep=0))

    @cached_property
    def sends(self) -> list[Call]:
        """Sends between stages."""
        return self._calls(wire.stage_messages(self.context))

    @cached_property
    def pipeline(self) -> Pipeline:
        """The stages."""
        sends_s = to_float(sum((call.seconds * call.message.count for call in self.sends), ZERO))
        return Pipeline(self.context, self.layer, _whole(self.embedding), _whole(self.logits), sends_s)

    @property
    def stage(self) -> Stage:
        """The slowest stage: all seconds are its."""
        return self.pipeline.slowest

    @cached_property
    def states(self) -> StageStates:
        """The weights of the slowest stage."""
        return self._states_of(self.stage)

    def _states_of(self, stage: Stage) -> StageStates:
        return StageStates(self.context, self.held, self.kernels, stage)

    @cached_property
    def state_calls(self) -> list[Call]:
        """Collectives of gradients and weights in a step."""
        return self._calls(self.states.messages(self.layout.accumulation))

    @cached_property
    def state_costs(self) -> StateCosts:
        """Seconds of the slowest stage's states: where points share rows, those of every kind of stage, picked."""
        shared = self.scenario.near_states
        if shared is None:
            return self._costs_of(self.states)
        step = _shared_step(shared)
        return StateCosts(*shared.pick_kinds(step.costs_by_kind, self.pipeline.slowest_kind))

    @cached_property
    def costs_by_kind(self) -> StateCosts:
        """Seconds of the states of every kind of stage, along an axis before all others."""
        rank, kinds = max(np.ndim(number) for number in vars(self.layout).values()), stage_kinds(self.context)
        costs = self._costs_of(self._states_of(stacked(kinds, rank)))
        # What is the same for every kind of stage has that axis all the same.
        return StateCosts(*(np.broadcast_to(c, (len(kinds), *c.shape)) if c.ndim == rank else c for c in costs))

    def _costs_of(self, states: StageStates) -> StateCosts:
        return state_costs(states, self._calls(states.messages(1.0)), self.scenario.interference)

    @cached_property
    def world(self) -> list[Call]:
        """Collectives of all devices in a step."""
        return self._calls(wire.world_messages(self.context))

    @cached_property
    def world_s(self) -> Array:
        """Seconds of the collectives of all devices in a step."""
        shared = self.scenario.near_states
        if shared is not None:
            return shared.pick(_shared_step(shared).world_s)
        return add_up(call.seconds * call.message.count for call in self.world)

    @cached_property
    def forward_s(self) -> Array:
        """Seconds of forward compute in a step."""
        return self._compute("forward")

    @cached_property
    def backward_s(self) -> Array:
        """Seconds of backward compute in a step."""
        return self._compute("backward")

    def _compute(self, phase: str) -> Array:
        parts = add_up(often * getattr(times.compute, phase) for times, often in self._parts(self.stage))
        return self.layout.accumulation * parts

    @property
    def compute_s(self) -> Array:
        """Seconds of forward and backward compute."""
        return self.forward_s + self.backward_s

    @cached_property
    def recompute_s(self) -> Array:
        """Seconds of compute that makes activations again."""
        pipe = self.pipeline
        return self.layout.accumulation * (pipe.layers_again(self.stage) * pipe.again_compute)

    @property
    def optimizer_s(self) -> Array:
        """Seconds of the gradients' norm and the optimizer's step, and of states that go to the host and back."""
        return self.state_costs.optimizer

    @property
    def bubble_s(self) -> Array:
        """Seconds of waiting for other stages."""
        return self.pipeline.bubble_s

    @cached_property
    def comm(self) -> dict[str, Spent]:
        """Seconds of communication in a step by group; groups that do not communicate are left out.

        A second of compute hides one second of one group: the layers' first, then sends, then states.
        """
        found = {group: self._layers_spent(group) for group in GROUPS if group in self.layer_groups}
        compute = self.compute_s + self.recompute_s
        free = compute - add_up(spent.hidden for spent in found.values())
        if self.sends:
            found["pp"] = self._sends_spent(np.maximum(free, 0.0))
            free = free - found["pp"].hidden
        if self.replicated:
            windows = self._windows()
            if any(spent.hidden is not ZERO for spent in found.values()):
                share = np.maximum(free, 0.0) / compute
                forward, backward, every = windows
                windows = share * forward, share * backward, share * every
            found["dp"] = state_spent(self.context, self.state_costs, windows)
        if self.world_s is not ZERO:
            found["world"] = Spent(self.world_s, ZERO, ZERO)
        return found

    @property
    def replicated(self) -> bool:
        """Whether any weights are held more than once."""
        many = np.any(self.layout.replicas > 1)
        return bool(many or (self.transformer.has_experts and np.any(self.layout.expert_replicas > 1)))

    @cached_property
    def layer_groups(self) -> list[str]:
        """Groups that communicate within layers and at the ends."""
        return [*dict.fromkeys([*self.layer.groups, *self.embedding.groups, *self.logits.groups])]

    def _layers_spent(self, group: str) -> Spent:
        """Return what a group spends in the layers and at the ends of the slowest stage."""
        found, stage = NOTHING, self.stage
        again = self.pipeline.layers_again(stage) * (np.asarray(self.layout.recompute) == FULL)
        for times, often in self._parts(stage):
            if group in times.groups:
                repeats = again if times is self.layer else 0.0
                found = found.plus(times.forward[group].times(often + repeats))
                found = found.plus(times.backward[group].times(often))
        return found.times(self.layout.accumulation)

    def _parts(self, stage: Stage) -> list[tuple[LayerTimes | PickedTimes, Numeric]]:
        """Return the parts of a stage, and how often it has each."""
        return [(self.layer, stage.layers), (self.embedding, stage.embedding), (self.logits, stage.logits)]

    def _sends_spent(self, free: Array) -> Spent:
        """Return the sends of the slowest stage: a micro-batch in and out, forward and backward."""
        overlaps = np.asarray(self.layout.overlap_pp) > 0
        total = 2.0 * to_float(self.layout.accumulation) * self.pipeline.sends_s
        if not overlaps.any():
            return Spent(total, ZERO, ZERO)
        total = total * np.where(overlaps, self.scenario.interference, 1.0)
        return overlapped(total, np.minimum(total, free), overlaps)

    def _windows(self) -> tuple[Array, Array, Array]:
        """Return the compute beside which states may be sent: a micro-batch forward, one backward, and all of them."""
        steps = to_float(self.layout.accumulation)
        backward = self.backward_s + self.recompute_s
        return self.forward_s / steps, backward / steps, self.forward_s + backward

    @cached_property
    def traffic(self) -> dict[str, Traffic]:
        """Bytes and calls of a step by group."""
        return traffic(self)

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
        states, others = self.comm.get("dp", NOTHING), (spent for group, spent in self.comm.items() if group != "dp")
        rest = add_up((self.compute_s, self.recompute_s, self.bubble_s, *(spent.visible for spent in others)))
        return rest + add_up((self.optimizer_s, states.visible))

    # -- whether it fits ----------------------------------------------------------------------------------------------

    @cached_property
    def footprint(self) -> Footprint:
        """Memory of the stage that needs most."""
        framework = self.scenario.framework_bytes
        return Footprint(self.context, self.activations, self.held, self.vocab, self.pipeline, framework)

    @property
    def memory_bytes(self) -> Array:
        """Bytes of memory of the stage that needs most."""
        return self.footprint.total

    @cached_property
    def layer_rules(self) -> list[Violation]:
        """The rules of a layer that points break."""
        return [rule for rule in layer_rules(self.transformer, self.layout) if rule.broken.any()]

    @cached_property
    def layout_violations(self) -> tuple[Violation, ...]:
        """The rules of model and layout that points break."""
        return layout_violations(self)

    @property
    def may_lack(self) -> bool:
        """Whether something of the hardware may be missing for some point, wherever its groups are placed."""
        return may_lack(self)

    @property
    def shape_violations(self) -> tuple[Violation, ...]:
        """The rules that points break, but for that of memory."""
        return (*self.layout_violations, *blank_violations(self))

    @cached_property
    def violations(self) -> tuple[Violation, ...]:  # type: ignore[override]
        """The rules that points break."""
        return step_violations(self)


def _shared_step(near: Near) -> Step:
    """Return the step of the rows that points share."""
    if near.shared.made is None:
        near.shared.made = evaluate(near.shared.scenario)
    made: Step = near.shared.made
    return made


def _whole(times: LayerTimes | PickedTimes) -> Passes:
    """Return compute and visible communication of what is beside the layers."""
    compute = times.compute
    return Passes(compute.forward + visible(times.forward), compute.backward + visible(times.backward), ZERO)


def evaluate(scenario: Scenario) -> Step:
    """Return the step of a scenario; broken rules are listed, not raised.

    Examples
    --------
    >>> from comp_comm.configs.hardware_file import load_profile
    >>> from comp_comm.layout import Layout
    >>> from comp_comm.transformer import Transformer
    >>> h100 = load_profile("h100-sxm").hardware("bf16")
    >>> llama = Transformer(4096, 8192, layers=32, heads=32, kv_heads=8, ffn_hidden=14336, gated=1, vocab=128256)
    >>> step = evaluate(Scenario(llama, Layout(gpus=8, tp=8, global_batch=8), h100))
    >>> parts = step.compute_s + step.recompute_s + step.optimizer_s + step.bubble_s
    >>> bool(abs(parts + step.serialized_comm_s + step.exposed_comm_s - step.step_s) < 1e-9)
    True
    """
    layout = resolved_layout(scenario.layout)
    return Step(scenario, resolved(scenario.transformer), layout, in_training(scenario.hardware))


def in_training(hardware: Hardware) -> Hardware:
    """Return the hardware as a whole step finds it: beyond the innermost tier the network keeps part of its speed."""
    inner, *outer = hardware.tiers
    kept = hardware.timing.network_sustained
    slower = (replace(tier, bandwidth=to_float(tier.bandwidth) * kept) for tier in outer)
    return replace(hardware, tiers=(inner, *slower))
