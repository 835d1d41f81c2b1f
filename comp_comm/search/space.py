"""The layouts there are: a table of coupled degrees, joined divisor by divisor, beside the choices that go with any.

Degrees and batches are tied by the number of devices, the layers, the heads and the batch: they are rows of one table.
Choices (ZeRO, recompute, ...) are axes of their own before it. A choice without an effect (sequence parallelism without
TP, say) would only name a layout twice: such points are no layouts, and are not counted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from collections.abc import Iterator
from functools import cache
from math import prod
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from comp_comm.configs.axes import Axis, Column
from comp_comm.configs.study import Study
from comp_comm.errors import ConfigError
from comp_comm.costmodels.complete import Step
from comp_comm.field import Value
from comp_comm.formulas.arrays import to_float
from comp_comm.layout import Layout
from comp_comm.sweep.blocks import extent
from comp_comm.sweep.plan import Plan, make_plan
from comp_comm.words import GROUPS, PLACEMENTS

TABLE = ("tp", "cp", "pp", "vpp", "ep", "etp", "micro_batch")
# Choices that are searched unless a study fixes them, with what is tried.
OPEN: dict[str, tuple[Value, ...]] = {
    "zero": (0, 1, 2, 3),
    "recompute": ("none", "selective", "full"),
    "sp": ("off", "on"),
}
CHOICES = (*OPEN, "overlap_dp", "overlap_tp", "overlap_pp", "overlap_ep", "schedule", "cp_comm", "uneven_stages",
           "kv_replication", "offload_optimizer", "kernels", "attention_kernel", "collective_algorithm")  # fmt: skip
OF_OTHERS = ("dp_shard", "recompute_layers")  # fit some degrees and choices, not those of the simplest layout
MAX_ROWS = 20_000_000
MAX_PLACED = 100_000_000
RULED_ROWS = 2**17  # whose rules are looked at together
Columns = dict[str, NDArray[np.int64]]


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
        ends = [*(begin for begin, _ in self.parts[1:]), self.rows]
        for (begin, choices), end in zip(self.parts, ends, strict=True):
            yield begin, end, choices


def make_space(study: Study, gpus: int) -> Space:
    """Return the layouts of a study's model on ``gpus`` devices.

    A field of the layout that the study fixes is pinned; one with a list or a range takes only those values. Raises
    ``ConfigError`` with everything wrong with the study.
    """
    given = {name: values for axis in study.axes for name, values in axis.values.items()}
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
    table, dropped = _join(plan, gpus, allowed)
    if not len(table["tp"]):
        why = "; ".join(f"{reason} ({count:,})" for reason, count in dropped.items())
        raise ConfigError(f"no layout divides {gpus} devices, the batch and the model: {why or 'nothing to try'}")
    choices = {name: allowed[name] or OPEN.get(name, ()) for name in CHOICES}
    choices = {name: values for name, values in choices.items() if values}
    fixed = {name: value for name, value in plan.grid.fixed.items() if name not in (*TABLE, "dp")} | {"gpus": gpus}
    fixed |= {name: study.fixed[name] for name in OF_OTHERS if name in study.fixed}
    axes = [Axis({name: values}) for name, values in choices.items() if len(values) > 1]
    fixed |= {name: values[0] for name, values in choices.items() if len(values) == 1}
    placements = tuple(dict.fromkeys(map(str, allowed["placement"] or PLACEMENTS)))
    axes.append(_rows(table, gpus, placements))
    plan, ruled = _lawful(replace(plan, grid=replace(plan.grid, fixed=fixed, axes=tuple(axes))), dropped)
    plan, parts = _parted(plan)
    return Space(study, gpus, plan, table, placements, parts, ruled, choices, dropped)


def _plan(study: Study) -> Plan:
    """Return the plan of one simple layout of the study: what is wrong with the model or the hardware is said here."""
    alone = {"gpus": 1, "tp": 1, "cp": 1, "pp": 1, "vpp": 1, "ep": 1, "micro_batch": 1, "dp": 1}
    fixed = {name: value for name, value in study.fixed.items() if name not in (*TABLE, "gpus", *OF_OTHERS)}
    return make_plan(replace(study, axes=(), fixed={**fixed, **alone}))


def _fixed(study: Study, name: str) -> tuple[Value, ...]:
    return (study.fixed[name],) if name in study.fixed else ()


def _join(plan: Plan, gpus: int, allowed: dict[str, tuple[Value, ...]]) -> tuple[Columns, dict[str, int]]:
    """Return the table of degrees: each join adds a column, and drops the rows that break a rule."""
    fixed = plan.grid.fixed
    layers, heads, batch = (int(fixed[name]) for name in ("layers", "heads", "global_batch"))
    layers += int(fixed.get("encoder_layers", 0))
    experts, seq_len = int(fixed.get("experts", 0) or 0), int(fixed["seq_len"])
    table: Columns = {"tp": np.ones(1, np.int64)}
    dropped: dict[str, int] = {}
    one = np.ones(1, np.int64)

    def values(name: str, natural: NDArray[np.int64]) -> NDArray[np.int64]:
        pinned = allowed[name]
        return np.asarray(sorted(int(value) for value in pinned), np.int64) if pinned else natural

    def keep(mask: NDArray[np.bool_], reason: str) -> None:
        lost = int((~mask).sum())
        if lost:
            dropped[reason] = dropped.get(reason, 0) + lost
        for name in table:
            table[name] = table[name][mask]

    def join(name: str, found: NDArray[np.int64]) -> None:
        rows = len(table["tp"])
        if rows * len(found) > MAX_ROWS:
            raise ConfigError(f"more than {MAX_ROWS:,} rows of degrees: pin some of {', '.join(TABLE)}")
        for other in table:
            table[other] = np.repeat(table[other], len(found))
        table[name] = np.tile(found, rows)

    join("tp", values("tp", divisors(gpus)))
    keep(heads % table["tp"] == 0, "tp does not divide heads")
    join("cp", values("cp", divisors(gpus)))
    keep(seq_len % table["cp"] == 0, "cp does not divide seq_len")
    keep(gpus % (table["tp"] * table["cp"]) == 0, "tp x cp does not divide gpus")
    join("pp", values("pp", divisors(gpus)))
    keep(table["pp"] <= layers, "pp exceeds the layers")
    keep(gpus % (table["tp"] * table["cp"] * table["pp"]) == 0, "tp x cp x pp does not divide gpus")
    replicas = gpus // (table["tp"] * table["cp"] * table["pp"])
    keep(batch % replicas == 0, "dp does not divide global_batch")
    join("micro_batch", values("micro_batch", divisors(batch)))
    replicas = gpus // (table["tp"] * table["cp"] * table["pp"])
    keep(batch % (replicas * table["micro_batch"]) == 0, "dp x micro_batch does not divide global_batch")
    join("vpp", values("vpp", divisors(layers)))
    keep((table["vpp"] == 1) | (table["pp"] > 1), "vpp above 1 needs pp above 1")
    keep(table["pp"] * table["vpp"] <= layers, "pp x vpp exceeds the layers")
    steps = batch // (gpus // (table["tp"] * table["cp"] * table["pp"]) * table["micro_batch"])
    rounds = (table["vpp"] == 1) | (steps % table["pp"] == 0)
    keep(rounds, "interleaving needs a multiple of pp micro-batches a replica")
    join("ep", values("ep", divisors(experts) if experts else one))
    keep(gpus // table["pp"] % table["ep"] == 0, "ep does not divide dp x cp x tp")
    join("etp", values("etp", divisors(int(table["tp"].max(initial=1))) if experts else np.zeros(1, np.int64)))
    if experts:
        keep(table["tp"] % table["etp"] == 0, "etp does not divide tp")
        keep(gpus // table["pp"] % (table["ep"] * table["etp"]) == 0, "ep x etp does not divide dp x cp x tp")
    else:
        del table["etp"]
    return table, dropped


def divisors(number: int) -> NDArray[np.int64]:
    """Return the divisors of a number in their order.

    >>> divisors(12).tolist()
    [1, 2, 3, 4, 6, 12]
    """
    low = [n for n in range(1, int(number**0.5) + 1) if number % n == 0]
    return np.asarray(sorted({*low, *(number // n for n in low)}), np.int64)


def _rows(table: Columns, gpus: int, placements: tuple[str, ...]) -> Axis:
    """Return every row of a table with every placement, but for those that a placement before it lays out alike."""
    tp, cp, pp = (table[name] for name in ("tp", "cp", "pp"))
    sizes = {"tp": tp, "cp": cp, "dp": gpus // (tp * cp * pp), "pp": pp}
    many = sum(((sizes[name] > 1) << place for place, name in enumerate(GROUPS)), np.zeros(tp.size, np.intp))
    kept = [np.flatnonzero(first[many]).astype(np.int32) for first in first_names(placements)]
    if sum(rows.size for rows in kept) > MAX_PLACED:
        raise ConfigError(f"more than {MAX_PLACED:,} rows of degrees and placements: pin some of them")
    rows = np.concatenate(kept)
    columns = {name: Column(to_float(column), rows) for name, column in table.items()}
    codes = np.repeat(np.arange(len(kept), dtype=np.int8), [part.size for part in kept])
    return Axis({**columns, "placement": Column(to_float(np.arange(len(kept))), codes, placements)})


def _picked(plan: Plan, rows: NDArray[np.intp]) -> Plan:
    """Return the plan with some rows alone, in this order."""
    *choices, last = plan.grid.axes
    columns: Any = last.values
    axis = Axis({name: column.part(rows) for name, column in columns.items()})
    return replace(plan, grid=replace(plan.grid, axes=(*choices, axis)))


def _lawful(plan: Plan, dropped: dict[str, int]) -> tuple[Plan, bool]:
    """Return the plan without the rows that break a rule whatever the choices; they are counted in ``dropped``.

    Also return whether there are rules that only some choices break.
    """
    *choices, last = plan.grid.axes
    kept, ruled = np.ones(len(last), bool), False
    for begin in range(0, kept.size, RULED_ROWS):
        part = slice(begin, begin + RULED_ROWS)
        scenario, broken = plan.grid.scenario((*(slice(0, len(axis)) for axis in choices), part), share=False)
        with np.errstate(invalid="ignore", divide="ignore"):
            step = cast(Step, plan.model.evaluate(replace(scenario, violations=broken)))
            rules = [rule for rule in step.shape_violations if rule.wrong]
        for rule in rules:
            if prod(rule.broken.shape[:-1]) > 1:
                ruled = True
                continue
            here = np.broadcast_to(rule.broken.reshape(-1), kept[part].shape)
            if here.any():
                kept[part] &= ~here
                dropped[rule.reason] = dropped.get(rule.reason, 0) + int(here.sum())
    return (plan if kept.all() else _picked(plan, np.flatnonzero(kept))), ruled


def _parted(plan: Plan) -> tuple[Plan, tuple[tuple[int, tuple[slice, ...]], ...]]:
    """Return the plan with rows in the order of what choices have an effect on them, and where each such part begins.

    A choice without an effect would only name a layout again: of its values the first is enough.
    """
    *choices, last = plan.grid.axes
    if not len(last):
        return plan, ()
    here = (*(slice(0, 1) for _ in choices), slice(0, len(last)))
    layout = cast(Step, plan.model.evaluate(plan.grid.scenario(here, share=False)[0])).layout
    idle = _idle(layout)
    code = np.zeros(len(last), np.intp)
    for place, axis in enumerate(choices):
        for name in idle.keys() & axis.values.keys():
            code += np.broadcast_to(idle[name].reshape(-1), code.shape).astype(np.intp) << place
    order = np.argsort(code, kind="stable")
    codes, begins = np.unique(code[order], return_index=True)
    parts = []
    for each, begin in zip(codes.tolist(), begins.tolist(), strict=True):
        used = (slice(0, 1 if each >> place & 1 else len(axis)) for place, axis in enumerate(choices))
        parts.append((begin, tuple(used)))
    return _picked(plan, order), tuple(parts)


def _idle(layout: Layout) -> dict[str, NDArray[np.bool_]]:
    """Return where each choice has no effect, by what it is about."""
    tp, cp, pp, ep = (to_float(size) == 1 for size in (layout.tp, layout.cp, layout.pp, layout.ep))
    alone = layout.replicas == 1  # experts may have replicas all the same, which ZeRO does not shard
    return {"sp": tp, "overlap_tp": tp, "cp_comm": cp, "overlap_pp": pp, "schedule": pp, "zero": alone,
            "overlap_dp": alone & (layout.expert_replicas <= 1), "overlap_ep": ep}  # fmt: skip


@cache
def first_names(placements: tuple[str, ...]) -> NDArray[np.bool_]:
    """Return for each placement, and each set of groups with several devices, whether it is the first of that order.

    Groups of one device may stand anywhere: placements that differ only there are one.

    >>> first_names(("tp-cp-dp-pp", "cp-tp-dp-pp"))[1, [0b0001, 0b0011]]  # TP alone; TP and CP
    array([False,  True])
    """
    table = np.zeros((len(placements), 2 ** len(GROUPS)), bool)
    for many in range(2 ** len(GROUPS)):
        seen: set[tuple[str, ...]] = set()
        for number, placement in enumerate(placements):
            order = tuple(name for name in placement.split("-") if many >> GROUPS.index(name) & 1)
            table[number, many] = order not in seen
            seen.add(order)
    return table
