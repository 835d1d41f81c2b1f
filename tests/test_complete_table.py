"""A table of layouts is its rows: whatever shares work in a table, each point alone gives the same numbers."""

from __future__ import annotations

import random

import numpy as np
import pytest
from face import recorded

from comp_comm.configs.axes import Axis
from comp_comm.configs.study import study_from
from comp_comm.costmodels.complete.fields import IGNORED_BY_LAYERS
from comp_comm.fields import FIELDS
from comp_comm.sweeps.plan import make_plan
from comp_comm.sweeps.shared_parts import SharedRows

DENSE = {"layers": 24, "hidden": 4096, "heads": 32, "vocab": 50257, "seq_len": 4096}
MODELS = {
    "dense": DENSE,
    "gqa": {**DENSE, "kv_heads": 4, "gated": "on", "norm": "rmsnorm", "bias": "off", "ffn_hidden": 14336},
    "window": {**DENSE, "window": 1024, "global_every": 4},
    "experts": {**DENSE, "experts": 16, "top_k": 2, "moe_ffn_hidden": 2048, "shared_experts": 1, "dense_layers": 4,
                "gated": "on"},
    "latent": {**DENSE, "experts": 16, "top_k": 4, "moe_ffn_hidden": 2048, "q_lora_rank": 1536,
               "kv_lora_rank": 512, "rope_head_dim": 64, "mtp_layers": 1},
    "encoder-decoder": {**DENSE, "architecture": "encoder-decoder", "encoder_layers": 24, "encoder_seq_len": 2048},
    "vit": {**DENSE, "architecture": "vit", "vocab": 0, "patch_features": 768, "classes": 1000},
}  # fmt: skip
CHOICES = {
    "gpus": [512], "global_batch": [1024], "tp": [1, 2, 4, 8], "sp": ["off", "on"], "cp": [1, 2, 4],
    "cp_comm": ["p2p", "all_gather", "all_to_all"], "pp": [1, 2, 4], "vpp": [1, 2, 3], "ep": [1, 2, 8],
    "etp": [1, 2, 4],
    "schedule": ["1f1b", "gpipe", "zero_bubble"], "micro_batch": [1, 2],
    "zero": [0, 1, 2, 3], "dp_shard": [2, 8], "recompute": ["none", "selective", "full"],
    "kv_replication": ["off", "on"], "offload_optimizer": ["off"], "scatter_gather": ["off", "on"],
    "placement": ["tp-cp-dp-pp", "pp-tp-cp-dp", "dp-tp-cp-pp", "tp-pp-cp-dp"], "overlap_dp": ["off", "on"],
    "overlap_tp": ["off", "on"],
    "overlap_pp": ["off", "on"], "overlap_ep": ["off", "on"], "collective_algorithm": ["best", "ring", "tree"],
    "attention_kernel": ["flash_causal", "flash", "unfused"], "kernels": ["fused", "eager", "compiled"],
    "cross_entropy": ["fused", "compiled", "chunked", "fused_native", "fused_metrics", "unfused", "eager"],
}  # fmt: skip
ROWS = 30
OUTPUTS = ("step_s", "memory_bytes", "forward_compute_s", "backward_compute_s", "recompute_s", "optimizer_s",
           "bubble_s", "serialized_comm_s", "hidden_comm_s", "exposed_comm_s", "model_flops",
           "hardware_flops")  # fmt: skip


def draw(seed, model, rows):
    """Draw a table of layouts; in half of them a few near rows are repeated, in some the model itself moves."""
    chance = random.Random(seed)
    skipped = {"ep", "etp"} if "experts" not in model else set()
    names = [name for name in CHOICES if name not in skipped and (name != "placement" or chance.random() < 0.4)]
    kept = [name for name in names if name in ("gpus", "global_batch") or chance.random() < 0.6]
    table = {name: [chance.choice(CHOICES[name]) for _ in range(rows)] for name in kept}
    table["hidden"] = [chance.choice((2048, 4096)) for _ in range(rows)]
    distinct = 4 if chance.random() < 0.7 else rows
    if "placement" in table and chance.random() < 0.7:
        table["placement"] = [table["placement"][0]] * rows
    for name in set(table) - set(IGNORED_BY_LAYERS):
        table[name] = [table[name][i % distinct] for i in range(rows)]
    return {name: tuple(values) for name, values in table.items()}


