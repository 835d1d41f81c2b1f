"""Every collective of a step with how often it is called, and the bytes of each parallel group."""

from __future__ import annotations

from collections.abc import Sequence

from comp_comm.costmodels.complete.schedule.pipeline import Pipeline
from comp_comm.formulas.arrays import ZERO, Array, Numeric, to_float
from comp_comm.layers.stages import Stage
from comp_comm.structs import struct
from comp_comm.timing.timed_collectives import TimedCollective


@struct
class CountedCollective:
    """A collective of the slowest stage, the part of the stage it is of, and its calls in a step by phase."""

    part: str
    call: TimedCollective
    forward: Array
    backward: Array
    recompute: Array
    step: Array

    @property
    def calls(self) -> Array:
        """Calls in a step."""
        return self.forward + self.backward + self.recompute + self.step


@struct
class Traffic:
    """Bytes of a group in a step and device: messages, volume (twice for an all-reduce), on the wire; and calls."""

    message_bytes: Array
    volume_bytes: Array
    wire_bytes: Array
    calls: Array


NO_TRAFFIC = Traffic(ZERO, ZERO, ZERO, ZERO)


def counted_in_layers(pipeline: Pipeline, stage: Stage) -> list[CountedCollective]:
    """Return the collectives of the layers and ends of a stage."""
    micro_batches, costs, none = pipeline.layout.stage_micro_batches, pipeline.layer_costs, to_float(0.0)
    recomputed_calls: dict[tuple[str, str], Array] = {}
    for kind, times, count in pipeline.recomputed_at_any_point(stage):
        for call in times.calls:
            key = kind.name, call.collective.name
            recomputed_calls[key] = recomputed_calls.get(key, none) + micro_batches * count * to_float(
                call.collective.count
            )
    layers = [(kind.name, costs.times[kind], count)
              for kind, count in zip(pipeline.work.pattern.kinds, stage.layer_counts, strict=True)]  # fmt: skip
    ends = (("embedding", costs.embedding, stage.embedding), ("head", costs.head, stage.head))
    counted = []
    for name, times, count in (*layers, *ends):
        for call in times.calls:
            forward, backward = to_float(call.collective.count), to_float(call.collective.backward_count)
            recompute = recomputed_calls.get((name, call.collective.name), none)
            each = micro_batches * count
            counted.append(
                CountedCollective(
                    name, call, forward=each * forward, backward=each * backward, recompute=recompute, step=none
                )
            )
    return counted


def counted_sends(calls: Sequence[TimedCollective], micro_batches: Numeric) -> list[CountedCollective]:
    """Return the sends between stages in a step of so many micro-batches."""
    counted = []
    for call in calls:
        forward, backward = to_float(call.collective.count), to_float(call.collective.backward_count)
        counted.append(
            CountedCollective(
                "stage",
                call,
                forward=micro_batches * forward,
                backward=micro_batches * backward,
                recompute=to_float(0.0),
                step=to_float(0.0),
            )
        )
    return counted


def counted_once(calls: Sequence[TimedCollective]) -> list[CountedCollective]:
    """Return collectives that are counted in a whole step."""
    none = to_float(0.0)
    return [
        CountedCollective(
            "step", call, forward=none, backward=none, recompute=none, step=to_float(call.collective.count)
        )
        for call in calls
    ]


def traffic_by_group(counted: Sequence[CountedCollective]) -> dict[str, Traffic]:
    """Return the bytes and calls of a step by group.

    Wire bytes are those of rings, direct exchanges and sends: what an algorithm saves (in-network reduction) is not
    taken off.
    """
    by_group: dict[str, Traffic] = {}
    for item in counted:
        collective, calls = item.call.collective, item.calls
        old = by_group.get(collective.parallelism, NO_TRAFFIC)
        by_group[collective.parallelism] = Traffic(
            old.message_bytes + calls * collective.message_bytes,
            old.volume_bytes + calls * collective.volume_bytes,
            old.wire_bytes + calls * item.call.wire_bytes,
            old.calls + calls,
        )
    return by_group
