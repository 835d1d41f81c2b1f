"""Families whose config.json has keys of its own: GPT-2, GPT-NeoX, OPT, BLOOM, Falcon, MPT, BERT, T5, ViT and more."""

from __future__ import annotations

from typing import Any

from comp_comm.configs.importers.hf_parts import KEPT_OTHERWISE, expert_layers
from comp_comm.configs.importers.imported import Findings, Keys, shown

MOST = 100_000  # layers that a pattern is read for


def shared_gate(keys: Keys, f: Findings) -> None:
    """Set the gate of Qwen's shared expert."""
    if "shared_experts" in f.fields:
        f.set("shared_expert_gate", True)


def optional_qk_norm(keys: Keys, f: Findings) -> None:
    """Set the norm of queries and keys, each head alike."""
    f.set("qk_norm", keys.truth("use_qk_norm", "qk_layernorm"))


def whole_qk_norm(keys: Keys, f: Findings) -> None:
    """Set the norm of queries and keys that has a weight for each number of each head."""
    f.set("qk_norm", "whole" if keys.truth("use_qk_norm", "qk_layernorm") else "off")


def no_qk_norm(keys: Keys, f: Findings) -> None:
    """Take a norm of queries and keys that is off."""
    keys.only("qk_layernorm", False)


def gpt_oss_bias(keys: Keys, f: Findings) -> None:
    """Set gpt-oss's biases: experts always have them."""
    f.set("bias", "on" if keys.truth("attention_bias", default=True) else "ffn")


def starcoder(keys: Keys, f: Findings) -> None:
    """Take what StarCoder2 says of its norms and feed-forward network: there is one kind of each."""
    keys.only("norm_type", "layer_norm")
    keys.only("mlp_type", "default")


def stablelm(keys: Keys, f: Findings) -> None:
    """Set StableLM's norms: of queries and keys, and one a layer where its blocks are side by side."""
    whole_qk_norm(keys, f)
    if keys.truth("use_parallel_residual"):
        f.set("parallel_blocks", True)
        f.set("norms", 1)


def llama4(keys: Keys, f: Findings) -> None:
    """Set Llama 4's experts, beside one that every token goes to, and its dense layers, which are wider.

    Its attention in chunks is attention to everything up to a sequence of a chunk.
    """
    f.set("moe_ffn_hidden", f.count("ffn_hidden", 0))
    f.set("shared_experts", 1)
    keys.set("ffn_hidden", "intermediate_size_mlp")
    layers, listed = f.count("layers", 0), keys.take("moe_layers")
    step = keys.number("interleave_moe_layer_step", default=1) or 1
    which = [(i + 1) % step == 0 for i in range(layers)]
    if isinstance(listed, list) and listed:
        which = [i in listed for i in range(layers)]
    expert_layers(f, which, keys.place("interleave_moe_layer_step", "moe_layers"))
    chunk = keys.number("attention_chunk_size", default=8192) or 0
    if "seq_len" not in f.given:
        f.set("seq_len", min(f.count("seq_len"), int(chunk)), keys.place("attention_chunk_size"))
        f.note("attention in chunks: seq_len is that of a chunk, where it is attention to everything")
    elif f.count("seq_len") > chunk:
        keys.wrong(("attention_chunk_size",), "attention in chunks is not understood where seq_len exceeds them")
    keys.ignore(("use_qk_norm", "no_rope_layers", "no_rope_layer_interval", "layer_types", "for_llm_compressor"))


def dbrx(keys: Keys, f: Findings) -> None:
    """Set DBRX's heads of keys and experts, which are in mappings of their own."""
    attention, experts = keys.mapping_of("attn_config"), keys.mapping_of("ffn_config")
    if attention is None or experts is None:
        f.missing("'attn_config' and 'ffn_config' are needed")
        return
    attention.set("kv_heads", "kv_n_heads")
    experts.set("experts", "moe_num_experts", default=4)
    experts.set("top_k", "moe_top_k", default=1)
    experts.set("ffn_hidden", "ffn_hidden_size", default=3584)
    experts.set("moe_ffn_hidden", "ffn_hidden_size", default=3584)
    experts.only("hidden_size", f.fields.get("hidden"))
    finish_nested(attention, experts)


def finish_nested(*nested: Keys) -> None:
    """Finish mappings within a config.json, which have what the outer one has of no meaning, too."""
    from comp_comm.configs.importers.hf_ignored import DROPOUTS, IGNORED, OFF, is_token

    for each in nested:
        each.ignore((*IGNORED, *DROPOUTS, "name"))
        each.ignore(tuple(filter(is_token, each.mapping)))
        for name in OFF:
            each.only(name, False, {}, None)
        each.finish()


def gpt2(keys: Keys, f: Findings) -> None:
    """Take what a GPT-2 of its own kind must not have."""
    keys.only("add_cross_attention", False)


def multi_query(keys: Keys, f: Findings) -> None:
    """Set one head of keys and values, where attention is multi-query."""
    if keys.truth("multi_query", default=True):
        f.set("kv_heads", 1)


def gpt_neo(keys: Keys, f: Findings) -> None:
    """Set GPT-Neo's layers, which attend to everything or to a window by turns."""
    keys.ignore(("attention_layers",))
    kinds = keys.take("attention_types", default=[])
    size = keys.take("window_size", default=256)
    try:
        pattern = [kind for group, times in kinds for _ in range(min(times, MOST)) for kind in group]
    except (TypeError, ValueError):
        keys.wrong(("attention_types",), f"{shown(kinds)} is not understood")
        return
    if pattern.count("local") == 0:
        return
    if pattern.count("local") * 2 != len(pattern) or len(pattern) != f.fields.get("layers"):
        keys.wrong(("attention_types",), "only layers that are global and local by turns are understood")
        return
    f.set("window", size, keys.place("window_size"))
    f.set("global_every", 2)


