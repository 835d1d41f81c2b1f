"""Views of what a search found: the best for each value of some fields, and with more memory left free."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from comp_comm.choices import Placement
from comp_comm.errors import ConfigError, nearest, one_of
from comp_comm.field import Value
from comp_comm.fields import FIELDS
from comp_comm.records import Record, Records
from comp_comm.searches.best import Tie
from comp_comm.searches.each import Groups
from comp_comm.searches.objectives import Aim
from comp_comm.searches.space import SearchSpace
from comp_comm.searches.state import SearchState
from comp_comm.searches.table import about
from comp_comm.sweeps.interval import layouts_apart
from comp_comm.units import GIB

HEADROOMS = (0.05, 0.10, 0.20)
LISTED = 16  # values that are told one by one


def check_per(space: SearchSpace, fields: Sequence[str]) -> None:
    """Raise ``ConfigError`` where the best for each value of a field cannot be told, or of too many."""
    tied = space.plan.grid.axes[-1].values if space.rows else space.table
    able = [*tied, *(name for name in space.choices if name not in tied)]
    derived = about(space)[1].derived
    for name in fields:
        if name not in able:
            hint = f": it follows from {', '.join(able[:3])}" if name in derived else nearest(name, able)
            raise ConfigError(f"--per: '{name}' is no field of the layouts that are tried{hint} "
                              f"({one_of(able)})")  # fmt: skip


def ties_of_groups(state: SearchState) -> list[tuple[int, Tie]]:
    """Return the groups of which something fits, by number, with the best of each."""
    if state.each is None:
        return []
    return [(number, Tie((float(score),), 1, (place,))) for number, (score, place) in
            enumerate(zip(state.each.scores, state.each.places, strict=True)) if place is not None]  # fmt: skip


def per_record(
    space: SearchSpace, state: SearchState, aim: Aim, fields: Sequence[str], made: Mapping[int, Record]
) -> Record:
    """Return the best for each value: how many layouts there are and fit, and by how much it is worse than the best.

    ``fields`` are of those that the space's groups are told apart by, ``made`` the rows of the groups' best by number.
    """
    if space.groups is None or state.each is None:
        return {}
    best, lines = state.best.ties[0].score if state.best.ties else 0.0, []
    columns: Sequence[str] = list(next(iter(made.values()), ()))
    for values, numbers in _alike(space.groups, fields):
        counts = {"candidates": int(state.each.candidates[numbers].sum()),
                  "feasible": int(state.each.feasible[numbers].sum())}  # fmt: skip
        if not counts["candidates"]:
            continue
        number = numbers[int(state.each.scores[numbers].argmin())]
        behind = aim.objective.behind(float(state.each.scores[number]), best) if number in made else None
        others = made.get(number) or dict.fromkeys(columns)
        known = dict(zip(fields, values, strict=True))
        rest = {name: value for name, value in others.items() if name not in ("ties", "also", *known)}
        lines.append({**known, "behind_percent": behind, **counts, **rest})
    return {"fields": list(fields), "rows": lines}


def _alike(groups: Groups, fields: Sequence[str]) -> list[tuple[tuple[Value, ...], list[int]]]:
    """Return the values of some fields in their order, each with the numbers of the groups that have them."""
    places = [groups.fields.index(name) for name in fields]
    found: dict[tuple[Value, ...], list[int]] = {}
    for number, values in enumerate(groups.values):
        found.setdefault(tuple(values[i] for i in places), []).append(number)
    return sorted(found.items(), key=lambda item: _sortable(fields, item[0]))


def _sortable(fields: Sequence[str], values: Sequence[Value]) -> tuple[tuple[int, float, str], ...]:
    """Return what puts groups in order: numbers by size, words in the order of the choice."""
    key = []
    for name, value in zip(fields, values, strict=True):
        if isinstance(value, str):
            words = FIELDS[name].words or Placement.words()
            key.append((1, float(list(words).index(value)) if value in words else 0.0, value))
        else:
            key.append((0, float(value), ""))
    return tuple(key)


def roomy_ties(state: SearchState, headroom: float, capacity: float) -> list[tuple[float, Tie]]:
    """Return the best with more of the memory left free: those of the front, by what is left."""
    land, best = state.landscape, []
    for room in (share for share in HEADROOMS if share >= headroom):
        fitting = (land.memory <= (1 - room) * capacity).nonzero()[0]
        if fitting.size:
            at = int(fitting[0])
            best.append((room, Tie((float(land.scores[at]),), 1, (land.places[at],))))
    return best


def lean_ties(state: SearchState, aim: Aim) -> list[Tie]:
    """Return what cannot be told from the best and no layout beats in both time and memory, the least memory first.

    They are those of the front that are within `layouts_apart` of the best: of all layouts, however many are shown.
    None where a score is no time.
    """
    if not aim.objective.timed or not state.best.ties:
        return []
    land, best, share = state.landscape, state.best.ties[0].score, layouts_apart()
    tied = (land.scores <= best + abs(best) * share).nonzero()[0][::-1].tolist()
    return [Tie((float(land.scores[at]),), 1, (land.places[at],)) for at in tied]


def tied_record(state: SearchState, aim: Aim, ties: Sequence[Tie], rows: Records) -> Record | None:
    """Return what cannot be told from the best, as steps of measured layouts differ from predicted ones.

    ``percent`` behind the best are too few to tell; ``layouts`` fit and are within; ``rows`` are those of `lean_ties`.
    None where a score is no time.
    """
    if not ties:
        return None
    percent, best = 100 * layouts_apart(), state.best.ties[0].score
    lines = [{"behind_percent": aim.objective.behind(tie.score, best), **_alone(row)}
             for tie, row in zip(ties, rows, strict=True)]  # fmt: skip
    return {"percent": percent, "layouts": state.landscape.within(best, percent), "rows": lines}


def near_miss(best: Mapping[str, Any] | None, aim: Aim, row: Record) -> Record:
    """Return a faster layout that does not fit, with how many times the memory that may be filled it needs.

    >>> from comp_comm.searches.objectives import OBJECTIVES
    >>> best = {"memory": {"capacity_bytes": 80 * GIB}}
    >>> near_miss(best, Aim(OBJECTIVES["step"], headroom=0.25), {"memory_gib": 90.0, "ties": 1})
    {'memory_times': 1.5, 'memory_gib': 90.0, 'ties': 1}
    """
    usable = aim.usable * best["memory"]["capacity_bytes"] / GIB if best else 0.0
    return {"memory_times": row["memory_gib"] / usable if usable else None, **row}


def roomy_record(room: float, behind: float | None, row: Record) -> Record:
    """Return the best with so much of the memory left free."""
    return {"headroom_percent": 100 * room, "behind_percent": behind, **_alone(row)}


def _alone(row: Record) -> Record:
    return {name: value for name, value in row.items() if name not in ("ties", "also")}


def settled(space: SearchSpace) -> dict[str, Value]:
    """Return the choices that the search gave one value itself, since that is what stacks use or it can only help.

    >>> from comp_comm.configs.study import study_from
    >>> from comp_comm.searches.tried import make_space
    >>> given = {"model": "mixtral-8x7b", "hardware": "h100-sxm", "set": {"global_batch": 8, "overlap_ep": "off"}}
    >>> settled(make_space(study_from(given), 8))
    {'ep_dispatch': 'deepep'}
    """
    return {name: values[0] for name, values in space.choices.items()
            if len(values) == 1 and name not in space.study.fixed}  # fmt: skip


def not_tried(space: SearchSpace) -> dict[str, Record]:
    """Return the choices of a layout of which one value was tried, that value, and the others there are."""
    model, space_of = about(space)
    left: dict[str, Record] = {}
    recipes = (name for name in space_of.recipes if name in space.choices)
    for name in (*space_of.open, *space_of.choices, *recipes, *(("placement",) if space.placements else ())):
        if name in space.table:
            continue
        choice = FIELDS[name].choice
        tried = list(space.placements) if name == "placement" else [*space.choices.get(name, ())]
        value = tried[0] if tried else space.plan.grid.fixed.get(name, model.default(name))
        if choice is None or len(tried) > 1:
            continue
        left[name] = {"value": value, "others": [word for word in choice.words() if word != str(value)]}
    return left


def span(values: Sequence[object]) -> str:
    """Return values in few words, so that one can tell which they are.

    >>> span([1, 2, 4, 8]), span(["off", "on"]), span([0, 1, 2, 3]), span([1, 2, 4, 5, 8, 10])
    ('1 to 8 doubling', 'off, on', '0 to 3', '1, 2, 4, 5, 8, 10')
    >>> span([*range(1, 40, 2)])
    '20 values from 1 to 39'
    """
    known = list(values)
    numbers = [value for value in known if isinstance(value, (int, float))]
    if len(numbers) != len(known) or len(known) < 3:
        return ", ".join(map(str, known)) if len(known) <= 4 else f"all {len(known)}"
    for factor, more, said in ((1, 1, ""), (2, 0, " doubling")):
        if all(factor * a + more == b for a, b in pairwise(numbers)):
            return f"{known[0]} to {known[-1]}{said}"
    return ", ".join(map(str, known)) if len(known) <= LISTED else f"{len(known)} values from {known[0]} to {known[-1]}"
