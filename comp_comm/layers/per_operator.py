"""Recomputation operator by operator, as torchtitan's selective policy has it (0.3.0, activation_checkpoint.py).

The outputs of attention, of exchanges and of every second matrix product of a layer are kept; all else is recomputed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from comp_comm.formulas.arrays import ZERO, Array, Numeric, to_float
from comp_comm.operations.context import Context
from comp_comm.operations.shapes import Attention, Collective, Gemm, Operation

LOG_SUM = 4.0  # bytes of the logarithm of a query's sum, which flash attention keeps
# Products that are recomputed and not counted among the others: the router's, which torchtitan names, and the grouped
# ones of experts, which are none of the operations that PyTorch calls intensive (get_default_op_list).
ALWAYS_AGAIN = ("router", "experts up", "experts down")
KEPT_KINDS = ("reduce_scatter", "all_to_all", "send")  # collectives whose output is kept


class Saved(NamedTuple):
    """Bytes that the policy keeps beside a layer's input, and what it does again: shares and calls by name."""

    size: Array
    operations: Mapping[str, Numeric]
    collectives: Mapping[str, Numeric]


def saved_outputs(c: Context, operations: Sequence[Operation], collectives: Sequence[Collective]) -> Saved:
    """Return what is kept of a layer's operations, in their order, and what is done again."""
    size, counted = to_float(0.0), to_float(0.0)
    recomputed: dict[str, Numeric] = {}
    for op in operations:
        recomputed[op.name] = 1.0
        if isinstance(op, Attention):
            recomputed[op.name], saved = 0.0, _attention_output(c, op)
        elif isinstance(op, Gemm) and op.name not in ALWAYS_AGAIN:
            share = _kept_share(op, counted)
            counted = counted + to_float(op.count) * op.matrices
            recomputed[op.name] = 1.0 - share
            saved = share * c.formats.activation * to_float(op.m) * op.n
        else:
            saved = ZERO
        size = size + to_float(op.count) * saved
    for each in collectives:
        if each.kind in KEPT_KINDS and each.parallelism != "cp":  # that of attention is in its output
            parts = each.group.size if each.kind == "reduce_scatter" else 1.0
            size = size + to_float(each.count) * each.message_bytes / parts
    repeated = {each.name: each.count for each in collectives
                if each.kind not in KEPT_KINDS and each.parallelism != "cp"}  # fmt: skip
    return Saved(size, recomputed, repeated)


def _attention_output(c: Context, op: Attention) -> Array:
    queries = to_float(op.sequences) * op.heads * op.queries
    return queries * (c.formats.activation * to_float(op.value_dim) + LOG_SUM)


def _kept_share(op: Gemm, before: Array) -> Array:
    """Return which share of a product's matrices is kept, where so many were multiplied before: the odd ones."""
    after = before + op.matrices
    odd = np.floor((after + 1) / 2) - np.floor((before + 1) / 2)
    return odd / op.matrices
