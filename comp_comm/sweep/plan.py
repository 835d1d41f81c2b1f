"""From a study to a plan: its cost model, grid, columns and conditions, with everything wrong said at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from comp_comm.configs.axes import Axis
from comp_comm.configs.study import Study
from comp_comm.costmodels import COST_MODELS, DEFAULT_COST_MODEL, Answer, CostModel
from comp_comm.costmodels.answer import Columns
from comp_comm.costmodels.registry import PHASES
from comp_comm.errors import nearest, one_of
from comp_comm.fields import FIELDS, Value
from comp_comm.formulas.arrays import Index
from comp_comm.sweep.grid import EVOLUTION, HARDWARE, Grid
from comp_comm.sweep.where import Condition, parse_condition

FEASIBLE, REASON = "feasible", "reason"
ONE_LAYER = "comp_vs_comm"
OWN_HARDWARE = (ONE_LAYER,)  # cost models of a paper with a device of its own
NO_HARDWARE = "'hardware' is missing: give the name of a profile ('compcomm hardware list') or a path"


@dataclass(frozen=True)
class Plan:
    """A checked study, ready to be evaluated."""

    study: Study
    model: CostModel
    grid: Grid
    where: tuple[Condition, ...]

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """Input columns of a row: what moves, and what the cost model always shows."""
        moving = self.grid.moving
        named = sorted({*self.model.shown, *moving} - {HARDWARE}, key=list(FIELDS).index)
        return (*((HARDWARE,) if HARDWARE in moving else ()), *named)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Output columns of a row, but for those made only where they are asked for."""
        return tuple(name for name, column in self.made.items() if not column.extra)

    @cached_property
    def made(self) -> Columns:
        """Output columns by name that the cost model can make of this study."""
        known = self.grid.names
        columns = self.model.columns.items()
        return {name: column for name, column in columns if not column.needs or column.needs in known}

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns of a row, in order."""
        return (*self.inputs, *self.outputs, FEASIBLE, REASON)

    def over(self, *axes: Axis) -> Plan:
        """Return the plan over other axes; a field that moves along one of them is no longer fixed."""
        return replace(self, grid=replace(self.grid, axes=axes))

    def evaluate(self, index: Index) -> Answer:
        """Return the cost model's answer for a block of the grid, with every broken rule.

        What it makes only when asked (a column) may still divide by zero at points that break a rule.
        """
        scenario, violations = self.grid.scenario(index)
        with np.errstate(invalid="ignore", divide="ignore"):
            return self.model.evaluate(replace(scenario, violations=violations))


def make_plan(study: Study, free: str | None = None) -> Plan:
    """Return the plan of a study. Raises ``ConfigError`` with every problem of the study and of the plan.

    ``free`` is a field that is still to be chosen: the rules about it are not checked.
    """
    model = _cost_model(study)
    axes = study.axes
    if study.hardware_axis:
        axes = (Axis({HARDWARE: tuple(profile.name for profile in study.profiles)}), *axes)
    plan = Plan(study, model, Grid(study.profiles, _modelled(study, model), axes, model), ())
    _check_fields(study, plan)
    if not study.hardware_given and model.name not in OWN_HARDWARE:
        study.problem("hardware", NO_HARDWARE)
    conditions = _conditions(study, plan)
    if study.profiles and all(plan.grid.labels(name) for name in model.required):
        _check_fixed_rules(study, plan, free)
    study.problems.raise_if_any()
    return replace(plan, where=conditions)


def _modelled(study: Study, model: CostModel) -> dict[str, Value]:
    """Return what is fixed and the cost model knows: a model's file says more than one of them needs."""
    return {name: value for name, value in study.fixed.items() if name in model.fields}


