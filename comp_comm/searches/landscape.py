"""What is kept of every feasible layout: the scores nearly as good as the best, and those that no other beats.

Ten thousand million layouts do not fit in memory; what a search says of them all does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from comp_comm.formulas.arrays import Array
from comp_comm.searches.best import Place

KEPT_PERCENT = 16.0  # a little more than the widest share that is asked for (`within`)
MANY = 2**20  # scores that may be waiting to be sorted out
RULERS = 16
MIDDLES = (8, 4, 12, 2, 6, 10, 14, 0, 1, 3, 5)  # points of the front a block is held against, before a close look


def _nothing() -> Array:
    return np.empty(0)


@dataclass
class Landscape:
    """Scores near the ``best``, and the front of ``scores`` against ``memory`` with its places, best score first."""

    near_best: Array = field(default_factory=_nothing)
    scores: Array = field(default_factory=_nothing)
    memory: Array = field(default_factory=_nothing)
    places: list[Place] = field(default_factory=list)
    best: float = np.inf
    _waiting: list[Array] = field(default_factory=list)

    def add(self, scores: Array, memory: Array, layouts: NDArray[np.integer],
            place: Callable[[int], Place]) -> None:  # fmt: skip
        """Add feasible points by their scores, memory, how many layouts each is, and where each is by its number."""
        if scores.size:
            self.best = min(self.best, float(scores.min()))
            close = np.flatnonzero(scores <= self.limit)
            self._add_near(np.repeat(scores[close], layouts[close]))
            self._add_front(scores, memory, place)

    def merge(self, other: Landscape) -> None:
        """Add the layouts of another landscape."""
        for scores in (other.near_best, *other._waiting):
            self._add_near(scores)
        self._add_front(other.scores, other.memory, other.places.__getitem__)

    def within(self, best: float, percent: float) -> int:
        """Return how many scores are at most ``percent`` (up to 15) above the best.

        >>> land = Landscape()
        >>> land.add(np.array([1.0, 1.05, 2.0]), np.array([3.0, 2.0, 4.0]), np.array([1, 1, 6]), lambda i: (i,))
        >>> land.within(1.0, 5), land.places
        (2, [(0,), (1,)])
        """
        self.settle()
        return int((self.near_best <= best + abs(best) * percent / 100).sum())

    def settle(self) -> None:
        """Drop the scores that a better best has left behind."""
        scores = np.concatenate([self.near_best, *self._waiting])
        self.near_best, self._waiting = np.sort(scores[scores <= self.limit]), []

    @property
    def limit(self) -> float:
        """The score that one nearly as good as the best must not exceed."""
        return self.best + abs(self.best) * KEPT_PERCENT / 100 if np.isfinite(self.best) else np.inf

    def _add_near(self, scores: Array) -> None:
        self.best = min(self.best, float(scores.min(initial=np.inf)))
        self._waiting.append(scores[scores <= self.limit])
        if sum(part.size for part in self._waiting) > MANY:
            self.settle()

    def _add_front(self, scores: Array, memory: Array, place: Callable[[int], Place]) -> None:
        # Halves first: most layouts are beaten by a point in the middle of the front.
        size, points = self.scores.size, np.arange(scores.size)
        for i in dict.fromkeys(size * n // RULERS for n in MIDDLES) if size else ():
            if scores.size < RULERS:
                break
            left = np.flatnonzero((scores < self.scores[i]) | (memory < self.memory[i]))
            scores, memory, points = scores[left], memory[left], points[left]
        scores, memory = np.concatenate([self.scores, scores]), np.concatenate([self.memory, memory])
        if not scores.size:
            return
        order = np.lexsort((memory, scores))
        lean = np.minimum.accumulate(memory[order])
        first = order[np.concatenate([[True], memory[order][1:] < lean[:-1]])]
        self.scores, self.memory = scores[first], memory[first]
        self.places = [self.places[i] if i < size else place(int(points[i - size])) for i in first.tolist()]
