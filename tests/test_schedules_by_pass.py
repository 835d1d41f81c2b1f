"""Schedules that split the backward pass: formulas against every pass one by one, and what a layout makes of them."""

from __future__ import annotations

import itertools
import random

import passes
import pytest
from face import recorded

from comp_comm.configs.study import study_from
from comp_comm.errors import ConfigError
from comp_comm.formulas.zero_bubble import (
    dualpipe_in_flight,
    dualpipe_seconds,
    zb_h2_seconds,
    zb_v_seconds,
    zero_bubble_in_flight,
    zero_bubble_seconds,
)
from comp_comm.sweeps.plan import make_plan
from comp_comm.sweeps.point import memory

EVEN = {"layers": 24, "hidden": 2048, "heads": 16, "vocab": 0, "seq_len": 1024}


def study(**point):
    return study_from({"hardware": "h100-sxm", "set": point})


def explained(**point):
    return recorded(make_plan(study(**point)).evaluate(()))


def drawn(seed, count=40):
    """Return lengths of F, B and W: B is longest, and W may be longer than F."""
    draw = random.Random(seed)
    for _ in range(count):
        forward = draw.uniform(0.5, 2)
        backward = forward * draw.uniform(1, 2.5)
        yield forward, backward, draw.uniform(0.05, min(backward, 1.3 * forward))


def alike(p, forward, backward, weights):
    return [{"F": forward, "B": backward, "W": weights}] * p


@pytest.mark.a_third
@pytest.mark.parametrize("p", [2, 3, 4, 8])
def test_h1_waits_as_its_passes_do(p):
    for m, each in itertools.product((1, 2, p - 1, p, p + 1, 3 * p), drawn(p, 10)):
        waits = passes.took("zero_bubble", p, 1, m, alike(p, *each)) - m * sum(each)
        assert float(zero_bubble_seconds(p, m, *each)) == pytest.approx(waits, rel=1e-9, abs=1e-9)


