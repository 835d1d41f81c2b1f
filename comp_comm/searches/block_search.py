"""The search of one block: its layouts are counted, ruled out by memory and by bounds, and the rest is timed.

`search_block` is the inner loop of every search. Of a block it does, in this order:

1. Memory of every row of degrees with every choice. It does not depend on the placement, and is cheap. Now all layouts
   are counted, and it is known which fit.
2. A lower bound of the score of what fits (`bounds`). Where many rows could matter, a few hundred promising ones are
   timed first, for incumbents that are good; with these most others are ruled out.
3. The score of what is left, placement by placement. It goes into the `SearchState`: the best, near misses, how many
   are nearly as good, the Pareto front, the best of each group.

Nothing that is reported depends on the order of blocks, or on what was ruled out: `tests/test_search_bounds.py`
compares with a search without bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np

from comp_comm.costmodels.layout_space import Bound, SearchableAnswer
from comp_comm.formulas.arrays import Array, Mask, unwarned
from comp_comm.searches.best import Place
from comp_comm.searches.blocks import PlacedBlock, RowBlock, RowMemory
from comp_comm.searches.bounds import Bounds
from comp_comm.searches.objectives import Aim
from comp_comm.searches.partition import nth_block, rows_at_once
from comp_comm.searches.space import SearchSpace
from comp_comm.searches.state import SearchState

PROBED = 2**9  # rows that are timed first to learn which of the others may be better
NEAR_MISSES, NEAR_TIMES = 3, 2.0  # so many are told, of those that need at most so many times the memory
Progress = Callable[[int], bool]


def keep_memory() -> None:
    """Let the C library keep the memory of large arrays for the next ones, not give it back and fetch it again.

    glibc does so once it has seen nearly 32 MiB freed at once; elsewhere this does nothing. A search is a tenth faster.
    """
    np.empty(30 * 2**17)


def search_block(state: SearchState, aim: Aim, space: SearchSpace, number: int) -> int:
    """Add what a block of a space has, by its number, to what was found; return how many points it has."""
    state.blocks += 1
    return BlockSearch(state, aim, space).search(nth_block(space, number))


class BlockSearch:
    """The search of a block of a space for an aim, which adds to a state.

    A second state, the probe, has what was timed out of order. What a layout must be better than is said by both: they
    are the incumbents.
    """

    def __init__(self, state: SearchState, aim: Aim, space: SearchSpace) -> None:
        self.state, self.aim, self.space = state, aim, space
        self.incumbents: tuple[SearchState, ...] = (state,)

    def search(self, block: PlacedBlock) -> int:
        """Count the layouts of a block and those that fit, then rank them; return how many points it has."""
        with unwarned():
            answer = self._evaluate(block.degrees)
            layouts = self._valid(answer, block.degrees) if self.space.rules_left else block.has_effect
            count = block.degrees.layouts(layouts)
            self.state.candidates += count
            if count:
                memory = self._memory(answer, layouts, block)
                self._rank_block(block, memory, answer)
        return block.points

    def _evaluate(self, block: RowBlock) -> SearchableAnswer:
        return cast(SearchableAnswer, self.space.plan.evaluate(block.index))

    def _valid(self, answer: SearchableAnswer, block: RowBlock) -> Mask:
        """Return which points of a block break no rule; what others break is counted."""
        axes = len(block.shape)
        valid = np.ones((1,) * axes, bool)
        for rule in answer.shape_violations:
            if rule.wrong and rule.broken.any():
                broken = rule.broken.reshape((1,) * (axes - rule.broken.ndim) + rule.broken.shape)
                valid = valid & ~broken
                self.state.reasons[rule.reason] = self.state.reasons.get(rule.reason, 0) + block.layouts(broken)
        return valid

    def _memory(self, answer: SearchableAnswer, layouts: Mask, block: PlacedBlock) -> RowMemory:
        """Return what memory says of the points of a block, and count those that fit."""
        degrees, state = block.degrees, self.state
        needed, valid = degrees.broadcast(answer.memory_bytes), degrees.broadcast(layouts)
        usable = self.aim.usable * answer.memory_capacity
        fits = (needed <= usable) & layouts
        state.feasible += degrees.layouts(fits)
        _note_least_memory(state, needed, valid, degrees.place)
        memory = RowMemory(needed, valid, fits, (needed <= NEAR_TIMES * usable) & layouts & ~fits)
        if state.groups:
            placed = memory.of_rows(block.of)
            block.placed.grouped(self.space).count(state.groups, placed.layouts, placed.fits)
        return memory

    def _rank_block(self, block: PlacedBlock, memory: RowMemory, answer: SearchableAnswer) -> None:
        """Rank the points of a block that bounds do not rule out. ``answer`` is that of its rows of degrees.

        Each bound is closer than the one before and takes longer to know: it is asked of the rows that are left.
        """
        probe = self.state.probe()
        self.incumbents = (self.state, probe)
        left = block
        for bound in (Bound.AVERAGE, Bound.SLOWEST):
            if not left.unplaced:
                answer = self._evaluate(left.placed)
            bounds = self._bounds(left, memory, answer, bound)
            rows, probed = bounds.rows(self.incumbents), PROBED
            while bounds.known and bound is Bound.AVERAGE and rows.size > 4 * probed:
                # What is timed for the probe is timed again below: the state sees all in the order of their places.
                promising = bounds.promising(rows, probed)
                self._rank(probe, left.placed.of_rows(promising), memory.of_rows(left.of[promising]))
                rows, probed = bounds.rows(self.incumbents), 4 * probed
            if not bounds.known and left.unplaced and 2 * rows.size >= left.placed.rows.size:
                self._rank(self.state, left.placed, memory, answer)  # mostly all are left: use what is there
                return
            left = left.of_rows(rows)
            if not bounds.known or rows.size < PROBED:
                break
        size = rows_at_once(block.placed)
        for part in (slice(begin, begin + size) for begin in range(0, left.of.size, size)):
            self._rank(self.state, left.placed.of_rows(part), memory.of_rows(left.of[part]))

    def _bounds(self, block: PlacedBlock, memory: RowMemory, answer: SearchableAnswer, bound: Bound) -> Bounds:
        lower = self.aim.objective.lower_bound(self.space.plan.model, answer, bound)
        near_misses = self.aim.objective.timed and bool(self.state.near_misses.count)
        return Bounds(self.space, block, memory, lower, near_misses)

    def _rank(
        self, into: SearchState, block: RowBlock, memory: RowMemory, answer: SearchableAnswer | None = None
    ) -> None:
        """Add the points of a block to a state. ``answer`` is that at these points, where it is known already.

        Some take long to time (the longest path through all passes). Only those are that the closest bound leaves over;
        for the probe, whose others are ranked first, only those that may be the best of all.
        """
        answer = answer or self._evaluate(block)
        model, objective = self.space.plan.model, self.aim.objective
        if not answer.needs_longest_path or not objective.timed:
            self._add(into, block, memory, answer, objective.score(model, answer), np.asarray(True))
            return
        bounds = self._bounds(PlacedBlock.unplaced_rows(block), memory, answer, Bound.CLOSED_FORMS)
        if into is self.state:
            wanted = bounds.points(self.incumbents)
        else:
            seconds = answer.step_where(np.asarray(False))
            self._add(into, block, memory, answer, objective.of_seconds(model, answer, seconds), seconds < np.inf)
            wanted = bounds.may_be_best(self.incumbents)
        seconds = answer.step_where(wanted)
        self._add(into, block, memory, answer, objective.of_seconds(model, answer, seconds), wanted)

    def _add(
        self,
        into: SearchState,
        block: RowBlock,
        memory: RowMemory,
        answer: SearchableAnswer,
        score: Array,
        scored: Mask,
    ) -> None:
        """Add the points of a block that have a score to a state."""
        scores, scored = (block.broadcast(each).reshape(-1) for each in (score, scored))
        needed, fits, timed = memory.needed.reshape(-1), memory.fits.reshape(-1), self.aim.objective.timed
        # Few points of all are good enough to look at closely.
        good = np.flatnonzero((scores <= max(into.best.threshold, into.near_misses.threshold)) & scored)
        near_misses = [(into.near_misses, memory.near.reshape(-1)[good])] if timed else []
        for best, chosen in ((into.best, fits[good]), *near_misses):
            points = good[chosen]
            if points.size:
                seconds = [] if timed else [block.broadcast(answer.step_s).reshape(-1)[points]]
                numbers = np.stack([scores[points], needed[points], *seconds])
                best.add(numbers, block.layouts_of(points), points, block.place)
        if into.groups:
            block.grouped(self.space).improve(into.groups, scores, fits & scored)
        keep = np.flatnonzero(fits & scored)
        into.near_optimal.add(scores[keep], block.layouts_of(keep))
        into.front.add(scores[keep], needed[keep], lambda point: block.place(int(keep[point])))


def _note_least_memory(state: SearchState, needed: Array, valid: Mask, place: Callable[[int], Place]) -> None:
    if not needed.min() < state.least_memory_bytes:
        return
    layouts = np.where(valid, needed, np.inf)
    least = float(layouts.min())
    if least < state.least_memory_bytes:
        state.least_memory_bytes = least
        state.least_memory_place = place(int(layouts.argmin()))
