"""The feed-forward network of a dense layer."""

from __future__ import annotations

from collections.abc import Sequence

from comp_comm.formulas.arrays import Array, Numeric, to_float
from comp_comm.layers.block import (
    Block,
    LayerParameters,
    SavedActivations,
    TpReplicated,
    activation,
    biased,
    mlp_parameters,
    nonlinearity_inputs,
    nonlinearity_outputs,
)
from comp_comm.layers.module import Module
from comp_comm.operations.context import Context
from comp_comm.operations.shapes import Gemm, Operation


class FeedForward(Block):
    """Up, nonlinearity and down; the width is split over TP."""

    def operations(self, c: Context) -> Sequence[Operation]:
        """Return the matrix up (two of them where it is gated), the nonlinearity, and the matrix down."""
        return split_network(c, "FFN", to_float(c.t.ffn_hidden))

    def parameters(self, c: Context) -> LayerParameters:
        """Return the matrices with their biases."""
        return LayerParameters(mlp_parameters(c, to_float(c.t.ffn_hidden) / c.layout.tp))

    def tp_replicated(self, c: Context) -> TpReplicated:
        """Return the bias of the matrix down, which is added after the reduction."""
        bias = biased(c, "ffn")
        biases = to_float(bias * c.t.hidden)
        return TpReplicated(biases, tensors=bias, biases=biases, bias_tensors=bias)

    def tensors(self, c: Context) -> Array:
        """Return the matrices and their biases."""
        return super().tensors(c) * (1.0 + biased(c, "ffn"))

    def saved_activations(self, c: Context) -> Sequence[SavedActivations]:
        """Return what the nonlinearity keeps, and the input of the matrix down."""
        return [SavedActivations("mlp", network_bytes(c, to_float(c.t.ffn_hidden)))]

    def modules(self, c: Context) -> Sequence[Module]:
        """Return the network: all it keeps is recomputed of its input, with the gather and the reduction of TP."""
        (saved,) = self.saved_activations(c)
        return [Module("mlp", saved.size, dict.fromkeys(network_names("FFN"), 1.0), splits=1.0)]

    def last_input(self, c: Context) -> Array:
        """Return the bytes of the input of the matrix down."""
        return to_float(c.operand_kept * (c.tokens * to_float(c.t.ffn_hidden) / c.layout.tp))

    def last_gemm(self, c: Context) -> str:
        """Return the matrix down."""
        return network_names("FFN")[-1]


def network_names(name: str) -> tuple[str, str, str]:
    """Return what the operations of a feed-forward network are called."""
    return f"{name} up", f"{name} activation", f"{name} down"


def split_network(c: Context, name: str, width: Array, count: Numeric = 1.0) -> list[Operation]:
    """Return a feed-forward network of that width, split over TP."""
    h, columns = c.t.hidden, width / c.layout.tp
    up, nonlinearity, down = network_names(name)
    return [
        Gemm(up, "2 T H (1 or 2) F / tp", count=count, m=c.tokens, k=h, n=c.gates * columns, matrices=c.gates),
        activation(c, nonlinearity, c.tokens * columns, count),
        Gemm(down, "2 T F H / tp", count=count, m=c.tokens, k=columns, n=h),
    ]


def network_bytes(c: Context, width: Array) -> Array:
    """Return the bytes such a network keeps: the inputs of its nonlinearity, and of its matrix down."""
    return to_float((nonlinearity_inputs(c) + nonlinearity_outputs(c)) * (c.tokens * width / c.layout.tp))
