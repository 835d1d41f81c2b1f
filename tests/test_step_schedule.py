"""Schedules against a simulation of every pass, uneven stages, and overlap against the sums it must keep."""

from __future__ import annotations

import itertools
import random

import numpy as np
import passes
import pytest
from face import recorded

from comp_comm.choices import Schedule
from comp_comm.configs.study import study_from
from comp_comm.costmodels.complete.schedule.pass_order import PassOrder
from comp_comm.costmodels.complete.schedule.pass_times import ChunkSeconds, step_seconds
from comp_comm.errors import ConfigError
from comp_comm.formulas.arrays import to_float
from comp_comm.formulas.interleaved import Chunks, interleaved_is_known, interleaved_seconds, more_chunks_seconds
from comp_comm.formulas.pipeline import chunk_boundaries, in_flight
from comp_comm.formulas.uneven import uneven_bubble_seconds
from comp_comm.layers.stages import Stage, stage_layers
from comp_comm.sweeps.plan import make_plan
from comp_comm.sweeps.point import memory
from comp_comm.sweeps.result import sweep

# No vocabulary and one device a stage: all stages are alike, and only they send.
# The host is never waited for, and nothing is gathered beside GEMMs: nothing but passes and sends takes time.
EVEN = {"layers": 24, "hidden": 2048, "heads": 16, "vocab": 0, "seq_len": 1024, "cuda_graph": "full",
        "sequence_inputs": "kept"}  # fmt: skip
WORDS = {**EVEN, "vocab": 51200}


def step(**point):
    return make_plan(study_from({"hardware": "h100-sxm", "set": point})).evaluate(())


def explained(**point):
    return recorded(step(**point))


# -- a pipeline, pass by pass -----------------------------------------------------------------------------------------


PIPELINES = [("1f1b", 4, 1, 8), ("1f1b", 8, 1, 8), ("1f1b", 8, 1, 3), ("gpipe", 4, 1, 8), ("gpipe", 2, 1, 5),
             ("interleaved", 4, 2, 8), ("interleaved", 4, 6, 16), ("interleaved", 2, 3, 4), ("interleaved", 8, 3, 32),
             ("zero_bubble", 4, 1, 8), ("zero_bubble", 8, 1, 24), ("zero_bubble", 8, 1, 3), ("zb_h2", 4, 1, 7),
             ("zb_h2", 8, 1, 24), ("zb_v", 4, 1, 7), ("zb_v", 6, 1, 24), ("zb_v", 2, 1, 8), ("dualpipe", 2, 1, 4),
             ("dualpipe", 4, 1, 8), ("dualpipe", 8, 1, 24)]  # fmt: skip
IN_A_ROW = ("zb_h2", "zb_v")  # a stage begins its next step when it is done, however far the others are


def per_stage(schedule, v):
    """Return how many chunks of a stage a micro-batch goes through."""
    return 2 if schedule == "zb_v" else v


@pytest.mark.a_third
@pytest.mark.parametrize(("schedule", "p", "v", "m"), PIPELINES)
@pytest.mark.parametrize(("recompute", "tp"), [
    ("none", 1), ("full", 2), *(pytest.param(way, 1, marks=pytest.mark.slow) for way in ("selective", "full")),
])  # fmt: skip
def test_a_step_is_as_long_as_its_passes_one_by_one(schedule, p, v, m, recompute, tp):
    """Passes as long as `explain` says, each with what it waits for and the send that follows it."""
    answer = step(**EVEN, pp=p, vpp=v, accumulation=m, schedule=schedule, recompute=recompute, tp=tp, overlap_pp="off")
    found = recorded(answer)
    send = found["comm"]["pp"]["serialized_s"] / (2 * m)
    took = {phase: sum(op["seconds"] for op in found["operations"] if op["group"] == "tp" and op["phase"] == phase) / m
            for phase in ("forward", "backward", "recompute")}  # fmt: skip
    forward = found["forward_s"] / m + took["forward"] + send
    again = found["recompute_s"] / m + took["recompute"]
    backward = found["backward_s"] / m + took["backward"] + again + send
    weights = float(answer.pipeline.layer_times[0].compute.for_weights) * EVEN["layers"] / p
    of_stage = {"F": forward, "B": backward - weights, "W": weights}
    assert of_stage["W"] < of_stage["F"] < of_stage["B"]  # where the formulas of split backward passes hold
    chunk = {kind: seconds / per_stage(schedule, v) for kind, seconds in of_stage.items()}
    measured = passes.took_in_a_row if schedule in IN_A_ROW else passes.took
    took = measured(schedule, p, v, m, [chunk] * p)
    states = found["comm"].get("dp", {"serialized_s": 0, "exposed_s": 0})
    beside = found["optimizer_s"] + sum(each for name, each in states.items() if name in ("serialized_s", "exposed_s"))
    beside += found["comm"]["world"]["serialized_s"]
    assert found["step_s"] - beside == pytest.approx(took, rel=1e-9)
    assert found["bubble_s"] == pytest.approx(took - m * (forward + backward), rel=1e-9, abs=1e-9 * took)


