"""One step explained: every operation with its formula, work, seconds and share; memory and communication by part."""

from __future__ import annotations

from typing import Any

import numpy as np

from comp_comm.costmodels.complete import Step
from comp_comm.costmodels.complete_columns import COLUMNS
from comp_comm.costmodels.footprint import PARTS
from comp_comm.costmodels.layer_times import Timed
from comp_comm.costmodels.traffic import counted_calls, wire_bytes
from comp_comm.formulas.arrays import Array, Numeric, to_float
from comp_comm.layout import FULL, SELECTIVE
from comp_comm.operations.shapes import Attention, Elementwise, Gemm, Operation

Record = dict[str, Any]
PARAMETERS = ("parameters", "active_parameters", "mtp_parameters")
# Of a step that follow from its layout and are good to see beside what was given.
DERIVED = ("gpus", "dp", "global_batch", "accumulation")


def explain_step(step: Step) -> Record:
    """Return everything about one step (a scenario of no axes) as plain numbers."""
    found: Record = {name: int(getattr(step, name)) for name in DERIVED}
    found |= {name: int(getattr(step, name)) for name in PARAMETERS}
    with np.errstate(invalid="ignore", divide="ignore"):
        columns = {name: float(column.of(step)) for name, column in COLUMNS.items()
                   if name not in PARAMETERS and not column.extra
                   and not (column.needs and np.isnan(step.run_tokens))}  # fmt: skip
    found |= {"step_s": columns.pop("step_s"), "forward_s": float(step.forward_s), "backward_s": float(step.backward_s)}
    found |= columns
    found["memory"] = memory_parts(step)
    found["comm"] = communication(step)
    found["operations"] = operations(step)
    return found


def memory_parts(step: Step) -> Record:
    """Return the bytes of the stage that needs most by part, in all, and what the device has."""
    parts = step.footprint.parts
    found = {f"{name}_bytes": float(getattr(parts, name)) for name in PARTS}
    return {**found, "total_bytes": float(step.memory_bytes), "capacity_bytes": float(step.hardware.memory_capacity)}


def communication(step: Step) -> Record:
    """Return each group's seconds (serialized, hidden, exposed: disjoint), bytes and calls."""
    sent, found = step.traffic, {}
    for group, spent in step.comm.items():
        moved = sent[group]
        found[group] = {
            "serialized_s": float(spent.serialized), "hidden_s": float(spent.hidden), "exposed_s": float(spent.exposed),
            "message_bytes": float(moved.message_bytes), "volume_bytes": float(moved.volume_bytes),
            "wire_bytes": float(moved.wire_bytes), "calls": float(moved.calls),
        }  # fmt: skip
    return found


def operations(step: Step) -> list[Record]:
    """Return a record for each operation and phase of the slowest stage, in the order they are done."""
    stage, steps = step.stage, to_float(step.layout.accumulation)
    found = []
    for name, times, often in (("embedding", step.embedding_here, stage.embedding),
                               ("layer", step.layer_here, stage.layers),
                               ("logits", step.logits_here, stage.logits)):  # fmt: skip
        found += [record for timed in times.timed for record in _phases(step, name, timed, steps * often)]
    found += _messages(step) + _optimizer(step)
    whole = float(step.step_s)
    return [{**record, "share": record["seconds"] / whole} for record in found if record["calls"] > 0]


def _phases(step: Step, part: str, timed: Timed, often: Array) -> list[Record]:
    op, passes = timed.op, timed.passes
    count = often * op.count
    recompute = np.asarray(step.layout.recompute)
    again = to_float(0.0)
    if part == "layer" and (recompute == FULL or (recompute == SELECTIVE and isinstance(op, Attention))):
        again = to_float(step.layout.accumulation) * step.pipeline.layers_again(step.stage) * op.count
    done = _done(step, op)
    return [
        _record(op, part, phase, calls, seconds, *done[number], kind=_kind(op))
        for phase, calls, seconds, number in (("forward", count, passes.forward, 0),
                                              ("recompute", again, passes.forward, 0),
                                              ("backward", count, passes.backward, 1))
    ]  # fmt: skip


def _done(step: Step, op: Operation) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Return FLOP and bytes of HBM, forward and backward."""
    kernels = step.kernels
    if isinstance(op, Gemm):
        moved = op.moved(kernels.operand, kernels.activation)
        weights = op.moved_for_weights(kernels.operand, kernels.gradient)
        return (op.flops, moved), (2 * op.flops, moved + weights)
    if isinstance(op, Attention):
        moved = op.moved(kernels.activation)
        return (op.flops, moved), (2 * op.flops, 2 * moved)
    assert isinstance(op, Elementwise)
    none = to_float(0.0)
    return (none, op.forward_bytes * to_float(op.factor)), (none, op.backward_bytes * to_float(op.factor))


def _kind(op: Operation) -> str:
    return type(op).__name__.lower()


def _record(op: Operation, part: str, phase: str, calls: Numeric, seconds: Numeric, flops: Numeric, moved: Numeric,
            kind: str) -> Record:  # fmt: skip
    return {
        "operation": op.name, "part": part, "phase": phase, "kind": kind, "group": None, "calls": float(calls),
        "formula": op.formula, "flops": float(flops), "hbm_bytes": float(moved), "message_bytes": 0.0,
        "wire_bytes": 0.0, "seconds": float(to_float(calls) * seconds),
    }  # fmt: skip


def _messages(step: Step) -> list[Record]:
    found = []
    for item in counted_calls(step):
        message = item.call.message
        span = step.span(message.peers)
        across = bool(span.local < span.size)
        for phase in ("forward", "recompute", "backward", "step"):
            calls = float(getattr(item, phase))
            found.append({
                "operation": message.name, "part": item.part, "phase": phase, "kind": message.kind,
                "group": message.group, "calls": calls, "formula": message.formula, "flops": 0.0, "hbm_bytes": 0.0,
                "message_bytes": float(message.message_bytes), "wire_bytes": float(wire_bytes(message)),
                "seconds": calls * float(item.call.seconds), "across_domains": across,
            })  # fmt: skip
    return found


def _optimizer(step: Step) -> list[Record]:
    per_byte = float(step.kernels.per_streamed_byte)
    found = []
    states = step.states
    for name, formula, seconds in (("gradient norm", "gradients read", states.norm_s),
                                   ("Adam", "states in and out", states.adam_s)):  # fmt: skip
        op = Operation(name, f"{formula}, P / shards", 1)
        found.append(_record(op, "step", "optimizer", 1.0, seconds, 0.0, float(seconds) / per_byte, "elementwise"))
    return found
