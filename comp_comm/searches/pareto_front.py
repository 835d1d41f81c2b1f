"""The Pareto front of a search: the feasible layouts that no other beats in both score and memory.

A search cannot keep every layout (there may be 10¹⁰), but the front is short, whatever the space: it answers what is
best with any smaller memory, and what bounds are compared with (`bounds`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from comp_comm.formulas.arrays import Array
from comp_comm.searches.best import Place

# Points of the front, in sixteenths of its length, that many layouts are compared with before they are sorted. The
# middle first: a point there beats most layouts, and what is beaten is compared with no other.
SIXTEENTHS = (8, 4, 12, 2, 6, 10, 14, 0, 1, 3, 5)
FEW = 16  # layouts that are sorted at once


def _no_numbers() -> Array:
    return np.empty(0)


@dataclass
class ParetoFront:
    """``scores``, ``memory`` (bytes) and ``places`` of the layouts of the front: best score, and most memory, first.

    >>> front = ParetoFront()
    >>> front.add(np.array([1.0, 1.05, 2.0]), np.array([3.0, 2.0, 4.0]), lambda i: (i,))
    >>> front.places, front.best_score(np.array([1.0, 2.5, 9.0]))
    ([(0,), (1,)], array([ inf, 1.05, 1.  ]))
    """

    scores: Array = field(default_factory=_no_numbers)
    memory: Array = field(default_factory=_no_numbers)
    places: list[Place] = field(default_factory=list)

    def add(self, scores: Array, memory: Array, place: Callable[[int], Place]) -> None:
        """Add layouts by their scores and memory; ``place`` says where one is, by its number among them."""
        if not scores.size:
            return
        length, points = self.scores.size, np.arange(scores.size)
        for i in dict.fromkeys(length * n // 16 for n in SIXTEENTHS) if length else ():
            if scores.size < FEW:
                break
            left = np.flatnonzero((scores < self.scores[i]) | (memory < self.memory[i]))
            scores, memory, points = scores[left], memory[left], points[left]
        scores, memory = np.concatenate([self.scores, scores]), np.concatenate([self.memory, memory])
        # Best score first: a layout is on the front where it needs less memory than every one before it.
        order = np.lexsort((memory, scores))
        least = np.minimum.accumulate(memory[order])
        first = order[np.concatenate([[True], memory[order][1:] < least[:-1]])]
        self.scores, self.memory = scores[first], memory[first]
        self.places = [self.places[i] if i < length else place(int(points[i - length])) for i in first.tolist()]

    def merge(self, other: ParetoFront) -> None:
        """Add the layouts of another front."""
        self.add(other.scores, other.memory, other.places.__getitem__)

    def best_score(self, memory: Array) -> Array:
        """Return the best score of a layout with at most so much memory, infinity where there is none."""
        scores = np.append(np.inf, self.scores[::-1])
        best: Array = np.asarray(scores[np.searchsorted(self.memory[::-1], memory, side="right")])
        return best
