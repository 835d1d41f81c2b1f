"""What the cost model `comp_vs_comm` takes."""

from __future__ import annotations

FIELDS = (
    "hidden", "seq_len", "layers", "parameters", "micro_batch", "tp", "dp", "flop_vs_bw", "flops", "network",
    "memory_bandwidth", "memory_capacity", "nvs", "precision", "comm_precision", "count", "timing", "memory_scaling",
    "inter_node_slowdown", "interference", "comm_offload", "in_network_reduction", "in_memory_reduction", "fused_comm",
    "fused_tiles",
)  # fmt: skip
REQUIRED = ("hidden", "seq_len", "micro_batch", "tp")
# These matter only where the tensor-parallel degree is derived from them.
FOR_REQUIRED_TP = ("layers", "parameters", "memory_scaling", "memory_capacity")
