"""Families with Mamba: Bamba and Granite 4, Falcon-H1, Zamba2, Jamba, and Mamba alone."""

from __future__ import annotations

from comp_comm.configs.importers.hf_patterns import MOST_WORDS, mixers_of, networks_of, set_pattern
from comp_comm.configs.importers.imported import Findings, Keys

TIME_STEP = ("time_step_min", "time_step_max", "time_step_limit", "time_step_floor", "time_step_init_scheme",
             "time_step_scale")  # fmt: skip


def mamba2(keys: Keys, f: Findings, heads: str, head_dim: str, groups: tuple[str, ...], state: tuple[str, ...]) -> None:
    """Set the sizes of Mamba-2; a head's dimension follows from how much wider than hidden its channels are."""
    if not keys.set("ssm_heads", heads):
        f.missing(f"'{heads}' is missing", "ssm_heads")
    expand = keys.number("mamba_expand", "expand", default=2) or 2
    if keys.take(head_dim) in (None, "auto"):
        f.set("ssm_head_dim", int(expand * f.count("hidden", 0) // max(f.count("ssm_heads"), 1)))
    else:
        keys.set("ssm_head_dim", head_dim)
    keys.set("ssm_groups", *groups, default=1)
    if not keys.set("ssm_state", *state):
        f.missing(f"'{state[0]}' is missing", "ssm_state")
    keys.set("ssm_conv", "conv_kernel", "mamba_d_conv", default=4)
    keys.set("ssm_chunk", "chunk_size", "mamba_chunk_size")
    keys.only("use_conv_bias", True)
    keys.only("mamba_conv_bias", True)


def bamba(keys: Keys, f: Findings) -> None:
    """Set Bamba and Granite 4's hybrids: Mamba-2 or attention, then a network or experts in every layer."""
    indices = keys.take("attn_layer_indices")
    listed = indices if isinstance(indices, list) else []
    mixers = mixers_of(keys, f, "M", lambda i: i in listed, "layer_types", "layers_block_type")
    mamba2(keys, f, heads="mamba_n_heads", head_dim="mamba_d_head", groups=("mamba_n_groups",),
            state=("mamba_d_state",))  # fmt: skip
    keys.only("mamba_proj_bias", False)
    keys.only("mlp_bias", False)
    keys.only("attention_bias", False)
    keys.ignore(("z_loss_coefficient", "normalization_function", "mamba_expand", *TIME_STEP))
    kind = keys.take("position_embedding_type")
    if kind == "nope":
        f.set("position", "none")
    shared = keys.number("shared_intermediate_size")
    if shared and "experts" in f.fields:
        f.set("shared_experts", 1)
        f.set("shared_ffn_hidden", shared, keys.place("shared_intermediate_size"))
    elif shared:
        f.set("ffn_hidden", shared, keys.place("shared_intermediate_size"))
    if mixers and set(mixers) == {"*"}:
        for name in list(f.fields):
            if name.startswith("ssm_"):
                f.fields.pop(name)
    elif mixers:
        set_pattern(f, mixers, networks_of(f, lambda i: True), keys.place("layer_types", "attn_layer_indices"))


def falcon_h1(keys: Keys, f: Findings) -> None:
    """Set Falcon-H1: attention and Mamba-2 side by side on one input, then a network, in every layer."""
    mamba2(keys, f, heads="mamba_n_heads", head_dim="mamba_d_head", groups=("mamba_n_groups",),
            state=("mamba_d_state",))  # fmt: skip
    channels = keys.number("mamba_d_ssm")
    if channels and channels != f.count("ssm_heads") * f.count("ssm_head_dim"):
        if keys.mapping.get("mamba_d_head") in (None, "auto"):
            f.set("ssm_head_dim", int(channels // max(f.count("ssm_heads"), 1)))
        else:
            keys.wrong(("mamba_d_ssm",), "is not mamba_n_heads x mamba_d_head")
    f.set("ssm_norm", keys.truth("mamba_rms_norm"))
    for name in ("mamba_proj_bias", "projectors_bias", "mlp_bias", "attention_bias"):
        keys.only(name, False)
    keys.only("mamba_use_mlp", True)
    keys.only("sliding_window", None)
    keys.ignore(("mamba_norm_before_gate", "mamba_expand", "expansion_factor", "mlp_expansion_factor",
                 "attn_layer_indices", *TIME_STEP))  # fmt: skip
    keys.ignore(key for key in keys.mapping if key.endswith(("_multiplier", "_multipliers")))
    layers = min(f.count("layers", 0), MOST_WORDS)
    set_pattern(f, ["H"] * layers, ["-"] * layers, keys.place("num_hidden_layers"))


def zamba2(keys: Keys, f: Findings) -> None:
    """Set Zamba2: Mamba-2 in every layer, and before it, in some, a block of attention and network that they share."""
    kinds, ids = keys.take("layers_block_type", "layer_types"), keys.take("hybrid_layer_ids")
    layers = min(f.count("layers", 0), MOST_WORDS)
    if isinstance(kinds, list) and (len(kinds) != layers or set(kinds) - {"mamba", "hybrid", "linear_attention"}):
        keys.wrong(("layers_block_type", "layer_types"), f"must list mamba or hybrid for each of the {layers} layers")
        return
    shared = [i for i, kind in enumerate(kinds) if kind == "hybrid"] if isinstance(kinds, list) else ids
    if not isinstance(shared, list):
        f.missing("'layers_block_type' is missing: it says which layers have a shared block", "layer_pattern")
        return
    mamba2(
        keys, f, heads="n_mamba_heads", head_dim="mamba_headdim", groups=("mamba_ngroups",), state=("mamba_d_state",)
    )
    f.set("head_dim", 2 * f.count("hidden", 0) // max(f.count("heads"), 1))
    keys.set("shared_blocks", "num_mem_blocks", default=1)
    rank = keys.take("adapter_rank", default=128)
    f.set("shared_rank", rank, keys.place("adapter_rank"))
    if keys.truth("use_shared_attention_adapter"):
        f.set("shared_attention_rank", rank, keys.place("adapter_rank"))
        if f.count("kv_heads", f.count("heads")) != f.count("heads"):
            keys.wrong(("use_shared_attention_adapter",), "adapters where keys have fewer heads are not modelled")
    if f.fields.get("tied") != "on":
        keys.wrong(("tie_word_embeddings",), "only true is understood: shared blocks are tied as the embedding is")
    f.set("position", "rope" if keys.truth("use_mem_rope") else "none")
    keys.only("add_bias_linear", False)
    keys.only("use_long_context", False)
    keys.ignore(("attention_hidden_size", "attention_head_dim", "kv_channels", "num_query_groups", "ffn_hidden_size",
                 "mamba_expand", "use_mem_eff_path", "use_mamba_kernels", "use_shared_mlp_adapter", "conv_kernel",
                 "d_model", "d_state", "expand", *TIME_STEP))  # fmt: skip
    mixers = ["Z" if i in shared else "M" for i in range(layers)]
    set_pattern(f, mixers, [""] * layers, keys.place("layers_block_type", "hybrid_layer_ids"))


def zamba(keys: Keys, f: Findings) -> None:
    """Set Zamba: Mamba-1 in every layer, in heads that have parameters of their own, and before some a shared block."""
    layers = min(f.count("layers", 0), MOST_WORDS)
    period, offset = (int(keys.number(f"attn_layer_{name}", default=usual) or 0)
                      for name, usual in (("period", 6), ("offset", 4)))  # fmt: skip
    kinds = keys.take("layers_block_type", "layer_types")
    if kinds is None and period > 0:
        later = ["hybrid" if i % period == offset else "mamba" for i in range(layers - 3)]
        kinds = ["mamba", "mamba", "hybrid", *later][:layers]
    if not isinstance(kinds, list) or len(kinds) != layers or set(kinds) - {"mamba", "hybrid", "linear_attention"}:
        keys.wrong(("layers_block_type", "layer_types"), f"must list mamba or hybrid for each of the {layers} layers")
        return
    mamba1(keys, f, "mamba_expand", "mamba_d_state", "mamba_d_conv", "mamba_dt_rank")
    keys.set("ssm_groups", "n_mamba_heads", default=2)
    f.set("ssm_norm", False)
    f.set("head_dim", 2 * f.count("hidden", 0) // max(f.count("heads"), 1))
    f.set("position", "none")
    keys.only("mamba_conv_bias", True)
    keys.only("mamba_proj_bias", False)
    keys.ignore(("attention_hidden_size", "attention_head_dim", "hidden_mamba_act", "use_mamba_kernels",
                 "num_logits_to_keep", *TIME_STEP))  # fmt: skip
    mixers = ["Y" if kind == "hybrid" else "S" for kind in kinds]
    set_pattern(f, mixers, [""] * layers, keys.place("layers_block_type", "attn_layer_period"))


def jamba(keys: Keys, f: Findings) -> None:
    """Set Jamba: Mamba-1 or attention, then a network or experts, by periods and offsets."""
    numbers = {
        name: int(keys.number(name, default=default) or 0)
        for name, default in (
            ("attn_layer_period", 8),
            ("attn_layer_offset", 4),
            ("expert_layer_period", 2),
            ("expert_layer_offset", 1),
        )
    }
    if not numbers["attn_layer_period"] or not numbers["expert_layer_period"]:
        keys.wrong(("attn_layer_period",), "periods must be whole numbers of at least 1")
        return
    if f.count("experts", 0) == 1:  # Jamba writes a dense model as one expert
        for name in ("experts", "top_k", "moe_ffn_hidden"):
            f.fields.pop(name, None)
    mixers = mixers_of(keys, f, "S", lambda i: i % numbers["attn_layer_period"] == numbers["attn_layer_offset"],
                       "layers_block_type", "layer_types")  # fmt: skip
    networks = networks_of(f, lambda i: i % numbers["expert_layer_period"] == numbers["expert_layer_offset"])
    if f.fields.get("experts") and "E" not in networks:
        f.fields.pop("experts")
    mamba1(keys, f, "mamba_expand", "mamba_d_state", "mamba_d_conv", "mamba_dt_rank")
    keys.only("mamba_conv_bias", True)
    keys.only("mamba_proj_bias", False)
    keys.only("sliding_window", None)
    keys.ignore(("use_mamba_kernels", "mamba_inner_layernorms", "use_mambapy", "use_associative_scan",
                 "calc_logits_for_entire_prompt", "n_ctx"))  # fmt: skip
    f.set("position", "none")
    if mixers:
        set_pattern(f, mixers, networks, keys.place("attn_layer_period"))


def mamba1(keys: Keys, f: Findings, expand: str, state: str, conv: str, rank: str) -> None:
    """Set the sizes of Mamba-1, by the keys that say them."""
    wider = keys.number(expand, "intermediate_size" if expand == "expand" else expand, default=2) or 2
    f.set("ssm_heads", int(wider * f.count("hidden", 0)))
    keys.set("ssm_state", state, default=16)
    keys.set("ssm_conv", conv, default=4)
    given = keys.take(rank, default="auto")
    f.set("ssm_dt_rank", -(-f.count("hidden", 0) // 16) if given == "auto" else given, keys.place(rank))


def mamba(keys: Keys, f: Findings) -> None:
    """Set models of Mamba alone: a block a layer, and heads of attention that no layer has."""
    first = keys.mapping.get("model_type") != "mamba2"
    f.fields.pop("ffn_hidden", None)
    if first:
        mamba1(keys, f, "expand", "state_size", "conv_kernel", "time_step_rank")
        keys.only("use_conv_bias", True)
        f.set("ssm_norm", False)
        f.set("heads", 1)
    else:
        f.fields.pop("head_dim", None)
        mamba2(keys, f, heads="num_heads", head_dim="head_dim", groups=("n_groups",), state=("state_size",))
        f.set("heads", f.count("ssm_heads"))
        f.set("head_dim", f.count("ssm_head_dim"))
        f.fields.pop("kv_heads", None)
    f.set("bias", keys.truth("use_bias"))
    f.set("position", "none")
    letter = "S" if first else "M"
    set_pattern(f, [letter] * min(f.count("layers", 0), MOST_WORDS), [""] * min(f.count("layers", 0), MOST_WORDS),
                keys.place("num_hidden_layers"))  # fmt: skip
    keys.ignore(("expand", "intermediate_size", "residual_in_fp32", "rescale_prenorm_residual", "time_step_rank",
                 "rms_norm", "use_mambapy", "use_associative_scan", "mixer_rms_eps", "use_falcon_mambapy", "d_inner",
                 "norm_before_gate", "fused_add_norm", "ssm_cfg", "pad_vocab_size_multiple", *TIME_STEP))  # fmt: skip
