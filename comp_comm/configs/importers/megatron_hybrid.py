"""Layers of several kinds in Megatron-LM's arguments: ``--hybrid-layer-pattern``, and Gated DeltaNet between others."""

from __future__ import annotations

from collections.abc import Sequence

from comp_comm.configs.importers.hf_patterns import set_pattern
from comp_comm.configs.importers.imported import Findings, Keys, is_off, shown
from comp_comm.configs.importers.megatron_model import pattern

PATTERN = ("--hybrid-layer-pattern", "--hybrid-override-pattern")
RATIOS = ("--hybrid-attention-ratio", "--hybrid-mlp-ratio")
# Megatron-LM's letters, by ours: + is attention that is latent, which another argument says for all of it.
LETTERS = {"M": "M", "G": "G", "*": "*", "+": "*", "-": "-", "E": "E"}
OWN_LETTERS = "qwen3_next"  # in the name of a program of Pai-Megatron-Patch: there M is Gated DeltaNet, - are experts
EXPANDED = 2  # times the hidden size that Mamba-2's channels are, where the number of its heads is not given
MAMBA = {"ssm_head_dim": ("--mamba-head-dim", 64), "ssm_groups": ("--mamba-num-groups", 8),
         "ssm_state": ("--mamba-state-dim", 128)}  # fmt: skip
MAMBA_CHUNK = 128  # of megatron.core.ssm.mamba_mixer
DELTA_NET = {"ssm_heads": ("--linear-num-value-heads", 32), "ssm_head_dim": ("--linear-value-head-dim", 128),
             "ssm_groups": ("--linear-num-key-heads", 16), "ssm_state": ("--linear-key-head-dim", 128),
             "ssm_conv": ("--linear-conv-kernel-dim", 4)}  # fmt: skip
VARIANT, FREQUENCY = "--experimental-attention-variant", "--linear-attention-freq"


def length(keys: Keys) -> int | None:
    """Return how many layers a pattern lists, None where there is none: it counts before ``--num-layers``."""
    text = keys.mapping.get(keys.name_of(*PATTERN) or "")
    return sum(letter in LETTERS for letter in text.split("/")[0]) if isinstance(text, str) else None


def read(keys: Keys, f: Findings, program: str) -> None:
    """Set the layers of a model that are not all attention and a network, with the sizes of their mixers."""
    text = keys.take(*PATTERN)
    states = keys.truth("--is-hybrid-model") or any(word in program.lower() for word in ("mamba", "hybrid"))
    for flag in RATIOS:
        if not is_off(keys.take(flag)) and text is None:
            keys.wrong((flag,), "how layers follow from a ratio is not modelled: give --hybrid-layer-pattern")
            return
    if text is not None and OWN_LETTERS in program.lower():
        keys.wrong(PATTERN, f"{shown(program)} has meanings of its own for the letters, which are not known here")
    elif text is not None:
        _listed(keys, f, str(text))
    elif states and keys.take(VARIANT) is None:  # Mamba-2 in every layer
        _set_mamba(keys, f)
        f.set("layer_pattern", f"Mx{max(f.count('layers', 1), 1)}")
    _delta_net_between(keys, f)
    pattern_given = "layer_pattern" in f.fields
    keys.ignore(("--use-mamba-mem-eff-path", "--disable-mamba-mem-eff-path", "--mamba-inference-ssm-states-dtype",
                 "--mamba-inference-conv-states-dtype", "--mamba-training-ssm-states-dtype"))  # fmt: skip
    if not pattern_given:
        for flag in (*(flag for flag, _ in MAMBA.values()), "--mamba-num-heads"):
            if keys.take(flag) is not None:
                keys.wrong((flag,), "goes with --hybrid-layer-pattern")
        keys.off(("--attention-output-gate",))


def _listed(keys: Keys, f: Findings, text: str) -> None:
    """Set what a pattern lists: layers, where ``|`` cuts the pipeline, and modules of multi-token prediction."""
    main, *modules = text.strip().split("/")
    layers = main.replace("|", "")
    strange = sorted(set(layers) - set(LETTERS))
    if strange or not layers:
        keys.wrong(PATTERN, f"{shown(text)} is not understood; letters M, G, *, +, - and E, cut by |, modules after /")
        return
    if "M" in layers and "G" in layers:
        keys.wrong(PATTERN, "Mamba-2 and Gated DeltaNet in one model are not modelled")
        return
    letters = "".join(LETTERS[letter] for letter in layers)
    f.set("layers", len(letters), keys.place(*PATTERN))
    f.set("layer_pattern", letters, keys.place(*PATTERN))
    repeated = keys.take("--mtp-hybrid-override-pattern")
    _modules(
        keys, f, modules or [str(repeated)] * int(keys.number("--mtp-num-layers", default=0) or 0) * bool(repeated)
    )
    _only(f, letters)
    if "M" in letters:
        _set_mamba(keys, f)
    if "G" in letters:
        _set_delta_net(keys, f)
    if keys.truth("--attention-output-gate"):
        f.set("attention_gate", True)


