"""The verbs of the command line about studies, as functions: each takes one as `comp_comm.api.studies` does."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from typing import Any

from comp_comm.api.answers import PointAnswer, SweepTable, Table
from comp_comm.api.studies import StudyLike, as_overrides, load_study
from comp_comm.searches.result import search as _search
from comp_comm.sweeps import case_study as _case_study
from comp_comm.sweeps import point
from comp_comm.sweeps import volume as _volume
from comp_comm.sweeps.plan import FEASIBLE, REASON, make_plan
from comp_comm.sweeps.prices import NO_PRICES, Prices
from comp_comm.sweeps.result import swept
from comp_comm.sweeps.solve import ask
from comp_comm.sweeps.solve import solve as _solve
from comp_comm.units import GIB

OPERATION_COLUMNS = ("operation", "part", "phase", "group", "calls", "formula", "seconds", "share")
LAYOUT_COLUMNS = ("strategy", "tp", "tp1", "tp2", "cp", "pp", "vpp", "ep", "dp", "zero", "micro_batch", "recompute")
MEMORY_COLUMNS = ("part", "bytes", "share")


def sweep(
    study: StudyLike = "", overrides: Sequence[str] = (), columns: Sequence[str] = (), top: int | None = None,
    by: str | None = None, ascending: bool = False, executor: Executor | None = None, **fields: Any,
) -> Table:  # fmt: skip
    """Evaluate every point of a study.

    Parameters
    ----------
    study, overrides, **fields :
        What to evaluate (see `load_study`).
    columns : sequence of str
        Columns wanted; all if none is named.
    top, by, ascending :
        Only the ``top`` rows with the largest (or smallest) ``by``.
    executor : concurrent.futures.Executor, optional
        Whose workers share the work; the answer is the same.

    Returns
    -------
    Table
        A row a point, in SI units; an infeasible one has no numbers, and a ``reason``.

    Raises
    ------
    ConfigError
        Everything wrong with the study, at once.
    InfeasibleError
        If no row is feasible.

    Examples
    --------
    >>> point = {"cost_model": "comp_vs_comm", "set": {"seq_len": "4K", "micro_batch": 1, "tp": 256}}
    >>> sweep(point, hidden=["16K", "64K"])["serialized_comm_fraction"].round(3).tolist()
    [0.78, 0.478]
    """
    plan = make_plan(load_study(study, overrides, **fields))
    result = swept(plan, columns, top, by, ascending, executor)
    shown = (*plan.grid.moving, *(name for name in result.columns if name not in plan.inputs))
    reasons = any(result.columns.get(REASON, ()))
    hidden = () if reasons else (FEASIBLE, REASON)
    return SweepTable(result, columns or [name for name in shown if name not in hidden])


def explain(
    study: StudyLike = "", overrides: Sequence[str] = (), prices: Prices = NO_PRICES, **fields: Any
) -> PointAnswer:
    """Explain one training step, operation by operation: seconds, FLOP, memory, communication, what binds.

    Parameters
    ----------
    study, overrides, **fields :
        The point (see `load_study`).
    prices : Prices
        What a device costs and draws, for what the step and the run cost.

    Returns
    -------
    PointAnswer
        Plain numbers in SI units by name (``step_s``, ``memory``, ``comm``, ...); `to_records` gives the operations.

    Raises
    ------
    ConfigError
        Everything wrong with the study, at once; and where it has axes.

    Examples
    --------
    >>> step = explain("llama-step", tp=4)
    >>> step["gpus"], step["comm"]["tp"]["calls"]
    (512, 6593.0)
    """
    record = point.explain(load_study(study, overrides, **fields), prices)
    step = f"{record['step_s']:.4g} s a step"
    rates = f"MFU {100 * record['mfu']:.1f} %, {record['memory']['total_bytes'] / GIB:.1f} GiB a device"
    reason = "" if record["feasible"] else f"infeasible: {record['reason']}"
    table = Table(record["operations"], record["meta"], OPERATION_COLUMNS)
    return PointAnswer(record, "operations", table, [f"{step}; {rates}", *([reason] if reason else [])])


def memory(study: StudyLike = "", overrides: Sequence[str] = (), **fields: Any) -> PointAnswer:
    """Return what a device of the fullest stage has to hold, part by part.

    >>> held = memory("llama-step")
    >>> held["feasible"], held.to_records()[0]["part"]
    (True, 'weights')
    """
    record = point.memory(load_study(study, overrides, **fields))
    ends = ("total_bytes", "capacity_bytes")
    total = record["total_bytes"]
    parts = [{"part": name.removesuffix("_bytes"), "bytes": size, "share": size / total}
             for name, size in record.items() if name.endswith("_bytes") and name not in ends]  # fmt: skip
    line = f"{total / GIB:.1f} GiB of {record['capacity_bytes'] / GIB:.1f} GiB"
    return PointAnswer(record, "parts", Table(parts, record["meta"], MEMORY_COLUMNS), [line])


def compare(first: StudyLike, second: StudyLike | None = None, **fields: Any) -> Table:
    """Return two steps side by side, term by term; without ``second``, the first and the same with ``fields``.

    >>> rows = compare("llama-step", tp=4).to_records()
    >>> [(row["a"], row["b"]) for row in rows if row["term"] == "comm.tp.calls"]
    [(13185.0, 6593.0)]
    """
    a = load_study(first)
    b = load_study(first if second is None else second, (), **fields)
    return Table(
        [dict(row) for row in point.compare(a, b)], {"title": f"{a.title} and {b.title}", "command": "compare"}
    )


def search(
    study: StudyLike, gpus: int, objective: str = "step", top: int = 10, prices: Prices = NO_PRICES,
    executor: Executor | None = None, overrides: Sequence[str] = (), headroom: float | None = None,
    per: Sequence[str] = (), **fields: Any,
) -> PointAnswer:  # fmt: skip
    """Find the best layouts of a model on so many devices, of all there are.

    Returns
    -------
    PointAnswer
        As ``compcomm search --format json`` has it; `to_records` gives the layouts, best first.

    Raises
    ------
    ConfigError
        Everything wrong with the study.
    InfeasibleError
        Where nothing fits, with the nearest miss.

    Examples
    --------
    >>> best = search({"hardware": "h100-sxm", "model": "llama-3-8b"}, gpus=8, global_batch=64).to_records()[0]
    >>> best["tp"] * best["pp"] * best["dp"]
    8
    """
    answer = _search(
        load_study(study, overrides, **fields), gpus, objective, top, prices, None, executor, headroom, per
    )
    about = answer["meta"]
    line = f"{about['feasible']:,} of {about['candidates']:,} layouts on {gpus:,} devices fit"
    told = [name for name in LAYOUT_COLUMNS if any(row.get(name, 1) not in (1, "none") for row in answer["rows"])]
    shown = [*told[:6], "step_s", "mfu", "memory_gib"]
    return PointAnswer(answer, "rows", Table(answer["rows"], about, shown), [line])


def solve(
    study: StudyLike, column: str, target: float, field: str, between: tuple[float, float] | None = None,
    overrides: Sequence[str] = (), **fields: Any,
) -> Table:  # fmt: skip
    """Find the value of a field at which a column meets a target, for each point of a study's axes.

    >>> point = {"cost_model": "comp_vs_comm", "set": {"hidden": "64K", "seq_len": "4K", "micro_batch": 1, "tp": 256}}
    >>> solve(point, "serialized_comm_fraction", 0.2, "network")["value"].round(3).tolist()
    [3.659]
    """
    return Table(*_solve(load_study(study, overrides, **fields), ask(column, target, field, between)))


def volume(study: StudyLike = "", overrides: Sequence[str] = (), **fields: Any) -> Table:
    """Return what a device sends in a step: a row for each collective, or with axes one for each point and group.

    >>> sorted(set(volume("llama-step")["group"]))
    ['dp', 'pp', 'tp', 'world']
    """
    chosen = load_study(study, overrides, **fields)
    if chosen.axes or chosen.hardware_axis:
        return Table(*_volume.volume_over(chosen))
    moved = _volume.volume(chosen)
    return Table(moved["messages"], moved["meta"])


def case_study(
    overrides: Sequence[str] = (), inter_node_slowdown: float = _case_study.SLOWDOWN,
    interference: float = _case_study.INTERFERENCE, **fields: Any,
) -> Table:  # fmt: skip
    """Return the three scenarios of the comp-vs-comm paper's case study (Fig. 12).

    >>> case_study()["visible_comm_fraction"].round(3).tolist()
    [0.478, 0.618, 0.655]
    """
    return Table(*_case_study.case_study(as_overrides(overrides, fields), inter_node_slowdown, interference))
