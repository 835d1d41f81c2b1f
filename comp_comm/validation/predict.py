"""Every run predicted: runs that give the same fields are one table with their machines, the axis of one plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import cast

import numpy as np

from comp_comm.configs.axes import Axis
from comp_comm.configs.study import Study, study_from
from comp_comm.costmodels import default_model
from comp_comm.costmodels.complete.step import Step
from comp_comm.costmodels.records import GROUP_TITLES
from comp_comm.errors import CompcommError, ConfigError, Problem
from comp_comm.fields import FIELDS, Value
from comp_comm.formulas.arrays import Array, to_float, unwarned
from comp_comm.records import Record
from comp_comm.sweeps.grid import HARDWARE
from comp_comm.sweeps.plan import Plan, make_plan
from comp_comm.units import GIB, MIB
from comp_comm.validation.machines import RunMachine, machine_of
from comp_comm.validation.measured import step_seconds
from comp_comm.validation.model import transformer_fields
from comp_comm.validation.peaks import COLUMNS, kind_of_peak
from comp_comm.validation.readings import Silent, read_software
from comp_comm.validation.settled import settle
from comp_comm.validation.table import MEASURED, NEEDED, MeasuredRun, field_value
from comp_comm.violation import NO_ROOM

DIRECT = {"n_gpus": "gpus"} | {name: name for name in ("tp", "cp", "pp", "vpp", "ep", "micro_batch", "global_batch")}
# Parts of a step that add up to it, by column of the cost model.
TERMS = ("compute_s", "recompute_s", "optimizer_s", "host_s", "bubble_s")
TableRow = tuple[RunMachine, tuple[Value, ...]]
NO_RANK = "LoRA: the table has no rank of adapters"


@dataclass(frozen=True)
class Point:
    """A run as a study has it: its machine, the fields that are set, and those columns that were assumed."""

    run: MeasuredRun
    machine: RunMachine
    fields: dict[str, Value]
    assumed: tuple[str, ...] = ()

    def on(self, reference: str) -> Point:
        """Return the point on another machine: a profile, as it is."""
        fields = {name: value for name, value in self.fields.items() if name not in self.machine.fields}
        return replace(self, machine=RunMachine(reference), fields=fields)

    def study(self) -> Study:
        """Return the study of this run alone."""
        return _study(self.machine, {"set": dict(self.fields)}, self.run.run_id)


@dataclass(frozen=True)
class Prediction:
    """A run with its measured and predicted step, or the reason why there is none."""

    run: MeasuredRun
    point: Point | None = None
    measured_s: float | None = None
    predicted_s: float | None = None
    memory_bytes: float | None = None  # of the kind that the run states
    parameters: float = 0.0
    terms: dict[str, float] = field(default_factory=dict)
    reason: str = ""
    fits: bool | None = None

    @property
    def error(self) -> float | None:
        """Predicted over measured seconds, less 1."""
        return None if self.predicted_s is None or self.measured_s is None else self.predicted_s / self.measured_s - 1

    @property
    def counted(self) -> bool:
        """Whether the errors count it: it was predicted, and its source is not known to be wrong."""
        return self.error is not None and not self.run["excluded"]

    @property
    def problem(self) -> Problem:
        """Why it cannot be predicted, with the line of its table."""
        return Problem(self.reason, file=self.run.file, line=self.run.line)


def point_of(run: MeasuredRun, silent: Silent) -> Point:
    """Return a run as a study has it. Raises ``ValueError`` or ``ConfigError`` where it is none."""
    if ("LoRA" in run["notes"] or "LoRA" in run["software_other"]) and "lora_rank" not in run.fields:
        raise ValueError(NO_RANK)
    _check_stated(run, [name for name in NEEDED if name not in MEASURED])
    _check_replicas(run)
    machine = machine_of(run)
    model, assumed = transformer_fields(run)
    software = read_software(run, silent)
    layout = {name: int(float(run[column])) for column, name in DIRECT.items() if run[column]}
    own = {name: field_value(name, text) for name, text in run.fields.items()}
    fields: dict[str, Value] = {**model, **layout, **software, **machine.fields, **own}  # type: ignore[dict-item]
    settle(run, fields)
    missing = [name for name in ("micro_batch", "precision") if not run[name] and name not in own]
    return Point(run, machine, _parsed(fields), (*assumed, *missing))


def _check_stated(run: MeasuredRun, names: Sequence[str]) -> None:
    missing = [name for name in names if not run[name]]
    if missing:
        raise ValueError(f"{', '.join(map(run.name, missing))} not stated")


def _check_replicas(run: MeasuredRun) -> None:
    """Raise ``ValueError`` where a run's replicas are not what its devices and other degrees leave."""
    said, devices, *degrees = (run.number(name) for name in ("dp", "n_gpus", "tp", "pp", "cp"))
    split = prod(degree or 1.0 for degree in degrees)
    if said is not None and devices is not None and said * split != devices:
        names = " x ".join(map(run.name, ("tp", "pp", "cp")))
        raise ValueError(f"dp {said:g} is not {run.name('n_gpus')} / ({names}) = {devices:g} / {split:g} = "
                         f"{devices / split:g}: one of them is wrong, or leave dp out")  # fmt: skip


