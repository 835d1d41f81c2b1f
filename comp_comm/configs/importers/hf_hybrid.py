"""Families whose layers are not all alike: mixers with a state beside attention, sparse attention, latent experts.

Which layers there are is written as the field ``layer_pattern``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from comp_comm.configs.importers.hf_parts import next_tokens, router_bias
from comp_comm.configs.importers.imported import Findings, Keys, shown
from comp_comm.errors import one_of
from comp_comm.records import Record

ATTENTION = ("full_attention", "attention", "global", "indexed_attention", "deepseek_sparse_attention")
LINEAR = ("linear_attention", "mamba", "mamba2", "kda", "gated_deltanet", "lightning_attention")
NETWORKS = {"mlp": "-", "dense": "-", "moe": "E", "sparse": "E"}
MOST_WORDS = 100_000
LONGEST_GROUP = 16  # layers of a group that is looked for
SECTION = "linear_attn_config"


def with_layers(data: Record) -> Record:
    """Return a config.json with the number of its layers, where it lists their kinds instead."""
    kinds = data.get("hybrid_override_pattern") or data.get("layers_block_type") or data.get("layer_types")
    if "num_hidden_layers" in data or not isinstance(kinds, (str, list)) or not kinds:
        return data
    return {**data, "num_hidden_layers": len(kinds)}


def pattern_text(words: Sequence[str]) -> str:
    """Return layers, a word each, as ``layer_pattern`` has them: groups that are repeated once.

    >>> pattern_text(["GE", "GE", "GE", "*E"] * 12), pattern_text(list("M-M*")), pattern_text(["K-", "KE", "KE", "*E"])
    ('(GEx3 *E)x12', 'M-M*', 'K- KEx2 *E')
    """
    if all(len(word) == 1 for word in words) and len(set(words)) > 1:
        return "".join(words)
    return f"{words[0]}x1" if len(words) == 1 else _grouped(words)


def _grouped(words: Sequence[str]) -> str:
    parts, at = [], 0
    while at < len(words):
        period, times = _repetition(words, at)
        group = _grouped(words[at : at + period]) if period > 1 else words[at]
        parts.append(f"({group})x{times}" if period > 1 else f"{group}x{times}" if times > 1 else group)
        at += period * times
    return " ".join(parts)


def _repetition(words: Sequence[str], at: int) -> tuple[int, int]:
    """Return the group of words from a place on that is repeated for longest: how many words, and how often."""
    best, longest = (1, 1), 1
    for period in range(1, LONGEST_GROUP + 1):
        times, group = 1, words[at : at + period]
        while words[at + period * times : at + period * (times + 1)] == group:
            times += 1
        if times > 1 and period * times > longest:
            best, longest = (period, times), period * times
    return best


def set_pattern(f: Findings, mixers: Sequence[str], networks: Sequence[str], place: tuple[str | int, ...]) -> None:
    """Set the layers: a mixer and a network of each, either of which may be empty."""
    if len(mixers) > MOST_WORDS:
        f.wrong(place, f"more than {MOST_WORDS:,} layers")
        return
    f.set("layer_pattern", pattern_text([a + b for a, b in zip(mixers, networks, strict=True)]), place)


def mixers_of(keys: Keys, f: Findings, letter: str, otherwise: Callable[[int], bool], *names: str) -> list[str] | None:
    """Return the letter of each layer's mixer, from a list of their kinds; ``otherwise`` says which of them attend."""
    layers, kinds = f.count("layers", 0), keys.take(*names)
    if kinds is None:
        return ["*" if otherwise(i) else letter for i in range(min(layers, MOST_WORDS))]
    known = {**dict.fromkeys(ATTENTION, "*"), **dict.fromkeys(LINEAR, letter)}
    if not isinstance(kinds, list) or len(kinds) != layers:
        keys.wrong(names, f"must list the kind of each of the {layers} layers")
        return None
    strange = sorted({str(kind) for kind in kinds} - set(known))
    if strange:
        keys.wrong(names, f"layers of {', '.join(strange)} are not understood ({one_of(sorted(known))})")
        return None
    return [known[str(kind)] for kind in kinds]


