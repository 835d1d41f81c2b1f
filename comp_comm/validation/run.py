"""A validation: every run of a table predicted, its errors, and what there is to say about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from comp_comm.configs.hardware_file import load_profile
from comp_comm.errors import ConfigError, nearest, one_of
from comp_comm.lazy import cached_property
from comp_comm.records import Record, Records
from comp_comm.units import GIB
from comp_comm.validation.peaks import kind_of_peak
from comp_comm.validation.predict import Prediction, predict
from comp_comm.validation.readings import Silent
from comp_comm.validation.summary import arch_of, error_record, is_complete, summary
from comp_comm.validation.table import MeasuredRun, is_shipped, read_runs
from comp_comm.validation.words import check_words, doubtful_names

WORST = 12
NAMED = 5  # runs without a prediction, whose reasons are said one by one
SHARES = 3  # of the step that are named for a row


@dataclass
class Validation:
    """Predictions of runs, in their order."""

    predictions: list[Prediction]
    silent: Silent = field(default_factory=Silent)
    filtered: dict[str, str] = field(default_factory=dict)  # runs that were not asked for, and what leaves each out
    doubtful: list[str] = field(default_factory=list)  # names of models that may be slips

    @cached_property
    def counted(self) -> list[Prediction]:
        """Predictions that the errors are of."""
        return [one for one in self.predictions if one.counted]

    @cached_property
    def rows(self) -> Records:
        """Return a record a run, those that could not be predicted with the reason."""
        return [row_of(one) for one in self.predictions]

    @cached_property
    def summary(self) -> Records:
        """Return the errors by what runs have in common."""
        return summary(self.predictions)

    @cached_property
    def memory(self) -> Records:
        """Return errors of peak memory where it was measured: all, dense and mixtures apart, by what was read."""
        result: dict[str, list[float]] = {}
        for one in self.counted:
            error = memory_error(one)
            if error is not None:
                for name in ("all", arch_of(one), kind_of_peak(one.run) or "not stated which"):
                    result.setdefault(name, []).append(error)
        return [error_record("memory", name, errors) for name, errors in result.items()]

    @cached_property
    def infeasible(self) -> list[Prediction]:
        """Return the runs that ran, and whose memory is more than the device has."""
        return [one for one in self.predictions if one.fits is False]

    def worst(self, most: int = WORST) -> Records:
        """Return the rows with the largest errors, with where the time went."""
        ordered = sorted(self.counted, key=lambda one: -abs(one.error or 0.0))
        return [worst_row(one) for one in ordered[:most]]

    def notes(self) -> list[str]:
        """Return what to say of rows without a prediction, and of columns without a field."""
        left = [one for one in self.predictions if one.error is None]
        excluded = [one for one in self.predictions if one.run["excluded"]]
        said = []
        if left:
            what = f"{len(left)} of {len(self.predictions)} runs could not be predicted"
            if len(left) > NAMED:
                what += f" (reasons: --format json; the first: {left[0].problem})"
            said += [what] if len(left) > NAMED else [f"{what}: {one.problem}" for one in left]
        if excluded:
            said.append(f"{len(excluded)} runs are left out of the errors, as their source is wrong or says too little")
        assumed = sum(bool(one.point and one.point.assumed) for one in self.counted)
        if assumed:
            said.append(f"of {assumed} runs something was not stated, and the default was taken (column 'assumed')")
        return [*self.doubtful, *said, *self.silent.notes()]

    def largest(self) -> float:
        """Return the median size of the errors, which ``--max-error`` is about."""
        return float(self.summary[0]["median_abs_error"])

    def one(self, run_id: str) -> Prediction:
        """Return a run's prediction. Raises ``ConfigError`` for an unknown run."""
        known = {one.run.run_id: one for one in self.predictions}
        if run_id in self.filtered:
            raise ConfigError(f"the run '{run_id}' is left out by {self.filtered[run_id]}")
        if run_id not in known:
            raise ConfigError(f"there is no run '{run_id}'{nearest(run_id, known)} ({one_of(list(known), 8)})")
        return known[run_id]


