"""The parts of a training step, each timed for the points that differ in it: layer, ends, sends, states, all devices.

Where many points of a table have a layer or a stage's weights in common, those are worked out once (`near`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from comp_comm.costmodels.layer_times import (
    ZERO,
    Call,
    LayerTimes,
    add_up,
    time_operations,
    visible,
)
from comp_comm.costmodels.near import Near, PickedTimes
from comp_comm.costmodels.pipeline import Pipeline, Stage, stacked, stage_kinds
from comp_comm.costmodels.scenario import Scenario
from comp_comm.costmodels.states import StageStates, StateCosts, state_costs
from comp_comm.costmodels.step_work import StepWork
from comp_comm.formulas.arrays import Array, to_float
from comp_comm.hardware.numbers import Hardware
from comp_comm.layout import Layout, resolved_layout
from comp_comm.operations import messages as wire
from comp_comm.operations.attention import attention_block
from comp_comm.operations.context import Context
from comp_comm.operations.ends import embedding, logits
from comp_comm.operations.feed_forward import feed_forward_block, norms_and_residuals
from comp_comm.operations.memory import Activations, layer_activations
from comp_comm.operations.parameters import Parameters, held_parameters
from comp_comm.operations.rules import layer_rules
from comp_comm.operations.shapes import Message, Peers
from comp_comm.timing.collectives import Group
from comp_comm.timing.kernels import Kernels, Passes
from comp_comm.timing.network import collective_seconds
from comp_comm.timing.spans import Span, span_of
from comp_comm.transformer import Transformer, resolved
from comp_comm.violation import Violation


@dataclass(frozen=True)
class StepParts(StepWork):
    """Layers, ends, sends and states of one training step, as arrays that are made when they are asked for.

    ``layout`` and ``transformer`` are resolved.
    """

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
    def near(self) -> StepParts | None:
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
    def layer_rules(self) -> list[Violation]:
        """The rules of a layer that points break."""
        return [rule for rule in layer_rules(self.transformer, self.layout) if rule.broken.any()]


def resolved_parts(scenario: Scenario) -> tuple[Scenario, Transformer, Layout, Hardware]:
    """Return a scenario, and what a step of it has: model and layout, resolved, and the hardware in training."""
    layout = resolved_layout(scenario.layout)
    return scenario, resolved(scenario.transformer), layout, in_training(scenario.hardware)


def _shared_step(near: Near) -> StepParts:
    """Return the parts of the rows that points share."""
    if near.shared.made is None:
        near.shared.made = StepParts(*resolved_parts(near.shared.scenario))
    made: StepParts = near.shared.made
    return made


def _whole(times: LayerTimes | PickedTimes) -> Passes:
    """Return compute and visible communication of what is beside the layers."""
    compute = times.compute
    return Passes(compute.forward + visible(times.forward), compute.backward + visible(times.backward), ZERO)


def in_training(hardware: Hardware) -> Hardware:
    """Return the hardware as a whole step finds it: beyond the innermost tier the network keeps part of its speed."""
    inner, *outer = hardware.tiers
    kept = hardware.timing.network_sustained
    slower = (replace(tier, bandwidth=to_float(tier.bandwidth) * kept) for tier in outer)
    return replace(hardware, tiers=(inner, *slower))
