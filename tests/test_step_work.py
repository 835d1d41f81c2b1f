"""Parameters and FLOP of a step against models written out weight by weight, and what no layout may change."""

from __future__ import annotations

import random

import numpy as np
import pytest
from state_dict import layers_of, matrix_flops, of_experts, random_model, score_flops, seen, state_dict

from comp_comm.configs.study import study_from
from comp_comm.errors import ConfigError
from comp_comm.sweeps.plan import make_plan
from comp_comm.sweeps.point import point_of, sensitivity
from comp_comm.sweeps.result import sweep

GPT = {"layers": 12, "hidden": 1024, "heads": 16, "vocab": 50257, "seq_len": 1024}
MOE = {**GPT, "experts": 8, "top_k": 2, "moe_ffn_hidden": 512, "shared_experts": 1, "dense_layers": 2, "gated": "on"}
SEEDS = range(80)


def step(hardware="h100-sxm", **point):
    return make_plan(study_from({"hardware": hardware, "set": point})).evaluate(())


def layouts(seed, count, model, hardware="h100-sxm", more=()):
    """Draw layouts, keeping those that break no rule; return their fields, and plans with steps."""
    chance, found = random.Random(seed), []
    choices = {
        "tp": (1, 2, 4, 8), "sp": ("off", "on"), "pp": (1, 2, 3, 4), "vpp": (1, 2), "cp": (1, 2, 4),
        "zero": (0, 1, 2, 3), "micro_batch": (1, 2, 4), "recompute": ("none", "selective", "full"),
        "schedule": ("1f1b", "gpipe", "zero_bubble", "zb_h2", "zb_v", "dualpipe"),
        "placement": ("tp-cp-dp-pp", "pp-dp-cp-tp", "dp-tp-pp-cp"),
        "cp_comm": ("p2p", "all_gather", "all_to_all"), "overlap_dp": ("on", "off"), **dict(more),
    }  # fmt: skip
    while len(found) < count:
        point = {name: chance.choice(values) for name, values in choices.items() if chance.random() < 0.5}
        point = {"gpus": 384, "global_batch": 3072, **point}
        try:
            found.append((point, point_of({"hardware": hardware, "set": {**model, **point}})))
        except ConfigError:
            continue
    return found


# -- counted one by one -----------------------------------------------------------------------------------------------


@pytest.mark.a_third
@pytest.mark.parametrize("seed", SEEDS)
def test_parameters_are_those_of_the_weights(seed):
    p = random_model(seed)
    answer, weights = step(**p), state_dict(p)
    assert int(answer.work.parameters) == sum(w.size for w in weights)
    idle = sum(w.size * (1 - p["top_k"] / p["experts"]) for w in weights if of_experts(w))
    assert int(answer.work.active_parameters) == pytest.approx(sum(w.size for w in weights) - idle, abs=0.5)


@pytest.mark.a_third
@pytest.mark.parametrize("seed", SEEDS)
def test_model_flops_are_six_for_a_weight_and_token_and_the_scores(seed):
    p = random_model(seed)
    assert float(step(**p).work.model_flops) == pytest.approx(matrix_flops(p) + score_flops(p), rel=1e-12)


@pytest.mark.a_third
@pytest.mark.parametrize("seed", range(0, 80, 4))
def test_causal_flops_are_those_of_the_scores_a_mask_leaves(seed):
    """The mean query of s tokens sees (s + 1) / 2 of them; the closed form has s / 2, half a score less a query."""
    p = random_model(seed)
    found = float(step(**p, count_attention="causal").work.model_flops) - matrix_flops(p)
    half_a_score = score_flops(p) / p["seq_len"]
    assert found <= score_flops(p, causal=True) * (1 + 1e-9)
    assert found == pytest.approx(score_flops(p, causal=True), abs=half_a_score)


def test_seen_counts_scores():
    assert (seen(4, 4), seen(4, 4, causal=True), seen(4, 4, causal=True, window=2)) == (16, 10, 7)


def test_multi_token_prediction_adds_a_layer_a_projection_and_logits():
    plain, more = step(**GPT), step(**GPT, mtp_layers=2)
    h, s, v = GPT["hidden"], GPT["seq_len"], GPT["vocab"]
    layer = sum(w.size for w in layers_of(GPT)[0])
    matrices = sum(w.size * w.used for w in layers_of(GPT)[0])
    assert int(more.work.mtp_parameters) == 2 * (layer + 2 * h * h + 3 * 2 * h)
    assert int(more.work.parameters) == int(plain.work.parameters)
    extra = 2 * (6 * s * (matrices + 2 * h * h + h * v) + 12 * s * s * h)
    assert float(more.work.model_flops - plain.work.model_flops) == pytest.approx(extra, rel=1e-9)


