"""Schedules against a simulation of every pass, uneven stages, and overlap against the sums it must keep."""

from __future__ import annotations

import itertools

import pytest

from comp_comm.configs.study import study_from
from comp_comm.costmodels.explanation import explain_step
from comp_comm.errors import ConfigError
from comp_comm.formulas.pipeline import in_flight, stage_layers
from comp_comm.sweep import sweep
from comp_comm.sweep.plan import make_plan
from comp_comm.sweep.point import memory

# No vocabulary and one device a stage: all stages are alike, and only they send.
EVEN = {"layers": 24, "hidden": 2048, "heads": 16, "vocab": 0, "seq_len": 1024}
WORDS = {**EVEN, "vocab": 51200}


def step(**point):
    return make_plan(study_from({"hardware": "h100-sxm", "set": point})).evaluate(())


def explained(**point):
    return explain_step(step(**point))


# -- a pipeline, pass by pass -----------------------------------------------------------------------------------------


def order(schedule, p, v, m, rank):
    """Return what a stage does in which order: passes F, B and W of a micro-batch and chunk."""
    if schedule == "gpipe":
        return [("F", j, 0) for j in range(m)] + [("B", j, 0) for j in range(m)]
    if schedule == "zero_bubble":
        return zero_bubble_order(p, m, rank)
    total = m * v

    def passed(number, kind):
        chunk = number % (p * v) // p
        return kind, number // (p * v) * p + number % p, chunk if kind == "F" else v - 1 - chunk

    ahead = min(total, 2 * (p - rank - 1) + (v - 1) * p if v > 1 else p - rank - 1)
    found = [passed(k, "F") for k in range(ahead)]
    for k in range(total - ahead):
        found += [passed(ahead + k, "F"), passed(k, "B")]
    return found + [passed(k, "B") for k in range(total - ahead, total)]


def zero_bubble_order(p, m, rank):
    """ZB-H1: gradients of weights wait for as many micro-batches as the stage's place, and fill what is left."""
    ahead, done = min(m, p - rank), 0
    found = [("F", j, 0) for j in range(ahead)]
    for j in range(m):
        found.append(("B", j, 0))
        if j - done >= rank:
            found.append(("W", done, 0))
            done += 1
        if ahead < m:
            found.append(("F", ahead, 0))
            ahead += 1
    return found + [("W", j, 0) for j in range(done, m)]


def needs(p, v, rank, op):
    """Return the passes, by stage, that one waits for."""
    kind, j, chunk = op
    if kind == "W":
        return [(rank, ("B", j, chunk))]
    if kind == "F":
        if rank > 0:
            return [(rank - 1, op)]
        return [(p - 1, ("F", j, chunk - 1))] if chunk else []
    own = [(rank, ("F", j, chunk))]
    if rank < p - 1:
        return [*own, (rank + 1, op)]
    return [*own, (0, ("B", j, chunk + 1))] if chunk < v - 1 else own


def simulate(schedule, p, v, m, seconds):
    """Return when the last stage is done."""
    orders, ends, free = [order(schedule, p, v, m, rank) for rank in range(p)], {}, [0.0] * p
    place = [0] * p
    while any(place[rank] < len(orders[rank]) for rank in range(p)):
        moved = False
        for rank in range(p):
            while place[rank] < len(orders[rank]):
                op = orders[rank][place[rank]]
                waits = needs(p, v, rank, op)
                if any(other not in ends for other in waits):
                    break
                start = max([free[rank], *(ends[other] for other in waits)])
                free[rank] = ends[rank, op] = start + seconds[op[0]] / v
                place[rank] += 1
                moved = True
        assert moved, "the order waits for itself"
    return max(free)


def most_held(schedule, p, v, m, rank):
    """Return how many micro-batches of a whole stage are held at most: forward passes before their backward."""
    held = most = 0
    for kind, _, _ in order(schedule, p, v, m, rank):
        held += {"F": 1, "B": -1, "W": 0}[kind]
        most = max(most, held)
    return most / v


