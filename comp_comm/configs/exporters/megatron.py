"""A point as the command that starts Megatron-LM: how many processes, the model, and the layout."""

from __future__ import annotations

import shlex

from comp_comm.configs.exporters.dispatch import dispatch_flags
from comp_comm.configs.exporters.exported import (
    POSITIONS,
    Exported,
    Flags,
    cannot,
    counts_ends,
    loss_fusion,
    refuse_overlap_of_pytorch,
    refuse_what_pytorch_recomputes,
)
from comp_comm.configs.exporters.hybrid import layers_of, megatron_flags
from comp_comm.configs.importers.megatron_stages import COUNTED

KIND = "megatron"
# Numbers of a model that are an argument as they are, and of a layout those that are 1 where they are not said.
MODEL = {
    "layers": "--num-layers", "hidden": "--hidden-size", "heads": "--num-attention-heads", "seq_len": "--seq-length",
    "ffn_hidden": "--ffn-hidden-size", "vocab": "--vocab-size", "vocab_multiple": "--make-vocab-size-divisible-by",
}  # fmt: skip
EXPERTS = {
    "experts": "--num-experts", "top_k": "--moe-router-topk", "moe_ffn_hidden": "--moe-ffn-hidden-size",
    "shared_ffn_hidden": "--moe-shared-expert-intermediate-size", "capacity_factor": "--moe-expert-capacity-factor",
}  # fmt: skip
LATENT = {"head_dim": "--qk-head-dim", "rope_head_dim": "--qk-pos-emb-head-dim", "v_head_dim": "--v-head-dim",
          "kv_lora_rank": "--kv-lora-rank", "q_lora_rank": "--q-lora-rank"}  # fmt: skip
DEGREES = {
    "tp": "--tensor-model-parallel-size", "pp": "--pipeline-model-parallel-size", "cp": "--context-parallel-size",
}  # fmt: skip
# What a search tries that is written as this file.
TRIED = {"placement": ("tp-cp-dp-pp", "tp-cp-pp-dp")}
STRATEGIES = {2: "optim_grads", 3: "optim_grads_params"}
CONTEXT = {"p2p": "p2p", "all_gather": "all_gather", "all_to_all": "a2a"}


def export(point: Exported) -> str:
    """Return a launch command with every argument that the model and the layout need.

    Raises ``ConfigError`` where Megatron-LM has no argument for a choice.
    """
    flags: Flags = {}
    for part in (_model, _attention, _experts, _degrees, _formats, _sharding, _recompute, _overlap):
        flags |= part(point)
    flags |= megatron_flags(KIND, point)
    given = {flag: value for flag, value in flags.items() if value is not None and value is not False}
    words = [" ".join((flag, *_words(value))) for flag, value in given.items()]
    return " \\\n  ".join((_launcher(point), *words)) + "\n"


def _words(value: object) -> tuple[str, ...]:
    if value is True:
        return ()
    return tuple(shlex.quote(str(each)) for each in (value if isinstance(value, list) else [value]))


def _launcher(point: Exported) -> str:
    gpus = point.number("gpus")
    each = point.per_node
    single = bool(layers_of(point)) and all(not (layer.mixer and layer.network) for layer in layers_of(point))
    program = "pretrain_hybrid.py" if single else "pretrain_gpt.py"
    return f"{_environment(point)}torchrun --nproc-per-node {each} --nnodes {gpus // each} {program}"


def _environment(point: Exported) -> str:
    """Return the variable without which arguments.py does not start TP or CP on Hopper and before; its FSDP, and
    exchanges of experts beside compute, want it unset."""
    split = point.number("tp") > 1 or point.number("cp") > 1
    unset = point.number("zero", 0) > 1 or (point.number("experts", 0) and point.on("overlap_ep"))
    return "CUDA_DEVICE_MAX_CONNECTIONS=1 " if split and not unset else ""


