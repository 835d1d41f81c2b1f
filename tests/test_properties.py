"""What must hold whatever the numbers are: of the formulas, the cost model, the engine, and solve."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from amount import examples
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from comp_comm.choices import CountedGemms, Precision
from comp_comm.configs.hardware_file import load_profile
from comp_comm.configs.study import study_from
from comp_comm.costmodels import Scenario
from comp_comm.costmodels.comp_vs_comm import MODEL
from comp_comm.costmodels.comp_vs_comm.model import evaluate
from comp_comm.formulas import collectives, edges, transformer
from comp_comm.hardware.evolution import evolve
from comp_comm.hardware.numbers import Hardware, Tier, Timing
from comp_comm.layout import Layout
from comp_comm.sweeps import engine, ranking
from comp_comm.sweeps.plan import make_plan
from comp_comm.sweeps.result import sweep
from comp_comm.sweeps.solve import ask, solve
from comp_comm.transformer import Transformer, gemm_count

# The same examples in every run: a check in CI must not depend on luck. --hypothesis-profile many explores.
FEW = settings(max_examples=examples(), deadline=None, derandomize=True)
FIXTURES = settings(FEW, suppress_health_check=[HealthCheck.function_scoped_fixture])
ONE_LAYER = {"cost_model": "comp_vs_comm"}
NUMBERS = [name for name, column in MODEL.columns.items()]
FRACTIONS = ("serialized_comm_fraction", "visible_comm_fraction")

hidden_sizes = st.sampled_from([2**i for i in range(8, 18)]) | st.integers(1, 400).map(lambda n: 256 * n)
sequences = st.integers(1, 65536)
batches = st.integers(1, 64)
degrees = st.sampled_from([2**i for i in range(9)])
factors = st.floats(0.01, 100)


@cache
def mi210(preset):
    return load_profile("mi210").hardware("fp16", preset)


@st.composite
def made_up_devices(draw, latency=True):
    """A device with one to three tiers, and any timing."""
    tiers, domain = [], 1
    for _ in range(draw(st.integers(1, 3))):
        domain *= draw(st.sampled_from([2, 4, 8]))
        tiers.append(Tier(
            domain=float(domain),
            bandwidth=draw(st.floats(1e9, 1e12)),
            latency=draw(st.floats(0, 1e-4)) if latency else 0.0,
            efficiency=draw(st.floats(0.1, 1)),
            mesh=draw(st.sampled_from([0.0, 1.0])) if not tiers else 0.0,
        ))  # fmt: skip
    tiers[-1] = replace(tiers[-1], domain=1e9, mesh=0.0)
    timing = Timing(
        gemm_efficiency=draw(st.floats(0.1, 1)),
        attention_efficiency=draw(st.floats(0.1, 1)),
        gemm_ramp_tokens=draw(st.floats(0, 5000)),
        kernel_latency=draw(st.floats(0, 1e-5)) if latency else 0.0,
        memory_efficiency=draw(st.floats(0.1, 1)),
        activation_passes=draw(st.sampled_from([0.0, 5.6])) if latency else 0.0,
        score_passes=draw(st.sampled_from([0.0, 8.3])) if latency else 0.0,
        use_tiers=draw(st.sampled_from([0.0, 1.0])),
        ring_limit=draw(st.sampled_from([0.0, 1.0])),
        network_efficiency=draw(st.floats(0.1, 1)),
        all_reduce_latency=draw(st.floats(0, 1e-4)) if latency else 0.0,
    )
    return Hardware(draw(st.floats(1e12, 1e16)), 1e11, draw(st.floats(1e11, 1e13)), tuple(tiers), timing)


def presets(*names):
    return st.sampled_from(names).map(mi210)


any_device = made_up_devices() | presets("A", "B", "C")


@st.composite
def scenarios(draw, device=any_device):
    return Scenario(
        Transformer(draw(hidden_sizes), draw(sequences)),
        Layout(draw(batches), draw(degrees), draw(degrees)),
        draw(device),
        draw(st.sampled_from([gemm_count(counted) for counted in CountedGemms])),
        draw(st.sampled_from([1, 2, 4])),
    )


def columns(scenario):
    return {name: float(column.of(evaluate(scenario))) for name, column in MODEL.columns.items()}


# --- formulas --------------------------------------------------------------------------------------------------------


@FEW
@given(st.floats(1, 1e15), st.integers(1, 4096))
def test_an_all_reduce_is_a_reduce_scatter_and_an_all_gather(message, n):
    parts = collectives.reduce_scatter_wire_bytes(message, n) + collectives.all_gather_wire_bytes(message, n)
    assert collectives.all_reduce_wire_bytes(message, n) == pytest.approx(parts, rel=1e-12)
    assert collectives.all_reduce_wire_bytes(message, n) < collectives.all_reduce_volume_bytes(message)
    assert collectives.all_reduce_wire_bytes(message, n + 1) > collectives.all_reduce_wire_bytes(message, n)


@FEW
@given(hidden_sizes, sequences, degrees, factors, st.sampled_from([gemm_count(counted) for counted in CountedGemms]))
def test_edge_falls_with_tp_and_grows_with_the_model(hidden, seq_len, tp, factor, count):
    edge = edges.amdahl_edge(hidden, seq_len, tp, 2, *count)
    assert edges.amdahl_edge(hidden, seq_len, 2 * tp, 2, *count) == pytest.approx(edge / 2)
    assert edges.amdahl_edge(hidden + 1, seq_len, tp, 2, *count) > edge
    assert edges.amdahl_edge(hidden, seq_len + 1, tp, 2, *count) > edge
    # H and SL by a factor: the edge by that factor (Eq 6 is of first order).
    assert edges.amdahl_edge(factor * hidden, factor * seq_len, tp, 2, *count) == pytest.approx(factor * edge)
    assert edges.layer_slack_advantage(hidden, seq_len, 1, 2, *count) > edges.slack_advantage(seq_len, 1)


@FEW
@given(hidden_sizes, sequences, batches, degrees)
def test_shards_make_the_whole(hidden, seq_len, batch, tp):
    one, shard = (transformer.layer_forward_flops(hidden, seq_len, batch, n) for n in (1, tp))
    assert shard * tp == pytest.approx(one)
    assert transformer.layer_weights(hidden, tp) * tp == pytest.approx(transformer.layer_weights(hidden))


# --- the cost model --------------------------------------------------------------------------------------------------


@FEW
@given(scenarios())
def test_parts_make_the_whole(scenario):
    b = columns(scenario)
    assert b["hidden_comm_s"] + b["exposed_comm_s"] == pytest.approx(b["overlapped_comm_s"], rel=1e-12)
    assert b["hidden_comm_s"] <= b["compute_s"]
    assert b["step_s"] == pytest.approx(b["compute_s"] + b["serialized_comm_s"] + b["exposed_comm_s"], rel=1e-12)
    f = b["serialized_comm_fraction"]
    assert f * (b["compute_s"] + b["serialized_comm_s"]) == pytest.approx(b["serialized_comm_s"], rel=1e-12)
    exposed = b["visible_comm_fraction"]
    assert (1 - exposed) * b["step_s"] == pytest.approx(b["compute_s"], rel=1e-9)
    for name in FRACTIONS:
        assert 0 <= b[name] <= 1
    for name in NUMBERS:
        assert np.isfinite(b[name])
        assert b[name] >= 0
    assert exposed >= f - 1e-12


@pytest.mark.slow
@FEW
@given(scenarios())
def test_no_tensor_parallelism_no_serialized_communication(scenario):
    alone = replace(scenario, layout=replace(scenario.layout, tp=1))
    assert columns(alone)["serialized_comm_s"] == columns(alone)["serialized_comm_fraction"] == 0
    single = columns(replace(scenario, layout=replace(scenario.layout, tp=1, dp=1)))
    for name in ("overlapped_comm_s", "overlap_ratio", "exposed_comm_s", "hidden_comm_s", "visible_comm_fraction"):
        assert single[name] == 0
    assert single["step_s"] == single["compute_s"] > 0


@pytest.mark.slow
@FEW
@given(scenarios(presets("A", "B", "C")), st.sampled_from([2, 4, 8]))
def test_serialized_fraction_grows_with_tp(scenario, more):
    scenario = replace(scenario, layout=replace(scenario.layout, tp=2 * scenario.layout.tp, dp=8))
    wider = replace(scenario, layout=replace(scenario.layout, tp=scenario.layout.tp * more))
    before, after = columns(scenario), columns(wider)
    assert after["serialized_comm_fraction"] > before["serialized_comm_fraction"]
    assert after["compute_s"] < before["compute_s"]
    assert after["serialized_comm_s"] == before["serialized_comm_s"]
    assert after["overlapped_comm_s"] < before["overlapped_comm_s"]


@pytest.mark.slow
@FEW
@given(scenarios(made_up_devices(latency=False) | presets("A", "B", "C")), st.integers(2, 16))
def test_serialized_fraction_falls_with_hidden(scenario, more):
    """Without kernel launches: for a tiny model they are all the compute there is, and do not grow with it."""
    assume(scenario.layout.tp > 1)
    hidden, seq_len = scenario.transformer.hidden, scenario.transformer.seq_len
    wider = columns(replace(scenario, transformer=Transformer(hidden * more, seq_len)))
    assert wider["serialized_comm_fraction"] < columns(scenario)["serialized_comm_fraction"]
    assert wider["compute_s"] > columns(scenario)["compute_s"]


@pytest.mark.slow
@FEW
@given(scenarios(presets("A")), st.integers(2, 16))
def test_serialized_fraction_falls_with_seq_len(scenario, more):
    """As Eq 6 has it; the text of the paper's section 4.3.4 slips and says the opposite."""
    scenario = replace(scenario, layout=replace(scenario.layout, tp=2 * scenario.layout.tp, dp=8))
    hidden, seq_len = scenario.transformer.hidden, scenario.transformer.seq_len
    longer = columns(replace(scenario, transformer=Transformer(hidden, seq_len * more)))
    assert longer["serialized_comm_fraction"] < columns(scenario)["serialized_comm_fraction"]
    assert longer["overlap_ratio"] < columns(scenario)["overlap_ratio"]


