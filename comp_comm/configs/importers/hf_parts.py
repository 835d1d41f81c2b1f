"""Parts of a model as a Hugging Face config.json describes them: each takes its keys and sets fields."""

from __future__ import annotations

from collections.abc import Sequence

from comp_comm.configs.importers.hf_patterns import SLIDING_ATTENTION, WINDOW, set_pattern
from comp_comm.configs.importers.imported import Findings, Keys, shown

BIASES = {(False, False): "off", (True, False): "attention", (False, True): "ffn", (True, True): "on"}
FULL_ATTENTION = ("full_attention", "global")
EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "num_routed_experts", "moe_num_experts")
TOP_K = (
    "num_experts_per_tok", "experts_per_token", "num_experts_per_token", "top_k_experts", "moe_top_k", "moe_topk",
    "moe_k",
)  # fmt: skip
SHARED = ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts")
SHARED_WIDTHS = ("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size")
POSITIONS = (
    "max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "max_sequence_length", "n_ctx",
    "model_max_length",
)  # fmt: skip
# Every spelling of what a model cannot be without, and of what follows from it where it is left out.
NEEDED = {
    "hidden": ("hidden_size", "n_embd", "n_embed", "d_model"),
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "heads": ("num_attention_heads", "n_head", "n_heads", "num_heads", "attention_heads"),
}
OPTIONAL = {
    "kv_heads": ("num_key_value_heads",),
    "head_dim": ("head_dim", "d_kv"),
    "ffn_hidden": ("intermediate_size", "n_inner", "ffn_dim", "d_ff", "ffn_hidden_size"),
}
PERIOD = ("sliding_window_pattern", "_sliding_window_pattern")
# Keys that some family has: of a family that is not understood, only the others are named.
UNDERSTOOD = (
    *EXPERTS, *TOP_K, *SHARED, "attention_bias", "mlp_bias", "use_bias", "use_qkv_bias", "qkv_bias", "bias",
    "sliding_window", "use_sliding_window", "max_window_layers", "layer_types", "sliding_window_pattern",
    "moe_intermediate_size", "shared_expert_intermediate_size", "moe_shared_expert_intermediate_size",
    "first_k_dense_replace", "moe_layer_freq", "decoder_sparse_step", "mlp_only_layers", "num_nextn_predict_layers",
    "q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "use_qk_norm", "qk_layernorm",
    "sliding_window_size",
)  # fmt: skip


def biases(keys: Keys, f: Findings) -> None:
    """Set which linear layers have a bias, from ``attention_bias`` and ``mlp_bias``."""
    given = (keys.truth("attention_bias"), keys.truth("mlp_bias"))
    f.set("bias", BIASES[given], keys.place("attention_bias"))


def qkv_bias(keys: Keys, f: Findings) -> None:
    """Set the bias of Q, K and V from ``attention_bias`` (or ``use_qkv_bias``); nothing else has one."""
    usual = f.fields.get("bias") == "qkv"
    f.set("bias", "qkv" if keys.truth("attention_bias", "use_qkv_bias", "qkv_bias", default=usual) else "off")


def all_biases(keys: Keys, f: Findings) -> None:
    """Set the bias of all linear layers from one key."""
    given = keys.truth("use_bias", "bias", "enable_bias", default=True)
    f.set("bias", given, keys.place("use_bias", "bias", "enable_bias"))


def window(keys: Keys, f: Findings) -> None:
    """Set sliding-window attention, and which layers attend to everything."""
    size = keys.take(*WINDOW)
    used = keys.truth("use_sliding_window", default=True)
    types, first = keys.take("layer_types"), keys.take("max_window_layers")
    period = keys.take(*PERIOD)
    layers = f.count("layers", 0)
    if types is not None:
        full = _full_layers(keys, types, layers)
        period = None
    elif not used or size is None:
        return
    elif first is not None and isinstance(first, int):
        full = min(first, layers)
    else:
        full = layers // period if isinstance(period, int) and period > 0 else 0
    if full is None or full >= layers:
        return
    if size is None:
        f.wrong(keys.place("layer_types"), "layers with sliding attention need 'sliding_window'")
        return
    f.set("window", size, keys.place(*WINDOW))
    place = keys.place("layer_types", "max_window_layers")
    if full and types is not None and _period(layers, full) is None:
        _list_layers(f, types, place)
    elif full:
        _set_period(f, "global_every", layers, full, place)


