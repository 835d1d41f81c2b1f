"""Families with Mamba: Bamba and Granite 4, Jamba, and Mamba alone."""

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
