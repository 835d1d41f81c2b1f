"""The transformer as the cost models see it: numbers that broadcast, and the rules its dimensions must keep.

A number that is not given is NaN until `resolved` fills it in from the others.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from comp_comm.choices import (
    ActivationFunction,
    Architecture,
    AttentionGate,
    Bias,
    CountedGemms,
    KdaGates,
    Norm,
    Position,
    QkNorm,
    Switch,
)
from comp_comm.formulas.arrays import Array, Mask, Numeric, everywhere, isnan, maximum, somewhere, to_float, where
from comp_comm.layer_pattern import count_of, layers_of
from comp_comm.lazy import cached_property
from comp_comm.lora import USUAL_TARGETS
from comp_comm.structs import struct
from comp_comm.texts import NO_TEXT, Texts
from comp_comm.violation import Violation, divides, rule

UNKNOWN = float("nan")


@struct
class Transformer:
    """Dimensions of a transformer, numbers or arrays; the names and meanings are those of the field table.

    Choices are codes of `comp_comm.choices`.
    """

    hidden: Numeric
    seq_len: Numeric
    layers: Numeric = UNKNOWN
    architecture: Numeric = Architecture.DECODER
    heads: Numeric = UNKNOWN
    kv_heads: Numeric = UNKNOWN
    head_dim: Numeric = UNKNOWN
    ffn_hidden: Numeric = UNKNOWN
    gated: Numeric = Switch.OFF
    activation_function: Numeric = ActivationFunction.GELU
    norm: Numeric = Norm.LAYERNORM
    norms: Numeric = 2
    parallel_blocks: Numeric = Switch.OFF
    bias: Numeric = Bias.ON
    qk_norm: Numeric = QkNorm.OFF
    attention_sinks: Numeric = Switch.OFF
    position: Numeric = Position.ROPE
    max_positions: Numeric = UNKNOWN
    vocab: Numeric = UNKNOWN
    vocab_multiple: Numeric = 128
    tied: Numeric = Switch.OFF
    encoder_layers: Numeric = UNKNOWN
    encoder_seq_len: Numeric = UNKNOWN
    patch_features: Numeric = UNKNOWN
    classes: Numeric = UNKNOWN
    extra_parameters: Numeric = 0
    window: Numeric = UNKNOWN
    global_every: Numeric = UNKNOWN
    experts: Numeric = 0
    top_k: Numeric = UNKNOWN
    router_bias: Numeric = Switch.OFF
    router_groups: Numeric = UNKNOWN
    router_group_topk: Numeric = UNKNOWN
    moe_ffn_hidden: Numeric = UNKNOWN
    shared_experts: Numeric = UNKNOWN
    shared_ffn_hidden: Numeric = UNKNOWN
    shared_expert_gate: Numeric = Switch.OFF
    dense_layers: Numeric = UNKNOWN
    moe_every: Numeric = UNKNOWN
    capacity_factor: Numeric = UNKNOWN
    q_lora_rank: Numeric = UNKNOWN
    kv_lora_rank: Numeric = UNKNOWN
    rope_head_dim: Numeric = UNKNOWN
    v_head_dim: Numeric = UNKNOWN
    mtp_layers: Numeric = 0
    packed_documents: Numeric = 1
    clamped_glu: Numeric = 0
    dropout: Numeric = Switch.ON
    layer_pattern: Texts = NO_TEXT
    ssm_heads: Numeric = UNKNOWN
    ssm_head_dim: Numeric = UNKNOWN
    ssm_groups: Numeric = UNKNOWN
    ssm_state: Numeric = UNKNOWN
    ssm_conv: Numeric = UNKNOWN
    ssm_dt_rank: Numeric = UNKNOWN
    ssm_chunk: Numeric = UNKNOWN
    ssm_norm: Numeric = Switch.ON
    attention_gate: Numeric = AttentionGate.OFF
    index_heads: Numeric = UNKNOWN
    index_dim: Numeric = UNKNOWN
    index_topk: Numeric = UNKNOWN
    moe_latent_hidden: Numeric = UNKNOWN
    moe_latent_norm: Numeric = Switch.OFF
    attn_res_block: Numeric = UNKNOWN
    lora_rank: Numeric = UNKNOWN
    lora_targets: Numeric = USUAL_TARGETS
    kda_gates: Numeric = KdaGates.LOW_RANK
    shared_blocks: Numeric = UNKNOWN
    shared_rank: Numeric = UNKNOWN
    shared_attention_rank: Numeric = UNKNOWN

    @cached_property
    def complete(self) -> Transformer:
        """This model with every number that was left out."""
        return _resolved(self)

    @cached_property
    def has_experts(self) -> bool:
        """Whether any point has mixture-of-experts layers."""
        return bool(somewhere(to_float(self.experts) > 0))

    @property
    def encoder_decoder(self) -> Mask:
        """Where an encoder stands beside the decoder."""
        return Architecture.ENCODER_DECODER.where(self.architecture)

    @property
    def causal(self) -> Mask:
        """Where self-attention (the decoder's, if there is an encoder too) is causal."""
        return Architecture.DECODER.where(self.architecture) | self.encoder_decoder

    @property
    def all_layers(self) -> Numeric:
        """Layers of the decoder and, where there is one, of the encoder beside it."""
        return to_float(self.layers) + self.encoder_layers if somewhere(self.encoder_decoder) else self.layers

    @property
    def moe_layers(self) -> Array:
        """Layers of experts: every ``moe_every``-th after the ``dense_layers``, or those of a pattern."""
        if self.layer_pattern.given:
            listed = ~isnan(layers_of(self.layer_pattern))
            return where(listed, count_of(self.layer_pattern, "E"), self._periodic_moe_layers)
        return self._periodic_moe_layers

    @property
    def dense_networks(self) -> Mask:
        """Where some layers have a dense feed-forward network."""
        periodic = np.asarray((to_float(self.experts) == 0) | (self._periodic_moe_layers < self.layers))
        if self.layer_pattern.given:
            listed = ~isnan(layers_of(self.layer_pattern))
            return np.where(listed, count_of(self.layer_pattern, "-") > 0, periodic)
        return periodic

    @property
    def _periodic_moe_layers(self) -> Array:
        after = maximum(to_float(self.layers) - self.dense_layers, 0)
        return where(to_float(self.experts) > 0, np.floor(after / self.moe_every), 0.0)

    def padded_vocab(self, tp: Numeric) -> Array:
        """Return the vocabulary held: padded to a multiple of ``vocab_multiple`` x TP, as Megatron-LM does.

        >>> Transformer(1, 1, vocab=50257).padded_vocab([1, 4, 8])
        array([50304., 50688., 51200.])
        """
        multiple = to_float(self.vocab_multiple) * to_float(tp)
        return np.ceil(to_float(self.vocab) / multiple) * multiple


def resolved(given: Transformer) -> Transformer:
    """Return ``given`` with every number that was left out.

    >>> t = resolved(Transformer(4096, 2048, layers=32, heads=32, vocab=0))
    >>> float(t.head_dim), float(t.ffn_hidden), float(t.kv_heads)
    (128.0, 16384.0, 32.0)
    """
    return given.complete


def _resolved(t: Transformer) -> Transformer:
    head_dim = _or(t.head_dim, to_float(t.hidden) / t.heads)
    ffn_hidden = _or(t.ffn_hidden, 4 * to_float(t.hidden))
    moe_ffn_hidden, shared_experts = _or(t.moe_ffn_hidden, ffn_hidden), _or(t.shared_experts, 0)
    both, router_groups = t.encoder_decoder, _or(t.router_groups, 1)
    complete = replace(
        t,
        kv_heads=_or(t.kv_heads, t.heads),
        head_dim=head_dim,
        ffn_hidden=ffn_hidden,
        max_positions=_or(t.max_positions, t.seq_len),
        encoder_layers=where(both, _or(t.encoder_layers, 0), 0.0),
        encoder_seq_len=_or(t.encoder_seq_len, t.seq_len),
        patch_features=_or(t.patch_features, 0),
        classes=_or(t.classes, 0),
        window=_or(t.window, np.inf),
        global_every=_or(t.global_every, 0),
        top_k=_or(t.top_k, 0),
        router_groups=router_groups,
        router_group_topk=_or(t.router_group_topk, router_groups),
        moe_ffn_hidden=moe_ffn_hidden,
        shared_experts=shared_experts,
        shared_ffn_hidden=_or(t.shared_ffn_hidden, shared_experts * moe_ffn_hidden),
        dense_layers=_or(t.dense_layers, 0),
        moe_every=_or(t.moe_every, 1),
        capacity_factor=_or(t.capacity_factor, 1),
        q_lora_rank=_or(t.q_lora_rank, 0),
        kv_lora_rank=_or(t.kv_lora_rank, 0),
        rope_head_dim=_or(t.rope_head_dim, 0),
        v_head_dim=_or(t.v_head_dim, head_dim),
        index_heads=_or(t.index_heads, 0),
        index_dim=_or(t.index_dim, 128),
        index_topk=_or(t.index_topk, 2048),
        moe_latent_hidden=_or(t.moe_latent_hidden, 0),
        attn_res_block=_or(t.attn_res_block, 0),
    )
    return _with_states(complete) if t.layer_pattern.given else complete


def _with_states(t: Transformer) -> Transformer:
    """Return a model with the numbers of mixers with a state, as they follow from each other."""
    mamba = count_of(t.layer_pattern, "MS") > 0
    heads, head_dim = _or(t.ssm_heads, 1), _or(t.ssm_head_dim, 1)
    return replace(
        t,
        ssm_heads=heads,
        shared_blocks=_or(t.shared_blocks, 1),
        shared_rank=_or(t.shared_rank, 0),
        shared_attention_rank=_or(t.shared_attention_rank, 0),
        ssm_head_dim=head_dim,
        ssm_groups=_or(t.ssm_groups, where(mamba, 1.0, heads)),
        ssm_state=_or(t.ssm_state, head_dim),
        ssm_conv=_or(t.ssm_conv, 4),
        ssm_dt_rank=_or(t.ssm_dt_rank, np.ceil(to_float(t.hidden) / 16)),
        ssm_chunk=_or(t.ssm_chunk, where(count_of(t.layer_pattern, "GK") > 0, 64.0, 256.0)),
    )


def _or(given: Numeric, otherwise: Numeric) -> Array:
    """Return ``given``, or ``otherwise`` where it is NaN; without a new axis where nothing is."""
    value = to_float(given)
    missing = isnan(value)
    if not somewhere(missing):
        return value
    return to_float(otherwise) if everywhere(missing) else where(missing, otherwise, value)


def transformer_rules(given: Transformer, t: Transformer) -> list[Violation]:
    """Return the rules that the dimensions of a model must keep; ``t`` is ``given``, resolved."""
    no_head_dim = isnan(to_float(given.head_dim))
    even = divides(t.heads, t.hidden, ("heads", "hidden"))
    vit, both = Architecture.VIT.where(t.architecture), t.encoder_decoder
    moe = to_float(t.experts) > 0
    top_k, encoder_layers = to_float(given.top_k), to_float(given.encoder_layers)
    return [
        replace(even, broken=even.broken & no_head_dim, reason="heads does not divide hidden; or give head_dim"),
        divides(t.kv_heads, t.heads, ("kv_heads", "heads")),
        rule(vit & (to_float(t.vocab) > 0), "a vision transformer has no vocabulary: vocab must be 0",
              "vocab", "architecture"),
        rule(both & isnan(encoder_layers), "an encoder-decoder needs encoder_layers",
              "encoder_layers", "architecture"),
        rule(~both & ~isnan(encoder_layers), "encoder_layers is only for architecture encoder-decoder",
              "encoder_layers", "architecture"),
        rule(both & moe, "an encoder-decoder of experts is not modelled", "experts", "architecture"),
        rule((both | moe) & (Switch.ON.where(t.parallel_blocks)), "parallel_blocks of experts, or in an "
              "encoder-decoder, are not modelled", "parallel_blocks", "experts", "architecture"),
        rule(both & ~np.isinf(t.window), "a window in an encoder-decoder is not modelled", "window", "architecture"),
        rule((both | Switch.ON.where(t.parallel_blocks)) & (to_float(t.attn_res_block) > 0), "attention residuals in "
              "an encoder-decoder, or of parallel_blocks, are not modelled", "attn_res_block", "parallel_blocks",
              "architecture"),
        rule(moe & isnan(top_k), "a mixture of experts needs top_k", "top_k", "experts"),
        rule(moe & (top_k > t.experts), "top_k exceeds experts", "top_k", "experts"),
        rule(moe & Switch.ON.where(t.shared_expert_gate) & ~(to_float(t.shared_ffn_hidden) > 0),
              "shared_expert_gate is of shared experts, of which there are none", "shared_expert_gate",
              "shared_experts"),
        rule(to_float(t.dense_layers) > t.layers, "dense_layers exceeds layers", "dense_layers", "layers"),
        rule((to_float(t.kv_lora_rank) > 0) & (to_float(t.kv_heads) != t.heads),
              "multi-head latent attention has as many kv_heads as heads", "kv_heads", "kv_lora_rank"),
        rule((to_float(t.mtp_layers) > 0) & ~(to_float(t.vocab) > 0), "mtp_layers need a vocabulary",
              "mtp_layers", "vocab"),
    ]  # fmt: skip


class GemmCount(NamedTuple):
    """How many GEMMs of a layer are counted (see `comp_comm.formulas.transformer`)."""

    fc_gemms: Numeric
    attention_gemms: Numeric
    linear_gemms: Numeric


def gemm_count(counted: CountedGemms) -> GemmCount:
    """Return how many GEMMs of each kind an option counts.

    >>> gemm_count(CountedGemms.PAPER_EXACT)
    GemmCount(fc_gemms=1, attention_gemms=1, linear_gemms=3)
    """
    return GemmCount(counted.fc_gemms, counted.attention_gemms, counted.linear_gemms)
