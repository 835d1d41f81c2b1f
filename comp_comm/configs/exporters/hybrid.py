"""Layers of several kinds in a launch command of Megatron-LM and in a NeMo YAML."""

from __future__ import annotations

from comp_comm.configs.exporters.exported import Exported, Flags, cannot
from comp_comm.configs.importers.megatron_hybrid import DELTA_NET, FREQUENCY, MAMBA, MAMBA_CHUNK, PATTERN, VARIANT
from comp_comm.layer_pattern import PatternLayer, parse_layer_pattern
from comp_comm.stage_layout import parse_stage_layout

BLOCKS = frozenset("MG*-E")  # that Megatron-LM writes
NEMO_MAMBA = {"ssm_head_dim": 64, "ssm_state": 128}  # of MambaModel in NeMo 1.x, which has no key for them


def layers_of(point: Exported) -> tuple[PatternLayer, ...]:
    """Return the layers of a model that lists them, none of another one."""
    return parse_layer_pattern(point.word("layer_pattern")) if point.values.get("layer_pattern") else ()


def megatron_flags(kind: str, point: Exported) -> Flags:
    """Return the pattern of layers with the sizes of their mixers; none where layers are all attention and a network.

    Raises ``ConfigError`` where Megatron-LM has no letter for a layer.
    """
    layers = layers_of(point)
    if not layers:
        return {}
    blocks = {letter for layer in layers for letter in (layer.mixer, layer.network) if letter}
    single = all(not (layer.mixer and layer.network) for layer in layers)
    if blocks - BLOCKS or not (single or blocks <= set("G*-E")):
        raise cannot(kind, "layer_pattern", point.word("layer_pattern"), "give --emit study")
    sizes = _mamba(point) if "M" in blocks else {}
    sizes |= {flag: point.values.get(name) for name, (flag, _) in DELTA_NET.items()} if "G" in blocks else {}
    sizes["--attention-output-gate"] = point.on("attention_gate")
    if single:
        written = "".join(layer.mixer or layer.network for layer in layers)
        return {"--num-layers": None, "--mtp-num-layers": None, "--num-virtual-stages-per-pipeline-rank": None,
                "--pipeline-model-parallel-layout": None, PATTERN[0]: _cut(point, written), **sizes}  # fmt: skip
    experts = ",".join("1" if layer.network == "E" else "0" for layer in layers)
    linear = ",".join("1" if layer.mixer == "G" else "0" for layer in layers)
    return {VARIANT: "gated_delta_net", FREQUENCY: f"[{linear}]",
            "--moe-layer-freq": f"[{experts}]" if "E" in blocks else None, **sizes}  # fmt: skip


def _mamba(point: Exported) -> Flags:
    if point.number("ssm_chunk", MAMBA_CHUNK) != MAMBA_CHUNK:
        raise cannot("megatron", "ssm_chunk", point.word("ssm_chunk"), f"give --set ssm_chunk={MAMBA_CHUNK}")
    flags: Flags = {flag: point.values.get(name) for name, (flag, _) in MAMBA.items()}
    groups = point.number("ssm_groups", 1)  # 1 where none are given, as ours; Megatron-LM takes 8
    return {**flags, MAMBA["ssm_groups"][0]: groups, "--mamba-num-heads": point.values.get("ssm_heads")}


def _cut(point: Exported, written: str) -> str:
    """Return a pattern cut by ``|`` into the chunks of a pipeline that are not one a stage, with its MTP modules."""
    counts, chunks = [], point.number("pp") * point.chunks
    if point.values.get("pp_layout"):
        counts = [count or 0 for count in parse_stage_layout(point.word("pp_layout")).chunks]
    elif point.chunks > 1:
        counts = [len(written) // chunks] * chunks
    parts, at = [], 0
    for count in counts:
        parts.append(written[at : at + count])
        at += count
    network = "E" if "E" in written else "-"
    return "|".join(parts or [written]) + f"/*{network}" * point.number("mtp_layers", 0)


def nemo_keys(kind: str, point: Exported) -> Flags:
    """Return the pattern of a NeMo model with Mamba-2. Raises ``ConfigError`` for layers that it cannot have."""
    layers = layers_of(point)
    if not layers:
        return {}
    written = "".join(layer.mixer or layer.network for layer in layers)
    if (
        set(written) - set("M*-E")
        or len(written) != sum(bool(x.mixer) + bool(x.network) for x in layers)
        or any(layer.mixer and layer.network for layer in layers)
    ):
        raise cannot(kind, "layer_pattern", point.word("layer_pattern"), "give --emit megatron or --emit study")
    for name, size in NEMO_MAMBA.items():
        if point.number(name, size) != size:
            raise cannot(kind, name, point.word(name), f"give --emit megatron; NeMo's models have {size}")
    return {"hybrid_override_pattern": written, "mamba_ssm_ngroups": point.number("ssm_groups", 1)}
