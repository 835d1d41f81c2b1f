"""The attention block of a layer: projections, scores, and what runs between."""

from __future__ import annotations

import numpy as np

from comp_comm.formulas.arrays import Array, Numeric, to_float
from comp_comm.operations.context import Context, any_of
from comp_comm.operations.shapes import Attention, Elementwise, Gemm, Operation


def attention_block(c: Context) -> list[Operation]:
    """Return the forward operations of an average layer's attention, on one device.

    With an encoder, its self-attention and the decoder's attention to it are among them.
    """
    if not c.t.has_encoder:
        return [*_projections(c, 1.0), *_scores(c)]
    decoder, encoder = 1.0 - c.encoder_share, c.encoder_share
    enc, seq, enc_seq = c.encoder_tokens, c.t.seq_len, c.t.encoder_seq_len
    operations: list[Operation] = [
        *_projections(c, decoder),
        *_scores(c, decoder),
        *_standard(c, encoder, enc, enc, "encoder "),
        _core(c, "encoder attention", encoder, enc_seq, enc_seq, enc_seq),
        *_standard(c, decoder, c.tokens, enc, "cross-"),
        _core(c, "cross-attention", decoder, seq, enc_seq, enc_seq),
    ]
    return operations


def _projections(c: Context, share: Numeric) -> list[Operation]:
    if not c.t.has_mla:
        return [*_standard(c, share, c.tokens, c.tokens), _rotary(c, share)]
    standard, latent = share * (1.0 - c.mla), share * c.mla
    found = [*_standard(c, standard, c.tokens, c.tokens)] if any_of(standard) else []
    return [*found, *_latent(c, latent), _rotary(c, share)]


def _standard(c: Context, share: Numeric, queries: Array, keys: Array, prefix: str = "") -> list[Operation]:
    """Return the projections of queries, keys and values, and back: split by head over TP."""
    h, kv = c.t.hidden, c.kv_heads * (c.key_dim + c.t.v_head_dim)
    q = c.heads * c.key_dim
    out = Gemm(f"{prefix}attention output", "2 T (a d_v / tp) H", share, queries, c.heads * c.t.v_head_dim, h)
    if queries is keys:
        return [Gemm(f"{prefix}QKV projection", "2 T H (a d + kv (d + d_v)) / tp", share, queries, h, q + kv), out]
    return [Gemm(f"{prefix}Q projection", "2 T H a d / tp", share, queries, h, q),
            Gemm(f"{prefix}KV projection", "2 T_enc H kv (d + d_v) / tp", share, keys, h, kv), out]  # fmt: skip


def _latent(c: Context, share: Numeric) -> list[Operation]:
    """Return the projections of multi-head latent attention (DeepSeek-V2): down on every TP device, up by head.

    Where queries are not compressed (``q_lora_rank`` 0) they are projected at once.
    """
    h, q_rank, kv_rank = c.t.hidden, to_float(c.t.q_lora_rank), to_float(c.t.kv_lora_rank)
    compressed = to_float(share) * (q_rank > 0)
    q_width, kv_width = c.heads * c.key_dim, c.heads * (to_float(c.t.head_dim) + c.t.v_head_dim)
    q_inputs = np.where(q_rank > 0, q_rank, h)
    return [
        Gemm("Q down-projection", "2 T_s H r_q", compressed, c.split_tokens, h, q_rank),
        Gemm("Q up-projection", "2 T r_q a (d + d_r) / tp", share, c.tokens, q_inputs, q_width),
        Gemm("KV down-projection", "2 T_s H (r_kv + d_r)", share, c.split_tokens, h, kv_rank + c.t.rope_head_dim),
        Gemm("KV up-projection", "2 T r_kv a (d + d_v) / tp", share, c.tokens, kv_rank, kv_width),
        Gemm("attention output", "2 T (a d_v / tp) H", share, c.tokens, c.heads * c.t.v_head_dim, h),
    ]


def _rotary(c: Context, share: Numeric) -> Operation:
    """Return the rotation of queries and keys: read and written once (or the scaling and copies in its place)."""
    moved = c.formats.activation * c.tokens * 2.0 * (c.heads * c.key_dim + c.kv_heads * c.key_dim)
    return Elementwise("rotary embedding", "2 T (a + kv) d / tp elements", share, moved, 1.5 * moved, c.kernel_cost)


def _scores(c: Context, share: Numeric = 1.0) -> list[Operation]:
    """Return self-attention: over everything, and over a window where some layers have one."""
    seq = to_float(c.t.seq_len)
    everywhere = seq / 2 if c.t.causal.all() else np.where(c.t.causal, seq / 2, seq)
    if np.all(np.isinf(c.t.window)):
        return [_core(c, "attention", share, seq, seq, everywhere)]
    window = np.minimum(c.t.window, seq)
    # The first `window` queries of a causal sequence see fewer: w - w^2 / (2 s) of them on average.
    seen = np.where(c.t.causal, window - window**2 / (2 * seq), window)
    globally = c.t.global_layers / c.t.layers
    found = [_core(c, "window attention", share * (1 - globally), seq, window, seen)]
    if any_of(globally):
        found.append(_core(c, "attention", share * globally, seq, seq, everywhere))
    return list(found)


def _core(c: Context, name: str, share: Numeric, queries: Numeric, keys: Numeric, seen: Numeric) -> Attention:
    formula = "2 b (a / tp) s^2 (d + d_v) / cp"
    asked = to_float(queries) / c.layout.cp
    return Attention(
        name, formula, share, c.layout.micro_batch, c.heads, asked, keys, seen, c.key_dim, c.t.v_head_dim, c.kv_heads
    )
