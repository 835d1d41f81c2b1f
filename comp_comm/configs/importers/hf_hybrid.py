"""Families of linear attention and latent experts: Qwen3-Next and 3.5, Kimi Linear, Nemotron-H and 3, MiniMax."""

from __future__ import annotations

from comp_comm.configs.importers.hf_mamba import TIME_STEP, mamba2
from comp_comm.configs.importers.hf_parts import next_tokens, router_bias
from comp_comm.configs.importers.hf_patterns import ATTENTION, LINEAR, mixers_of, networks_of, set_pattern
from comp_comm.configs.importers.imported import Findings, Keys, shown
from comp_comm.errors import one_of

NETWORKS = {"mlp": "-", "dense": "-", "moe": "E", "sparse": "E"}
SECTION = "linear_attn_config"


def delta_net(keys: Keys, f: Findings) -> None:
    """Set Gated DeltaNet (Qwen3-Next, Qwen3.5, OLMo Hybrid): its heads, and which layers attend instead."""
    interval = keys.number("full_attention_interval", default=4) or 4
    mixers = mixers_of(keys, f, "G", lambda i: (i + 1) % int(interval) == 0, "layer_types")
    for name, key in (("ssm_heads", "linear_num_value_heads"), ("ssm_head_dim", "linear_value_head_dim"),
                      ("ssm_groups", "linear_num_key_heads"), ("ssm_state", "linear_key_head_dim"),
                      ("ssm_conv", "linear_conv_kernel_dim")):  # fmt: skip
        if not keys.set(name, key):
            f.missing(f"'{key}' is missing", name)
    step, dense = keys.number("decoder_sparse_step", default=1) or 1, keys.take("mlp_only_layers", default=[])
    listed = dense if isinstance(dense, list) else []
    networks = networks_of(f, lambda i: (i + 1) % int(step) == 0 and i not in listed)
    keys.ignore(("mamba_ssm_dtype", "linear_allow_neg_eigval", "linear_a_log_min", "linear_a_log_max", "linear_dt_min",
                 "linear_dt_max", "linear_dt_init_floor", "linear_use_gate", "mtp_use_dedicated_embeddings",
                 "mtp_loss_scaling_factor"))  # fmt: skip
    if "shared_experts" in f.fields:
        f.set("shared_expert_gate", True)
    if keys.has("mtp_num_hidden_layers") and keys.number("mtp_num_hidden_layers"):
        f.set("mtp_layers", keys.number("mtp_num_hidden_layers"), keys.place("mtp_num_hidden_layers"))
    keys.ignore(("mtp_num_hidden_layers",))
    if mixers:
        set_pattern(f, mixers, networks, keys.place("layer_types", "full_attention_interval"))


def output_gate(keys: Keys, f: Findings) -> None:
    """Set the gate on attention's output, which Qwen's hybrid models have."""
    f.set("attention_gate", keys.truth("attn_output_gate", default=True), keys.place("attn_output_gate"))


def kimi_linear(keys: Keys, f: Findings) -> None:
    """Set Kimi Delta Attention: its heads, and which layers have latent attention instead (counted from 1).

    Kimi K3 has also a gate on latent attention, experts of a latent with a norm, and attention residuals.
    """
    if keys.truth("mla_use_output_gate"):
        f.set("attention_gate", "on")
    if keys.set("moe_latent_hidden", "routed_expert_hidden_size") and keys.truth("latent_moe_use_norm"):
        f.set("moe_latent_norm", True)
    keys.set("attn_res_block", "attn_res_block_size")
    keys.ignore(("mla_use_nope", "moe_router_activation_func", "moe_renormalize", "use_grouped_topk", "head_dim",
                 "latent_moe_use_norm", "mamba_ssm_dtype", "activation_situ_beta",
                 "activation_situ_linear_beta"))  # fmt: skip
    nested = keys.mapping_of(SECTION)
    attending: object = None
    if nested is None:
        keys.set("ssm_heads", "linear_num_heads", default=32)
        keys.set("ssm_head_dim", "linear_head_dim", default=128)
        keys.set("ssm_conv", "linear_conv_kernel_dim", default=4)
    else:
        attending = nested.take("full_attn_layers")
        nested.set("ssm_heads", "num_heads")
        nested.set("ssm_head_dim", "head_dim")
        nested.set("ssm_conv", "short_conv_kernel_size")
        keys.ignore(("linear_num_heads", "linear_head_dim", "linear_conv_kernel_dim"))
        f.set("kda_gates", "output" if nested.truth("use_full_rank_gate") else "low_rank")
        nested.ignore(("gate_lower_bound",))
        nested.ignore(("kda_layers",))
        nested.finish()
    listed = attending if isinstance(attending, list) else []
    mixers = mixers_of(keys, f, "K", lambda i: i + 1 in listed if listed else i > 0 and i % 4 == 0, "layer_types")
    first = keys.number("first_k_dense_replace", default=1) or 0
    keys.only("moe_layer_freq", 1)
    kinds = keys.take("mlp_layer_types")
    networks = networks_of(f, lambda i: kinds[i] == "sparse" if _fits(kinds, f) else i >= first)
    router_bias(keys, f)
    next_tokens(keys, f)
    if mixers:
        set_pattern(f, mixers, networks, keys.place(SECTION, "layer_types"))


