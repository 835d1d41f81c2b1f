"""The best layout of other degrees than the best: another way to do it, not the same one with another detail."""

from __future__ import annotations

import math

from comp_comm.searches.best import Tie
from comp_comm.searches.space import SearchSpace
from comp_comm.searches.state import SearchState

DEGREES = ("strategy", "tp", "tp1", "tp2", "cp", "pp", "ep", "dp")  # what a layout is called by, in any cost model


def degree_fields(space: SearchSpace) -> tuple[str, ...]:
    """Return the degrees that layouts of a space are told apart by; others follow from them (dp of `complete`)."""
    tied = space.plan.grid.axes[-1].values if space.rows else space.table
    return tuple(name for name in DEGREES if name in tied)


def runner_up(space: SearchSpace, state: SearchState) -> Tie | None:
    """Return the best layout of those that have other degrees than the best.

    None where no such layout fits, and where the groups whose best is known (`SearchSpace.grouped`) do not tell the
    degrees apart.
    """
    fields = degree_fields(space)
    if (
        space.grouping is None
        or state.groups is None
        or not state.best.ties
        or not set(fields) <= {*space.grouping.fields}
    ):
        return None
    best = space.point(state.best.ties[0].place)
    places = [space.grouping.fields.index(name) for name in fields]
    best_degrees = tuple(best[name] for name in fields)
    found = zip(state.groups.scores, state.groups.places, space.grouping.values, strict=True)
    others = [(float(score), place) for score, place, values in found
              if place is not None and math.isfinite(score)
              and tuple(values[i] for i in places) != best_degrees]  # fmt: skip
    return Tie.single(*min(others)) if others else None
