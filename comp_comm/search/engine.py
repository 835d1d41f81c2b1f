"""Every layout of a space, evaluated block by block: counted, checked, and the best kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from math import prod
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from comp_comm.costmodels.complete import Step
from comp_comm.formulas.arrays import Array, to_float
from comp_comm.search.landscape import Landscape
from comp_comm.search.objectives import Objective
from comp_comm.search.space import Space
from comp_comm.sweep.blocks import extent

if TYPE_CHECKING:
    from concurrent.futures import Executor

BLOCK_POINTS = 2**17
NEAR_MISSES = 3
Point = dict[str, Any]
Place = tuple[int, ...]  # where on each axis of the plan
Progress = Callable[[int], bool]
Mask = NDArray[np.bool_]


class Keeper(Protocol):
    """What keeps the state of a search, so that a killed one can be gone on with."""

    @property
    def state(self) -> dict[str, Any] | None:
        """What was kept, None at the beginning."""

    def keep(self, make: Callable[[], dict[str, Any]], now: bool = False) -> None:
        """Keep the state that ``make`` returns, if it is time to, or ``now``."""


@dataclass
class Best:
    """The best points so far, smallest score first: where each is, and its score. Of equal scores the first is better.

    ``bar`` is a score that must not be exceeded while there are few: what others found elsewhere.
    """

    count: int
    bar: float = np.inf
    scores: Array = field(default_factory=lambda: np.empty(0))
    places: list[Place] = field(default_factory=list)

    @property
    def threshold(self) -> float:
        """The score that a point must not exceed."""
        return float(self.scores[-1]) if len(self.places) == self.count else self.bar

    def add(self, scores: Array, points: NDArray[np.intp], wanted: Mask, place: Callable[[int], Place]) -> None:
        """Add those points of a block that are ``wanted``, and good enough; they are in the order of their places."""
        good = np.flatnonzero(wanted & (scores <= self.threshold) & (scores < np.inf))
        if good.size > self.count:
            edge = np.partition(scores[good], self.count - 1)[self.count - 1]
            above, equal = good[scores[good] < edge], good[scores[good] == edge]
            good = np.concatenate([above, equal[: self.count - above.size]])
        if good.size:
            self.put(scores[good], [place(int(i)) for i in points[good]])

    def put(self, scores: Array, places: list[Place]) -> None:
        """Add points; the best of all remain."""
        every, both = np.concatenate([self.scores, scores]), [*self.places, *places]
        order = sorted(range(len(both)), key=lambda i: (every[i], both[i]))[: self.count]
        self.scores, self.places = every[order], [both[i] for i in order]


@dataclass
class Found:
    """What a search found: its best points, faster ones that do not fit, and how many there are of each kind.

    ``landscape`` is what is kept of every feasible layout, for a front and for how flat the top is. ``reasons`` counts
    the table's rows by the rule they broke; ``least_bytes`` is the least memory of any layout. ``blocks`` of the space
    were looked at.
    """

    best: Best
    unfit: Best
    blocks: int = 0
    candidates: int = 0
    feasible: int = 0
    landscape: Landscape = field(default_factory=Landscape)
    reasons: dict[str, int] = field(default_factory=dict)
    least_bytes: float = np.inf
    leanest: Place | None = None
    interrupted: bool = False

    def merge(self, other: Found) -> None:
        """Add what was found in blocks that come after these."""
        self.best.put(other.best.scores, other.best.places)
        self.unfit.put(other.unfit.scores, other.unfit.places)
        self.landscape.merge(other.landscape)
        self.blocks += other.blocks
        self.candidates += other.candidates
        self.feasible += other.feasible
        for reason, count in other.reasons.items():
            self.reasons[reason] = self.reasons.get(reason, 0) + count
        if other.least_bytes < self.least_bytes:
            self.least_bytes, self.leanest = other.least_bytes, other.leanest


def run_search(
    space: Space,
    objective: Objective,
    top: int,
    progress: Progress | None = None,
    executor: Executor | None = None,
    keeper: Keeper | None = None,
) -> Found:
    """Evaluate every layout of a space and return what was found.

    ``executor`` shares the work out; ``keeper`` gives back what was found before, and keeps what is.
    """
    from comp_comm.search import parallel

    keep_memory()
    found = parallel.resumed(keeper) or Found(Best(top), Best(NEAR_MISSES))
    make = _steps if executor is None else partial(parallel.steps, executor=executor)
    for points in make(found, space, objective):
        stop, whole = bool(progress and progress(points)), found.blocks == block_count(space)
        found.interrupted = stop and not whole
        if keeper is not None:
            parallel.keep(keeper, found, now=stop or whole)
        if stop:
            break
    return found


def keep_memory() -> None:
    """Let the C library keep the memory of large arrays for the next ones, not give it back and fetch it again.

    glibc does so once it has seen nearly 32 MiB freed at once; elsewhere this does nothing. A search is a tenth faster.
    """
    np.empty(30 * 2**17)


def _steps(found: Found, space: Space, objective: Objective) -> Iterator[int]:
    """Look at the blocks that are left; yield the points of each when it is done."""
    while found.blocks < block_count(space):
        yield search_block(found, objective, space, found.blocks)


def block_count(space: Space) -> int:
    """Return how many blocks a space has: about equal ranges of rows of each part, with all its choices."""
    return sum(_blocks(space))


def _blocks(space: Space) -> list[int]:
    """Return how many blocks each part has."""
    rows = ((end - begin, max(64, BLOCK_POINTS // prod(extent(choices)))) for begin, end, choices in space.spans())
    return [-(-count // each) for count, each in rows]


def search_block(found: Found, objective: Objective, space: Space, block: int) -> int:
    """Count and rank the points of one block; return how many points they are."""
    blocks = _blocks(space)
    place = next(i for i, end in enumerate(accumulate(blocks)) if block < end)
    number = block - sum(blocks[:place])
    begin, end, choices = [*space.spans()][place]
    rows = slice(*(begin + (end - begin) * part // blocks[place] for part in (number, number + 1)))
    found.blocks += 1
    return _search_rows(found, objective, space, (*choices, rows))


def _search_rows(found: Found, objective: Objective, space: Space, index: tuple[slice, ...]) -> int:
    shape, place = extent(index), _placing(index)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        step = cast(Step, space.plan.evaluate(index))
        layout = np.ones((1,) * len(shape), bool)
        for rule in step.shape_violations if space.ruled else ():
            if rule.wrong and rule.broken.any():
                layout = layout & ~rule.broken.reshape((1,) * (len(shape) - rule.broken.ndim) + rule.broken.shape)
                found.reasons[rule.reason] = found.reasons.get(rule.reason, 0) + int(rule.broken.sum())
        valid = np.broadcast_to(layout, shape)
        count = int(np.count_nonzero(layout)) * (valid.size // layout.size)
        found.candidates += count
        if not count:
            return int(valid.size)
        needed = np.broadcast_to(step.memory_bytes, shape)
        fits = (needed <= to_float(step.hardware.memory_capacity)) & layout
        found.feasible += int(np.count_nonzero(fits))
        _note_least(found, needed, valid, place)
        score = np.broadcast_to(objective.score(step), shape)
    _rank(found, objective, score, needed, valid, fits, place)
    return int(valid.size)


def _rank(found: Found, objective: Objective, score: Array, needed: Array, valid: Mask, fits: Mask,
          place: Callable[[int], Place]) -> None:  # fmt: skip
    """Add the points of a block to the best, to the better ones that do not fit, and to the landscape."""
    scores, flat = score.reshape(-1), fits.reshape(-1)
    # Few points of all are good enough to look at closely.
    good = np.flatnonzero(scores <= max(found.best.threshold, found.unfit.threshold))
    found.best.add(scores[good], good, flat[good], place)
    if objective.timed:
        found.unfit.add(scores[good], good, ~flat[good] & valid.reshape(-1)[good], place)
    keep = np.flatnonzero(flat)
    found.landscape.add(scores[keep], needed.reshape(-1)[keep])


def _placing(index: tuple[slice, ...]) -> Callable[[int], Place]:
    shape, begins = extent(index), [part.start for part in index]

    def place(flat: int) -> Place:
        return tuple(int(i) + begin for i, begin in zip(np.unravel_index(flat, shape), begins, strict=True))

    return place


def _note_least(found: Found, needed: Array, valid: Mask, place: Callable[[int], Place]) -> None:
    if not needed.min() < found.least_bytes:
        return
    layouts = np.where(valid, needed, np.inf)
    least = float(layouts.min())
    if least < found.least_bytes:
        found.least_bytes = least
        found.leanest = place(int(layouts.argmin()))


def point_of(space: Space, place: Place) -> Point:
    """Return the fields of a point by its place: the choices, the degrees, and the placement."""
    point = {field: values[i] for axis, i in zip(space.plan.grid.axes, place, strict=True)
             for field, values in axis.values.items()}  # fmt: skip
    fixed = {field: values[0] for field, values in space.choices.items() if len(values) == 1}
    return {**fixed, **point}
