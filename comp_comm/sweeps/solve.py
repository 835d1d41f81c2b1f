"""The inverse question: at which value of a field does a column meet a target?

The field becomes one more axis of the grid, scanned from end to end; every crossing of the target is then bisected, all
of them at once. So it inverts whatever the cost model says, monotone or not, and finds every solution in the span.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from comp_comm.configs.axes import Axis
from comp_comm.configs.study import Study
from comp_comm.costmodels import all_columns
from comp_comm.errors import ConfigError, InfeasibleError, nearest, one_of
from comp_comm.field import short
from comp_comm.fields import FIELDS, Value, solvable
from comp_comm.formulas.arrays import Array, Index, WholeArray, to_float, unwarned
from comp_comm.records import Record, Records
from comp_comm.sweeps.blocks import extent, slabs
from comp_comm.sweeps.engine import Rows
from comp_comm.sweeps.meta import meta
from comp_comm.sweeps.plan import Plan, make_plan
from comp_comm.sweeps.result import records
from comp_comm.sweeps.whole_numbers import BOUNDING, DEGREES, Beside, beside
from comp_comm.violation import NO_ROOM

SCAN = 1025
BISECTIONS = 80
MAX_POINTS = 100_000
TOLERANCE = 1e-9
MOST = {"tp": "gpus", "micro_batch": "global_batch"}  # what no degree of a study that gives it exceeds
FITS = "fits"  # whether a device holds what is beside a solution


@dataclass(frozen=True)
class InverseQuestion:
    """What is asked: ``column`` shall be ``target``, by choosing ``field`` between ``low`` and ``high``."""

    column: str
    target: float
    field: str
    low: float
    high: float


def ask(column: str, target: float, field: str, between: tuple[float, float] | None = None) -> InverseQuestion:
    """Return a checked question.

    Raises ``ConfigError`` for an unknown column, a field that cannot be solved for, or a span that is none.
    """
    if column not in all_columns():
        raise ConfigError(f"--target: no column is called '{column}'{nearest(column, all_columns())} "
                          f"({one_of(list(all_columns()))})")  # fmt: skip
    able = solvable(FIELDS)
    field = field.replace("-", "_")
    span = FIELDS[field].solve if field in able else None
    if span is None:
        raise ConfigError(f"--for: '{field}' cannot be solved for{nearest(field, able)} ({one_of(able)})")
    if not np.isfinite(target):
        raise ConfigError(f"--target: must be a finite number, not {target}")
    low, high = between or span
    if not (np.isfinite(low) and np.isfinite(high)) or low <= 0 or low >= high:
        raise ConfigError(f"--between: must go from a number above 0 up to a larger one, not {low:g} to {high:g}")
    return InverseQuestion(column, target, field, low, high)


def solve(study: Study, question: InverseQuestion) -> tuple[Records, Record]:
    """Return, for every point of the study's other axes, the values of the field that meet the target.

    Parameters
    ----------
    study : Study
        Everything but the field that is solved for (what it says of that field is dropped).
    question : InverseQuestion
        See `ask`.

    Returns
    -------
    records, meta
        A record a solution: the point, ``value`` (real, also for a whole-number field), ``achieved`` (the column
        there), and for whole-number fields the valid neighbours ``below`` and ``above`` with the column at them. A
        point without a solution, or where any value is one, has ``value`` None and a ``reason``.

    Raises
    ------
    ConfigError
        For a wrong study, or more than 100,000 points.
    InfeasibleError
        If no point has a solution; the message says which values the column takes.

    Examples
    --------
    >>> from comp_comm.configs.study import study_from
    >>> point = {"hidden": "64K", "seq_len": "4K", "micro_batch": 1, "tp": 256}
    >>> study = study_from({"cost_model": "comp_vs_comm", "set": point})
    >>> rows, _ = solve(study, ask("serialized_comm_fraction", 0.2, "network"))
    >>> round(rows[0]["value"], 3)
    3.659
    """
    study = _without(study, question.field)
    study.fixed[question.field] = 1
    plan = make_plan(study, free=(question.field,))
    _check_question(plan, question)
    question = _bounded(plan, question)
    if plan.grid.derives_tp and question.field in ("hidden", "tp"):
        raise ConfigError(f"'tp: required' follows from hidden; give tp a value to solve for {question.field}")
    if plan.grid.points > MAX_POINTS:
        raise ConfigError(f"the study has {plan.grid.points:,} points; at most {MAX_POINTS:,} are solved at once")
    solutions, spans = _brackets(plan, question)
    solved = _bisect(plan, question, solutions)
    rows = _answers(plan, question, solutions, solved, spans)
    if all(row["value"] is None and row["achieved"] is None for row in rows):
        raise InfeasibleError(f"no value of {question.field} from {short(question.low)} to {short(question.high)} "
                              f"gives {question.column} = {question.target:g}; {rows[0]['reason']}")  # fmt: skip
    about = meta(plan)
    about["fixed"].pop(question.field, None)
    return rows, {**about, "solve": vars(question), "points": plan.grid.points}


def _check_question(plan: Plan, question: InverseQuestion) -> None:
    if question.column not in plan.output_columns:
        raise ConfigError(f"--target: {plan.model.name} has no column '{question.column}' here "
                          f"({one_of(plan.outputs)})")  # fmt: skip
    able = solvable(plan.model.fields)
    if question.field not in able:
        raise ConfigError(f"--for: {plan.model.name} does not model {question.field} ({one_of(able)})")


def _bounded(plan: Plan, question: InverseQuestion) -> InverseQuestion:
    """Return the question, looking for a degree no further than the study has devices, or sequences, where it says."""
    limit = MOST.get(question.field)
    if limit not in plan.model.fields or (question.low, question.high) != FIELDS[question.field].solve:
        return question
    most = float(np.max(plan.grid.values(str(limit), _whole(plan))))
    return replace(question, high=min(question.high, most)) if most > question.low else question


def _without(study: Study, field: str) -> Study:
    """Return the study without what it says of a field."""
    axes = (Axis({n: v for n, v in axis.values.items() if n != field}) for axis in study.axes)
    fixed = {name: value for name, value in study.fixed.items() if name != field}
    origins = {name: place for name, place in study.origins.items() if name != field}
    return replace(study, axes=tuple(axis for axis in axes if axis.values), fixed=fixed, origins=origins)


def _column(plan: Plan, index: Index, shape: tuple[int, ...], column: str) -> Array:
    answer = plan.evaluate(index)
    with unwarned():
        return to_float(np.broadcast_to(plan.output_columns[column].of(answer), shape))


@dataclass(frozen=True)
class _Found:
    """Crossings of the target: each one's point (flat index), what its fields are, and the ends it lies between."""

    point: Any
    fields: dict[str, tuple[Value, ...]]
    low: Array
    high: Array


