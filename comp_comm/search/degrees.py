"""The degrees of a layout, tied by devices, layers, heads and batch: rows of one table, joined divisor by divisor."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from comp_comm.errors import ConfigError
from comp_comm.field import Value
from comp_comm.sweep.plan import Plan

TABLE = ("tp", "cp", "pp", "vpp", "ep", "etp", "micro_batch")
MAX_ROWS = 20_000_000
Columns = dict[str, NDArray[np.int64]]


def join_degrees(plan: Plan, gpus: int, allowed: dict[str, tuple[Value, ...]]) -> tuple[Columns, dict[str, int]]:
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