def bailing_hybrid(keys: Keys, f: Findings) -> None:
    """Set Ling 3: Kimi Delta Attention with gates of full rank, and latent attention with a gate for each head.

    The last layer of each group attends; all networks after the first are experts.
    """
    group = int(keys.number("layer_group_size", default=6) or 1)
    mixers = mixers_of(keys, f, "K", lambda i: (i + 1) % group == 0, "layer_types")
    kinds, first = keys.take("mlp_layer_types"), keys.number("first_k_dense_replace", default=2) or 0
    networks = networks_of(f, lambda i: kinds[i] == "sparse" if _fits(kinds, f) else i >= first)
    f.set("kda_gates", "full")
    f.set("attention_gate", "headwise")
    f.set("ssm_heads", f.count("heads"))
    keys.set("ssm_head_dim", "head_dim", "linear_head_dim", default=128)
    keys.set("ssm_conv", "short_conv_kernel_size", "linear_conv_kernel_dim", default=4)
    router_bias(keys, f)
    count = keys.number("num_nextn_predict_layers", "num_mtp_layers", default=0)
    if count:
        f.set("mtp_layers", count, keys.place("num_nextn_predict_layers", "num_mtp_layers"))
    keys.ignore(("kda_safe_gate", "kda_lower_bound", "mtp_loss_scaling_factor", "qk_head_dim", "linear_num_heads",
                 "moe_renormalize"))  # fmt: skip
    if mixers:
        set_pattern(f, mixers, networks, keys.place("layer_types", "layer_group_size"))


def _fits(kinds: object, f: Findings) -> bool:
    return isinstance(kinds, list) and len(kinds) == f.count("layers", 0)