@FEW
@given(scenarios(), st.floats(1.01, 1000))
def test_faster_networks_and_slower_compute(scenario, factor):
    assume(scenario.layout.tp > 1 and scenario.layout.dp > 1)
    base = columns(scenario)
    network = columns(replace(scenario, hardware=evolve(scenario.hardware, network=factor)))
    flops = columns(replace(scenario, hardware=evolve(scenario.hardware, flops=factor)))
    same = columns(replace(scenario, hardware=evolve(scenario.hardware, flop_vs_bw=factor)))
    assert flops == same
    assert network["serialized_comm_s"] < base["serialized_comm_s"]
    assert network["overlapped_comm_s"] < base["overlapped_comm_s"]
    assert network["compute_s"] == base["compute_s"]
    assert network["serialized_comm_fraction"] < base["serialized_comm_fraction"]
    assert flops["compute_s"] < base["compute_s"]
    assert flops["serialized_comm_s"] == base["serialized_comm_s"]
    assert flops["serialized_comm_fraction"] > base["serialized_comm_fraction"]
    assert flops["overlap_ratio"] > base["overlap_ratio"]
    assert network["overlap_ratio"] < base["overlap_ratio"]


@pytest.mark.slow
@FEW
@given(scenarios(made_up_devices(latency=False) | presets("A")), st.floats(1e-3, 1e3))
def test_fractions_are_scale_invariant(scenario, factor):
    """All rates by one factor, no latency: times by its inverse, shares unchanged."""
    base = columns(scenario)
    hardware = evolve(scenario.hardware, flops=factor, network=factor, memory_bandwidth=factor)
    scaled = columns(replace(scenario, hardware=hardware))
    for name in ("compute_s", "serialized_comm_s", "overlapped_comm_s", "hidden_comm_s", "step_s"):
        assert scaled[name] * factor == pytest.approx(base[name], rel=1e-9)
    for name in (*FRACTIONS, "overlap_ratio", "amdahl_edge_flop_per_byte", "slack_flop_per_byte"):
        assert scaled[name] == pytest.approx(base[name], rel=1e-9)