def _brackets(plan: Plan, question: InverseQuestion) -> tuple[_Found, Array]:
    """Return every crossing of the target on the scan, and the range of the column at each point."""
    scan = np.exp(np.linspace(np.log(question.low), np.log(question.high), SCAN))
    scan[0], scan[-1] = question.low, question.high
    wide = plan.over(*plan.grid.axes, Axis({question.field: tuple(scan.tolist())}))
    points, steps, spans = [], [], []
    start = 0
    for block in slabs(wide.grid.shape, max(SCAN, 2**21)):
        values = _column(wide, block, extent(block), question.column).reshape(-1, SCAN)
        spans.append(np.stack([np.fmin.reduce(values, axis=1), np.fmax.reduce(values, axis=1)]))
        side = np.sign(values - question.target)
        # A stretch that lies on the target counts once, where it begins; one that is all there is does not count.
        crossing = (side[:, :-1] * side[:, 1:] < 0) | ((side[:, 1:] == 0) & (side[:, :-1] != 0))
        crossing[:, 0] |= (side[:, 0] == 0) & (side != 0).any(axis=1)
        point, step = np.nonzero(crossing)
        points.append(point + start)
        steps.append(step)
        start += values.shape[0]
    step, point = np.concatenate(steps), np.concatenate(points)
    return _Found(point, plan.grid.at(point), scan[step], scan[step + 1]), np.concatenate(spans, axis=1)


def _points(plan: Plan, question: InverseQuestion, solutions: _Found, values: Array) -> Plan:
    """Return the crossings' points, each with its own value of the field: a grid of one axis."""
    return plan.over(Axis({**solutions.fields, question.field: tuple(values.tolist())}))


def _values_at(plan: Plan, question: InverseQuestion, solutions: _Found, values: Array) -> Array:
    if not len(solutions.point):
        return to_float([])
    table = _points(plan, question, solutions, values)
    return _column(table, (slice(0, len(solutions.point)),), (len(solutions.point),), question.column)


def _bisect(plan: Plan, question: InverseQuestion, solutions: _Found) -> Array:
    """Return where each crossing is, halving all intervals at once (on a log scale)."""
    low: Array = solutions.low
    high: Array = solutions.high
    if not low.size:
        return low
    at_low = _values_at(plan, question, solutions, low) - question.target
    at_high = _values_at(plan, question, solutions, high) - question.target
    sign = np.where(at_low == 0, -np.sign(at_high), np.sign(at_low))
    for _ in range(BISECTIONS):
        middle = np.sqrt(low * high)
        if ((middle <= low) | (middle >= high)).all():
            break  # no number lies between the ends any more
        side = np.sign(_values_at(plan, question, solutions, middle) - question.target)
        left = side * sign > 0
        low, high = np.where(left, middle, low), np.where(left, high, middle)
    candidates = np.stack([solutions.low, low, high, solutions.high])
    errors = [np.abs(_values_at(plan, question, solutions, row) - question.target) for row in candidates]
    return to_float(np.take_along_axis(candidates, np.argmin(errors, axis=0)[None], axis=0)[0])


