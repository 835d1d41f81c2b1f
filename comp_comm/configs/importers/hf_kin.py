"""Families that are a known one with a few keys of its own: AFMoE, BitNet, Granite's, Phi-MoE, XGLM and more."""

from __future__ import annotations

from collections.abc import Callable

from comp_comm.configs.importers.hf_parts import FULL_ATTENTION, PERIOD, expert_layers, experts
from comp_comm.configs.importers.hf_patterns import MOST_WORDS, SLIDING_ATTENTION, WINDOW
from comp_comm.configs.importers.imported import Findings, Keys

Part = Callable[[Keys, Findings], None]


def full_each(period: int, first: int = 0, also: tuple[int, ...] = ()) -> Part:
    """Return a part that lists layers where a file does not: over a window, but each n-th from one on.

    ``also`` are others that attend to everything, counted from the end where they are negative.
    """

    def listed(keys: Keys, f: Findings) -> None:
        if not keys.has("layer_types", *PERIOD):
            layers = _layers(f)
            full = {*range(first, layers, period), *(i % max(layers, 1) for i in also)}
            kinds = [FULL_ATTENTION[0] if i in full else SLIDING_ATTENTION[0] for i in range(layers)]
            keys.mapping = {**keys.mapping, "layer_types": kinds}

    return listed


def full_unless_listed(keys: Keys, f: Findings) -> None:
    """List layers that attend to everything where a file lists none, whatever window it has."""
    if not keys.has("layer_types", *PERIOD):
        keys.mapping = {**keys.mapping, "layer_types": [FULL_ATTENTION[0]] * _layers(f)}


def _layers(f: Findings) -> int:
    return min(f.count("layers", 0), MOST_WORDS)


def _moe_layers(f: Findings) -> int:
    """Return how many layers are a mixture of experts, once their places were read."""
    return (f.count("layers", 0) - f.count("dense_layers", 0)) // f.count("moe_every") if "experts" in f.fields else 0


def sparse_after(dense: int) -> Part:
    """Return a part that reads which layers are experts: a list of them, a count of dense ones, or all after some."""

    def listed(keys: Keys, f: Findings) -> None:
        kinds, first = keys.take("mlp_layer_types"), keys.number("num_dense_layers", "first_k_dense_replace")
        layers = _layers(f)
        if kinds is None:
            which = [i >= (dense if first is None else first) for i in range(layers)]
        elif isinstance(kinds, list) and len(kinds) == layers and set(map(str, kinds)) <= {"dense", "sparse"}:
            which = [kind == "sparse" for kind in kinds]
        else:
            keys.wrong(("mlp_layer_types",), f"must list each of the {layers} layers, dense or sparse")
            return
        if not any(which):
            for name in ("experts", "top_k", "moe_ffn_hidden", "shared_experts", "shared_ffn_hidden", "router_bias"):
                f.fields.pop(name, None)
        expert_layers(f, which, keys.place("mlp_layer_types", "num_dense_layers", "first_k_dense_replace"))

    return listed


def balanced(_: Keys, f: Findings) -> None:
    """Set the bias that balances routers, which every model of the family has."""
    if "experts" in f.fields:
        f.set("router_bias", True)


def one_shared(width: str) -> Part:
    """Return a part that sets a shared expert as wide as a key says; there is none where that is 0 or left out."""

    def shared(keys: Keys, f: Findings) -> None:
        size = keys.number(width)
        if size and "experts" in f.fields:
            f.set("shared_experts", 1)
            f.set("shared_ffn_hidden", size, keys.place(width))

    return shared


def cohere(keys: Keys, _: Findings) -> None:
    """Take what only says which of Cohere 2's layers attend to everything."""
    keys.ignore(("layer_switch", "order_of_interleaved_layers"))


def needs_types(keys: Keys, f: Findings) -> None:
    """Refuse a file that does not list its kinds of layers, where no rule makes them."""
    if not keys.has("layer_types"):
        f.missing("'layer_types' is missing: it says the kind of each layer", "layer_pattern")
        keys.ignore(WINDOW)


def no_bias(keys: Keys, f: Findings) -> None:
    """Refuse biases of families where not all projections would have one that has it in others."""
    for name in ("attention_bias", "mlp_bias", "use_bias"):
        if keys.has(name):
            keys.only(name, False)
    f.set("bias", "off")


def afmoe(keys: Keys, _: Findings) -> None:
    """Take what changes no shape in AFMoE (Trinity): the scale of its embedding and of its routers."""
    keys.ignore(("mup_enabled", "route_scale", "global_attn_every_n_layers", "route_norm", "score_func",
                 "load_balance_coeff", "use_grouped_mm", "num_limited_groups", "num_expert_groups"))  # fmt: skip


def gate_bias(_: Keys, f: Findings) -> None:
    """Count the bias of a gate on attention: a number for each head."""
    f.set("extra_parameters", f.count("layers", 0) * f.count("heads"))


def combined(keys: Keys, f: Findings) -> None:
    """Take whether experts' outputs are added up in 32 bits, and bases of positions; experts have no biases."""
    if "experts" in f.fields:
        keys.only("mlp_bias", False)
    keys.ignore(("enable_moe_fp32_combine", "layer_rope_theta"))


def task_types(keys: Keys, _: Findings) -> None:
    """Take ERNIE's embedding of tasks, which must be off."""
    keys.only("use_task_id", False)
    keys.ignore(("task_type_vocab_size",))