@pytest.mark.slow
@FEW
@given(scenarios(made_up_devices(latency=False) | presets("A", "C")))
def test_fractions_vanish_as_the_network_grows(scenario):
    fast = columns(replace(scenario, hardware=evolve(scenario.hardware, network=1e15)))
    slow = columns(replace(scenario, hardware=evolve(scenario.hardware, network=1e-15)))
    assert fast["serialized_comm_fraction"] < 1e-6
    assert fast["overlap_ratio"] < 1e-4
    if scenario.layout.tp > 1:
        assert slow["serialized_comm_fraction"] > 0.999


@FEW
@given(scenarios(presets("A")))
def test_fraction_is_edge_against_x(scenario):
    """f = 1 / (1 + edge / X) and q = X / slack, X = 2129."""
    assume(scenario.layout.tp > 1)
    b = columns(scenario)
    x = 0.66 * 181e12 / (0.748 * 150e9 / 2)
    assert b["serialized_comm_fraction"] == pytest.approx(1 / (1 + b["amdahl_edge_flop_per_byte"] / x))
    if scenario.layout.dp > 1:
        assert b["overlap_ratio"] == pytest.approx(x / b["slack_flop_per_byte"])


# --- the engine ------------------------------------------------------------------------------------------------------

TABLE_2 = {
    "hidden": [2**i * 1024 for i in range(7)], "seq_len": [1024, 2048, 4096, 8192], "micro_batch": [1, 4],
    "tp": [4, 8, 16, 32, 64, 128, 256],
}  # fmt: skip


