"""A table of layouts is its points, one by one, whatever its points share while it is worked out.

In each table one field moves; beside it moves the batch, on which a micro-batch's layers and a step's states do not
depend, so that points share what there is to share. A field that is wrongly taken not to matter to them would give the
points of its second value the numbers of the first.
"""

from __future__ import annotations

import math
import random

import pytest
from face import row_of, rows_of

GROUPS = ("tp", "cp", "ep", "pp", "dp", "world")
COLUMNS = (
    "step_s", "compute_s", "recompute_s", "optimizer_s", "bubble_s", "mfu", "hfu", "memory_gib", "forward_s",
    "backward_s", *(f"{group}_{kind}_s" for group in GROUPS for kind in ("serialized", "hidden", "exposed")),
    *(f"{name}_gib" for name in ("weights", "gradients", "optimizer", "activations", "logits", "buffers", "framework")),
)  # fmt: skip

SMALL = {"layers": 8, "hidden": 1024, "heads": 16, "kv_heads": 8, "vocab": 32000, "seq_len": 1024, "gated": "on"}
LAYOUT = {"gpus": 64, "tp": 2, "cp": 2, "pp": 2, "zero": 1, "recompute": "full", "bucket": 1e7}
BASES = {
    "dense": {**SMALL, **LAYOUT},
    "experts": {**SMALL, **LAYOUT, "experts": 8, "top_k": 2, "moe_ffn_hidden": 512, "ep": 8, "etp": 1, "cp": 1,
                "dense_layers": 2, "recompute": "none"},
    "sharded": {**SMALL, **LAYOUT, "zero": 3, "cp": 1, "pp": 1, "overlap_tp": "on", "attention_kernel": "unfused",
                "interference": 1.3},
    "wide": {**SMALL, **LAYOUT, "tp": 8, "pp": 1, "gpus": 128},
}  # fmt: skip
VALUES = {
    "gpus": [32, 64], "micro_batch": [1, 2, 4], "tp": [1, 2, 4], "sp": ["on", "off"],
    "cp": [1, 2, 4], "cp_comm": ["p2p", "all_gather", "all_to_all"],
    "pp": [1, 2, 4, 8], "vpp": [1, 2], "schedule": ["1f1b", "gpipe", "zero_bubble", "zb_v", "dualpipe"],
    "zero": [0, 1, 2, 3], "dp_shard": [2, 4], "bucket": [1e6, 1e7, 1e12], "recompute": ["none", "selective", "full"],
    "offload_optimizer": ["off", "on"], "scatter_gather": ["off", "on"], "overlap_dp": ["off", "on"],
    "overlap_tp": ["off", "on"], "overlap_pp": ["off", "on"], "overlap_ep": ["off", "on"],
    "placement": ["tp-cp-dp-pp", "pp-tp-cp-dp", "dp-tp-cp-pp", "tp-pp-cp-dp", "tp-dp-cp-pp", "cp-tp-dp-pp"],
    "kernels": ["fused", "eager"], "collective_algorithm": ["best", "ring", "tree"],
    "attention_kernel": ["flash", "unfused"],
    "cross_entropy": ["fused", "chunked", "unfused", "eager", "compiled"],
    "hidden": [1024, 2048], "layers": [8, 16], "heads": [16, 8], "kv_heads": [8, 16], "head_dim": [64, 128],
    "ffn_hidden": [4096, 2048], "vocab": [32000, 64000], "vocab_multiple": [128, 1024], "seq_len": [1024, 2048],
    "tied": ["off", "on"], "bias": ["on", "off"], "norm": ["layernorm", "rmsnorm"], "norms": [2, 4],
    "position": ["rope", "learned"], "qk_norm": ["off", "on"], "extra_parameters": [0, 10**7], "mtp_layers": [0, 1],
    "dropout": ["on", "off"], "parallel_blocks": ["off", "on"], "precision": ["bf16", "fp8"],
    "grad_precision": ["bf16", "fp32"], "accumulate_precision": ["bf16", "fp32"],
    "optimizer_precision": ["bf16", "fp32"], "comm_precision": ["bf16", "fp32"], "flops": [1, 2], "network": [1, 0.5],
    "memory_bandwidth": [1, 2], "latency": [1, 10], "scale_up": [1, 3], "scale_out": [1, 4], "nvs": [4, 8],
    "interference": [1, 1.5], "sustained": [0.5, 0.8],
    "count_attention": ["full", "causal"], "memory_capacity": [1, 0.5],
    "experts": [8, 16], "top_k": [1, 2], "moe_ffn_hidden": [512, 1024], "ep": [1, 2, 4], "etp": [1, 2],
    "shared_experts": [0, 1], "dense_layers": [0, 2], "capacity_factor": [1, 1.5], "router_bias": ["off", "on"],
}  # fmt: skip
OF_EXPERTS = ("experts", "top_k", "moe_ffn_hidden", "ep", "etp", "shared_experts", "dense_layers", "capacity_factor",
              "router_bias", "overlap_ep")  # fmt: skip
