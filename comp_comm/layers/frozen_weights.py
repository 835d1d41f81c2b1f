"""Frozen weights: products without gradients of them, and formats of few bits, of which 16 are made for each product.

bitsandbytes makes 16 bits of a matrix before the product of more than a few tokens, and again for the gradient of its
input (`MatMul4Bit`; `_gemm_4bit_use_custom_cuda` says from how many); so does torchao's `NF4Tensor`. What stays in 16
bits is what is no linear layer of a layer: norms, routers, embedding and head.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from comp_comm.formulas.arrays import Array, add_up, largest, maximum, to_float
from comp_comm.operations.context import Context, any_of
from comp_comm.operations.shapes import Elementwise, Gemm, Operation


class Packed(NamedTuple):
    """Weights of a block on this device that have a format of few bits: of all replicas, of experts, and the largest
    matrix of them."""

    dense: Array
    experts: Array
    widest: Array


def frozen(operations: Sequence[Operation]) -> list[Operation]:
    """Return operations whose products have no gradient of their weights."""
    return [replace(op, trained=0.0) if isinstance(op, Gemm) else op for op in operations]


def packed_weights(c: Context, operations: Sequence[Operation]) -> Packed:
    """Return what of a block's weights is in few bits; 0 where a study does not say that frozen weights are."""
    packs, none = to_float(c.formats.packs), to_float(0.0)
    if not any_of(packs):
        return Packed(none, none, none)
    products = _linear(operations)
    dense, experts = (packs * add_up(to_float(op.count) * op.weights for op in products if op.grouped is of_experts)
                      for of_experts in (False, True))  # fmt: skip
    each = [packs * (to_float(op.count) > 0) * op.k * op.n / op.matrices for op in products]
    return Packed(to_float(dense), to_float(experts), largest(each) if each else none)


def unpacking(c: Context, operations: Sequence[Operation]) -> list[Operation]:
    """Return what makes 16 bits of a block's weights, a kernel for each matrix, before either pass's products."""
    packed, f = packed_weights(c, operations), c.formats
    weights = packed.dense + packed.experts
    if not any_of(weights):
        return []
    matrices = _matrices(operations) * (weights > 0)
    moved = (f.packed("size") + f.packed("scales") + f.activation) * weights / maximum(matrices, 1e-30)
    return [Elementwise("dequantise weights", "4.127 (nf4_single 4.5) + 16 bit a weight", matrices, moved, moved)]


def unpacking_launches(c: Context, operations: Sequence[Operation]) -> Array:
    """Return the kernels that do this in a forward pass."""
    packs = to_float(c.formats.packs)
    return packs * c.formats.packed("kernels") * _matrices(operations) if any_of(packs) else to_float(0.0)


def _matrices(operations: Sequence[Operation]) -> Array:
    """Return how many matrices there are; Q, K and V are one."""
    return to_float(add_up(to_float(op.count) * op.groups * op.matrices for op in _linear(operations)))


def _linear(operations: Sequence[Operation]) -> list[Gemm]:
    """Return the products of linear layers: all but the router's."""
    return [op for op in operations if isinstance(op, Gemm) and op.name != "router"]
