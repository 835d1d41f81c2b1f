"""One step explained: every operation with its formula, work, seconds and share; memory and communication by part."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, cast

from comp_comm.choices import AttentionCount
from comp_comm.costmodels.complete.columns import COLUMNS
from comp_comm.costmodels.complete.explain.utilization import high_notes
from comp_comm.costmodels.complete.step import Step
from comp_comm.costmodels.complete.traffic import CountedCollective
from comp_comm.costmodels.explained import ExplainedAnswer
from comp_comm.costmodels.layer_times import LayerTimes
from comp_comm.costmodels.records import (
    MEMORY_PARTS,
    GroupRecord,
    MemoryRecord,
    MessageRecord,
    OperationRecord,
    StepRecord,
    TierRecord,
)  # fmt: skip
from comp_comm.costmodels.timed import TimedCollective, TimedOperation
from comp_comm.formulas.arrays import Array, Numeric, isnan, to_float, unwarned, where
from comp_comm.hardware.numbers import Hardware
from comp_comm.hardware.profile import NAMED_KERNELS
from comp_comm.kernel_choices import AttentionKernel, Recipe
from comp_comm.layers.kind import LayerKind
from comp_comm.layout import NOT_GIVEN
from comp_comm.operations.products import FusedProducts
from comp_comm.operations.shapes import Attention, Elementwise, Gemm, Operation
from comp_comm.optimizers import MuonSharding, Optimizer

if TYPE_CHECKING:
    from comp_comm.costmodels.timeline import Timeline

PARAMETERS = ("parameters", "active_parameters", "mtp_parameters")
# Of a step that follow from its layout and are good to see beside what was given.
DERIVED = ("gpus", "dp", "global_batch", "accumulation")


NO_TIERS: TierRecord = {"inside_bytes": None, "across_bytes": None}


class StagePart(NamedTuple):
    """A part of the slowest stage: its name, times, how many it has, and how often operations are computed again."""

    name: str
    times: LayerTimes
    layer_count: Array
    again: dict[str, Array]
    layers: int | None


class ExplainedStep(Step, ExplainedAnswer):
    """A step that can be explained, at one point."""

    @property
    def hardware(self) -> Hardware:
        """The hardware asked for: not yet as a whole step finds it."""
        return self.work.scenario.hardware

    def record(self) -> StepRecord:
        """Return everything about the step."""
        return step_record(self)

    def notes(self) -> list[str]:
        """Return what a reader should know of its MFU and HFU."""
        count = AttentionCount.at(int(self.work.scenario.count_attention)).word
        return [*self._defaults(), *high_notes(self, count)]

    def _defaults(self) -> list[str]:
        """Return what the device's stacks do, where the study leaves it to them."""
        timing, recipe = self.hardware.timing, Recipe.at(int(self.work.scenario.formats.recipe))
        used = AttentionKernel.at(int(to_float(timing.attention_kernel)))
        said = []
        if used in NAMED_KERNELS and int(self.work.layout.attention_kernel) < AttentionKernel.UNFUSED:
            said.append(f"attention_kernel is {used.word}, which training stacks use on this device")
        if recipe is not Recipe.NONE:
            head = "" if int(self.work.scenario.formats.fp8_head) else ", the output layer"
            core = "" if int(self.work.scenario.formats.fp8_attention) else ", attention"
            said.append(f"GEMMs run by recipe {recipe.word}; in 16 bits stay the router{head}{core}")
        given, layout, t = self.work.scenario.layout, self.work.layout, self.work.transformer
        if to_float(t.experts) > 0 and int(to_float(layout.load_balancing)) == NOT_GIVEN:
            said.append(
                "load_balancing is " + ("bias, which the router has" if to_float(t.router_bias) > 0 else "loss")
            )
        if Optimizer.MUON.where(layout.optimizer) and int(to_float(given.muon_sharding)) == NOT_GIVEN:
            sharding = MuonSharding.at(int(to_float(layout.muon_sharding))).word
            said.append(f"muon_sharding is {sharding}, as stacks have it with this zero and zero_implementation")
        return said

    def timeline(self) -> Timeline:
        """Return what every stage does when."""
        from comp_comm.costmodels.complete.explain.timeline import timeline

        return timeline(self)

    def memory_record(self) -> MemoryRecord:
        """Return the bytes of the stage that needs most, by part."""
        return memory_record(self)

    def group_records(self) -> dict[str, GroupRecord]:
        """Return the communication of every parallel group."""
        return communication(self)

    def message_records(self) -> list[MessageRecord]:
        """Return every collective of the slowest stage with its calls and bytes."""
        return [
            _message(item.call, float(item.calls))
            for item in self.communication.counted_collectives
            if float(item.calls)
        ]


def _message(call: TimedCollective, calls: float) -> MessageRecord:
    collective = call.collective
    each = float(collective.message_bytes)
    return {
        "group": collective.parallelism, "message": collective.name, "collective": collective.kind,
        "devices": float(collective.group.size), "calls": calls, "message_bytes": each,
        "total_message_bytes": calls * each, "volume_bytes": calls * float(collective.volume_bytes),
        "wire_bytes": calls * float(call.wire_bytes),
        **_by_tier(call, calls),
    }  # fmt: skip


def _by_tier(call: TimedCollective, calls: float) -> TierRecord:
    """Return the bytes that calls of an exchange with experts send inside a domain of the network and out of it."""
    sent = call.sent
    if sent is None:
        return NO_TIERS
    return {"inside_bytes": calls * float(sent.inside), "across_bytes": calls * float(sent.across)}


