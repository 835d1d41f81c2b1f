"""Parameters: of a whole model, and of a device's part of it. The model is what one device alone would hold."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from comp_comm.formats import Formats
from comp_comm.formulas.arrays import Array, to_float
from comp_comm.layout import Layout
from comp_comm.operations.context import Context
from comp_comm.transformer import BOTH, LEARNED, VIT, Transformer
from comp_comm.words import QK_NORMS

ALONE = Layout(micro_batch=1, tp=1, dp=1, cp=1, pp=1, ep=1, etp=1, sp=0)
# Where there is a bias, in the order of `comp_comm.words.BIASES`: of Q, K and V, of the attention's output, of the FFN.
BIASED = np.array([[0, 1, 1, 1, 0, 0], [0, 0, 1, 1, 0, 1], [0, 0, 1, 0, 1, 1]], dtype=float)
WHOLE_NORM = QK_NORMS.index("whole")
NORM_WEIGHTS = to_float([2.0, 1.0, 1.0])  # of an element, in the order of `comp_comm.words.NORMS`
MTP_NORMS = 3  # of the hidden state, of the next token's embedding, and before the logits (DeepSeek-V3)


class Parameters(NamedTuple):
    """Parameters by how they are held: of an average layer (without and with experts apart), and beside the layers."""

    layer: Array
    layer_experts: Array
    embedding: Array
    head: Array
    final_norm: Array
    mtp: Array


def held_parameters(c: Context, vocab: Array) -> Parameters:
    """Return the parameters one device holds, with a vocabulary of ``vocab`` entries split over TP.

    ``head`` is the output layer where it does not share the embedding's weights.
    """
    t, h = c.t, to_float(c.t.hidden)
    norm = _norm(c)
    rows = vocab / c.layout.tp
    learned = np.asarray(t.position) == LEARNED
    embedding = rows * h + np.where(learned, to_float(t.max_positions) * h, 0.0) + t.extra_parameters
    head = np.where(to_float(t.tied) > 0, 0.0, rows * h)
    if c.is_vit:
        vit = np.asarray(t.architecture) == VIT
        patches, classes = to_float(t.patch_features), to_float(t.classes)
        embedding = embedding + np.where(vit & (patches > 0), (patches + 1) * h, 0.0)
        head = np.where(vit, (h + 1) * classes, head)
    norms = norm * (1.0 + (np.asarray(t.architecture) == BOTH)) if t.has_encoder else norm
    modules = to_float(t.mtp_layers) * (2 * h * h + MTP_NORMS * norm)
    return Parameters(_layer(c), _experts(c), embedding, head, norms, modules)


def model_parameters(t: Transformer) -> tuple[Array, Array, Array]:
    """Return all parameters of a resolved model, those a token uses, and those of its MTP modules apart.

    Tied embeddings count once; modules of multi-token prediction are in none of the first two.

    >>> from comp_comm.transformer import resolved
    >>> gpt2 = resolved(Transformer(768, 1024, layers=12, heads=12, vocab=50257, position=1, tied=1))
    >>> int(model_parameters(gpt2)[0])
    124439808
    """
    held = held_parameters(Context(t, ALONE, Formats()), to_float(t.vocab))
    beside = held.embedding + held.head + held.final_norm
    layers, experts = to_float(t.all_layers), to_float(t.experts)
    total = layers * (held.layer + held.layer_experts) + beside
    used = np.where(experts > 0, to_float(t.top_k) / np.maximum(experts, 1), 0.0)
    active = layers * (held.layer + held.layer_experts * used) + beside
    apart = held.mtp + to_float(t.mtp_layers) * _last_layer(t)
    return np.rint(total), np.rint(active), np.rint(apart)


def _last_layer(t: Transformer) -> Array:
    """Return the parameters of a module's layer: of experts where the model has any."""
    c = Context(t, ALONE, Formats())
    if not t.has_experts:
        return _layer(c)
    share = np.maximum(c.expert_share, 1e-300)
    moe = _attention(c) + _norms(c) + _moe_beside(c) + _experts(c) / share
    return np.where(to_float(t.experts) > 0, moe, _layer(c))


def _layer(c: Context) -> Array:
    """Return an average layer's parameters on a device, its experts apart."""
    t = c.t
    dense = _feed_forward(c, to_float(t.ffn_hidden))
    if t.has_experts:
        dense = (1 - c.expert_share) * dense + c.expert_share * _moe_beside(c)
    layer = _attention(c) + _norms(c) + dense
    if t.has_encoder:  # the decoder's attention to the encoder, and its norm
        layer = layer + (1 - c.encoder_share) * (_standard_attention(c) + _norm(c))
    return layer


def _moe_beside(c: Context) -> Array:
    """Return a mixture's router and shared experts."""
    shared = to_float(c.t.shared_ffn_hidden)
    extra = np.where(shared > 0, _feed_forward(c, shared), 0.0)
    return (to_float(c.t.hidden) + c.t.router_bias) * c.t.experts + extra


def _experts(c: Context) -> Array:
    """Return the experts of an average layer that a device holds."""
    if not c.t.has_experts:
        return to_float(0.0)
    width = to_float(c.t.moe_ffn_hidden) / c.layout.etp
    return c.expert_share * (to_float(c.t.experts) / c.layout.ep) * _mlp(c, width)


def _feed_forward(c: Context, width: Array) -> Array:
    return _mlp(c, width / c.layout.tp)


def _mlp(c: Context, width: Array) -> Array:
    h = to_float(c.t.hidden)
    bias = _biased(c, 2) * (c.gates * width + h)
    return (c.gates + 1) * h * width + bias


def _attention(c: Context) -> Array:
    if not c.t.has_mla:
        return _standard_attention(c)
    return np.where(c.mla > 0, _latent_attention(c), _standard_attention(c))


def _standard_attention(c: Context) -> Array:
    h, t = to_float(c.t.hidden), c.t
    qkv = c.heads * c.key_dim + c.kv_heads * (c.key_dim + t.v_head_dim)
    bias = _biased(c, 0) * qkv + _biased(c, 1) * h
    return h * qkv + c.heads * t.v_head_dim * h + bias


def _latent_attention(c: Context) -> Array:
    h, t = to_float(c.t.hidden), c.t
    q_rank, kv_rank = to_float(t.q_lora_rank), to_float(t.kv_lora_rank)
    width = c.heads * c.key_dim
    queries = np.where(q_rank > 0, h * q_rank + q_rank + q_rank * width, h * width)
    keys = h * (kv_rank + t.rope_head_dim) + kv_rank + kv_rank * c.heads * (to_float(t.head_dim) + t.v_head_dim)
    return queries + keys + c.heads * t.v_head_dim * h


def _biased(c: Context, what: int) -> Array:
    """Return 1 where Q, K and V (0), attention's output (1) or the feed-forward network (2) have a bias."""
    return np.asarray(BIASED[what][np.asarray(c.t.bias, np.intp)])


def _norm(c: Context) -> Array:
    return to_float(c.t.hidden) * NORM_WEIGHTS[np.asarray(c.t.norm, np.intp)]


def _norms(c: Context) -> Array:
    """Return the norms of a layer, those of queries and keys where they have one, and the heads' attention sinks."""
    qk = np.asarray(c.t.qk_norm)
    each = np.where(qk == WHOLE_NORM, (c.heads + c.kv_heads) * c.key_dim, 2 * to_float(c.t.head_dim))
    return to_float(c.t.norms) * _norm(c) + np.where(qk > 0, each, 0.0) + c.heads * c.t.attention_sinks
