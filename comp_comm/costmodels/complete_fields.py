"""What the cost model `complete` takes."""

from __future__ import annotations

from comp_comm.field import Value

FIELDS = (
    "hidden", "seq_len", "layers", "architecture", "heads", "kv_heads", "head_dim", "ffn_hidden", "gated", "norm",
    "norms", "parallel_blocks", "bias", "qk_norm", "attention_sinks", "position", "max_positions", "vocab",
    "vocab_multiple", "tied", "encoder_layers", "encoder_seq_len", "patch_features", "classes", "extra_parameters",
    "window", "global_every", "experts", "top_k", "router_bias", "moe_ffn_hidden", "shared_experts",
    "shared_ffn_hidden", "dense_layers", "moe_every", "capacity_factor", "q_lora_rank", "kv_lora_rank",
    "rope_head_dim", "v_head_dim", "mtp_layers", "dropout", "gpus", "micro_batch", "global_batch", "accumulation",
    "tp", "sp", "cp", "cp_comm", "pp", "vpp", "schedule", "uneven_stages", "ep", "etp", "dp", "dp_shard", "zero",
    "bucket", "recompute", "recompute_layers", "kv_replication", "offload_optimizer", "scatter_gather", "placement",
    "overlap_dp", "overlap_tp", "overlap_pp", "overlap_ep", "collective_algorithm", "attention_kernel", "kernels",
    "flop_vs_bw", "flops", "network", "memory_bandwidth", "memory_capacity", "latency", "nvs", "precision",
    "comm_precision", "grad_precision", "accumulate_precision", "optimizer_precision", "count_attention",
    "interference", "sustained", "framework_gib", "phase", "tokens",
)  # fmt: skip
REQUIRED = ("hidden", "layers", "heads", "vocab", "seq_len")
DEFAULTS: dict[str, Value] = {"precision": "bf16", "micro_batch": 1, "tp": 1}
# A field that means nothing without another one.
NEEDS = {
    "top_k": "experts", "moe_ffn_hidden": "experts", "shared_experts": "experts", "shared_ffn_hidden": "experts",
    "dense_layers": "experts", "moe_every": "experts", "capacity_factor": "experts", "router_bias": "experts",
    "global_every": "window", "rope_head_dim": "kv_lora_rank", "q_lora_rank": "kv_lora_rank",
    "etp": "experts",
}  # fmt: skip
# A field that means nothing unless another one has this word.
NEEDS_WORD = {
    "max_positions": ("position", "learned"), "encoder_seq_len": ("architecture", "encoder-decoder"),
    "encoder_layers": ("architecture", "encoder-decoder"), "classes": ("architecture", "vit"),
    "patch_features": ("architecture", "vit"),
}  # fmt: skip
# Inputs a row always shows; those that follow from others are taken from the answer.
SHOWN = ("hidden", "layers", "seq_len", "gpus", "tp", "cp", "pp", "dp", "micro_batch", "global_batch", "flop_vs_bw")