def _model(point: Exported) -> Flags:
    values = point.values
    flags: Flags = {flag: values.get(name) for name, flag in MODEL.items()}
    bias = point.word("bias")
    if bias not in ("on", "off", "qkv"):
        raise cannot(KIND, "bias", bias)
    rate = 0.1 if point.on("dropout") else 0
    return flags | {
        "--swiglu": point.on("gated"),
        "--normalization": "RMSNorm" if values.get("norm") == "rmsnorm" else "LayerNorm",
        "--disable-bias-linear": bias != "on", "--add-qkv-bias": bias == "qkv",
        "--untie-embeddings-and-output-weights": not point.on("tied"),
        "--position-embedding-type": POSITIONS[point.word("position")],
        "--max-position-embeddings": values.get("max_positions") or values.get("seq_len"),
        "--attention-dropout": rate, "--hidden-dropout": rate,
        "--mtp-num-layers": values.get("mtp_layers") or None,
    }  # fmt: skip


def _attention(point: Exported) -> Flags:
    values = point.values
    if values.get("kv_lora_rank"):
        return {"--multi-latent-attention": True, "--qk-layernorm": point.on("qk_norm"),
                **{flag: values.get(name) for name, flag in LATENT.items() if values.get(name)}}  # fmt: skip
    groups, window = values.get("kv_heads"), values.get("window")
    return {
        "--group-query-attention": groups not in (None, values.get("heads")),
        "--num-query-groups": groups if groups != values.get("heads") else None,
        "--kv-channels": values.get("head_dim"), "--qk-layernorm": point.on("qk_norm"),
        "--softmax-type": "learnable" if point.on("attention_sinks") else None,
        "--window-size": None if window is None else f"{window},0",
        "--window-attn-skip-freq": values.get("global_every"),
    }  # fmt: skip


def _experts(point: Exported) -> Flags:
    if not point.number("experts", 0):
        return {}
    values, layers, dense = point.values, point.number("layers"), point.number("dense_layers", 0)
    flags: Flags = {flag: values.get(name) for name, flag in EXPERTS.items()}
    shared = point.number("shared_experts", 0)
    if shared and not values.get("shared_ffn_hidden"):
        width = values.get("moe_ffn_hidden") or values.get("ffn_hidden")
        flags["--moe-shared-expert-intermediate-size"] = shared * int(width or 0)
    interval = point.number("moe_every")
    frequency = f"([0]*{dense}+[1]*{layers - dense})" if dense else interval if interval > 1 else None
    return flags | {
        "--moe-latent-size": values.get("moe_latent_hidden"), "--moe-layer-freq": frequency,
        "--moe-shared-expert-gate": point.on("shared_expert_gate"),
        "--moe-router-enable-expert-bias": point.on("router_bias"),
        "--expert-model-parallel-size": point.number("ep"),
        "--expert-tensor-parallel-size": values.get("etp") or point.number("tp"),
        "--overlap-moe-expert-parallel-comm": point.on("overlap_ep"), **dispatch_flags(point),
    }  # fmt: skip


def _degrees(point: Exported) -> Flags:
    schedule, placement = point.word("schedule"), point.word("placement")
    if point.number("pp") > 1 and schedule == "gpipe":
        raise cannot(KIND, "schedule", schedule, "give --schedule 1f1b or zero_bubble")
    if placement not in ("tp-cp-dp-pp", "tp-cp-pp-dp"):
        raise cannot(KIND, "placement", placement, "give --placement tp-cp-dp-pp or tp-cp-pp-dp")
    return {
        **{flag: point.number(name) for name, flag in DEGREES.items()},
        "--micro-batch-size": point.values.get("micro_batch"), "--global-batch-size": point.values.get("global_batch"),
        "--sequence-parallel": point.on("sp"),
        "--num-virtual-stages-per-pipeline-rank": point.chunks if point.chunks > 1 else None,
        "--pipeline-model-parallel-layout": point.values.get("pp_layout"),
        **dict.fromkeys(COUNTED, counts_ends(KIND, point)),
        "--enable-zbh1-pipeline": point.number("pp") > 1 and schedule == "zero_bubble",
        "--use-tp-pp-dp-mapping": placement == "tp-cp-pp-dp",
        "--cp-comm-type": CONTEXT[point.word("cp_comm")] if point.number("cp") > 1 else None,
        "--no-scatter-gather-tensors-in-pipeline": not point.on("scatter_gather"),
    }  # fmt: skip


