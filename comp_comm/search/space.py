"""The layouts there are: a table of coupled degrees, joined divisor by divisor, beside the choices that go with any.

Degrees and batches are tied by the number of devices, the layers, the heads and the batch: they are rows of one table.
Choices (ZeRO, recompute, ...) are axes of their own before it. A choice without an effect (sequence parallelism without
TP, say) would only name a layout twice: such points are no layouts, and are not counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

from comp_comm.configs.axes import Axis
from comp_comm.configs.study import Study
from comp_comm.errors import ConfigError
from comp_comm.field import Value
from comp_comm.search.degrees import TABLE, Columns, join_degrees
from comp_comm.search.rows import axis_of, lawful_rows, parts_of, placed_rows
from comp_comm.sweep.blocks import extent
from comp_comm.sweep.plan import Plan, make_plan
from comp_comm.words import PLACEMENTS

# Choices that are searched unless a study fixes them, with what is tried.
OPEN: dict[str, tuple[Value, ...]] = {
    "zero": (0, 1, 2, 3),
    "recompute": ("none", "selective", "full"),
    "sp": ("off", "on"),
}
CHOICES = (*OPEN, "overlap_dp", "overlap_tp", "overlap_pp", "overlap_ep", "schedule", "cp_comm", "uneven_stages",
           "kv_replication", "offload_optimizer", "kernels", "attention_kernel", "collective_algorithm")  # fmt: skip
OF_OTHERS = ("dp_shard", "recompute_layers")  # fit some degrees and choices, not those of the simplest layout


@dataclass(frozen=True)
class Space:
    """What is searched: a plan over choices and a table of degrees and placements; and why rows fell out.

    ``table`` are the degrees alone: its rows are joined with each of the ``placements``, but for those that one before
    it lays out alike. ``parts`` are rows that have the same choices: where each begins, and which part of every axis of
    choices has an effect. ``ruled`` says whether some choices break a rule on some rows. ``dropped`` counts rows by the
    rule that removed them.
    """

    study: Study
    gpus: int
    plan: Plan
    table: Columns
    placements: tuple[str, ...]
    parts: tuple[tuple[int, tuple[slice, ...]], ...]
    ruled: bool
    choices: dict[str, tuple[Value, ...]]
    dropped: dict[str, int]

    @property
    def rows(self) -> int:
        """Rows of degrees and placements."""
        return len(self.plan.grid.axes[-1])

    @property
    def points(self) -> int:
        """Points that are looked at: every choice that has an effect with every row."""
        return sum((end - begin) * prod(extent(choices)) for begin, end, choices in self.spans())

    def spans(self) -> Iterator[tuple[int, int, tuple[slice, ...]]]:
        """Yield the parts: rows from one to another, and the choices that go with them."""
        ends = [*(begin for begin, _ in self.parts), self.rows][1:]
        for (begin, choices), end in zip(self.parts, ends, strict=True):
            yield begin, end, choices


def make_space(study: Study, gpus: int) -> Space:
    """Return the layouts of a study's model on ``gpus`` devices.

    A field of the layout that the study fixes is pinned; one with a list or a range takes only those values. Raises
    ``ConfigError`` with everything wrong with the study.
    """
    given = {name: tuple(values) for axis in study.axes for name, values in axis.values.items()}
    others = sorted(set(given) - set(TABLE) - set(CHOICES) - {"placement", "gpus"})
    for name in others:
        study.problem(name, f"{name} is no part of a layout to search; give it one value")
    for name in ("dp", "accumulation"):
        if name in study.origins:
            study.problem(name, f"{name} follows from the others in a search; pin tp, cp, pp or micro_batch instead")
    if "global_batch" not in study.fixed:
        study.problem("global_batch", "'global_batch' is missing: sequences in a step, over all replicas")
    plan = _plan(study)
    allowed = {name: given.get(name) or _fixed(study, name) for name in (*TABLE, *CHOICES, "placement")}
    table, dropped = join_degrees(plan, gpus, allowed)
    if not len(table["tp"]):
        why = "; ".join(f"{reason} ({count:,} tried)" for reason, count in dropped.items())
        raise ConfigError(f"no layout divides {gpus} devices, the batch and the model: {why or 'nothing to try'}")
    choices = {name: allowed[name] or OPEN.get(name, ()) for name in CHOICES}
    choices = {name: values for name, values in choices.items() if values}
    fixed = {name: value for name, value in plan.grid.fixed.items() if name not in (*TABLE, "dp")} | {"gpus": gpus}
    fixed |= {name: study.fixed[name] for name in OF_OTHERS if name in study.fixed}
    axes = [Axis({name: values}) for name, values in choices.items() if len(values) > 1]
    fixed |= {name: values[0] for name, values in choices.items() if len(values) == 1}
    placements = tuple(dict.fromkeys(map(str, allowed["placement"] or PLACEMENTS)))
    first = replace(plan.grid, fixed={**fixed, "placement": placements[0]}, axes=(*axes, axis_of(table)))
    lawful = lawful_rows(replace(plan, grid=first), dropped)
    found = parts_of(replace(plan, grid=first), lawful)
    last, begins = placed_rows(table, gpus, found, placements)
    plan = replace(plan, grid=replace(plan.grid, fixed=fixed, axes=(*axes, last)))
    parts = tuple((begin, used) for begin, (_, used) in zip(begins, found, strict=True))
    return Space(study, gpus, plan, table, placements, parts, lawful.ruled, choices, dropped)


def _plan(study: Study) -> Plan:
    """Return the plan of one simple layout of the study: what is wrong with the model or the hardware is said here."""
    alone = {"gpus": 1, "tp": 1, "cp": 1, "pp": 1, "vpp": 1, "ep": 1, "micro_batch": 1, "dp": 1}
    fixed = {name: value for name, value in study.fixed.items() if name not in (*TABLE, "gpus", *OF_OTHERS)}
    return make_plan(replace(study, axes=(), fixed={**fixed, **alone}))


def _fixed(study: Study, name: str) -> tuple[Value, ...]:
    return (study.fixed[name],) if name in study.fixed else ()
