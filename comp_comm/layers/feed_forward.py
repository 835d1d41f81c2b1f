"""The feed-forward network of a dense layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from comp_comm.formulas.arrays import Array, Numeric, to_float
from comp_comm.layers.block import Block, HeldParameters, Kept, activation, kept_numbers, mlp_parameters
from comp_comm.operations.context import Context
from comp_comm.operations.shapes import Gemm, Operation


@dataclass(frozen=True)
class FeedForward(Block):
    """Up, nonlinearity and down; the width is split over TP."""

    def operations(self, c: Context) -> Sequence[Operation]:
        """Return the matrix up (two of them where it is gated), the nonlinearity, and the matrix down."""
        return split_network(c, "FFN", to_float(c.t.ffn_hidden))

    def parameters(self, c: Context) -> HeldParameters:
        """Return the matrices with their biases."""
        return HeldParameters(mlp_parameters(c, to_float(c.t.ffn_hidden) / c.layout.tp))

    def kept(self, c: Context) -> Sequence[Kept]:
        """Return what the nonlinearity keeps, and the input of the matrix down."""
        return [Kept("mlp", network_bytes(c, to_float(c.t.ffn_hidden)))]


def split_network(c: Context, name: str, width: Array, count: Numeric = 1.0) -> list[Operation]:
    """Return a feed-forward network of that width, split over TP."""
    h, columns = c.t.hidden, width / c.layout.tp
    return [
        Gemm(f"{name} up", "2 T H (1 or 2) F / tp", count, c.tokens, h, c.gates * columns),
        activation(c, f"{name} activation", c.tokens * columns, count),
        Gemm(f"{name} down", "2 T F H / tp", count, c.tokens, columns, h),
    ]


def network_bytes(c: Context, width: Array) -> Array:
    """Return the bytes such a network keeps: the inputs of its nonlinearity, and of its matrix down."""
    return to_float(c.formats.activation * kept_numbers(c) * (c.tokens * width / c.layout.tp))
