"""Alternatives to the best layout: as good with less memory, with more of it left free, faster if there were more.

All are taken from the Pareto front and the near misses that a search keeps: nothing is searched again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from comp_comm.records import Record, Records
from comp_comm.searches.best import Tie
from comp_comm.searches.objectives import Aim
from comp_comm.searches.state import SearchState
from comp_comm.sweeps.interval import layouts_apart
from comp_comm.units import GIB

HEADROOMS = (0.05, 0.10, 0.20)


def headroom_ties(state: SearchState, headroom: float, capacity: float) -> list[tuple[float, Tie]]:
    """Return the best with more of the memory left free, each with the share that is left: they are on the front."""
    front, best = state.front, []
    for room in (share for share in HEADROOMS if share >= headroom):
        fitting = (front.memory <= (1 - room) * capacity).nonzero()[0]
        if fitting.size:
            at = int(fitting[0])
            best.append((room, Tie.single(front.scores[at], front.places[at])))
    return best


def headroom_record(room: float, behind: float | None, row: Record) -> Record:
    """Return the best with so much of the memory left free."""
    return {"headroom_percent": 100 * room, "behind_percent": behind, **_without_ties(row)}


def pareto_ties(state: SearchState, aim: Aim) -> list[Tie]:
    """Return what cannot be told from the best and no layout beats in both time and memory, the least memory first.

    They are those of the front that are within `layouts_apart` of the best: of all layouts, however many are shown.
    None where a score is no time.
    """
    if not aim.objective.timed or not state.best.ties:
        return []
    front, best, share = state.front, state.best.ties[0].score, layouts_apart()
    near = (front.scores <= best + abs(best) * share).nonzero()[0][::-1].tolist()
    return [Tie.single(front.scores[at], front.places[at]) for at in near]


def tied_record(state: SearchState, aim: Aim, ties: Sequence[Tie], rows: Records) -> Record | None:
    """Return what cannot be told from the best, as steps of measured layouts differ from predicted ones.

    ``percent`` behind the best are too few to tell; ``layouts`` fit and are within; ``rows`` are of `pareto_ties`.
    None where a score is no time.
    """
    if not ties:
        return None
    percent, best = 100 * layouts_apart(), state.best.ties[0].score
    lines = [{"behind_percent": aim.objective.behind(tie.score, best), **_without_ties(row)}
             for tie, row in zip(ties, rows, strict=True)]  # fmt: skip
    return {"percent": percent, "layouts": state.near_optimal.within(best, percent), "rows": lines}


def near_miss(best: Mapping[str, Any] | None, aim: Aim, row: Record) -> Record:
    """Return a faster layout that does not fit, with how many times the memory that may be filled it needs.

    >>> from comp_comm.searches.objectives import OBJECTIVES
    >>> best = {"memory": {"capacity_bytes": 80 * GIB}}
    >>> near_miss(best, Aim(OBJECTIVES["step"], headroom=0.25), {"memory_gib": 90.0, "ties": 1})
    {'memory_times': 1.5, 'memory_gib': 90.0, 'ties': 1}
    """
    usable = aim.usable * best["memory"]["capacity_bytes"] / GIB if best else 0.0
    return {"memory_times": row["memory_gib"] / usable if usable else None, **row}


def _without_ties(row: Record) -> Record:
    """Return a row that was made of one place: how many layouts tie with it is not known."""
    return {name: value for name, value in row.items() if name not in ("ties", "also")}