def _list_layers(f: Findings, types: Sequence[object], place: tuple[str | int, ...]) -> None:
    """Set layers one by one, where those that attend to everything are not every n-th."""
    dense, period = f.count("dense_layers", 0), f.count("moe_every")
    if "layer_pattern" in f.fields:
        return
    sparse = [i >= dense and (i - dense + 1) % period == 0 and "experts" in f.fields for i in range(len(types))]
    mixers = ["*" if kind in FULL_ATTENTION else "W" for kind in types]
    set_pattern(f, mixers, ["E" if each else "-" for each in sparse], place)
    for name in ("dense_layers", "moe_every"):
        f.fields.pop(name, None)


def _full_layers(keys: Keys, types: object, layers: int) -> int | None:
    """Return how many layers attend to everything; None where a kind of layer is not understood."""
    place = keys.place("layer_types")
    if not isinstance(types, list) or len(types) != layers:
        keys.findings.wrong(place, f"must list the kind of each of the {layers} layers")
        return None
    known = (*FULL_ATTENTION, *SLIDING_ATTENTION)
    strange = sorted({str(kind) for kind in types} - set(known))
    if strange:
        keys.findings.wrong(place, f"layers of {', '.join(strange)} are not understood; only {', '.join(known[::2])}")
        return None
    return sum(kind in FULL_ATTENTION for kind in types)


def _set_period(f: Findings, name: str, layers: int, wanted: int, place: tuple[str | int, ...]) -> None:
    """Set a field that says every how-manieth of ``layers`` is one of the ``wanted``."""
    period = _period(layers, wanted)
    if period is None:
        f.wrong(place, f"{wanted} of {layers} layers are not every n-th of them, which is what {name} says")
        return
    f.set(name, period, place)