def _answers(plan: Plan, question: InverseQuestion, solutions: _Found, solved: Array, spans: Array) -> Records:
    achieved = _values_at(plan, question, solutions, solved)
    neighbours = _neighbours(plan, question, solutions, solved)
    near = TOLERANCE * max(1.0, abs(question.target))
    met = np.abs(achieved - question.target) <= near
    asked = {"solved_for": question.field, "column": question.column, "target": question.target}
    fits = neighbours.pop(FITS, None)
    points, broken = _inputs(plan, question), _broken(plan, question)
    first = np.searchsorted(solutions.point, np.arange(len(points) + 1)).tolist()  # solutions are in the points' order
    rows: Records = []
    for number, point in enumerate(points):
        mine = range(0) if broken[number] else range(first[number], first[number + 1])
        for i in mine:
            reason = None if met[i] else f"{question.column} jumps over the target here"
            more = {key: values[i] for key, values in neighbours.items()}
            answer = {"value": float(solved[i]), "achieved": float(achieved[i]), **more, "reason": reason}
            if question.field in DEGREES and more["above"] is None:  # no degree of this study is as large
                answer = dict.fromkeys(answer) | {"reason": _too_large(question.field, solved[i], more["below"])}
            elif fits is not None and not fits[i] and (more["below"] or more["above"]):
                answer["reason"] = reason or "neither number beside it fits into the device's memory"
            rows.append({**point, question.field: answer["value"], **asked, **answer})
        if not mine:
            low, high = spans[:, number].tolist()
            nothing = dict.fromkeys((question.field, "value", "achieved", *neighbours))
            if not broken[number] and max(abs(low - question.target), abs(high - question.target)) <= near:
                nothing["achieved"] = low
            rows.append({**point, **asked, **nothing, "reason": broken[number] or _stays(question, low, high, near)})
    return rows


def _too_large(field: str, value: float, largest: int | None) -> str:
    most = f"the largest that the study allows, {largest:,}" if largest else "any that the study allows"
    return f"{field} would have to be {value:.6g}, more than {most}"


def _stays(question: InverseQuestion, low: float, high: float, near: float) -> str:
    """Return what the column does at a point where no value stands out as the one that meets the target."""
    if low != low:
        return "a number it needs is blank"
    if max(abs(low - question.target), abs(high - question.target)) <= near:
        return f"any value of {question.field} does: {question.column} is {low:.6g} at all of them"
    if low == high:
        return f"{question.field} does not change it: it is {low:.6g}"
    return f"it goes from {low:.6g} to {high:.6g}"


def _whole(plan: Plan) -> tuple[slice, ...]:
    return tuple(slice(0, n) for n in plan.grid.shape)


def _inputs(plan: Plan, question: InverseQuestion) -> Records:
    """Return the other fields of every point, in the order of the grid."""
    names = [name for name in plan.inputs if name != question.field]
    columns = {name: plan.grid.column(name, _whole(plan)) for name in names}
    return records(Rows({n: np.broadcast_to(v, plan.grid.shape).reshape(-1) for n, v in columns.items()}))


def _broken(plan: Plan, question: InverseQuestion) -> list[str]:
    """Return the first rule each point breaks, whatever the field that is solved for is; empty where none."""
    reasons = np.full(plan.grid.shape, "", dtype=object)
    whole = FIELDS[question.field].kind == "int"  # of which some fit where others do not
    for violation in plan.evaluate(_whole(plan)).violations:
        if question.field not in violation.fields and not (whole and violation.reason == NO_ROOM):
            reasons = np.where(violation.broken & (reasons == ""), violation.reason, reasons)
    texts: list[str] = np.broadcast_to(reasons, plan.grid.shape).reshape(-1).tolist()
    return texts


def _neighbours(plan: Plan, question: InverseQuestion, solutions: _Found, solved: Array) -> dict[str, list[Any]]:
    """Return the valid whole numbers on either side of each solution, the column there, and whether either fits."""
    if FIELDS[question.field].kind != "int":
        return {}
    found = _beside(plan, question, solutions, solved)
    columns: dict[str, list[Any]] = {}
    for name, values in (("below", found.below), ("above", found.above)):
        good = ~np.isnan(values)
        at = _values_at(plan, question, solutions, np.where(good, values, 1.0))
        columns[name] = [int(v) if ok else None for v, ok in zip(values, good, strict=True)]
        columns[f"at_{name}"] = [float(v) if ok else None for v, ok in zip(at, good, strict=True)]
    return {**columns, FITS: (found.fits > 0).tolist()}


def _beside(plan: Plan, question: InverseQuestion, solutions: _Found, solved: Array) -> Beside:
    if not len(solutions.point):
        return Beside(solved, solved, solved)
    grid = _points(plan, question, solutions, solved).grid
    names = [name for name in BOUNDING if name in plan.model.fields and name != question.field]
    numbers = {name: to_float(np.broadcast_to(grid.values(name, (slice(None),)), solved.shape)) for name in names}

    def table(owners: WholeArray, values: Array) -> Plan:
        chosen = {name: tuple(labels[i] for i in owners.tolist()) for name, labels in solutions.fields.items()}
        return plan.over(Axis({**chosen, question.field: tuple(values.tolist())}))

    return beside(question.field, solved, numbers, table)
