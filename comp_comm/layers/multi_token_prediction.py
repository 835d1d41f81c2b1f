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
        """Return the projection of two hidden states to one."""
        h = to_float(c.t.hidden)
        return [Gemm("MTP projection", "2 T_s (2 H) H", count=1.0, m=c.split_tokens, k=2 * h, n=h, sixteen_bit=1)]

    def splits(self, c: Context) -> Numeric:
        """Return none: the projection is made of what sequence parallelism leaves on a device."""
        return 0.0

    def parameters(self, c: Context) -> LayerParameters:
        """Return the projection and its norms."""
        h = to_float(c.t.hidden)
        return LayerParameters(2 * h * h + NORMS * h * Norm.look_up("weights", c.t.norm))

    def tp_replicated(self, c: Context) -> TpReplicated:
        """Return all of them."""
        return TpReplicated(self.parameters(c).dense, self.tensors(c))

    def tensors(self, c: Context) -> Array:
        """Return the projection and the norms."""
        return 1.0 + NORMS * Norm.look_up("weights", c.t.norm)

    def saved_activations(self, c: Context) -> Sequence[SavedActivations]:
        """Return the inputs of both norms, and the two hidden states side by side."""
        return [SavedActivations("mtp", 4.0 * to_float(c.formats.activation) * c.split_tokens * c.t.hidden)]
