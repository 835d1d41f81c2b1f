"""What every builder of operations asks: the model and layout resolved, and the numbers that follow from both."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from comp_comm.formats import Formats
from comp_comm.formulas.arrays import Array, Numeric, to_float
from comp_comm.layout import STAGE, Layout
from comp_comm.operations.shapes import Peers
from comp_comm.transformer import VIT, Transformer

EAGER_COST = to_float([1.0, 1.5, 0.9])  # of element-wise work, in the order of `comp_comm.words.KERNELS`


@dataclass(frozen=True)
class Context:
    """A resolved model on a resolved layout, in number formats."""

    t: Transformer
    layout: Layout
    formats: Formats

    @cached_property
    def tokens(self) -> Array:
        """Tokens of a micro-batch on this device."""
        return to_float(self.layout.micro_batch) * self.t.seq_len / self.layout.cp

    @cached_property
    def encoder_tokens(self) -> Array:
        """Tokens of a micro-batch that the encoder of an encoder-decoder reads here."""
        return to_float(self.layout.micro_batch) * self.t.encoder_seq_len / self.layout.cp

    @cached_property
    def sequence_split(self) -> Numeric:
        """What sequence parallelism divides the tokens outside TP's GEMMs by."""
        sp = np.asarray(self.layout.sp)
        if not sp.any():
            return to_float(1.0)
        return self.layout.tp if sp.all() else np.where(sp > 0, self.layout.tp, 1.0)

    @cached_property
    def split_tokens(self) -> Array:
        """Tokens on this device outside TP's GEMMs."""
        return self.tokens / self.sequence_split

    @cached_property
    def tp_peers(self) -> Peers:
        """Devices that split tensors."""
        return Peers(self.layout.tp, self.layout.stride("tp"))

    @cached_property
    def cp_peers(self) -> Peers:
        """Devices that split the sequence."""
        return Peers(self.layout.cp, self.layout.stride("cp"))

    @cached_property
    def ep_peers(self) -> Peers:
        """Devices that share the experts out."""
        return Peers(self.layout.ep, parts=self.layout.spread(STAGE, self.layout.ep, self.layout.etp))

    @cached_property
    def etp_peers(self) -> Peers:
        """Devices that split an expert."""
        return Peers(self.layout.etp, parts=self.layout.spread(STAGE, self.layout.etp))

    @cached_property
    def heads(self) -> Array:
        """Query heads on this device."""
        return to_float(self.t.heads) / self.layout.tp

    @cached_property
    def kv_heads(self) -> Array:
        """Key and value heads on this device: at least one, copied where TP exceeds them."""
        return np.maximum(to_float(self.t.kv_heads) / self.layout.tp, 1.0)

    @cached_property
    def key_dim(self) -> Array:
        """Dimension of a query or key: with its rotary part, in multi-head latent attention."""
        return to_float(self.t.head_dim) + (self.t.rope_head_dim if self.t.has_mla else 0.0)

    @cached_property
    def mla(self) -> Array:
        """1 where attention is multi-head latent attention."""
        return to_float(to_float(self.t.kv_lora_rank) > 0)

    @cached_property
    def gates(self) -> Array:
        """Matrices into a feed-forward network: 2 where it is gated."""
        return 1.0 + to_float(self.t.gated)

    @cached_property
    def expert_share(self) -> Array:
        """Share of the layers that are a mixture of experts."""
        return self.t.moe_layers / self.t.layers

    @cached_property
    def encoder_share(self) -> Array:
        """Share of the layers that are the encoder's, in an encoder-decoder."""
        return to_float(self.t.encoder_layers) / self.t.all_layers

    @cached_property
    def kernel_cost(self) -> Array:
        """Factor on element-wise traffic of how the kernels are made."""
        return EAGER_COST[np.asarray(self.layout.kernels, np.intp)]

    @cached_property
    def has_vocab(self) -> bool:
        """Whether any point has an embedding and logits."""
        return bool(np.any(to_float(self.t.vocab) > 0))

    @cached_property
    def is_vit(self) -> bool:
        """Whether any point is a vision transformer."""
        return bool(np.any(np.asarray(self.t.architecture) == VIT))


def any_of(value: Numeric) -> bool:
    """Return whether a count is anywhere above 0: operations nobody does are left out.

    >>> any_of(0.0), any_of(to_float([0, 1]))
    (False, True)
    """
    return bool(np.any(np.asarray(value) > 0))
