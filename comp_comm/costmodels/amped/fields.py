"""What the cost model `amped` takes."""

from __future__ import annotations

from comp_comm.field import Value

FIELDS = (
    "hidden", "seq_len", "layers", "heads", "ffn_hidden", "vocab", "experts", "top_k", "moe_ffn_hidden", "moe_every",
    "gpus", "micro_batch", "global_batch", "tp", "pp", "vpp", "dp", "ep", "recompute", "nvs", "nv_tp1", "nv_dp",
    "nv_pp", "flop_vs_bw", "flops", "network", "scale_up", "scale_out", "latency", "precision", "timing",
    "bubble_ratio", "zero_overhead", "tokens",
)  # fmt: skip
REQUIRED = ("hidden", "layers", "heads", "seq_len", "global_batch")
DEFAULTS: dict[str, Value] = {"micro_batch": 1, "tp": 1}
NEEDS = {"top_k": "experts", "moe_ffn_hidden": "experts", "moe_every": "experts"}
SHOWN = ("hidden", "layers", "seq_len", "gpus", "tp", "pp", "dp", "micro_batch", "global_batch", "nv_tp1", "nv_dp",
         "nv_pp")  # fmt: skip
