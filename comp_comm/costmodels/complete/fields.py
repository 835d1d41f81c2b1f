"""What the cost model `complete` takes."""

from __future__ import annotations

from comp_comm.costmodels import field_groups
from comp_comm.costmodels.field_groups import DEFAULTS, DEGREES, HARDWARE, KERNELS, MODEL, REQUIRED
from comp_comm.fields import FIELDS as ALL_FIELDS

# Whatever a model may be made of: a field that is new goes to the end.
_TRANSFORMER = tuple(
    name for name, field in ALL_FIELDS.items() if field.group == "transformer" and name != "parameters"
)
# How tokens go to experts.
DISPATCH = ("ep_dispatch", "ep_node_limit", "ep_sms", "routing", "imbalance", "permute_fusion", "dispatch_precision",
            "combine_precision")  # fmt: skip
FIELDS = tuple(dict.fromkeys((
    *MODEL, "encoder_layers", "encoder_seq_len", "patch_features", "classes", "mtp_layers", "dropout", *DEGREES,
    "global_batch", "accumulation", "sp", "cp", "cp_comm", "vpp", "schedule", "dp_shard", "zero", "bucket",
    "recompute", "recompute_layers", "offload_optimizer", "scatter_gather", "overlap_dp", "overlap_tp", "overlap_pp",
    "overlap_ep", *HARDWARE, *KERNELS, "grad_precision", "accumulate_precision", "optimizer_precision", "interference",
    "tokens", "cross_entropy", "loss_chunks", "master_weights", "cuda_graph", "launch_blocking", "fp8_param_gather",
    "fp8_activations", "expert_kernels", *DISPATCH, "recompute_early_stop", "offload_activations",
    "reshard_after_forward", "reshard_shards", "gradient_sync", "fsdp_units", "zero_implementation", "sequence_inputs",
    "optimizer", "muon_steps", "muon_sharding", "muon_tp", "cp_implementation", "load_balancing",
    "frozen_precision", "gradient_accumulation_fusion", "norm_kernel", "qkv_kept", "routed_weights", *_TRANSFORMER,
    "softmax_precision", "router_precision", "stack",
)))  # fmt: skip
# A field that means nothing without another one.
NEEDS = {**field_groups.NEEDS, **dict.fromkeys(("lora_targets", "frozen_precision"), "lora_rank"),
         **dict.fromkeys(DISPATCH, "ep"),
         "permute_fusion": "experts", "expert_kernels": "experts", "load_balancing": "experts",
         **dict.fromkeys(("routed_weights", "router_precision"), "experts")}  # fmt: skip
# A field that means nothing unless another one has this word.
NEEDS_WORD = {
    "max_positions": ("position", "learned"), "encoder_seq_len": ("architecture", "encoder-decoder"),
    "encoder_layers": ("architecture", "encoder-decoder"), "classes": ("architecture", "vit"),
    "patch_features": ("architecture", "vit"), "loss_chunks": ("cross_entropy", "chunked"),
    "qkv_kept": ("position", "rope"), "softmax_precision": ("attention_kernel", "unfused"),
    **dict.fromkeys(("muon_steps", "muon_sharding", "muon_tp"), ("optimizer", "muon")),
}  # fmt: skip
# Inputs a row always shows; those that follow from others are taken from the answer.
SHOWN = ("hidden", "layers", "seq_len", "gpus", "tp", "cp", "pp", "dp", "micro_batch", "global_batch", "flop_vs_bw")

# Fields that a layer, the embedding and the head of one micro-batch do not depend on.
IGNORED_BY_LAYERS = (
    "gpus", "dp", "global_batch", "accumulation", "pp", "vpp", "schedule", "pp_layout", "dp_shard", "zero", "bucket",
    "recompute", "recompute_layers", "offload_optimizer", "scatter_gather", "overlap_dp", "overlap_pp",
    "memory_capacity", "framework_gib", "tokens", "loss_chunks", "fp8_param_gather",
    "recompute_early_stop", "offload_activations", "reshard_after_forward", "reshard_shards", "gradient_sync",
    "fsdp_units", "zero_implementation", "optimizer", "muon_steps", "muon_sharding", "muon_tp",
    "gradient_accumulation_fusion",
)  # fmt: skip
# Fields that the kernels of layers, embedding and head do not depend on: where groups are, and what waits for them.
IGNORED_BY_OPERATIONS = (
    *IGNORED_BY_LAYERS, "placement", "collective_algorithm", "interference", "overlap_tp", "overlap_ep",
    "launch_blocking",
)  # fmt: skip
# Fields that the states of a stage's weights do not depend on, one micro-batch's worth of them.
IGNORED_BY_STATES = (
    "micro_batch", "global_batch", "accumulation", "sp", "recompute", "recompute_layers", "scatter_gather",
    "overlap_pp", "memory_capacity", "framework_gib", "tokens", "cross_entropy", "loss_chunks", "cuda_graph",
    "launch_blocking", "expert_kernels", "fp8_attention", "fp8_head", "fp8_activations", "attention_kernel", *DISPATCH,
    "recompute_early_stop", "offload_activations", "sequence_inputs", "cp_implementation", "load_balancing",
    "norm_kernel", "qkv_kept", "softmax_precision", "routed_weights", "router_precision",
)  # fmt: skip
# Fields that the memory of a stage does not depend on.
IGNORED_BY_FOOTPRINT = (
    "placement", "overlap_dp", "overlap_tp", "overlap_pp", "overlap_ep", "collective_algorithm", "tokens",
    "scatter_gather", "interference", "muon_steps", "muon_tp", "load_balancing", "gradient_accumulation_fusion",
)  # fmt: skip

__all__ = ["DEFAULTS", "FIELDS", "IGNORED_BY_FOOTPRINT", "IGNORED_BY_LAYERS", "IGNORED_BY_OPERATIONS",
           "IGNORED_BY_STATES", "NEEDS", "NEEDS_WORD", "REQUIRED", "SHOWN"]  # fmt: skip
