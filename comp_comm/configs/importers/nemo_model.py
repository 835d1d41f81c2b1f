"""The model in a NeMo YAML: a decoder, an encoder (BERT), or a vision transformer; parts of one of two sides."""

from __future__ import annotations

from typing import Any

from comp_comm.configs.importers.hf_parts import expert_layers
from comp_comm.configs.importers.imported import Findings, Keys, is_off, shown
from comp_comm.configs.importers.megatron_hybrid import EXPANDED, MAMBA, MAMBA_CHUNK
from comp_comm.configs.importers.megatron_model import NORMS, POSITIONS, pattern
from comp_comm.configs.importers.vocabularies import TOKENIZERS, vocabulary_of

GATED = ("swiglu", "fast-swiglu", "geglu", "fast-geglu", "reglu", "fast-reglu")
PLAIN = ("gelu", "relu", "squared-relu", "openai-gelu", "approx-gelu", "quick-gelu")
NUMBERS = {
    "layers": "num_layers", "hidden": "hidden_size", "heads": "num_attention_heads", "ffn_hidden": "ffn_hidden_size",
    "kv_heads": "num_query_groups", "head_dim": "kv_channels",
}  # fmt: skip
PLACES = {**POSITIONS, "ALiBi": "none", "kerple": "none", "sandwich": "none", "relative": "none",
          "learned_parameters": "learned"}  # fmt: skip


def read(keys: Keys, f: Findings, name: str) -> None:
    """Set the fields of the model; ``name`` is what the file calls its kind (megatron_bert)."""
    keys.set("vocab_multiple", "make_vocab_size_divisible_by")
    vit = keys.has("patch_dim") or keys.has("vision_pretraining_type")
    shape(keys, f)
    data = keys.mapping_of("data")
    if data is not None:
        data.ignore(tuple(data.mapping))
    length = data.mapping.get("seq_length") if data is not None else None
    if vit:
        _vision(keys, f)
    elif not keys.set("seq_len", "encoder_seq_length", "seq_length", default=length):
        f.missing("'model.encoder_seq_length' is missing", "seq_len")
    blocks(keys, f, name)
    _experts(keys, f)
    if "bert" in name.lower() or keys.has("bert_binary_head"):
        f.set("architecture", "encoder")
        f.set("extra_parameters", 2 * f.count("hidden", 0))
        f.note("extra_parameters are BERT's two token types; its heads are not counted")
        keys.ignore(("bert_binary_head", "add_pooler", "add_lm_head"))
    if not vit:
        tokenizer(keys, f)
    dropout(keys, f)


def shape(keys: Keys, f: Findings) -> None:
    """Set the sizes of a layer, and how many there are."""
    for name, key in NUMBERS.items():
        keys.set(name, key)
    for name in ("layers", "hidden", "heads"):
        if name not in f.fields:
            f.missing(f"'model.{NUMBERS[name]}' is missing", name)


