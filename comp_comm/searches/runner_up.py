"""The best layout of other degrees than the best: what a search has beside it, not the same with another detail."""

from __future__ import annotations

import math

from comp_comm.searches.best import Tie
from comp_comm.searches.engine import point_of
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
    names = degree_fields(space)
    if space.groups is None or state.each is None or not state.best.ties or not set(names) <= {*space.groups.fields}:
        return None
    best = point_of(space, state.best.ties[0].place)
    places = [space.groups.fields.index(name) for name in names]
    theirs = tuple(best[name] for name in names)
    others = [(float(score), place) for score, place, values in
              zip(state.each.scores, state.each.places, space.groups.values, strict=True)
              if place is not None and math.isfinite(score) and tuple(values[i] for i in places) != theirs]  # fmt: skip
    return Tie((min(others)[0],), 1, (min(others)[1],)) if others else None