@pytest.fixture(scope="module", params=["A", "B", "C"])
def big(request):
    fixed = {"timing": request.param, "flop_vs_bw": 2}
    return fixed, sweep({"cost_model": "comp_vs_comm", "set": fixed, "sweep": TABLE_2})


@pytest.mark.a_third
@settings(FEW, max_examples=examples(0.5))
@given(st.data())
def test_a_point_alone_is_the_point_of_the_sweep(big, data):
    """Exactly, bit for bit: a single point is the zero-dimensional case of a sweep."""
    fixed, result = big
    place = {name: data.draw(st.integers(0, len(values) - 1)) for name, values in TABLE_2.items()}
    row = np.ravel_multi_index(tuple(place.values()), tuple(map(len, TABLE_2.values())))
    point = {name: TABLE_2[name][i] for name, i in place.items()}
    alone = sweep({"cost_model": "comp_vs_comm", "set": {**fixed, **point}}).to_records()
    assert alone == [result.to_records()[row]]


@st.composite
def studies(draw):
    """A small study: axes of any length in any order, some infeasible points, hardware as an axis, conditions."""
    choices = {
        "hidden": st.lists(st.sampled_from([96, 1024, 1000, 4096, 6144]), min_size=1, max_size=4, unique=True),
        "seq_len": st.lists(st.integers(1, 9000), min_size=1, max_size=3, unique=True),
        "micro_batch": st.lists(st.integers(1, 8), min_size=1, max_size=3, unique=True),
        "tp": st.lists(st.sampled_from([1, 2, 4, 5, 7, 8, 64]), min_size=1, max_size=5, unique=True),
        "flop_vs_bw": st.lists(st.sampled_from([0.5, 1, 2, 4]), min_size=1, max_size=3, unique=True),
        "precision": st.lists(st.sampled_from(["fp16", "bf16"]), min_size=1, max_size=2, unique=True),
    }
    order = draw(st.permutations(list(choices)))
    axes = {name: draw(choices[name]) for name in order}
    study = {"cost_model": "comp_vs_comm", "set": {}, "sweep": {}}
    for name, values in axes.items():
        if len(values) == 1:
            study["set"][name] = values[0]
        else:
            study["sweep"][name] = values
    conditions = st.sampled_from([
        "tp <= 8", "feasible", "not feasible", "serialized_comm_fraction > 0.3", "hidden != 1024", "tp < micro_batch",
        "overlap_ratio <= 0.5", "precision == bf16", "flop_vs_bw >= 2", "seq_len > 1K", "micro_batch == tp",
    ])  # fmt: skip
    study["where"] = draw(st.lists(conditions, max_size=2, unique=True))
    if draw(st.booleans()):
        study["hardware"] = draw(
            st.sampled_from([["mi210", "h100-sxm"], "h100-sxm", ["h100-sxm", "mi210", "v100-sxm-32gb"]])
        )
    return study