@pytest.mark.a_third
@pytest.mark.parametrize("p", [2, 3, *(pytest.param(p, marks=pytest.mark.slow) for p in (4, 8))])
def test_h2_and_v_wait_as_their_passes_do_step_after_step(p):
    for m, each in itertools.product((2 * p - 1, 2 * p, 4 * p), drawn(p, 10)):
        waits = passes.took_in_a_row("zb_h2", p, 1, m, alike(p, *each)) - m * sum(each)
        assert float(zb_h2_seconds(p, *each)) == pytest.approx(waits, rel=1e-9, abs=1e-9)
        waits = passes.took_in_a_row("zb_v", p, 1, m, alike(p, *each)) - 2 * m * sum(each)
        assert float(zb_v_seconds(p, *each)) == pytest.approx(waits, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("p", [2, 4, 6, pytest.param(16, marks=pytest.mark.slow)])
def test_dualpipe_waits_as_its_passes_do(p):
    for m, each in itertools.product((2 * p, 2 * p + 2, 4 * p), drawn(p, 10)):
        waits = passes.took("dualpipe", p, 1, m, alike(p, *each)) - m * sum(each)
        assert float(dualpipe_seconds(p, *each)) == pytest.approx(waits, rel=1e-9, abs=1e-9)


def test_bubbles_as_published():
    """Table 2 of arXiv:2401.10241 and Table 2 of arXiv:2412.19437, whose B is B and W here."""
    for p, (f, b, w) in itertools.product((2, 8, 16), [(1, 1, 1), (1, 1.4, 0.8)]):
        assert float(zero_bubble_seconds(p, 99, f, b, w)) == pytest.approx((p - 1) * (f + b - w))
        assert float(zb_h2_seconds(p, f, b, w)) == pytest.approx((p - 1) * (f + b - 2 * w))
        both, whole = f + b + w, b + w
        assert float(dualpipe_seconds(p, f, b, w)) == pytest.approx((p / 2 - 1) * (both + whole - 3 * w))
    assert float(zb_v_seconds(8, 1, 1, 1)) == 0


@pytest.mark.parametrize("p", [2, 4, 6, 8])
def test_every_stage_holds_what_its_passes_hold(p):
    for m, rank in itertools.product((2 * p, 2 * p + 2, 4 * p), range(p)):

        def held(schedule, m=m, rank=rank):
            return passes.most_held(schedule, p, 1, m, rank)

        assert float(zero_bubble_in_flight(p, m)) == held("zero_bubble") == p
        assert float(zero_bubble_in_flight(p, m, 2)) == held("zb_h2") == 2 * p - 1
        assert float(zero_bubble_in_flight(p, m)) == held("zb_v") / 2 == p
        assert float(dualpipe_in_flight(p)) == held("dualpipe") / 2 == (p + 1) / 2
    for m, rank in itertools.product(range(1, p), range(p)):
        assert float(zero_bubble_in_flight(p, m)) == passes.most_held("zero_bubble", p, 1, m, rank)


@pytest.mark.a_third
@pytest.mark.parametrize("p", [2, 4, 8])
@pytest.mark.parametrize(
    ("schedule", "v"), [("1f1b", 1), ("interleaved", 3), ("zb_h2", 1), ("zb_v", 1), ("dualpipe", 1)]
)
def test_a_stage_sends_after_each_chunk_whose_next_one_is_elsewhere(schedule, v, p):
    m = 2 * p
    found = explained(**EVEN, pp=p, vpp=v, accumulation=m, schedule=schedule)
    most = max(passes.sends(schedule, p, v, m, rank) for rank in range(p))
    assert found["comm"]["pp"]["calls"] == 2 * most


def test_dualpipe_holds_the_model_twice():
    point = {**EVEN, "pp": 4, "accumulation": 8}
    one, two = (memory(study(**point, schedule=schedule)) for schedule in ("1f1b", "dualpipe"))
    for part in ("weights_bytes", "gradients_bytes", "optimizer_bytes"):
        assert two[part] == pytest.approx(2 * one[part], rel=1e-4)  # and the last norm, which its first stage has too


@pytest.mark.parametrize("zero", [0, 1, 3])
def test_gradients_of_both_copies_are_reduced_once_a_step_by_shards(zero):
    point = {**EVEN, "pp": 4, "accumulation": 8, "dp": 4, "zero": zero, "schedule": "dualpipe"}
    found = explained(**point)
    (call,) = (op for op in found["operations"] if op["operation"] == "all-reduce over copies")
    held = memory(study(**{**point, "zero": 0}))["gradients_bytes"]
    assert call["message_bytes"] == pytest.approx(held / (4 if zero else 1))


@pytest.mark.parametrize("schedule", ["zb_v", "dualpipe"])
@pytest.mark.parametrize("recompute", ["none", "full"])
def test_what_a_step_does_is_the_same_work_in_any_schedule(schedule, recompute):
    point = {**EVEN, "vocab": 0, "pp": 4, "accumulation": 8, "recompute": recompute}
    one, other = explained(**point), explained(**point, schedule=schedule)
    for name in ("forward_s", "backward_s", "recompute_s", "hardware_flops", "model_flops"):
        assert other[name] == pytest.approx(one[name])


def test_embedding_and_head_are_where_a_micro_batch_begins_and_ends():
    point = {**EVEN, "vocab": 51200, "pp": 4, "accumulation": 8, "mtp_layers": 1}

    def stages(schedule):
        answer = make_plan(study(**point, schedule=schedule)).evaluate(())
        return {int(each.place): (int(each.embedding), int(each.head), int(sum(each.layer_counts)))
                for each in answer.work.stages.candidates}  # fmt: skip

    assert stages("1f1b") == {0: (1, 0, 6), 3: (0, 1, 7)}
    assert stages("zb_v") == {0: (1, 1, 7), 3: (0, 0, 6)}
    assert stages("dualpipe") == {0: (1, 1, 13), 3: (1, 1, 13)}


@pytest.mark.parametrize(("point", "reason"), [
    ({"schedule": "zb_v"}, "zb_v needs pp above 1"),
    ({"schedule": "zb_v", "pp": 4, "vpp": 2, "accumulation": 8}, "vpp above 1 goes with schedule 1f1b or interleaved"),
    ({"schedule": "zb_v", "pp": 4, "accumulation": 6}, "at least 2 x pp - 1 micro-batches"),
    ({"schedule": "zb_v", "pp": 16, "accumulation": 64}, "2 x pp exceeds the layers"),
    ({"schedule": "zb_h2", "pp": 4, "accumulation": 6}, "at least 2 x pp - 1 micro-batches"),
    ({"schedule": "dualpipe", "accumulation": 4}, "needs an even pp"),
    ({"schedule": "dualpipe", "pp": 3, "accumulation": 8}, "needs an even pp"),
    ({"schedule": "dualpipe", "pp": 4, "accumulation": 9}, "needs an even number of micro-batches"),
    ({"schedule": "dualpipe", "pp": 4, "accumulation": 6}, "at least 2 x pp"),
    ({"schedule": "dualpipe", "pp": 4, "vpp": 2, "accumulation": 8}, "vpp above 1 goes with"),
])  # fmt: skip
def test_schedules_that_mean_nothing_are_refused(point, reason):
    with pytest.raises(ConfigError, match=reason):
        make_plan(study(**EVEN, **point))
