"""A block of attention and a network whose weights several layers share, before a mixer with a state (Zamba 1 and 2).

It reads the hidden state beside the embedding, without residual sums of its own; adapters of a low rank and a
projection of what comes out are each layer's own (arXiv:2405.16712, which has no adapters, and 2411.15242; Zamba and
Zamba2 in Hugging Face transformers).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from comp_comm.choices import Norm, SequenceInputs
from comp_comm.formulas.arrays import Array, to_float
from comp_comm.layer_pattern import SHARED, count_of
from comp_comm.layers.attention import SelfAttention, projected, rotary, score_bytes
from comp_comm.layers.block import Block, LayerParameters, SavedActivations, TpReplicated, mlp_parameters
from comp_comm.layers.context_parallel import exchanges
from comp_comm.layers.feed_forward import network_bytes, split_network
from comp_comm.layers.module import Module
from comp_comm.layers.tensor_parallel import over_tp
from comp_comm.operations.context import Context, any_of
from comp_comm.operations.shapes import Collective, Elementwise, Gemm, Operation
from comp_comm.violation import Violation, rule

NETWORK = "shared FFN"


class SharedAttention(SelfAttention):
    """Attention of the hidden state beside the embedding, with adapters on its three projections where a layer has any.

    The weights are counted beside the layers (`shared_parameters`): here are those of the layer alone.
    """

    residual: ClassVar[bool] = False

    def operations(self, c: Context) -> Sequence[Operation]:
        """Return norms, projections of both inputs with their adapters, attention, and the output projection."""
        h, rank, qkv = to_float(c.t.hidden), to_float(c.t.shared_attention_rank), qkv_columns(c)
        moved = 2.0 * c.formats.activation * c.split_tokens * 3 * h
        adapters: list[Operation] = [
            Gemm("shared QKV adapters down", "2 T (2 H) 3 r", count=1.0, m=c.tokens, k=2 * h, n=3 * rank),
            Gemm("shared QKV adapters up", "2 T r (a + 2 kv) d / tp", count=1.0, m=c.tokens, k=rank, n=qkv),
        ]
        return [
            Elementwise(
                "shared block norms",
                "6 T_s H elements",
                count=1.0,
                forward_bytes=moved,
                backward_bytes=1.5 * moved,
                factor=c.kernel_cost,
            ),
            Gemm("shared QKV projection", "2 T (2 H) (a + 2 kv) d / tp", count=1.0, m=c.tokens, k=2 * h, n=qkv),
            *(adapters if any_of(rank) else []),
            *rotary(c, self.prepared),
            self.core(c),
            Gemm("shared attention output", "2 T (a d / tp) H", count=1.0, m=c.tokens, k=c.heads * c.t.v_head_dim, n=h),
        ]

    def collectives(self, c: Context) -> Sequence[Collective]:
        """Return context parallelism's exchange, and TP's of the embedding, which is an input beside the layer's."""
        many = to_float(to_float(c.layout.tp) > 1)
        exchanged = exchanges(c, c.tokens)
        if not any_of(many):
            return exchanged
        split, message, none = to_float(c.layout.sp) * many, c.tokens * c.t.hidden * c.formats.comm, to_float(0.0)
        again = split * SequenceInputs.AGAIN.where(c.layout.sequence_inputs)
        rows = (("gradient all-reduce", "all_reduce", none, many - split), ("all-gather", "all_gather", split, again),
                ("gradient reduce-scatter", "reduce_scatter", none, split))  # fmt: skip
        return [
            *exchanged,
            *(
                over_tp(c, f"embedding beside {title}", kind, message, forward, backward)
                for title, kind, forward, backward in rows
                if any_of(forward + backward)
            ),
        ]

    def parameters(self, c: Context) -> LayerParameters:
        """Return the layer's own adapters: down on every device, up split over TP."""
        rank = to_float(c.t.shared_attention_rank)
        return LayerParameters(rank * (6 * to_float(c.t.hidden) + qkv_columns(c)))

    def saved_activations(self, c: Context) -> Sequence[SavedActivations]:
        """Return both inputs before and after their norm, and what self-attention keeps."""
        inputs = c.split_tokens * 2 * c.t.hidden * (c.formats.activation + c.operand_kept)
        adapters = c.formats.activation * c.tokens * 3 * to_float(c.t.shared_attention_rank)
        scores = SavedActivations("core_attn", score_bytes(c, to_float(c.t.seq_len)))
        return [SavedActivations("attention", to_float(projected(c) + inputs + adapters)), scores]

    def rules(self, c: Context) -> Sequence[Violation]:
        """Return that all layers of the block are on one stage of a pipeline, which holds its weights."""
        return [rule(to_float(c.layout.pp) > 1, "layers that share a block (Z, Y) on several stages of a pipeline are "
                     "not modelled", "pp", "layer_pattern")]  # fmt: skip