def networks_of(f: Findings, experts: Callable[[int], bool]) -> list[str]:
    """Return the letter of each layer's network."""
    some = "experts" in f.fields
    return ["E" if some and experts(i) else "-" for i in range(min(f.count("layers", 0), MOST_WORDS))]


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
    if "shared_experts" in f.fields:  # the gate of the shared expert
        f.set("extra_parameters", f.count("hidden", 0) * networks.count("E"))
    if keys.has("mtp_num_hidden_layers") and keys.number("mtp_num_hidden_layers"):
        f.set("mtp_layers", keys.number("mtp_num_hidden_layers"), keys.place("mtp_num_hidden_layers"))
    keys.ignore(("mtp_num_hidden_layers",))
    if mixers:
        set_pattern(f, mixers, networks, keys.place("layer_types", "full_attention_interval"))


def output_gate(keys: Keys, f: Findings) -> None:
    """Set the gate on attention's output, which Qwen's hybrid models have."""
    f.set("attention_gate", keys.truth("attn_output_gate", default=True), keys.place("attn_output_gate"))


def kimi_linear(keys: Keys, f: Findings) -> None:
    """Set Kimi Delta Attention: its heads, and which layers have latent attention instead (counted from 1)."""
    keys.only("mla_use_output_gate", False)
    keys.only("routed_expert_hidden_size", None)
    keys.only("attn_res_block_size", None)
    keys.ignore(("mla_use_nope", "moe_router_activation_func", "moe_renormalize", "use_grouped_topk", "head_dim",
                 "latent_moe_use_norm", "mamba_ssm_dtype"))  # fmt: skip
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
        nested.only("use_full_rank_gate", False)
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
    _mamba2(keys, f, heads="mamba_num_heads", head_dim="mamba_head_dim", groups=("n_groups", "mamba_n_groups"),
            state=("ssm_state_size", "mamba_d_state"))  # fmt: skip
    keys.set("moe_latent_hidden", "moe_latent_size")
    if "E" not in text:
        for name in ("experts", "top_k", "moe_ffn_hidden", "shared_experts", "shared_ffn_hidden"):
            f.fields.pop(name, None)
        f.fields.pop("moe_latent_hidden", None)
    bias = {keys.truth(name) for name in ("use_bias", "attention_bias", "mlp_bias", "mamba_proj_bias")}
    if len(bias) > 1:
        keys.wrong(("use_bias", "mlp_bias"), "biases of some of the layers only are not modelled")
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


TIME_STEP = ("time_step_min", "time_step_max", "time_step_limit", "time_step_floor", "time_step_init_scheme",
             "time_step_scale")  # fmt: skip


