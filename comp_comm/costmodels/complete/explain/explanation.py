"""One step explained: every operation with its formula, work, seconds and share; memory and communication by part."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from comp_comm.choices import AttentionCount
from comp_comm.costmodels.complete.columns import COLUMNS
from comp_comm.costmodels.complete.explain.operation_records import by_tier, operation_records
from comp_comm.costmodels.complete.explain.utilization import high_notes
from comp_comm.costmodels.complete.step import Step
from comp_comm.costmodels.explained import ExplainedAnswer
from comp_comm.costmodels.records import (
    MEMORY_PARTS,
    GroupRecord,
    MemoryRecord,
    MessageRecord,
    StepRecord,
)  # fmt: skip
from comp_comm.formulas.arrays import isnan, to_float, unwarned
from comp_comm.hardware.numbers import Hardware
from comp_comm.hardware.profile import NAMED_KERNELS
from comp_comm.kernel_choices import AttentionKernel, Recipe
from comp_comm.layout import NOT_GIVEN
from comp_comm.optimizers import MuonSharding, Optimizer
from comp_comm.timing.timed_collectives import TimedCollective

if TYPE_CHECKING:
    from comp_comm.costmodels.timeline import Timeline

PARAMETERS = ("parameters", "active_parameters", "mtp_parameters")
# Of a step that follow from its layout and are good to see beside what was given.
DERIVED = ("gpus", "dp", "global_batch", "accumulation")


class ExplainedStep(Step, ExplainedAnswer):
    """A step that can be explained, at one point."""

    @property
    def hardware(self) -> Hardware:
        """The hardware asked for: not yet as a whole step finds it."""
        return self.work.scenario.hardware

    def record(self) -> StepRecord:
        """Return everything about one step (a scenario of no axes) as plain numbers."""
        counts = {name: int(getattr(self.work, name)) for name in (*DERIVED, *PARAMETERS)}
        with unwarned():
            columns = {name: float(column.of(self)) for name, column in COLUMNS.items()
                       if name not in PARAMETERS and not column.extra
                       and not (column.needs and isnan(self.work.run_tokens))}  # fmt: skip
        first = {
            "step_s": columns.pop("step_s"),
            "forward_s": float(self.forward_compute_s),
            "backward_s": float(self.backward_compute_s),
        }
        return {"counts": counts, "numbers": {**first, **columns}, "memory": self.memory_record(),
                "comm": self.group_records(), "operations": operation_records(self)}  # fmt: skip

    def notes(self) -> list[str]:
        """Return what a reader should know of its MFU and HFU."""
        count = AttentionCount.at(int(self.work.scenario.count_attention)).word
        return [*self._defaults(), *high_notes(self, count)]

    def _defaults(self) -> list[str]:
        """Return what the device's stacks do, where the study leaves it to them."""
        timing, recipe = self.hardware.timing, Recipe.at(int(self.work.scenario.formats.recipe))
        used = AttentionKernel.at(int(to_float(timing.attention_kernel)))
        said = []
        asked = AttentionKernel.at(int(self.work.layout.attention_kernel))
        if used in NAMED_KERNELS and asked < AttentionKernel.UNFUSED:
            said.append(f"attention_kernel {asked.word} is {used.word}, which training stacks use on this device")
        if recipe is not Recipe.NONE:
            head = "" if int(self.work.scenario.formats.fp8_head) else ", the output layer"
            core = "" if int(self.work.scenario.formats.fp8_attention) else ", attention"
            said.append(f"GEMMs run by recipe {recipe.word}; in 16 bits stay the router{head}{core}")
        given, layout, t = self.work.scenario.layout, self.work.layout, self.work.transformer
        if to_float(t.experts) > 0 and int(to_float(layout.load_balancing)) == NOT_GIVEN:
            by_bias = self.work.context.router_balances > 0
            said.append("load_balancing is " + ("bias, which the router has" if by_bias else "loss"))
        if Optimizer.MUON.where(layout.optimizer) and int(to_float(given.muon_sharding)) == NOT_GIVEN:
            sharding = MuonSharding.at(int(to_float(layout.muon_sharding))).word
            said.append(f"muon_sharding is {sharding}, as stacks have it with this zero and zero_implementation")
        return said

    def timeline(self) -> Timeline:
        """Return what every stage does when."""
        from comp_comm.costmodels.complete.explain.timeline import timeline

        return timeline(self)

    def memory_record(self) -> MemoryRecord:
        """Return the bytes of the stage that needs most by part, in all, and what the device has."""
        parts = self.footprint.parts
        sizes = {f"{name}_bytes": float(getattr(parts, name)) for name in MEMORY_PARTS}
        both = {"total_bytes": float(self.memory_bytes), "allocated_bytes": float(self.footprint.allocated),
                "reserved_bytes": float(self.footprint.reserved),
                "capacity_bytes": float(self.memory_capacity)}  # fmt: skip
        return cast(MemoryRecord, {**sizes, **both})

    def group_records(self) -> dict[str, GroupRecord]:
        """Return each group's seconds (serialized, hidden, exposed: disjoint), bytes and calls."""
        records: dict[str, GroupRecord] = {}
        for group, spent in self.comm.items():
            moved = self.traffic[group]
            records[group] = {
                "serialized_s": float(spent.serialized), "hidden_s": float(spent.hidden),
                "exposed_s": float(spent.exposed),
                "message_bytes": float(moved.message_bytes), "volume_bytes": float(moved.volume_bytes),
                "wire_bytes": float(moved.wire_bytes), "calls": float(moved.calls),
            }  # fmt: skip
        return records

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
        **by_tier(call, calls),
    }  # fmt: skip