def _vision(keys: Keys, f: Findings) -> None:
    """Set a vision transformer: its patches, eight class tokens, and a head of two layers."""
    image = [keys.take("img_h", default=224), keys.take("img_w", default=224)]
    patch, channels = keys.take("patch_dim", default=16), keys.take("num_channels", default=3)
    classes, kind = keys.take("num_classes", default=1000), keys.take("vision_pretraining_type", default="classify")
    tokens = keys.take("class_token_length", default=8)
    sizes = (*image, patch, channels, classes, tokens)
    if not all(type(size) is int and 0 < size < 2**20 for size in sizes):
        keys.wrong(
            ("img_h", "patch_dim"), "img_h, img_w, patch_dim, num_channels and num_classes must be whole numbers"
        )
        return
    if kind != "classify":
        keys.wrong(("vision_pretraining_type",), f"{shown(kind)} is not modelled; only classify")
    h, length = f.count("hidden", 0), (image[0] // patch) * (image[1] // patch) + tokens
    f.set("architecture", "vit")
    f.set("seq_len", length)
    keys.mapping = {**keys.mapping, "max_position_embeddings": length}
    f.set("patch_features", channels * patch**2)
    f.set("classes", classes)
    f.set("vocab", 0)
    f.set("extra_parameters", tokens * h + h * (h + 1))
    f.note(f"extra_parameters are {tokens} class tokens and the first layer of the head")
    if not is_off(keys.take("drop_path_rate")):
        f.note("layers that are dropped at random (drop_path_rate) are counted")
    keys.off(("drop_patch_rate", "preprocess_layernorm", "layerscale"))
    keys.ignore(("encoder_seq_length", "classes_fraction", "data_per_class_fraction", "global_average_pool", "finetune",
                 "vision_pretraining_type", "num_classes", "share_embeddings_and_output_weights"))  # fmt: skip


def dropout(keys: Keys, f: Findings) -> None:
    """Set whether anything is dropped at random; what the file leaves out is as NeMo's models of Megatron take it."""
    defaults = {"hidden_dropout": 0.1, "attention_dropout": 0.1, "ffn_dropout": 0.0}  # megatron_gpt_model.py, NeMo 1.x
    rates = [keys.number(name, default=default) or 0.0 for name, default in defaults.items()]
    f.set("dropout", any(rate > 0 for rate in rates))


def blocks(keys: Keys, f: Findings, name: str) -> None:
    """Set what a layer is made of; ``name`` is what the file calls the kind of the model."""
    states = "mamba" in name.lower() or keys.has("hybrid_override_pattern")
    activation = keys.take("activation", default="squared-relu" if states else "gelu")
    if activation not in (*GATED, *PLAIN):
        keys.wrong(("activation",), f"{shown(activation)} is not understood; only {', '.join((*GATED, *PLAIN))}")
    f.set("gated", activation in GATED)
    norm = keys.choice(("normalization",), NORMS, "layernorm")
    if norm is not None:
        f.set("norm", norm)
    bias, qkv = keys.truth("bias", "add_bias_linear", default=True), keys.truth("qkv_bias")
    f.set("bias", "on" if bias else "qkv" if qkv else "off")
    if f.fields.get("architecture") != "vit":
        f.set("tied", keys.truth("share_embeddings_and_output_weights", default=True))
    if keys.truth("qk_layernorm"):
        f.set("qk_norm", True)
    customised = keys.mapping_of("mcore_customization_config")
    if customised is not None:
        later, parallel = customised.truth("new_decoder_architecture"), customised.truth("parallel_attention")
        customised.finish()
        if "falcon" in name.lower():
            f.set("parallel_blocks", parallel)
            if parallel and not later:
                f.set("norms", 1)
        elif parallel:
            f.note("mcore_customization_config does nothing for a model that is not named megatron_falcon_gpt")
    longest = keys.take("max_position_embeddings", default=f.fields.get("seq_len"))
    position = keys.choice(("position_embedding_type",), PLACES, "learned_absolute")
    if position is not None:
        f.set("position", position)
    if position == "learned" and longest is not None:
        f.set("max_positions", longest, keys.place("max_position_embeddings"))
    keys.only("transformer_block_type", "pre_ln")
    keys.only("attention_type", "multihead")
    _window(keys, f)


def _window(keys: Keys, f: Findings) -> None:
    size = keys.take("window_size")
    first = size[0] if isinstance(size, list) and size else size
    if not is_off(first) and first != -1:
        f.set("window", first, keys.place("window_size"))


def _experts(keys: Keys, f: Findings) -> None:
    count = keys.take("num_moe_experts")
    pairs = (("top_k", "moe_router_topk"), ("moe_ffn_hidden", "moe_ffn_hidden_size"),
             ("capacity_factor", "moe_expert_capacity_factor"),
             ("shared_ffn_hidden", "moe_shared_expert_intermediate_size"))  # fmt: skip
    rest = {name: keys.take(key) for name, key in pairs}
    frequency = keys.take("moe_layer_freq")
    if count in (None, 0, 1):
        return
    f.set("experts", count, keys.place("num_moe_experts"))
    for name, value in rest.items():
        if value is not None or name == "top_k":
            f.set(name, 2 if value is None else value)
    if rest["shared_ffn_hidden"] is not None:
        f.set("shared_experts", 1)
    which = pattern(frequency, f.count("layers", 0))
    if which is None:
        keys.wrong(("moe_layer_freq",), f"{shown(frequency)} is not understood")
    else:
        expert_layers(f, which, keys.place("moe_layer_freq"))


def hybrid(keys: Keys, f: Findings, name: str) -> None:
    """Set the layers of a model with Mamba-2: those that its pattern lists, or Mamba-2 alone."""
    text = keys.take("hybrid_override_pattern")
    groups = keys.take("mamba_ssm_ngroups", default=MAMBA["ssm_groups"][1])
    keys.only("gated_linear_unit", f.fields.get("gated") == "on")
    keys.only("is_hybrid", True)
    if text is None and "mamba" not in name.lower():
        return
    letters = text if isinstance(text, str) else "M" * f.count("layers", 0)
    if set(letters) - set("M*-E") or len(letters) != f.count("layers", 0):
        keys.wrong(("hybrid_override_pattern",), f"{shown(text)} is not understood; M, *, - or E for each of the "
                   f"{f.count('layers', 0)} layers")  # fmt: skip
        return
    f.set("layer_pattern", letters if len(letters) > 1 else "Mx1", keys.place("hybrid_override_pattern"))
    dim = MAMBA["ssm_head_dim"][1]
    f.set("ssm_heads", EXPANDED * f.count("hidden", 0) // dim)
    f.set("ssm_head_dim", dim)
    f.set("ssm_state", MAMBA["ssm_state"][1])
    f.set("ssm_chunk", MAMBA_CHUNK)
    f.set("ssm_groups", groups, keys.place("mamba_ssm_ngroups"))
    for field in ("dense_layers", "moe_every"):
        f.fields.pop(field, None)


def tokenizer(keys: Keys, f: Findings) -> None:
    """Set the vocabulary: that of the file, or of a tokenizer that is known."""
    size = keys.take("vocab_size", "override_vocab_size")
    tokenizer = keys.mapping_of("tokenizer")
    names: list[Any] = [] if tokenizer is None else [tokenizer.mapping.get(key) for key in ("type", "model")]
    if "vocab" in f.given:
        return
    if size is not None:
        f.set("vocab", size, keys.place("vocab_size", "override_vocab_size"))
        return
    kind = next((name for name in names if name is not None), None)
    count = TOKENIZERS.get(str(names[0] if names else None))
    count = count or next((entries for name in names if (entries := vocabulary_of(str(name)))), None)
    if count is None:
        message = f"the vocabulary of model.tokenizer ({shown(kind)}) is not known; give --set vocab=N"
        f.missing(message, "vocab")
        return
    f.set("vocab", count)
    f.note(f"vocab {count} is that of {kind}")
