"""Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434): keys and values come from a latent of few numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from comp_comm.choices import AttentionGate
from comp_comm.formulas.arrays import Array, Numeric, to_float, where
from comp_comm.layers.attention import SelfAttention, gate_bytes, gate_numbers, gated, kept_whole, projected, rotary
from comp_comm.layers.block import Block, Cache, LayerParameters, SavedActivations, TpReplicated, at_least_one
from comp_comm.layers.context_parallel import saved_gathered_keys
from comp_comm.layers.module import Module
from comp_comm.layers.tensor_parallel import over_tp
from comp_comm.operations.context import Context, any_of
from comp_comm.operations.shapes import Collective, Gemm, Operation

LATENT_GATHER = "latent all-gather"


class LatentAttention(SelfAttention):
    """Self-attention whose keys and values, and mostly queries too, are projected down on every TP device, up by head.

    Where queries are not compressed (``q_lora_rank`` 0) they are projected at once. Under sequence parallelism each
    device projects its own tokens down, and the latents are gathered (Megatron-LM); or inputs are gathered and kept as
    those of other attention, and every device projects all tokens down (torchtitan, `deepseek_v3`).
    """

    prepared: ClassVar[float] = 0.0  # the cache has the latent
    kernels: ClassVar[float] = 24.0  # three projections more, two norms, and what puts parts of heads together

    def operations(self, c: Context) -> Sequence[Operation]:
        """Return projections down and up, rotation, scores with softmax and weighted sum, and the output projection."""
        h, q_rank, kv_rank = c.t.hidden, to_float(c.t.q_lora_rank), at_least_one(c.t.kv_lora_rank)
        gates = _all_gates(c)
        own = _own_gates(c)
        gate = [Gemm("attention gate projection", "2 T_s H a", count=1.0, m=c.kept_input_tokens, k=h, n=gates)]
        split = [Gemm("attention gate projection", "2 T H a d_v / tp", count=1.0, m=c.tokens, k=h, n=own)]
        compressed = to_float(q_rank > 0)
        q_width, kv_width = c.heads * c.key_dim, c.heads * (to_float(c.t.head_dim) + c.t.v_head_dim)
        q_inputs = where(q_rank > 0, q_rank, h)
        down = [
            Gemm(
                "Q down-projection", "2 T_s H r_q", count=compressed, m=c.kept_input_tokens, k=h, n=at_least_one(q_rank)
            )
        ]
        return [
            *(down if any_of(compressed) else []),
            Gemm("Q up-projection", "2 T r_q a (d + d_r) / tp", count=1.0, m=c.tokens, k=q_inputs, n=q_width),
            Gemm(
                "KV down-projection",
                "2 T_s H (r_kv + d_r)",
                count=1.0,
                m=c.kept_input_tokens,
                k=h,
                n=kv_rank + c.t.rope_head_dim,
            ),
            Gemm("KV up-projection", "2 T r_kv a (d + d_v) / tp", count=1.0, m=c.tokens, k=kv_rank, n=kv_width),
            *rotary(c),
            self.core(c),
            *(gate if any_of(gates) else []),
            *(split if any_of(own) else []),
            *gated(c),
            Gemm("attention output", "2 T (a d_v / tp) H", count=1.0, m=c.tokens, k=c.heads * c.t.v_head_dim, n=h),
        ]

    def collectives(self, c: Context) -> Sequence[Collective]:
        """Return the exchange of context parallelism, and under sequence parallelism the gather of the latents.

        Projections down are of each device's own tokens; what they make is gathered forward, and the sum of its
        gradients scattered backward: r_q + r_kv + d_r numbers of a token (H for r_q where queries are not compressed),
        and a gate of each head. A gate of each number is projected by heads of whole inputs: these are gathered, too,
        and again for the gradient of its weights.
        """
        exchanged = super().collectives(c)
        split = c.split_inputs
        if not any_of(split):
            return exchanged
        queries = where(to_float(c.t.q_lora_rank) > 0, c.t.q_lora_rank, c.t.hidden)
        numbers = queries + to_float(c.t.kv_lora_rank) + c.t.rope_head_dim + _all_gates(c)
        message = c.tokens * c.formats.comm * numbers
        formula, none = "T (r_q + r_kv + d_r)", to_float(0.0)
        latents = [
            over_tp(c, LATENT_GATHER, "all_gather", message, split, none, formula),
            over_tp(c, "latent gradient reduce-scatter", "reduce_scatter", message, none, split, formula),
        ]
        own = split * (_own_gates(c) > 0)
        if not any_of(own):
            return [*exchanged, *latents]
        hidden = c.tokens * c.t.hidden
        return [
            *exchanged,
            *latents,
            over_tp(c, "gate input all-gather", "all_gather", hidden * c.formats.operand_comm, own, own),
            over_tp(c, "gate input gradient reduce-scatter", "reduce_scatter", hidden * c.formats.comm, none, own),
        ]

    def gathers_itself(self, c: Context) -> Numeric:
        """Return 1 where latents are gathered in place of the input."""
        return c.split_inputs

    def parameters(self, c: Context) -> LayerParameters:
        """Return the projections down, with the norms of what they compress to, and up, the output's, and sinks."""
        h, t = to_float(c.t.hidden), c.t
        q_rank, kv_rank = to_float(t.q_lora_rank), to_float(t.kv_lora_rank)
        width = c.heads * c.key_dim
        queries = where(q_rank > 0, h * q_rank + q_rank + q_rank * width, h * width)
        keys = h * (kv_rank + t.rope_head_dim) + kv_rank + kv_rank * c.heads * (to_float(t.head_dim) + t.v_head_dim)
        gates = h * (_all_gates(c) + _own_gates(c))
        return LayerParameters(queries + keys + gates + c.heads * t.v_head_dim * h + c.heads * t.attention_sinks)

    def tp_replicated(self, c: Context) -> TpReplicated:
        """Return the projections down with the norms of what they compress to, and that to a gate of each head."""
        h, q_rank, kv_rank = to_float(c.t.hidden), to_float(c.t.q_lora_rank), to_float(c.t.kv_lora_rank)
        gates = _all_gates(c)
        down = (h + 1) * (q_rank + kv_rank) + h * (to_float(c.t.rope_head_dim) + gates)
        return TpReplicated(down, to_float(2.0 + 2.0 * (q_rank > 0) + (gates > 0)))

    def tensors(self, c: Context) -> Array:
        """Return the projections, and the norms of what they compress to."""
        norms = 1.0 + (to_float(c.t.q_lora_rank) > 0)
        return Block.tensors(self, c) + norms + to_float(c.t.attention_sinks)

    def saved_activations(self, c: Context) -> Sequence[SavedActivations]:
        """Return what self-attention keeps, and what queries, keys and values are compressed to, twice.

        What comes of the projections down is the input of a norm (of keys with the rotary part, which is of the same
        tensor), and what comes of that the input of the projections up. Under sequence parallelism a device keeps its
        part of both, and gathers it again; or all of both where it keeps what it gathered.
        """
        numbers = to_float(c.t.q_lora_rank) + c.t.kv_lora_rank
        sizes = (c.formats.activation + c.operand_kept + c.norm_saved) * numbers + c.formats.activation * to_float(
            c.t.rope_head_dim
        )
        latents = to_float(c.kept_input_tokens * sizes)
        _, scores = super().saved_activations(c)
        whole = kept_whole(c, c.heads * c.t.head_dim)  # keys without their rotary part: values are a view beside them
        kept = projected(c) + whole + saved_gathered_keys(c, c.tokens) + latents + gate_bytes(c)
        return [SavedActivations("attention", kept), scores]

    def modules(self, c: Context) -> Sequence[Module]:
        """Return the core, and the projections up with the rotation: they make queries, keys and values again.

        Their inputs are the latents, after their norms; the core's output stays (Megatron-LM, multi_latent_attention).
        Under sequence parallelism their inputs are gathered again.
        """
        dims = c.heads * c.key_dim + c.kv_heads * (c.key_dim + c.t.v_head_dim)
        names = ("Q up-projection", "KV up-projection", *(operation.name for operation in rotary(c)))
        freed = to_float(c.formats.activation * c.tokens * dims)
        again = {LATENT_GATHER: c.split_inputs} if any_of(c.split_inputs) else {}
        return [*super().modules(c), Module("mla_up_proj", freed, dict.fromkeys(names, 1.0), again)]

    def cache(self, c: Context, length: Array) -> Cache:
        """Return the latent of keys and values with the rotary part, on every device; attention works on it."""
        latent = to_float(c.t.kv_lora_rank) + c.t.rope_head_dim
        attended = super().cache(c, length).attended
        return Cache(latent, latent, attended, 2.0 * to_float(c.t.heads) * (latent + c.t.kv_lora_rank))


def _all_gates(c: Context) -> Array:
    """Return the numbers of a token of the gates of all heads, one each: made on every device of TP, as latents are."""
    return to_float(gate_numbers(c) * c.layout.tp * ~AttentionGate.ON.where(c.t.attention_gate))


def _own_gates(c: Context) -> Array:
    """Return the numbers of a token of gates with one for each number of this device's heads, which TP splits."""
    return to_float(gate_numbers(c) * AttentionGate.ON.where(c.t.attention_gate))
