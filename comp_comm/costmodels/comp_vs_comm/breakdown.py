"""What the cost model `comp_vs_comm` answers: where the time of a layer goes, and the ratios made of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields

import numpy as np

from comp_comm.costmodels.answer import Answer, Column, table_of
from comp_comm.formulas.arrays import Array, Numeric, to_float
from comp_comm.formulas.edges import overlap_ratio, serialized_fraction
from comp_comm.structs import struct
from comp_comm.violation import Violation


@struct
class Breakdown(Answer):
    """Seconds per step and device, by what they are spent on, and the hardware-independent edges.

    ``hiding_compute_s`` is the compute that may run beside overlappable communication; ``region_*`` are those of one
    FC matrix, the paper's region of interest; edges are FLOP per message byte; ``fused_comm_s`` is what their own
    GEMMs hide of serialized all-reduces.
    """

    compute_s: Array
    hiding_compute_s: Array
    serialized_comm_s: Array
    overlapped_comm_s: Array
    region_compute_s: Array
    region_comm_s: Array
    amdahl_edge_flop_per_byte: Array
    slack_flop_per_byte: Array
    fused_comm_s: Numeric = 0.0
    violations: tuple[Violation, ...] = ()

    def arrays(self) -> Iterable[Array]:
        """Return every array."""
        return [getattr(self, item.name) for item in fields(self) if item.name != "violations"]


def hidden_comm_s(b: Breakdown) -> Array:
    """Return communication that compute hides: what is overlapped and fits, and what is fused with its own GEMM."""
    return to_float(np.minimum(b.overlapped_comm_s, b.hiding_compute_s) + b.fused_comm_s)


def exposed_comm_s(b: Breakdown) -> Array:
    """Return overlappable communication that does not fit under compute."""
    return np.maximum(to_float(b.overlapped_comm_s) - b.hiding_compute_s, 0.0)


def step_s(b: Breakdown) -> Array:
    """Return compute, serialized communication and exposed communication together."""
    return b.compute_s + b.serialized_comm_s + exposed_comm_s(b)


_COLUMNS: tuple[Column[Breakdown], ...] = (
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
    Column("visible_comm_fraction", "", "(serialized + exposed communication) / step time",
           lambda b: (b.serialized_comm_s + exposed_comm_s(b)) / step_s(b)),
)  # fmt: skip

COLUMNS = table_of(_COLUMNS)
