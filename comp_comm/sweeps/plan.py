"""From a study to a plan: its cost model, grid, columns and conditions, with everything wrong said at once."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from comp_comm.configs.axes import Axis
from comp_comm.configs.study import Study
from comp_comm.costmodels import COST_MODELS, DEFAULT_COST_MODEL, Answer, CostModel, default_model, phase_of
from comp_comm.costmodels.answer import Columns
from comp_comm.costmodels.model import NO_PARTS, Parts
from comp_comm.errors import nearest, one_of
from comp_comm.fields import FIELDS, Value
from comp_comm.formulas.arrays import Index, unwarned
from comp_comm.hardware.numbers import Hardware
from comp_comm.lazy import cached_property
from comp_comm.structs import struct
from comp_comm.sweeps.grid import EVOLUTION, HARDWARE, Grid
from comp_comm.sweeps.shared_parts import SharedRows
from comp_comm.sweeps.stacked import with_stack
from comp_comm.sweeps.where import Condition, parse_condition

FEASIBLE, REASON = "feasible", "reason"
NO_HARDWARE = "'hardware' is missing: give the name of a profile (--hardware; 'compcomm hardware list') or a path"


@struct
class Plan:
    """A checked study, ready to be evaluated: all or any part of its grid, as often as is wanted."""

    study: Study  # what was given, with what its stack gives
    model: CostModel
    grid: Grid  # of the fields that the model has
    where: tuple[Condition, ...]  # rows that fail one are left out

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """Input columns of a row: what moves, and what the cost model always shows."""
        moving = self.grid.moving
        named = sorted({*self.model.shown, *moving} - {HARDWARE}, key=list(FIELDS).index)
        return (*(name for name in moving if name == HARDWARE), *named)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Output columns of a row, but for those made only where they are asked for."""
        return tuple(name for name, column in self.output_columns.items() if not column.extra)

    @cached_property
    def output_columns(self) -> Columns[Any]:
        """Output columns by name that the cost model can make of this study."""
        columns = self.model.columns.items()
        return {name: column for name, column in columns if column.needs in ("", *self.grid.names)}

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns of a row, in order."""
        return (*self.inputs, *self.outputs, FEASIBLE, REASON)

    def over(self, *axes: Axis) -> Plan:
        """Return the plan over other axes; a field that moves along one of them is no longer fixed."""
        return replace(self, grid=replace(self.grid, axes=axes))

    def evaluate(self, index: Index) -> Answer:
        """Return the cost model's answer for a block of the grid, with every broken rule.

        What it makes only when asked (a column) may still divide by zero at points that break a rule. The one point of
        a plan without axes is evaluated once, and what was made of its answer is kept.
        """
        return self._evaluated(index, self._shared.parts(index)) if self.grid.axes else self._one

    @cached_property
    def _one(self) -> Answer:
        return self.evaluate_alone(())

    def evaluate_alone(self, index: Index) -> Answer:
        """Return the same answer, with nothing worked out for other points as well."""
        return self._evaluated(index, NO_PARTS)

    def evaluate_on(self, hardware: Hardware) -> Answer:
        """Return the answer at the one point of a plan without axes, on hardware whose numbers may have an axis."""
        return self._evaluated((), NO_PARTS, hardware)

    def _evaluated(self, index: Index, parts: Parts, other: Hardware | None = None) -> Answer:
        scenario = self.grid.scenario(index)
        with unwarned():
            return self.model.evaluate(replace(scenario, hardware=other) if other else scenario, parts)

    @cached_property
    def _shared(self) -> SharedRows:
        return SharedRows(self.grid)


def make_plan(study: Study, free: Collection[str] = ()) -> Plan:
    """Return the plan of a study. Raises ``ConfigError`` with every problem of the study and of the plan.

    ``free`` are fields that are still to be chosen: the rules about them are not checked.
    """
    study = with_stack(study, model := _cost_model(study))
    devices = [Axis({HARDWARE: tuple(profile.name for profile in study.profiles)})] if study.hardware_axis else []
    axes = (*devices, *study.axes)
    plan = Plan(study, model, Grid(study.profiles, _modelled(study, model), axes, model), ())
    _check_fields(study, plan)
    has_device = study.hardware_given or model.own_hardware
    if not has_device:
        study.problem("hardware", NO_HARDWARE)
    plan = replace(plan, where=_conditions(study, plan))
    # Without a device there is none of which a number could be missing, or that could lack a format.
    if has_device and study.profiles and all(plan.grid.labels(name) for name in model.required):
        _check_fixed_rules(study, plan, free)
    study.problems.raise_if_any()
    return plan


def _modelled(study: Study, model: CostModel) -> dict[str, Value]:
    """Return what is fixed and the cost model knows: a model's file says more than one of them needs."""
    return {name: value for name, value in study.fixed.items() if name in model.fields}


def _cost_model(study: Study) -> CostModel:
    name = study.cost_model or DEFAULT_COST_MODEL
    if name not in COST_MODELS:
        study.problem("cost_model", f"no cost model is called '{name}'{nearest(name, COST_MODELS)} "
                      f"({one_of(list(COST_MODELS))})")  # fmt: skip
        name = DEFAULT_COST_MODEL
    claimed = _claimed(study) if study.cost_model is None else None
    return phase_of(COST_MODELS[claimed or name], study.fixed.get("phase"))


