"""Nothing is taken and ignored: each field of each cost model changes some output of some study, or is refused there.

For every field, studies that differ in nothing else are evaluated with several of its values.
"""

from __future__ import annotations

import itertools

import pytest
from face import rows_of

from comp_comm.costmodels import COST_MODELS
from comp_comm.errors import CompcommError, InfeasibleError
from comp_comm.fields import FIELDS

DENSE = {
    "layers": 8, "hidden": 1024, "heads": 16, "kv_heads": 8, "ffn_hidden": 4096, "vocab": 32000, "seq_len": 2048,
    "gpus": 64, "tp": 2, "pp": 2, "global_batch": 64,
}  # fmt: skip
SERVED = {name: DENSE[name] for name in DENSE if name not in ("global_batch", "pp", "gpus")} | {"output_len": 64}
MESH = {
    "layers": 8, "hidden": 4096, "heads": 32, "seq_len": 2048, "gpus": 64, "global_batch": 64, "tp1": 4, "pp": 2,
    "micro_batch": 1,
}  # fmt: skip
LAYER = {"hidden": 4096, "seq_len": 2048, "micro_batch": 1, "tp": 8}
NODES = {
    "layers": 8, "hidden": 1024, "heads": 16, "vocab": 32000, "seq_len": 2048, "gpus": 64, "tp": 8, "pp": 2,
    "global_batch": 64,
}  # fmt: skip
EXPERTS = {"experts": 8, "top_k": 2, "moe_ffn_hidden": 1024, "ep": 2}
LATENT = {"kv_heads": None, "kv_lora_rank": 128, "q_lora_rank": 256, "head_dim": 64, "rope_head_dim": 32}
MIXED = {"layer_pattern": "(M-x3 *-)x2", "ssm_heads": 32, "ssm_head_dim": 64, "ssm_groups": 4, "ssm_state": 64}
SPARSE = {**LATENT, "index_heads": 8, "index_dim": 64, "index_topk": 1024}
SHARED = {"tp": 16, "kv_heads": 8, "kv_replication": "on"}
# What of a study differs from the first of its cost model, so that more of the fields mean something; None: left out.
COMPLETE = [
    {}, EXPERTS, {"sp": "off"}, {"cp": 2}, {"zero": 3, "dp_shard": 8}, {"zero": 2}, {"window": 256},
    {"recompute": "full"}, {"overlap_tp": "on"}, {"vpp": 2}, {**EXPERTS, "shared_experts": 1},
    {**EXPERTS, "etp": 1, "capacity_factor": 1.5}, {"attention_kernel": "unfused"}, LATENT,
    {"architecture": "encoder-decoder", "encoder_layers": 4}, {"mtp_layers": 1},
    {"architecture": "vit", "vocab": 0, "classes": 1000, "patch_features": 768},
    {"position": "learned", "max_positions": 2048}, {"precision": "fp8"}, {"tokens": 1e12}, SHARED,
    {"collective_algorithm": "ring", "tp": 4, "kv_heads": 2, "kv_replication": "on"}, {"offload_optimizer": "on"},
    {"pp": 4, "recompute": "full"}, {"gpus": None, "global_batch": None},
    {"tp": 1, "pp": 1, "zero": 1, "overlap_dp": "off"}, {"cross_entropy": "chunked"},
    {**EXPERTS, "ep": 32, "experts": 32, "etp": 1, "tp": 1, "ep_dispatch": "deepep", "overlap_ep": "on"},
    {**EXPERTS, "ep": 64, "experts": 64, "etp": 1, "tp": 1, "pp": 1, "ep_dispatch": "deepep", "router_groups": 8,
     "router_group_topk": 2},
    MIXED,
    {"optimizer": "muon", "zero": 1}, {"optimizer": "muon", "zero": 1, "tp": 1, "gpus": 16}, {"lora_rank": 8},
    {**MIXED, "pp": 1, "layer_pattern": "(M Z)x4", "shared_rank": 8}, {**MIXED, "layer_pattern": "K-x8"},
    {**MIXED, "layer_pattern": "S-x7 *-", "ssm_heads": 2048, "ssm_head_dim": None, "ssm_groups": None}, SPARSE,
    {"norm": "rmsnorm"}, {"lora_rank": 8, "tp": 1}, {**EXPERTS, "moe_latent_hidden": 512},
    {"optimizer": "muon", "zero": 2, "zero_implementation": "deepspeed", "pp": 1},
]  # fmt: skip
SERVING = [
    {"tp": 1, "dp": 2, **EXPERTS}, {"pp": 2}, SHARED, {"dp": 2}, {"tp": 8, "pp": 2}, LATENT,
    {"tp": 1, "dp": 4, **EXPERTS, "etp": 1}, {"tp": 1, "dp": 2, **EXPERTS, "moe_latent_hidden": 512},
]  # fmt: skip
TWO_D = [{"strategy": "2d", "tp2": 2}, {"strategy": "2d-seqp", "tp2": 2}, {"formulas": "corrected"}]
ONE_LAYER = [
    {}, {"dp": 4}, {"tp": "required", "parameters": 1e10}, {"tp": "required", "layers": 24}, {"fused_comm": "on"},
    {"timing": "B"}, {"timing": "C"}, {"interference": 1.5},
]  # fmt: skip
ON_NODES = [{}, {"experts": 8, "top_k": 2, "ep": 4}, {"recompute": "full"}, {"tokens": 1e12}, {"gpus": None}]
STUDIES = {
    "complete": (DENSE, COMPLETE, ("h100-sxm", "b200-sxm")),
    "inference": (SERVED, [*SERVING, *COMPLETE], ("h100-sxm",)),
    "foundation_models": (MESH, [{}, *TWO_D, {"tokens": 1e12}, {"gpus": None}],
                          ("papers/hardware/foundation-models-a100", "h100-sxm")),
    "comp_vs_comm": (LAYER, ONE_LAYER, ("mi210", "h100-sxm")),
    "amped": (NODES, ON_NODES, ("papers/hardware/amped-a100", "a100-sxm-80gb")),
}  # fmt: skip
NUMBERS = (
    0,
    0.001,
    0.25,
    0.5,
    0.9,
    1,
    2,
    3,
    4,
    8,
    16,
    17,
    64,
    100,
    128,
    256,
    1000,
    1024,
    4096,
    10**6,
    10**8,
    10**10,
    10**11,
)


