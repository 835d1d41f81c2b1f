"""A search in parts: a worker gets the study and two integers, a range of blocks; what each found is put together.

A block is a range of rows of the table. What is best does not depend on who looked where: equal scores
are told apart by their places.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from comp_comm.search.engine import Best, Found, Keeper, block_count, keep_memory, search_block
from comp_comm.search.landscape import Landscape
from comp_comm.search.objectives import OBJECTIVES, Objective
from comp_comm.search.space import Space, make_space
from comp_comm.sweep.parallel import TASKS_EACH, Job, job_of, made_once, study_of

if TYPE_CHECKING:
    from concurrent.futures import Executor

MOST_BLOCKS = 128  # of a task: short enough to stop after
Record = dict[str, Any]


def search_blocks(
    job: Job, gpus: int, objective: str, counts: tuple[int, int], bars: tuple[float, ...], first: int, last: int
) -> tuple[Found, int]:
    """Return what some blocks hold, and their points: a worker's task.

    ``bars`` are the scores worth telling of, of those that fit and those that do not, and the best that was found.
    """
    keep_memory()
    space = made_once((job.digest, gpus), lambda: make_space(study_of(job), gpus))
    best, unfit = (Best(count, bar) for count, bar in zip(counts, bars[:2], strict=True))
    found = Found(best, unfit, landscape=Landscape(best=bars[2]))
    points = sum(search_block(found, OBJECTIVES[objective], space, block) for block in range(first, last))
    found.landscape.settle()
    return found, points


def steps(found: Found, space: Space, objective: Objective, executor: Executor) -> Iterator[int]:
    """Let workers look at the blocks that are left; yield points done as what they found is added, in order."""
    from comp_comm.sweep.executors import in_order, workers_of

    job, total = job_of(space.study), block_count(space)
    name = next(name for name, aim in OBJECTIVES.items() if aim is objective)
    size = min(max(1, (total - found.blocks) // (TASKS_EACH * workers_of(executor))), MOST_BLOCKS)
    counts = (found.best.count, found.unfit.count)
    # Calls are made as workers take them: a later one has a higher bar to pass.
    calls = ((job, space.gpus, name, counts, (found.best.threshold, found.unfit.threshold, found.landscape.best),
              first, min(first + size, total)) for first in range(found.blocks, total, size))  # fmt: skip
    for part, points in in_order(executor, search_blocks, calls):
        found.merge(part)
        yield points


def keep(keeper: Keeper, found: Found, now: bool) -> None:
    """Keep what was found, if it is time to, or ``now``."""
    keeper.keep(lambda: _state(found), now)


def _state(found: Found) -> Record:
    from comp_comm.sweep.resume import packed

    found.landscape.settle()
    land = found.landscape
    return {
        "blocks": found.blocks, "candidates": found.candidates, "feasible": found.feasible, "reasons": found.reasons,
        "least_bytes": found.least_bytes, "leanest": found.leanest,
        "best": _best_state(found.best), "unfit": _best_state(found.unfit),
        "landscape": [packed(array) for array in (land.near, land.scores, land.memory)],
    }  # fmt: skip


def _best_state(best: Best) -> Record:
    from comp_comm.sweep.resume import packed

    return {"count": best.count, "scores": packed(best.scores), "places": best.places}


def resumed(keeper: Keeper | None) -> Found | None:
    """Return what was found before, if anything was kept."""
    if keeper is None or keeper.state is None:
        return None
    from comp_comm.sweep.resume import unpacked

    state = keeper.state
    near, scores, memory = (unpacked(text, "f8") for text in state["landscape"])
    land = Landscape(near, scores, memory, float(near.min()) if near.size else np.inf)
    counted = {name: state[name] for name in ("blocks", "candidates", "feasible", "reasons", "least_bytes")}
    leanest = tuple(state["leanest"]) if state["leanest"] else None
    return Found(_best(state["best"]), _best(state["unfit"]), landscape=land, leanest=leanest, **counted)


def _best(state: Record) -> Best:
    from comp_comm.sweep.resume import unpacked

    places = [tuple(place) for place in state["places"]]
    return Best(state["count"], scores=unpacked(state["scores"], "f8"), places=places)
