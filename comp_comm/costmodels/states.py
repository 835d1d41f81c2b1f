"""What the weights of a stage cost in a step: collectives of gradients and weights, and the optimizer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from comp_comm.costmodels.layer_times import ZERO, Call, Spent, overlapped
from comp_comm.costmodels.pipeline import Stage
from comp_comm.costmodels.scenario import Scenario
from comp_comm.costmodels.step_work import beside_layers
from comp_comm.formulas.arrays import Array, Numeric, to_float
from comp_comm.operations.context import Context
from comp_comm.operations.ends import gradient_norm_bytes, optimizer_bytes
from comp_comm.operations.messages import state_messages
from comp_comm.operations.parameters import Parameters
from comp_comm.operations.shapes import Message
from comp_comm.timing.kernels import Kernels

USABLE = 0.85  # of the compute beside which states are sent: before it begins and after it ends nothing overlaps
CONTENTION = 0.1  # of hidden communication that shows all the same: it takes compute units and memory bandwidth


@dataclass(frozen=True)
class StageStates:
    """The parameters of a stage, held on a device."""

    c: Context
    held: Parameters
    kernels: Kernels
    stage: Stage

    @cached_property
    def ends(self) -> Array:
        """Parameters beside the layers; a last stage holds tied embeddings too."""
        return beside_layers(self.held, self.c.t, self.stage.embedding, self.stage.logits)

    def messages(self, steps: Numeric) -> list[Message]:
        """Return the collectives of a step of so many micro-batches."""
        return state_messages(self.c, self.held, self.stage.layers, self.ends, steps)

    @cached_property
    def own(self) -> list[tuple[Array, Array]]:
        """Parameters, and over how many devices their optimizer states are sharded."""
        layout = self.c.layout
        sharded = to_float(layout.zero) >= 1
        found = [(self.stage.layers * self.held.layer + self.ends, np.where(sharded, layout.dp_shard, 1.0))]
        if self.c.t.has_experts:
            shards = np.where(sharded, np.minimum(layout.dp_shard, layout.expert_replicas), 1.0)
            found.append((self.stage.layers * self.held.layer_experts, shards))
        return found

    @cached_property
    def norm_s(self) -> Array:
        """Seconds of reading the gradients for their norm."""
        here = sum((gradient_norm_bytes(self.c, count, shards) for count, shards in self.own), ZERO)
        return here * self.kernels.per_streamed_byte

    @cached_property
    def adam_s(self) -> Array:
        """Seconds of the optimizer's step."""
        here = sum((optimizer_bytes(self.c, count, shards) for count, shards in self.own), ZERO)
        seconds = here * self.kernels.per_streamed_byte
        offloaded = np.asarray(self.c.layout.offload_optimizer) > 0
        if not offloaded.any():
            return seconds
        f = self.c.formats
        sent = sum((count / shards for count, shards in self.own), ZERO) * (to_float(f.grad) + f.weight)
        return np.where(offloaded, sent / to_float(self.kernels.hardware.host_bandwidth), seconds)


class StateCosts(NamedTuple):
    """Seconds of a stage's states: of one occasion, of which ZeRO 2 and 3 have as many as micro-batches; and once.

    ``reduced`` are scatters of gradients, ``gathered`` gathers of weights, ``once`` what is all-reduced once a step
    whatever the stage of ZeRO; ``optimizer`` is the whole optimizer.
    """

    reduced: Array
    gathered: Array
    once: Array
    optimizer: Array


def state_costs(states: StageStates, calls: Sequence[Call]) -> StateCosts:
    """Return the seconds of a stage's states, from the calls of one micro-batch."""
    sums = {"reduce_scatter": ZERO, "all_gather": ZERO, "all_reduce": ZERO}
    for call in calls:
        sums[call.message.kind] = sums[call.message.kind] + to_float(call.message.count) * call.seconds
    zero = to_float(states.c.layout.zero)
    once, reduced = sums["all_reduce"], sums["reduce_scatter"]
    if not np.any((zero > 0) & (states.c.layout.dp_shard < states.c.layout.replicas)):
        once, reduced = ZERO, once + reduced  # ZeRO 0 alone all-reduces, and has one occasion: they are one sum
    return StateCosts(reduced, sums["all_gather"], once, states.norm_s + states.adam_s)


def state_spent(c: Context, costs: StateCosts, windows: Sequence[Array], scenario: Scenario) -> Spent:
    """Return the seconds of all collectives of states in a step, and what of them is hidden.

    Gradients are reduced while the last micro-batch goes backward, weights gathered while the first goes forward; under
    ZeRO 3 both go on all the time.
    """
    overlaps, zero, steps = np.asarray(c.layout.overlap_dp) > 0, to_float(c.layout.zero), c.layout.accumulation
    reduced, gathered = costs.reduced, costs.gathered
    scatters, gathers = zero >= 2, zero >= 3
    if scatters.any():
        reduced = reduced * np.where(scatters, steps, 1.0)
    if gathers.any():
        gathered = gathered * np.where(gathers, steps, 1.0)
    if costs.once is not ZERO:
        reduced = reduced + costs.once
    if not overlaps.any():
        return Spent(reduced + gathered, ZERO, ZERO)
    if np.any(to_float(scenario.interference) != 1):
        slowed = np.where(overlaps, scenario.interference, 1.0)
        reduced, gathered = reduced * slowed, gathered * slowed
    forward, backward, everything = (USABLE * window for window in windows)
    if scatters.any():  # ZeRO 2 reduces after every micro-batch, beside its backward pass
        backward = np.where(scatters, backward * steps, backward)
    total = reduced + gathered
    hidden = np.minimum(reduced, backward) + np.minimum(gathered, forward)
    if gathers.any():
        hidden = np.where(gathers, np.minimum(total, everything), hidden)
    return overlapped(total, (1 - CONTENTION) * hidden, overlaps)
