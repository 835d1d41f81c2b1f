"""What the cost model `foundation_models` takes."""

from __future__ import annotations

from comp_comm.field import Value

FIELDS = (
    "hidden", "seq_len", "layers", "heads", "gpus", "micro_batch", "global_batch", "pp", "dp", "strategy", "tp1", "tp2",
    "summa_panels", "nvs", "nv_tp1", "nv_tp2", "nv_dp", "nv_pp", "flop_vs_bw", "flops", "network", "scale_up",
    "scale_out", "memory_bandwidth", "memory_capacity", "latency", "formulas", "tokens",
)  # fmt: skip
REQUIRED = ("hidden", "layers", "heads", "seq_len", "global_batch")
DEFAULTS: dict[str, Value] = {"micro_batch": 1}
SHOWN = ("hidden", "layers", "seq_len", "gpus", "strategy", "tp1", "tp2", "pp", "dp", "micro_batch", "global_batch",
         "nv_tp1", "nv_tp2", "nv_dp", "nv_pp")  # fmt: skip

# Fields that the seconds of a layer, and what it holds, do not depend on, where devices of TP that share a domain are
# given.
IGNORED_BY_TIMES = ("gpus", "global_batch", "pp", "dp", "nv_dp", "nv_pp", "memory_capacity", "tokens")
IGNORED_BY_HELD = (*IGNORED_BY_TIMES, "nvs", "nv_tp1", "nv_tp2", "summa_panels")
