"""Attention blocks: self-attention, over everything or over a window, and a decoder's attention to an encoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from comp_comm.choices import AttentionGate, Position, QkNorm, Switch
from comp_comm.formulas.arrays import Array, Numeric, everywhere, minimum, somewhere, to_codes, to_float, where
from comp_comm.kernel_choices import AttentionKernel, CudaGraph, ElementwiseKernels, QkvKept, Recipe, SoftmaxPrecision
from comp_comm.layers.block import MASK, Block, Cache, LayerParameters, SavedActivations, TpReplicated, biased
from comp_comm.layers.context_parallel import exchanges, saved_gathered_keys
from comp_comm.layers.module import Module
from comp_comm.operations.context import Context, any_of
from comp_comm.operations.shapes import Attention, Collective, Elementwise, Gemm, Operation

UNFUSED_KERNELS = 6.0  # more than a fused kernel has
QUANTISING_KERNELS = 6.0  # of operands in few bits
# Bytes of an element that its rotation moves where PyTorch makes it one operation at a time, forward or backward: cast,
# complex product in 32 bit, cast back (torchtitan, `apply_rotary_emb`).
EAGER_ROTATION = 20.0


@dataclass(frozen=True)
class SelfAttention(Block):
    """Self-attention of as many heads of keys and values as the model has, over a window or over everything."""

    windowed: bool = False
    prepared: ClassVar[float] = 1.0  # heads are made ready by those kernels that do so
    kernels: ClassVar[float] = 10.0  # two projections, rotation of two, attention, and their copies and views
    graph: ClassVar[str] = "attention"

    def operations(self, c: Context) -> Sequence[Operation]:
        """Return projections, rotation, scores with softmax and weighted sum, and the output projection."""
        h, kv = c.t.hidden, c.kv_heads * (c.key_dim + c.t.v_head_dim)
        qkv = c.heads * c.key_dim + kv + gate_numbers(c)
        return [
            Gemm("QKV projection", "2 T H (a d + kv (d + d_v)) / tp", count=1.0, m=c.tokens, k=h, n=qkv),
            *rotary(c, self.prepared),
            self.core(c),
            *gated(c),
            Gemm("attention output", "2 T (a d_v / tp) H", count=1.0, m=c.tokens, k=c.heads * c.t.v_head_dim, n=h),
        ]

    def core(self, c: Context) -> Attention:
        """Return scores, softmax and weighted sum: of each document by itself, where several are in a sequence."""
        packed = to_float(c.t.packed_documents)
        op = self._of_sequences(c, to_float(c.t.seq_len) / packed if any_of(packed - 1) else to_float(c.t.seq_len))
        return replace(op, sequences=op.sequences * packed) if any_of(packed - 1) else op

    def _of_sequences(self, c: Context, seq: Array) -> Attention:
        everything = where(c.t.causal, seq / 2, seq)
        if not self.windowed:
            return core(c, "attention", seq, seq, everything, self.prepared)
        window = minimum(c.t.window, seq)
        # The first `window` queries of a causal sequence see fewer: w - w^2 / (2 s) of them on average.
        seen = where(c.t.causal, window - window**2 / (2 * seq), window)
        return replace(core(c, "window attention", seq, window, seen, self.prepared), unwindowed=everything)

    def launches(self, c: Context) -> Array:
        """Return the kernels launched: unfused, products, mask, softmax, dropout and copies are one each."""
        unfused = AttentionKernel.UNFUSED.where(c.layout.attention_kernel)
        few = to_codes(c.formats.recipe) != int(Recipe.NONE)
        more = UNFUSED_KERNELS * unfused + QUANTISING_KERNELS * few
        return super().launches(c) + to_float(more) * CudaGraph.look_up(self.graph, c.layout.cuda_graph)

    def collectives(self, c: Context) -> Sequence[Collective]:
        """Return the exchange of keys and values that context parallelism needs."""
        return exchanges(c, c.tokens)

    def parameters(self, c: Context) -> LayerParameters:
        """Return projections with their biases, norms of queries and keys, and attention sinks."""
        qk = np.asarray(c.t.qk_norm)
        of_norms = where(QkNorm.WHOLE.where(qk), (c.heads + c.kv_heads) * c.key_dim, 2 * to_float(c.t.head_dim))
        norms = where(QkNorm.OFF.where(qk), 0.0, of_norms)
        dense = projection_parameters(c) + norms + c.heads * c.t.attention_sinks
        gate = gate_numbers(c)
        return LayerParameters(dense + gate * (c.t.hidden + biased(c, "qkv")) if any_of(gate) else dense)

    def tp_replicated(self, c: Context) -> TpReplicated:
        """Return the bias of the output projection, and norms of heads."""
        bias, qk_norm = biased(c, "output"), to_float(QkNorm.ON.where(c.t.qk_norm))
        biases = to_float(bias * c.t.hidden)
        parameters = to_float(biases + 2 * qk_norm * c.t.head_dim)
        return TpReplicated(parameters, tensors=bias + 2 * qk_norm, biases=biases, bias_tensors=bias)

    def tensors(self, c: Context) -> Array:
        """Return the projections, of Q, K and V each by itself, with biases; norms of queries and keys; and sinks."""
        biases = 3 * biased(c, "qkv") + biased(c, "output")
        norms = 2.0 * ~QkNorm.OFF.where(c.t.qk_norm)
        return super().tensors(c) + 2 + biases + norms + to_float(c.t.attention_sinks)

    def saved_activations(self, c: Context) -> Sequence[SavedActivations]:
        """Return queries, keys, values, the input of the output projection, and scores where they are kept.

        Where queries and keys are normalised, what they were before is the input of their norms.
        """
        seq = to_float(c.t.seq_len)
        keys = minimum(c.t.window, seq) if self.windowed else seq
        with_statistics = 1.0 + c.norm_saved / c.formats.activation
        norm_inputs = normalised(c) * where(QkNorm.OFF.where(c.t.qk_norm), 0.0, with_statistics)
        saved = (
            projected(c)
            + saved_gathered_keys(c, c.tokens)
            + norm_inputs
            + gate_bytes(c)
            + kept_whole(c, (c.heads + c.kv_heads) * c.key_dim)
        )
        return [SavedActivations("attention", saved), SavedActivations("core_attn", score_bytes(c, keys))]

    def modules(self, c: Context) -> Sequence[Module]:
        """Return the core: scores, softmax and weighted sum, with the exchange of context parallelism before them."""
        return [core_module(self.saved_activations(c), self.core(c), exchanges(c, c.tokens))]

    def cache(self, c: Context, length: Array) -> Cache:
        """Return keys and values of every head, of which a window attends to the last."""
        width = c.key_dim + c.t.v_head_dim
        attended = minimum(c.t.window, length) if self.windowed else length
        return Cache(to_float(c.t.kv_heads) * width, c.kv_heads * width, attended, 2.0 * to_float(c.t.heads) * width)


class CrossAttention(Block):
    """A decoder's attention to the encoder beside it: queries from the one, keys and values from the other."""

    kernels: ClassVar[float] = 9.0
    graph: ClassVar[str] = "attention"

    def operations(self, c: Context) -> Sequence[Operation]:
        """Return both projections, scores over the encoder's sequence, and the output projection."""
        h = c.t.hidden
        kv = c.kv_heads * (c.key_dim + c.t.v_head_dim)
        return [
            Gemm("cross-Q projection", "2 T H a d / tp", count=1.0, m=c.tokens, k=h, n=c.heads * c.key_dim),
            Gemm("cross-KV projection", "2 T_enc H kv (d + d_v) / tp", count=1.0, m=c.encoder_tokens, k=h, n=kv),
            self.core(c),
            Gemm(
                "cross-attention output", "2 T (a d_v / tp) H", count=1.0, m=c.tokens, k=c.heads * c.t.v_head_dim, n=h
            ),
        ]

    def core(self, c: Context) -> Attention:
        """Return scores, softmax and weighted sum over the encoder's sequence."""
        keys = to_float(c.t.encoder_seq_len)
        return core(c, "cross-attention", c.t.seq_len, keys, keys)

    def collectives(self, c: Context) -> Sequence[Collective]:
        """Return the exchange of the encoder's keys and values that context parallelism needs."""
        return exchanges(c, c.encoder_tokens, "cross-")

    def parameters(self, c: Context) -> LayerParameters:
        """Return the projections with their biases."""
        return LayerParameters(projection_parameters(c))

    def saved_activations(self, c: Context) -> Sequence[SavedActivations]:
        """Return queries, keys, values, the input of the output projection, and scores where they are kept."""
        scores = score_bytes(c, to_float(c.t.encoder_seq_len))
        saved = projected(c) + saved_gathered_keys(c, c.encoder_tokens)
        return [SavedActivations("attention", saved), SavedActivations("core_attn", scores)]

    def modules(self, c: Context) -> Sequence[Module]:
        """Return the core: scores, softmax and weighted sum, with the exchange of context parallelism before them."""
        return [core_module(self.saved_activations(c), self.core(c), self.collectives(c))]