def _mamba2(
    keys: Keys, f: Findings, heads: str, head_dim: str, groups: tuple[str, ...], state: tuple[str, ...]
) -> None:
    """Set the sizes of Mamba-2; a head's dimension follows from how much wider than hidden its channels are."""
    keys.set("ssm_heads", heads)
    expand = keys.number("mamba_expand", "expand", default=2) or 2
    if keys.take(head_dim) in (None, "auto"):
        f.set("ssm_head_dim", int(expand * f.count("hidden", 0) // max(f.count("ssm_heads"), 1)))
    else:
        keys.set("ssm_head_dim", head_dim)
    keys.set("ssm_groups", *groups, default=1)
    keys.set("ssm_state", *state)
    keys.set("ssm_conv", "conv_kernel", "mamba_d_conv", default=4)
    keys.set("ssm_chunk", "chunk_size", "mamba_chunk_size")
    keys.only("use_conv_bias", True)
    keys.only("mamba_conv_bias", True)


def bamba(keys: Keys, f: Findings) -> None:
    """Set Bamba and Granite 4's hybrids: Mamba-2 or attention, then a network or experts in every layer."""
    indices = keys.take("attn_layer_indices")
    listed = indices if isinstance(indices, list) else []
    mixers = mixers_of(keys, f, "M", lambda i: i in listed, "layer_types", "layers_block_type")
    _mamba2(keys, f, heads="mamba_n_heads", head_dim="mamba_d_head", groups=("mamba_n_groups",),
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
    _mamba1(keys, f, "mamba_expand", "mamba_d_state", "mamba_d_conv", "mamba_dt_rank")
    keys.only("mamba_conv_bias", True)
    keys.only("mamba_proj_bias", False)
    keys.only("sliding_window", None)
    keys.ignore(("use_mamba_kernels", "mamba_inner_layernorms", "use_mambapy", "use_associative_scan",
                 "calc_logits_for_entire_prompt", "n_ctx"))  # fmt: skip
    f.set("position", "none")
    if mixers:
        set_pattern(f, mixers, networks, keys.place("attn_layer_period"))


def _mamba1(keys: Keys, f: Findings, expand: str, state: str, conv: str, rank: str) -> None:
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
        _mamba1(keys, f, "expand", "state_size", "conv_kernel", "time_step_rank")
        keys.only("use_conv_bias", True)
        f.set("ssm_norm", False)
        f.set("heads", 1)
    else:
        f.fields.pop("head_dim", None)
        _mamba2(keys, f, heads="num_heads", head_dim="head_dim", groups=("n_groups",), state=("state_size",))
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


def minimax(keys: Keys, f: Findings) -> None:
    """Set MiniMax-01 and M1: lightning attention, or attention where the list says 1; experts in every layer."""
    kinds = keys.take("attn_type_list", "layer_types")
    if isinstance(kinds, list) and set(map(str, kinds)) <= {"0", "1"}:
        mixers: list[str] | None = ["*" if kind else "L" for kind in kinds]
        if len(kinds) != f.count("layers", 0):
            keys.wrong(("attn_type_list",), f"must list the kind of each of the {f.count('layers', 0)} layers")
            return
    else:
        mixers = mixers_of(keys, f, "L", lambda i: (i + 1) % 8 == 0 if kinds is None else False, "layer_types")
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


def indexer(keys: Keys, f: Findings) -> None:
    """Set the indexer of sparse attention (DeepSeek-V3.2, GLM-5), which every layer has."""
    for name, key in (("index_heads", "index_n_heads"), ("index_dim", "index_head_dim"), ("index_topk", "index_topk")):
        if not keys.set(name, key):
            f.missing(f"'{key}' is missing", name)
    _shared_indexers(keys, f)
    kinds = keys.take("layer_types")
    if isinstance(kinds, list) and set(map(str, kinds)) - set(ATTENTION):
        keys.wrong(("layer_types",), f"layers of {', '.join(sorted(set(map(str, kinds))))} are not understood")
    keys.ignore(("indexer_rope_interleave", "index_share_for_mtp_iteration",
                 "mlp_layer_types", "moe_router_dtype", "index_kpool"))  # fmt: skip


def _shared_indexers(keys: Keys, f: Findings) -> None:
    """Set layers that take over what the indexer of an earlier one chose (GLM-5.2): listed, or every how-manieth not."""
    types, pattern, layers = keys.take("indexer_types"), keys.take("index_topk_pattern"), f.count("layers", 0)
    frequency = int(keys.number("index_topk_freq", default=1) or 1)
    offset = int(keys.number("index_skip_topk_offset", default=2) or 0)
    own = [max(i - offset + 1, 0) % max(frequency, 1) == 0 for i in range(min(layers, MOST_WORDS))]
    place = keys.place("indexer_types", "index_topk_pattern", "index_topk_freq")
    if isinstance(types, list):
        own = [kind == "full" for kind in types]
    elif pattern is not None:
        own = [kind in ("F", "full") for kind in pattern] if isinstance(pattern, (str, list)) else []
    if len(own) != layers or not own or not own[0]:
        f.wrong(place, f"must say of each of the {layers} layers whether it has an indexer, as the first one has")
    elif not all(own):
        first = f.count("dense_layers", 0)
        networks = networks_of(f, lambda i: i >= first)
        f.fields.pop("dense_layers", None)
        set_pattern(f, ["*" if each else "T" for each in own], networks, place)
