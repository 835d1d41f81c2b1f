"""The best points of a search; points that no number tells apart are one, with a count."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from comp_comm.formulas.arrays import Array, distinct

MOST_NAMED = 16  # of the points of a tie, these are told by their places
Place = tuple[int, ...]  # where on each axis of the plan


class Tie(NamedTuple):
    """Points that no number tells apart. Mostly they differ in the order of groups, where the network is the same."""

    numbers: tuple[float, ...]  # what tells them from others: the score first, then memory
    layouts: int  # how many they are
    places: tuple[Place, ...]  # where the first of them are, not more than `MOST_NAMED`

    @classmethod
    def single(cls, score: float, place: Place) -> Tie:
        """Return that of one point, of which it is not known how many others have its numbers."""
        return cls((float(score),), 1, (place,))

    @property
    def score(self) -> float:
        """The smaller the better."""
        return self.numbers[0]

    @property
    def place(self) -> Place:
        """Where the first of them is: the simplest choices."""
        return self.places[0]

    def with_(self, other: Tie) -> Tie:
        """Return both together."""
        return Tie(self.numbers, self.layouts + other.layouts,
                   tuple(sorted({*self.places, *other.places})[:MOST_NAMED]))  # fmt: skip


@dataclass
class BestPoints:
    """The best points so far, smallest score first, and of equal scores the one that needs least memory."""

    count: int  # so many ties are kept
    cutoff: float = np.inf  # a score that must not be exceeded while there are fewer: what is known from elsewhere
    ties: list[Tie] = field(default_factory=list)

    @property
    def threshold(self) -> float:
        """The score that a point must not exceed: none is good enough where none is asked for."""
        if not self.count:
            return -np.inf
        return self.ties[-1].score if len(self.ties) == self.count else self.cutoff

    def add(self, numbers: Array, layouts: NDArray[np.integer], points: NDArray[np.intp],
            place: Callable[[int], Place]) -> None:  # fmt: skip
        """Add points of a block that are good enough.

        ``numbers`` are rows of what tells them apart, the score first; ``layouts`` is how many each point is; they are
        in the order of their places.
        """
        good = np.flatnonzero((numbers[0] <= self.threshold) & (numbers[0] < np.inf))
        if not good.size:
            return
        good = self._few(numbers[0], good)
        order = good[np.lexsort(numbers[::-1, good])]
        values = numbers[:, order]
        begins = np.flatnonzero(np.append(True, (values[:, 1:] != values[:, :-1]).any(axis=0)))
        ends, totals = [*begins[1:].tolist(), order.size], np.add.reduceat(layouts[order], begins, dtype=np.int64)
        self.put(
            Tie(tuple(values[:, begin].tolist()), int(total),
                tuple(place(int(points[i])) for i in order[begin : min(end, begin + MOST_NAMED)]))
            for begin, end, total in list(zip(begins.tolist(), ends, totals, strict=True))[: self.count]
        )  # fmt: skip

    def _few(self, scores: Array, good: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return those of many points that may be among the best: so many that as many scores differ as are wanted.

        To sort all of them takes longer than to take some of the least, until these have enough scores that differ.
        """
        size = 4 * self.count
        while size < good.size:
            edge = np.partition(scores[good], size - 1)[size - 1]
            kept: NDArray[np.intp] = good[scores[good] <= edge]
            if distinct(scores[kept]).size >= self.count:
                return np.asarray(kept)
            size *= 8
        return good

    def put(self, ties: Iterable[Tie]) -> None:
        """Add ties; the best of all remain."""
        by_numbers = {tie.numbers: tie for tie in self.ties}
        for tie in ties:
            other = by_numbers.get(tie.numbers)
            by_numbers[tie.numbers] = other.with_(tie) if other else tie
        self.ties = sorted(by_numbers.values())[: self.count]
