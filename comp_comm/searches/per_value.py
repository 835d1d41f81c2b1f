"""The best layout for each value of some fields (``--per tp``), and how many layouts have it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from comp_comm.errors import ConfigError, nearest, one_of
from comp_comm.field import Value
from comp_comm.fields import FIELDS
from comp_comm.placement import Placement
from comp_comm.records import Record
from comp_comm.searches.answer_rows import model_and_layouts
from comp_comm.searches.best import Tie
from comp_comm.searches.groups import Grouping
from comp_comm.searches.objectives import Aim
from comp_comm.searches.space import SearchSpace
from comp_comm.searches.state import SearchState


def check_per(space: SearchSpace, fields: Sequence[str], flag: str = "--per") -> None:
    """Raise ``ConfigError`` where the best for each value of a field that a flag names cannot be told."""
    coupled = space.plan.grid.axes[-1].values if space.rows else space.table
    able = [*coupled, *(name for name in space.choices if name not in coupled)]
    derived = model_and_layouts(space)[1].derived
    for name in fields:
        if name not in able:
            hint = f": it follows from {', '.join(able[:3])}" if name in derived else nearest(name, able)
            raise ConfigError(f"{flag}: '{name}' is no field of the layouts that are tried{hint} "
                              f"({one_of(able)})")  # fmt: skip


def ties_of_groups(state: SearchState) -> list[tuple[int, Tie]]:
    """Return the groups of which something fits, by number, with the best of each."""
    if state.groups is None:
        return []
    return [(number, Tie.single(score, place)) for number, (score, place) in
            enumerate(zip(state.groups.scores, state.groups.places, strict=True)) if place is not None]  # fmt: skip


def per_record(
    space: SearchSpace, state: SearchState, aim: Aim, fields: Sequence[str], made: Mapping[int, Record]
) -> Record:
    """Return the best for each value of some fields, with how much worse it is than the best of all, and how many
    layouts there are and fit.

    ``fields`` are some of those that groups differ in (`Grouping.fields`): groups that agree in them are put together.
    ``made`` are the rows of the groups' best, by the number of the group.
    """
    if space.grouping is None or state.groups is None:
        return {}
    best, lines = state.best.ties[0].score if state.best.ties else 0.0, []
    columns: Sequence[str] = list(next(iter(made.values()), ()))
    for values, numbers in _by_value(space.grouping, fields):
        counts = {"candidates": int(state.groups.candidates[numbers].sum()),
                  "feasible": int(state.groups.feasible[numbers].sum())}  # fmt: skip
        if not counts["candidates"]:
            continue
        number = numbers[int(state.groups.scores[numbers].argmin())]
        behind = aim.objective.behind(float(state.groups.scores[number]), best) if number in made else None
        row = made.get(number) or dict.fromkeys(columns)
        group = dict(zip(fields, values, strict=True))
        results = {name: value for name, value in row.items() if name not in ("ties", "also", *group)}
        lines.append({**group, "behind_percent": behind, **counts, **results})
    return {"fields": list(fields), "rows": lines}


def _by_value(grouping: Grouping, fields: Sequence[str]) -> list[tuple[tuple[Value, ...], list[int]]]:
    """Return the values of some fields in their order, each with the numbers of the groups that have them."""
    places = [grouping.fields.index(name) for name in fields]
    found: dict[tuple[Value, ...], list[int]] = {}
    for number, values in enumerate(grouping.values):
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