PIPELINES = [("1f1b", 4, 1, 8), ("1f1b", 8, 1, 8), ("1f1b", 8, 1, 3), ("gpipe", 4, 1, 8), ("gpipe", 2, 1, 5),
             ("interleaved", 4, 2, 8), ("interleaved", 4, 6, 16), ("interleaved", 2, 3, 4), ("interleaved", 8, 3, 32),
             ("zero_bubble", 4, 1, 8), ("zero_bubble", 8, 1, 24)]  # fmt: skip


@pytest.mark.parametrize(("schedule", "p", "v", "m"), PIPELINES)
@pytest.mark.parametrize(("recompute", "tp"), [("none", 1), ("selective", 1), ("full", 1), ("full", 2)])
def test_a_step_is_as_long_as_its_passes_one_by_one(schedule, p, v, m, recompute, tp):
    """Passes as long as `explain` says, each with what it waits for and the send that follows it."""
    answer = step(**EVEN, pp=p, vpp=v, accumulation=m, schedule=schedule, recompute=recompute, tp=tp)
    found = explain_step(answer)
    send = found["comm"]["pp"]["serialized_s"] / (2 * m)
    took = {phase: sum(op["seconds"] for op in found["operations"] if op["group"] == "tp" and op["phase"] == phase) / m
            for phase in ("forward", "backward", "recompute")}  # fmt: skip
    forward = found["forward_s"] / m + took["forward"] + send
    again = found["recompute_s"] / m + took["recompute"]
    backward = found["backward_s"] / m + took["backward"] + again + send
    weights = float(answer.layer.compute.for_weights) * EVEN["layers"] / p
    seconds = {"F": forward, "B": backward}
    if schedule == "zero_bubble":
        seconds |= {"B": backward - weights, "W": weights}
    beside = found["optimizer_s"] + found["comm"]["world"]["serialized_s"]
    took = simulate(schedule, p, v, m, seconds)
    assert found["step_s"] - beside == pytest.approx(took, rel=1e-9)
    assert found["bubble_s"] == pytest.approx(took - m * (forward + backward), rel=1e-9)


@pytest.mark.parametrize(("p", "v", "m"), [(2, 1, 4), (4, 1, 16), (8, 1, 8), (4, 2, 8), (8, 3, 16)])
def test_the_bubble_is_p_less_1_over_m_v_of_the_rest(p, v, m):
    found = explained(**EVEN, pp=p, vpp=v, accumulation=m)
    busy = found["compute_s"] + found["comm"]["pp"]["serialized_s"]
    assert found["bubble_s"] / busy == pytest.approx((p - 1) / (m * v))
    assert found["bubble_fraction"] == pytest.approx(found["bubble_s"] / found["step_s"])


def test_no_pipeline_waits():
    found = explained(**EVEN, accumulation=7)
    assert found["bubble_s"] == 0
    assert "pp" not in found["comm"]


@pytest.mark.parametrize(("schedule", "p", "v", "m"), [
    *((s, p, v, m) for s, p, v, m in PIPELINES if s != "zero_bubble"), ("interleaved", 4, 2, 4), ("1f1b", 4, 1, 4),
])  # fmt: skip
def test_a_first_stage_holds_the_activations_of_passes_not_yet_taken_back(schedule, p, v, m):
    kept = {steps: memory(study_from({"hardware": "h100-sxm", "set": {
        **EVEN, "pp": p, "vpp": v, "schedule": schedule, "accumulation": steps}}))["activations_bytes"]
        for steps in (m,)}  # fmt: skip
    one = 34 * EVEN["seq_len"] * EVEN["hidden"] * EVEN["layers"] / p
    assert kept[m] == pytest.approx(most_held(schedule, p, v, m, 0) * one)


@pytest.mark.parametrize(("p", "v"), [(1, 1), (2, 1), (4, 1), (2, 2), (4, 3), (8, 2)])
def test_every_stage_holds_what_its_order_holds(p, v):
    for m, rank in itertools.product((p, 2 * p, 4 * p), range(p)):
        schedule = "interleaved" if v > 1 else "1f1b"
        assert float(in_flight(p, v, rank, m)) == min(m, most_held(schedule, p, v, m, rank))


