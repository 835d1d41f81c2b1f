"""The space of a study: which layouts its search tries, on one number of devices, or of several cases together.

What a study gives decides what is tried: a field of the layout with one value is pinned, one with a list takes these
values, one that is not given takes those of the cost model's `LayoutSpace`, and a stack gives the values of its
framework. `joint_space` goes from the study to

1. what is wrong with it, model or hardware: told of the simplest layout (`_simplest`);
2. the table of degrees (`LayoutSpace.degrees`), joined with the choices that a stack makes by the degrees
   (`join_choices`);
3. the choices that go with any row, each an axis (`_choices`);
4. the rows that keep every rule, with every placement (`_with_rows`, by `valid_rows`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from comp_comm.configs.axes import Axis
from comp_comm.configs.study import Study
from comp_comm.costmodels import COST_MODELS, DEFAULT_COST_MODEL
from comp_comm.costmodels.layout_space import ChoiceValues, Degrees, LayoutQuestion, LayoutSpace, rows_of
from comp_comm.errors import ConfigError
from comp_comm.field import Value
from comp_comm.fields import FIELDS
from comp_comm.formulas.arrays import to_float
from comp_comm.placement import Placement
from comp_comm.searches.placements import placement_classes
from comp_comm.searches.question import model_of
from comp_comm.searches.row_choices import join_choices
from comp_comm.searches.space import SearchSpace
from comp_comm.searches.valid_rows import (
    ValidRows,
    all_rows,
    axis_of,
    placed_rows,
    subspaces,
    unplaced_rows,
    valid_rows,
)
from comp_comm.sweeps.grid import HARDWARE
from comp_comm.sweeps.plan import Plan, make_plan
from comp_comm.sweeps.stacked import row_givens, with_stack

GPUS = "gpus"
PLACEMENT = "placement"


def make_space(study: Study, gpus: int) -> SearchSpace:
    """Return the layouts of a study's model on ``gpus`` devices.

    A field of the layout that the study fixes is pinned; one with a list or a range takes only those values. Raises
    ``ConfigError`` with everything wrong with the study.
    """
    return joint_space(study, [{GPUS: gpus}])


def joint_space(study: Study, cases: Sequence[Mapping[str, Value]]) -> SearchSpace:
    """Return the layouts of a study's model in several cases at once: devices, and perhaps domains and batches of each.

    All devices that the study names are tried with every layout; the best of each are told apart by `grouped`.
    """
    layouts, model = _layout_space(study), model_of(study)
    free = _free(study, layouts)
    study = with_stack(study, model, free)
    _check(study, layouts)
    by_row = row_givens(study, free)
    plan = _simplest(study, layouts, {each.field for each in by_row})
    listed = _listed(study, layouts)
    degrees = _degrees(layouts, plan, listed, cases)
    defaults = {**dict.fromkeys(_choice_fields(layouts), ()), **_searched(layouts, plan.grid.fixed)}
    values = {name: listed[name] or of for name, of in defaults.items()}
    degrees = join_choices(degrees, by_row, plan.grid.fixed, values, model)
    choices = _choices(layouts, plan, {name: of for name, of in values.items() if name not in degrees.columns})
    placements = tuple(dict.fromkeys(map(str, listed[PLACEMENT] or Placement.words()))) if layouts.placed else ()
    plan = _over(study, plan, degrees, choices, cases[0])
    return _with_rows(study, int(cases[0][GPUS]), plan, degrees, placements, choices)


def _layout_space(study: Study) -> LayoutSpace:
    """Return what a search of a study's cost model tries."""
    space = model_of(study).space or COST_MODELS[DEFAULT_COST_MODEL].space
    if space is None:
        raise ConfigError(f"a search does not know the layouts of {study.cost_model}")
    return space


# -- what is tried ----------------------------------------------------------------------------------------------------


def _choice_fields(layouts: LayoutSpace) -> tuple[str, ...]:
    """Return the fields that a search can try values of, whatever the degrees are."""
    return tuple(dict.fromkeys((*layouts.searched, *layouts.searched_with_experts, *layouts.searched_if_listed,
                                *layouts.formats_if_listed)))  # fmt: skip


def _free(study: Study, layouts: LayoutSpace) -> tuple[str, ...]:
    """Return the fields of a layout that a search tries, unless a stack gives them one value."""
    return tuple(
        name
        for name in (*layouts.coupled, *_choice_fields(layouts))
        if name not in study.fixed or len(study.stacked.get(name, ())) > 1
    )


