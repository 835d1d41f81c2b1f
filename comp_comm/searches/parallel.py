"""A search in parts: a worker gets the study and two integers, a range of blocks; what each saw is put together.

A block is a range of rows of the table. What is best does not depend on who looked where: equal scores
are told apart by their places.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from comp_comm.records import Record
from comp_comm.searches.best import BestPoints, Tie
from comp_comm.searches.each import BestOfEach
from comp_comm.searches.engine import block_count, keep_memory, search_block
from comp_comm.searches.landscape import Landscape
from comp_comm.searches.objectives import Aim
from comp_comm.searches.space import SearchSpace
from comp_comm.searches.state import SearchState
from comp_comm.searches.tried import make_space
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
    bars: tuple[float, ...],
    first: int,
    last: int,
) -> tuple[SearchState, int]:
    """Return what some blocks hold, and their points: a worker's task.

    ``bars`` are the scores worth telling of, of those that fit and those that do not, and the best that was found.
    """
    keep_memory()
    space = made_once((job.digest, gpus, per), lambda: make_space(study_of(job), gpus).grouped(per))
    best, unfit = (BestPoints(count, bar) for count, bar in zip(counts, bars[:2], strict=True))
    each = BestOfEach.of(len(space.groups.values)) if space.groups else None
    state = SearchState(best, unfit, landscape=Landscape(best=bars[2]), each=each)
    points = sum(search_block(state, aim, space, block) for block in range(first, last))
    state.landscape.settle()
    return state, points


def steps(state: SearchState, space: SearchSpace, aim: Aim, executor: Executor) -> Iterator[int]:
    """Let workers look at the blocks that are left; yield points done as what they found is added, in order."""
    from comp_comm.sweeps.executors import in_order, workers_of

    job, total = job_of(space.study), block_count(space)
    size = min(max(1, (total - state.blocks) // (TASKS_EACH * workers_of(executor))), MOST_BLOCKS)
    counts = (state.best.count, state.unfit.count)
    # Calls are made as workers take them: a later one has a higher bar to pass.
    per = space.groups.fields if space.groups else ()
    calls = ((job, space.gpus, per, aim, counts,
              (state.best.threshold, state.unfit.threshold, state.landscape.best),
              first, min(first + size, total)) for first in range(state.blocks, total, size))  # fmt: skip
    for part, points in in_order(executor, search_blocks, calls):
        state.merge(part)
        yield points


def packed_state(state: SearchState) -> Record:
    """Return what was seen, as it can be kept."""
    from comp_comm.sweeps.resume import packed

    state.landscape.settle()
    land = state.landscape
    return {
        "blocks": state.blocks, "candidates": state.candidates, "feasible": state.feasible, "reasons": state.reasons,
        "least_bytes": state.least_bytes, "leanest": state.leanest,
        "each": _packed_each(state.each), "best": _packed_best(state.best), "unfit": _packed_best(state.unfit),
        "landscape": [packed(array) for array in (land.near_best, land.scores, land.memory)], "front": land.places,
    }  # fmt: skip


def _packed_best(best: BestPoints) -> Record:
    return {"count": best.count, "ties": best.ties}


def unpacked_state(state: Record) -> SearchState:
    """Return what was seen, of a state that was kept."""
    from comp_comm.sweeps.resume import unpacked

    near_best, scores, memory = (unpacked(text, "f8") for text in state["landscape"])
    places = [tuple(place) for place in state["front"]]
    land = Landscape(near_best, scores, memory, places, float(near_best.min()) if near_best.size else np.inf)
    counted = {name: state[name] for name in ("blocks", "candidates", "feasible", "reasons", "least_bytes")}
    leanest = tuple(state["leanest"]) if state["leanest"] else None
    best, unfit = (_unpacked_best(state[name]) for name in ("best", "unfit"))
    each = _unpacked_each(state["each"])
    return SearchState(best, unfit, landscape=land, leanest=leanest, each=each, **counted)


def _packed_each(each: BestOfEach | None) -> Record | None:
    from comp_comm.sweeps.resume import packed

    if each is None:
        return None
    return {"scores": packed(each.scores), "places": each.places, "candidates": each.candidates.tolist(),
            "feasible": each.feasible.tolist()}  # fmt: skip


def _unpacked_each(state: Record | None) -> BestOfEach | None:
    from comp_comm.sweeps.resume import unpacked

    if state is None:
        return None
    counted = (np.asarray(state[name], np.int64) for name in ("candidates", "feasible"))
    places = [tuple(place) if place else None for place in state["places"]]
    return BestOfEach(unpacked(state["scores"], "f8"), places, *counted)


def _unpacked_best(state: Record) -> BestPoints:
    ties = [Tie(tuple(numbers), layouts, tuple(map(tuple, places))) for numbers, layouts, places in state["ties"]]
    return BestPoints(state["count"], ties=ties)