def _formats(point: Exported) -> Flags:
    precision, moments = point.word("precision"), point.word("optimizer_precision")
    if precision not in ("bf16", "fp16", "fp32", "fp8"):
        raise cannot(KIND, "precision", precision, "give --precision bf16, fp16, fp32 or fp8")
    if point.word("recipe").startswith("rowwise"):
        raise cannot(KIND, "recipe", point.word("recipe"), "give --recipe tensorwise, delayed, blockwise or mxfp8")
    gradients = point.word("grad_precision") or ("fp32" if precision == "fp32" else "bf16")
    fused, implementation = loss_fusion(KIND, point)
    moments = moments if moments != "fp32" else ""
    return {
        "--bf16": precision in ("bf16", "fp8"), "--fp16": precision == "fp16",
        "--fp8-format": "hybrid" if precision == "fp8" else None, "--fp8-recipe": point.word("recipe") or None,
        "--fp8-param-gather": point.on("fp8_param_gather"),
        "--accumulate-allreduce-grads-in-fp32": gradients == "fp32", "--grad-reduce-in-bf16": gradients == "bf16",
        "--exp-avg-dtype": moments or None, "--exp-avg-sq-dtype": moments or None,
        "--cross-entropy-loss-fusion": fused, "--cross-entropy-fusion-impl": implementation,
        "--attention-backend": "unfused" if point.word("attention_kernel") == "unfused" else None,
    }  # fmt: skip


def _sharding(point: Exported) -> Flags:
    zero, shard = point.number("zero", 0), point.values.get("dp_shard")
    instances = point.replicas // int(shard) if shard else 1
    return {
        "--no-gradient-accumulation-fusion": point.word("gradient_accumulation_fusion") == "off",
        "--use-distributed-optimizer": zero == 1, "--use-megatron-fsdp": zero > 1,
        "--data-parallel-sharding-strategy": STRATEGIES.get(zero),
        "--ckpt-format": "fsdp_dtensor" if zero > 1 else None,  # the only one that arguments.py lets its FSDP have
        "--ddp-bucket-size": _whole(point, "bucket"),
        "--num-distributed-optimizer-instances": instances if instances > 1 else None,
        "--optimizer-cpu-offload": point.on("offload_optimizer"), **_muon(point),
    }  # fmt: skip


def _muon(point: Exported) -> Flags:
    if point.word("optimizer") != "muon":
        return {}
    if point.number("zero", 0) > 1:  # arguments.py: "Emerging optimizer does not support Megatron-FSDP for now"
        raise cannot(KIND, "zero", int(point.number("zero")), "give --zero 1: its FSDP does not take Muon")
    if point.word("muon_sharding") == "gathered":
        raise cannot(KIND, "muon_sharding", "gathered", "give --muon-sharding whole")
    return {"--optimizer": "muon", "--muon-num-ns-steps": point.number("muon_steps", 5),
            "--muon-tp-mode": point.word("muon_tp")}  # fmt: skip


def _whole(point: Exported, name: str) -> int | None:
    return None if point.values.get(name) is None else point.number(name)


def _recompute(point: Exported) -> Flags:
    kind, layers = point.word("recompute"), point.values.get("recompute_layers")
    offloaded: Flags = {"--cpu-offloading-num-layers": _whole(point, "offload_activations")}
    refuse_what_pytorch_recomputes(KIND, point)
    if kind == "none":
        return offloaded
    if kind != "full":
        modules = {} if kind == "selective" else {"--recompute-modules": kind.split("+")}
        return {"--recompute-granularity": "selective", **modules, **offloaded}
    return {"--recompute-granularity": kind, "--recompute-method": "block" if layers else "uniform",
            "--recompute-num-layers": layers or 1}  # fmt: skip


def _overlap(point: Exported) -> Flags:
    interleaved, sends = point.chunks > 1, point.overlaps_sends
    if point.number("pp") > 1 and sends and not interleaved:
        raise cannot(KIND, "overlap_pp", "on", "give --overlap-pp off, or --vpp above 1")
    refuse_overlap_of_pytorch(KIND, point)
    overlaps = point.on("overlap_dp")
    return {
        "--overlap-grad-reduce": overlaps, "--overlap-param-gather": overlaps and point.number("zero", 0) > 0,
        "--tp-comm-overlap": point.on("overlap_tp"), "--no-overlap-p2p-communication": interleaved and not sends,
    }  # fmt: skip