NOT_OF_EXPERTS = ("parallel_blocks", "cp", "cp_comm")
OF_LAYOUT = {*OF_EXPERTS, "tied", *list(VALUES)[: list(VALUES).index("hidden")]}
# Every field in the dense model; in the others those that could be otherwise there.
TABLES = [(base, name) for base in BASES for name in VALUES
          if (name not in OF_EXPERTS if base == "dense" else name in (("placement",) if base == "wide" else OF_LAYOUT))
          and name not in (NOT_OF_EXPERTS if base == "experts" else OF_EXPERTS)]  # fmt: skip
BATCHES = (128, 256, 384)


def alone(hardware, base, point):
    return row_of({"hardware": hardware, "set": {**base, **point}}, COLUMNS)


def same(row, other, what):
    for name in COLUMNS:
        assert row[name] == pytest.approx(other[name], rel=1e-12), (name, what)


@pytest.mark.slow
@pytest.mark.parametrize(("base", "field"), TABLES)
def test_a_field_that_moves_in_a_table(base, field):
    fixed = {name: value for name, value in BASES[base].items() if name != field}
    fixed |= {("experts", "sp"): {"tp": 1}, ("sharded", "vpp"): {"pp": 2}, ("sharded", "schedule"): {"pp": 2}}.get(
        (base, field), {}
    )
    points = [{field: value, "global_batch": batch} for value in VALUES[field] for batch in BATCHES]
    rows = rows_of({"hardware": "h100-sxm", "set": fixed, "zip": points}, COLUMNS)
    assert len(rows) == len(points)
    for place in range(len(VALUES[field])):  # another one of the batches each time
        number = 3 * place + place % 3
        same(rows[number], alone("h100-sxm", fixed, points[number]), points[number])


@pytest.mark.a_third
@pytest.mark.parametrize("pp", [1, 2])
@pytest.mark.parametrize(("field", "values"), [
    ("memory_capacity", [0.5, 1, 2]), ("framework_gib", [0, 2, 4]), ("tokens", [1e9, 1e10, 1e12]),
])  # fmt: skip
def test_a_field_that_moves_alone(field, values, pp):
    fixed = {**BASES["dense"], "global_batch": 128, "pp": pp}
    rows = rows_of({"hardware": "h100-sxm", "set": fixed, "sweep": {field: values}}, COLUMNS)
    for value, row in zip(values, rows, strict=True):
        same(row, alone("h100-sxm", fixed, {field: value}), value)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_fields_that_move_together(seed):
    """Few distinct rows of everything but what layers, or states, do not depend on; and those at random."""
    chance = random.Random(seed)
    base = BASES[("dense", "experts", "sharded")[seed % 3]]
    names = [name for name in VALUES if name not in (NOT_OF_EXPERTS if "experts" in base else OF_EXPERTS)]
    names = [name for name in names if name not in ("dp_shard", "sp", "offload_optimizer")]
    often = ("zero", "bucket", "recompute", "schedule", "overlap_pp", "micro_batch", "scatter_gather")
    few = [{name: chance.choice(VALUES[name]) for name in names if name not in often and chance.random() < 0.3}]
    few += [{name: chance.choice(VALUES[name]) for name in few[0]} for _ in range(2)]
    points = [
        {
            **chance.choice(few),
            **{name: chance.choice(VALUES[name]) for name in often},
            "global_batch": chance.choice(BATCHES),
        }
        for _ in range(24)
    ]
    base = {name: value for name, value in base.items() if name not in points[0]}
    rows = rows_of({"hardware": "h100-sxm", "set": base, "zip": points}, (*COLUMNS, "feasible", "reason"))
    checked = 0
    for point, row in zip(points, rows, strict=True):
        if row["feasible"]:
            same(row, alone("h100-sxm", base, point), point)
            checked += 1
    assert checked > 3


