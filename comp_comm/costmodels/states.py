"""What the weights of a stage cost in a step: collectives of gradients and weights, and the optimizer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from comp_comm.costmodels.layer_times import ZERO, Call, Spent, add_up, overlapped
from comp_comm.costmodels.pipeline import Stage
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

    ``often`` are scatters of gradients, and under ZeRO 3 the gathers of weights; ``gathered`` are gathers that there is
    one of in a step, ``once`` what is all-reduced once whatever the stage of ZeRO; ``optimizer`` is the whole
    optimizer.
    """

    often: Array
    gathered: Array
    once: Array
    optimizer: Array


def state_costs(states: StageStates, calls: Sequence[Call], interference: Numeric) -> StateCosts:
    """Return the seconds of a stage's states, from the calls of one micro-batch."""
    sums = {"reduce_scatter": ZERO, "all_gather": ZERO, "all_reduce": ZERO}
    layout = states.c.layout
    overlaps, zero = np.asarray(layout.overlap_dp) > 0, to_float(layout.zero)
    slowed = np.where(overlaps, interference, 1.0)
    for call in calls:
        seconds = slowed * to_float(call.message.count) * call.seconds
        sums[call.message.kind] = sums[call.message.kind] + seconds
    once, often, gathered = sums["all_reduce"], sums["reduce_scatter"], sums["all_gather"]
    if not any(call.message.kind == "all_reduce" and np.any(to_float(call.message.count) * zero) for call in calls):
        once, often = ZERO, once + often  # ZeRO 0 alone all-reduces, and has one occasion: they are one sum
    gathers = zero >= 3
    if gathers.any():
        often, gathered = np.where(gathers, often + gathered, often), np.where(gathers, 0.0, gathered)
    return StateCosts(often, gathered, once, states.norm_s + states.adam_s)


def state_spent(c: Context, costs: StateCosts, windows: Sequence[Array]) -> Spent:
    """Return the seconds of all collectives of states in a step, and what of them is hidden.

    Gradients are reduced while the last micro-batch goes backward, weights gathered while the first goes forward; ZeRO
    2 reduces after every micro-batch, beside its backward pass; under ZeRO 3 all goes on all the time. ``windows`` are
    the compute of a micro-batch forward, of one backward, and of all.
    """
    overlaps, zero, steps = np.asarray(c.layout.overlap_dp) > 0, to_float(c.layout.zero), c.layout.accumulation
    reduced = costs.often
    if (zero >= 2).any():
        reduced = reduced * np.where(zero >= 2, steps, 1.0)
    reduced = add_up((reduced, costs.once))
    total = reduced + costs.gathered
    if not overlaps.any():
        return Spent(total, ZERO, ZERO)
    forward, window, everything = (USABLE * each for each in windows)
    if (zero >= 2).any():
        window = np.where(zero >= 2, np.where(zero >= 3, everything, window * steps), window)
    hidden = np.minimum(reduced, window) + np.minimum(costs.gathered, forward)
    return overlapped(total, (1 - CONTENTION) * hidden, overlaps)