# -- what a layout cannot change --------------------------------------------------------------------------------------


@pytest.mark.a_third
@pytest.mark.parametrize("model", [GPT, MOE, {**GPT, "tied": "on"}], ids=["dense", "experts", "tied"])
def test_a_layout_changes_neither_parameters_nor_model_flops(model):
    alone = step(**model, global_batch=3072)
    for point, (_, answer) in layouts("work", 25, model):
        assert int(answer.work.parameters) == int(alone.work.parameters), point
        assert float(answer.work.model_flops) == float(alone.work.model_flops), point
        if point.get("attention_kernel", "flash_causal") != "flash_causal":
            assert float(answer.work.hardware_flops) >= float(answer.work.model_flops), point


def test_tying_changes_parameters_by_the_output_layer_and_no_flops():
    untied, tied = step(**GPT, pp=4, tp=2), step(**GPT, pp=4, tp=2, tied="on")
    assert int(untied.work.parameters - tied.work.parameters) == GPT["vocab"] * GPT["hidden"]
    assert float(untied.work.model_flops) == float(tied.work.model_flops)
    assert float(untied.work.hardware_flops) == float(tied.work.hardware_flops)


@pytest.mark.parametrize("pp", [1, 2, 4])
def test_a_vocabulary_that_needs_no_padding_and_no_recompute_leave_no_extra_flops(pp):
    point = {**GPT, "vocab": 51200}
    for kernel, count in (("flash", "full"), ("unfused", "full"), ("flash_causal", "causal")):
        done = step(**point, tp=8, pp=pp, attention_kernel=kernel)
        assert float(done.work.hardware_flops) == pytest.approx(
            float(step(**point, count_attention=count).work.model_flops), rel=1e-12)  # fmt: skip


@pytest.mark.parametrize(("tp", "padded"), [(1, 50304), (4, 50688), (8, 51200)])
def test_padding_adds_the_flops_of_its_rows(tp, padded):
    answer = step(**GPT, tp=tp, global_batch=3, attention_kernel="flash")
    rows = 6 * 3 * GPT["seq_len"] * GPT["hidden"] * (padded - GPT["vocab"])
    assert float(answer.work.hardware_flops - answer.work.model_flops) == pytest.approx(rows, rel=1e-9)


def forward_of_a_layer(p):
    """FLOP of the matrices and of the scores of one layer and sequence."""
    matrices = 2 * p["seq_len"] * sum(w.size * w.used for w in layers_of(p)[0])
    return matrices, score_flops({**p, "layers": 1}) / 3


@pytest.mark.a_third
@pytest.mark.parametrize("pp", [1, 2, 3])
@pytest.mark.parametrize("again", [0, 1, 2, 4])
def test_recomputation_adds_forward_passes(pp, again):
    p = {**GPT, "vocab": 51200, "attention_kernel": "flash"}
    matrices, scores = forward_of_a_layer(p)
    whole = {"recompute": "full", **({"recompute_layers": again} if again else {})}
    once = float(step(**p, pp=pp).work.hardware_flops)
    layers = pp * again if again else p["layers"]
    assert float(step(**p, pp=pp, **whole).work.hardware_flops) - once == pytest.approx(layers * (matrices + scores))
    selective = float(step(**p, pp=pp, recompute="selective").work.hardware_flops)
    assert selective - once == pytest.approx(p["layers"] * scores)


@pytest.mark.parametrize("point", [{"tp": 2, "pp": 3}, {"cp": 2, "zero": 3}, {"recompute": "selective"}])
def test_how_attention_is_counted_changes_no_second(point):
    full, causal = (step(**GPT, **point, count_attention=count) for count in ("full", "causal"))
    assert float(full.work.model_flops) > float(causal.work.model_flops)
    assert float(full.work.hardware_flops) == float(causal.work.hardware_flops)  # of what the kernel executes
    for name in ("step_s", "memory_bytes", "compute_s", "recompute_s", "bubble_s", "exposed_comm_s"):
        assert float(getattr(full, name)) == float(getattr(causal, name))


@pytest.mark.parametrize("recompute", [0, 1])
def test_a_causal_kernel_executes_half_of_the_scores(recompute):
    """Three passes of them, four where attention is made again."""
    p = {**GPT, "vocab": 51200, "recompute": ("none", "selective")[recompute]}
    every, half = (
        float(step(**p, attention_kernel=kernel).work.hardware_flops) for kernel in ("flash", "flash_causal")
    )
    assert every - half == pytest.approx((3 + recompute) / 3 * score_flops(p) / 2, rel=1e-9)


# -- numbers that vanish along an axis --------------------------------------------------------------------------------

SMALL = {"layers": 4, "heads": 8, "hidden": 512, "seq_len": 256, "vocab": 1000, "bias": "off"}
EXPERTS = {"experts": 8, "top_k": 2, "moe_ffn_hidden": 128}


