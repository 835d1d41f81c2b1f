"""The space of a study: which layouts its search tries, on one number of devices, or of several cases together.

What a study gives decides what is tried: a field of the layout with one value is pinned, one with a list takes these
values, one that is not given takes those of the cost model's `LayoutSpace`, and a stack gives the values of its
framework. The path is

1. the fields that are open, and those that the stack settles (`_free`, `with_stack`, `row_givens`);
2. the table of degrees (`LayoutSpace.degrees`), joined with what follows from degrees (`join_choices`);
3. the choices that go with any row, each an axis (`_choices`);
4. the rows that keep every rule, with every placement (`valid_rows`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from comp_comm.choices import Placement
from comp_comm.configs.axes import Axis
from comp_comm.configs.study import Study
from comp_comm.costmodels import COST_MODELS, DEFAULT_COST_MODEL, CostModel, phase_of
from comp_comm.costmodels.layout_space import Degrees, LayoutQuestion, LayoutSpace, Tried, rows_of
from comp_comm.errors import ConfigError
from comp_comm.field import Value
from comp_comm.fields import FIELDS
from comp_comm.formulas.arrays import to_float
from comp_comm.searches.placements import placement_classes
from comp_comm.searches.row_choices import join_choices
from comp_comm.searches.space import SearchSpace
from comp_comm.searches.valid_rows import all_rows, axis_of, placed_rows, subspaces, unplaced_rows, valid_rows
from comp_comm.sweeps.grid import HARDWARE
from comp_comm.sweeps.plan import Plan, make_plan
from comp_comm.sweeps.stacked import row_givens, with_stack

GPUS = "gpus"


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
    about, model = _layout_space(study), _model_of(study)
    free = _free(study, about)
    study = with_stack(study, model, free)
    given = {name: tuple(values) for axis in study.axes for name, values in axis.values.items()}
    choosable = _choosable(about)
    _check(study, about, set(given) - {*about.table, *choosable, "placement", "gpus"})
    settled = row_givens(study, free)
    plan = _simplest(study, about, {each.field for each in settled})
    listed = {name: given.get(name) or study.stacked.get(name) or _fixed(study, name)
              for name in (*about.table, *choosable, "placement")}  # fmt: skip
    hardware = plan.grid.scenario(())[0].hardware
    domain = float(to_float(hardware.tiers[0].domain))
    tables = [about.degrees(LayoutQuestion({**plan.grid.fixed, **case}, int(case[GPUS]), listed,
                                           float(case.get("nvs", domain)))) for case in cases]  # fmt: skip
    degrees = tables[0] if len(cases) == 1 else _joined(tables, cases)
    gpus = int(cases[0][GPUS])
    if degrees.dropped and not rows_of(degrees.columns):
        raise ConfigError(_no_degrees(gpus, degrees))
    wanted = {name: listed[name] or tried for name, tried in
              {**dict.fromkeys(choosable, ()), **_tried(about, plan.grid.fixed)}.items()}  # fmt: skip
    degrees = join_choices(degrees, settled, plan.grid.fixed, wanted, model)
    choices = _choices(about, plan, {name: values for name, values in wanted.items() if name not in degrees.columns})
    placements = tuple(dict.fromkeys(map(str, listed["placement"] or Placement.words()))) if about.placed else ()
    moving = {*about.table, "dp", *degrees.columns, *choices}
    fixed = {name: value for name, value in plan.grid.fixed.items() if name not in moving}
    fixed |= cases[0]
    fixed |= {name: study.fixed[name] for name in about.of_others if name in study.fixed}
    fixed |= {name: values[0] for name, values in choices.items() if len(values) == 1}
    axes = [Axis({name: values}) for name, values in choices.items() if len(values) > 1]
    if len(study.profiles) > 1:
        axes.append(Axis({HARDWARE: tuple(profile.name for profile in study.profiles)}))
    grid = replace(plan.grid, profiles=study.profiles, fixed=fixed, axes=(*axes, axis_of(degrees)))
    plan = replace(plan, grid=grid, study=replace(plan.study, stacked=study.stacked))
    return _placed(study, gpus, plan, degrees, placements, choices)


def _choosable(about: LayoutSpace) -> tuple[str, ...]:
    """Return the fields that a search can try values of, whatever the degrees are."""
    return tuple(dict.fromkeys((*about.open, *about.of_mixtures, *about.choices, *about.recipes)))


def _choices(about: LayoutSpace, plan: Plan, wanted: Mapping[str, tuple[Value, ...]]) -> dict[str, tuple[Value, ...]]:
    """Return the choices that are tried with any degrees: those wanted, and those that can only help."""
    choices = {name: values for name, values in wanted.items() if values}
    choices |= {name: values for name, values in _helpful(about, plan, choices).items() if name not in plan.grid.fixed}
    if about.worthwhile is None:
        return choices
    kernels = {name: plan.grid.words(name) for name in about.choices if FIELDS[name].choice and name not in choices}
    return {name: values for name, values in about.worthwhile({**kernels, **choices}).items() if name in choices}


def _placed(study: Study, gpus: int, plan: Plan, degrees: Degrees, placements: tuple[str, ...],
            choices: dict[str, tuple[Value, ...]]) -> SearchSpace:  # fmt: skip
    """Return the space of rows that keep every rule, with every placement."""
    dropped, fixed = dict(degrees.dropped), plan.grid.fixed
    if not rows_of(degrees.columns):
        return SearchSpace(study, gpus, plan, degrees.columns, None, np.zeros(0, np.uint8), (), False, choices, dropped)
    one_place = {**fixed, "placement": placements[0]} if placements else fixed
    first = replace(plan, grid=replace(plan.grid, fixed=one_place))
    valid = all_rows(first) if _layout_space(study).lawful else valid_rows(first, dropped)
    parts = subspaces(first, valid)
    hardware = plan.grid.hardware(tuple(slice(0, 1) for _ in plan.grid.axes))[0]
    settled = {*degrees.columns} - {*_layout_space(study).table}
    clashes = tuple(
        f"some layouts of stack {study.fixed.get('stack')} are left out: {reason} ("
        f"{', '.join(FIELDS[name].flag for name in fields if name in settled)} gives what the stack does not)"
        for reason, fields in valid.broken.items() if settled & {*fields} and {*fields} & {*study.origins} - settled
    )  # fmt: skip
    classes = placement_classes(degrees.columns, gpus, placements, hardware) if placements else None
    rows = placed_rows(degrees, parts, classes) if classes else unplaced_rows(degrees, parts, plan.grid.axes[-1])
    plan = replace(plan, grid=replace(plan.grid, axes=(*plan.grid.axes[:-1], rows.axis)))
    return SearchSpace(study, gpus, plan, degrees.columns, classes, rows.counts, rows.segments, valid.rules_left,
                       choices, dropped, clashes=clashes)  # fmt: skip


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


def _tried(about: LayoutSpace, fixed: Mapping[str, Value]) -> dict[str, tuple[Value, ...]]:
    """Return the choices that are tried of a model, unless its study says otherwise."""
    mixture = about.of_mixtures if fixed.get("experts") else {}
    latent = about.of_latent_mixtures if fixed.get("experts") and fixed.get("kv_lora_rank") else {}
    return {**about.open, **mixture, **latent}


def _free(study: Study, about: LayoutSpace) -> tuple[str, ...]:
    """Return the fields of a layout that a search tries, unless a stack gives them one value."""
    return tuple(
        name
        for name in (*about.table, *_choosable(about))
        if name not in study.fixed or len(study.stacked.get(name, ())) > 1
    )


def _helpful(about: LayoutSpace, plan: Plan, choices: Mapping[str, tuple[Value, ...]]) -> Tried:
    """Return the choices of software that can only help, by the formats of a plan and its dispatchers of tokens."""
    if about.helpful is None:
        return {}
    return about.helpful(plan.grid.scenario(())[0], choices.get("ep_dispatch", plan.grid.words("ep_dispatch")))


def _layout_space(study: Study) -> LayoutSpace:
    """Return what a search of a study's cost model tries."""
    space = _model_of(study).space or COST_MODELS[DEFAULT_COST_MODEL].space
    if space is None:
        raise ConfigError(f"a search does not know the layouts of {study.cost_model}")
    return space