def rotary(c: Context, prepared: float = 0.0) -> Sequence[Operation]:
    """Return the rotation of queries and keys, read and written once, where positions are rotary.

    Where it is ``prepared`` by the kernel of attention, as some do, it is in that kernel's time.
    """
    rotates = to_float(Position.ROPE.where(c.t.position))
    rotates = rotates * (1 - prepared * AttentionKernel.look_up("prepares", c.layout.attention_kernel))
    if not any_of(rotates):
        return []
    elements = c.tokens * (c.heads * c.key_dim + c.kv_heads * c.key_dim)
    fused, eager = 2.0 * to_float(c.formats.activation), ElementwiseKernels.EAGER.where(c.layout.kernels)
    one_by_one = EAGER_ROTATION / ElementwiseKernels.EAGER.cost
    forward, backward = (elements * np.where(eager, one_by_one, times * fused) for times in (1.0, 1.5))
    formula = "2 T (a + kv) d / tp elements"
    return [
        Elementwise(
            "rotary embedding",
            formula,
            count=rotates,
            forward_bytes=forward,
            backward_bytes=backward,
            factor=c.kernel_cost,
        )
    ]


def gate_numbers(c: Context) -> Array:
    """Return the numbers of a token of the gate on what comes out of this device's heads."""
    gate = c.t.attention_gate
    if everywhere(AttentionGate.OFF.where(gate)):
        return to_float(0.0)
    each = where(AttentionGate.ON.where(gate), c.t.v_head_dim, 1.0)
    return where(AttentionGate.OFF.where(gate), 0.0, c.heads * each)