class SharedNetwork(Block):
    """The network of the shared block, with the layer's own adapter and projection of what comes out of it."""

    residual: ClassVar[bool] = False
    kernels: ClassVar[float] = 6.0

    def operations(self, c: Context) -> Sequence[Operation]:
        """Return the network, the adapter on its matrices up, and the projection, of each device's own tokens."""
        h, rank = c.t.hidden, to_float(c.t.shared_rank)
        columns = c.gates * to_float(c.t.ffn_hidden) / c.layout.tp
        adapter: list[Operation] = [
            Gemm("shared FFN adapter down", "2 T H r", count=1.0, m=c.tokens, k=h, n=rank),
            Gemm("shared FFN adapter up", "2 T r (1 or 2) F / tp", count=1.0, m=c.tokens, k=rank, n=columns),
        ]
        network = split_network(c, NETWORK, to_float(c.t.ffn_hidden))
        return [
            *network,
            *(adapter if any_of(rank) else []),
            Gemm("shared block output", "2 T_s H H", count=1.0, m=c.split_tokens, k=h, n=h),
        ]

    def parameters(self, c: Context) -> LayerParameters:
        """Return the layer's own adapter and projection."""
        h, rank = to_float(c.t.hidden), to_float(c.t.shared_rank)
        columns = c.gates * to_float(c.t.ffn_hidden) / c.layout.tp
        return LayerParameters(h * h + rank * (h + columns))

    def tp_replicated(self, c: Context) -> TpReplicated:
        """Return the projection of what comes out: a device has it whole, for its own tokens."""
        return TpReplicated(to_float(c.t.hidden) ** 2, to_float(1.0))

    def saved_activations(self, c: Context) -> Sequence[SavedActivations]:
        """Return its input before and after its norm, what the network keeps, and the input of the projection."""
        around = c.split_tokens * c.t.hidden * (c.formats.activation + 2 * c.operand_kept)
        adapter = c.formats.activation * c.tokens * to_float(c.t.shared_rank)
        return [SavedActivations("mlp", network_bytes(c, to_float(c.t.ffn_hidden)) + to_float(around + adapter))]

    def modules(self, c: Context) -> Sequence[Module]:
        """Return none: what is recomputed of a shared block is not known."""
        return []


def qkv_columns(c: Context) -> Array:
    """Return the columns of queries, keys and values on this device."""
    return to_float(c.heads * c.key_dim + c.kv_heads * (c.key_dim + c.t.v_head_dim))


def shared_parameters(c: Context) -> Array:
    """Return the parameters that a device holds of all shared blocks: 0 where no layer has one.

    A block's are 2 H (a + 2 kv) d + a d H of attention, those of its network, and norms of 3 H numbers.
    """
    blocks = _blocks(c)
    if not any_of(blocks):
        return blocks
    h = to_float(c.t.hidden)
    attention = 2 * h * qkv_columns(c) + c.heads * c.t.v_head_dim * h
    network = mlp_parameters(c, to_float(c.t.ffn_hidden) / c.layout.tp)
    return blocks * (attention + network) + shared_norms(c)


def shared_norms(c: Context) -> Array:
    """Return the parameters of the norms of all shared blocks, alike on every device of TP."""
    return _blocks(c) * 3 * to_float(c.t.hidden) * Norm.look_up("weights", c.t.norm)


def _blocks(c: Context) -> Array:
    """Return how many blocks layers share: 0 where no layer has one."""
    if not c.t.layer_pattern.given:
        return to_float(0.0)
    return (count_of(c.t.layer_pattern, SHARED) > 0) * to_float(c.t.shared_blocks)