def _listed(study: Study, layouts: LayoutSpace) -> dict[str, tuple[Value, ...]]:
    """Return the values that a study, or its stack, gives of each field of a layout; none where it gives none."""
    given: ChoiceValues = {name: tuple(values) for axis in study.axes for name, values in axis.values.items()}
    fixed = {name: (value,) for name, value in study.fixed.items()}
    return {name: given.get(name) or study.stacked.get(name) or fixed.get(name) or ()
            for name in (*layouts.coupled, *_choice_fields(layouts), PLACEMENT)}  # fmt: skip


def _searched(layouts: LayoutSpace, fixed: Mapping[str, Value]) -> dict[str, tuple[Value, ...]]:
    """Return the choices that are tried of a model, unless its study says otherwise."""
    experts = bool(fixed.get("experts"))
    of_experts = layouts.searched_with_experts if experts else {}
    of_mla = layouts.searched_with_experts_and_mla if experts and fixed.get("kv_lora_rank") else {}
    return {**layouts.searched, **of_experts, **of_mla}


def _choices(layouts: LayoutSpace, plan: Plan, values: ChoiceValues) -> dict[str, tuple[Value, ...]]:
    """Return the choices that are tried with any degrees: those with ``values``, and those that dominate others."""
    choices = {name: of for name, of in values.items() if of}
    choices |= {name: of for name, of in _dominant(layouts, plan, choices).items() if name not in plan.grid.fixed}
    if layouts.without_dominated is None:
        return choices
    others = {name: plan.grid.words(name) for name in layouts.searched_if_listed
              if FIELDS[name].choice and name not in choices}  # fmt: skip
    return {name: of for name, of in layouts.without_dominated({**others, **choices}).items() if name in choices}


def _dominant(layouts: LayoutSpace, plan: Plan, choices: ChoiceValues) -> ChoiceValues:
    """Return the choices of software that can only help, by the formats of a plan and its dispatchers of tokens."""
    if layouts.dominant is None:
        return {}
    return layouts.dominant(plan.grid.scenario(()), choices.get("ep_dispatch", plan.grid.words("ep_dispatch")))


# -- what is wrong ----------------------------------------------------------------------------------------------------


def _check(study: Study, layouts: LayoutSpace) -> None:
    """Note what a study asks for that is no part of a layout, or follows from others; and a batch that is missing."""
    listed = {name: values for axis in study.axes for name, values in axis.values.items()}
    for name in sorted(listed.keys() - {*layouts.coupled, *_choice_fields(layouts), PLACEMENT, GPUS}):
        study.problem(name, f"{name} is no part of a layout to search; give it one value")
    for name, instead in layouts.derived.items():
        if name in study.origins:
            study.problem(name, f"{name} follows from the others in a search; {instead}")
    for name, (other, word) in layouts.needs_word.items():
        if name in study.origins and word not in (*listed.get(other, ()), study.fixed.get(other)):
            study.problem(name, f"{name} is for {other} {word}")
    if "global_batch" not in study.fixed:
        study.missing("global_batch")


def _simplest(study: Study, layouts: LayoutSpace, by_row: Collection[str]) -> Plan:
    """Return the plan of one simple layout of the study: what is wrong with the model or the hardware is said here.

    Rules about fields that are settled row by row are not: other layouts may keep them.
    """
    left_out = (*layouts.coupled, GPUS, *layouts.not_in_simplest)
    fixed = {name: value for name, value in study.fixed.items() if name not in left_out}
    single = {name: of[0] for name, of in _searched(layouts, study.fixed).items() if len(of) == 1}
    return make_plan(replace(study, axes=(), profiles=study.profiles[:1], hardware_axis=False,
                             fixed={**single, **fixed, **layouts.simplest}), by_row)  # fmt: skip


# -- the table of degrees ---------------------------------------------------------------------------------------------


def _degrees(layouts: LayoutSpace, plan: Plan, listed: ChoiceValues, cases: Sequence[Mapping[str, Value]]) -> Degrees:
    """Return the degrees of all cases as one table. Raises ``ConfigError`` where there are none."""
    domain = float(to_float(plan.grid.scenario(()).hardware.tiers[0].domain))
    tables = [layouts.degrees(LayoutQuestion({**plan.grid.fixed, **case}, int(case[GPUS]), listed,
                                             float(case.get("nvs", domain)))) for case in cases]  # fmt: skip
    degrees = tables[0] if len(cases) == 1 else _joined(tables, cases)
    if degrees.dropped and not rows_of(degrees.columns):
        # The last rule is the one that left nothing: what was dropped before it may have nothing to do with it.
        why = "; ".join(f"{reason} ({count:,} tried)" for reason, count in reversed(degrees.dropped.items()))
        raise ConfigError(f"no layout divides {int(cases[0][GPUS])} devices, the batch and the model: {why}")
    return degrees