def plan_of(study):
    """Return the study's plan; skip what fixed values alone refuse."""
    try:
        return make_plan(study_from(study))
    except Exception as error:
        assume("divide" not in str(error) and "has no" not in str(error))
        raise


def all_rows(plan):
    parts = list(engine.row_blocks(plan, plan.columns))
    rows = {name: np.concatenate([part.columns[name] for part in parts]) for name in plan.columns}
    return {name: values.tolist() for name, values in rows.items()}


def same(one, other):
    """Equal, NaN to NaN."""
    assert one.keys() == other.keys()
    for name, values in one.items():
        assert len(values) == len(other[name])
        assert all(a == b or (a != a and b != b) for a, b in zip(values, other[name], strict=True)), name


@pytest.mark.slow
@settings(FIXTURES, max_examples=examples(0.7))
@given(study=studies(), tile=st.integers(1, 60))
def test_every_block_size_gives_the_same_rows(monkeypatch, study, tile):
    plan = plan_of(study)
    whole = all_rows(plan)
    with monkeypatch.context() as patch:
        patch.setattr(engine, "TILE_POINTS", tile)
        same(all_rows(plan), whole)


HOLDS = {"<=": np.less_equal, ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal, "<": np.less, ">": np.greater}


def passes(row, text):
    """Return whether a row passes a condition, read again from scratch."""
    if text in ("feasible", "not feasible"):
        return bool(row["feasible"]) == (text == "feasible")
    left, sign, right = text.split(" ")
    if left in NUMBERS and not row["feasible"]:
        return False
    if left == "precision":
        return (row[left] == right) == (sign == "==")
    known = {"0.3": 0.3, "8": 8, "1024": 1024, "0.5": 0.5, "2": 2, "1K": 1024}
    return bool(HOLDS[sign](row[left], row[right] if right in row else known[right]))


@pytest.mark.slow
@settings(FIXTURES, max_examples=examples(0.7))
@given(study=studies(), tile=st.integers(1, 60), block=st.integers(1, 200), sample=st.sampled_from([1, 20, 2**14]),
       count=st.integers(1, 400), by=st.sampled_from(["serialized_comm_fraction", "overlap_ratio", "step_s", "tp",
       "hidden",
                                                     "exposed_comm_s", "flop_vs_bw"]),
       ascending=st.booleans())  # fmt: skip