def _period(layers: int, wanted: int) -> int | None:
    """Return the n for which every n-th of ``layers`` makes the ``wanted``: the one that goes into them, if any does.

    >>> _period(8, 2), _period(26, 4), _period(30, 29)
    (4, 6, None)
    """
    even = [layers // wanted] if wanted and layers % wanted == 0 else []
    return next((n for n in (*even, *range(1, layers + 1)) if layers // n == wanted), None)


def experts(keys: Keys, f: Findings) -> None:
    """Set a mixture of experts: how many, how many a token goes to, their width, and those it always goes to."""
    count = keys.number(*EXPERTS)
    widths = ("moe_intermediate_size", "expert_intermediate_size")
    if not count:
        keys.ignore((*TOP_K, *widths, *SHARED, *SHARED_WIDTHS))
        return
    if not keys.set("top_k", *TOP_K):
        f.missing(f"'{TOP_K[0]}' is missing: how many experts a token goes to", "top_k")
    keys.set("moe_ffn_hidden", *widths)
    shared = keys.number(*SHARED)
    width = keys.number(*SHARED_WIDTHS)
    f.set("experts", count, keys.place(*EXPERTS))
    if "moe_ffn_hidden" not in f.fields and "ffn_hidden" in f.fields:
        f.fields["moe_ffn_hidden"] = f.fields["ffn_hidden"]
    if width:
        f.set("shared_experts", shared or 1, keys.place(*SHARED))
        f.set("shared_ffn_hidden", width, keys.place("shared_expert_intermediate_size"))
    elif shared:
        f.set("shared_experts", shared, keys.place(*SHARED))
    router_groups(keys, f)


def router_groups(keys: Keys, f: Findings) -> None:
    """Set groups of experts that a token's are chosen from, where it is not all of them.

    DeepSeek's ``topk_method: greedy`` (DeepSeek-V2-Lite) chooses from all, whatever groups a file has.
    """
    groups, chosen = (keys.number(*names) for names in (("n_group", "num_expert_group"), ("topk_group",)))
    if keys.take("topk_method") == "greedy" or keys.take("use_grouped_topk") is False or not groups or not chosen:
        return
    if groups > chosen:
        f.set("router_groups", groups, keys.place("n_group", "num_expert_group"))
        f.set("router_group_topk", chosen, keys.place("topk_group"))


def expert_layers(f: Findings, which: Sequence[bool], place: tuple[str | int, ...]) -> None:
    """Set which layers are a mixture of experts: all, or every n-th after the first dense ones."""
    if all(which) or "experts" not in f.fields:
        return
    dense = which.index(True) if any(which) else len(which)
    after = which[dense:]
    if dense and (all(after) or _period(len(which), sum(which)) is None):
        f.set("dense_layers", dense, place)
        if not all(after):
            _set_period(f, "moe_every", len(after), sum(after), place)
        return
    _set_period(f, "moe_every", len(which), sum(which), place)


def deepseek_layers(keys: Keys, f: Findings) -> None:
    """Set DeepSeek's expert layers: all after the first ``first_k_dense_replace``."""
    first, period = keys.number("first_k_dense_replace", default=0), keys.take("moe_layer_freq", default=1)
    layers = f.count("layers", 0)
    if isinstance(period, list):
        which = [bool(each) for each in period]
    elif isinstance(period, int) and period > 0:
        which = [i >= (first or 0) and i % period == 0 for i in range(layers)]
    else:
        keys.wrong(("moe_layer_freq",), f"{shown(period)} is not understood; a whole number, or a list")
        return
    expert_layers(f, which, keys.place("first_k_dense_replace", "moe_layer_freq"))


def qwen_layers(keys: Keys, f: Findings) -> None:
    """Set Qwen's expert layers: every ``decoder_sparse_step``-th that ``mlp_only_layers`` does not list."""
    step, dense = keys.number("decoder_sparse_step", default=1), keys.take("mlp_only_layers", default=[])
    if not isinstance(dense, list) or not step:
        keys.wrong(("mlp_only_layers",), f"{shown(dense)} is not a list of layers")
        return
    layers = f.count("layers", 0)
    which = [(i + 1) % step == 0 and i not in dense for i in range(layers)]
    expert_layers(f, which, keys.place("mlp_only_layers", "decoder_sparse_step"))


def latent_attention(keys: Keys, f: Findings) -> None:
    """Set multi-head latent attention (DeepSeek-V2): ranks, and the parts of a head."""
    keys.only("attention_bias", False)
    keys.ignore(("qk_head_dim", "head_dim"))
    f.set("q_lora_rank", keys.take("q_lora_rank", default=0), keys.place("q_lora_rank"))
    for name, key in (("kv_lora_rank", "kv_lora_rank"), ("head_dim", "qk_nope_head_dim"),
                      ("rope_head_dim", "qk_rope_head_dim"), ("v_head_dim", "v_head_dim")):  # fmt: skip
        if not keys.set(name, key):
            f.missing(f"'{key}' is missing")
    f.fields.pop("kv_heads", None)  # as many as heads, whatever the file says


def next_tokens(keys: Keys, f: Findings) -> None:
    """Set modules of multi-token prediction."""
    count = keys.number("num_nextn_predict_layers", default=0)
    if count:
        f.set("mtp_layers", count, keys.place("num_nextn_predict_layers"))


def router_bias(keys: Keys, f: Findings) -> None:
    """Set the bias that balances DeepSeek-V3's routers without an auxiliary loss."""
    if keys.take("topk_method", default="noaux_tc") == "noaux_tc":
        f.set("router_bias", True)


# Nonlinearities that keep something else than their input, by transformers' words.
KEPT_OTHERWISE = {"relu": "relu", "gelu_new": "gelu_new"}
FUNCTIONS = ("hidden_act", "hidden_activation", "activation_function")


def nonlinearity(keys: Keys, f: Findings) -> None:
    """Set the nonlinearity of feed-forward networks where it keeps something else than its input."""
    written = KEPT_OTHERWISE.get(str(keys.take(*FUNCTIONS, default="")))
    if written and "activation_function" not in f.fields:
        f.set("activation_function", written, keys.place(*FUNCTIONS))
    keys.ignore(FUNCTIONS)


def output_bias(keys: Keys, f: Findings) -> None:
    """Count a bias of the output layer: a number for each entry of the vocabulary."""
    f.set("extra_parameters", f.fields.get("vocab", 0))
