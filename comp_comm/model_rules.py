"""The rules of a model by itself: of dimensions, of routers, of sparse attention, and of layers a pattern lists."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from comp_comm.choices import AttentionGate, KdaGates, QkNorm, Switch
from comp_comm.formulas.arrays import Array, Mask, to_float
from comp_comm.layer_pattern import RECURRENT, SHARED, count_of, layers_of
from comp_comm.transformer import Transformer, transformer_rules
from comp_comm.violation import Violation, rule


def model_rules(given: Transformer, t: Transformer) -> list[Violation]:
    """Return all rules that the dimensions of a model must keep; ``t`` is ``given``, resolved."""
    listed = _pattern_rules(given, t) if t.layer_pattern.given else []
    packed = to_float(t.packed_documents) > 1
    return [*transformer_rules(given, t), *_router_rules(t), *_sparse_rules(t), *listed,
            rule(packed & t.encoder_decoder, "several documents in a sequence (packed_documents) of an encoder-decoder "
                 "are not modelled: its attention to the encoder", "packed_documents", "architecture")]  # fmt: skip


def _router_rules(t: Transformer) -> list[Violation]:
    """Return the rules about groups of experts that a router chooses from."""
    groups, chosen, experts = to_float(t.router_groups), to_float(t.router_group_topk), to_float(t.experts)
    return [
        rule(experts % groups != 0, "router_groups does not divide experts", "router_groups", "experts"),
        rule(chosen > groups, "router_group_topk exceeds router_groups", "router_group_topk", "router_groups"),
        rule((experts > 0) & (to_float(t.top_k) * groups > chosen * experts), "top_k exceeds the experts of "
             "router_group_topk groups", "top_k", "router_group_topk", "router_groups"),
    ]  # fmt: skip


def _sparse_rules(t: Transformer) -> list[Violation]:
    sparse, latent = to_float(t.index_heads) > 0, to_float(t.kv_lora_rank) > 0
    return [
        rule(sparse & ~latent, "sparse attention with an indexer is of multi-head latent attention: it needs "
              "kv_lora_rank", "index_heads", "kv_lora_rank"),
        rule(sparse & ~np.isinf(t.window), "a window beside sparse attention is not modelled", "window", "index_heads"),
    ]  # fmt: skip


class _Pattern(NamedTuple):
    """A model as given and as resolved, whose layers are listed at some points."""

    given: Transformer
    t: Transformer

    @property
    def layers(self) -> Array:
        """How many layers are listed, NaN where none are."""
        return to_float(layers_of(self.t.layer_pattern))

    @property
    def listed(self) -> Mask:
        """Where layers are listed."""
        return ~np.isnan(self.layers)

    def has(self, letters: str) -> Mask:
        """Return where a pattern has one of these blocks."""
        return np.asarray(count_of(self.t.layer_pattern, letters) > 0)

    def stated(self, name: str) -> Mask:
        """Return where layers are listed, and a field is given."""
        return self.listed & ~np.isnan(to_float(getattr(self.given, name)))

    def nowhere(self, letters: str) -> bool:
        """Whether no pattern of the study has such a block: along an axis of patterns, sizes are of those that do."""
        pattern = self.t.layer_pattern
        return not np.any(count_of(replace(pattern, codes=np.arange(len(pattern.texts))), letters) > 0)


def _pattern_rules(given: Transformer, t: Transformer) -> list[Violation]:
    """Return the rules of a model whose layers are listed."""
    p = _Pattern(given, t)
    return [*_listed_rules(p, t), *_beside_rules(p, t), *_attention_rules(p, t), *_mixer_rules(p, t)]


def _listed_rules(p: _Pattern, t: Transformer) -> list[Violation]:
    """Return what a list of layers asks of the model's other fields."""
    return [
        rule(
            p.listed & (p.layers != t.layers),
            "layer_pattern has another number of layers than 'layers' says",
            "layer_pattern",
            "layers",
        ),
        rule(p.listed & ~np.asarray(t.causal), "layer_pattern is of a decoder", "layer_pattern", "architecture"),
        rule(
            p.listed & t.encoder_decoder,
            "layer_pattern in an encoder-decoder is not modelled",
            "layer_pattern",
            "architecture",
        ),
        rule(
            p.listed & (p.has("E") != (to_float(t.experts) > 0)),
            "layer_pattern has layers of experts (E) where 'experts' has none, or none where it has",
            "layer_pattern",
            "experts",
        ),
        rule(
            p.listed & (p.has("W") != ~np.isinf(t.window)),
            "layer_pattern has layers over a window (W) where 'window' is not given, or none where it is",
            "layer_pattern",
            "window",
        ),
        rule(
            p.has("T") & ~(to_float(t.index_heads) > 0),
            "layer_pattern has layers of sparse attention (T): it needs index_heads",
            "layer_pattern",
            "index_heads",
        ),
        rule(
            p.listed & p.has("W") & (to_float(t.kv_lora_rank) > 0),
            "a window in multi-head latent attention is not modelled beside layer_pattern",
            "layer_pattern",
            "kv_lora_rank",
        ),
        rule(
            p.has("H" + SHARED) & (to_float(t.kv_lora_rank) > 0),
            "latent attention in layers H, Z and Y is not modelled",
            "layer_pattern",
            "kv_lora_rank",
        ),
        rule(
            p.has(SHARED) & (to_float(t.shared_blocks) > count_of(t.layer_pattern, SHARED)),
            "shared_blocks exceeds the layers that share them (Z, Y), of which each takes one",
            "shared_blocks",
            "layer_pattern",
        ),
    ]