def validate(
    path: str | Path | None = None, gpus: Sequence[str] = (), groups: Sequence[str] = (), hardware: str = ""
) -> Validation:
    """Predict the runs of a table, the published ones if none is named, and compare.

    ``hardware`` is a profile to predict all of them on: a machine's own, whose runs these are.

    Raises ``ConfigError`` for a table or a profile that is none, and where no run has the device or the group asked
    for.
    """
    runs = read_runs(path)
    doubtful: list[str] = []
    if not is_shipped(path):
        check_words(runs)
        doubtful = doubtful_names(runs)
    filtered: dict[str, str] = {}
    for column, asked in (("gpu", gpus), ("group", groups)):
        chosen = _chosen(runs, column, asked)
        kept, flags = {run.run_id for run in chosen}, " ".join(f"--{column} {word}" for word in asked)
        filtered |= {run.run_id: f"{flags}: its {run.name(column)} is '{run[column]}'" for run in runs
                     if run.run_id not in kept}  # fmt: skip
        runs = chosen
    if hardware:
        load_profile(hardware)
    silent = Silent()
    return Validation(predict(runs, silent, hardware), silent, filtered, doubtful)


def _chosen(runs: list[MeasuredRun], column: str, asked: Sequence[str]) -> list[MeasuredRun]:
    if not asked:
        return runs
    known = sorted({run[column] for run in runs if run[column]})
    chosen = [run for run in runs if any(word.lower() in run[column].lower() for word in asked)]
    for word in asked:
        if not any(word.lower() in name.lower() for name in known):
            raise ConfigError(f"--{column} {word}: no run has it{nearest(word, known)} ({one_of(known)})")
    return chosen


def row_of(one: Prediction) -> Record:
    """Return the record of a run."""
    run, error = one.run, one.error
    return {
        "run_id": run.run_id, "gpu": run["gpu"], "group": run["group"], "arch": arch_of(one),
        "measured_step_s": one.measured_s, "predicted_step_s": one.predicted_s,
        "error": error, "counted": one.counted, "reason": one.reason or None,
        "model": run["model_name"], "gpus": int(float(run["n_gpus"])) if run["n_gpus"] else None,
        "release": run["release"] or None, "complete": is_complete(one),
        "assumed": " ".join(one.point.assumed) if one.point else "",
        "measured_memory_gib": run.number("peak_mem_GiB"),
        "memory_kind": kind_of_peak(one.run) or None if run["peak_mem_GiB"] else None,
        "predicted_memory_gib": None if one.memory_bytes is None else one.memory_bytes / GIB,
        "fits": one.fits,
    }  # fmt: skip


def memory_error(one: Prediction) -> float | None:
    """Return predicted over measured peak memory, less 1; None where it was not measured."""
    measured = one.run.number("peak_mem_GiB")
    return None if measured is None or one.memory_bytes is None else one.memory_bytes / GIB / measured - 1


def worst_row(one: Prediction) -> Record:
    """Return a run with its error and the largest parts of its predicted step."""
    step = one.predicted_s or 1.0
    parts = sorted(one.terms.items(), key=lambda item: -item[1])[:SHARES]
    went = ", ".join(f"{name.removesuffix('_s').replace('_', ' ')} {100 * seconds / step:.0f} %"
                     for name, seconds in parts if seconds > 0.005 * step)  # fmt: skip
    run = one.run
    return {
        "run_id": run.run_id, "group": run["group"], "model": run["model_name"], "gpu": run["gpu"],
        "gpus": run["n_gpus"], "layout": layout_words(run), "measured_s": one.measured_s,
        "predicted_s": one.predicted_s, "error": one.error, "of the predicted step": went,
    }  # fmt: skip


def layout_words(run: MeasuredRun) -> str:
    """Return a run's layout in a few words: degrees above one, batches, sequence."""
    degrees = [f"{name}{run[name]}" for name in ("tp", "cp", "pp", "vpp", "ep") if run[name] not in ("", "1")]
    batches = (f"mb{run['micro_batch'] or '?'}", f"gb{run['global_batch'] or '?'}", f"s{run['seq_len']}")
    return " ".join([*degrees, *batches])
