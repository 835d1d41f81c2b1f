"""Fused kernels of small matrix products and much traffic: scans in chunks, the scores of an indexer."""

from __future__ import annotations

from comp_comm.formulas.arrays import Numeric
from comp_comm.operations.shapes import Operation
from comp_comm.structs import struct


@struct
class FusedProducts(Operation):
    """Products of activations in one kernel or a few, without weights: their FLOP and bytes of memory, by pass.

    ``share`` is the share of a large GEMM's 16-bit rate that such a kernel reaches.
    """

    flops: Numeric
    backward_flops: Numeric
    forward_bytes: Numeric
    backward_bytes: Numeric
    share: Numeric = 1.0
