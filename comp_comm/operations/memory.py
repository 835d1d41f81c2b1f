"""Bytes a device keeps: activations of a layer, logits, states of the weights, buffers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from comp_comm.formulas.arrays import Array, Numeric, to_float
from comp_comm.layout import FULL, NO_RECOMPUTE
from comp_comm.operations.context import Context
from comp_comm.operations.feed_forward import expert_tokens
from comp_comm.words import ATTENTION_KERNELS

MASK = 1.0  # bytes of a dropout mask's element
FP32 = 4.0
BUCKET = 40e6  # elements of gradients reduced at once (Megatron-LM's default)
PREFETCHED = 2.0  # layers whose weights are gathered under ZeRO 3: the one that runs, and the next


class Activations(NamedTuple):
    """Bytes an average layer keeps: without recompute, of the scores, and of its input alone."""

    kept: Array
    scores: Array
    entry: Array


def layer_activations(c: Context) -> Activations:
    """Return the bytes an average layer keeps for its backward pass: without recompute, of the scores, of its input.

    With GELU, dropout and unfused attention in 16 bit: s b h (10 + 24 / t) and 5 a s^2 b / t without sequence
    parallelism, the first s b h 34 / t with it (Korthikanti et al., arXiv:2205.05198, Table 2).
    """
    t, size, drop = c.t, to_float(c.formats.activation), to_float(c.t.dropout)
    # The inputs of the norms and of the blocks' first GEMMs; side by side, the blocks have one input between them.
    inputs = to_float(t.norms) + np.where(np.asarray(t.parallel_blocks) > 0, 1.0, 2.0)
    whole = c.split_tokens * t.hidden * (inputs * size + 2 * MASK * drop)
    kept = whole + _attention(c) + _feed_forward(c)
    if t.has_encoder:
        encoder = c.encoder_tokens / c.tokens
        cross = _attention(c) + c.split_tokens * t.hidden * (2 * size + MASK * drop)
        kept = (1 - c.encoder_share) * (kept + cross) + c.encoder_share * encoder * kept
    scores = _scores(c) * (size + drop * (MASK + size))
    return Activations(kept, scores, c.split_tokens * t.hidden * size)


def _attention(c: Context) -> Array:
    """Queries, keys, values and the input of the output projection; what latent attention compresses to, as well."""
    t, size = c.t, c.formats.activation
    each = c.heads * (c.key_dim + t.v_head_dim) + c.kv_heads * (c.key_dim + t.v_head_dim)
    if t.has_mla:
        each = each + c.mla * (to_float(t.q_lora_rank) + t.kv_lora_rank)
    return to_float(size * c.tokens * each)


def _feed_forward(c: Context) -> Array:
    """The inputs of the nonlinearity (two where it is gated), and of the matrix down."""
    t, size, kept = c.t, c.formats.activation, 1.0 + c.gates
    dense = c.tokens * to_float(t.ffn_hidden) / c.layout.tp
    if not t.has_experts:
        return size * kept * dense
    shared = c.tokens * to_float(t.shared_ffn_hidden) / c.layout.tp
    taken = expert_tokens(c)
    experts = taken * (kept * to_float(t.moe_ffn_hidden) / c.layout.etp + 2.0 * t.hidden)  # and in and out of sorting
    moe = c.expert_share * (kept * shared + experts)
    return to_float(size * ((1 - c.expert_share) * kept * dense + moe))


def _scores(c: Context) -> Array:
    """Return the scores kept: none of them where attention is fused, or computed again."""
    unfused = np.asarray(c.layout.attention_kernel) == ATTENTION_KERNELS.index("unfused")
    if not unfused.any():
        return to_float(0.0)
    seq = to_float(c.t.seq_len)
    keys = np.minimum(c.t.window, seq)
    globally = c.t.global_layers / c.t.layers
    keys = np.where(np.isinf(c.t.window), seq, globally * seq + (1 - globally) * keys)
    return to_float(unfused * to_float(c.layout.micro_batch) * c.heads * (seq / c.layout.cp) * keys)


def kept_activations(c: Context, each: Activations, layers: Array, held: Numeric = 1.0) -> Array:
    """Return what ``layers`` layers keep of ``held`` micro-batches, as recompute has it."""
    kept, scores, entry = each
    recompute = np.asarray(c.layout.recompute)
    normally = kept + np.where(recompute == NO_RECOMPUTE, scores, 0.0) if np.any(scores) else kept
    if not (recompute == FULL).any():
        return held * layers * normally
    if np.isnan(to_float(c.layout.recompute_layers)).all():
        return held * layers * np.where(recompute == FULL, entry, normally)
    again = recomputed_layers(c, layers)
    partly = again * entry + (layers - again) * (kept + scores)
    return held * np.where(recompute == FULL, partly, layers * normally)


def working_set(c: Context, each: Activations) -> Array:
    """Return what the layer that is just computed again holds, beside what is kept."""
    recompute = np.asarray(c.layout.recompute)
    if not (recompute != NO_RECOMPUTE).any():
        return to_float(0.0)
    kept, scores, _ = each
    return np.where(recompute == FULL, kept + scores, np.where(recompute == NO_RECOMPUTE, 0.0, scores))


def recomputed_layers(c: Context, layers: Array) -> Array:
    """Return how many of a stage's layers full recompute is for: all, unless their number is given."""
    given = to_float(c.layout.recompute_layers)
    return np.where(np.isnan(given), layers, np.minimum(given, layers))


