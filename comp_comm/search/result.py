"""A search as records: the best layouts, how flat the top is, faster ones that do not fit, fronts, several at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from comp_comm.configs.study import Study
from comp_comm.costmodels import COST_MODELS, DEFAULT_COST_MODEL
from comp_comm.costmodels.complete import Step
from comp_comm.costmodels.complete_columns import COLUMNS, GIB
from comp_comm.costmodels.explanation import explain_step
from comp_comm.costmodels.registry import PHASES
from comp_comm.errors import ConfigError, InfeasibleError, nearest, one_of
from comp_comm.fields import FIELDS, Value
from comp_comm.search.engine import Found, Place, Progress, point_of, run_search
from comp_comm.search.foundation import FOUNDATION, TIMES, search_foundation
from comp_comm.search.objectives import OBJECTIVES, Objective
from comp_comm.search.prices import FREE, Prices, costs
from comp_comm.search.space import Space, make_space
from comp_comm.sweep.result import as_study, identity

if TYPE_CHECKING:
    from concurrent.futures import Executor

Record = dict[str, Any]
LAYOUT = ("gpus", "tp", "cp", "pp", "vpp", "ep", "etp", "dp", "micro_batch", "accumulation", "zero", "sp", "recompute",
          "placement")  # fmt: skip
RESULTS = ("step_s", "tokens_per_s", "mfu", "hfu", "memory_gib", "exposed_comm_fraction", "bubble_fraction",
           "compute_s", "recompute_s", "bubble_s", "serialized_comm_s", "hidden_comm_s", "exposed_comm_s")  # fmt: skip
FLAT = (1, 2, 5, 10)
MAX_TOP = 10_000


def search(
    study: str | dict[str, Any] | Study,
    gpus: int,
    objective: str = "step",
    top: int = 10,
    prices: Prices = FREE,
    progress: Progress | None = None,
    executor: Executor | None = None,
) -> Record:
    """Return the best layouts of a study's model on so many devices, on its hardware.

    ``study`` is a path or catalogue name, a mapping of the same form, or one already read.

    The cost model is `complete`, or `foundation_models` with the layouts of its paper.

    ``progress`` is told of points that are done, and stops the search by returning True; ``executor`` (any of
    `concurrent.futures`) shares the work out, and changes nothing in the answer.

    Returns
    -------
    dict
        ``rows``: the best layouts with their results, best first; ``meta``: ``candidates`` (layouts that keep every
        rule of divisibility and placement), ``feasible`` (those that fit), ``within_percent`` (how many are nearly as
        good as the best); ``near_misses``: better ones that do not fit; ``front``: time against memory.

    Raises
    ------
    ConfigError
        Everything wrong with the study.
    InfeasibleError
        Where nothing fits, with the nearest miss.

    Examples
    --------
    >>> given = {"hardware": "h100-sxm", "model": "llama-3-8b", "set": {"global_batch": 64}}
    >>> best = search(given, 8)["rows"][0]
    >>> best["gpus"], best["tp"] * best["pp"] * best["dp"]
    (8, 8)
    """
    study = as_study(study)
    aim = check_question(study, objective, top)
    if not isinstance(gpus, int) or gpus < 1:
        raise ConfigError(f"gpus must be a whole number of devices, not {gpus!r}; search each number by itself")
    if study.cost_model == FOUNDATION:
        return checked(search_foundation(study, gpus, objective, top, prices))
    space = make_space(study, gpus)
    found = run_search(space, aim, top, progress, executor)
    return checked(answer(space, found, objective, prices))


def checked(result: Record) -> Record:
    """Return a result that has rows. Raises ``InfeasibleError`` where it has none."""
    if result["reason"]:
        raise InfeasibleError(result["reason"])
    return result


def answer(space: Space, found: Found, objective: str, prices: Prices = FREE) -> Record:
    """Return what was found as `search` does; where nothing fits there are no rows, and ``reason`` says why."""
    gpus = space.gpus
    rows = [_row(space, place, prices) for place in found.best.places]
    misses = [_row(space, place, prices) for place, score in zip(found.unfit.places, found.unfit.scores, strict=True)
              if rows and score < found.best.scores[0]]  # fmt: skip
    meta = _meta(space, found, gpus, objective)
    reason = None if found.feasible else why_nothing(space, found, gpus)
    return {"meta": meta, "rows": rows, "near_misses": misses, "front": front(found), "reason": reason}


def check_question(study: Study, name: str, top: int) -> Objective:
    """Return the objective of that name. Raises ``ConfigError`` where it, or ``top``, cannot be asked for."""
    if not 1 <= top <= MAX_TOP:
        raise ConfigError(f"--top must be from 1 to {MAX_TOP:,}, not {top}")
    if name not in OBJECTIVES:
        raise ConfigError(f"--objective: there is no '{name}'{nearest(name, OBJECTIVES)} ({one_of(list(OBJECTIVES))})")
    study.problems.raise_if_any()
    if name in ("days", "gpu-hours") and "tokens" not in study.fixed:
        raise ConfigError(f"--objective {name} needs 'tokens', those of the whole run")
    _check_model(study, name)
    return OBJECTIVES[name]


def _check_model(study: Study, objective: str) -> None:
    """Raise ``ConfigError`` where there is no search of a cost model, or none for an objective."""
    name = PHASES.get(str(study.fixed.get("phase")), study.cost_model or DEFAULT_COST_MODEL)
    if name in COST_MODELS and name not in (DEFAULT_COST_MODEL, FOUNDATION):
        raise ConfigError(f"a search knows the layouts of {DEFAULT_COST_MODEL} and {FOUNDATION}, not those of {name}; "
                          "list them in a study and rank them: compcomm sweep STUDY --top N")  # fmt: skip
    if name == FOUNDATION and objective not in TIMES:
        raise ConfigError(f"--objective {objective}: layouts of {FOUNDATION} are searched by time "
                          f"({one_of(TIMES)})")  # fmt: skip


def step_at(space: Space, place: Place) -> Step:
    """Return the step of one layout, alone: the evaluator of a single point."""
    plan, point = space.plan, point_of(space, place)
    fixed = {**plan.grid.fixed, **point}
    return cast(Step, replace(plan, grid=replace(plan.grid, fixed=fixed, axes=())).evaluate(()))


def _row(space: Space, place: Place, prices: Prices) -> Record:
    step, point = step_at(space, place), point_of(space, place)
    known = {**point, "gpus": int(step.gpus), "dp": int(step.dp), "accumulation": int(step.accumulation),
             "global_batch": int(step.global_batch)}  # fmt: skip
    row = {name: known[name] for name in (*LAYOUT, *(n for n in known if n not in LAYOUT)) if name in known}
    row |= {name: float(COLUMNS[name].of(step)) for name in RESULTS}
    if not np.isnan(step.run_tokens):
        row |= {name: float(COLUMNS[name].of(step)) for name in ("days", "gpu_hours")}
    numbers = (float(n) for n in (step.step_s, step.gpus, step.step_tokens, step.run_tokens))
    return row | costs(prices, *numbers)


def _meta(space: Space, found: Found, gpus: int, objective: str) -> Record:
    plan, study = space.plan, space.study
    brought = {n: v for n, v in (study.model.fields if study.model else {}).items() if n in plan.model.fields}
    best = float(found.best.scores[0]) if found.feasible else np.nan
    within = {str(percent): found.landscape.within(best, percent) for percent in FLAT}
    hardware = {profile.name: {"title": profile.title, "sha256": profile.sha256} for profile in plan.grid.profiles}
    searched = {name: sorted(set(column.tolist())) for name, column in space.table.items()}
    choices = {name: list(values) for name, values in space.choices.items() if len(values) > 1}
    return {
        **identity(), "command": "search", "title": study.title, "cost_model": plan.model.name,
        "study_sha256": study.sha256(), "hardware": hardware, "model": study.model.name if study.model else None,
        "model_fields": brought, "gpus": gpus, "objective": objective,
        "fixed": {name: value for name, value in sorted(study.fixed.items()) if name in plan.model.fields},
        "searched": {**searched, **choices, "placement": list(space.placements)},
        "candidates": found.candidates, "feasible": found.feasible, "within_percent": within,
        "dropped": dict(sorted({**space.dropped, **found.reasons}.items())), "interrupted": found.interrupted,
    }  # fmt: skip


def front(found: Found) -> list[Record]:
    """Return the scores and memory of feasible layouts that no other beats in both, most memory first."""
    land = found.landscape
    return [{"score": float(score), "memory_gib": float(memory) / GIB}
            for score, memory in zip(land.scores, land.memory, strict=True)]  # fmt: skip


def why_nothing(space: Space, found: Found, gpus: int) -> str:
    """Return why nothing fits, with the nearest miss and what would have to change."""
    if not found.candidates or found.leanest is None:
        broken = "; ".join(sorted({**space.dropped, **found.reasons}))
        return f"no layout on {gpus} devices keeps every rule: {broken}"
    step, point = step_at(space, found.leanest), point_of(space, found.leanest)
    has = float(step.hardware.memory_capacity) / GIB
    layout = ", ".join(f"{name} {value}" for name, value in point.items() if name != "placement" and value != 1)
    needs = found.least_bytes / GIB
    return (f"none of {found.candidates:,} layouts on {gpus} devices fits: the nearest ({layout}) needs {needs:.1f} "
            f"GiB of {has:.1f}; it would take {needs / has:.2f} times the memory, or more devices")  # fmt: skip


def breakdown(study: Study, row: Record) -> Record:
    """Return the full explanation of a row's layout (see `comp_comm.sweep.point.explain`)."""
    from comp_comm.sweep.point import point_of as plan_of

    known = {name: value for name, value in row.items() if name in FIELDS and name not in ("dp", "accumulation")}
    _, step = plan_of(replace(study, axes=(), fixed={**study.fixed, **known}))
    return explain_step(step)


