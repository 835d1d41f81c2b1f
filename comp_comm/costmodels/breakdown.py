"""What a cost model answers: where the time of a step goes, and the ratios made of it.

The arrays of a `Breakdown` are not broadcast against each other: each has only the axes it depends on. A column (a
ratio of them, say) joins them, and only when it is asked for: that is what makes a sweep of 10^8 points cheap.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from comp_comm.formulas.arrays import Array, Index, take, to_float
from comp_comm.formulas.edges import overlap_ratio, serialized_fraction
from comp_comm.layout import Violation


@dataclass(frozen=True)
class Breakdown:
    """Seconds per step and device, by what they are spent on, and the hardware-independent edges.

    ``hiding_compute_s`` is the compute that may run beside overlappable communication; ``region_*`` are those of one
    FC matrix, the paper's region of interest; edges are FLOP per message byte.
    """

    compute_s: Array
    hiding_compute_s: Array
    serialized_comm_s: Array
    overlapped_comm_s: Array
    region_compute_s: Array
    region_comm_s: Array
    amdahl_edge_flop_per_byte: Array
    slack_flop_per_byte: Array
    violations: tuple[Violation, ...] = ()

    def at(self, index: Index) -> Breakdown:
        """Return the part of every array that lies in a block of the grid (see `take`), cut when it is asked for."""
        return cast(Breakdown, _Part(self, index))

    @cached_property
    def broken(self) -> NDArray[np.bool_]:
        """Where any rule is broken (0-d False where none is)."""
        result = np.asarray(False)
        for violation in self.violations:
            result = result | violation.broken
        return np.asarray(result)


class _Part:
    """A block of a breakdown: a column mostly needs two of its arrays, so the others are never cut."""

    def __init__(self, whole: Breakdown, index: Index) -> None:
        self._whole, self._index = whole, index

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._whole, name)
        if name == "violations":
            cut: Any = tuple(replace(rule, broken=take(rule.broken, self._index)) for rule in value)
        else:
            cut = take(value, self._index)
        setattr(self, name, cut)
        return cut


@dataclass(frozen=True)
class Column:
    """An output: its name, unit, meaning, and how it is made of a breakdown."""

    name: str
    unit: str
    help: str
    of: Callable[[Breakdown], Array]


def hidden_comm_s(b: Breakdown) -> Array:
    """Return overlappable communication that compute hides."""
    return np.minimum(b.overlapped_comm_s, b.hiding_compute_s)


def exposed_comm_s(b: Breakdown) -> Array:
    """Return overlappable communication that does not fit under compute."""
    return np.maximum(to_float(b.overlapped_comm_s) - b.hiding_compute_s, 0.0)


def step_s(b: Breakdown) -> Array:
    """Return compute, serialized communication and exposed communication together."""
    return b.compute_s + b.serialized_comm_s + exposed_comm_s(b)


_COLUMNS = (
    Column("compute_s", "s", "forward and backward compute of one layer", lambda b: b.compute_s),
    Column("serialized_comm_s", "s", "all-reduces on the critical path (tensor parallelism)",
           lambda b: b.serialized_comm_s),
    Column("overlapped_comm_s", "s", "all-reduce of the layer's weight gradients (data parallelism), "
           "which may run beside the backward pass", lambda b: b.overlapped_comm_s),
    Column("serialized_comm_fraction", "", "serialized communication / (compute + serialized communication)",
           lambda b: serialized_fraction(b.compute_s, b.serialized_comm_s)),
    Column("overlap_ratio", "", "overlappable communication / the compute that may hide it, of one FC matrix; "
           "above 1 some is exposed", lambda b: overlap_ratio(b.region_comm_s, b.region_compute_s)),
    Column("amdahl_edge_flop_per_byte", "FLOP/B", "FLOP of the layer per byte of its serialized all-reduces",
           lambda b: b.amdahl_edge_flop_per_byte),
    Column("slack_flop_per_byte", "FLOP/B", "backward FLOP of one FC matrix per byte of its weight gradient",
           lambda b: b.slack_flop_per_byte),
    Column("step_s", "s", "compute + serialized + exposed communication", step_s),
    Column("hidden_comm_s", "s", "overlapped communication that compute hides", hidden_comm_s),
    Column("exposed_comm_s", "s", "overlapped communication that does not fit under the backward pass",
           exposed_comm_s),
    Column("exposed_comm_fraction", "", "(serialized + exposed communication) / step time",
           lambda b: (b.serialized_comm_s + exposed_comm_s(b)) / step_s(b)),
)  # fmt: skip

COLUMNS: dict[str, Column] = {column.name: column for column in _COLUMNS}
