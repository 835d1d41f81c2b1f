"""The projection with which a module of multi-token prediction begins (DeepSeek-V3, arXiv:2412.19437, section 2.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from comp_comm.choices import Norm
from comp_comm.formulas.arrays import Array, Numeric, to_float
from comp_comm.layers.block import Block, LayerParameters, SavedActivations, TpReplicated
from comp_comm.operations.context import Context
from comp_comm.operations.shapes import Gemm, Operation

NORMS = 3  # of the hidden state, of the next token's embedding, and before the logits


class PredictionProjection(Block):
    """The hidden state and the embedding of the next token, normalised, side by side, projected to one hidden state."""

    residual: ClassVar[bool] = False

    def operations(self, c: Context) -> Sequence[Operation]:
        """Return the projection of two hidden states to one, which TP splits by its columns (Megatron-LM)."""
        h, columns = to_float(c.t.hidden), to_float(c.t.hidden) / c.layout.tp
        return [Gemm("MTP projection", "2 T (2 H) H / tp", count=1.0, m=c.tokens, k=2 * h, n=columns, sixteen_bit=1)]

    def splits(self, c: Context) -> Numeric:
        """Return one and a half: both hidden states are gathered before it, and its columns after it."""
        return 1.5

    def parameters(self, c: Context) -> LayerParameters:
        """Return the projection and its norms."""
        h = to_float(c.t.hidden)
        return LayerParameters(2 * h * h / c.layout.tp + self._norms(c) * h)

    def tp_replicated(self, c: Context) -> TpReplicated:
        """Return the norms."""
        return TpReplicated(self._norms(c) * c.t.hidden, self._norms(c))

    def tensors(self, c: Context) -> Array:
        """Return the projection and the norms."""
        return 1.0 + self._norms(c)

    def saved_activations(self, c: Context) -> Sequence[SavedActivations]:
        """Return the inputs of both norms, and the two hidden states side by side."""
        return [SavedActivations("mtp", 4.0 * to_float(c.formats.activation) * c.split_tokens * c.t.hidden)]

    def _norms(self, c: Context) -> Array:
        return NORMS * Norm.look_up("weights", c.t.norm)