def side_by_side(places: Sequence[Mapping[str, Value]], results: Sequence[Record]) -> list[Record]:
    """Return the best of several searches side by side, with the speed-up over the first that fits.

    Efficiency is over the first on the same hardware: tokens a second and device beside those of it. ``places`` say
    what each search is of: hardware, factors, devices. Where nothing fits there are no numbers, but a ``reason``.
    Raises ``InfeasibleError`` where nothing fits anywhere.
    """
    first = next((result["rows"][0] for result in results if result["rows"]), None)
    if first is None:
        reasons = dict.fromkeys(str(result["reason"]) for result in results)
        raise InfeasibleError("nothing fits anywhere:\n" + "\n".join(reasons))
    rows = []
    base: dict[tuple[Value, ...], float] = {}
    for place, result in zip(places, results, strict=True):
        meta, best = result["meta"], result["rows"][0] if result["rows"] else dict.fromkeys(first)
        gpus = meta["gpus"]
        speedup = best["tokens_per_s"] / first["tokens_per_s"] if result["rows"] else None
        same = tuple(value for name, value in place.items() if name != "gpus")
        each = best["tokens_per_s"] / gpus if result["rows"] else None
        efficiency = each / base.setdefault(same, each) if each else None
        known = {**place, "gpus": gpus}
        found = {name: value for name, value in best.items() if name not in known}
        rows.append({**known, **found, "speedup": speedup, "efficiency": efficiency, "candidates": meta["candidates"],
                     "feasible": meta["feasible"], "reason": result["reason"]})  # fmt: skip
    return rows


__all__ = ["Prices", "breakdown", "front", "search", "side_by_side"]