def _claimed(study: Study) -> str | None:
    """Return the cost model of a study that names none, where what it gives is of another than the default one."""
    values = {**{name: "" for axis in study.axes for name in axis.values}, **study.fixed}
    if set(default_model().required) <= values.keys() and values.get("tp") != "required":
        return None  # the default one knows what it needs, and no other is loaded
    stated = frozenset(set(study.origins) & set(FIELDS))
    return next((model.name for model in COST_MODELS.values() if model.claims(values, stated)), None)


def _check_fields(study: Study, plan: Plan) -> None:
    model, names = plan.model, set(plan.grid.names) - {HARDWARE}
    for name in sorted(set(study.origins) & set(FIELDS) - set(model.fields)):
        if name in {*study.fixed, *plan.grid.moving}:
            study.problem(name, f"{model.name} does not model {name} ({_models_with(name)})")
    _check_essential(study, model)
    _check_needs(study, plan)
    if plan.grid.axis_of("phase") is not None:
        study.problem("phase", "must be one value: training and inference have columns of their own")
    missing = [name for name in model.required if name not in names and name not in study.origins]
    if missing and not study.model_failed:
        hint = _other_model(study, model, names)
        study.missing(*missing, hint=hint)
    if plan.grid.derives_tp:
        if not names & {"layers", "parameters"}:
            study.problem("tp", "'tp: required' needs 'layers' or 'parameters' to know the size of the model")
        for name, stronger in (("layers", "parameters"), ("memory_capacity", "memory_scaling")):
            if {name, stronger} <= set(study.origins):
                study.problem(name, f"{name} has no effect beside {stronger}; give one of them")
        return
    for name in model.for_required_tp:
        if name in study.origins:
            study.problem(name, f"{name} only matters with 'tp: required' in {model.name}, which times one layer")


def _check_essential(study: Study, model: CostModel) -> None:
    """Refuse a model that is made of what the cost model does not know."""
    for name in sorted(study.model.fields if study.model and not model.plain_gpt else ()):
        if FIELDS[name].essential and name not in model.fields and study.fixed.get(name):
            study.problem("model", f"{model.name} does not model {name}, which this model has ({_models_with(name)})")


def _check_needs(study: Study, plan: Plan) -> None:
    model, names = plan.model, plan.grid.names
    for name, other in model.needs.items():
        if name in study.origins and other not in names:
            study.problem(name, f"{name} means nothing without {other}; give that too, or leave it out")
    for name, (other, word) in model.needs_word.items():
        if name in study.origins and word not in plan.grid.words(other):
            study.problem(name, f"{name} means nothing unless {other} is {word}; leave it out")
    if "tp" in names and plan.grid.derives_tp and "memory_scaling" not in model.fields:
        able = one_of([other.name for other in COST_MODELS.values() if other.for_required_tp])
        study.problem("tp", f"'tp: required' is for {able}; {model.name} needs a number")


def _other_model(study: Study, model: CostModel, names: set[str]) -> str:
    """Return a hint where a study says no cost model, and what it gives is all that another one needs."""
    others = [other.name for other in COST_MODELS.values() if other is not model and set(other.required) <= names]
    return f"; or did you mean 'cost_model: {others[0]}'?" if others and study.cost_model is None else ""


def _models_with(name: str) -> str:
    able = [model.name for model in COST_MODELS.values() if name in model.fields]
    return f"{', '.join(able)} {'do' if len(able) > 1 else 'does'}" if able else "no cost model does"


def _conditions(study: Study, plan: Plan) -> tuple[Condition, ...]:
    columns = [*plan.grid.names, *EVOLUTION, *plan.output_columns, *plan.model.derived, FEASIBLE]
    conditions, listed = [], isinstance(study.document.data.get("where"), list)
    for index, text in enumerate(study.where):
        path = ("where", index) if listed else ("where",)
        try:
            conditions.append(parse_condition(text, list(dict.fromkeys(columns))))
        except ValueError as error:
            study.problem_at(path, str(error))
    return tuple(conditions)


def _check_fixed_rules(study: Study, plan: Plan, free: Collection[str]) -> None:
    """A rule that fixed values break on their own is an error, not an infeasible point."""
    with unwarned():
        violations = plan.evaluate(tuple(slice(0, 1) for _ in plan.grid.axes)).violations
    for violation in violations:
        fixed = violation.wrong and violation.broken.ndim == 0 and bool(violation.broken)
        if fixed and not set(free) & set(violation.fields):
            known = [name for name in violation.fields if plan.grid.axis_of(name) is None and name in study.fixed]
            values = ", ".join(f"{name} is {study.fixed[name]}{_whose(study, name)}" for name in known)
            study.problem(known[0] if known else HARDWARE, violation.reason + (f": {values}" if len(known) > 1 else ""))


def _whose(study: Study, name: str) -> str:
    """Return who gives a field that the study does not give itself, and the flag that gives another value."""
    stack = study.fixed.get("stack")
    return f" (of stack {stack}; {FIELDS[name].flag} gives another)" if stack and name in study.stacked else ""


__all__ = ["FEASIBLE", "REASON", "Plan", "make_plan"]
