"""What a search has seen so far."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from comp_comm.searches.best import BestPoints, Place
from comp_comm.searches.each import BestOfEach
from comp_comm.searches.landscape import Landscape


@dataclass
class SearchState:
    """What a search has seen so far: its best points, faster ones that nearly fit, and how many there are of each kind.

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

    def afresh(self) -> SearchState:
        """Return the state of a search for the same that has seen nothing, but knows what is good enough."""
        best, unfit = (BestPoints(each.count, each.threshold) for each in (self.best, self.unfit))
        each = BestOfEach.of(len(self.each.places)) if self.each else None
        return SearchState(best, unfit, landscape=Landscape(best=self.landscape.best), each=each)

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
