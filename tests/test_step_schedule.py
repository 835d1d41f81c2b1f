"""Schedules against a simulation of every pass, uneven stages, and overlap against the sums it must keep."""

from __future__ import annotations

import itertools

import pytest
from face import recorded

from comp_comm.configs.study import study_from
from comp_comm.errors import ConfigError
from comp_comm.formulas.arrays import to_float
from comp_comm.formulas.pipeline import in_flight
from comp_comm.layers.stages import Stage, stage_layers
from comp_comm.sweeps import sweep
from comp_comm.sweeps.plan import make_plan
from comp_comm.sweeps.point import memory

# No vocabulary and one device a stage: all stages are alike, and only they send.
EVEN = {"layers": 24, "hidden": 2048, "heads": 16, "vocab": 0, "seq_len": 1024}
WORDS = {**EVEN, "vocab": 51200}


def step(**point):
    return make_plan(study_from({"hardware": "h100-sxm", "set": point})).evaluate(())


def explained(**point):
    return recorded(step(**point))


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
    """Return when the last stage is done; ``seconds`` are those of each stage's passes."""
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
                free[rank] = ends[rank, op] = (
                    start + (seconds[rank] if isinstance(seconds, list) else seconds)[op[0]] / v
                )
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
             ("zero_bubble", 4, 1, 8), ("zero_bubble", 8, 1, 24), ("zero_bubble", 4, 1, 1), ("zero_bubble", 8, 1, 5),
             ("zero_bubble", 2, 1, 2)]  # fmt: skip


@pytest.mark.parametrize(("schedule", "p", "v", "m"), PIPELINES)
@pytest.mark.parametrize(("recompute", "tp"), [("none", 1), ("selective", 1), ("full", 1), ("full", 2)])
def test_a_step_is_as_long_as_its_passes_one_by_one(schedule, p, v, m, recompute, tp):
    """Passes as long as `explain` says, each with what it waits for and the send that follows it."""
    answer = step(**EVEN, pp=p, vpp=v, accumulation=m, schedule=schedule, recompute=recompute, tp=tp)
    found = recorded(answer)
    send = found["comm"]["pp"]["serialized_s"] / (2 * m)
    took = {phase: sum(op["seconds"] for op in found["operations"] if op["group"] == "tp" and op["phase"] == phase) / m
            for phase in ("forward", "backward", "recompute")}  # fmt: skip
    forward = found["forward_s"] / m + took["forward"] + send
    again = found["recompute_s"] / m + took["recompute"]
    backward = found["backward_s"] / m + took["backward"] + again + send
    weights = float(answer.pipeline.layers[0].compute.for_weights) * EVEN["layers"] / p
    seconds = {"F": forward, "B": backward}
    if schedule == "zero_bubble":
        seconds |= {"B": backward - weights, "W": weights}
    beside = found["optimizer_s"] + found["comm"]["world"]["serialized_s"]
    took = simulate(schedule, p, v, m, [seconds] * p)
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


@pytest.mark.parametrize(("layers", "pp", "vpp"), [(26, 4, 6), (25, 4, 1), (9, 4, 2), (24, 5, 1), (61, 16, 1)])
def test_layers_that_do_not_divide_are_dealt_out_without_a_flag(layers, pp, vpp):
    point = {**EVEN, "layers": layers, "pp": pp, "vpp": vpp, "accumulation": 4 * pp}
    assert step(**point).step_s > 0
    stages = stage_layers(layers, pp, vpp)
    assert sum(stages) == layers
    assert max(stages) - min(stages) <= vpp + 1  # the first and the last have the embedding and the head as well


@pytest.mark.parametrize(("layers", "pp", "vpp"), [(26, 4, 7), (6, 4, 2), (3, 4, 1)])
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


def stages_of(answer, layers):
    """Return the seconds of the passes of every stage of a model of like layers, with the sends that follow them."""
    pipe, last = answer.pipeline, len(layers) - 1
    stages = [Stage((to_float(n),), (to_float(0.0),), to_float(i == 0), to_float(i == last), to_float(i))
              for i, n in enumerate(layers)]  # fmt: skip
    forward = [sum(float(count * times.forward_s) for times, count in pipe.parts(stage)) for stage in stages]
    both = [float(pipe.passes_s(stage)) for stage in stages]
    send = float(pipe.sends_s)
    return [{"F": f + send, "B": t - f + send} for f, t in zip(forward, both, strict=True)]


UNEVEN = [("1f1b", 24, 4, 1, 4), ("1f1b", 25, 4, 1, 32), ("1f1b", 61, 16, 1, 64), ("1f1b", 13, 5, 1, 10),
          ("gpipe", 25, 4, 1, 8), ("interleaved", 62, 16, 2, 64), ("interleaved", 25, 4, 3, 32)]  # fmt: skip


@pytest.mark.parametrize("vocab", [0, 51200])
@pytest.mark.parametrize(("schedule", "layers", "p", "v", "m"), UNEVEN)
def test_uneven_stages_take_as_long_as_their_passes_one_by_one(schedule, layers, p, v, m, vocab):
    """The slowest stage sets the pace, and waits once for every other one: (m - 1) t_max + sum of t.

    That is no less than it takes: where stages after the slowest one are quicker, it waits less for them.
    """
    point = {**EVEN, "layers": layers, "vocab": vocab, "pp": p, "vpp": v, "accumulation": m}
    answer = step(**point, schedule="gpipe" if schedule == "gpipe" else "1f1b")
    found = recorded(answer)
    seconds = stages_of(answer, stage_layers(layers, p, v))
    took = simulate(schedule, p, v, m, seconds)
    spent = found["step_s"] - found["optimizer_s"] - found["comm"]["world"]["serialized_s"]
    passes = [sum(each.values()) for each in seconds]
    assert spent == pytest.approx((m - 1 / v) * max(passes) + sum(passes) / v, rel=1e-9)
    slowest = max(i for i in range(p) if passes[i] > (1 - 1e-9) * max(passes))
    slack = sum(max(passes) - each for each in passes[slowest + 1 :])
    if v == 1:
        near = 2e-3 * took  # forward and backward passes may have their slowest in different stages
        assert took - near <= spent <= took + slack + near
    else:
        assert spent == pytest.approx(took, rel=0.03)


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
