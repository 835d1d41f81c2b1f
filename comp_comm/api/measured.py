"""The verbs about measurements: runs predicted and compared, a profile's timing fitted to logs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from os import PathLike, fspath

from comp_comm.api.answers import PointAnswer, Table
from comp_comm.api.calibrated import CalibratedProfile
from comp_comm.calibration.readers import read_logs
from comp_comm.calibration.run import calibrate_logs
from comp_comm.report.answer import basic_meta
from comp_comm.validation.run import validate as _validate

VALIDATED_COLUMNS = ("run_id", "gpu", "group", "arch", "measured_step_s", "predicted_step_s", "error")


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

    def words(given: str | Sequence[str]) -> Sequence[str]:
        return [given] if isinstance(given, str) else given

    result = _validate(fspath(runs) if runs is not None else None, words(gpu), words(group), fspath(hardware))
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
    paths = [fspath(log) for log in ([logs] if isinstance(logs, (str, PathLike)) else logs)]
    read = read_logs(paths)
    result = calibrate_logs(read, fspath(extends), precision, train, seed, tuple(operators), attention_kernel)
    result = replace(result, notes=[*(note for log in read for note in log.notes), *result.notes])
    return CalibratedProfile(result, fspath(extends), paths)