def _cost_model(study: Study) -> CostModel:
    name = study.cost_model or DEFAULT_COST_MODEL
    if name not in COST_MODELS:
        message = f"no cost model is called '{name}'{nearest(name, COST_MODELS)} ({one_of(list(COST_MODELS))})"
        study.problem("cost_model", message)
        name = DEFAULT_COST_MODEL
    if study.cost_model is None and _of_one_layer(study):
        name = ONE_LAYER
    phase = study.fixed.get("phase")
    return COST_MODELS[PHASES.get(str(phase), name) if name == DEFAULT_COST_MODEL else name]


def _of_one_layer(study: Study) -> bool:
    """Return whether a study that names no cost model is about one layer: a whole model cannot be made of it."""
    layer, names = COST_MODELS[ONE_LAYER], set(study.fixed) | {name for axis in study.axes for name in axis.values}
    if study.fixed.get("tp") == "required":
        return True
    whole = set(COST_MODELS[DEFAULT_COST_MODEL].required) <= names
    return not whole and set(layer.required) <= names and set(study.origins) & set(FIELDS) <= set(layer.fields)


def _check_fields(study: Study, plan: Plan) -> None:
    model, names = plan.model, set(plan.grid.names) - {HARDWARE}
    for name in sorted(set(study.origins) & set(FIELDS) - set(model.fields)):
        if name in {*study.fixed, *plan.grid.moving}:
            study.problem(name, f"{model.name} does not model {name} ({_models_with(name)})")
    _check_needs(study, plan)
    if plan.grid.axis_of("phase") is not None:
        study.problem("phase", "must be one value: training and inference have columns of their own")
    missing = [name for name in model.required if name not in names and name not in study.origins]
    if missing and not study.model_failed:
        hint = _other_model(study, model, names)
        for name in missing:
            study.problem(name, f"'{name}' is missing: give it under 'set' or 'sweep' ({FIELDS[name].help}){hint}")
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


def _check_needs(study: Study, plan: Plan) -> None:
    model, names = plan.model, plan.grid.names
    for name, other in model.needs.items():
        if name in study.origins and other not in names:
            study.problem(name, f"{name} means nothing without {other}; give that too, or leave it out")
    for name, (other, word) in model.needs_word.items():
        if name in study.origins and word not in plan.grid.words(other):
            study.problem(name, f"{name} means nothing unless {other} is {word}; leave it out")
    if "tp" in names and plan.grid.derives_tp and "memory_scaling" not in model.fields:
        study.problem("tp", f"'tp: required' is for comp_vs_comm; {model.name} needs a number")


def _other_model(study: Study, model: CostModel, names: set[str]) -> str:
    """Return a hint where a study says no cost model, and what it gives is all that another one needs."""
    others = [other.name for other in COST_MODELS.values() if other is not model and set(other.required) <= names]
    return f"; or did you mean 'cost_model: {others[0]}'?" if others and study.cost_model is None else ""


def _models_with(name: str) -> str:
    able = [model.name for model in COST_MODELS.values() if name in model.fields]
    return f"{one_of(able)} does" if able else "no cost model does"


def _conditions(study: Study, plan: Plan) -> tuple[Condition, ...]:
    columns = [*plan.grid.names, *EVOLUTION, *plan.made, *plan.model.derived, FEASIBLE]
    found = []
    for index, text in enumerate(study.where):
        path = ("where", index) if isinstance(study.document.data.get("where"), list) else ("where",)
        try:
            found.append(parse_condition(text, list(dict.fromkeys(columns))))
        except ValueError as error:
            study.problem_at(path, str(error))
    return tuple(found)


def _check_fixed_rules(study: Study, plan: Plan, free: str | None) -> None:
    """A rule that fixed values break on their own is an error, not an infeasible point."""
    first: Index = tuple(slice(0, 1) for _ in plan.grid.axes)
    for violation in plan.evaluate(first).violations:
        fixed = violation.wrong and violation.broken.ndim == 0 and bool(violation.broken)
        if fixed and free not in violation.fields:
            known = [name for name in violation.fields if plan.grid.axis_of(name) is None and name in study.fixed]
            values = ", ".join(f"{name} is {study.fixed[name]}" for name in known)
            study.problem(known[0] if known else HARDWARE, violation.reason + (f": {values}" if len(known) > 1 else ""))


