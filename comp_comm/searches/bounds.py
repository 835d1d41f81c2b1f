"""Which layouts have to be timed: those that the least their step can take does not rule out.

This is the pruning of a branch and bound. Of every layout the memory is known, and a lower bound of its score, which
costs a fraction of the score itself. Of the layouts that fit, a search reports the best, how many are nearly as good,
the Pareto front of score against memory, and perhaps the best of each group; of those that do not fit, near misses that
are better than the best. For each of these there is a limit that a score must not exceed to change what is reported,
taken from the incumbents: what was found so far. A layout whose bound is above every limit is left untimed, and the
answer is that of a search that times everything.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from comp_comm.formulas.arrays import Array, Mask, distinct
from comp_comm.searches.blocks import PlacedBlock, RowMemory
from comp_comm.searches.space import SearchSpace
from comp_comm.searches.state import SearchState

ROUNDING = 1e-9  # a bound is added up in another order than a score


class Bounds:
    """Lower bounds of the scores of a block, for every row and the choices that they depend on.

    ``lower`` is None where nothing is known: then every row that could change what is reported has to be timed.
    ``near_misses`` says whether near misses are reported.
    """

    def __init__(
        self, space: SearchSpace, block: PlacedBlock, memory: RowMemory, lower: Array | None, near_misses: bool
    ) -> None:
        self.space, self.block, self.memory, self.near_misses = space, block, memory, near_misses
        self.known = lower is not None
        axes, rows = len(block.placed.shape), block.placed.rows.size
        lower = np.full(1, -np.inf) if lower is None else lower - ROUNDING * np.abs(lower)
        lower = lower.reshape((1,) * (axes - lower.ndim) + lower.shape)
        self.lower = np.broadcast_to(lower, (*lower.shape[:-1], rows))
        # Axes of choices that the bound does not depend on: of all choices there, the least memory that fits stands for
        # all, since with less memory a worse score is still on the front.
        self._shared_axes = tuple(axis for axis in range(axes - 1) if lower.shape[axis] == 1)
        self._least_memory = np.where(memory.fits, memory.needed, np.inf).min(axis=self._shared_axes, keepdims=True)

    def rows(self, incumbents: Sequence[SearchState]) -> NDArray[np.intp]:
        """Return the rows of which some point has to be timed."""
        wanted = self.points(incumbents)
        return np.flatnonzero(wanted.any(axis=tuple(range(wanted.ndim - 1))))

    def points(self, incumbents: Sequence[SearchState]) -> Mask:
        """Return which points have to be timed, beside what the incumbents have already."""
        limits = np.where(self._least_memory < np.inf, _limits(incumbents, self._least_memory), -np.inf)
        if self.near_misses:
            near = self.memory.near.any(axis=self._shared_axes, keepdims=True)
            worst = min(min(state.near_misses.threshold, state.near_optimal.best) for state in incumbents)
            limits = np.maximum(limits, np.where(near, worst, -np.inf))
        limits = limits if self.block.unplaced else limits.take(self.block.of, axis=-1)
        for state in incumbents[:1]:
            limits = np.maximum(limits, self._limits_of_groups(state)) if state.groups else limits
        return np.asarray((self.lower <= limits) & (limits > -np.inf))

    def may_be_best(self, incumbents: Sequence[SearchState]) -> Mask:
        """Return which points that fit may be better than the best of the incumbents."""
        fits = self._least_memory < np.inf
        best = min(state.near_optimal.best for state in incumbents)
        return np.asarray((self.lower < best) & (fits if self.block.unplaced else fits.take(self.block.of, axis=-1)))

    def promising(self, rows: NDArray[np.intp], count: int) -> NDArray[np.intp]:
        """Return about ``count`` of some rows that may be on the front, all along it.

        Ranked first, they give incumbents close to the final ones, by which most other rows are ruled out. They are the
        least by score times a power of memory: each power is a part of the front.
        """
        memory, lower = self._least_memory.take(self.block.of[rows], axis=-1), self.lower[..., rows]
        lower = np.where(memory < np.inf, np.where(lower < 0, -1 / np.minimum(lower, -1e-300), lower), np.inf)
        memory = np.where(memory < np.inf, memory, 1.0)
        squared, quarter = np.square(memory), -(-count // 4)
        best: list[NDArray[np.intp]] = []
        for weighed in (lower, lower * np.sqrt(memory), lower * memory, lower * np.square(squared)):
            best.append(np.argpartition(weighed.min(axis=tuple(range(weighed.ndim - 1))), quarter)[:quarter])
        return rows[distinct(np.concatenate(best))]

    def _limits_of_groups(self, state: SearchState) -> Array:
        """Return the worst score that would be the best of the group of some point that fits."""
        if state.groups is None:
            raise TypeError("no groups are asked for")
        scores = self.block.placed.grouped(self.space).of_points(state.groups.scores)
        fits = self.memory.of_rows(self.block.of).fits
        worst: Array = np.where(fits, scores, -np.inf).max(axis=self._shared_axes, keepdims=True)
        return worst


def _limits(incumbents: Sequence[SearchState], memory: Array) -> Array:
    """Return the worst score that a feasible layout of so much memory can have and change what is reported."""
    best = min(state.best.threshold for state in incumbents)
    near_optimal = min(state.near_optimal.limit for state in incumbents)
    front = np.full(memory.shape, np.inf)
    for state in incumbents:
        front = np.minimum(front, state.front.best_score(memory))
    worst: Array = np.maximum(front, max(best, near_optimal))
    return worst