def _parsed(fields: dict[str, Value]) -> dict[str, Value]:
    """Return fields as a study would have read them. Raises ``ValueError`` for a value that a field may not have."""
    parsed = {}
    for name, value in fields.items():
        try:
            parsed[name] = FIELDS[name].parse(value)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    return parsed


def points_of(runs: Sequence[MeasuredRun], silent: Silent) -> tuple[list[Point], dict[str, str]]:
    """Return runs as studies have them, and by run the reasons of those that are none."""
    points: list[Point] = []
    reasons: dict[str, str] = {}
    for run in runs:
        try:
            points.append(point_of(run, silent))
        except (ValueError, CompcommError) as error:
            reasons[run.run_id] = _words(error)
    return points, reasons


def predict(runs: Sequence[MeasuredRun], silent: Silent | None = None, machine: str = "") -> list[Prediction]:
    """Return every run predicted, in their order; one that cannot be has a reason.

    ``machine`` is the profile to predict all of them on, whatever their own.

    >>> from comp_comm.validation.table import read_runs
    >>> predictions = predict(read_runs()[:10])
    >>> len(predictions), all(one.counted for one in predictions)
    (10, True)
    """
    points, reasons = points_of(runs, silent or Silent())
    if machine:
        points = [point.on(machine) for point in points]
    predictions = {one.run.run_id: one for one in predict_points(points)}
    return [predictions.get(run.run_id) or Prediction(run, reason=reasons[run.run_id]) for run in runs]


def predict_points(points: Sequence[Point]) -> list[Prediction]:
    """Return predictions of points, in their order."""
    predictions: dict[int, Prediction] = {}
    for places in batches(points):
        batch = [point for _, point in places]
        predictions |= dict(zip([place for place, _ in places], _predict_batch(batch), strict=True))
    return [predictions[place] for place in range(len(points))]


def batches(points: Sequence[Point]) -> list[list[tuple[int, Point]]]:
    """Return points that give the same fields together, with their places in the list.

    A field that only some points give has its default in the others, unless it means nothing there: fewer tables, the
    same answers.
    """
    usual = {name: default_model().default(name) for point in points for name in point.fields}
    given = {name: value for name, value in usual.items() if value is not None}
    alike: dict[tuple[str, ...], list[tuple[int, Point]]] = {}
    for place, point in enumerate(points):
        fields = dict(sorted(_filled(point.fields, given).items()))
        alike.setdefault(tuple(fields), []).append((place, replace(point, fields=fields)))
    return list(alike.values())


def _filled(own: dict[str, Value], given: dict[str, Value]) -> dict[str, Value]:
    """Return fields with those that others give, but for any that means nothing without another or another's word."""
    model, fields = default_model(), given | own
    alone = [name for name, other in model.needs.items() if other not in fields]
    alone += [name for name, (other, word) in model.needs_word.items()
              if fields.get(other, model.default(other)) != word]  # fmt: skip
    return {name: value for name, value in fields.items() if name in own or name not in alone}


def _words(error: Exception) -> str:
    return "; ".join(problem.message for problem in error.problems) if isinstance(error, ConfigError) else str(error)


def _study(machine: RunMachine, data: Record, title: str) -> Study:
    study = study_from({"title": title, "cost_model": default_model().name, "hardware": machine.reference, **data},
                       machine.beside or "runs")  # fmt: skip
    if study.profiles:
        study.profiles = (machine.profile(),)
    return study