def gated(c: Context) -> Sequence[Operation]:
    """Return the product of what comes out of attention with the gate: two numbers read, one written."""
    gates = to_float(~AttentionGate.OFF.where(c.t.attention_gate))
    if not any_of(gates):
        return []
    moved = 3 * c.formats.activation * c.tokens * c.heads * c.t.v_head_dim
    return [
        Elementwise(
            "attention gate",
            "3 T a d_v / tp elements",
            count=gates,
            forward_bytes=moved,
            backward_bytes=1.5 * moved,
            factor=c.kernel_cost,
        )
    ]


def gate_bytes(c: Context) -> Array:
    """Return what the gate keeps: itself, and the output before it."""
    numbers = gate_numbers(c)
    if not any_of(numbers):
        return numbers
    return to_float(c.formats.activation * c.tokens * (numbers + (numbers > 0) * c.heads * c.t.v_head_dim))


def core(c: Context, name: str, queries: Numeric, keys: Numeric, seen: Numeric, prepared: Numeric = 0.0) -> Attention:
    """Return scores, softmax and weighted sum over so many keys, of which a query sees ``seen`` on average."""
    asked = to_float(queries) / c.layout.cp
    return Attention(
        name,
        "2 b (a / tp) s^2 (d + d_v) / cp",
        count=1.0,
        sequences=c.layout.micro_batch,
        heads=c.heads,
        queries=asked,
        keys=keys,
        seen=seen,
        key_dim=c.key_dim,
        value_dim=c.t.v_head_dim,
        key_heads=c.kv_heads,
        prepared=prepared,
    )