def logit_bytes(c: Context, vocab: Array) -> Array:
    """Return what the last stage keeps after its layers: logits in 32 bit, and the inputs of the last norm and GEMM.

    4 s b h / t (1 + V / h) with sequence parallelism (Korthikanti et al., section 4.3).
    """
    if not c.has_vocab:
        return to_float(0.0)
    ends = 2.0 * to_float(c.formats.activation) * c.split_tokens * c.t.hidden * (to_float(c.t.vocab) > 0)
    return (FP32 * c.tokens * vocab / c.layout.tp + ends) * (1 + to_float(c.t.mtp_layers))


def state_buffer_bytes(c: Context, layer: Array, parameters: Array) -> Array:
    """Return what collectives of states need beside them: gathered weights of two layers (ZeRO 3), or a bucket."""
    layout, f = c.layout, c.formats
    replicated = layout.replicas > 1
    if not replicated.any():
        return to_float(0.0)
    gathered = PREFETCHED * layer * f.weight
    given = to_float(layout.bucket)
    bucket = np.minimum(np.where(np.isnan(given), BUCKET, given), parameters) * f.grad
    return np.where(to_float(layout.zero) >= 3, replicated * gathered, replicated * bucket)


def message_buffer_bytes(c: Context) -> Array:
    """Return what collectives and sends of activations need beside their operands.

    The gathered sequence; keys and values on their way round (twice); activations received from the next stages.
    """
    layout, f = c.layout, c.formats
    message = c.split_tokens * c.t.hidden * f.comm
    found = 2.0 * message * (to_float(layout.pp) > 1)
    if np.any(np.asarray(layout.sp) > 0):
        found = found + to_float(layout.sp) * c.tokens * c.t.hidden * f.comm
    if np.any(to_float(layout.cp) > 1):
        pair = c.tokens * c.kv_heads * (c.key_dim + c.t.v_head_dim) * f.comm
        found = found + 2.0 * pair * (to_float(layout.cp) > 1)
    return found


def state_bytes(c: Context, parameters: Numeric, shards: Numeric) -> tuple[Array, Array, Array]:
    """Return the bytes of weights, gradients and optimizer states of so many parameters over so many shards.

    ZeRO 1 shards optimizer states, 2 gradients too, 3 weights too (Rajbhandari et al., arXiv:1910.02054).

    >>> from comp_comm.formats import Formats
    >>> from comp_comm.layout import Layout
    >>> sum(float(part) for part in state_bytes(Context(None, Layout(zero=2), Formats()), 13e9, 8)) / 1e9
    48.75
    """
    count, zero, f = to_float(parameters), to_float(c.layout.zero), c.formats

    def over(stage: int) -> Array:
        return np.where(zero >= stage, shards, 1.0)

    optimizer = to_float(f.master) + 2 * to_float(f.moment)
    optimizer = optimizer * (1 - to_float(c.layout.offload_optimizer))
    gradients = to_float(f.grad) + f.accumulate
    return count * f.weight / over(3), count * gradients / over(2), count * optimizer / over(1)
