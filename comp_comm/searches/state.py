"""What a search has found so far: everything that is reported of it, and nothing as long as the space."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from comp_comm.searches.best import BestPoints, Place
from comp_comm.searches.groups import GroupResults
from comp_comm.searches.near_optimal import NearOptimal
from comp_comm.searches.pareto_front import ParetoFront


@dataclass
class SearchState:
    """What a search has found so far; it can be saved, gone on with, and merged with what others found elsewhere."""

    best: BestPoints  # of the layouts that fit
    near_misses: BestPoints  # of those that need a little more memory than there is: told if they are better
    blocks: int = 0  # of the space that were searched
    candidates: int = 0  # layouts that keep every rule
    feasible: int = 0  # those of them that fit
    near_optimal: NearOptimal = field(default_factory=NearOptimal)
    front: ParetoFront = field(default_factory=ParetoFront)
    reasons: dict[str, int] = field(default_factory=dict)  # points by the rule they broke
    least_memory_bytes: float = np.inf  # of any layout: what nothing fits into is told by it
    least_memory_place: Place | None = None
    groups: GroupResults | None = None  # the best of each group, where groups are asked for
    interrupted: bool = False

    def probe(self) -> SearchState:
        """Return an empty state for the same search, with cutoffs that take in only what would be good enough here.

        Rows that look promising are ranked into it first, out of their order. Together with this state it says how good
        a layout must be; being another object, it leaves this one to see all layouts once, in the order of places.
        """
        best, near_misses = (BestPoints(points.count, points.threshold) for points in (self.best, self.near_misses))
        groups = GroupResults.of(len(self.groups.places)) if self.groups else None
        return SearchState(best, near_misses, near_optimal=NearOptimal(best=self.near_optimal.best), groups=groups)

    def merge(self, other: SearchState) -> None:
        """Add what was found in blocks that come after these."""
        self.best.put(other.best.ties)
        self.near_misses.put(other.near_misses.ties)
        self.near_optimal.merge(other.near_optimal)
        self.front.merge(other.front)
        self.blocks += other.blocks
        self.candidates += other.candidates
        self.feasible += other.feasible
        for reason, count in other.reasons.items():
            self.reasons[reason] = self.reasons.get(reason, 0) + count
        if other.least_memory_bytes < self.least_memory_bytes:
            self.least_memory_bytes, self.least_memory_place = other.least_memory_bytes, other.least_memory_place
        if self.groups and other.groups:
            self.groups.merge(other.groups)
