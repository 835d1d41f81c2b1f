"""A search in parts: a worker gets the study and two integers, a range of blocks; what each found is merged.

What is best does not depend on who searched which block: equal scores are told apart by their places. A worker is also
given cutoffs, the scores that were good enough when its task was handed out, so that it does not time what others have
beaten already.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from comp_comm.records import Record
from comp_comm.searches.best import BestPoints, Tie
from comp_comm.searches.block_search import keep_memory, search_block
from comp_comm.searches.build_space import make_space
from comp_comm.searches.groups import GroupResults
from comp_comm.searches.near_optimal import NearOptimal
from comp_comm.searches.objectives import Aim
from comp_comm.searches.pareto_front import ParetoFront
from comp_comm.searches.partition import block_count
from comp_comm.searches.space import SearchSpace
from comp_comm.searches.state import SearchState
from comp_comm.sweeps.parallel import TASKS_EACH, Job, job_of, made_once, study_of

if TYPE_CHECKING:
    from concurrent.futures import Executor

MOST_BLOCKS = 128  # of a task: short enough to stop after


def search_blocks(
    job: Job,
    gpus: int,
    per: tuple[str, ...],
    aim: Aim,
    counts: tuple[int, int],
    cutoffs: tuple[float, float, float],
    first: int,
    last: int,
) -> tuple[SearchState, int]:
    """Return what some blocks have, and their points: a worker's task.

    ``counts`` says how many of the best and of near misses are wanted, ``cutoffs`` which scores of them are good
    enough, and the best that was found.
    """
    keep_memory()
    space = made_once((job.digest, gpus, per), lambda: make_space(study_of(job), gpus).grouped(per))
    best, near_misses = (BestPoints(count, cutoff) for count, cutoff in zip(counts, cutoffs[:2], strict=True))
    groups = GroupResults.of(len(space.grouping.values)) if space.grouping else None
    state = SearchState(best, near_misses, near_optimal=NearOptimal(best=cutoffs[2]), groups=groups)
    points = sum(search_block(state, aim, space, block) for block in range(first, last))
    state.near_optimal.compact()
    return state, points


def steps(state: SearchState, space: SearchSpace, aim: Aim, executor: Executor) -> Iterator[int]:
    """Let workers search the blocks that are left; yield points done as what they found is merged, in order."""
    from comp_comm.sweeps.executors import in_order, workers_of

    job, total = job_of(space.study), block_count(space)
    size = min(max(1, (total - state.blocks) // (TASKS_EACH * workers_of(executor))), MOST_BLOCKS)
    counts = (state.best.count, state.near_misses.count)
    # Calls are made as workers take them: a later one has closer cutoffs.
    per = space.grouping.fields if space.grouping else ()
    calls = ((job, space.gpus, per, aim, counts,
              (state.best.threshold, state.near_misses.threshold, state.near_optimal.best),
              first, min(first + size, total)) for first in range(state.blocks, total, size))  # fmt: skip
    for part, points in in_order(executor, search_blocks, calls):
        state.merge(part)
        yield points


def packed_state(state: SearchState) -> Record:
    """Return what was found, as it can be kept in a file."""
    from comp_comm.sweeps.resume import packed

    state.near_optimal.compact()
    front = state.front
    return {
        "blocks": state.blocks, "candidates": state.candidates, "feasible": state.feasible, "reasons": state.reasons,
        "least_memory_bytes": state.least_memory_bytes, "least_memory_place": state.least_memory_place,
        "groups": _packed_groups(state.groups), "best": _packed_best(state.best),
        "near_misses": _packed_best(state.near_misses), "near_optimal": packed(state.near_optimal.scores),
        "front": {"scores": packed(front.scores), "memory": packed(front.memory), "places": front.places},
    }  # fmt: skip


def unpacked_state(state: Record) -> SearchState:
    """Return what was found, of a state that was kept."""
    from comp_comm.sweeps.resume import unpacked

    scores = unpacked(state["near_optimal"], "f8")
    front_scores, front_memory = (unpacked(state["front"][name], "f8") for name in ("scores", "memory"))
    places = [tuple(place) for place in state["front"]["places"]]
    counted = {name: state[name] for name in ("blocks", "candidates", "feasible", "reasons", "least_memory_bytes")}
    return SearchState(
        _unpacked_best(state["best"]),
        _unpacked_best(state["near_misses"]),
        near_optimal=NearOptimal(scores, float(scores.min()) if scores.size else np.inf),
        front=ParetoFront(front_scores, front_memory, places),
        least_memory_place=tuple(state["least_memory_place"]) if state["least_memory_place"] else None,
        groups=_unpacked_groups(state["groups"]),
        **counted,
    )


def _packed_groups(groups: GroupResults | None) -> Record | None:
    from comp_comm.sweeps.resume import packed

    if groups is None:
        return None
    return {"scores": packed(groups.scores), "places": groups.places, "candidates": groups.candidates.tolist(),
            "feasible": groups.feasible.tolist()}  # fmt: skip


def _unpacked_groups(state: Record | None) -> GroupResults | None:
    from comp_comm.sweeps.resume import unpacked

    if state is None:
        return None
    counted = (np.asarray(state[name], np.int64) for name in ("candidates", "feasible"))
    places = [tuple(place) if place else None for place in state["places"]]
    return GroupResults(unpacked(state["scores"], "f8"), places, *counted)


def _packed_best(best: BestPoints) -> Record:
    return {"count": best.count, "ties": best.ties}


def _unpacked_best(state: Record) -> BestPoints:
    ties = [Tie(tuple(numbers), layouts, tuple(map(tuple, places))) for numbers, layouts, places in state["ties"]]
    return BestPoints(state["count"], ties=ties)