def _model_of(study: Study) -> CostModel:
    name = study.cost_model or DEFAULT_COST_MODEL
    model = COST_MODELS.get(name, COST_MODELS[DEFAULT_COST_MODEL])  # an unknown one is told when the plan is made
    return phase_of(model, study.fixed.get("phase"))


def _check(study: Study, about: LayoutSpace, others: set[str]) -> None:
    """Note what a study asks for that is no part of a layout, or follows from others; and a batch that is missing."""
    for name in sorted(others):
        study.problem(name, f"{name} is no part of a layout to search; give it one value")
    for name, instead in about.derived.items():
        if name in study.origins:
            study.problem(name, f"{name} follows from the others in a search; {instead}")
    listed = {name: values for axis in study.axes for name, values in axis.values.items()}
    for name, (other, word) in about.needs_word.items():
        if name in study.origins and word not in (*listed.get(other, ()), study.fixed.get(other)):
            study.problem(name, f"{name} is for {other} {word}")
    if "global_batch" not in study.fixed:
        study.missing("global_batch")


def _simplest(study: Study, about: LayoutSpace, settled: Collection[str]) -> Plan:
    """Return the plan of one simple layout of the study: what is wrong with the model or the hardware is said here.

    Rules about fields that are ``settled`` row by row are not: other layouts may keep them.
    """
    fixed = {name: value for name, value in study.fixed.items() if name not in (*about.table, "gpus", *about.of_others)}
    alone = {name: values[0] for name, values in _tried(about, study.fixed).items() if len(values) == 1}
    return make_plan(replace(study, axes=(), profiles=study.profiles[:1], hardware_axis=False,
                             fixed={**alone, **fixed, **about.alone}), settled)  # fmt: skip


def _no_degrees(gpus: int, degrees: Degrees) -> str:
    # The last rule is the one that left nothing: what was dropped before it may have nothing to do with it.
    why = "; ".join(f"{reason} ({count:,} tried)" for reason, count in reversed(degrees.dropped.items()))
    return f"no layout divides {gpus} devices, the batch and the model: {why}"


def _fixed(study: Study, name: str) -> tuple[Value, ...]:
    return (study.fixed[name],) if name in study.fixed else ()
