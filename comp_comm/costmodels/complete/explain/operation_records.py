"""A record of each operation of the slowest stage, phase by phase: its calls, work, bytes and seconds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from comp_comm.costmodels.complete.step import Step
from comp_comm.costmodels.complete.traffic import CountedCollective
from comp_comm.costmodels.layer_times import LayerTimes
from comp_comm.costmodels.records import OperationRecord, TierRecord
from comp_comm.formulas.arrays import Array, Numeric, to_float, where
from comp_comm.kernel_choices import AttentionKernel
from comp_comm.layers.kind import LayerKind
from comp_comm.operations.products import FusedProducts
from comp_comm.operations.shapes import Attention, Elementwise, Gemm, Operation
from comp_comm.timing.timed_collectives import TimedCollective
from comp_comm.timing.timed_operations import TimedOperation

NO_TIERS: TierRecord = {"inside_bytes": None, "across_bytes": None}


class StagePart(NamedTuple):
    """A part of the slowest stage: its name, times, how many it has, and how often operations are computed again."""

    name: str
    times: LayerTimes
    layer_count: Array
    again: dict[str, Array]
    layers: int | None


def by_tier(call: TimedCollective, calls: float) -> TierRecord:
    """Return the bytes that calls of an exchange with experts send inside a domain of the network and out of it."""
    sent = call.sent
    if sent is None:
        return NO_TIERS
    return {"inside_bytes": calls * float(sent.inside), "across_bytes": calls * float(sent.across)}


def parts_of(step: Step) -> list[StagePart]:
    """Return the parts of the slowest stage, in the order they are done."""
    stage = step.slowest_stage
    recomputed: dict[LayerKind, dict[str, Array]] = {}
    for kind, times, count in step.pipeline.recomputed_at_any_point(stage):
        for item in times.timed:
            of_kind = recomputed.setdefault(kind, {})
            of_kind[item.op.name] = of_kind.get(item.op.name, to_float(0.0)) + count * item.op.count
    layers = [
        StagePart(kind.name, step.layer_costs.times[kind], count, recomputed.get(kind, {}), int(count))
        for kind, count in zip(step.work.pattern.kinds, stage.layer_counts, strict=True)
    ]  # fmt: skip
    return [StagePart("embedding", step.layer_costs.embedding, stage.embedding, {}, None), *layers,
            StagePart("head", step.layer_costs.head, stage.head, {}, None)]  # fmt: skip


def operation_records(step: Step) -> list[OperationRecord]:
    """Return a record for each operation and phase of the slowest stage, in the order they are done."""
    parts = parts_of(step)
    timed = [record for part in parts for op in part.times.timed for record in _phases(step, part, op)]
    layers = {part.name: part.layers for part in parts}
    records = [*timed, *_collectives(step, layers), *_optimizer(step)]
    whole_step = float(step.step_s)
    done = [record for record in records if record["calls"] > 0]
    for record in done:
        record["share"] = record["seconds"] / whole_step
    return done


def _phases(step: Step, part: StagePart, timed: TimedOperation) -> Iterator[OperationRecord]:
    op, passes, micro_batches = timed.op, timed.passes, step.work.layout.stage_micro_batches
    again = micro_batches * part.again.get(op.name, to_float(0.0))
    count = micro_batches * part.layer_count * op.count
    forward, backward = _done(step, op)
    for phase, calls, seconds, work in (("forward", count, passes.forward, forward),
                                        ("recompute", again, passes.forward, forward),
                                        ("backward", count, passes.backward, backward)):  # fmt: skip
        of_op = _record(op.name, op.formula, type(op).__name__.lower(), phase, calls, seconds, work)
        yield {**of_op, "part": part.name, "layers": part.layers}


class Done(NamedTuple):
    """FLOP and bytes of HBM of an operation in one pass."""

    flops: Array
    moved: Array


def _done(step: Step, op: Operation) -> tuple[Done, Done]:
    """Return the work of an operation, forward and backward."""
    kernels, none = step.layer_costs.kernels, to_float(0.0)
    if isinstance(op, Gemm):
        moved = op.moved(kernels.operand, kernels.activation)
        weights = op.moved_for_weights(kernels.operand, kernels.gradient)
        trained = to_float(op.trained)
        return Done(op.flops, moved), Done((1 + trained) * op.flops, moved + trained * weights)
    if isinstance(op, Attention):
        moved = op.moved(kernels.activation)
        skips = AttentionKernel.skipping(step.work.layout.attention_kernel)
        flops = where(skips, op.seen_flops, op.flops)
        return Done(flops, moved), Done(2 * flops, 2 * moved)
    if isinstance(op, Elementwise):
        factor = to_float(op.factor)
        return Done(none, op.forward_bytes * factor), Done(none, op.backward_bytes * factor)
    if isinstance(op, FusedProducts):
        forward, backward = ((op.flops, op.forward_bytes), (op.backward_flops, op.backward_bytes))
        return Done(*map(to_float, forward)), Done(*map(to_float, backward))
    raise TypeError(f"the work of a {type(op).__name__} is not known")


def _record(
    name: str, formula: str, kind: str, phase: str, calls: Numeric, seconds: Numeric, done: Done
) -> OperationRecord:
    """Return the record of what no group does, once in a step."""
    return {
        "operation": name, "part": "step", "layers": None, "phase": phase, "kind": kind, "group": None,
        "calls": float(calls), "formula": formula, "flops": float(done.flops), "hbm_bytes": float(done.moved),
        "message_bytes": 0.0, "wire_bytes": 0.0, **NO_TIERS, "seconds": float(to_float(calls) * seconds), "share": 0.0,
        "across_domains": False,
    }  # fmt: skip


def _collectives(step: Step, layers: dict[str, int | None]) -> Iterator[OperationRecord]:
    for item in step.communication.counted_collectives:
        path = step.network.path(item.call.collective.group)
        across = bool(path.local < path.size)
        for phase in ("forward", "recompute", "backward", "step"):
            yield _collective(item, phase, layers.get(item.part), across)


def _collective(item: CountedCollective, phase: str, layers: int | None, across: bool) -> OperationRecord:
    collective, calls = item.call.collective, float(getattr(item, phase))
    return {
        "operation": collective.name, "part": item.part, "layers": layers, "phase": phase, "kind": collective.kind,
        "group": collective.parallelism, "calls": calls, "formula": collective.formula, "flops": 0.0, "hbm_bytes": 0.0,
        "message_bytes": float(collective.message_bytes), "wire_bytes": float(item.call.wire_bytes),
        **by_tier(item.call, 1.0),
        "seconds": calls * float(item.call.seconds), "share": 0.0, "across_domains": across,
    }  # fmt: skip


def _optimizer(step: Step) -> Iterator[OperationRecord]:
    states, none = step.communication.stage_states, to_float(0.0)
    norm, adam, muon = states.norm_s, states.adam_s, to_float(states.muon.seconds(states.kernels))
    per_byte = float(states.kernels.per_streamed_byte)
    added = to_float(step.accumulate_s)
    done = (("gradient norm", "gradients read, P / shards", norm, Done(none, norm / per_byte)),
            ("Adam", "states in and out, P / shards", adam, Done(none, adam / per_byte)),
            ("Muon", "Newton-Schulz steps, (4 a^2 b + 2 a^3) each", muon, Done(states.muon.flops, none)),
            ("gradients added up", "gradients in, sum in and out, P a micro-batch", added,
             Done(none, added / per_byte)),
            ("weights quantised", "weights of GEMMs, by the recipe", step.quantise_s, Done(none, none)))  # fmt: skip
    for name, formula, seconds, work in done:
        if float(seconds) or name in ("gradient norm", "Adam"):
            yield _record(name, formula, "elementwise", "optimizer", 1.0, seconds, work)
