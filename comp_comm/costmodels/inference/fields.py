"""What the cost model `inference` takes."""

from __future__ import annotations

from comp_comm.costmodels.field_groups import DEFAULTS, DEGREES, HARDWARE, KERNELS, MODEL, NEEDS, REQUIRED

FIELDS = (*MODEL, *DEGREES, *HARDWARE, *KERNELS, "output_len", "kv_precision")
# A field that means nothing unless another one has this word.
NEEDS_WORD = {"max_positions": ("position", "learned")}
SHOWN = ("hidden", "layers", "seq_len", "gpus", "tp", "pp", "dp", "micro_batch", "flop_vs_bw", "output_len")

__all__ = ["DEFAULTS", "FIELDS", "NEEDS", "NEEDS_WORD", "REQUIRED", "SHOWN"]