def test_ranked_rows_are_the_sorted_rows(monkeypatch, study, tile, block, sample, count, by, ascending):
    where = study.pop("where")
    every = all_rows(plan_of(study))  # without conditions: those are applied by hand
    rows = [dict(zip(every, values, strict=True)) for values in zip(*every.values(), strict=True)]
    # 'precision' is in a row only where it moves.
    rows = [{"precision": study["set"].get("precision"), "reason": None, **row} for row in rows]
    wanted = [row for row in rows if row["feasible"] and all(passes(row, text) for text in where)]
    expected = sorted((row[by] for row in wanted), reverse=not ascending)[:count]
    study["where"] = where
    with monkeypatch.context() as patch:
        for room, name, size in ((engine, "TILE_POINTS", tile), (ranking, "BLOCK_NUMBERS", block),
                                 (engine, "SAMPLE_POINTS", sample), (ranking, "SAMPLE_POINTS", sample)):  # fmt: skip
            patch.setattr(room, name, size)
        plan = plan_of(study)
        parts = list(ranking.ranked_blocks(plan, plan.columns, by, count, ascending))
    got = {name: [value for part in parts for value in part.columns[name].tolist()] for name in plan.columns}
    assert got[by] == expected
    # Each of them is a row of the grid, whole, and none comes twice.
    known = {tuple(row[name] for name in plan.inputs): row for row in rows}
    found = set()
    for values in zip(*(got[name] for name in plan.columns), strict=True):
        row = dict(zip(plan.columns, values, strict=True))
        key = tuple(row[name] for name in plan.inputs)
        assert key not in found
        found.add(key)
        assert all(row[name] == known[key][name] for name in (*plan.inputs, *plan.outputs))


@settings(FIXTURES, max_examples=examples(0.7))
@given(study=studies())
def test_conditions_keep_the_rows_that_pass(study):
    where = study.pop("where")
    every = all_rows(plan_of(study))
    rows = [dict(zip(every, values, strict=True)) for values in zip(*every.values(), strict=True)]
    fixed = {"precision": study["set"].get("precision")}
    kept = [row for row in rows if all(passes({**fixed, **row}, text) for text in where)]
    got = all_rows(plan_of({**study, "where": where}))
    same(got, {name: [row[name] for row in kept] for name in got})


# --- solve inverts sweep ---------------------------------------------------------------------------------------------

MACHINES = [("mi210", "A", "fp16"), ("mi210", "B", "fp16"), ("mi210", "C", "fp16"), ("h100-sxm", None, "bf16")]
FOR = ("tp", "network", "flops", "hidden", "seq_len", "flop_vs_bw")


def independently(hardware, timing, precision, point):
    """Return the serialized fraction at a point, straight from the cost model: no study, no grid, no field table."""
    device = load_profile(hardware).hardware(precision, timing)
    device = evolve(device, **{name: point[name] for name in ("flop_vs_bw", "flops", "network") if name in point})
    scenario = Scenario(
        Transformer(point["hidden"], point["seq_len"]),
        Layout(point["micro_batch"], point["tp"], point.get("dp", np.inf)),
        device,
        element_bytes=Precision.of(precision).size,
    )
    return evaluate(scenario)