def _beside_rules(p: _Pattern, t: Transformer) -> list[Violation]:
    """Return the rules of fields that mean nothing beside a list of layers, or beside one without their blocks."""
    return [
        *(
            rule(
                p.stated(name) & p.nowhere(SHARED),
                f"{name} is of layers that share a block (Z, Y), which layer_pattern does not have",
                name,
                "layer_pattern",
            )
            for name in ("shared_blocks", "shared_rank", "shared_attention_rank")
        ),
        rule(
            p.listed & ~KdaGates.LOW_RANK.where(t.kda_gates) & p.nowhere("K"),
            "kda_gates is of Kimi Delta Attention (K), which layer_pattern does not have",
            "kda_gates",
            "layer_pattern",
        ),
        rule(
            p.listed & Switch.ON.where(t.parallel_blocks),
            "parallel_blocks beside layer_pattern are not modelled",
            "parallel_blocks",
            "layer_pattern",
        ),
        *(
            rule(p.stated(name), f"{name} beside layer_pattern: it lists the layers", name, "layer_pattern")
            for name in ("dense_layers", "moe_every", "global_every")
        ),
    ]


def _attention_rules(p: _Pattern, t: Transformer) -> list[Violation]:
    """Return what the attention of a shared block does not have."""
    asked = {"qk_norm": ~QkNorm.OFF.where(t.qk_norm), "attention_sinks": Switch.ON.where(t.attention_sinks),
             "attention_gate": ~AttentionGate.OFF.where(t.attention_gate)}  # fmt: skip
    return [
        rule(p.has(SHARED) & on, f"{name} in layers that share a block (Z, Y) is not modelled", name, "layer_pattern")
        for name, on in asked.items()
    ]


def _mixer_rules(p: _Pattern, t: Transformer) -> list[Violation]:
    """Return what listed mixers with a state ask of the sizes of their state."""
    sizes = ("ssm_heads", "ssm_head_dim", "ssm_groups", "ssm_state", "ssm_conv", "ssm_chunk")
    return [
        rule(
            p.has(RECURRENT) & np.isnan(to_float(p.given.ssm_heads)),
            "mixers with a state need ssm_heads",
            "ssm_heads",
            "layer_pattern",
        ),
        rule(
            p.has("MGKL") & np.isnan(to_float(p.given.ssm_head_dim)),
            "mixers with a state need ssm_head_dim",
            "ssm_head_dim",
            "layer_pattern",
        ),
        rule(
            p.has(RECURRENT) & (to_float(t.ssm_heads) % t.ssm_groups != 0),
            "ssm_groups does not divide ssm_heads",
            "ssm_groups",
            "ssm_heads",
        ),
        *(
            rule(
                p.stated(name) & p.nowhere(RECURRENT),
                f"{name} is of mixers with a state, which layer_pattern does not have",
                name,
                "layer_pattern",
            )
            for name in sizes
        ),
        rule(
            p.stated("ssm_conv") & p.nowhere("MSGK"),
            "ssm_conv: lightning attention has no convolution",
            "ssm_conv",
            "layer_pattern",
        ),
        rule(
            p.stated("ssm_chunk") & p.nowhere("MGKL"),
            "ssm_chunk: Mamba-1 is not computed in chunks",
            "ssm_chunk",
            "layer_pattern",
        ),
        rule(
            p.stated("ssm_dt_rank") & p.nowhere("S"),
            "ssm_dt_rank is of Mamba-1 (S), which layer_pattern does not have",
            "ssm_dt_rank",
            "layer_pattern",
        ),
        rule(
            p.listed & Switch.OFF.where(t.ssm_norm) & p.nowhere("MS"),
            "ssm_norm is of Mamba (M, S), which layer_pattern does not have",
            "ssm_norm",
            "layer_pattern",
        ),
    ]
