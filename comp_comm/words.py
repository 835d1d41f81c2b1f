"""The words of every choice, in the order of their codes: formulas see the codes, users the words."""

from __future__ import annotations

from itertools import permutations

PRECISION_BYTES = {"fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "fp8": 1}
PRECISIONS = tuple(PRECISION_BYTES)
COUNTS = ("complete", "paper_exact")
SWITCH = ("off", "on")
ARCHITECTURES = ("decoder", "encoder", "encoder-decoder", "vit")
NORMS = ("layernorm", "rmsnorm", "layernorm_no_bias")
BIASES = ("off", "qkv", "on", "attention", "ffn", "not_qkv")
QK_NORMS = ("off", "on", "whole")
POSITIONS = ("rope", "learned", "none")
PHASES = ("training", "inference")
ATTENTION_COUNTS = ("full", "causal")
ATTENTION_KERNELS = ("flash_causal", "flash", "unfused")
KERNELS = ("fused", "eager", "compiled")
CONTEXT_COMMS = ("p2p", "all_gather", "all_to_all")
SCHEDULES = ("1f1b", "gpipe", "interleaved", "zero_bubble")
RECOMPUTES = ("none", "selective", "full")
COLLECTIVE_ALGORITHMS = ("best", "ring", "tree", "hierarchical", "in_network")
GROUPS = ("tp", "cp", "dp", "pp")
# Which group takes neighbours, which the next: the first is what Megatron does.
PLACEMENTS = tuple("-".join(order) for order in permutations(GROUPS))
# How the foundation-models paper splits a layer (1D TP, SUMMA's grid, TP by context parallelism), and which formulas.
STRATEGIES = ("1d", "2d", "2d-seqp")
FORMULAS = ("as_published", "corrected")
INSIDE = {"nv_tp1": "tp1 (in amped: tp)", "nv_tp2": "tp2", "nv_dp": "dp", "nv_pp": "pp"}