@pytest.mark.a_third
@pytest.mark.parametrize(("more", "axis", "values"), [
    ({}, "vocab", (0, 1000)),
    ({"architecture": "vit", "vocab": 0, "patch_features": 768}, "classes", (0, 10)),
    ({"top_k": 2, "moe_ffn_hidden": 128}, "experts", (0, 8)),
    (EXPERTS, "shared_experts", (0, 1)),
    (EXPERTS, "dense_layers", (0, 2, 4)),
    ({"kv_lora_rank": 32, "rope_head_dim": 16}, "q_lora_rank", (0, 48)),
    ({}, "mtp_layers", (0, 1)),
    ({"window": 64}, "global_every", (1, 2, 4)),
], ids=lambda value: value if isinstance(value, str) else "")  # fmt: skip
def test_a_number_that_may_be_zero_can_be_swept(more, axis, values):
    fixed = {name: value for name, value in {**SMALL, **more}.items() if name != axis}
    rows = sweep({"hardware": "h100-sxm", "set": fixed, "sweep": {axis: list(values)}}).columns
    for number, value in enumerate(values):
        alone = step(**fixed, **{axis: value})
        for name in ("step_s", "mfu", "parameters"):
            numbers = {"step_s": alone.step_s, "parameters": alone.work.parameters,
                       "mfu": alone.work.model_flops / (alone.work.peak_flops * alone.step_s)}  # fmt: skip
            assert rows[name][number] == pytest.approx(float(numbers[name]), rel=1e-12)


# -- better hardware --------------------------------------------------------------------------------------------------

FASTER = (0.5, 0.9, 1.1, 2.0, 8.0)
OVERLAPS = {f"overlap_{name}": ("off", "on") for name in ("tp", "pp", "ep")}


def slower_on_better(plan, answer, most=1e-12):
    """Return the numbers of the hardware that, made better, make a step slower."""
    found = []
    for row in sensitivity(plan, answer, FASTER):
        better = (row["factor"] > 1) != (row["number"] == "latency")
        if row["number"] != "memory_capacity" and (row["change"] if better else -row["change"]) > most:
            found.append((row["number"], row["factor"], row["change"]))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("hardware", ["h100-sxm", "a100-sxm-80gb", "mi300x"])
def test_better_hardware_is_never_slower(hardware):
    for point, answer in layouts("faster", 20, GPT, hardware, [("overlap_dp", ("off",)), ("cp", (1,))]):
        assert slower_on_better(*answer) == [], point


@pytest.mark.slow
@pytest.mark.parametrize("model", [{**GPT, "hidden": 4096, "heads": 32}, {**MOE, "ep": 8}], ids=["dense", "experts"])
def test_better_hardware_is_never_slower_with_everything_overlapped(model):
    """A second of compute cannot hide what several groups send, each as if it were alone."""
    for point, answer in layouts("overlapped", 30, model, more=OVERLAPS.items()):
        # Gathers are hidden by GEMMs, not by waits for the host.
        assert slower_on_better(*answer, most=1e-3) == [], point


@pytest.mark.parametrize("name", ["flops", "network", "memory_bandwidth"])
def test_hardware_to_come_is_faster_in_its_own_part(name):
    now, then = step(**GPT, tp=8, gpus=64), step(**GPT, tp=8, gpus=64, **{name: 2})
    parts = {"flops": "compute_s", "network": "serialized_comm_s", "memory_bandwidth": "optimizer_s"}
    for other, part in parts.items():
        before, after = (float(getattr(answer, part)) for answer in (now, then))
        if other == name:
            assert after < before
        elif (name, other) != ("memory_bandwidth", "flops"):  # compute streams too
            assert after == before
    np.testing.assert_equal(float(now.work.model_flops), float(then.work.model_flops))


def test_documents_in_a_sequence_attend_to_themselves():
    """Four documents in a sequence: a quarter of the scores, of whatever window is longer; as of shorter sequences."""
    point = {**GPT, "seq_len": 4096, "cp": 2, "gpus": 8, "position": "rope"}
    flops = {packed: float(step(**point, packed_documents=packed).work.model_flops) for packed in (1, 4)}
    shorter = float(step(**{**point, "seq_len": 1024, "micro_batch": 4}).work.model_flops)
    assert flops[4] == pytest.approx(shorter)
    assert flops[1] - flops[4] == pytest.approx(3 * GPT["layers"] * 4 * 4096 * 4 * (4096 - 1024) * GPT["hidden"])
    windowed = {**point, "cp": 1, "cuda_graph": "full", "window": 256}
    narrow = {packed: float(step(**windowed, packed_documents=packed).step_s) for packed in (1, 4)}
    assert narrow[4] < narrow[1]
