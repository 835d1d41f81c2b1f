"""What a cost model is asked: a transformer, laid out, on hardware, under conventions. Every number broadcasts."""

from __future__ import annotations

from dataclasses import dataclass

from comp_comm.formulas.arrays import Numeric
from comp_comm.hardware.numbers import Hardware
from comp_comm.layout import Layout
from comp_comm.transformer import GEMM_COUNTS, GemmCount, Transformer


@dataclass(frozen=True)
class Scenario:
    """One point, or a whole open grid of them.

    ``gemm_count`` says which GEMMs are counted, ``element_bytes`` is the size of an activation or gradient,
    ``inter_node_slowdown`` divides the bandwidth of overlapped (data-parallel) communication, ``interference``
    multiplies its time.
    """

    transformer: Transformer
    layout: Layout
    hardware: Hardware
    gemm_count: GemmCount = GEMM_COUNTS["complete"]
    element_bytes: Numeric = 2
    inter_node_slowdown: Numeric = 1
    interference: Numeric = 1
