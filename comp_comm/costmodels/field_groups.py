"""Fields that several cost models of a whole transformer take, and what they mean nothing without."""

from __future__ import annotations

from comp_comm.field import Value
from comp_comm.layer_fields import LAYER_FIELDS

MODEL = (
    "hidden", "seq_len", "layers", "architecture", "heads", "kv_heads", "head_dim", "ffn_hidden", "gated", "norm",
    "norms", "parallel_blocks", "bias", "qk_norm", "attention_sinks", "position", "max_positions", "vocab",
    "vocab_multiple", "tied", "extra_parameters", "window", "global_every", "experts", "top_k", "router_bias",
    "moe_ffn_hidden", "shared_experts", "shared_ffn_hidden", "shared_expert_gate", "dense_layers", "moe_every",
    "capacity_factor", "q_lora_rank", "kv_lora_rank", "rope_head_dim", "v_head_dim",
    *(field.name for field in LAYER_FIELDS),
)  # fmt: skip
DEGREES = ("gpus", "micro_batch", "tp", "pp", "pp_layout", "ep", "etp", "dp", "placement")
HARDWARE = ("flop_vs_bw", "flops", "network", "scale_up", "scale_out", "memory_bandwidth", "memory_capacity", "latency",
            "nvs")  # fmt: skip
KERNELS = ("kv_replication", "collective_algorithm", "attention_kernel", "kernels", "precision", "comm_precision",
           "count_attention", "sustained", "framework_gib", "phase", "recipe", "fp8_attention", "fp8_head")  # fmt: skip
REQUIRED = ("hidden", "layers", "heads", "vocab", "seq_len")
DEFAULTS: dict[str, Value] = {"precision": "bf16", "micro_batch": 1, "tp": 1}
# A field that means nothing without another one.
NEEDS = {
    "top_k": "experts", "moe_ffn_hidden": "experts", "shared_experts": "experts", "shared_ffn_hidden": "experts",
    "dense_layers": "experts", "moe_every": "experts", "capacity_factor": "experts", "router_bias": "experts",
    "clamped_glu": "experts", "router_groups": "router_group_topk", "router_group_topk": "router_groups",
    "global_every": "window", "rope_head_dim": "kv_lora_rank", "q_lora_rank": "kv_lora_rank", "etp": "experts",
    "index_heads": "kv_lora_rank", "index_dim": "index_heads", "index_topk": "index_heads",
    "moe_latent_hidden": "experts", "shared_expert_gate": "experts",
    "moe_latent_norm": "moe_latent_hidden",
    **{field.name: "layer_pattern" for field in LAYER_FIELDS if field.name.startswith(("ssm_", "shared_", "kda_"))},
}  # fmt: skip
# Choices that have no effect where another field has this value; a study that sweeps that one may still give them.
NO_EFFECT: dict[str, tuple[str, int]] = {
    **dict.fromkeys(("sequence_inputs", "overlap_tp", "muon_tp"), ("tp", 1)),
    **dict.fromkeys(("cp_comm", "cp_implementation"), ("cp", 1)),
    **dict.fromkeys(("overlap_pp", "scatter_gather"), ("pp", 1)),
    "muon_sharding": ("zero", 0),
}  # fmt: skip