def table_of(points: list[Point]) -> tuple[Plan, list[int]]:
    """Return the plan of points with the same fields, and the row of each: they and their machines are its one axis.

    Raises ``ConfigError`` where one of them is wrong.
    """
    rows: dict[TableRow, int] = {}
    places = [rows.setdefault((point.machine, tuple(point.fields.values())), len(rows)) for point in points]
    return _plan(points[0], list(rows)), places


def _predict_batch(points: list[Point]) -> list[Prediction]:
    """Return predictions of points with the same fields."""
    try:
        plan, places = table_of(points)
    except CompcommError as error:
        if len(points) == 1:
            return [Prediction(points[0].run, points[0], reason=_words(error))]
        return [one for point in points for one in _predict_batch([point])]
    step = cast(Step, plan.evaluate_alone((slice(None),)))
    answers = _Answers(plan, step, plan.grid.points)
    return [answers.prediction(point, at) for point, at in zip(points, places, strict=True)]


def _plan(first: Point, rows: list[TableRow]) -> Plan:
    """Return the plan over rows of a machine and the values of its fields: one axis, along which all move together."""
    machines = list(dict.fromkeys(machine for machine, _ in rows))
    alone = len(machines) == 1
    names = {machine: machine.reference if alone else f"{machine.reference} {number}"
             for number, machine in enumerate(machines)}  # fmt: skip
    values = dict(zip(first.fields, zip(*(row for _, row in rows), strict=True), strict=True))
    # A table of one row: what breaks a rule is then a point that does, not a study that is wrong.
    plan = make_plan(_study(first.machine, {"zip": [dict(first.fields)]}, "runs"))
    profiles = tuple(replace(machine.profile(), name=name) for machine, name in names.items())
    axis = Axis({HARDWARE: tuple(names[machine] for machine, _ in rows), **values})
    fixed = {name: value for name, value in plan.grid.fixed.items() if name not in values}
    return replace(plan, grid=replace(plan.grid, profiles=profiles, fixed=fixed, axes=(axis,)))


def _reason_alone(point: Point, reasons: Sequence[str]) -> str:
    """Return which rules a point of a table breaks: as its own study says it, with its values and its machine's name.

    A table's rules (``reasons``) are about all of its points and machines.
    """
    try:
        make_plan(point.study())
    except CompcommError as error:
        return _words(error)
    return "; ".join(reasons)


class _Answers:
    """The steps of a table of points, a number a point."""

    def __init__(self, plan: Plan, step: Step, count: int) -> None:
        self.step, self.count = step, count
        with unwarned():
            columns = plan.model.columns
            self.step_s = self._each(step.step_s)
            self.memory = {kind: self._each(columns[name].of(step)) * (MIB if name.endswith("mib") else GIB)
                           for kind, name in COLUMNS.items()}  # fmt: skip
            self.fits = self._each(step.memory_bytes) <= self._each(to_float(step.work.hardware.memory_capacity))
            self.parameters = self._each(step.work.parameters)
            self.terms = {name: self._each(columns[name].of(step)) for name in TERMS}
            for group in GROUP_TITLES:
                spent = step.comm.get(group)
                if spent is not None:
                    self.terms[f"{group}_comm_s"] = self._each(spent.visible)
            rules = [rule for rule in step.violations if rule.reason != NO_ROOM]
        self.broken = [(rule.reason, np.broadcast_to(rule.broken, (count,))) for rule in rules]

    def _each(self, numbers: Array) -> Array:
        return np.broadcast_to(np.asarray(numbers, np.float64), (self.count,))

    def prediction(self, point: Point, at: int) -> Prediction:
        """Return the prediction of one point."""
        run = point.run
        reasons = [reason for reason, broken in self.broken if broken[at]]
        if reasons or not np.isfinite(self.step_s[at]):
            return Prediction(run, point, reason=_reason_alone(point, reasons) or "the step is no finite number")
        try:
            _check_stated(run, MEASURED)
            measured = step_seconds(run, self.step.work, at)
        except ValueError as error:
            return Prediction(run, point, reason=str(error))
        terms = {name: float(values[at]) for name, values in self.terms.items()}
        memory = float(self.memory[kind_of_peak(run)][at])
        return Prediction(
            run, point, measured, float(self.step_s[at]), memory, float(self.parameters[at]), terms, run["excluded"],
            bool(self.fits[at]),
        )  # fmt: skip


__all__ = ["Point", "Prediction", "batches", "point_of", "points_of", "predict", "predict_points", "table_of"]