def number_of(step, name):
    return getattr(step if hasattr(step, name) else step.work, name)


def plan_of(model, fixed=()):
    return make_plan(study_from({"hardware": "h100-sxm", "set": {**model, **dict(fixed)}}))


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3))])
def test_a_table_is_its_rows(name, seed):
    model = MODELS[name]
    table = draw(f"{name}{seed}", model, ROWS)
    free = plan_of(model, {"gpus": 512, "global_batch": 1024, "accumulation": 2})
    free.grid.fixed.pop("accumulation")
    plan = free.over(Axis({**table}))
    step = plan.evaluate((slice(0, ROWS),))
    with np.errstate(all="ignore"):
        found = {output: np.broadcast_to(number_of(step, output), (ROWS,)) for output in OUTPUTS}
    broken = np.broadcast_to(step.broken, (ROWS,))
    for i in range(ROWS):
        alone = free.over(Axis({key: (values[i],) for key, values in table.items()})).evaluate((slice(0, 1),))
        assert bool(np.all(alone.broken)) == broken[i]
        reasons = {rule.reason for rule in alone.violations if rule.broken.any()}
        assert reasons == {rule.reason for rule in step.violations if np.broadcast_to(rule.broken, (ROWS,))[i]}
        for output in OUTPUTS:
            with np.errstate(all="ignore"):
                value = np.ravel(number_of(alone, output))[0]
            np.testing.assert_allclose(found[output][i], value, rtol=1e-12, err_msg=output)


@pytest.mark.slow
def test_tables_do_share_rows():
    shared = 0
    for name, model in MODELS.items():
        for seed in range(4):
            plan = plan_of(model).over(Axis(draw(f"{name}{seed}", model, ROWS)))
            shared += bool(SharedRows(plan.grid).parts((slice(0, ROWS),)))
    assert 8 < shared < 28


@pytest.mark.a_third
@pytest.mark.parametrize("count", [8, pytest.param(120, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", MODELS)
def test_every_number_of_a_valid_point_is_finite_and_adds_up(name, count):
    model, seen = MODELS[name], 0
    chance = random.Random(name)
    for _ in range(count):
        names = [key for key in CHOICES if "experts" in model or key not in ("ep", "etp")]
        fixed = {key: chance.choice(CHOICES[key]) for key in names if key in ("gpus", "global_batch")}
        fixed |= {key: chance.choice(CHOICES[key]) for key in names if chance.random() < 0.25}
        plan = plan_of(model, {"gpus": 512, "global_batch": 1024})
        point = plan.over(Axis({key: (value,) for key, value in fixed.items()}))
        step = point.evaluate((slice(0, 1),))
        if any(rule.broken.any() and rule.wrong for rule in step.violations):
            continue
        seen += 1
        alone = make_plan(study_from({"hardware": "h100-sxm", "set": {**model, **fixed}})).evaluate(())
        found = recorded(alone)
        visible = sum(c["serialized_s"] + c["exposed_s"] for c in found["comm"].values())
        parts = sum(found[key] for key in ("compute_s", "recompute_s", "optimizer_s", "host_s", "bubble_s"))
        assert parts + visible == pytest.approx(found["step_s"], rel=1e-12)
        ops = found["operations"]
        spent = sum(op["seconds"] for op in ops if op["group"] is None)
        assert spent == pytest.approx(found["compute_s"] + found["recompute_s"] + found["optimizer_s"], rel=1e-9)
        talked = sum(op["seconds"] for op in ops if op["group"])
        every = sum(c["serialized_s"] + c["hidden_s"] + c["exposed_s"] for c in found["comm"].values())
        assert talked == pytest.approx(every, rel=1e-9)
        numbers = [value for value in found.values() if isinstance(value, float)]
        assert np.isfinite(numbers).all()
        assert all(value >= 0 for value in numbers)
        assert 0 < found["mfu"] < 1
        assert 0 < found["hfu"] < 1
    assert seen > count / 15


def test_the_choices_are_words_of_their_fields():
    for name, values in CHOICES.items():
        assert [FIELDS[name].parse(value) for value in values] == values
