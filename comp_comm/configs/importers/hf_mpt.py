"""MPT, which is described alike in a config.json and by LLM Foundry: its attention, norms, and feed-forward network."""

from __future__ import annotations

from comp_comm.configs.importers.hf_older import finish_nested
from comp_comm.configs.importers.imported import Findings, Keys, shown


def mpt(keys: Keys, f: Findings) -> None:
    """Set MPT's attention and norms; without biases its norms have none either."""
    ratio = keys.number("expansion_ratio", default=4) or 0
    f.set("ffn_hidden", ratio * f.count("hidden", 0), keys.place("expansion_ratio"))
    none = keys.truth("no_bias")
    f.set("bias", not none)
    norm = str(keys.take("norm_type", default="low_precision_layernorm"))
    kinds = {"layernorm": "layernorm_no_bias" if none else "layernorm", "rmsnorm": "rmsnorm"}
    kind = kinds.get(norm.removeprefix("low_precision_"))
    if kind is None:
        keys.wrong(("norm_type",), f"{shown(norm)} is not understood; only layernorm and rmsnorm")
    else:
        f.set("norm", kind)
    attention = keys.mapping_of("attn_config") or Keys(f, {})
    learned = keys.truth("learned_pos_emb", default=True)
    if attention.truth("alibi") or attention.truth("rope") or not learned:
        f.set("position", "rope" if attention.mapping.get("rope") else "none")
        f.fields.pop("max_positions", None)
    if attention.take("attn_type") == "multiquery_attention":
        f.set("kv_heads", 1)
    attention.set("kv_heads", "kv_n_heads")
    attention.only("qk_ln", False)
    attention.only("prefix_lm", False)
    attention.only("sliding_window_size", -1)
    attention.ignore(("attn_impl", "attn_uses_sequence_id", "qk_gn", "attn_type", "softmax_scale"))
    inner = keys.mapping_of("ffn_config")
    if inner is not None:
        feed_forward(inner, f)
    keys.ignore(("init_config", "embedding_fraction", "fc_type"))
    finish_nested(attention)


def feed_forward(keys: Keys, f: Findings) -> None:
    """Set the feed-forward network of an MPT model: plain, gated, or of experts."""
    kind = str(keys.take("ffn_type", default="mptmlp"))
    keys.set("ffn_hidden", "ffn_hidden_size")
    if kind in ("mptglu", "mptgeglu"):
        f.set("gated", True)
    elif kind in ("mb_moe", "mb_dmoe", "torch_dmoe"):
        f.set("experts", keys.take("moe_num_experts", default=1), keys.place("moe_num_experts"))
        f.set("top_k", keys.take("moe_top_k", default=1), keys.place("moe_top_k"))
        f.set("moe_ffn_hidden", f.count("ffn_hidden", 0))
        f.set("gated", str(keys.take("mlp_type", default="mlp")) == "glu")
        if kind == "mb_moe":
            keys.set("capacity_factor", "moe_capacity_factor")
        world = keys.take("moe_world_size", default=1)
        if type(world) is int and world > 1:
            f.set("ep", world, keys.place("moe_world_size"))
    elif kind not in ("mptmlp", "te_ln_mlp"):
        keys.wrong(("ffn_type",), f"{shown(kind)} is not understood; only mptmlp, mptglu, mb_moe, mb_dmoe, torch_dmoe")
    keys.ignore(("ffn_act_fn", "fc_type", "moe_loss_weight", "moe_jitter_eps", "moe_normalize_expert_weights",
                 "mlp_type", "uniform_expert_assignment", "mlp_impl", "return_bias", "moe_capacity_factor",
                 "moe_weight_parallelism", "moe_lbl_in_fp32", "moe_expert_model_parallelism", "bias",
                 "memory_optimized_mlp",
                 "moe_zloss_weight", "moe_zloss_in_fp32", "normalization"))  # fmt: skip
    keys.finish()
