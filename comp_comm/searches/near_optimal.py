"""How flat the optimum is: how many feasible layouts are nearly as good as the best.

A model is right to some percent: where thousands of layouts are within that of the best, the best one's details mean
little. To count them for any small percentage afterwards, the scores near the best are kept, and nothing else of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from comp_comm.formulas.arrays import Array

KEPT_PERCENT = 16.0  # a little more than the widest share that is asked for (`within`)
MANY = 2**20  # scores that may be waiting to be sorted out


def _no_scores() -> Array:
    return np.empty(0)


@dataclass
class NearOptimal:
    """The ``scores`` of feasible layouts that are at most `KEPT_PERCENT` worse than the ``best`` of them.

    Layouts added later may have made the best better: scores are sorted out now and then, not each time.
    """

    scores: Array = field(default_factory=_no_scores)
    best: float = np.inf
    _waiting: list[Array] = field(default_factory=list)

    @property
    def limit(self) -> float:
        """The score that one nearly as good as the best must not exceed."""
        return self.best + abs(self.best) * KEPT_PERCENT / 100 if np.isfinite(self.best) else np.inf

    def add(self, scores: Array, layouts: NDArray[np.integer]) -> None:
        """Add feasible points by their scores, and how many layouts each of them is."""
        if not scores.size:
            return
        self.best = min(self.best, float(scores.min()))
        near = np.flatnonzero(scores <= self.limit)
        self._add(np.repeat(scores[near], layouts[near]))

    def merge(self, other: NearOptimal) -> None:
        """Add the layouts that another one has."""
        for scores in (other.scores, *other._waiting):
            self.best = min(self.best, float(scores.min(initial=np.inf)))
            self._add(scores[scores <= self.limit])

    def within(self, best: float, percent: float) -> int:
        """Return how many layouts are at most ``percent`` (up to 15) worse than the ``best``.

        >>> near = NearOptimal()
        >>> near.add(np.array([1.0, 1.05, 2.0]), np.array([1, 1, 6]))
        >>> near.within(1.0, 5)
        2
        """
        self.compact()
        return int((self.scores <= best + abs(best) * percent / 100).sum())

    def compact(self) -> None:
        """Drop the scores that a better best has left behind."""
        scores = np.concatenate([self.scores, *self._waiting])
        self.scores, self._waiting = np.sort(scores[scores <= self.limit]), []

    def _add(self, scores: Array) -> None:
        self._waiting.append(scores)
        if sum(part.size for part in self._waiting) > MANY:
            self.compact()
