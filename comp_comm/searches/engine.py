"""Every layout of a space, evaluated block by block: counted, checked, and the best kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from math import prod
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from comp_comm.costmodels.layout_space import SearchableAnswer
from comp_comm.field import Value
from comp_comm.formulas.arrays import AnyArray, Array, Index, unwarned
from comp_comm.searches.best import BestPoints, Place
from comp_comm.searches.each import BestOfEach, BlockGroups
from comp_comm.searches.landscape import Landscape
from comp_comm.searches.objectives import Aim
from comp_comm.searches.space import SearchSpace
from comp_comm.sweeps.blocks import extent

BLOCK_POINTS = 2**18
NEAR_MISSES = 3
MOST_ADDED = 255  # truths that a byte can add up
Point = dict[str, Value]
Counts = NDArray[np.uint8]
Progress = Callable[[int], bool]
Mask = NDArray[np.bool_]


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
    each: BestOfEach | None = None
    interrupted: bool = False

    def merge(self, other: SearchState) -> None:
        """Add what was found in blocks that come after these."""
        self.best.put(other.best.ties)
        self.unfit.put(other.unfit.ties)
        self.landscape.merge(other.landscape)
        self.blocks += other.blocks
        self.candidates += other.candidates
        self.feasible += other.feasible
        for reason, count in other.reasons.items():
            self.reasons[reason] = self.reasons.get(reason, 0) + count
        if other.least_bytes < self.least_bytes:
            self.least_bytes, self.leanest = other.least_bytes, other.leanest
        if self.each and other.each:
            self.each.merge(other.each)


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


def search_block(state: SearchState, aim: Aim, space: SearchSpace, block: int) -> int:
    """Count and rank the points of one block; return how many points they are."""
    blocks = _blocks(space)
    place = next(i for i, end in enumerate(accumulate(blocks)) if block < end)
    number = block - sum(blocks[:place])
    begin, end, choices = [*space.spans()][place]
    first, last = (begin + (end - begin) * part // blocks[place] for part in (number, number + 1))
    state.blocks += 1
    return _search_rows(state, aim, space, RowBlock(choices, np.arange(first, last), space.counts[first:last]))


@dataclass(frozen=True)
class RowBlock:
    """Points that are looked at together: some rows of a space, each with a part of its choices.

    ``counts`` says how many layouts a point of each row stands for.
    """

    choices: tuple[slice, ...]
    rows: NDArray[np.intp]
    counts: Counts

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

    @cached_property
    def alone(self) -> bool:
        """Whether every point is one layout."""
        return bool((self.counts == 1).all())

    def of_rows(self, rows: NDArray[np.intp]) -> RowBlock:
        """Return the block of some of its rows."""
        return RowBlock(self.choices, self.rows[rows], self.counts[rows])

    def grouped(self, space: SearchSpace) -> BlockGroups:
        """Return its points by the groups whose best are asked for."""
        if space.groups is None:
            raise TypeError("no groups are asked for")
        return BlockGroups(space.groups, self.choices, self.rows, self.counts)

    def layouts(self, mask: Mask) -> int:
        """Return how many layouts the points of a mask are."""
        if self.alone:
            return int(np.count_nonzero(mask)) * (prod(self.shape) // mask.size)
        each = np.broadcast_to(mask, (*mask.shape[:-1], self.rows.size)).reshape(-1, self.rows.size).view(np.uint8)
        parts = (each[i : i + MOST_ADDED] for i in range(0, len(each), MOST_ADDED))
        rows = sum(part.sum(axis=0, dtype=np.uint8).astype(np.intp) for part in parts)
        return int(np.dot(rows, self.counts)) * (prod(self.shape[:-1]) // len(each))

    def layouts_of(self, points: NDArray[np.intp]) -> Counts:
        """Return how many layouts each of some points is, by its number in the block."""
        return np.ones(points.size, np.uint8) if self.alone else self.counts[points % self.rows.size]


class RowMemory(NamedTuple):
    """Of every point of a block the bytes that it needs, whether it is a layout, and whether it fits."""

    needed: Array
    layouts: Mask
    fits: Mask

    def of_rows(self, rows: NDArray[np.intp]) -> RowMemory:
        """Return those of some rows."""
        return RowMemory(self.needed[..., rows], self.layouts[..., rows], self.fits[..., rows])


def _search_rows(state: SearchState, aim: Aim, space: SearchSpace, block: RowBlock) -> int:
    """Count the layouts of a block and those that fit, then rank them."""
    with unwarned():
        answer = cast(SearchableAnswer, space.plan.evaluate(block.index))
        layouts = _layouts(state, answer, block) if space.ruled else np.ones((1,) * len(block.shape), bool)
        count = block.layouts(layouts)
        state.candidates += count
        if count:
            needed, valid = block.broadcast(answer.memory_bytes), block.broadcast(layouts)
            fits = (needed <= aim.usable * answer.memory_capacity) & layouts
            state.feasible += block.layouts(fits)
            _note_least(state, needed, valid, block.place)
            if state.each:
                block.grouped(space).count(state.each, valid, fits)
            _rank_block(state, aim, space, block, answer, RowMemory(needed, valid, fits))
    return prod(block.shape)


def _layouts(state: SearchState, answer: SearchableAnswer, block: RowBlock) -> Mask:
    """Return which points of a block break no rule; what others break is counted."""
    axes = len(block.shape)
    layouts = np.ones((1,) * axes, bool)
    for rule in answer.shape_violations:
        if rule.wrong and rule.broken.any():
            broken = rule.broken.reshape((1,) * (axes - rule.broken.ndim) + rule.broken.shape)
            layouts = layouts & ~broken
            state.reasons[rule.reason] = state.reasons.get(rule.reason, 0) + block.layouts(broken)
    return layouts


def _rank_block(state: SearchState, aim: Aim, space: SearchSpace, block: RowBlock, answer: SearchableAnswer,
                memory: RowMemory) -> None:  # fmt: skip
    """Rank the points of a block. Rows of which nothing fits are timed only where faster ones are asked for."""
    if not (aim.objective.timed and state.unfit.count):
        fitting = np.flatnonzero(memory.fits.any(axis=tuple(range(len(block.choices)))))
        if 2 * fitting.size < block.rows.size:
            if not fitting.size:
                return
            block, memory = block.of_rows(fitting), memory.of_rows(fitting)
            answer = cast(SearchableAnswer, space.plan.evaluate(block.index))
    score = block.broadcast(aim.objective.score(space.plan.model, answer)).reshape(-1)
    _rank(state, aim, space, score, memory, block, lambda: block.broadcast(answer.step_s).reshape(-1))


def _rank(state: SearchState, aim: Aim, space: SearchSpace, scores: Array, memory: RowMemory, block: RowBlock,
          seconds: Callable[[], Array]) -> None:  # fmt: skip
    """Add the points of a block to the best, to the better ones that do not fit, and to the landscape."""
    needed, fits = memory.needed.reshape(-1), memory.fits.reshape(-1)
    timed = aim.objective.timed
    # Few points of all are good enough to look at closely.
    good = np.flatnonzero(scores <= max(state.best.threshold, state.unfit.threshold))
    unfit = [(state.unfit, ~fits[good] & memory.layouts.reshape(-1)[good])] if timed else []
    for best, wanted in ((state.best, fits[good]), *unfit):
        points = good[wanted]
        if points.size:
            numbers = [scores[points], needed[points], *([] if timed else [seconds()[points]])]
            best.add(np.stack(numbers), block.layouts_of(points), points, block.place)
    if state.each:
        block.grouped(space).improve(state.each, scores, fits)
    keep = np.flatnonzero(fits)
    state.landscape.add(scores[keep], needed[keep], block.layouts_of(keep), lambda point: block.place(int(keep[point])))


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
