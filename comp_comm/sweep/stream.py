"""Rows on their way out: counted, checked for feasibility, and kept when the user interrupts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from comp_comm.errors import InfeasibleError
from comp_comm.sweep.engine import Rows
from comp_comm.sweep.plan import FEASIBLE, REASON


@dataclass
class Stream:
    """Blocks of rows with only the wanted columns; knows what went by.

    ``interrupted`` is set where the user stopped it: what was made is kept. ``why`` gives reasons for nothing at all.
    """

    blocks: Iterable[Rows]
    wanted: Sequence[str]
    why: Callable[[], set[str]]
    rows: int = 0
    feasible: int = 0
    interrupted: bool = False
    reasons: set[str] = field(default_factory=set)

    def __iter__(self) -> Iterator[Rows]:
        for block in self.blocks:
            self.rows += len(block)
            here = int(block.columns[FEASIBLE].sum())
            self.feasible += here
            if here < len(block):
                self.reasons.update(part for text in set(block.columns[REASON]) for part in text.split("; ") if part)
            yield Rows({name: block.columns[name] for name in self.wanted})

    def check(self) -> None:
        """Raise ``InfeasibleError`` where nothing feasible came by (and nobody interrupted)."""
        if self.interrupted or self.feasible:
            return
        known = sorted(self.reasons or self.why())
        raise InfeasibleError("no feasible point: " + ("; ".join(known) or "none passes 'where'"))
