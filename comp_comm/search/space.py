"""The layouts there are: a table of coupled degrees, joined divisor by divisor, beside the choices that go with any.

Degrees and batches are tied by the number of devices, the layers, the heads and the batch: they are rows of one table.
Choices (ZeRO, recompute, ...) are axes of their own before it. A choice without an effect (sequence parallelism without
TP, say) would only name a layout twice: such points are no layouts, and are not counted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from math import prod

import numpy as np
from numpy.typing import NDArray

from comp_comm.configs.axes import Axis, Column
from comp_comm.configs.study import Study
from comp_comm.errors import ConfigError
from comp_comm.field import Value
from comp_comm.formulas.arrays import Index, to_float
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
MAX_ROWS = 20_000_000
MAX_PLACED = 100_000_000
Columns = dict[str, NDArray[np.int64]]


@dataclass(frozen=True)
class Space:
    """What is searched: a plan over choices and a table of degrees and placements; and why rows fell out.

    ``table`` are the degrees alone: its rows are joined with each of the ``placements``, but for those that one before
    it lays out alike. ``dropped`` counts rows of the table by the rule that removed them while it was joined.
    """

    study: Study
    gpus: int
    plan: Plan
    table: Columns
    placements: tuple[str, ...]
    choices: dict[str, tuple[Value, ...]]
    dropped: dict[str, int]

    @property
    def rows(self) -> int:
        """Rows of degrees and placements."""
        return len(self.plan.grid.axes[-1])

    @property
    def each(self) -> int:
        """Points of a row: one for every combination of choices."""
        return prod(len(axis) for axis in self.plan.grid.axes[:-1])

    @property
    def points(self) -> int:
        """Points that are looked at: every choice with every row."""
        return self.each * self.rows


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
    axes = [Axis({name: values}) for name, values in choices.items() if len(values) > 1]
    fixed |= {name: values[0] for name, values in choices.items() if len(values) == 1}
    placements = tuple(dict.fromkeys(map(str, allowed["placement"] or PLACEMENTS)))
    axes.append(_rows(table, gpus, placements))
    plan = replace(plan, grid=replace(plan.grid, fixed=fixed, axes=tuple(axes)))
    return Space(study, gpus, plan, table, placements, choices, dropped)


def _plan(study: Study) -> Plan:
    """Return the plan of one simple layout of the study: what is wrong with the model or the hardware is said here."""
    alone = {"gpus": 1, "tp": 1, "cp": 1, "pp": 1, "vpp": 1, "ep": 1, "micro_batch": 1, "dp": 1}
    fixed = {name: value for name, value in study.fixed.items() if name not in (*TABLE, "gpus")}
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


def named_twice(plan: Plan, index: Index) -> NDArray[np.bool_]:
    """Return where a point only names a layout again, with another value of a choice that has no effect."""
    tp, cp, pp, ep, gpus = (np.asarray(plan.grid.values(name, index)) for name in ("tp", "cp", "pp", "ep", "gpus"))
    dp = gpus / (tp * cp * pp)
    idle = {
        "sp": tp == 1, "overlap_tp": tp == 1, "cp_comm": cp == 1, "overlap_pp": pp == 1, "schedule": pp == 1,
        "zero": dp * cp == 1, "overlap_dp": dp * cp == 1, "overlap_ep": ep == 1,
    }  # fmt: skip
    found = np.asarray(False)
    for axis_number, axis in enumerate(plan.grid.axes[:-1]):
        for name in idle.keys() & axis.values.keys():
            place = np.arange(len(axis)).reshape([-1 if i == axis_number else 1 for i in range(len(plan.grid.axes))])
            found = found | (idle[name] & (place > 0))
    return found


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
