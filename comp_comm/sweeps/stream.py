"""Rows on their way out: counted, checked for feasibility, and kept when the user interrupts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from comp_comm.errors import InfeasibleError
from comp_comm.structs import struct
from comp_comm.sweeps.engine import Rows
from comp_comm.sweeps.plan import FEASIBLE


@struct
class Piece:
    """A block of rows, encoded: its bytes, how many rows it has and how many are feasible, and points it is of."""

    content: bytes
    rows: int
    feasible: int
    points: int


@dataclass
class Stream:
    """Blocks of rows with only the wanted columns; knows what went by.

    ``interrupted`` is set where the user stopped it: what was made is kept. ``any_row`` says that infeasible rows are
    what was asked for; ``why`` tells why there is nothing.
    """

    blocks: Iterable[Rows]
    wanted: Sequence[str]
    why: Callable[[], str]
    any_row: bool = False
    rows: int = 0
    feasible: int = 0
    interrupted: bool = False

    def __iter__(self) -> Iterator[Rows]:
        for block in self.blocks:
            self.rows += len(block)
            self.feasible += int(block.columns[FEASIBLE].sum())
            yield Rows({name: block.columns[name] for name in self.wanted})

    def counted(self, pieces: Iterable[Piece]) -> Iterator[Piece]:
        """Yield blocks that were encoded elsewhere; count them as if they had come by as rows."""
        for piece in pieces:
            self.rows += piece.rows
            self.feasible += piece.feasible
            yield piece

    def check(self) -> None:
        """Raise ``InfeasibleError`` where nothing feasible came by (and nobody interrupted)."""
        if not (self.interrupted or self.feasible or (self.any_row and self.rows)):
            raise InfeasibleError(self.why())