def floor_head_dim(_: Keys, f: Findings) -> None:
    """Set heads as wide as hidden over heads, rounded down which GLM-4.5 does by default."""
    hidden, heads = f.count("hidden", 0), f.count("heads")
    if "head_dim" not in f.fields and heads > 0 and hidden % heads:
        f.set("head_dim", hidden // heads)


def delta_sizes(keys: Keys, f: Findings) -> None:
    """Set sizes of Gated DeltaNet that OLMo Hybrid has where a file leaves them out: keys of 3/4 of a head."""
    heads = f.count("heads")
    key = int(0.75 * f.count("hidden", 0) / max(heads, 1))
    made = {"linear_num_key_heads": heads, "linear_num_value_heads": heads, "linear_key_head_dim": key}
    value = 2 * (keys.number("linear_key_head_dim") or key)
    missing = {name: size for name, size in {**made, "linear_value_head_dim": int(value)}.items() if not keys.has(name)}
    keys.mapping = {**keys.mapping, **missing}


def without_gate(_: Keys, f: Findings) -> None:
    """Leave the gate of the shared expert out, which Qwen's models have and LARA has not."""
    f.fields.pop("shared_expert_gate", None)


def sub_norms(_: Keys, f: Findings) -> None:
    """Count BitNet's norms of attention's output and of the network's inner width."""
    f.set("extra_parameters", f.count("layers", 0) * (f.count("hidden", 0) + f.count("ffn_hidden", 0)))
    f.note("norms within blocks are counted in parameters, not in time; number formats of training are the study's")


def expert_norms(_: Keys, f: Findings) -> None:
    """Count the norm after each mixture of experts (A.X K1)."""
    f.set("extra_parameters", f.count("hidden", 0) * _moe_layers(f))
    f.note("norms after experts are counted in parameters, not in time")


def square_output(keys: Keys, f: Findings) -> None:
    """Refuse heads that are not as wide as the model together: Helium's output projection is hidden x hidden."""
    if f.count("head_dim", 0) and f.count("head_dim") * f.count("heads") != f.count("hidden", 0):
        keys.wrong(("head_dim",), "must be hidden_size / num_attention_heads in this family")


def hunyuan_experts(keys: Keys, f: Findings) -> None:
    """Set Hunyuan's experts, beside one that every token goes to; numbers of single layers must be alike."""
    for name in ("num_experts", "moe_topk", "num_shared_expert", "moe_intermediate_size"):
        given = keys.mapping.get(name)
        if isinstance(given, list) and given and all(each == given[0] for each in given):
            keys.mapping = {**keys.mapping, name: given[0]}
    experts(keys, f)
    if "experts" in f.fields:
        f.set("shared_experts", keys.take("num_shared_expert", default=1), keys.place("num_shared_expert"))
    keys.only("use_cla", False)
    keys.ignore(("eod_token_id", "use_mixed_mlp_moe", "moe_layer_num_skipped", "eod_id", "im_end_id", "im_start_id",
                 "im_newline_id"))  # fmt: skip


def post_norms(keys: Keys, f: Findings) -> None:
    """Set HyperCLOVA X's norms: after the blocks, too, unless it says otherwise."""
    f.set("norms", 4 if keys.truth("use_post_norm", default=True) else 2, keys.place("use_post_norm"))


def laguna(keys: Keys, f: Findings) -> None:
    """Set Laguna's gate on attention, a number for each head; heads must be as many in every layer."""
    counts = keys.take("num_attention_heads_per_layer")
    if isinstance(counts, list) and any(each != f.count("heads") for each in counts):
        keys.wrong(("num_attention_heads_per_layer",), "layers with other numbers of heads are not modelled")
    gate = keys.take("gating", default=True)
    if gate not in (True, "per-head", "per_head"):
        keys.wrong(("gating",), "only true is understood: a gate for each head")
    f.set("attention_gate", "headwise")
    keys.ignore(("moe_routed_scaling_factor", "moe_apply_router_weight_on_input", "moe_router_logit_softcapping",
                 "swa_rope_parameters", "moe_router_use_sigmoid", "qk_norm_type"))  # fmt: skip


def narrow_values(keys: Keys, f: Findings) -> None:
    """Set MiniCPM3's values, which are as wide as hidden over heads whatever ``v_head_dim`` says."""
    keys.mapping = {**keys.mapping, "v_head_dim": f.count("hidden", 0) // f.count("heads")}
    keys.ignore(("scale_emb", "scale_depth", "dim_model_base"))


def biased_head_norms(keys: Keys, f: Findings) -> None:
    """Set Persimmon's norms of queries and keys, which have a bias beside their weight."""
    if keys.truth("qk_layernorm", default=True):
        f.set("qk_norm", True)
        head_dim = f.count("head_dim", f.count("hidden", 0) // f.count("heads"))
        f.set("extra_parameters", 2 * head_dim * f.count("layers", 0))
    f.fields.pop("kv_heads", None)
    keys.ignore(("num_key_value_heads",))


def head_bias(keys: Keys, f: Findings) -> None:
    """Count a bias of the output layer, where there is one; one key says whether attention has biases."""
    if keys.truth("lm_head_bias"):
        f.set("extra_parameters", f.count("vocab", 0), keys.place("lm_head_bias"))
    f.set("bias", "attention" if keys.truth("attention_bias") else "off", keys.place("attention_bias"))


def offset_positions(_: Keys, f: Findings) -> None:
    """Set two learned positions more than there are tokens (BioGPT, OPT)."""
    f.set("max_positions", f.count("max_positions", 0) + 2)


def text_only(keys: Keys, f: Findings) -> None:
    """Take keys of what reads sound and images beside the text model, and say that it is not imported."""
    keys.ignore(("vision_config", "audio_config", "embd_layer", "img_processor", "audio_processor", "speech_lora",
                 "vision_lora"))  # fmt: skip
    f.note("only the text model is imported, not what reads images or sound")
