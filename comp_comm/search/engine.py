"""Every layout of a space, evaluated block by block: counted, checked, and the best kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from comp_comm.costmodels.complete import Step
from comp_comm.formulas.arrays import Array, to_float
from comp_comm.search.objectives import Objective
from comp_comm.search.space import Space, named_twice
from comp_comm.sweep.plan import Plan

BLOCK_POINTS = 2**18
NEAR_MISSES = 3
Point = dict[str, Any]
Progress = Callable[[int], bool]


@dataclass
class Best:
    """The best points so far, smallest score first: where each is, and its score."""

    count: int
    scores: Array = field(default_factory=lambda: np.empty(0))
    places: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)

    @property
    def threshold(self) -> float:
        """The score a point must beat."""
        return float(self.scores[-1]) if len(self.places) == self.count else np.inf

    def add(self, scores: Array, plan: int, place: Callable[[int], tuple[int, ...]]) -> None:
        """Add the points of a block whose scores are good enough."""
        good = np.flatnonzero(scores < self.threshold)
        if good.size > self.count:
            good = good[np.argpartition(scores[good], self.count - 1)[: self.count]]
        if not good.size:
            return
        every = np.concatenate([self.scores, scores[good]])
        places = [*self.places, *((plan, place(int(i))) for i in good)]
        order = sorted(range(len(places)), key=lambda i: (every[i], places[i]))[: self.count]
        self.scores, self.places = every[order], [places[i] for i in order]


@dataclass
class Found:
    """What a search found: its best points, faster ones that do not fit, and how many there are of each kind.

    ``scores`` and ``memory`` are those of every feasible layout, for a front and for how flat the top is. ``reasons``
    counts the table's rows by the rule they broke; ``least_bytes`` is the least memory of any layout.
    """

    best: Best
    unfit: Best
    candidates: int = 0
    feasible: int = 0
    scores: list[Array] = field(default_factory=list)
    memory: list[Array] = field(default_factory=list)
    reasons: dict[str, int] = field(default_factory=dict)
    least_bytes: float = np.inf
    leanest: tuple[int, tuple[int, ...]] | None = None
    interrupted: bool = False


def run_search(space: Space, objective: Objective, top: int, progress: Progress | None = None) -> Found:
    """Evaluate every layout of a space and return what was found."""
    found = Found(Best(top), Best(NEAR_MISSES))
    for number, (_, plan) in enumerate(space.plans):
        for rows in _blocks(plan):
            points = _search_block(found, objective, space, number, rows)
            if progress and progress(points):
                found.interrupted = True
                return found
    return found


def _blocks(plan: Plan) -> Iterator[slice]:
    """Yield slices of the table: all choices go with each."""
    choices = int(np.prod([len(axis) for axis in plan.grid.axes[:-1]], dtype=np.int64))
    rows, step = len(plan.grid.axes[-1]), max(64, BLOCK_POINTS // choices)
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


def _search_block(found: Found, objective: Objective, space: Space, number: int, rows: slice) -> int:
    """Count and rank the points of some rows; return how many points they are."""
    plan = space.plans[number][1]
    index = (*(slice(0, len(axis)) for axis in plan.grid.axes[:-1]), rows)
    shape = tuple(part.stop - part.start for part in index)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        step = cast(Step, plan.evaluate(index))
        layout = ~named_twice(space, number, rows)
        for rule in step.violations:
            if rule.wrong and rule.broken.any():
                layout = layout & ~rule.broken
                found.reasons[rule.reason] = found.reasons.get(rule.reason, 0) + int(rule.broken.sum())
        valid = np.broadcast_to(layout, shape)
        count = int(valid.sum())
        found.candidates += count
        if not count:
            return int(valid.size)
        needed = np.where(layout, step.memory_bytes, np.inf)
        fits = np.broadcast_to(needed <= to_float(step.hardware.memory_capacity), shape)
        found.feasible += int(fits.sum())
        _note_least(found, np.broadcast_to(needed, shape), number, rows)
        score = np.broadcast_to(objective.score(step), shape)
    flat, place = fits.reshape(-1), _placing(shape, rows)
    scores = np.where(flat, score.reshape(-1), np.inf)
    found.best.add(scores, number, place)
    if objective.timed:
        found.unfit.add(np.where(valid.reshape(-1) & ~flat, score.reshape(-1), np.inf), number, place)
    keep = np.flatnonzero(flat)
    found.scores.append(scores[keep])
    found.memory.append(np.broadcast_to(needed, shape).reshape(-1)[keep])
    return int(valid.size)


def _placing(shape: tuple[int, ...], rows: slice) -> Callable[[int], tuple[int, ...]]:
    def place(flat: int) -> tuple[int, ...]:
        *choices, row = (int(i) for i in np.unravel_index(flat, shape))
        return (*choices, row + rows.start)

    return place


def _note_least(found: Found, needed: NDArray[np.float64], number: int, rows: slice) -> None:
    least = float(needed.min())
    if least < found.least_bytes:
        found.least_bytes = least
        found.leanest = (number, _placing(needed.shape, rows)(int(needed.argmin())))


def point_of(space: Space, place: tuple[int, tuple[int, ...]]) -> Point:
    """Return the fields of a point by its place: the choices, the degrees, and the placement."""
    number, indices = place
    name, plan = space.plans[number]
    point = {field: values[i] for axis, i in zip(plan.grid.axes, indices, strict=True)
             for field, values in axis.values.items()}  # fmt: skip
    fixed = {field: values[0] for field, values in space.choices.items() if len(values) == 1}
    return {**fixed, **point, "placement": name}
