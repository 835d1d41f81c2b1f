"""Every layout of a space, looked at block by block: counted, checked, and the best kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from math import prod
from typing import cast

import numpy as np
from numpy.typing import NDArray

from comp_comm.costmodels.layout_space import Bound, SearchableAnswer
from comp_comm.field import Value
from comp_comm.formulas.arrays import Array, unwarned
from comp_comm.searches.best import Place
from comp_comm.searches.blocks import PlacedBlock, RowBlock, RowMemory
from comp_comm.searches.bounds import Bounds
from comp_comm.searches.objectives import Aim
from comp_comm.searches.space import SearchSpace
from comp_comm.searches.state import SearchState
from comp_comm.sweeps.blocks import extent

BLOCK_POINTS = 2**19
PROBED = 2**9  # rows that are ranked to learn which of the others may be better
NEAR_MISSES, NEAR_TIMES = 3, 2.0  # so many are told, of those that need at most so many times the memory
Point = dict[str, Value]
Progress = Callable[[int], bool]
Mask = NDArray[np.bool_]


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
    rows = ((end - begin, max(64, BLOCK_POINTS // prod(extent(choices)))) for begin, end, choices in _spans(space))
    return [-(-count // each) for count, each in rows]


def _spans(space: SearchSpace) -> Iterator[tuple[int, int, tuple[slice, ...]]]:
    """Yield the parts of a space: rows of degrees from one to another, and the choices that go with them."""
    for begin, end, choices in space.joined(BLOCK_POINTS):
        first, last = np.searchsorted(space.begins, (begin, end)).tolist()
        yield first, last, choices


def search_block(state: SearchState, aim: Aim, space: SearchSpace, block: int) -> int:
    """Count and rank the points of one block; return how many points they are."""
    blocks = _blocks(space)
    place = next(i for i, end in enumerate(accumulate(blocks)) if block < end)
    number = block - sum(blocks[:place])
    begin, end, choices = [*_spans(space)][place]
    first, last = (begin + (end - begin) * part // blocks[place] for part in (number, number + 1))
    state.blocks += 1
    return _search_rows(state, aim, space, PlacedBlock.between(space, choices, first, last))


def _search_rows(state: SearchState, aim: Aim, space: SearchSpace, block: PlacedBlock) -> int:
    """Count the layouts of a block and those that fit, then rank them.

    What memory they need does not depend on the placement.
    """
    degrees = block.degrees
    with unwarned():
        answer = cast(SearchableAnswer, space.plan.evaluate(degrees.index))
        layouts = _layouts(state, answer, degrees) if space.ruled else block.there
        count = degrees.layouts(layouts)
        state.candidates += count
        if count:
            needed, valid = degrees.broadcast(answer.memory_bytes), degrees.broadcast(layouts)
            room = aim.usable * answer.memory_capacity
            fits = (needed <= room) & layouts
            state.feasible += degrees.layouts(fits)
            _note_least(state, needed, valid, degrees.place)
            memory = RowMemory(needed, valid, fits, (needed <= NEAR_TIMES * room) & layouts & ~fits)
            if state.each:
                placed = memory.of_rows(block.of)
                block.placed.grouped(space).count(state.each, placed.layouts, placed.fits)
            _rank_block(state, aim, space, block, answer, memory)
    return block.points


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


def _rank_block(state: SearchState, aim: Aim, space: SearchSpace, block: PlacedBlock, answer: SearchableAnswer,
                memory: RowMemory) -> None:  # fmt: skip
    """Rank the points of a block that may be among what is told of all. ``answer`` is that of its rows of degrees."""
    rest, probe = block, state.afresh()
    seen = [state, probe]
    for bound in (Bound.AVERAGE, Bound.SLOWEST):
        if not rest.unplaced:
            answer = cast(SearchableAnswer, space.plan.evaluate(rest.placed.index))
        bounds = _bounds(state, aim, space, rest, memory, answer, bound)
        rows, few = bounds.rows(seen), PROBED
        while bounds.known and bound is Bound.AVERAGE and rows.size > 4 * few:
            # The promising first, and twice, so that the state sees all in the order of their places.
            some = bounds.promising(rows, few)
            _rank(probe, seen, aim, space, rest.placed.of_rows(some), memory.of_rows(rest.of[some]))
            rows, few = bounds.rows(seen), 4 * few
        if not bounds.known and rest.unplaced and 2 * rows.size >= rest.placed.rows.size:
            _rank(state, seen, aim, space, rest.placed, memory, answer)
            return
        rest = rest.of_rows(rows)
        if not bounds.known or rows.size < PROBED:
            break
    each = max(1, BLOCK_POINTS // prod(block.placed.shape[:-1]))
    for part in (slice(begin, begin + each) for begin in range(0, rest.of.size, each)):
        _rank(state, seen, aim, space, rest.placed.of_rows(part), memory.of_rows(rest.of[part]))


def _bounds(state: SearchState, aim: Aim, space: SearchSpace, block: PlacedBlock, memory: RowMemory,
            answer: SearchableAnswer, bound: Bound) -> Bounds:  # fmt: skip
    misses = aim.objective.timed and bool(state.unfit.count)
    return Bounds(space, block, memory, aim.objective.least(space.plan.model, answer, bound), misses)


def _rank(state: SearchState, seen: Sequence[SearchState], aim: Aim, space: SearchSpace, block: RowBlock,
          memory: RowMemory, known: SearchableAnswer | None = None) -> None:  # fmt: skip
    """Add the points of a block to the best, to the better ones that nearly fit, and to the landscape.

    ``known`` is the answer at these points, where it is there. What takes long to time, and has nothing to tell beside
    what was ``seen``, is left out.
    """
    answer = known or cast(SearchableAnswer, space.plan.evaluate(block.index))
    scores, scored = _scores(state, seen, aim, space, block, memory, answer)
    needed, fits, timed = memory.needed.reshape(-1), memory.fits.reshape(-1), aim.objective.timed
    # Few points of all are good enough to look at closely.
    good = np.flatnonzero((scores <= max(state.best.threshold, state.unfit.threshold)) & scored)
    unfit = [(state.unfit, memory.near.reshape(-1)[good])] if timed else []
    for best, chosen in ((state.best, fits[good]), *unfit):
        points = good[chosen]
        if points.size:
            seconds = [] if timed else [block.broadcast(answer.step_s).reshape(-1)[points]]
            best.add(
                np.stack([scores[points], needed[points], *seconds]), block.layouts_of(points), points, block.place
            )
    if state.each:
        block.grouped(space).improve(state.each, scores, fits & scored)
    keep = np.flatnonzero(fits & scored)
    state.landscape.add(scores[keep], needed[keep], block.layouts_of(keep), lambda point: block.place(int(keep[point])))


def _scores(state: SearchState, seen: Sequence[SearchState], aim: Aim, space: SearchSpace, block: RowBlock,
            memory: RowMemory, answer: SearchableAnswer) -> tuple[Array, Mask]:  # fmt: skip
    """Return the scores of the points of a block, and which of them have one."""
    model = space.plan.model
    if not answer.takes_long or not aim.objective.timed:
        return block.broadcast(aim.objective.score(model, answer)).reshape(-1), np.asarray(True)
    bounds = _bounds(state, aim, space, PlacedBlock.alone(block), memory, answer, Bound.UNWALKED)
    wanted = np.broadcast_to(bounds.points(seen), block.shape)
    return block.broadcast(aim.objective.score_where(wanted, model, answer)).reshape(-1), wanted.reshape(-1)


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
