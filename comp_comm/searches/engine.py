"""Every layout of a space, evaluated block by block: counted, checked, and the best kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import accumulate
from math import prod
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from comp_comm.costmodels.layout_space import SearchableAnswer
from comp_comm.field import Value
from comp_comm.formulas.arrays import AnyArray, Array, Index, unwarned
from comp_comm.searches.landscape import Landscape
from comp_comm.searches.objectives import Objective
from comp_comm.searches.space import SearchSpace
from comp_comm.sweeps.blocks import extent

BLOCK_POINTS = 2**17
NEAR_MISSES = 3
Point = dict[str, Value]
Place = tuple[int, ...]  # where on each axis of the plan
Progress = Callable[[int], bool]
Mask = NDArray[np.bool_]


@dataclass
class BestPoints:
    """The best points so far, smallest score first: where each is, and its score. Of equal scores the first is better.

    ``bar`` is a score that must not be exceeded while there are few: what others found elsewhere.
    """

    count: int
    bar: float = np.inf
    scores: Array = field(default_factory=lambda: np.empty(0))
    places: list[Place] = field(default_factory=list)

    @property
    def threshold(self) -> float:
        """The score that a point must not exceed: none is good enough where none is asked for."""
        if not self.count:
            return -np.inf
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
        joined, both = np.concatenate([self.scores, scores]), [*self.places, *places]
        order = sorted(range(len(both)), key=lambda i: (joined[i], both[i]))[: self.count]
        self.scores, self.places = joined[order], [both[i] for i in order]


@dataclass
class SearchState:
    """What a search has seen so far: its best points, faster ones that do not fit, and how many there are of each kind.

    ``landscape`` is what is kept of every feasible layout, for a front and for how flat the top is. ``reasons`` counts
    the table's rows by the rule they broke; ``least_bytes`` is the least memory of any layout. ``blocks`` of the space
    were looked at.
    """

    best: BestPoints
    unfit: BestPoints
    blocks: int = 0
    candidates: int = 0
    feasible: int = 0
    landscape: Landscape = field(default_factory=Landscape)
    reasons: dict[str, int] = field(default_factory=dict)
    least_bytes: float = np.inf
    leanest: Place | None = None
    interrupted: bool = False

    def merge(self, other: SearchState) -> None:
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


def keep_memory() -> None:
    """Let the C library keep the memory of large arrays for the next ones, not give it back and fetch it again.

    glibc does so once it has seen nearly 32 MiB freed at once; elsewhere this does nothing. A search is a tenth faster.
    """
    np.empty(30 * 2**17)


def block_count(space: SearchSpace) -> int:
    """Return how many blocks a space has: about equal ranges of rows of each part, with all its choices."""
    return sum(_blocks(space))


def _blocks(space: SearchSpace) -> list[int]:
    """Return how many blocks each part has."""
    rows = ((end - begin, max(64, BLOCK_POINTS // prod(extent(choices)))) for begin, end, choices in space.spans())
    return [-(-count // each) for count, each in rows]


def search_block(state: SearchState, objective: Objective, space: SearchSpace, block: int) -> int:
    """Count and rank the points of one block; return how many points they are."""
    blocks = _blocks(space)
    place = next(i for i, end in enumerate(accumulate(blocks)) if block < end)
    number = block - sum(blocks[:place])
    begin, end, choices = [*space.spans()][place]
    first, last = (begin + (end - begin) * part // blocks[place] for part in (number, number + 1))
    state.blocks += 1
    return _search_rows(state, objective, space, RowBlock(choices, np.arange(first, last)))


@dataclass(frozen=True)
class RowBlock:
    """Points that are looked at together: some rows of a space, each with a part of its choices."""

    choices: tuple[slice, ...]
    rows: NDArray[np.intp]

    @property
    def shape(self) -> tuple[int, ...]:
        """Points along each axis."""
        return (*extent(self.choices), self.rows.size)

    @property
    def index(self) -> Index:
        """The block of the plan's grid."""
        first, last = int(self.rows[0]), int(self.rows[-1])
        return (*self.choices, slice(first, last + 1) if last - first < self.rows.size else self.rows)

    def place(self, flat: int) -> Place:
        """Return where on each axis of the plan a point is, by its number in the block."""
        *choices, row = (int(i) for i in np.unravel_index(flat, self.shape))
        return (*(each.start + i for each, i in zip(self.choices, choices, strict=True)), int(self.rows[row]))

    def broadcast(self, array: AnyArray) -> AnyArray:
        """Return an array as that of all points."""
        return np.broadcast_to(array, self.shape)