def _joined(tables: Sequence[Degrees], cases: Sequence[Mapping[str, Value]]) -> Degrees:
    """Return tables of degrees as one, each row with what is of its case."""
    sizes = [rows_of(table.columns) for table in tables]
    columns = {name: np.concatenate([table.columns[name] for table in tables]) for name in tables[0].columns}
    columns |= {name: np.repeat([int(case[name]) for case in cases], sizes) for name in cases[0]}
    dropped: dict[str, int] = {}
    for table in tables:
        for reason, count in table.dropped.items():
            dropped[reason] = dropped.get(reason, 0) + count
    return Degrees(columns, dropped, tables[0].words)


# -- the space --------------------------------------------------------------------------------------------------------


def _over(study: Study, plan: Plan, degrees: Degrees, choices: ChoiceValues, case: Mapping[str, Value]) -> Plan:
    """Return a plan over all choices and all rows of degrees, the simplest layout's fields replaced."""
    layouts = _layout_space(study)
    moving = {*layouts.coupled, "dp", *degrees.columns, *choices}
    fixed = {name: value for name, value in plan.grid.fixed.items() if name not in moving}
    fixed |= case
    fixed |= {name: study.fixed[name] for name in layouts.not_in_simplest if name in study.fixed}
    fixed |= {name: values[0] for name, values in choices.items() if len(values) == 1}
    axes = [Axis({name: values}) for name, values in choices.items() if len(values) > 1]
    if len(study.profiles) > 1:
        axes.append(Axis({HARDWARE: tuple(profile.name for profile in study.profiles)}))
    grid = replace(plan.grid, profiles=study.profiles, fixed=fixed, axes=(*axes, axis_of(degrees)))
    return replace(plan, grid=grid, study=replace(plan.study, stacked=study.stacked))


def _with_rows(study: Study, gpus: int, plan: Plan, degrees: Degrees, placements: tuple[str, ...],
               choices: dict[str, tuple[Value, ...]]) -> SearchSpace:  # fmt: skip
    """Return the space of a plan: its rows that keep every rule, with every placement."""
    dropped, fixed = dict(degrees.dropped), plan.grid.fixed
    if not rows_of(degrees.columns):
        return SearchSpace(study, gpus, plan, degrees.columns, None, np.zeros(0, np.uint8), (), False, choices, dropped)
    # Rules are evaluated at the first placement: few depend on it, and `block_search` evaluates these.
    one_place = replace(plan.grid, fixed={**fixed, PLACEMENT: placements[0]} if placements else fixed)
    first = replace(plan, grid=one_place)
    valid = all_rows(first) if _layout_space(study).every_row_valid else valid_rows(first, dropped)
    parts = subspaces(first, valid)
    hardware = plan.grid.hardware(tuple(slice(0, 1) for _ in plan.grid.axes))[0]
    classes = placement_classes(degrees.columns, gpus, placements, hardware) if placements else None
    rows = placed_rows(degrees, parts, classes) if classes else unplaced_rows(degrees, parts, plan.grid.axes[-1])
    plan = replace(plan, grid=replace(plan.grid, axes=(*plan.grid.axes[:-1], rows.axis)))
    return SearchSpace(study, gpus, plan, degrees.columns, classes, rows.counts, rows.segments, valid.rules_left,
                       choices, dropped, clashes=_clashes(study, degrees, valid))  # fmt: skip


def _clashes(study: Study, degrees: Degrees, valid: ValidRows) -> tuple[str, ...]:
    """Return which layouts of a study's stack no layout can be, given what the study says itself."""
    by_row = {*degrees.columns} - {*_layout_space(study).coupled}
    return tuple(
        f"some layouts of stack {study.fixed.get('stack')} are left out: {reason} ("
        f"{', '.join(FIELDS[name].flag for name in fields if name in by_row)} gives what the stack does not)"
        for reason, fields in valid.broken.items() if by_row & {*fields} and {*fields} & {*study.origins} - by_row
    )  # fmt: skip