def values_of(field):
    """Return values that a field may have, of all kinds and sizes."""
    if field.name in ("timing", "hardware"):
        return ["A", "B", "C", "base"]
    if field.kind == "choice":
        return field.words
    if field.kind == "text":
        patterns = ["*-x8", "(M-x3 *-)x2", "M-x8", "G-x4 M-x4"]
        return patterns if field.name == "layer_pattern" else ["4|4", "3|5", "1|3|3|1", "torchtitan", "3|...|3"]
    return [number for number in NUMBERS if field.low <= number <= field.high]


def answers(model, base, hardware, **more):
    """Return the row of a study, or None where it is refused; a memory that does not hold it is an answer."""
    phase = {"phase": "inference"} if model == "inference" else {}
    name = "complete" if phase else model
    try:
        return rows_of({"hardware": hardware, "cost_model": name, "set": {**base, **phase, **more}})
    except InfeasibleError as error:
        return [{"reason": str(error)}] if "memory" in str(error) else None
    except CompcommError:
        return None


@pytest.mark.slow
@pytest.mark.parametrize(("model", "name"), [
    (model, name) for model in STUDIES for name in COST_MODELS[model].fields if name != "phase"
])  # fmt: skip
def test_it_changes_something(model, name):
    tried = 0
    first, others, devices = STUDIES[model]
    for hardware, other in itertools.product(devices, others):
        base = {key: value for key, value in {**first, **other}.items() if value is not None}
        seen = None
        for value in values_of(FIELDS[name]):
            rows = answers(model, base, hardware, **{name: value})
            if rows is None and FIELDS[name].kind != "choice":
                continue  # another number may be refused for what it is; a word is refused for what it means
            tried += 1
            shown = (
                "refused" if rows is None else [{key: cell for key, cell in row.items() if key != name} for row in rows]
            )
            if seen is not None and shown != seen:
                return
            seen = shown
    pytest.fail(f"no output of {model} depends on {name}: {tried} studies have the same numbers")