class RowMemory(NamedTuple):
    """Of every point of a block the bytes that it needs, whether it is a layout, and whether it fits."""

    needed: Array
    layouts: Mask
    fits: Mask

    def of_rows(self, rows: NDArray[np.intp]) -> RowMemory:
        """Return those of some rows."""
        return RowMemory(self.needed[..., rows], self.layouts[..., rows], self.fits[..., rows])


def _search_rows(state: SearchState, objective: Objective, space: SearchSpace, block: RowBlock) -> int:
    """Count the layouts of a block and those that fit, then rank them."""
    with unwarned():
        answer = cast(SearchableAnswer, space.plan.evaluate(block.index))
        layouts = _layouts(state, answer, len(block.shape)) if space.ruled else np.ones((1,) * len(block.shape), bool)
        valid = block.broadcast(layouts)
        count = int(np.count_nonzero(layouts)) * (valid.size // layouts.size)
        state.candidates += count
        if not count:
            return int(valid.size)
        needed = block.broadcast(answer.memory_bytes)
        fits = (needed <= answer.memory_capacity) & layouts
        state.feasible += int(np.count_nonzero(fits))
        _note_least(state, needed, valid, block.place)
        _rank_block(state, objective, space, block, answer, RowMemory(needed, valid, fits))
    return int(valid.size)


def _layouts(state: SearchState, answer: SearchableAnswer, axes: int) -> Mask:
    """Return which points of a block break no rule; what others break is counted."""
    layouts = np.ones((1,) * axes, bool)
    for rule in answer.shape_violations:
        if rule.wrong and rule.broken.any():
            layouts = layouts & ~rule.broken.reshape((1,) * (axes - rule.broken.ndim) + rule.broken.shape)
            state.reasons[rule.reason] = state.reasons.get(rule.reason, 0) + int(rule.broken.sum())
    return layouts


def _rank_block(state: SearchState, objective: Objective, space: SearchSpace, block: RowBlock, answer: SearchableAnswer,
                memory: RowMemory) -> None:  # fmt: skip
    """Rank the points of a block. Rows of which nothing fits are timed only where faster ones are asked for."""
    if not (objective.timed and state.unfit.count):
        fitting = np.flatnonzero(memory.fits.any(axis=tuple(range(len(block.choices)))))
        if 2 * fitting.size < block.rows.size:
            if not fitting.size:
                return
            block, memory = replace(block, rows=block.rows[fitting]), memory.of_rows(fitting)
            answer = cast(SearchableAnswer, space.plan.evaluate(block.index))
    _rank(state, objective, block.broadcast(objective.score(space.plan.model, answer)), memory, block.place)


def _rank(state: SearchState, objective: Objective, score: Array, memory: RowMemory,
          place: Callable[[int], Place]) -> None:  # fmt: skip
    """Add the points of a block to the best, to the better ones that do not fit, and to the landscape."""
    scores, fits = score.reshape(-1), memory.fits.reshape(-1)
    # Few points of all are good enough to look at closely.
    good = np.flatnonzero(scores <= max(state.best.threshold, state.unfit.threshold))
    state.best.add(scores[good], good, fits[good], place)
    if objective.timed:
        state.unfit.add(scores[good], good, ~fits[good] & memory.layouts.reshape(-1)[good], place)
    keep = np.flatnonzero(fits)
    state.landscape.add(scores[keep], memory.needed.reshape(-1)[keep])


def _note_least(state: SearchState, needed: Array, valid: Mask, place: Callable[[int], Place]) -> None:
    if not needed.min() < state.least_bytes:
        return
    layouts = np.where(valid, needed, np.inf)
    least = float(layouts.min())
    if least < state.least_bytes:
        state.least_bytes = least
        state.leanest = place(int(layouts.argmin()))


def point_of(space: SearchSpace, place: Place) -> Point:
    """Return the fields of a point by its place: the choices, the degrees, and the placement."""
    point = {field: values[i] for axis, i in zip(space.plan.grid.axes, place, strict=True)
             for field, values in axis.values.items()}  # fmt: skip
    fixed = {field: values[0] for field, values in space.choices.items() if len(values) == 1}
    return {**fixed, **point}