@pytest.mark.parametrize(("schedule", "p", "m"), [("zero_bubble", 4, 8), ("zb_h2", 4, 7), ("zb_v", 4, 7),
                                                  ("dualpipe", 4, 8)])  # fmt: skip
def test_gradients_of_weights_wait_for_the_host_as_well(schedule, p, m):
    """The host is slower than the device, which it runs ahead of: of the 2.6 times that it launches a forward pass's
    kernels, one is forward, one the gradients of inputs, and 0.6 those of weights (a product has two gradients, most
    other work has one)."""
    fast = {"flops": 1e4, "memory_bandwidth": 1e4, "latency": 1e-4, "network": 1e4}
    found = explained(**{**EVEN, **fast, "cuda_graph": "none"}, pp=p, accumulation=m, schedule=schedule)
    launched = (found["forward_s"] + found["backward_s"] + found["host_s"]) / m / 2.6
    chunk = {"F": launched, "B": launched, "W": 0.6 * launched}
    halves = {kind: seconds / per_stage(schedule, 1) for kind, seconds in chunk.items()}
    measured = passes.took_in_a_row if schedule in IN_A_ROW else passes.took
    took = measured(schedule, p, 1, m, [halves] * p)
    assert found["bubble_s"] == pytest.approx(took - 2.6 * launched * m, rel=1e-3, abs=1e-3 * took)


@pytest.mark.parametrize(("p", "v", "m"), [(2, 1, 4), (4, 1, 16), (8, 1, 8), (4, 2, 8), (8, 3, 16)])
def test_the_bubble_is_p_less_1_over_m_v_of_the_rest(p, v, m):
    found = explained(**EVEN, pp=p, vpp=v, accumulation=m, overlap_pp="off")
    busy = found["compute_s"] + found["comm"]["pp"]["serialized_s"]
    assert found["bubble_s"] / busy == pytest.approx((p - 1) / (m * v))
    assert found["bubble_fraction"] == pytest.approx(found["bubble_s"] / found["step_s"])


def test_no_pipeline_waits():
    found = explained(**EVEN, accumulation=7)
    assert found["bubble_s"] == 0
    assert "pp" not in found["comm"]


@pytest.mark.a_third
@pytest.mark.parametrize(("schedule", "p", "v", "m"), [
    *PIPELINES, ("interleaved", 4, 2, 4), ("1f1b", 4, 1, 4), ("zero_bubble", 4, 1, 4),
])  # fmt: skip
def test_a_stage_holds_the_activations_of_passes_not_yet_taken_back(schedule, p, v, m):
    """Of the fullest stage; a chunk's activations are held until its weights have their gradients."""
    kept = memory(study_from({"hardware": "h100-sxm", "set": {
        **EVEN, "pp": p, "vpp": v, "schedule": schedule, "accumulation": m}}))["activations_bytes"]  # fmt: skip
    chunk = 34 * EVEN["seq_len"] * EVEN["hidden"] * EVEN["layers"] / (p * per_stage(schedule, v))
    assert kept == pytest.approx(max(passes.most_held(schedule, p, v, m, rank) for rank in range(p)) * chunk)