def gpt_neox(keys: Keys, f: Findings) -> None:
    """Set GPT-NeoX's blocks, side by side unless it says otherwise, and its biases."""
    f.set("parallel_blocks", keys.truth("use_parallel_residual", default=True))
    f.set("bias", "on" if keys.truth("attention_bias", default=True) else "ffn")


def opt(keys: Keys, f: Findings) -> None:
    """Take OPT's keys: norms come first, the embedding is as wide as the model, two positions are an offset."""
    keys.only("do_layer_norm_before", True)
    keys.only("layer_norm_elementwise_affine", True)
    keys.only("_remove_final_layer_norm", False)
    keys.only("word_embed_proj_dim", f.fields.get("hidden"))
    f.set("max_positions", f.count("max_positions", 0) + 2)


def bloom(keys: Keys, f: Findings) -> None:
    """Count the norm of BLOOM's embedding; ALiBi has no parameters."""
    f.set("extra_parameters", 2 * f.count("hidden", 0))
    keys.ignore(("unk_token_id",))


def falcon(keys: Keys, f: Findings) -> None:
    """Set Falcon's blocks: the later design has groups of keys and two norms, the first one key and one norm."""
    later, parallel = keys.truth("new_decoder_architecture"), keys.truth("parallel_attn", default=True)
    groups, multi = keys.take("num_kv_heads", "n_head_kv"), keys.truth("multi_query", default=True)
    norms = keys.take("num_ln_in_parallel_attn", default=2 if later else 1)
    f.set("bias", keys.truth("bias"))
    f.set("position", "none" if keys.truth("alibi") else "rope")
    if later:
        f.set("kv_heads", groups if groups is not None else f.fields.get("heads"), keys.place("num_kv_heads"))
    else:
        f.set("kv_heads", 1 if multi else f.fields.get("heads"))
    f.set("parallel_blocks", parallel or later)
    f.set("norms", norms if later or parallel else 2, keys.place("num_ln_in_parallel_attn"))
    f.fields.pop("max_positions", None)


def bert(keys: Keys, f: Findings) -> None:
    """Count BERT's token types and pooler; the norm of its embedding stands for a last norm, which it has not."""
    keys.only("is_decoder", False)
    keys.only("add_cross_attention", False)
    keys.only("position_embedding_type", "absolute")
    h, vocab, types = f.count("hidden", 0), f.count("vocab", 0), keys.number("type_vocab_size", default=2)
    heads = " ".join(map(str, _listed(keys.mapping.get("architectures"))))
    pretrained = "PreTraining" in heads
    words = pretrained or any(each in heads for each in ("ForMaskedLM", "ForCausalLM", "LMHead"))
    extra = (types or 0) * h + (0 if words and not pretrained else h * (h + 1))
    if words:  # a network, a norm and a bias before the words, and one for whether a sentence follows another
        biases = vocab * (1 if f.fields.get("tied") in (True, "on", 1) else 2)
        extra += h * (h + 3) + biases + (2 * (h + 1) if pretrained else 0)
    f.set("extra_parameters", extra, keys.place("type_vocab_size"))


def t5(keys: Keys, f: Findings) -> None:
    """Set T5's encoder, and count its relative positions: a number for each bucket and head, on either side."""
    layers, buckets = f.count("layers", 0), keys.number("relative_attention_num_buckets", default=32)
    f.set("encoder_layers", layers)
    keys.set("layers", "num_decoder_layers")
    f.set("encoder_seq_len", f.count("seq_len", 0))
    f.set("extra_parameters", 2 * (buckets or 0) * f.count("heads", 0), keys.place("relative_attention_num_buckets"))
    kind = str(keys.take("feed_forward_proj", default="relu"))
    f.set("gated", kind.startswith("gated"))
    if written := KEPT_OTHERWISE.get(kind.removeprefix("gated-").replace("gelu", "gelu_new")):
        f.set("activation_function", written, keys.place("feed_forward_proj"))
    f.fields.pop("max_positions", None)
    keys.ignore(("is_gated_act", "is_encoder_decoder", "scale_decoder_outputs"))


def vit(keys: Keys, f: Findings) -> None:
    """Set a vision transformer's patches, its class token, and its head's classes."""
    image, patch = (keys.take(name, default=default) for name, default in (("image_size", 224), ("patch_size", 16)))
    channels, labels = keys.take("num_channels", default=3), keys.mapping.get("id2label")
    if not all(isinstance(value, int) and value > 0 for value in (image, patch, channels)):
        keys.wrong(("image_size", "patch_size"), "image_size, patch_size and num_channels must be whole numbers")
        return
    tokens, h = (image // patch) ** 2 + 1, f.count("hidden", 0)
    f.set("seq_len", tokens)
    f.set("max_positions", tokens)
    f.set("patch_features", channels * patch**2)
    f.set("vocab", 0)
    head = any("Classification" in str(name) for name in _listed(keys.mapping.get("architectures")))
    f.set("classes", len(labels) if head and isinstance(labels, dict) else 0)
    f.set("extra_parameters", h if head else h + h * (h + 1))  # the class token; without a head, a pooler
    f.set("bias", "on" if keys.truth("qkv_bias", default=True) else "not_qkv")
    keys.ignore(("encoder_stride",))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