def step_record(step: Step) -> StepRecord:
    """Return everything about one step (a scenario of no axes) as plain numbers."""
    counts = {name: int(getattr(step.work, name)) for name in (*DERIVED, *PARAMETERS)}
    with unwarned():
        columns = {name: float(column.of(step)) for name, column in COLUMNS.items()
                   if name not in PARAMETERS and not column.extra
                   and not (column.needs and isnan(step.work.run_tokens))}  # fmt: skip
    first = {"step_s": columns.pop("step_s"), "forward_s": float(step.forward_s), "backward_s": float(step.backward_s)}
    return {"counts": counts, "numbers": {**first, **columns}, "memory": memory_record(step),
            "comm": communication(step), "operations": operations(step)}  # fmt: skip


def memory_record(step: Step) -> MemoryRecord:
    """Return the bytes of the stage that needs most by part, in all, and what the device has."""
    parts = step.footprint.parts
    sizes = {f"{name}_bytes": float(getattr(parts, name)) for name in MEMORY_PARTS}
    both = {"total_bytes": float(step.memory_bytes), "allocated_bytes": float(step.footprint.allocated),
            "reserved_bytes": float(step.footprint.reserved),
            "capacity_bytes": float(step.memory_capacity)}  # fmt: skip
    return cast(MemoryRecord, {**sizes, **both})


def communication(step: Step) -> dict[str, GroupRecord]:
    """Return each group's seconds (serialized, hidden, exposed: disjoint), bytes and calls."""
    records: dict[str, GroupRecord] = {}
    for group, spent in step.comm.items():
        moved = step.traffic[group]
        records[group] = {
            "serialized_s": float(spent.serialized), "hidden_s": float(spent.hidden), "exposed_s": float(spent.exposed),
            "message_bytes": float(moved.message_bytes), "volume_bytes": float(moved.volume_bytes),
            "wire_bytes": float(moved.wire_bytes), "calls": float(moved.calls),
        }  # fmt: skip
    return records


def parts_of(step: Step) -> list[StagePart]:
    """Return the parts of the slowest stage, in the order they are done."""
    stage = step.slowest_stage
    recomputed: dict[LayerKind, dict[str, Array]] = {}
    for kind, times, count in step.pipeline.recomputed_at_any_point(stage):
        for item in times.timed:
            of_kind = recomputed.setdefault(kind, {})
            of_kind[item.op.name] = of_kind.get(item.op.name, to_float(0.0)) + count * item.op.count
    layers = [
        StagePart(kind.name, step.layers.layers[kind], count, recomputed.get(kind, {}), int(count))
        for kind, count in zip(step.work.pattern.kinds, stage.layers, strict=True)
    ]  # fmt: skip
    return [StagePart("embedding", step.layers.embedding, stage.embedding, {}, None), *layers,
            StagePart("head", step.layers.head, stage.head, {}, None)]  # fmt: skip


def operations(step: Step) -> list[OperationRecord]:
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
    yield _record(op, part, "forward", count, passes.forward, forward)
    yield _record(op, part, "recompute", again, passes.forward, forward)
    yield _record(op, part, "backward", count, passes.backward, backward)


class Done(NamedTuple):
    """FLOP and bytes of HBM of an operation in one pass."""

    flops: Array
    moved: Array


def _done(step: Step, op: Operation) -> tuple[Done, Done]:
    """Return the work of an operation, forward and backward."""
    kernels, none = step.layers.kernels, to_float(0.0)
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
    op: Operation, part: StagePart, phase: str, calls: Numeric, seconds: Numeric, done: Done
) -> OperationRecord:
    return {
        "operation": op.name, "part": part.name, "layers": part.layers, "phase": phase,
        "kind": type(op).__name__.lower(), "group": None, "calls": float(calls), "formula": op.formula,
        "flops": float(done.flops), "hbm_bytes": float(done.moved), "message_bytes": 0.0, "wire_bytes": 0.0,
        **NO_TIERS,
        "seconds": float(to_float(calls) * seconds), "share": 0.0, "across_domains": False,
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
        **_by_tier(item.call, 1.0),
        "seconds": calls * float(item.call.seconds), "share": 0.0, "across_domains": across,
    }  # fmt: skip


def _optimizer(step: Step) -> Iterator[OperationRecord]:
    states, none = step.communication.stage_states, to_float(0.0)
    norm, adam, muon = states.norm_s, states.adam_s, to_float(states.muon.seconds(states.kernels))
    per_byte = float(states.kernels.per_streamed_byte)
    part = StagePart("step", step.layers.embedding, to_float(1.0), {}, None)
    added = to_float(step.accumulate_s)
    done = (("gradient norm", "gradients read, P / shards", norm, Done(none, norm / per_byte)),
            ("Adam", "states in and out, P / shards", adam, Done(none, adam / per_byte)),
            ("Muon", "Newton-Schulz steps, (4 a^2 b + 2 a^3) each", muon, Done(states.muon.flops, none)),
            ("gradients added up", "gradients in, sum in and out, P a micro-batch", added,
             Done(none, added / per_byte)),
            ("weights quantised", "weights of GEMMs, by the recipe", step.quantise_s, Done(none, none)))  # fmt: skip
    for name, formula, seconds, work in done:
        if float(seconds) or name in ("gradient norm", "Adam"):
            op = Elementwise(name, formula, 1.0, 0.0, 0.0)
            yield _record(op, part, "optimizer", 1.0, seconds, work)
