"""The answer of a search: the best layouts as records, the alternatives to them, and what was searched.

`search` is the entry: a study in, an answer out. `answer` makes it of what a search found (`SearchState`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypedDict, cast

import numpy as np

from comp_comm.configs.study import Study, as_study
from comp_comm.costmodels.layout_space import SearchableAnswer
from comp_comm.errors import ConfigError, InfeasibleError
from comp_comm.field import Value
from comp_comm.formulas.arrays import Array, to_float
from comp_comm.records import Record
from comp_comm.searches.alternatives import headroom_record, headroom_ties, near_miss, pareto_ties, tied_record
from comp_comm.searches.answer_rows import Row, model_and_layouts, rows_of
from comp_comm.searches.best import Place, Tie
from comp_comm.searches.block_search import Progress
from comp_comm.searches.build_space import make_space
from comp_comm.searches.coverage import chosen_by_search, in_no_layout, not_tried
from comp_comm.searches.objectives import Aim
from comp_comm.searches.per_value import check_per, per_record, ties_of_groups
from comp_comm.searches.question import aim_of, check_question
from comp_comm.searches.run import run_search
from comp_comm.searches.runner_up import runner_up
from comp_comm.searches.space import SearchSpace
from comp_comm.searches.state import SearchState
from comp_comm.sweeps.meta import identity
from comp_comm.sweeps.plan_notes import notes
from comp_comm.sweeps.point import interval_of
from comp_comm.sweeps.prices import NO_PRICES, Prices
from comp_comm.units import GIB

if TYPE_CHECKING:
    from concurrent.futures import Executor

FLAT = (1, 2, 5, 10)
MANY_TIMES = 100  # the memory: told in three digits


class FrontPoint(TypedDict):
    """A feasible layout that no other beats in both its score and its memory."""

    score: float
    memory_gib: float


class BestRecord(TypedDict):
    """Where the time and the memory of the best layout go."""

    step_s: float
    parts: dict[str, float]
    memory: Record
    interval: Record | None
    notes: list[str]


class SearchAnswer(TypedDict):
    """What a search answers: no rows, but a ``reason``, where nothing fits."""

    meta: Record  # what was searched, how many layouts there are and fit, how many are nearly as good
    rows: list[Row]  # the best layouts, best first
    near_misses: list[Row]  # better ones that need a little more memory than there is
    front: list[FrontPoint]  # the Pareto front of score against memory
    reason: str | None  # why nothing fits
    best: BestRecord | None  # where the time and the memory of the best go
    per: Record | None  # the best for each value of the fields that were asked for
    runner_up: Row | None  # the best of other degrees than the best, where groups tell degrees apart
    headrooms: list[Row]  # the best with more of the memory left free
    tied: Record | None  # what measured runs could not tell from the best, and no other beats in time and memory


def search(
    study: str | Record | Study,
    gpus: int,
    objective: str = "step",
    top: int = 10,
    prices: Prices = NO_PRICES,
    progress: Progress | None = None,
    executor: Executor | None = None,
    headroom: float | None = None,
    per: Sequence[str] = (),
) -> SearchAnswer:
    """Return the best layouts of a study's model on so many devices, on its hardware.

    ``study`` is a path or catalogue name, a mapping of the same form, or one already read.

    The cost model is one that says which layouts there are (`LayoutSpace`).

    ``headroom`` is the share of the memory that is left free (the cost model's own where it is not given), ``per`` are
    fields for each of whose values the best is told beside the best of all.

    ``progress`` is told of points that are done, and stops the search by returning True; ``executor`` (any of
    `concurrent.futures`) shares the work out, and changes nothing in the answer.

    Returns
    -------
    dict
        ``rows``: the best layouts with their results, best first; ``meta``: ``candidates`` (layouts that keep every
        rule of divisibility and placement), ``feasible`` (those that fit), ``within_percent`` (how many are nearly as
        good as the best), ``not_tried`` (choices of which one value was tried); ``near_misses``: better ones that do
        not fit; ``front``: time against memory; ``headrooms``: the best with more memory left free; ``best``: where the
        time and the memory of the best go, with the interval of its step; ``tied``: what cannot be told from the
        best, as measured layouts tell: how many they are, and those that no other beats in both time and memory;
        ``per``: the best for each value of the fields asked for. A row is all layouts that no number tells apart:
        ``ties`` is how many, ``also`` in what they differ.

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
    aim = aim_of(study, check_question(study, objective, top, prices), headroom)
    if not isinstance(gpus, int) or gpus < 1:
        raise ConfigError(f"gpus must be a whole number of devices, not {gpus!r}; search each number by itself")
    space = make_space(study, gpus)
    check_per(space, per)
    space = space.grouped(per)
    state = run_search(space, aim, top, progress, executor)
    return checked(answer(space, state, aim, prices))


def checked(result: SearchAnswer) -> SearchAnswer:
    """Return a result that has rows. Raises ``InfeasibleError`` where it has none."""
    if result["reason"]:
        raise InfeasibleError(result["reason"])
    return result


def answer(space: SearchSpace, state: SearchState, aim: Aim, prices: Prices = NO_PRICES,
           per: Sequence[str] | None = None) -> SearchAnswer:  # fmt: skip
    """Return what was found as `search` does; where nothing fits there are no rows, and ``reason`` says why.

    ``per`` are those of the fields that groups differ in whose best is reported: all, if not given.
    """
    best = state.best.ties
    record = _best(space, best[0].place) if best else None
    headrooms = headroom_ties(state, aim.headroom, record["memory"]["capacity_bytes"]) if record else []
    groups = ties_of_groups(state)
    ties: dict[str, Sequence[Tie]] = {
        "best": best,
        "near_misses": [tie for tie in state.near_misses.ties if best and tie.score < best[0].score],
        "groups": [tie for _, tie in groups],
        "headrooms": [tie for _, tie in headrooms],
        # Which steps cannot be told apart is known from measured runs: of what has no interval, nothing is.
        "pareto_ties": pareto_ties(state, aim) if record and record["interval"] else [],
        "runner_up": [tie for tie in [runner_up(space, state)] if tie],
    }
    rows = _rows_by_kind(space, ties, prices)
    fields = space.grouping.fields if space.grouping and per is None else per
    of_groups = dict(zip((number for number, _ in groups), rows["groups"], strict=True))
    return {
        "meta": _meta(space, state, aim, record["notes"] if record else ()), "rows": rows["best"],
        "near_misses": [near_miss(record, aim, row) for row in rows["near_misses"]],
        "front": front(state),
        "reason": None if state.feasible else why_nothing(space, state, aim), "best": record,
        "per": per_record(space, state, aim, fields, of_groups) if fields else None,
        "runner_up": next(iter(rows["runner_up"]), None),
        "headrooms": [headroom_record(share, aim.objective.behind(tie.score, best[0].score), row)
                      for (share, tie), row in zip(headrooms, rows["headrooms"], strict=True)],
        "tied": tied_record(state, aim, ties["pareto_ties"], rows["pareto_ties"]),
    }  # fmt: skip


def _rows_by_kind(space: SearchSpace, ties: Mapping[str, Sequence[Tie]], prices: Prices) -> dict[str, list[Row]]:
    """Return the rows of several kinds of ties: one table of them all, which is evaluated as fast as one row."""
    rows = iter(rows_of(space, [tie for each in ties.values() for tie in each], prices))
    return {kind: [next(rows) for _ in each] for kind, each in ties.items()}


def step_at(space: SearchSpace, place: Place) -> SearchableAnswer:
    """Return the step of one layout, alone: the evaluator of a single point."""
    plan, point = space.plan, space.point(place)
    fixed = {**plan.grid.fixed, **point}
    return cast(SearchableAnswer, replace(plan, grid=replace(plan.grid, fixed=fixed, axes=())).evaluate(()))


def _number(of: Array) -> float:
    return float(to_float(of))


def _best(space: SearchSpace, place: Place) -> BestRecord:
    """Return the parts of a layout's step and memory."""
    step, (model, layouts) = step_at(space, place), model_and_layouts(space)
    parts = {said: _number(model.columns[name].of(step)) for said, name in layouts.time_columns.items()}
    (profile,) = space.plan.grid.profiles
    span = interval_of(space.plan, step, profile)
    return {"step_s": _number(step.step_s), "parts": parts, "memory": {**step.memory_record()}, "interval": span,
            "notes": step.notes()}  # fmt: skip


def _meta(space: SearchSpace, state: SearchState, aim: Aim, of_best: Sequence[str]) -> Record:
    """Return what a search says of itself; ``of_best`` is what a reader should know of the best one's numbers."""
    plan, study = space.plan, space.study
    brought = {n: v for n, v in (study.model.fields if study.model else {}).items() if n in plan.model.fields}
    best = state.best.ties[0].score if state.feasible else np.nan
    within = {str(percent): state.near_optimal.within(best, percent) for percent in FLAT}
    hardware = {profile.name: {"title": profile.title, "sha256": profile.sha256} for profile in plan.grid.profiles}
    choices = {name: list(values) for name, values in space.choices.items() if len(values) > 1}
    return {
        **identity(), "command": "search", "title": study.title, "cost_model": plan.model.name,
        "study_sha256": study.sha256(), "hardware": hardware, "model": study.model.name if study.model else None,
        "model_fields": brought, "gpus": space.gpus, "objective": aim.objective.name,
        "headroom": aim.headroom,
        "fixed": {name: value for name, value in sorted(study.fixed.items()) if name in plan.model.fields},
        "searched": {**space.tried, **choices, **({"placement": list(space.placements)} if space.placements else {})},
        "settled": chosen_by_search(space), "not_tried": not_tried(space),
        "candidates": state.candidates, "feasible": state.feasible, "within_percent": within,
        "dropped": dict(sorted({**space.dropped, **state.reasons}.items())),
        "notes": [*notes(plan), *space.clashes, *in_no_layout(space), *of_best], "interrupted": state.interrupted,
    }  # fmt: skip


def front(state: SearchState) -> list[FrontPoint]:
    """Return the scores and memory of feasible layouts that no other beats in both, most memory first."""
    return [{"score": float(score), "memory_gib": float(memory) / GIB}
            for score, memory in zip(state.front.scores, state.front.memory, strict=True)]  # fmt: skip


def why_nothing(space: SearchSpace, state: SearchState, aim: Aim) -> str:
    """Return why nothing fits, with the nearest miss and what would have to change."""
    gpus = space.gpus
    if not state.candidates or state.least_memory_place is None:
        # Rules that whole layouts broke come first: those that degrees broke are always some.
        broken = "; ".join(dict.fromkeys([*sorted(state.reasons), *sorted(space.dropped)]))
        _, layouts = model_and_layouts(space)
        return f"no layout on {gpus:,} devices {layouts.words_of_rules}{': ' if broken else ''}{broken}"
    place = state.least_memory_place
    point, has = space.point(place), _number(step_at(space, place).memory_capacity) / GIB
    layout = ", ".join(f"{name} {value}" for name, value in point.items() if name != "placement" and value != 1)
    needs, has = state.least_memory_bytes / GIB, has * aim.usable
    free = f" ({100 * aim.headroom:.4g} % of the memory is left free: --headroom)" if aim.headroom else ""
    room, times = f"{has:.1f}" if has >= 1 else f"{has:.2g}", needs / has
    more = f"{times:.2f}" if times < MANY_TIMES else f"{times:.3g}"
    return (f"none of {state.candidates:,} layouts on {gpus:,} devices fits: the nearest ({layout}) needs {needs:.1f} "
            f"GiB of {room}{free}; it would take {more} times the memory, or more devices")  # fmt: skip


def side_by_side(places: Sequence[Mapping[str, Value]], results: Sequence[SearchAnswer]) -> list[Row]:
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
        meta = result["meta"]
        best: Row = result["rows"][0] if result["rows"] else dict.fromkeys(first)
        gpus = meta["gpus"]
        speedup = best["tokens_per_s"] / first["tokens_per_s"] if result["rows"] else None
        same = tuple(value for name, value in place.items() if name != "gpus")
        each = best["tokens_per_s"] / gpus if result["rows"] else None
        efficiency = each / base.setdefault(same, each) if each else None
        known = {**place, "gpus": gpus}
        others = {name: value for name, value in best.items() if name not in known}
        rows.append({**known, **others, "speedup": speedup, "efficiency": efficiency, "candidates": meta["candidates"],
                     "feasible": meta["feasible"], "reason": result["reason"]})  # fmt: skip
    return rows


__all__ = ["Prices", "SearchAnswer", "front", "search", "side_by_side"]
