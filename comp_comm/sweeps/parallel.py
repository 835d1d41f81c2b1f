"""A sweep in parts: what a worker is told, what it does with that, and how the parts become one answer.

A worker gets a study and two integers, and makes the study's plan anew, once. Parts are cut by number, so that they
are the same whoever works on them: many workers give what one gives, to the last bit.
"""

from __future__ import annotations

import hashlib
import pickle
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from comp_comm.configs.study import Study
from comp_comm.records import Record
from comp_comm.structs import struct
from comp_comm.sweeps.engine import Progress, Rows, block_count, nth_rows
from comp_comm.sweeps.plan import FEASIBLE, REASON, Plan, make_plan
from comp_comm.sweeps.ranking import Best, Ranking
from comp_comm.sweeps.resume import packed, unpacked
from comp_comm.sweeps.stream import Piece
from comp_comm.version import __version__

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from comp_comm.sweeps.resume import Checkpoint

LEAST_POINTS, MOST_POINTS = 2**21, 2**26  # of a task: worth the trip, and short enough to stop after
TASKS_EACH = 32  # tasks a worker gets, where the points are enough for that
CACHED = 4
Made = TypeVar("Made")


@struct
class Job:
    """A study on its way to workers: pickled once, known by its digest, with the version that made it."""

    study: bytes
    digest: str
    version: str


def job_of(study: Study) -> Job:
    """Return a study as workers get it."""
    content = pickle.dumps(study)
    return Job(content, hashlib.sha256(content).hexdigest(), __version__)


class _Kept(threading.local):
    """What a thread of a worker made of the jobs it was given last: plans keep arrays, and are not for two threads."""

    def __init__(self) -> None:
        self.made: dict[Any, Any] = {}


_KEPT = _Kept()


def made_once(key: tuple[Any, ...], make: Callable[[], Made]) -> Made:
    """Return what ``make`` makes, kept for the next task of the same ``key``.

    >>> made_once(("doc",), list) is made_once(("doc",), list)
    True
    """
    if key not in _KEPT.made:
        while len(_KEPT.made) >= CACHED:
            _KEPT.made.pop(next(iter(_KEPT.made)))
        _KEPT.made[key] = make()
    kept: Made = _KEPT.made[key]
    return kept


def study_of(job: Job) -> Study:
    """Return the study of a job. Raises where this version would make something else of it."""
    from comp_comm.sweeps.executors import check_version

    check_version(job.version)
    study: Study = pickle.loads(job.study)
    return study


def plan_of(job: Job) -> Plan:
    """Return the plan of a job's study."""
    return made_once((job.digest,), lambda: make_plan(study_of(job)))


# -- rows -------------------------------------------------------------------------------------------------------------


def rows_of(job: Job, columns: Sequence[str], number: int) -> tuple[Rows, int]:
    """Return the rows of one block, and its points: a worker's task."""
    return nth_rows(plan_of(job), columns, number)


def piece_of(job: Job, columns: Sequence[str], encode: Callable[[Rows], bytes], number: int) -> Piece:
    """Return one block of rows, encoded where it is made: a worker's task."""
    return _encoded(plan_of(job), columns, encode, number)


def _encoded(plan: Plan, columns: Sequence[str], encode: Callable[[Rows], bytes], number: int) -> Piece:
    rows, points = nth_rows(plan, tuple(dict.fromkeys((*columns, FEASIBLE, REASON))), number)
    content = encode(Rows({name: rows.columns[name] for name in columns}))
    return Piece(content, len(rows), int(rows.columns[FEASIBLE].sum()), points)


def shared_rows(executor: Executor, plan: Plan, columns: Sequence[str], progress: Progress) -> Iterator[Rows]:
    """Yield what `row_blocks` yields, made by workers."""
    from comp_comm.sweeps.executors import in_order

    job = job_of(plan.study)
    calls = ((job, tuple(columns), number) for number in range(block_count(plan)))
    for rows, points in in_order(executor, rows_of, calls):
        yield rows
        if progress(points):
            return


