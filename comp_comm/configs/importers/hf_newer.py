"""Families of 2025 and later whose config.json has keys of its own: EXAONE 4, SmolLM3, Seed-OSS, ERNIE, GLM-4.7."""

from __future__ import annotations

from comp_comm.configs.importers.hf_parts import FULL_ATTENTION, expert_layers
from comp_comm.configs.importers.hf_patterns import SLIDING_ATTENTION
from comp_comm.configs.importers.imported import Findings, Keys, shown


def no_rope(keys: Keys, _: Findings) -> None:
    """Take which layers have no position of their own: nothing that is counted hangs on it."""
    keys.ignore(("no_rope_layers", "no_rope_layer_interval"))


def seed_biases(keys: Keys, f: Findings) -> None:
    """Set the bias of Q, K and V; that of the output and of the networks must be off."""
    f.set("bias", "qkv" if keys.truth("attention_bias", default=True) else "off", keys.place("attention_bias"))
    keys.only("attention_out_bias", False)
    keys.only("mlp_bias", False)


def exaone(keys: Keys, f: Findings) -> None:
    """Read a pattern like ``LLLG`` (local layers, then one that attends to everything) as the list of layers it is."""
    pattern, types = keys.take("sliding_window_pattern"), keys.take("layer_types")
    if not isinstance(pattern, str) or types is not None:
        return
    if set(pattern) - {"L", "G"} or not pattern:
        f.wrong(keys.place("sliding_window_pattern"), f"{shown(pattern)} is not understood; L and G, one a layer")
        return
    layers = f.count("layers", 0)
    kinds = {"L": SLIDING_ATTENTION[0], "G": FULL_ATTENTION[0]}
    listed = [kinds[pattern[i % len(pattern)]] for i in range(layers)]
    if layers:
        listed[-1] = FULL_ATTENTION[0]  # the last layer attends to everything, whatever the pattern
    keys.mapping = {**keys.mapping, "layer_types": listed}


def apertus(keys: Keys, f: Findings) -> None:
    """Count the two numbers that the activation of every network has (xIELU); its norms must be before the blocks."""
    f.set("extra_parameters", 2 * f.count("layers", 0))
    keys.only("post_norm", False)
    keys.only("qk_norm", True)


def bailing(keys: Keys, f: Findings) -> None:
    """Set Ling 2.0's bias of routers; no other bias is read."""
    f.set("router_bias", keys.truth("moe_router_enable_expert_bias", default=True))
    keys.only("use_bias", False)
    keys.ignore(("mtp_loss_scaling_factor", "router_dtype", "score_function", "output_dropout", "rotary_dim",
                 "max_window_layers", "num_nextn_predict_layers"))  # fmt: skip


def ernie(keys: Keys, f: Findings) -> None:
    """Set ERNIE 4.5's biases: one key for all linear layers."""
    f.set("bias", keys.truth("use_bias"), keys.place("use_bias"))


def ernie_experts(keys: Keys, f: Findings) -> None:
    """Set ERNIE 4.5's experts: as many for each token as ``moe_k``, from one layer to another at an interval."""
    keys.set("top_k", "moe_k")
    shared = keys.number("moe_num_shared_experts", default=0)
    if shared:
        f.set("shared_experts", shared, keys.place("moe_num_shared_experts"))
    layers = f.count("layers", 0)
    first, last = keys.take("moe_layer_start_index", default=0), keys.take("moe_layer_end_index", default=-1)
    period = keys.take("moe_layer_interval", default=1)
    if not all(isinstance(each, int) for each in (first, last, period)) or period < 1:
        f.wrong(keys.place("moe_layer_start_index"), "the layers of experts must be whole numbers")
        return
    end = layers - 1 if last < 0 else last
    which = [first <= i <= end and (i + 1) % period == 0 for i in range(layers)]
    expert_layers(f, which, keys.place("moe_layer_start_index"))
    f.set("router_bias", keys.truth("moe_use_aux_free", default=True))
    keys.ignore(("moe_capacity", "moe_gate", "moe_norm_min", "moe_layer_end_index", "moe_group", "moe_aux_loss_lambda"))