def _modules(keys: Keys, f: Findings, modules: Sequence[str]) -> None:
    """Set modules of multi-token prediction: attention and a network each, as other modules are."""
    if any(LETTERS.get(module[:1]) != "*" or module[1:] not in ("E", "-") for module in modules):
        keys.wrong(
            PATTERN, f"modules of multi-token prediction of {shown(modules[0])} are not modelled; only *E and *-"
        )
    elif modules:
        f.set("mtp_layers", len(modules), keys.place(*PATTERN))


def _only(f: Findings, letters: str) -> None:
    """Leave out what is about layers that the pattern does not have."""
    for name in ("dense_layers", "moe_every", "global_every"):
        f.fields.pop(name, None)
    if "E" not in letters and "experts" in f.fields:
        names = (
            "experts",
            "top_k",
            "moe_ffn_hidden",
            "shared_experts",
            "shared_ffn_hidden",
            "capacity_factor",
            "router_bias",
        )
        for name in names:
            if name not in f.given:
                f.fields.pop(name, None)
        f.note("the pattern has no layer of experts (E): what is said of experts is left out")


def _set_mamba(keys: Keys, f: Findings) -> None:
    for name, (flag, default) in MAMBA.items():
        keys.set(name, flag, default=default)
    heads = EXPANDED * f.count("hidden", 1) // max(f.count("ssm_head_dim"), 1)
    keys.set("ssm_heads", "--mamba-num-heads", default=heads)
    f.set("ssm_chunk", MAMBA_CHUNK)


def _set_delta_net(keys: Keys, f: Findings) -> None:
    for name, (flag, default) in DELTA_NET.items():
        keys.set(name, flag, default=default)


def _delta_net_between(keys: Keys, f: Findings) -> None:
    """Set Gated DeltaNet in some layers of a GPT, each with its network: every n-th attends, or as a list says."""
    variant, frequency = keys.take(VARIANT, "--linear-attention-type"), keys.take(FREQUENCY)
    gate = keys.truth("--attention-output-gate")
    if is_off(variant) and frequency is None:
        return
    if variant not in (None, "gated_delta_net"):
        keys.wrong((VARIANT, "--linear-attention-type"), f"{shown(variant)} is not modelled; only gated_delta_net")
        return
    layers = f.count("layers", 0)
    linear = pattern(frequency, layers)
    if isinstance(frequency, int) and not isinstance(frequency, bool):
        linear = [(i + 1) % frequency != 0 for i in range(layers)] if frequency > 0 else None
    if linear is None or len(linear) != layers:
        keys.wrong((FREQUENCY,), f"{shown(frequency)} is not understood; a number, or a 0 or 1 for each layer")
        return
    dense, period = f.count("dense_layers", 0), f.count("moe_every")
    some = "experts" in f.fields
    networks = ["E" if some and i >= dense and (i - dense + 1) % period == 0 else "-" for i in range(layers)]
    _only(f, "".join(networks))
    set_pattern(f, ["G" if each else "*" for each in linear], networks, keys.place(FREQUENCY))
    _set_delta_net(keys, f)
    if gate:
        f.set("attention_gate", True)


def stages(keys: Keys, f: Findings) -> None:
    """Set which layers each chunk of the pipeline has, where ``|`` cuts the pattern."""
    text = keys.mapping.get(keys.name_of(*PATTERN) or "")
    if not isinstance(text, str) or "|" not in text:
        return
    counts, stages = [len(part) for part in text.split("/")[0].split("|")], f.count("pp", 1)
    if len(counts) % stages:
        keys.wrong(PATTERN, f"{len(counts)} parts of a pattern cannot be dealt out to {stages} stages")
        return
    if len(counts) > stages and stages > 1 and "vpp" not in f.given:
        f.set("vpp", len(counts) // stages, keys.place(*PATTERN))
    if stages > 1 and len(set(counts)) > 1:
        f.set("pp_layout", "|".join(map(str, counts)), keys.place(*PATTERN))