def pieces(
    plan: Plan,
    columns: Sequence[str],
    encode: Callable[[Rows], bytes],
    executor: Executor | None = None,
    start: int = 0,
) -> Iterator[Piece]:
    """Yield the blocks of a plan's rows from number ``start`` on, encoded; ``encode`` can be sent to workers."""
    numbers = range(start, block_count(plan))
    if executor is None:
        yield from (_encoded(plan, columns, encode, number) for number in numbers)
        return
    from comp_comm.sweeps.executors import in_order

    job = job_of(plan.study)
    yield from in_order(executor, piece_of, ((job, tuple(columns), encode, number) for number in numbers))


# -- the best ---------------------------------------------------------------------------------------------------------


def rank_boxes(
    job: Job, by: str, count: int, ascending: bool, cutoff: tuple[float, int], first: int, last: int
) -> tuple[Best, int, int]:
    """Return the best of some boxes that pass ``cutoff``, which box comes next, and points done: a worker's task."""
    key = (job.digest, by, count, ascending)
    ranking = made_once(key, lambda: Ranking(plan_of(job), by, count, ascending))
    best = Best(count, cutoff)
    points = sum(ranking.add(number, best) for number in range(first, last))
    return best, last, points


@dataclass
class Ranked:
    """A ranking under way: the best so far, and how many of the boxes it is of. Can be kept, and gone on with."""

    ranking: Ranking
    best: Best = field(init=False)
    done: int = 0

    def __post_init__(self) -> None:
        self.best = self.ranking.begin()

    def steps(self, executor: Executor | None = None) -> Iterator[int]:
        """Rank the boxes that are left, a few at a time; yield points done after each few."""
        if executor is None:
            while self.done < self.ranking.boxes:
                points = self.ranking.add(self.done, self.best)
                self.done += 1
                yield points
            return
        from comp_comm.sweeps.executors import in_order, workers_of

        job, ranking = job_of(self.ranking.plan.study), self.ranking
        # Calls are made as workers take them: a later one has a closer cutoff.
        calls = ((job, ranking.by, ranking.count, ranking.ascending, self.best.threshold, *bounds)
                 for bounds in self._tasks(workers_of(executor)))  # fmt: skip
        for best, done, points in in_order(executor, rank_boxes, calls):
            self.best.add(best.values, best.flat)
            self.done = done
            yield points

    def state(self) -> Record:
        """Return what is known, as it can be kept."""
        return {"boxes": self.done, "values": packed(self.best.values), "rows": packed(self.best.flat)}

    def put(self, state: Record) -> None:
        """Go on from a state."""
        self.done = state["boxes"]
        self.best.add(unpacked(state["values"], "f8"), unpacked(state["rows"], "i8"))

    def _tasks(self, workers: int) -> Iterator[tuple[int, int]]:
        boxes, points = self.ranking.boxes, self.ranking.plan.grid.points
        wanted = min(max(points // (TASKS_EACH * workers), LEAST_POINTS), MOST_POINTS)
        step = max(1, wanted // self.ranking.box_points)
        for start in range(self.done, boxes, step):
            yield start, min(start + step, boxes)


def shared_ranking(
    ranking: Ranking,
    columns: Sequence[str],
    progress: Progress,
    executor: Executor | None,
    checkpoint: Checkpoint | None,
) -> Iterator[Rows]:
    """Yield what `ranked_blocks` yields, found by workers, or by this process; go on with what was kept."""
    ranked = Ranked(ranking)
    if checkpoint is not None and checkpoint.state:
        ranked.put(checkpoint.state)
    for points in ranked.steps(executor):
        stop = progress(points)
        if checkpoint is not None:
            checkpoint.keep(ranked.state, now=stop)
        if stop:
            break
    yield from ranking.rows(columns, ranked.best)
