"""Every collective of a step with how often it is called: bytes by group, in the three names they have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from comp_comm.costmodels.layer_times import ZERO, Call
from comp_comm.formulas import collectives
from comp_comm.formulas.arrays import Array, to_float
from comp_comm.layout import FULL
from comp_comm.operations.shapes import Message

if TYPE_CHECKING:
    from comp_comm.costmodels.complete import Step


@dataclass(frozen=True)
class Counted:
    """A collective of the slowest stage, and its calls in a step by phase."""

    part: str
    call: Call
    forward: Array
    backward: Array
    recompute: Array
    step: Array

    @property
    def calls(self) -> Array:
        """Calls in a step."""
        return self.forward + self.backward + self.recompute + self.step


@dataclass(frozen=True)
class Traffic:
    """Bytes of a group in a step and device: messages, volume (twice for an all-reduce), on the wire; and calls."""

    message_bytes: Array
    volume_bytes: Array
    wire_bytes: Array
    calls: Array


def counted_calls(step: Step) -> list[Counted]:
    """Return every collective of a device of the slowest stage."""
    stage, steps = step.stage, to_float(step.layout.accumulation)
    again = step.pipeline.layers_again(stage) * (np.asarray(step.layout.recompute) == FULL)
    found = []
    for name, times, often in (("layer", step.layer_here, stage.layers),
                               ("embedding", step.embedding_here, stage.embedding),
                               ("logits", step.logits_here, stage.logits)):  # fmt: skip
        for call in times.calls:
            forward, backward = to_float(call.message.count), to_float(call.message.backward)
            repeats = steps * again * forward if name == "layer" else ZERO
            found.append(Counted(name, call, steps * often * forward, steps * often * backward, repeats, ZERO))
    for call in step.sends:
        forward, backward = to_float(call.message.count), to_float(call.message.backward)
        found.append(Counted("stage", call, steps * forward, steps * backward, ZERO, ZERO))
    for call in (*step.state_calls, *step.world):
        found.append(Counted("step", call, ZERO, ZERO, ZERO, to_float(call.message.count)))
    return found


def wire_bytes(message: Message) -> Array:
    """Return what a device sends in one call."""
    size, n = message.message_bytes, message.peers.size
    if message.kind == "send":
        return collectives.point_to_point_wire_bytes(size)
    table = {
        "all_reduce": collectives.all_reduce_wire_bytes,
        "all_gather": collectives.all_gather_wire_bytes,
        "reduce_scatter": collectives.reduce_scatter_wire_bytes,
        "all_to_all": collectives.all_to_all_wire_bytes,
    }
    return table[message.kind](size, n)


def volume_bytes(message: Message) -> Array:
    """Return the volume of one call: twice the message for an all-reduce."""
    if message.kind == "all_reduce":
        return collectives.all_reduce_volume_bytes(message.message_bytes)
    return to_float(message.message_bytes)


def traffic(step: Step) -> dict[str, Traffic]:
    """Return the bytes and calls of a step by group.

    Wire bytes are those of rings, direct exchanges and sends: what an algorithm saves (in-network reduction) is not
    taken off.
    """
    found: dict[str, Traffic] = {}
    for item in counted_calls(step):
        message, calls = item.call.message, item.calls
        old = found.get(message.group, Traffic(ZERO, ZERO, ZERO, ZERO))
        found[message.group] = Traffic(
            old.message_bytes + calls * message.message_bytes,
            old.volume_bytes + calls * volume_bytes(message),
            old.wire_bytes + calls * wire_bytes(message),
            old.calls + calls,
        )
    return found
