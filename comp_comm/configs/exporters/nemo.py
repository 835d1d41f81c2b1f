"""A point as a NeMo YAML (of NeMo-Megatron's launcher): the devices, the model and the layout."""

from __future__ import annotations

import json

from comp_comm.configs.exporters.dispatch import dispatch_keys
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
from comp_comm.configs.exporters.hybrid import nemo_keys

KIND = "nemo"
NUMBERS = {
    "seq_len": "encoder_seq_length", "layers": "num_layers", "hidden": "hidden_size", "heads": "num_attention_heads",
    "kv_heads": "num_query_groups", "head_dim": "kv_channels", "ffn_hidden": "ffn_hidden_size", "vocab": "vocab_size",
    "vocab_multiple": "make_vocab_size_divisible_by", "micro_batch": "micro_batch_size",
    "global_batch": "global_batch_size", "tp": "tensor_model_parallel_size", "pp": "pipeline_model_parallel_size",
    "cp": "context_parallel_size",
}  # fmt: skip
EXPERTS = {
    "experts": "num_moe_experts", "top_k": "moe_router_topk", "moe_ffn_hidden": "moe_ffn_hidden_size",
    "capacity_factor": "moe_expert_capacity_factor", "shared_ffn_hidden": "moe_shared_expert_intermediate_size",
    "ep": "expert_model_parallel_size",
}  # fmt: skip
# What a search tries that is written as this file.
TRIED = {"placement": ("tp-cp-dp-pp", "tp-cp-pp-dp"), "zero": (0, 1, 3), "cp_comm": ("p2p",),
         "overlap_ep": ("off",), "ep_dispatch": ("all_to_all",)}  # fmt: skip
TRAINER = {"bf16": "bf16", "fp8": "bf16", "fp16": 16, "fp32": 32}


def export(point: Exported) -> str:
    """Return a YAML. Raises ``ConfigError`` where NeMo has no key for a choice."""
    gpus = point.number("gpus")
    each = point.per_node
    precision = point.word("precision")
    if precision not in TRAINER:
        raise cannot(KIND, "precision", precision, "give --precision bf16, fp16, fp32 or fp8")
    model = {**_model(point), **nemo_keys(KIND, point), **_layout(point), **_recompute(point)}
    trainer: Flags = {"num_nodes": gpus // each, "devices": each, "precision": TRAINER[precision],
                      "accumulate_grad_batches": 1}  # fmt: skip
    lines = ["run:", f"  name: {json.dumps(point.title)}", "trainer:", *_lines(trainer), "model:", *_lines(model)]
    return "\n".join([*lines, "  optim:", *(f"  {line}" for line in _lines(_optimizer(point)))]) + "\n"


def _lines(keys: Flags) -> list[str]:
    return [f"  {key}: {json.dumps(value)}" for key, value in keys.items() if value is not None]


def _model(point: Exported) -> Flags:
    values = point.values
    keys: Flags = {key: values.get(name) for name, key in NUMBERS.items()}
    bias, rate = point.word("bias"), 0.1 if point.on("dropout") else 0.0
    if bias not in ("on", "off", "qkv"):
        raise cannot(KIND, "bias", bias)
    if point.number("experts", 0):
        keys |= {key: values.get(name) for name, key in EXPERTS.items()}
        keys["expert_tensor_parallel_size"] = values.get("etp") or point.number("tp")
        keys |= dispatch_keys(point)
    return keys | {
        "activation": "fast-swiglu" if point.on("gated") else "gelu",
        "normalization": "rmsnorm" if values.get("norm") == "rmsnorm" else "layernorm",
        "bias": bias == "on", "qkv_bias": bias == "qkv", "qk_layernorm": point.on("qk_norm"),
        "share_embeddings_and_output_weights": point.on("tied"),
        "position_embedding_type": POSITIONS[point.word("position")],
        "max_position_embeddings": values.get("max_positions") or values.get("seq_len"),
        "window_size": None if values.get("window") is None else [values["window"], 0],
        "hidden_dropout": rate, "attention_dropout": rate, "ffn_dropout": 0.0,
    }  # fmt: skip


def _layout(point: Exported) -> Flags:
    placement, zero = point.word("placement"), point.number("zero", 0)
    if placement not in ("tp-cp-dp-pp", "tp-cp-pp-dp"):
        raise cannot(KIND, "placement", placement, "give --placement tp-cp-dp-pp or tp-cp-pp-dp")
    refuse_overlap_of_pytorch(KIND, point)
    if zero == 2:
        raise cannot(KIND, "zero", zero, "give --zero 0, 1 or 3")
    if point.number("pp") > 1 and point.word("schedule") not in ("1f1b", "interleaved"):
        raise cannot(KIND, "schedule", point.word("schedule"), "give --schedule 1f1b")
    gradients = point.word("grad_precision") or ("fp32" if point.word("precision") == "fp32" else "bf16")
    keys: Flags = {"fsdp": True, "fsdp_sharding_strategy": "full", "fsdp_grad_reduce_dtype": gradients}
    fused, implementation = loss_fusion(KIND, point)
    if counts_ends(KIND, point):
        layers = point.number("layers")
        raise cannot(KIND, "vpp", point.chunks, f"give --pp and --vpp so that pp x vpp divides {layers} layers")
    return {
        "virtual_pipeline_model_parallel_size": point.chunks if point.chunks > 1 else None,
        "sequence_parallel": point.on("sp"), "use_tp_pp_dp_mapping": placement == "tp-cp-pp-dp",
        "ub_tp_comm_overlap": point.on("overlap_tp"), "overlap_p2p_comm": point.overlaps_sends,
        "transformer_engine": point.word("precision") == "fp8", "fp8": point.word("precision") == "fp8",
        "fp8_params": True if point.on("fp8_param_gather") else None,
        "cross_entropy_loss_fusion": fused, "cross_entropy_loss_fusion_impl": implementation,
        "gradient_accumulation_fusion": point.word("gradient_accumulation_fusion") != "off",
        "use_flash_attention": point.word("attention_kernel") != "unfused", **(keys if zero == 3 else {}),
    }  # fmt: skip


def _recompute(point: Exported) -> Flags:
    kind, layers = point.word("recompute"), point.values.get("recompute_layers")
    full, offloaded = kind == "full", point.values.get("offload_activations")
    refuse_what_pytorch_recomputes(KIND, point)
    named = kind not in ("none", "selective", "full")
    return {
        "cpu_offloading": True if offloaded else None, "cpu_offloading_num_layers": offloaded,
        "recompute_modules": kind.split("+") if named else None,
        "activations_checkpoint_granularity": None if kind == "none" else "selective" if named else kind,
        "activations_checkpoint_method": ("block" if layers else "uniform") if full else None,
        "activations_checkpoint_num_layers": (layers or 1) if full else None,
    }  # fmt: skip


def _optimizer(point: Exported) -> Flags:
    gradients = point.word("grad_precision") or ("fp32" if point.word("precision") == "fp32" else "bf16")
    return {
        "name": "distributed_fused_adam" if point.number("zero", 0) == 1 else "fused_adam",
        "grad_sync_dtype": gradients, "dtype": point.word("optimizer_precision"),
        "overlap_grad_sync": point.on("overlap_dp"), "overlap_param_sync": point.on("overlap_dp"),
    }  # fmt: skip