def notes(plan: Plan) -> list[str]:
    """Return what a reader should know that is no error: settings without effect, derived values."""
    about = {"comp_vs_comm": _paper_notes, "complete": _step_notes, "foundation_models": _dense_notes,
             "amped": _dense_notes}  # fmt: skip
    found = about[plan.model.name](plan) if plan.model.name in about else []
    model, given = plan.study.model, plan.study.origins
    taken = [n for n in (model.fields if model else ()) if n in given and n in plan.model.fields and n != "seq_len"]
    if model and taken:
        found.append(f"{', '.join(taken)} are the study's, not those of {model.name}")
    return found


def _paper_notes(plan: Plan) -> list[str]:
    found = []
    if plan.study.cost_model is None:
        found.append("cost_model is not given: comp_vs_comm, of one layer; a whole step needs layers, heads and vocab")
    given = plan.study.origins
    timings = [row.timing for row in plan.grid.machines.rows]
    if "dp" in given and not any(np.any(timing.use_tiers) for timing in timings):
        found.append("dp above 1 has no effect: this timing ignores network tiers and takes the ring factor of many")
    if "memory_bandwidth" in given and not any(timing.memory_bound for timing in timings):
        found.append("memory_bandwidth has no effect: this timing has no memory-bound work")
    if plan.grid.derives_tp:
        index: Index = tuple(slice(None) for _ in plan.grid.axes)
        hardware = plan.grid.scenario(index)[0].hardware
        scaling = np.unique(plan.grid.memory_scaling(index, hardware.memory_capacity))
        shown = ", ".join(f"{value:g}" for value in scaling[:5]) + (", ..." if scaling.size > 5 else "")
        found.append(f"tp is the required TP of Eq 10 at memory scaling {shown}, rounded up to a divisor of hidden")
    if "dp" not in plan.grid.names and any(np.any(timing.use_tiers) for timing in timings):
        found.append("dp is not given: gradients are reduced on intra-node links, as the paper estimates; "
                     "give dp to place them on the network tiers")  # fmt: skip
    model = plan.study.model
    ffn = float(model.fields.get("ffn_hidden", 0)) if model else 0.0
    if model and ffn not in (0, 4 * float(model.fields.get("hidden", 0))):
        found.append(f"{plan.model.name} takes an FC dimension of 4 x hidden; {model.name} has {ffn:.0f}")
    return found


def _dense_notes(plan: Plan) -> list[str]:
    """Return what of a model the papers that know only a plain GPT do not see."""
    model = plan.study.model
    if model is None:
        return []
    f = model.fields
    plain: dict[str, Value | None] = {"kv_heads": f.get("heads"), "gated": "off", "experts": 0, "window": None,
                                      "kv_lora_rank": None, "ffn_hidden": 4 * int(f.get("hidden", 0))}  # fmt: skip
    plain = {name: usual for name, usual in plain.items() if name not in plan.model.fields}
    unlike = {name: f[name] for name, usual in plain.items() if f.get(name, usual) != usual}
    if not unlike:
        return []
    has = ", ".join(f"{name} {value}" for name, value in unlike.items())
    return [f"{plan.model.name} takes {model.name} for a plain GPT: it does not see {has}"]


def _step_notes(plan: Plan) -> list[str]:
    found = []
    names = plan.grid.names
    if "global_batch" not in names and "accumulation" not in names:
        found.append("neither global_batch nor accumulation is given: a replica does one micro-batch a step")
    if "gpus" not in names and "dp" not in names:
        found.append("neither gpus nor dp is given: there is one replica (tp x cp x pp devices)")
    return found


__all__ = ["FEASIBLE", "REASON", "Plan", "make_plan", "notes"]
