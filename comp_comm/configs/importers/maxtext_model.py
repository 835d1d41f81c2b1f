"""A model as MaxText describes it: by a name of its own, or by dimensions."""

from __future__ import annotations

from math import log2

from comp_comm.configs.importers.adapters import model_of
from comp_comm.configs.importers.digit_groups import number_of_groups
from comp_comm.configs.importers.imported import Findings, Keys, is_off, shown

# What MaxText calls models that the catalogue calls otherwise.
NAMES = {
    "llama4-17b-16e": "llama-4-scout", "llama4-17b-128e": "llama-4-maverick", "deepseek2-16b": "deepseek-v2-lite",
    "deepseek2-236b": "deepseek-v2", "deepseek3-671b": "deepseek-v3", "deepseek3-671b-2dfsdp": "deepseek-v3",
    "deepseek3.2-671b": "deepseek-v3.2", "kimi-k2-1t": "kimi-k2", "qwen3-480b-a35b": "qwen3-coder-480b-a35b",
    "llama3-405b": "llama-3.1-405b",
}  # fmt: skip
# Blocks whose layers are alike, and what each has that its keys do not say.
PLAIN = (
    "default",
    "llama2",
    "mistral",
    "mixtral",
    "qwen2",
    "qwen3",
    "qwen3_moe",
    "deepseek",
    "gemma",
    "gpt3",
    "simple_mlp",
)
BIASES = {"gpt3": "on", "qwen2": "qkv"}
# base.yml, where a file says nothing: (key, default, what global_parameter_scale doubles it by).
SIZES = {"hidden": ("base_emb_dim", 2048, 1), "heads": ("base_num_query_heads", 16, 0),
         "kv_heads": ("base_num_kv_heads", 16, 0),
         "ffn_hidden": ("base_mlp_dim", 7168, 0), "layers": ("base_num_decoder_layers", 16, 2)}  # fmt: skip
OTHER_KEYS = ("head_dim", "vocab_size", "mlp_activations", "logits_via_embedding", "use_qk_norm", "attention_bias",
              "mlp_bias", "decoder_block", "attention_type", "num_experts", "num_experts_per_tok", "base_moe_mlp_dim",
              "shared_experts", "first_num_dense_layers", "routed_bias", "n_routing_groups", "topk_routing_group",
              "q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim",
              "sliding_window_size",
              "use_post_attn_norm", "use_post_ffw_norm", "global_parameter_scale", "mtp_num_layers", "fused_qkv",
              "fused_mlp", "trainable_position_size", "interleave_moe_layer_step", "attention_sink", "use_indexer",
              "indexer_head_dim", "indexer_n_heads", "indexer_topk", "dropout_rate", "chunk_attn_window_size",
              "gdn_key_head_dim", "gdn_value_head_dim", "gdn_num_key_heads", "gdn_num_value_heads",
              "gdn_conv_kernel_dim", "gdn_chunk_size", "attention_output_dim", "moe_expert_input_dim")  # fmt: skip
DIMENSIONS = (*(key for key, _, _ in SIZES.values()), *OTHER_KEYS)


def read_model(keys: Keys, f: Findings, instead: str) -> str:
    """Return the catalogue's name of the model, or set its dimensions; ``instead`` is a model that the user gives."""
    name = str(keys.take("model_name", default="default"))
    described = any(keys.has(key) for key, _, _ in SIZES.values()) or name == "default"
    if instead or not described:
        known = instead or NAMES.get(name) or model_of(name)
        if known is None:
            keys.wrong(("model_name",), f"no model of the catalogue is {shown(name)}; give --model NAME, or import its "
                       "file of MaxText (configs/models)")  # fmt: skip
            f.problems.raise_if_any()
        over = [key for key in DIMENSIONS if keys.has(key)]
        if over and not instead:
            f.note(f"{', '.join(over)}: the catalogue's {known} is counted all the same")
        keys.ignore(DIMENSIONS)
        return known or ""
    _dimensions(keys, f)
    return ""


