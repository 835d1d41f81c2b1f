"""Which layouts have to be timed: those that may be among what a search tells, by the least a step can take.

All are counted, and their memory is known. Of those that fit, a search tells the best, how many are nearly as good, the
front of time against memory, and perhaps the best of each group; of those that do not, a few that are better than the
best. A layout whose score cannot be as good as any of these is left at that, and the answer is that of a search that
times everything.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from comp_comm.formulas.arrays import Array, Mask, distinct
from comp_comm.searches.blocks import PlacedBlock, RowMemory
from comp_comm.searches.landscape import Landscape
from comp_comm.searches.space import SearchSpace
from comp_comm.searches.state import SearchState

ROUNDING = 1e-9  # a bound is added up in another order than a score


class Bounds:
    """Scores that no layout of a block is better than, for every row and the choices that they depend on.

    Where nothing is known of them (``least`` is None), every row of which something is wanted has to be looked at.
    ``misses`` says whether better ones that nearly fit are wanted.
    """

    def __init__(
        self, space: SearchSpace, block: PlacedBlock, memory: RowMemory, least: Array | None, misses: bool
    ) -> None:
        self.space, self.block, self.memory, self.misses = space, block, memory, misses
        self.known = least is not None
        axes, rows = len(block.placed.shape), block.placed.rows.size
        least = np.full(1, -np.inf) if least is None else least - ROUNDING * np.abs(least)
        least = least.reshape((1,) * (axes - least.ndim) + least.shape)
        self.least = np.broadcast_to(least, (*least.shape[:-1], rows))
        self.others = tuple(axis for axis in range(axes - 1) if least.shape[axis] == 1)  # choices it says nothing about
        self._leanest = np.where(memory.fits, memory.needed, np.inf).min(axis=self.others, keepdims=True)

    def rows(self, seen: Sequence[SearchState]) -> NDArray[np.intp]:
        """Return the rows that may have something to tell beside what was ``seen``."""
        wanted = self.points(seen)
        return np.flatnonzero(wanted.any(axis=tuple(range(wanted.ndim - 1))))

    def points(self, seen: Sequence[SearchState]) -> Mask:
        """Return which choices of which rows may have something to tell beside what was ``seen``."""
        limits = np.where(self._leanest < np.inf, _limits(seen, self._leanest), -np.inf)
        if self.misses:
            unfit = self.memory.near.any(axis=self.others, keepdims=True)
            most = min(min(state.unfit.threshold, state.landscape.best) for state in seen)
            limits = np.maximum(limits, np.where(unfit, most, -np.inf))
        limits = limits if self.block.unplaced else limits.take(self.block.of, axis=-1)
        for state in seen[:1]:
            limits = np.maximum(limits, self._of_groups(state)) if state.each else limits
        return np.asarray((self.least <= limits) & (limits > -np.inf))

    def promising(self, rows: NDArray[np.intp], count: int) -> NDArray[np.intp]:
        """Return those of some rows, about so many, that may be on the front of time against memory, all along it."""
        memory, least = self._leanest.take(self.block.of[rows], axis=-1), self.least[..., rows]
        least = np.where(memory < np.inf, np.where(least < 0, -1 / np.minimum(least, -1e-300), least), np.inf)
        memory = np.where(memory < np.inf, memory, 1.0)
        lean, each = np.square(memory), -(-count // 4)
        best: list[NDArray[np.intp]] = []
        for weighed in (least, least * np.sqrt(memory), least * memory, least * np.square(lean)):
            best.append(np.argpartition(weighed.min(axis=tuple(range(weighed.ndim - 1))), each)[:each])
        return rows[distinct(np.concatenate(best))]

    def _of_groups(self, state: SearchState) -> Array:
        """Return the worst score that would be the best of the group of some point that fits."""
        if state.each is None:
            raise TypeError("no groups are asked for")
        scores = self.block.placed.grouped(self.space).of_points(state.each.scores)
        fits = self.memory.of_rows(self.block.of).fits
        worst: Array = np.where(fits, scores, -np.inf).max(axis=self.others, keepdims=True)
        return worst


def _limits(seen: Sequence[SearchState], memory: Array) -> Array:
    """Return the worst score that a layout of so much memory has something to tell with."""
    best = min(state.best.threshold for state in seen)
    as_good = min(state.landscape.limit for state in seen)
    front = np.full(memory.shape, np.inf)
    for state in seen:
        front = np.minimum(front, _front(state.landscape, memory))
    worst: Array = np.maximum(front, max(best, as_good))
    return worst


def _front(land: Landscape, memory: Array) -> Array:
    """Return the best score of a front with at most so much memory, infinity where it has none."""
    scores = np.append(np.inf, land.scores[::-1])
    best: Array = np.asarray(scores[np.searchsorted(land.memory[::-1], memory, side="right")])
    return best