@pytest.mark.parametrize(("p", "v"), [(1, 1), (2, 1), (4, 1), (2, 2), (4, 3), (8, 2)])
def test_every_stage_holds_what_its_order_holds(p, v):
    for m, rank in itertools.product((p, 2 * p, 4 * p), range(p)):
        schedule = "interleaved" if v > 1 else "1f1b"
        assert float(in_flight(p, v, rank, m)) == passes.most_held(schedule, p, v, m, rank) / v


@pytest.mark.parametrize(("p", "v"), [(8, 3), (35, 3), (64, 2)])
def test_interleaving_holds_more_by_the_published_factor(p, v):
    """1 + (p - 1) / (p v): Korthikanti et al., section 4.2.3; 1F1B holds a whole model's worth of layers."""
    model = {**EVEN, "layers": p * v, "vocab": 0, "framework_gib": 0}
    plain, chunked = (memory(study_from({"hardware": "h100-sxm", "set": {**model, "pp": p, "vpp": n,
                      "accumulation": 4 * p}}))["activations_bytes"] for n in (1, v))  # fmt: skip
    assert plain == 34 * EVEN["seq_len"] * EVEN["hidden"] * p * v
    assert chunked / plain == pytest.approx(1 + (p - 1) / (p * v))


# -- uneven stages ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layers", "pp", "vpp"),
    [
        (26, 4, 6),
        (25, 4, 1),
        (9, 4, 2),
        (24, 5, 1),
        (61, 16, 1),
        (126, 16, 8),
        (26, 4, 7),
    ],
)
def test_layers_that_do_not_divide_are_dealt_out_without_a_flag(layers, pp, vpp):
    point = {**EVEN, "layers": layers, "pp": pp, "vpp": vpp, "accumulation": 4 * pp}
    assert step(**point).step_s > 0
    stages = stage_layers(layers, pp, vpp)
    assert sum(stages) == layers
    assert max(stages) - min(stages) <= vpp + 1  # the first and the last have the embedding and the head as well


@pytest.mark.parametrize(("layers", "pp", "vpp"), [(25, 4, 7), (5, 4, 2), (3, 4, 1)])
def test_more_chunks_than_layers_are_refused(layers, pp, vpp):
    point = {**EVEN, "layers": layers, "pp": pp, "vpp": vpp, "accumulation": 4 * pp}
    with pytest.raises(ConfigError, match="exceeds the layers"):
        make_plan(study_from({"hardware": "h100-sxm", "set": point}))