def _dimensions(keys: Keys, f: Findings) -> None:
    block = str(keys.take("decoder_block", default="llama2"))
    if block not in PLAIN:
        keys.wrong(("decoder_block",), f"layers of {shown(block)} are not read from dimensions; give --model NAME")
        f.problems.raise_if_any()
    scales = _scales(keys)
    silent = [key for key, _, _ in SIZES.values() if not keys.has(key)]
    if silent:
        f.note(f"not in the file, and as MaxText has them (base.yml): {', '.join(silent)}")
    for name, (key, default, which) in SIZES.items():
        value = keys.number(key, default=default) or default
        f.set(name, int(value) * scales[which], keys.place(key))
    f.set("head_dim", keys.take("head_dim", default=128), keys.place("head_dim"))
    f.set("vocab", number_of_groups(keys.take("vocab_size", default=32000)), keys.place("vocab_size"))
    activations = keys.take("mlp_activations", default=["silu", "linear"])
    f.set("gated", len(activations) == 2 if isinstance(activations, list) else "," in str(activations))
    f.set("tied", keys.truth("logits_via_embedding"))
    f.set("qk_norm", keys.truth("use_qk_norm"))
    f.set("norm", "layernorm" if block == "gpt3" else "rmsnorm")
    f.set("bias", BIASES.get(block, "qkv" if keys.truth("attention_bias") else "off"))
    f.set("norms", 2 + keys.truth("use_post_attn_norm") + keys.truth("use_post_ffw_norm"))
    positions = keys.number("trainable_position_size", default=-1)
    if positions and positions > 0:
        f.set("position", "learned")
        f.set("max_positions", int(positions))
    elif block == "gpt3":
        f.set("position", "none")
    window = keys.take("sliding_window_size")
    if not is_off(window):
        f.set("window", window, keys.place("sliding_window_size"))
    f.set("dropout", not is_off(keys.number("dropout_rate", default=0.0)))
    if not is_off(keys.take("mtp_num_layers")):
        f.set("mtp_layers", keys.mapping["mtp_num_layers"])
    _attention(keys, f)
    _experts(keys, f, scales[0])
    keys.ignore(("fused_qkv", "fused_mlp", "attention_bias"))
    keys.off(("mlp_bias", "attention_sink", "use_indexer", "chunk_attn_window_size"), "in a model that is described; "
             "give --model NAME")  # fmt: skip
    keys.ignore(DIMENSIONS[len(SIZES) + OTHER_KEYS.index("indexer_head_dim") :])


def _attention(keys: Keys, f: Findings) -> None:
    kind = keys.choice(("attention_type",), {"global": "", "local_sliding": "", "full": "", "mla": "mla"}, "global")
    ranks = ("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
    if kind != "mla":
        keys.ignore(ranks)
        return
    defaults = dict(zip(ranks, (0, 512, 128, 64, 128), strict=True))
    for name, key in zip(
        ("q_lora_rank", "kv_lora_rank", "head_dim", "rope_head_dim", "v_head_dim"), ranks, strict=True
    ):
        f.set(name, keys.take(key, default=defaults[key]), keys.place(key))
    f.fields.pop("kv_heads", None)


def _experts(keys: Keys, f: Findings, scale: int) -> None:
    count = int(keys.number("num_experts", default=1) or 1)
    names = ("num_experts_per_tok", "base_moe_mlp_dim", "shared_experts", "first_num_dense_layers", "routed_bias",
             "n_routing_groups", "topk_routing_group", "interleave_moe_layer_step")  # fmt: skip
    if count <= 1:
        keys.ignore(names)
        return
    f.set("experts", count, keys.place("num_experts"))
    f.set("top_k", keys.take("num_experts_per_tok", default=1), keys.place("num_experts_per_tok"))
    width = keys.number("base_moe_mlp_dim", default=-1) or -1
    if width > 0:
        f.set("moe_ffn_hidden", int(width) * scale, keys.place("base_moe_mlp_dim"))
    for name, key in (("shared_experts", "shared_experts"), ("dense_layers", "first_num_dense_layers")):
        if not is_off(keys.take(key)):
            f.set(name, keys.mapping[key], keys.place(key))
    if keys.truth("routed_bias"):
        f.set("router_bias", True)
    groups, chosen = (keys.number(key, default=-1) or -1 for key in ("n_routing_groups", "topk_routing_group"))
    if groups > chosen > 0:
        f.set("router_groups", int(groups))
        f.set("router_group_topk", int(chosen))
    step = int(keys.number("interleave_moe_layer_step", default=1) or 1)
    if step > 1:
        f.set("moe_every", step)


def _scales(keys: Keys) -> tuple[int, int, int]:
    """Return what heads and widths, the hidden dimension, and layers are multiplied by: a power of two is dealt out."""
    scale = int(keys.number("global_parameter_scale", default=1) or 1)
    power = int(log2(scale)) if scale > 0 else 0
    if scale != 2**power:
        keys.wrong(("global_parameter_scale",), f"{shown(scale)} is no power of 2, which MaxText does not take")
    base, rest = divmod(power, 3)
    return 2 ** (base + (rest > 0)), 2 ** (base + (rest > 1)), 2**base