def nemotron_h(keys: Keys, f: Findings) -> None:
    """Set Nemotron-H: a block in each layer, as its pattern or its list of kinds says."""
    text, kinds = keys.take("hybrid_override_pattern"), keys.take("layers_block_type", "layer_types")
    letters = {**dict.fromkeys(ATTENTION, "*"), **dict.fromkeys(LINEAR, "M"), **NETWORKS}
    if isinstance(kinds, list) and text is None:
        strange = sorted({str(kind) for kind in kinds} - set(letters))
        if strange:
            keys.wrong(("layers_block_type", "layer_types"), f"layers of {', '.join(strange)} are not understood "
                       f"({one_of(sorted(letters))})")  # fmt: skip
            return
        text = "".join(letters[str(kind)] for kind in kinds)
    if not isinstance(text, str) or set(text) - set("M*-E"):
        keys.wrong(("hybrid_override_pattern",), f"{shown(text)} is not understood; letters M, *, - and E")
        return
    f.set("layers", len(text), keys.place("hybrid_override_pattern"))
    f.set("layer_pattern", text, keys.place("hybrid_override_pattern", "layers_block_type"))
    mamba2(keys, f, heads="mamba_num_heads", head_dim="mamba_head_dim", groups=("n_groups", "mamba_n_groups"),
            state=("ssm_state_size", "mamba_d_state"))  # fmt: skip
    keys.set("moe_latent_hidden", "moe_latent_size")
    if "E" not in text:
        for name in ("experts", "top_k", "moe_ffn_hidden", "shared_experts", "shared_ffn_hidden"):
            f.fields.pop(name, None)
        f.fields.pop("moe_latent_hidden", None)
    names = ("use_bias", "attention_bias", "mlp_bias", "mamba_proj_bias")
    bias = {keys.truth(name) for name in names}
    if len(bias) > 1:
        some = tuple(name for name in names if keys.truth(name))
        keys.wrong(some, "biases of some of the layers only are not modelled")
    f.set("bias", True in bias)
    count = keys.number("num_nextn_predict_layers", default=0)
    kinds = keys.take("mtp_hybrid_override_pattern", "mtp_layers_block_type")
    module = "".join(letters.get(str(kind), "?") for kind in kinds) if isinstance(kinds, list) else kinds
    if count and module not in (None, "*E"):
        keys.wrong(("mtp_hybrid_override_pattern", "mtp_layers_block_type"), f"{shown(kinds)} is not understood; only "
                   "'*E', attention and experts")  # fmt: skip
    elif count:
        f.set("mtp_layers", count, keys.place("num_nextn_predict_layers"))
    keys.ignore(("use_mamba_kernels", "mamba_hidden_act", "mlp_hidden_act", "mamba_ssm_cache_dtype", "expand",
                 "moe_shared_expert_overlap", "residual_in_fp32", "rescale_prenorm_residual", "attention_head_dim",
                 "mamba_dt_min", "mamba_dt_max", "mamba_dt_limit", "mamba_dt_init_floor", "time_step_rank",
                 "sliding_window", "num_query_groups", "mtp_use_repeated_layer", *TIME_STEP))  # fmt: skip


def minimax(keys: Keys, f: Findings) -> None:
    """Set MiniMax-01 and M1: lightning attention, or attention where the list says 1; experts in every layer."""
    kinds = keys.take("attn_type_list", "layer_types")
    own = keys.mapping.get("model_type") == "minimax"  # transformers' class: every other layer, where none are listed
    if isinstance(kinds, list) and set(map(str, kinds)) <= {"0", "1"}:
        mixers: list[str] | None = ["*" if kind else "L" for kind in kinds]
        if len(kinds) != f.count("layers", 0):
            keys.wrong(("attn_type_list",), f"must list the kind of each of the {f.count('layers', 0)} layers")
            return
    else:
        every = (lambda i: i % 2 == 0) if own else (lambda i: (i + 1) % 8 == 0)
        mixers = mixers_of(keys, f, "L", every, "layer_types")
    f.set("ssm_heads", f.count("heads"))
    f.set("ssm_head_dim", f.count("head_dim", f.count("hidden", 0) // f.count("heads")))
    keys.set("ssm_chunk", "block_size", "block", default=256)
    keys.off(("shared_intermediate_size",), "shared experts of MiniMax")
    keys.only("sliding_window", None)
    keys.ignore(("postnorm", "shared_moe_mode", "rotary_dim", *(key for key in keys.mapping if key.startswith(
        ("layernorm_", "full_attn_", "linear_attn_", "mlp_alpha", "mlp_beta")))))  # fmt: skip
    if mixers:
        set_pattern(f, mixers, networks_of(f, lambda i: True), keys.place("attn_type_list", "layer_types"))


def minimax_m2(keys: Keys, f: Findings) -> None:
    """Set MiniMax-M2: attention in every layer, experts with a bias that balances them."""
    kinds = keys.take("attn_type_list")
    if isinstance(kinds, list) and set(kinds) != {1}:
        keys.wrong(("attn_type_list",), "layers other than attention (1) are not understood in minimax_m2")
    keys.only("qk_norm_type", "per_layer")
    f.set("router_bias", keys.truth("use_routing_bias", default=True))
    keys.off(("shared_intermediate_size",), "shared experts of MiniMax")
    if keys.truth("use_mtp"):
        f.note("use_mtp: modules of multi-token prediction are not in the published weights: give --set mtp_layers=N")
    keys.ignore(("num_mtp_modules", "mtp_transformer_layers", "rotary_dim", "use_qk_norm", *(
        key for key in keys.mapping if key.startswith(("layernorm_", "mlp_alpha", "mlp_beta")))))  # fmt: skip
