"""What a log says, in plain rows: a kernel or a collective, its shape, its seconds, and the line it is from."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

OPERATORS = ("gemm", "attention", "elementwise", "collective", "other")


@dataclass(frozen=True)
class Measured:
    """What every measurement has: its seconds, the number format, and the line (or the kernel) it was read from."""

    seconds: float
    dtype: str = ""
    line: int = 0


@dataclass(frozen=True)
class GemmRow(Measured):
    """``batch`` products of (m x k) by (k x n); ``output`` is the number format of the result, where it differs."""

    m: int = 0
    n: int = 0
    k: int = 0
    batch: int = 1
    output: str = ""


@dataclass(frozen=True)
class AttentionRow(Measured):
    """A forward pass of fused attention over ``batch`` sequences of ``seq_len`` tokens."""

    batch: int = 0
    seq_len: int = 0
    heads: int = 0
    kv_heads: int = 0
    head_dim: int = 0
    causal: bool = True


@dataclass(frozen=True)
class ElementwiseRow(Measured):
    """A kernel bound by memory, over ``rows`` by ``columns`` elements; ``op`` is what it is called."""

    op: str = ""
    rows: int = 0
    columns: int = 0


class Placement(NamedTuple):
    """Where the devices of a run were, and what they reached.

    They are on ``hosts`` (0 where it is not said), every ``stride``-th rank of all, ``groups`` of them at once; at its
    ``largest`` message the run had ``rate`` bytes/s on the bus, as nccl-tests counts.
    """

    hosts: int = 0
    stride: int = 1
    groups: int = 1
    rate: float = 0.0
    largest: int = 0


UNPLACED = Placement()


@dataclass(frozen=True)
class CollectiveRow(Measured):
    """A collective of ``size`` bytes as nccl-tests counts; ``per_node`` devices of a host, 0 where it is not said."""

    kind: str = ""
    size: int = 0
    devices: int = 0
    per_node: int = 0
    place: Placement = field(default=UNPLACED, compare=False, repr=False)


@dataclass(frozen=True)
class KernelTime(Measured):
    """All calls of a kernel whose shape is not known: ``seconds`` in all, and the operator its name tells."""

    operator: str = "other"
    name: str = ""
    calls: int = 1


Row: TypeAlias = GemmRow | AttentionRow | ElementwiseRow | CollectiveRow | KernelTime


@dataclass
class Log:
    """One file as read: what kind it is, its rows, and what was skipped, by reason.

    ``totals`` are seconds by operator of everything that ran, where the file is a profile of that.
    """

    file: str
    kind: str
    rows: list[Row] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    totals: dict[str, float] = field(default_factory=dict)

    def summary(self) -> str:
        """Return a line for people: what was read, and what was not, and why.

        >>> Log("a.csv", "GEMM table", [GemmRow(1e-3, m=1, n=1, k=1)], Counter({"no time": 2})).summary()
        'a.csv: GEMM table, 1 row (1 gemm); skipped 2: no time'
        """
        counts = Counter(operator_of(row) for row in self.rows)
        parts = ", ".join(f"{count:,} {name}" for name, count in counts.items())
        text = f"{self.file}: {self.kind}, {len(self.rows):,} row{'s' * (len(self.rows) != 1)}"
        text += f" ({parts})" if parts else ""
        why = "; ".join(f"{count:,}: {reason}" for reason, count in self.skipped.items())
        return text + (f"; skipped {why}" if why else "")


def operator_of(row: Row) -> str:
    """Return which of `OPERATORS` a row is of.

    >>> operator_of(CollectiveRow(1e-3, kind="all_reduce", size=8, devices=2))
    'collective'
    """
    if isinstance(row, KernelTime):
        return row.operator
    names = {GemmRow: "gemm", AttentionRow: "attention", ElementwiseRow: "elementwise", CollectiveRow: "collective"}
    return names[type(row)]