@pytest.mark.parametrize("pp", [2, 3, 4, 7, 16])
def test_every_layer_is_in_a_stage_and_the_ends_have_fewer(pp):
    for layers in range(pp, 5 * pp):
        stages = stage_layers(layers, pp)
        assert (len(stages), sum(stages)) == (pp, layers)
        if layers % pp == 0:
            assert set(stages) == {layers // pp}
        else:  # the embedding and the head are a layer each of the first and the last
            inner = [stages[0] + 1, *stages[1:-1], stages[-1] + 1]
            assert max(inner) - min(inner) <= 1


def chunks_of(answer, layers, send):
    """Return the seconds of the passes of every chunk of a model of like layers, with the sends they wait for."""
    pipe, made = answer.pipeline, {}
    for c, n in enumerate(layers):
        ends = (to_float(c == place) for place in (0, len(layers) - 1))
        chunk = Stage((to_float(n),), (to_float(0.0),), *ends, to_float(0.0))
        forward = sum(float(count * times.forward_pass_s) for times, count in pipe.layers_and_ends(chunk))
        both, weights = float(pipe.both_passes_s(chunk)), n * float(pipe.layer_times[0].compute.for_weights)
        made[c] = {"F": forward + send, "B": both - forward - weights + send, "W": weights}
    return made


UNEVEN = [("1f1b", 24, 4, 1, 4), ("1f1b", 25, 4, 1, 32), ("1f1b", 61, 16, 1, 64), ("1f1b", 13, 5, 1, 10),
          ("1f1b", 61, 16, 1, 9), ("1f1b", 126, 16, 1, 16), ("gpipe", 25, 4, 1, 8), ("interleaved", 62, 16, 2, 32),
          ("interleaved", 25, 4, 3, 32), ("interleaved", 26, 4, 7, 8), ("interleaved", 24, 2, 4, 6),
          ("interleaved", 22, 2, 12, 8), ("interleaved", 6, 2, 4, 40), ("interleaved", 30, 2, 4, 6),
          ("zero_bubble", 25, 4, 1, 32), ("zero_bubble", 61, 16, 1, 64), ("zb_h2", 25, 4, 1, 32),
          ("zb_h2", 61, 8, 1, 20), ("zb_v", 25, 4, 1, 12), ("zb_v", 30, 4, 1, 16)]  # fmt: skip


@pytest.mark.a_third
@pytest.mark.parametrize(("overlap", "vocab"), [
    ("off", 0), ("on", 51200), *(pytest.param(*both, marks=pytest.mark.slow) for both in (("on", 0), ("off", 51200))),
])  # fmt: skip
@pytest.mark.parametrize(("schedule", "layers", "p", "v", "m"), UNEVEN)
def test_uneven_stages_take_as_long_as_their_passes_one_by_one(schedule, layers, p, v, m, vocab, overlap):
    point = {**EVEN, "layers": layers, "vocab": vocab, "pp": p, "vpp": v, "accumulation": m, "overlap_pp": overlap}
    answer = step(**point, schedule=schedule)
    found, n = recorded(answer), p * v * (2 if schedule == "zb_v" else 1)
    send = float(answer.pipeline.sends_s) * p / n
    dealt = np.diff(chunk_boundaries(layers, n, np.arange(n + 1))).tolist()
    chunks = chunks_of(answer, dealt, 0.0 if overlap == "on" else send)
    spent = found["step_s"] - found["optimizer_s"] - found["comm"]["world"]["serialized_s"]
    measured = passes.took_in_a_row if schedule in IN_A_ROW else passes.took
    assert found["comm"]["pp"]["exposed_s"] == 0
    assert spent == pytest.approx(measured(schedule, p, v, m, chunks, send if overlap == "on" else 0.0), rel=1e-9)


@pytest.mark.a_third
@pytest.mark.parametrize(("overlap", "vocab"), [("off", 0), ("off", 51200), ("on", 51200)])
def test_unlike_stages_of_two_copies_take_as_long_as_their_passes_one_by_one(overlap, vocab):
    for layers, p, m in ((25, 4, 8), (25, 4, 24), (30, 4, 16), (5, 2, 6), (61, 16, 40)):
        point = {**EVEN, "layers": layers, "vocab": vocab, "pp": p, "accumulation": m, "overlap_pp": overlap}
        answer = step(**point, schedule="dualpipe")
        send = float(answer.pipeline.sends_s) / 2
        dealt = np.diff(chunk_boundaries(layers, p, np.arange(p + 1))).tolist()
        chunks = chunks_of(answer, dealt, 0.0 if overlap == "on" else send)
        assert answer.comm["pp"].exposed.item() == 0
        beside = answer.optimizer_s + sum(answer.communication.after_passes_s.values()) + answer.comm["dp"].visible
        took = passes.took("dualpipe", p, 1, m, chunks, send if overlap == "on" else 0.0)
        assert float(answer.step_s - beside) == pytest.approx(took, rel=1e-9)


@pytest.mark.a_third
@pytest.mark.parametrize("schedule", ["1f1b", "interleaved", "zero_bubble", "zb_h2", "zb_v", "dualpipe"])
@pytest.mark.parametrize("spread", [0, 0.02, 0.4])
def test_chunks_of_any_length_take_as_long_as_their_passes_one_by_one(schedule, spread):
    """Also where most of a long steady part is left out."""
    draw, whole = random.Random(f"{schedule}{spread}"), schedule in ("1f1b", "interleaved")
    for p, v, m in ((2, 2, 40), (4, 3, 8), (4, 2, 28)):
        v = v if schedule == "interleaved" else 1
        n = passes.chunks_of(schedule, p, v)
        lag = draw.choice([0.0, 0.1])
        chunks = {c: {kind: mean * draw.uniform(1 - spread, 1 + spread)
                      for kind, mean in (("F", 1.0), ("B", 1.3), ("W", 0.7))} for c in range(n)}  # fmt: skip
        ways = list(chunks.values()) * (2 if schedule == "dualpipe" else 1)
        took = {"F": [c["F"] for c in ways], "B": [c["B"] + whole * c["W"] for c in ways], "W": [c["W"] for c in ways]}
        seconds = ChunkSeconds({kind: to_float(each)[:, None] for kind, each in took.items()}, to_float(lag))
        found = step_seconds(PassOrder(Schedule.of(schedule), p, v), np.asarray(m), seconds)
        measured = passes.took_in_a_row if schedule in IN_A_ROW else passes.took
        assert found.item() == pytest.approx(measured(schedule, p, v, m, chunks, lag), rel=1e-9)


@pytest.mark.a_third
@pytest.mark.parametrize(("stages", "lag"), [([1, 1, 1, 1], 0.2), ([3, 5, 5, 5, 4], 0.6), ([2, 2, 6, 6, 1, 6.5], 0.4),
                                             ([4, 4, 2], 0.0)])  # fmt: skip
def test_stages_that_wait_for_each_other_in_a_circle_repeat_after_as_many_micro_batches(stages, lag):
    """With a lag a micro-batch goes down c stages and up again in the time of c micro-batches: the slowest such circle
    sets the pace, and the steps between two returns are not alike."""
    p, b = len(stages), np.asarray(stages) * 0.6
    seconds = ChunkSeconds({"F": np.asarray(stages)[:, None] * 0.4, "B": b[:, None]}, to_float(lag))

    def longest(m):
        return step_seconds(PassOrder(Schedule.ONE_F_ONE_B, p, 1), np.asarray(m), seconds).item()

    each = [{"F": 0.4 * t, "B": 0.6 * t, "W": 0.0} for t in stages]
    for m in (1, p, 5 * p, 5 * p + 1, 101):
        assert longest(m) == pytest.approx(passes.took("1f1b", p, 1, m, each, lag), rel=1e-9)
    circles = (stages[begin:end] for begin in range(p) for end in range(begin + 1, p + 1))
    mean, c = max(((sum(circle) + 2 * (len(circle) - 1) * lag) / len(circle), len(circle)) for circle in circles)
    many = 10**6
    assert longest(many + c) - longest(many) == pytest.approx(c * mean, rel=1e-6)
    assert longest(many) == pytest.approx(longest(101) + (many - 101) // c * c * mean, rel=1e-4)


@pytest.mark.parametrize(("p", "v"), [(2, 2), (3, 2), (4, 3), (8, 2)])
def test_interleaved_chunks_take_their_longest_path_where_it_is_known(p, v):
    """Drawn first and last chunks, shorter or longer than the others, and lags."""
    draw, known = np.random.default_rng(p), []
    for m in (p, 2 * p, 6 * p):
        longer = [draw.choice([-0.9, -0.1, 0, 0, 0.1, 0.5, 2], 300) * draw.random(300) for _ in range(4)]
        f, b, lag = np.ones(300), draw.choice([1, 1.1, 2, 3], 300), draw.choice([0, 0.05, 0.2, 0.3], 300)
        forward, backward = Chunks(f + longer[0], f, f + longer[1]), Chunks(b + longer[2], b, b + longer[3])
        of_chunk = (0, *[1] * (p * v - 2), 2)
        seconds = ChunkSeconds({"F": np.stack([forward[c] for c in of_chunk]),
                                "B": np.stack([backward[c] for c in of_chunk])}, lag)  # fmt: skip
        longest = step_seconds(PassOrder(Schedule.INTERLEAVED, p, v), np.asarray(m), seconds)
        formula = interleaved_seconds(p, v, m, forward, backward, lag)
        there = interleaved_is_known(p, forward, backward, lag)
        assert formula[there] == pytest.approx(longest[there], rel=1e-12)
        assert (formula <= longest * (1 + 1e-12)).all()  # it is a path, if not the longest
        known.append(there.mean())
    assert 0.3 < min(known) < max(known) < 0.9


@pytest.mark.a_third
@pytest.mark.parametrize(("p", "m"), [(2, 4), (2, 10), (4, 8)])
def test_each_chunk_of_a_stage_more_adds_as_much_whatever_the_ends_take(p, m):
    """Stages with chunks between the first and the last that are alike, with a lag of up to half a forward pass."""
    draw = random.Random(p * m)
    for _ in range(12):
        f, b, lag = 1.0, draw.choice([1.0, 1.7, 3.0]), draw.choice([0.0, 0.1, 0.5])
        ends = [{"F": f * draw.uniform(0, 2), "B": b * draw.uniform(0, 2), "W": 0.0} for _ in range(2)]

        def took(v, f=f, b=b, lag=lag, ends=ends):
            chunks = [ends[0], *[{"F": f, "B": b, "W": 0.0}] * (p * v - 2), ends[1]]
            return passes.took("interleaved", p, v, m, dict(enumerate(chunks)), lag)

        forward, backward = (Chunks(ends[0][kind], inner, ends[1][kind]) for kind, inner in (("F", f), ("B", b)))
        for v in (3, 6):
            adds, known = more_chunks_seconds(p, v - 2, m, forward, backward, lag)
            assert known
            assert took(v) == pytest.approx(took(2) + float(adds), rel=1e-12)
    assert not more_chunks_seconds(p, 1, m, Chunks(2.0, 2.0, 2.0), Chunks(1.0, 1.0, 1.0))[1]


@pytest.mark.parametrize("p", [1, 2, 3, 5, 8])
def test_1f1b_takes_its_longest_path_whatever_each_stage_takes(p):
    draw = random.Random(p)
    for spread in (0, 0.1, 0.5, 0.95):
        for m in (1, 2, max(p - 1, 1), p, p + 1, 2 * p, 5 * p):
            forward = [draw.uniform(1 - spread, 1 + spread) for _ in range(p)]
            backward = [seconds * draw.uniform(2 - 1.8 * spread, 2 + spread) for seconds in forward]
            stages = [{"F": f, "B": b, "W": 0.0} for f, b in zip(forward, backward, strict=True)]
            pace = max(f + b for f, b in zip(forward, backward, strict=True))
            waits = passes.took("1f1b", p, 1, m, stages) - m * pace
            found = uneven_bubble_seconds(forward, backward, [1] * p, m)
            assert float(found) == pytest.approx(waits, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("counts", [(1, 6, 1), (3, 0, 5), (1, 7, 0), (2, 3, 4), (8,), (1, 1, 1, 6, 1)])
def test_runs_of_like_stages_wait_as_their_stages_do(counts):
    draw = random.Random(sum(counts))
    for m in (1, 2, 3, 5, 7, 9, 40):
        forward = [draw.uniform(0.5, 1.5) for _ in counts]
        backward = [draw.uniform(0.5, 3) for _ in counts]
        each = [[seconds for seconds, count in zip(runs, counts, strict=True) for _ in range(count)]
                for runs in (forward, backward)]  # fmt: skip
        found = uneven_bubble_seconds(forward, backward, counts, m)
        assert float(found) == pytest.approx(float(uneven_bubble_seconds(*each, [1] * sum(counts), m)), abs=1e-9)


# -- overlap ----------------------------------------------------------------------------------------------------------

LAYOUT = {**WORDS, "tp": 2, "pp": 2, "dp": 4, "accumulation": 8, "overlap_dp": "off"}
EXPERTS = {**LAYOUT, "experts": 8, "top_k": 2, "moe_ffn_hidden": 1024, "ep": 4, "etp": 1}
SWITCHES = [(LAYOUT, "tp"), (LAYOUT, "pp"), (LAYOUT, "dp"), ({**LAYOUT, "zero": 3}, "dp"), (EXPERTS, "ep")]


def parts(found, group):
    return tuple(found["comm"][group][f"{name}_s"] for name in ("serialized", "hidden", "exposed"))


@pytest.mark.a_third
@pytest.mark.parametrize(("point", "group"), SWITCHES)
@pytest.mark.parametrize("slower", [1, 3])
def test_overlap_moves_seconds_and_interference_slows_only_them(point, group, slower):
    off = explained(**point, interference=slower)
    on = explained(**{**point, f"overlap_{group}": "on"}, interference=slower)
    serialized, hidden, exposed = parts(on, group)
    all_of_it = parts(off, group)[0]
    assert parts(off, group)[1:] == (0, 0)
    ends = {"tp"}  # what the embedding and the logits send overlaps with nothing
    if group not in ends:
        assert serialized == 0
        assert hidden + exposed == pytest.approx(slower * all_of_it)
    else:
        assert hidden + exposed == pytest.approx(slower * (all_of_it - serialized))
    assert hidden > 0
    for other in set(on["comm"]) - {group}:
        assert parts(on, other) == pytest.approx(parts(off, other))
    for name in ("compute_s", "recompute_s", "optimizer_s"):
        assert on[name] == off[name]


def test_interference_without_overlap_changes_nothing():
    one, three = (explained(**LAYOUT, interference=f) for f in (1, 3))
    assert {k: v for k, v in one.items() if k != "operations"} == {k: v for k, v in three.items() if k != "operations"}


@pytest.mark.a_third
@pytest.mark.parametrize("name", ["overlap_tp", "overlap_dp", "overlap_pp", "overlap_ep", "cp_comm"])
def test_interference_in_a_table_slows_only_the_rows_that_overlap(name):
    fixed = {**EXPERTS, "cp": 2, "interference": 3}
    fixed.pop(name, None)
    values = ["p2p", "all_gather"] if name == "cp_comm" else ["off", "on"]
    rows = sweep({"hardware": "h100-sxm", "set": fixed, "sweep": {name: values}}).columns["step_s"]
    alone = [float(step(**{**fixed, name: value}).step_s) for value in values]
    assert list(rows) == pytest.approx(alone, rel=1e-12)


def test_modules_of_multi_token_prediction_are_in_the_last_stage():
    found = explained(**WORDS, pp=2, mtp_layers=2, accumulation=3)
    projections = {op["part"]: op["calls"] for op in found["operations"]
                   if (op["operation"], op["phase"]) == ("QKV projection", "forward")}  # fmt: skip
    assert projections == {"layer": 3 * 12, "MTP module": 3 * 2}


@pytest.mark.parametrize("t", [2, 4, 8])
def test_the_first_part_of_a_split_gemm_is_not_hidden(t):
    point = {**EVEN, "hidden": 8192, "heads": 64, "tp": t}
    _, hidden, exposed = parts(explained(**point, overlap_tp="on"), "tp")
    assert exposed / (hidden + exposed) == pytest.approx(1 / t)


def test_a_ring_of_keys_hides_under_attention_and_no_more():
    found = explained(**{**EVEN, "seq_len": 65536}, cp=4)
    serialized, hidden, exposed = parts(found, "cp")
    assert serialized == exposed == 0
    short = explained(**EVEN, cp=4)
    core = {phase: sum(op["seconds"] for op in short["operations"] if op["operation"] == "attention"
            and op["phase"] == phase) for phase in ("forward", "backward")}  # fmt: skip
    assert hidden > 0
    assert 0 < parts(short, "cp")[1] <= sum(core.values())
    assert parts(short, "cp")[2] > 0


def test_sends_of_interleaved_chunks_overlap_unless_they_are_said_not_to():
    point = {**EVEN, "pp": 4, "accumulation": 8}
    for vpp, usual, other in ((1, "off", "on"), (2, "on", "off")):
        given, not_given = (explained(**point, vpp=vpp, **more)["comm"]["pp"] for more in ({"overlap_pp": usual}, {}))
        assert given == not_given
        assert explained(**point, vpp=vpp, overlap_pp=other)["comm"]["pp"] != given
