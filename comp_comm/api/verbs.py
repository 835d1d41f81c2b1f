"""The verbs of the command line as functions. Each takes a study as a path, a name of the catalogue, or a mapping.

Fields may be given by name as well, as ``--set`` does: ``explain("llama-step", tp=4)``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from os import PathLike, fspath
from typing import Any, TypeAlias

from comp_comm.api.answers import PointAnswer, SweepTable, Table
from comp_comm.api.calibrated import CalibratedProfile
from comp_comm.calibration.run import calibrate_logs
from comp_comm.configs import hardware_file
from comp_comm.configs.study import Study, read_study, study_from
from comp_comm.configs.study import load_study as _load_study
from comp_comm.hardware.profile import Profile
from comp_comm.report.answer import basic_meta
from comp_comm.searches.result import search as _search
from comp_comm.sweeps import case_study as _case_study
from comp_comm.sweeps import point
from comp_comm.sweeps import volume as _volume
from comp_comm.sweeps.plan import FEASIBLE, REASON, make_plan
from comp_comm.sweeps.prices import FREE, Prices
from comp_comm.sweeps.result import swept
from comp_comm.sweeps.solve import ask
from comp_comm.sweeps.solve import solve as _solve
from comp_comm.units import GIB

StudyLike: TypeAlias = "str | PathLike[str] | Mapping[str, Any] | Study"
OPERATION_COLUMNS = ("operation", "part", "phase", "group", "calls", "formula", "seconds", "share")
LAYOUT_COLUMNS = ("strategy", "tp", "tp1", "tp2", "cp", "pp", "vpp", "ep", "dp", "zero", "micro_batch", "recompute")
VALIDATED_COLUMNS = ("run_id", "gpu", "group", "arch", "measured_step_s", "predicted_step_s", "error")
MEMORY_COLUMNS = ("part", "bytes", "share")


def load_study(study: StudyLike = "", overrides: Sequence[str] = (), **fields: Any) -> Study:
    """Return a study, read and checked as far as it can be without evaluating it.

    Parameters
    ----------
    study : str, path, mapping or Study
        A path, a name of the catalogue, what a study file has as a mapping, or one already read; nothing for a study of
        ``fields`` alone.
    overrides : sequence of str
        ``"key=value"``, as ``--set`` takes them.
    **fields :
        Fields by name, which replace what the study says of them; a list makes an axis. ``batch_tokens`` is a batch in
        tokens in the place of ``global_batch``.

    Raises
    ------
    ConfigError
        For a study that is not there, and a key that is unknown or given twice.

    Examples
    --------
    >>> load_study("llama-step", tp=4).fixed["tp"]
    4
    """
    given = _given(overrides, fields)
    if isinstance(study, Study):
        return read_study(study.document, given) if given else study
    if isinstance(study, Mapping):
        return study_from(dict(study), "study", given)
    name = fspath(study)
    return _load_study(name, given) if name else study_from({}, "study", given)


def _given(overrides: Sequence[str], fields: Mapping[str, Any]) -> tuple[str, ...]:
    """Return overrides, and fields that were given by name, as ``--set`` takes them."""
    return (*overrides, *(f"{name}={_text(value)}" for name, value in fields.items()))


def _text(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_text, value))}]"
    return fspath(value) if isinstance(value, PathLike) else str(value)


def load_profile(profile: str | PathLike[str] | Profile) -> Profile:
    """Return a hardware profile: a name of the catalogue, a path, or one already read. Raises ``ConfigError``.

    >>> load_profile("h100-sxm").value("memory.bandwidth")
    3350000000000.0
    """
    return profile if isinstance(profile, Profile) else hardware_file.load_profile(fspath(profile))


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


def explain(study: StudyLike = "", overrides: Sequence[str] = (), prices: Prices = FREE, **fields: Any) -> PointAnswer:
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
    study: StudyLike, gpus: int, objective: str = "step", top: int = 10, prices: Prices = FREE,
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
    return Table(*_case_study.case_study(_given(overrides, fields), inter_node_slowdown, interference))


def validate(
    runs: str | PathLike[str] | None = None, gpu: str | Sequence[str] = (), group: str | Sequence[str] = (),
    hardware: str | PathLike[str] = "",
) -> PointAnswer:  # fmt: skip
    """Predict measured training runs, the published ones if no table is named, and compare.

    Parameters
    ----------
    runs : path, optional
        A CSV file with the columns of ``compcomm validate --runs``.
    gpu, group : str or sequence of str
        Only runs with one of these words in the name of their device or group.
    hardware : str or path
        A profile to predict all of them on.

    Returns
    -------
    PointAnswer
        ``rows`` (a run each: ``measured_step_s``, ``predicted_step_s``, and ``error``, predicted / measured - 1),
        ``summary`` (errors by what runs have in common), ``memory`` and ``worst``; `to_records` gives the rows.

    Raises
    ------
    ConfigError
        For a table that is none, with every problem's line and column.

    Examples
    --------
    >>> answer = validate(group="sc21")
    >>> answer["summary"][0]["n"], answer["summary"][0]["median_abs_error"] < 0.05
    (10, True)
    """
    from comp_comm.validation.run import validate as compared

    def words(given: str | Sequence[str]) -> Sequence[str]:
        return [given] if isinstance(given, str) else given

    result = compared(fspath(runs) if runs is not None else None, words(gpu), words(group), fspath(hardware))
    count, compared_with = len(result.predictions), len(result.counted)
    about = basic_meta("validate", runs=count, counted=compared_with, notes=result.notes())
    lists = {"summary": result.summary, "memory": result.memory, "worst": result.worst()}
    table = Table(result.rows, about, VALIDATED_COLUMNS)
    record = {"meta": about, "rows": result.rows, **lists}
    return PointAnswer(record, "rows", table, [f"{compared_with} of {count} runs compared"])


def calibrate(
    logs: str | PathLike[str] | Sequence[str | PathLike[str]], extends: str | PathLike[str],
    precision: str | None = None, train: float | None = None, seed: int = 0, operators: Sequence[str] = (),
    attention_kernel: str | None = None,
) -> CalibratedProfile:  # fmt: skip
    """Fit a profile's timing to measured kernels and collectives.

    Parameters
    ----------
    logs : path or sequence of paths
        nccl-tests and rccl-tests output, tables of kernels, PyTorch profiler traces, DeepSpeed summaries.
    extends : str or path
        The profile to start from.
    precision, train, seed, operators, attention_kernel :
        As ``compcomm calibrate`` takes them.

    Returns
    -------
    CalibratedProfile
        Errors on rows that were not fitted, as a table; the profile itself; and `save`.

    Raises
    ------
    ConfigError
        Where a log is not understood, or says not enough to fit anything.
    """
    from comp_comm.calibration.readers import read_log

    paths = [fspath(log) for log in ([logs] if isinstance(logs, (str, PathLike)) else logs)]
    read = [read_log(path) for path in paths]
    result = calibrate_logs(read, fspath(extends), precision, train, seed, tuple(operators), attention_kernel)
    result = replace(result, notes=[*(note for log in read for note in log.notes), *result.notes])
    return CalibratedProfile(result, fspath(extends), paths)