LAYOUTS = [{"micro_batch": size, "pp": pp, "dp_shard": shard} for size, pp, shard in (
    (1, 1, 2), (1, 2, 2), (2, 2, 2), (2, 4, 2), (1, 4, 2), (2, 1, 2), (1, 8, 2), (2, 8, 2), (1, 1, 4), (2, 1, 4),
    (1, 2, 4), (2, 2, 4),
)]  # fmt: skip
BESIDE = [{"flops": [1, 3]}, {"zero": [1, 2, 3]}, {"hidden": [1024, 2048], "network": [1, 2]}, {"tp": [1, 2, 4]},
          {"placement": ["tp-cp-dp-pp", "dp-pp-tp-cp"]}, {"latency": [1, 9], "gpus": [64, 128]}]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("beside", BESIDE, ids=lambda fields: "-".join(fields))
@pytest.mark.parametrize(("base", "hardware"), [("dense", ["h100-sxm"]), ("experts", ["h100-sxm", "a100-sxm-80gb"])])
def test_a_table_with_axes_beside_it(base, beside, hardware):
    """Hardware before the table, and fields after it: rows are their points."""
    fixed = {**BASES[base], "global_batch": 128}
    fixed = {name: value for name, value in fixed.items() if name not in beside and name not in LAYOUTS[0]}
    names = [*LAYOUTS[0], *beside, *(["hardware"] if len(hardware) > 1 else [])]
    rows = rows_of({"hardware": hardware, "set": fixed, "zip": LAYOUTS, "sweep": beside}, (*names, *COLUMNS))
    each = math.prod(len(values) for values in beside.values())
    assert len(rows) == len(LAYOUTS) * len(hardware) * each
    for row in random.Random(7).sample(rows, 10):
        point = {name: row[name] for name in names if name != "hardware"}
        same(row, alone(row.get("hardware", "h100-sxm"), fixed, point), point)


def test_a_table_of_experts_whose_places_move_along_another_axis():
    """How many devices share the experts moves in the table, tensor parallelism beside it."""
    fixed = {name: value for name, value in BASES["experts"].items() if name not in ("ep", "etp", "tp")}
    layouts = [{"ep": ep, "etp": etp, "global_batch": batch} for ep in (2, 8) for etp in (1, 2) for batch in BATCHES]
    study = {"hardware": "h100-sxm", "set": fixed, "zip": layouts, "sweep": {"tp": [2, 4]}}
    for row in rows_of(study, (*layouts[0], "tp", *COLUMNS))[::3]:
        point = {name: row[name] for name in (*layouts[0], "tp")}
        same(row, alone("h100-sxm", fixed, point), point)


@pytest.mark.slow
def test_the_best_of_a_large_grid_are_their_points():
    """So many points are not worked out at once: what points share is cut as they are."""
    fixed = {name: value for name, value in BASES["dense"].items() if name not in (*LAYOUTS[0], "zero", "hidden")}
    layouts = [{**layout, "global_batch": batch} for batch in BATCHES for layout in LAYOUTS]
    study = {"hardware": "h100-sxm", "set": fixed, "zip": layouts, "sweep": {
        "flops": {"from": 1, "to": 2, "steps": 35}, "network": {"from": 1, "to": 2, "steps": 35},
        "zero": [1, 2, 3], "hidden": [1024, 2048],
    }, "where": ["flops < 1.9", "network > 1.1"]}  # fmt: skip
    names = (*layouts[0], "flops", "network", "zero", "hidden")
    for ascending in (True, False):
        rows = rows_of(study, (*names, *COLUMNS), top=4, by="step_s", ascending=ascending)
        assert [row["step_s"] for row in rows] == sorted((row["step_s"] for row in rows), reverse=not ascending)
        for row in rows:
            point = {name: row[name] for name in names}
            same(row, alone("h100-sxm", fixed, point), point)


def test_a_row_that_breaks_a_rule_of_layers_says_so():
    """Two of three degrees do not divide what they split, each in three rows."""
    fixed = {name: value for name, value in BASES["dense"].items() if name not in ("tp", "gpus", "cp")}
    points = [{"tp": tp, "global_batch": batch} for batch in (96, 192, 288) for tp in (2, 3, 16)]
    rows = rows_of({"hardware": "h100-sxm", "set": {**fixed, "gpus": 96}, "zip": points})
    assert [row["feasible"] for row in rows] == [True, False, False] * 3
    assert all("tp does not divide heads" in row["reason"] for row in rows[1::3])
    assert all("tp exceeds kv_heads" in row["reason"] for row in rows[2::3])