@pytest.mark.parametrize(("p", "v"), [(8, 3), (35, 3), (64, 2)])
def test_interleaving_holds_more_by_the_published_factor(p, v):
    """1 + (p - 1) / (p v): Korthikanti et al., section 4.2.3; 1F1B holds a whole model's worth of layers."""
    model = {**EVEN, "layers": p * v, "vocab": 0, "framework_gib": 0}
    plain, chunked = (memory(study_from({"hardware": "h100-sxm", "set": {**model, "pp": p, "vpp": n,
                      "accumulation": 4 * p}}))["activations_bytes"] for n in (1, v))  # fmt: skip
    assert plain == 34 * EVEN["seq_len"] * EVEN["hidden"] * p * v
    assert chunked / plain == pytest.approx(1 + (p - 1) / (p * v))


# -- uneven stages ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("layers", "pp", "vpp"), [(26, 4, 7), (25, 4, 1), (6, 4, 2), (24, 5, 1), (3, 4, 1)])
def test_stages_that_come_out_uneven_are_refused_unless_allowed(layers, pp, vpp):
    point = {**EVEN, "layers": layers, "pp": pp, "vpp": vpp, "accumulation": 4 * pp}
    with pytest.raises(ConfigError, match="exceeds the layers" if layers < pp * vpp else "divides neither layers"):
        make_plan(study_from({"hardware": "h100-sxm", "set": point}))
    if layers >= pp * vpp:
        assert step(**point, uneven_stages="on").step_s > 0


@pytest.mark.parametrize("pp", [2, 3, 4, 7, 16])
def test_every_layer_is_in_a_stage_and_none_has_two_more_than_another(pp):
    for layers in range(pp, 5 * pp):
        first, between, last = map(float, stage_layers(layers, pp, 1))
        stages = [n for n in (first, between, last) if n]
        assert max(stages) - min(stages) <= 1
        inner = layers - first - last
        assert (pp - 2) * (between - 1) < inner <= (pp - 2) * between if pp > 2 else inner == 0


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
@pytest.mark.parametrize("m", [4, 32])
def test_the_slowest_stage_sets_the_pace(schedule, m):
    """Every micro-batch takes what the last stage does with its logits; the rest is a bubble of average stages."""
    answer = step(**WORDS, pp=4, accumulation=m, schedule=schedule)
    found, pipe = explain_step(answer), answer.pipeline
    paces = [float(pipe.forward(stage) + pipe.backward(stage)) for stage in (pipe.slowest, pipe.average)]
    assert float(pipe.slowest.logits) == 1
    assert paces[0] > paces[1]
    send = found["comm"]["pp"]["serialized_s"] / m
    beside = found["optimizer_s"] + found["comm"]["world"]["serialized_s"]
    assert found["step_s"] - beside == pytest.approx(m * (paces[0] + send) + 3 * (paces[1] + send))
    # Passes one by one would leave the slowest stage out of the average: no more than this is added.
    others = 4 * paces[1] - paces[0]
    assert 0 < 3 * paces[1] - others < 0.25 * paces[0]


# -- overlap ----------------------------------------------------------------------------------------------------------

LAYOUT = {**WORDS, "tp": 2, "pp": 2, "dp": 4, "accumulation": 8, "overlap_dp": "off"}
EXPERTS = {**LAYOUT, "experts": 8, "top_k": 2, "moe_ffn_hidden": 1024, "ep": 4, "etp": 1}
SWITCHES = [(LAYOUT, "tp"), (LAYOUT, "pp"), (LAYOUT, "dp"), ({**LAYOUT, "zero": 3}, "dp"), (EXPERTS, "ep")]


def parts(found, group):
    return tuple(found["comm"][group][f"{name}_s"] for name in ("serialized", "hidden", "exposed"))


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
    (layer,) = [op for op in found["operations"] if (op["operation"], op["phase"]) == ("QKV projection", "forward")]
    assert layer["calls"] == 3 * (12 + 2)


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