@pytest.mark.slow
@pytest.mark.parametrize(("hardware", "timing", "precision"), MACHINES)
@pytest.mark.parametrize("field", FOR)
@settings(FEW, max_examples=examples(0.15))
@given(
    hidden=st.sampled_from([1024, 4096, 16384, 65536]),
    seq_len=st.sampled_from([512, 1024, 4096]),
    micro_batch=st.sampled_from([1, 4]),
    tp=st.sampled_from([2, 4, 8, 16, 64]),
    factor=st.floats(0.3, 3),
)
def test_solve_inverts_sweep(hardware, timing, precision, field, hidden, seq_len, micro_batch, tp, factor):
    """A point's own fraction as target leads back to the fraction, and to the point among the solutions."""
    point = {"hidden": hidden, "seq_len": seq_len, "micro_batch": micro_batch, "tp": tp}
    if field in ("network", "flops", "flop_vs_bw"):
        point[field] = factor
    fixed = {**point, "precision": precision, **({"timing": timing} if timing else {})}
    column = MODEL.columns["serialized_comm_fraction"].of
    target = sweep({**ONE_LAYER, "hardware": hardware, "set": fixed}).to_records()[0]["serialized_comm_fraction"]
    assert target == float(column(independently(hardware, timing, precision, point)))
    rows, _ = solve(
        study_from({**ONE_LAYER, "hardware": hardware, "set": fixed}), ask("serialized_comm_fraction", target, field)
    )
    values = [row["value"] for row in rows]
    assert None not in values
    for row in rows:
        there = independently(hardware, timing, precision, {**point, field: row["value"]})
        assert float(column(there)) == pytest.approx(target, rel=1e-6)
        assert row["achieved"] == pytest.approx(target, rel=1e-6)
    slope = 1e-3 * point[field]
    around = [float(column(independently(hardware, timing, precision, {**point, field: point[field] + s})))
              for s in (-slope, slope)]  # fmt: skip
    if abs(around[1] - around[0]) > 1e-5:  # where the fraction is not flat the point itself must be found
        assert min(abs(value / point[field] - 1) for value in values) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize(("hardware", "timing", "precision"), MACHINES)
@pytest.mark.parametrize(
    ("column", "field", "value"),
    [("overlap_ratio", "seq_len", 3000), ("overlap_ratio", "network", 0.7), ("compute_s", "tp", 16),
     ("step_s", "flops", 1.3),
     ("visible_comm_fraction", "interference", 70.5), ("amdahl_edge_flop_per_byte", "hidden", 5000),
     ("slack_flop_per_byte", "micro_batch", 24), ("serialized_comm_s", "network", 20.5)],
)  # fmt: skip
def test_solve_other_columns(hardware, timing, precision, column, field, value):
    fixed = {"hidden": 16384, "seq_len": 2048, "micro_batch": 2, "tp": 8, "dp": 64, "precision": precision}
    fixed = {name: held for name, held in fixed.items() if name != field} | {"inter_node_slowdown": 4.0}

    def at(number):
        point = {**fixed, field: number}
        factors = {name: point[name] for name in ("flops", "network") if name in point}
        scenario = Scenario(
            Transformer(point["hidden"], point["seq_len"]),
            Layout(point["micro_batch"], point["tp"], point["dp"]),
            evolve(load_profile(hardware).hardware(precision, timing), **factors),
            element_bytes=Precision.of(precision).size,
            inter_node_slowdown=point["inter_node_slowdown"],
            interference=point.get("interference", 1),
        )
        return float(MODEL.columns[column].of(evaluate(scenario)))

    study = {**ONE_LAYER, "hardware": hardware, "set": {**fixed, **({"timing": timing} if timing else {})}}
    rows, _ = solve(study_from(study), ask(column, at(value), field))
    assert [at(row["value"]) for row in rows] == pytest.approx([at(value)] * len(rows), rel=1e-6)
    assert min(abs(row["value"] / value - 1) for row in rows) < 1e-6


def test_solve_of_the_papers_half():
    """notes 1.2: TP50 = 1.5 (6 H + SL) / (k X)."""
    study = {**ONE_LAYER, "set": {"hidden": 65536, "seq_len": 4096, "micro_batch": 1}}
    rows, _ = solve(study_from(study), ask("serialized_comm_fraction", 0.5, "tp"))
    x = 0.66 * 181e12 / (0.748 * 75e9)
    assert [row["value"] for row in rows] == [pytest.approx(1.5 * (6 * 65536 + 4096) / x, rel=1e-6)]
    assert (rows[0]["below"], rows[0]["above"]) == (256, 512)
    assert rows[0]["at_below"] < 0.5 < rows[0]["at_above"]
    assert rows[0]["at_below"] == pytest.approx(0.478, abs=5e-4)