def core_module(saved: Sequence[SavedActivations], core: Attention, exchanged: Sequence[Collective]) -> Module:
    """Return the core of attention as what can be recomputed of queries, keys and values.

    Its output is kept, an input of the output projection; a fused kernel keeps nothing that making it again frees.
    """
    scores = [each.size for each in saved if each.module == "core_attn"]
    return Module("core_attn", scores[0], {core.name: 1.0}, {each.name: each.count for each in exchanged})


def projection_parameters(c: Context) -> Array:
    """Return the parameters of the projections of queries, keys, values and the output, with their biases."""
    h, t = to_float(c.t.hidden), c.t
    qkv = c.heads * c.key_dim + c.kv_heads * (c.key_dim + t.v_head_dim)
    bias = biased(c, "qkv") * qkv + biased(c, "output") * h
    return h * qkv + c.heads * t.v_head_dim * h + bias


def projected(c: Context) -> Array:
    """Return the bytes of queries, keys, values, and the output, which is the input of the output projection.

    A projection in fewer bits keeps a copy of its own, beside that of attention in 16.
    """
    each = c.heads * (c.key_dim + c.t.v_head_dim) + c.kv_heads * (c.key_dim + c.t.v_head_dim)
    kept = c.formats.activation * c.tokens * each
    apart = c.operand_kept < to_float(c.formats.activation)
    if not somewhere(apart):
        return to_float(kept)
    in_bits = apart & (to_float(c.formats.fp8_attention) > 0)
    copy = apart * c.operand_kept * c.tokens * c.heads * c.t.v_head_dim
    return where(in_bits, c.operand_kept * c.tokens * each, kept + copy)


def kept_whole(c: Context, numbers: Numeric) -> Array:
    """Return the bytes kept beside of a product that Q, K and V are parts of, and of attention's output in order.

    ``numbers`` are those of a token, of the product, that are in no part of it that is kept.
    """
    output, product = (QkvKept.look_up(name, c.layout.qkv_kept) for name in ("output", "product"))
    if not any_of(output + product):
        return to_float(0.0)
    return to_float(c.formats.activation * c.tokens * (product * numbers + output * c.heads * c.t.v_head_dim))


def normalised(c: Context) -> Array:
    """Return the bytes of queries and keys."""
    return to_float(c.formats.activation * c.tokens * (c.heads + c.kv_heads) * c.key_dim)


def score_bytes(c: Context, keys: Array) -> Array:
    """Return the bytes of the scores over so many keys, softmax and dropout; fused attention keeps none.

    Also of keys and values that are repeated for them, or for a mask, and of that mask.
    """
    unfused = AttentionKernel.UNFUSED.where(c.layout.attention_kernel)
    masked = QkvKept.look_up("mask", c.layout.qkv_kept)
    repeated = unfused | (masked > 0)
    if not somewhere(repeated):
        return to_float(0.0)
    size, drop = to_float(c.formats.activation), to_float(Switch.ON.where(c.t.dropout))
    wide = SoftmaxPrecision.look_up("size", c.layout.softmax_precision)
    softmax = where(wide > 0, wide + size * (1 - drop), size)
    queries = to_float(c.layout.micro_batch) * to_float(c.t.seq_len) / c.layout.cp
    # Keys and values of each head of queries, in place of those that heads share.
    copies = repeated * size * c.tokens * (c.heads - c.kv_heads) * (c.key_dim + c.t.v_head_dim)
    mask = masked * size * queries * c.t.seq_len
    return to_float(unfused * queries * c.heads * keys * (softmax + drop * (MASK + size)) + copies + mask)
