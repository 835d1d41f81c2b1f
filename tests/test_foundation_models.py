"""The foundation-models paper's model: its 360 published cells, what its defects do, and an enumeration by hand."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from amount import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from comp_comm.choices import Formulas, Strategy
from comp_comm.cli.main import run
from comp_comm.configs.hardware_file import load_profile
from comp_comm.costmodels.foundation_models.model import evaluate
from comp_comm.costmodels.foundation_models.space import GROUPS, ModelOnDevices, layouts, placed
from comp_comm.costmodels.mesh import Mesh
from comp_comm.costmodels.mesh import placed as filled
from comp_comm.costmodels.scenario import Scenario
from comp_comm.errors import InfeasibleError
from comp_comm.formulas import foundation_models_time as takes
from comp_comm.hardware.evolution import evolve
from comp_comm.layout import Layout
from comp_comm.reproduce import foundation_models as paper
from comp_comm.reproduce.published import read_table
from comp_comm.searches import search
from comp_comm.sweeps.result import sweep
from comp_comm.transformer import Transformer

CELLS = read_table(paper.TABLE)
ONE_D, SUMMA, SEQUENCE = Strategy.ONE_D, Strategy.SUMMA, Strategy.SEQUENCE
AS_PUBLISHED, CORRECTED = Formulas.AS_PUBLISHED, Formulas.CORRECTED
STUDY = "papers/foundation-models-gpt3"
# Columns of the published table and what they are of a step; seconds, and bytes in GB.
PARTS = {
    "iter_time_s": lambda s: s.step_s, "t_comp_s": lambda s: s.compute_s, "t_mem_exposed_s": lambda s: s.memory_bound_s,
    "t_tp_comm_s": lambda s: s.tp_comm_s, "t_pp_comm_s": lambda s: s.pp_comm_s, "t_bubble_s": lambda s: s.bubble_s,
    "t_dp_comm_s": lambda s: s.dp_comm_s, "mem_gb": lambda s: s.memory_bytes / 1e9,
    "wts_gb": lambda s: s.memory.weights / 1e9, "opt_states_gb": lambda s: s.memory.optimizer / 1e9,
    "acts_gb": lambda s: s.memory.activations / 1e9,
}  # fmt: skip


def machine(gpu):
    return load_profile(f"papers/hardware/{paper.SYSTEMS[gpu]}").hardware("fp16")


def study_of(problem, gpu="A100", **more):
    """Return the study of a problem; ``more`` are its other fields."""
    p = problem
    fixed = {"strategy": Strategy.at(p.strategy).word, "seq_len": p.seq_len, "hidden": p.hidden, "heads": p.heads,
             "layers": p.layers, "global_batch": p.global_batch, "formulas": Formulas.at(p.formulas).word}  # fmt: skip
    return {"cost_model": "foundation_models", "hardware": f"papers/hardware/{paper.SYSTEMS[gpu]}",
            "set": {**fixed, **more}}  # fmt: skip


def searched(problem, gpu, nvs, top=1, **more):
    """Return the best layouts of a problem, the layouts there are, and how many of them fit."""
    found = search(study_of(problem, gpu, nvs=nvs, **more), problem.gpus, top=top)
    return found["rows"], found["meta"]["candidates"], found["meta"]["feasible"]


def step_of(problem, hardware, **numbers):
    """Return the step of layouts of a problem: degrees, micro-batches and places are numbers or arrays."""
    p = problem
    layout = {name: numbers.pop(name) for name in ("micro_batch", "pp", "dp") if name in numbers}
    mesh = Mesh(strategy=p.strategy, formulas=p.formulas, **numbers)
    transformer = Transformer(p.hidden, p.seq_len, layers=p.layers, heads=p.heads)
    return evaluate(Scenario(transformer, Layout(global_batch=p.global_batch, **layout), hardware, mesh=mesh))


def stored(gpu, formulas=AS_PUBLISHED):
    """Return the published cells of a GPU, of all strategies and models in one array, and our step of them."""
    cells = [cell for cell in CELLS if cell["gpu"] == gpu]

    def column(name):
        return np.array([float(cell[name] or 1) for cell in cells])

    dims = np.array([paper.MODELS[cell["model"]] for cell in cells], float).T
    strategy = np.array([Strategy.of(cell["strategy"]) for cell in cells])
    panels = np.where(strategy == SUMMA, column("summa_nb"), np.nan)
    inside = {name: column(name) for name in ("nv_tp1", "nv_tp2", "nv_dp", "nv_pp")}
    mesh = Mesh(strategy=strategy, tp1=column("tp1"), tp2=column("tp2"), summa_panels=panels, nvs=column("nvs"),
                formulas=formulas, **inside)  # fmt: skip
    layout = Layout(micro_batch=column("mbs"), pp=column("pp"), dp=column("dp"), gpus=column("n_gpus"),
                    global_batch=column("global_batch"))  # fmt: skip
    transformer = Transformer(dims[1], dims[0], layers=dims[3], heads=dims[2])
    return cells, evaluate(Scenario(transformer, layout, machine(gpu), mesh=mesh))


# -- the 360 published cells ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gpu", paper.SYSTEMS)
def test_every_part_of_every_published_cell(gpu):
    cells, step = stored(gpu)
    assert step.violations == ()
    for name, of in PARTS.items():
        published = np.array([float(cell[name]) for cell in cells])
        np.testing.assert_allclose(of(step), published, rtol=1e-12, atol=1e-15, err_msg=name)


@pytest.fixture(scope="module")
def everything():
    return paper.reproduce()


@pytest.mark.slow
def test_the_search_finds_every_published_cell(everything):
    rows, meta = everything
    assert Counter((row["strategy"], row["model"]) for row in rows) == {
        ("1d", "gpt3_1T"): 63, ("2d", "gpt3_1T"): 69, ("2d", "vit_era5"): 87, ("2d-seqp", "gpt3_1T"): 63,
        ("2d-seqp", "vit_era5"): 78,
    }  # fmt: skip
    assert all(row["same_layout"] for row in rows)
    assert max(abs(row["iter_time_error"]) for row in rows) < 1e-12
    assert max(abs(row["mem_error"]) for row in rows) < 1e-12
    assert meta["candidates"] == 8_528_387


@pytest.mark.slow
def test_a_row_has_what_was_promised(everything):
    rows, _ = everything
    names = ["strategy", "model", "gpu", "nvs", "n_gpus", "published_iter_time_s", "ours_iter_time_s",
             "published_mem_gb", "ours_mem_gb", "dp", "tp1", "tp2", "pp", "mbs", "nv_tp1", "nv_tp2", "nv_dp",
             "nv_pp"]  # fmt: skip
    assert set(names) <= set(rows[0])
    assert len({tuple(row[name] for name in paper.CELL) for row in rows}) == 360


@pytest.mark.parametrize(("model", "nvs", "counts"), [
    ("gpt3_1T", 4, [(1818, 34495, 11859), (1712, 36594, 13806), (1310, 32011, 13090)]),
    ("gpt3_1T", 8, [(2554, 51992, 18114), (2544, 59390, 22712), (2027, 54662, 22696)]),
    ("gpt3_1T", 64, [(3079, 64960, 22924), (4032, 101572, 40003), (3816, 115938, 49897)]),
    ("vit_era5", 8, [(1874, 30391, 17815), (1567, 34572, 21936), (1108, 33929, 21191)]),
])  # fmt: skip
def test_as_many_layouts_as_the_original_tries(model, nvs, counts):
    for gpus, each in zip((1024, 4096, 16384), counts, strict=True):
        for strategy, count in enumerate(each):
            problem = ModelOnDevices(strategy, *paper.MODELS[model], gpus, 4096)
            assert len(placed(problem, layouts(problem), nvs)["tp1"]) == count


@pytest.mark.slow
@pytest.mark.parametrize("cell", [cell for cell in CELLS if int(cell["n_stored"]) < 10 or cell["n_gpus"] == "2048"],
                         ids=lambda cell: "-".join(cell[name] for name in paper.CELL))  # fmt: skip
def test_the_ten_best_end_where_the_published_ten_end(cell):
    problem = ModelOnDevices(Strategy.of(cell["strategy"]), *paper.MODELS[cell["model"]], int(cell["n_gpus"]), 4096)
    rows, _, feasible = searched(problem, cell["gpu"], int(cell["nvs"]), top=10)
    assert len(rows) == int(cell["n_stored"])
    assert 4096 / rows[-1]["step_s"] == pytest.approx(float(cell["throughput_rank10"]), rel=1e-12)
    if len(rows) < 10:
        assert feasible == len(rows)


def test_training_days_that_its_notebook_prints():
    days = {(row["gpu"], row["nvs"]): row["ours_iter_time_s"] * 1e12 / 2048 / 4096 / 86400
            for row in paper.reproduce(only={"strategy": ["1d"], "n_gpus": ["4096"]})[0]}  # fmt: skip
    found = [[round(days[gpu, nvs], 2) for nvs in (4, 8, 64)] for gpu in paper.SYSTEMS]
    assert found == [[97.96, 86.88, 85.47], [30.95, 30.15, 29.22], [12.88, 12.47, 12.21]]


# -- its defects ------------------------------------------------------------------------------------------------------


def test_what_the_corrections_do_to_the_published_layouts():
    changed = {gpu: (stored(gpu)[0], stored(gpu)[1], stored(gpu, CORRECTED)[1]) for gpu in paper.SYSTEMS}
    cells = [cell for part, _, _ in changed.values() for cell in part]
    time = np.concatenate([new.step_s / old.step_s - 1 for _, old, new in changed.values()])
    memory = np.concatenate([new.memory_bytes / old.memory_bytes - 1 for _, old, new in changed.values()])
    summa = np.array([cell["strategy"] == "2d" for cell in cells])
    gpt = np.array([cell["model"] == "gpt3_1T" for cell in cells])
    mixed = np.array([1 < int(cell["nv_pp"]) < int(cell["pp"]) for cell in cells])
    assert mixed.sum() == 97  # rows with hops between domains that were free
    np.testing.assert_array_equal(time[~summa] > 1e-12, mixed[~summa])
    assert (memory[~summa] == 0).all()
    assert [round(100 * x, 1) for x in (time[summa & gpt].max(), *np.sort(memory[summa & gpt])[[0, -1]])] == [
        5.2,
        0.6,
        8.9,
    ]
    assert [round(100 * x, 1) for x in (time[summa & ~gpt].min(), time[summa & ~gpt].max())] == [-5.7, -0.4]
    assert [round(100 * x) for x in (memory[summa & ~gpt].min(), memory[summa & ~gpt].max())] == [-29, -18]
    full = {rule.reason: int(rule.broken.sum()) for _, _, new in changed.values() for rule in new.violations}
    assert list(full) == ["does not fit: memory exceeds that of the device"]
    assert sum(int(rule.broken.sum()) for _, _, new in changed.values() for rule in new.violations) == 14


@pytest.mark.slow
def test_what_the_corrections_do_to_the_search(everything):
    rows, _ = paper.reproduce(["formulas=corrected"], {"model": ["gpt3_1T"]})
    part = {name: [row for row in rows if row["strategy"] == name] for name in Strategy.words()}
    one, two = part["1d"], part["2d"]
    assert sum(row["iter_time_error"] > 1e-9 for row in one) == 25
    assert sum(not row["same_layout"] for row in one) == 15
    assert round(100 * max(row["iter_time_error"] for row in one), 1) == 2.9
    assert sum(not row["same_layout"] for row in two) == 51
    assert round(100 * np.median([row["iter_time_error"] for row in two]), 1) == 1.5
    assert round(100 * max(row["iter_time_error"] for row in two)) == 82
    gains = []
    for found in (everything[0], rows):
        best = {(row["strategy"], row["gpu"], row["nvs"], row["n_gpus"]): row["ours_iter_time_s"] for row in found
                if row["model"] == "gpt3_1T"}  # fmt: skip
        gains.append(np.array([best[key] / best[("2d", *key[1:])] - 1 for key in best if key[0] == "1d"]))
    assert [(round(100 * np.median(gain), 1), int((gain < 0).sum())) for gain in gains] == [(7.6, 1), (5.5, 7)]


def test_domains_that_cannot_be_filled_are_layouts_once_corrected():
    gpus, nvs = 96, 64  # no factors of 96 make 64
    published, corrected = (ModelOnDevices(ONE_D, 2048, 12288, 96, 96, gpus, 96, formulas) for formulas in Formulas)
    with pytest.raises(InfeasibleError, match="a domain is filled exactly unless"):
        searched(published, "B200", nvs)
    best = searched(corrected, "B200", nvs)[0][0]
    assert np.prod([best[f"nv_{name}"] for name in GROUPS]) == 48


@pytest.mark.slow
@pytest.mark.parametrize(("gpus", "nvs"), [(96, 64), (48, 16), (64, 8)])
def test_corrected_groups_fill_a_domain_as_far_as_they_can(gpus, nvs):
    problem = ModelOnDevices(SEQUENCE, 2048, 12288, 96, 96, gpus, 96, CORRECTED)
    table = layouts(problem)
    for row in range(len(table["tp1"])):
        one = {name: column[[row]] for name, column in table.items()}
        sizes = [int(one[name][0]) for name in GROUPS]
        every = [t for t in product(*([n for n in range(1, size + 1) if size % n == 0] for size in sizes))
                 if np.prod(t) <= nvs]  # fmt: skip
        most = max(np.prod(t) for t in every)
        ways = placed(problem, one, nvs)
        inside = zip(*(ways[f"nv_{name}"].tolist() for name in GROUPS), strict=True)
        assert sorted(inside) == sorted(t for t in every if np.prod(t) == most)


# -- the search against an enumeration by hand ------------------------------------------------------------------------


def by_hand(p, nvs):
    """Yield every layout the paper's rules allow, one at a time, in plain Python."""
    batches = range(1, p.global_batch + 1)
    for m1, m2, pp in product(range(1, p.gpus + 1), range(1, p.gpus + 1), range(1, p.layers + 1)):
        if p.gpus % (m1 * m2 * pp) or p.layers % pp or p.heads % m1 or p.hidden % m1:
            continue
        if (3 * p.hidden if p.strategy == ONE_D else p.hidden) // m1 < 128:
            continue
        if (m2 > 1 and p.strategy == ONE_D) or (p.strategy != ONE_D and p.seq_len // m2 < 128):
            continue
        dp = p.gpus // (m1 * m2 * pp)
        if p.global_batch % dp or (p.strategy == SUMMA and p.hidden % m2):
            continue
        panels = [1]
        if p.strategy == SUMMA:
            more = [max(m1, m2) * 2**k for k in range(1, 12)]
            panels = [max(m1, m2), *(n for n in more if p.hidden % n == 0 and p.hidden // n >= 512)]
        parts = {ONE_D: m1, SUMMA: m2, SEQUENCE: m1 * m2}[p.strategy]
        for b in batches:
            if p.global_batch // dp % b or b * p.seq_len % parts:
                continue
            inside = [[t for t in range(1, size + 1) if size % t == 0] for size in (m1, m2, dp, pp)]
            for t in product(*inside):
                if np.prod(t) == min(nvs, p.gpus):
                    yield from ((m1, m2, pp, dp, b, n, *t) for n in panels)


@pytest.mark.slow
@settings(max_examples=examples(0.7), deadline=None)
@given(strategy=st.sampled_from([ONE_D, SUMMA, SEQUENCE]), gpus=st.sampled_from([4, 6, 8, 12, 16]),
       nvs=st.sampled_from([1, 2, 4, 8]), batch=st.sampled_from([4, 8, 12]), layers=st.sampled_from([2, 3, 4]),
       seq_len=st.sampled_from([512, 768, 1536]), heads=st.sampled_from([12, 16]),
       head_dim=st.sampled_from([64, 128]), room=st.floats(0.05, 1.5))  # fmt: skip
def test_the_best_is_that_of_single_points(strategy, gpus, nvs, batch, layers, seq_len, heads, head_dim, room):
    problem = ModelOnDevices(strategy, seq_len, head_dim * heads, heads, layers, gpus, batch)
    hardware = evolve(machine("A100"), memory_capacity=room * 0.01)
    names = ("tp1", "tp2", "pp", "dp", "micro_batch", "summa_panels", "nv_tp1", "nv_tp2", "nv_dp", "nv_pp")
    count, best = 0, []
    for place in by_hand(problem, nvs):
        count += 1
        step = step_of(problem, hardware, nvs=nvs, **dict(zip(names, place, strict=True)))
        broken = {rule.reason for rule in step.violations}
        assert broken <= {"does not fit: memory exceeds that of the device"}
        if not broken:
            best.append(float(step.step_s))
    if not count:
        with pytest.raises(InfeasibleError, match="no layout"):
            searched(problem, "A100", nvs)
    elif not best:
        with pytest.raises(InfeasibleError, match=f"none of {count:,} layouts"):
            searched(problem, "A100", nvs, memory_capacity=room * 0.01)
    else:
        rows, candidates, feasible = searched(problem, "A100", nvs, memory_capacity=room * 0.01)
        assert (candidates, feasible) == (count, len(best))
        assert rows[0]["step_s"] == pytest.approx(min(best), rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [ONE_D, SUMMA, SEQUENCE])
def test_more_of_anything_is_never_slower(strategy):
    problem = ModelOnDevices(strategy, *paper.MODELS["gpt3_1T"], 1024, 4096)
    usual = searched(problem, "A100", 8)[0][0]["step_s"]
    for factor in paper.FACTORS:
        better = {factor: 0.5 if factor == "latency" else 2.0}
        assert searched(problem, "A100", 8, **better)[0][0]["step_s"] <= usual


# -- GPT-3 on Perlmutter ----------------------------------------------------------------------------------------------


def test_gpt3_on_512_a100(capsys):
    assert run(["sweep", STUDY, "--top", "5", "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["dp"], row["tp1"], row["pp"], row["micro_batch"], round(row["step_s"], 3)) for row in rows] == [
        (8, 4, 16, 1, 22.469), (4, 4, 32, 1, 22.519), (16, 4, 8, 1, 22.682), (32, 4, 4, 1, 23.267),
        (16, 2, 16, 1, 23.584),
    ]  # fmt: skip
    assert round(rows[0]["memory_gib"] * 2**30 / 1e9, 1) == 46.4


@pytest.mark.parametrize(("batch", "seconds"), [(512, 12.599), (1024, 22.469), (1536, 32.338), (2048, 42.208)])
def test_gpt3_at_other_batches(batch, seconds):
    row = sweep(STUDY, [f"global_batch={batch}", "tp1=4", "pp=16", "micro_batch=1", "nv_tp1=4", "nv_dp=1", "nv_pp=1"])
    assert round(float(row.columns["step_s"][0]), 3) == seconds


def test_gpt3_is_found_by_the_search_as_well():
    best = searched(ModelOnDevices(ONE_D, 2048, 12288, 96, 96, 512, 1024), "A100", 4)[0][0]
    assert {name: best[name] for name in ("tp1", "tp2", "pp", "dp", "micro_batch", "nv_tp1")} == {
        "tp1": 4, "tp2": 1, "pp": 16, "dp": 8, "micro_batch": 1, "nv_tp1": 4,
    }  # fmt: skip


# -- closed forms -----------------------------------------------------------------------------------------------------


def point(strategy=ONE_D, hardware=None, **numbers):
    problem = ModelOnDevices(strategy, 2048, 25600, 160, 128, 4096, 4096)
    return step_of(problem, hardware or machine("A100"), **{"nvs": 8, "dp": 16, "pp": 32, **numbers})


def test_parts_add_up():
    for strategy in (ONE_D, SUMMA, SEQUENCE):
        step = point(strategy, tp1=4 if strategy else 8, tp2=2 if strategy else 1)
        parts = step.compute_s + step.memory_bound_s + step.comm_s + step.bubble_s
        assert float(parts) == pytest.approx(float(step.step_s), rel=1e-14)


@pytest.mark.parametrize("m1", [1, 2, 8])
def test_weights_and_activations_of_a_layer(m1):
    b, seq_len, e, h = 2, 2048, 25600, 160
    held = point(tp1=m1, micro_batch=b).holds.layer
    assert float(held.weights) == 12 * e * e / m1 + 4 * e / m1 + 6 * e
    assert float(held.kept) == 4 * b * seq_len * e + 36 * b * seq_len * e / m1 + 4 * b * h * seq_len / m1
    assert float(held.boundary) == 2 * b * seq_len * e / m1
    whole = point(tp1=1, micro_batch=1)
    assert 128 * float(whole.holds.layer.weights) == 1006.665728e9


def test_eight_gathers_a_layer_whatever_the_degree():
    # Without latency a layer's communication is 8 V (m1 - 1) / m1 over the links of the domain.
    quiet = evolve(machine("A100"), latency=1e-30)
    for m1 in (2, 4, 8):
        volume = 2 * 2048 * 25600
        assert float(point(hardware=quiet, tp1=m1).times.layer.comm) == pytest.approx(
            8 * volume * (m1 - 1) / m1 / (0.7 * 300e9), rel=1e-12
        )


def test_an_operation_takes_20_us_to_start():
    quick = evolve(machine("A100"), flops=1e9, memory_bandwidth=1e9)
    assert float(point(hardware=quick, tp1=1).times.layer.compute) == pytest.approx(28 * 20e-6, rel=1e-3)


def test_network_counts_only_where_there_is_communication():
    alone = {"tp1": 1, "pp": 1, "dp": 1}
    problem = ModelOnDevices(ONE_D, 128, 256, 2, 2, 1, 8)
    one = step_of(problem, machine("A100"), **alone)
    two = step_of(problem, evolve(machine("A100"), network=0.01, latency=100), **alone)
    assert float(one.comm_s) == float(one.bubble_s) == 0
    assert float(one.step_s) == float(two.step_s)


def test_all_reduce_takes_two_turns_but_for_the_defect():
    links = takes.Links(10.0, 0.0, 1.0, 0.0)
    for inside in (1, 4, 8):
        gather = float(takes.collective_seconds(80.0, 8, inside, links))
        published = float(takes.collective_seconds(80.0, 8, inside, links, 2.0, 1.0))
        assert float(takes.collective_seconds(80.0, 8, inside, links, 2.0, 2.0)) == 2 * gather
        assert published == (2 * gather if inside == 4 else gather)


def test_groups_fill_a_domain_tp_first():
    found = filled(Mesh(), (np.array([4, 16, 1, 3]), 2, 8, 6), 8)
    np.testing.assert_array_equal(np.broadcast_arrays(*found), [[4, 8, 1, 1], [2, 1, 2, 2], [1, 1, 4, 4], [1, 1, 1, 1]])


# -- the command line and studies -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_reproduce_on_the_command_line(compcomm):
    code, out, err = compcomm("reproduce", "foundation-models", "--format", "json", "--timing")
    answer = json.loads(out)
    assert (code, err, len(answer["rows"])) == (0, "", 360)
    assert (answer["meta"]["missed"], answer["meta"]["tolerance"]) == (0, 1e-9)
    assert answer["meta"]["candidates_per_s"] > 1e5
    code, out, _ = compcomm("reproduce", "foundation-models", "--strategy", "1d", "--gpu", "A100")
    assert "18 of 18 cells as published" in out


@pytest.mark.a_third
@pytest.mark.parametrize(("setting", "faster"), [
    ("network=2", True), ("network=0.5", False), ("flops=2", True), ("memory_bandwidth=0.25", False),
    ("memory_capacity=0.5", False), ("latency=4", False), ("flop_vs_bw=2", True),
])  # fmt: skip
def test_factors_change_what_is_found(compcomm, setting, faster):
    cell = ("--strategy", "2d-seqp", "--model", "gpt3_1T", "--gpu", "H200", "--nvs", "8", "--n-gpus", "4096")
    code, out, err = compcomm("reproduce", "foundation-models", *cell, "--set", setting, "--format", "json")
    row = json.loads(out)["rows"][0]
    assert code == 0
    assert "nothing is checked" in err
    assert (row["ours_iter_time_s"] < row["published_iter_time_s"]) == faster
    assert row["ours_iter_time_s"] != row["published_iter_time_s"]
    assert json.loads(out)["meta"]["missed"] is None


def test_a_missed_cell_is_exit_1(compcomm, monkeypatch):
    only = ("--strategy", "1d", "--gpu", "A100", "--nvs", "4")
    assert compcomm("reproduce", "foundation-models", *only, "--set", "flops=1.01", "--tolerance", "0.001")[0] == 1
    table = [dict(cell) for cell in CELLS]
    table[0]["iter_time_s"] = str(float(table[0]["iter_time_s"]) * (1 + 1e-8))
    monkeypatch.setattr(paper, "read_table", lambda name: table)
    code, out, err = compcomm("reproduce", "foundation-models", *only, "--format", "json")
    assert code == 1
    assert json.loads(out)["meta"]["missed"] == 1
    assert err == "Error: 1 of 6 cells are not as published within 1e-09: 1d, gpt3_1T, A100, 4, 512, ...\n"


def test_nothing_fits_is_a_row_without_ours(compcomm):
    code, out, _ = compcomm("reproduce", "foundation-models", "--strategy", "1d", "--gpu", "A100", "--nvs", "4",
                            "--set", "memory_capacity=0.01", "--format", "json")  # fmt: skip
    rows = json.loads(out)["rows"]
    assert code == 0
    assert {row["ours_iter_time_s"] for row in rows} == {row["pp"] for row in rows} == {None}


@pytest.mark.parametrize(("arguments", "words"), [
    (["--set", "netwrk=2"], "did you mean 'network'"),
    (["--set", "network"], "write it as key=value"),
    (["--set", "network=fast"], "is not a number"),
    (["--set", "network=[1, 2]"], "a list is not a number"),
    (["--set", "network=2", "--set", "network=3"], "given twice"),
    (["--set", "formulas=fixed"], "as_published, corrected"),
    (["--gpu", "A10"], "no such cell (allowed: A100, B200, H200)"),
    (["--model", "vit_era5", "--strategy", "1d"], "no published cell is all of these"),
    (["--tolerance", "-1"], "at least 0"),
    (["--tolerance", "nan"], "at least 0"),
])  # fmt: skip
def test_bad_input_is_one_message(compcomm, arguments, words):
    code, out, err = compcomm("reproduce", "foundation-models", *arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("Error") == 1


def study(**more):
    fixed = {"hidden": 12288, "seq_len": 2048, "heads": 96, "layers": 96, "gpus": 512, "global_batch": 1024, "nvs": 4}
    return {"cost_model": "foundation_models", "hardware": "papers/hardware/foundation-models-a100",
            "set": {**fixed, **more}}  # fmt: skip


@pytest.mark.parametrize(("wrong", "words"), [
    ({"tp1": 5}, "tp1 does not divide heads"),
    ({"tp1": 4, "pp": 7}, "pp does not divide layers"),
    ({"tp1": 3}, "tp1 x tp2 x pp does not divide gpus"),
    ({"tp1": 4, "pp": 48}, "tp1 x tp2 x pp does not divide gpus"),
    ({"tp1": 4, "dp": 4}, "tp1 x tp2 x pp x dp is not gpus"),
    ({"tp1": 4, "tp2": 2}, "strategy 1d has no second group"),
    ({"strategy": "2d", "tp1": 4, "tp2": 2, "summa_panels": 6}, "summa_panels is no multiple"),
    ({"tp1": 4, "summa_panels": 4}, "summa_panels is for strategy 2d"),
    ({"tp1": 4, "pp": 16, "micro_batch": 3}, "dp x micro_batch does not divide global_batch"),
    ({"tp1": 4, "pp": 16, "nv_tp1": 3}, "nv_tp1 does not divide tp1"),
    ({"tp1": 4, "pp": 16, "nv_tp1": 4, "nv_dp": 2}, "exceeds a domain"),
    ({"tp1": 4, "pp": 16, "nv_tp1": 2, "nv_dp": 1, "nv_pp": 1}, "do not fill a domain exactly"),
    ({"strategy": "2d-seqp", "tp1": 4, "tp2": 4, "seq_len": 2056}, "do not divide the tokens of a micro-batch"),
    ({"tp": 4}, "foundation_models does not model tp"),
    ({"memory_capacity": 0}, "out of range"),
])  # fmt: skip
def test_wrong_layouts_are_refused(wrong, words):
    with pytest.raises(Exception, match=words):
        sweep(study(**wrong))


def test_domains_half_filled_are_refused_only_as_published():
    half = {"tp1": 4, "pp": 16, "nv_tp1": 2, "nv_dp": 1, "nv_pp": 1}
    seconds = [sweep(study(formulas="corrected", **{**half, "nv_tp1": near})).columns["step_s"][0] for near in (2, 4)]
    assert seconds[0] > seconds[1]


def test_a_profile_without_vector_flops_is_refused():
    given = study(tp1=4, pp=16) | {"hardware": "gaudi3"}
    with pytest.raises(Exception, match=r"timing.vector_flops is blank in the hardware profile"):
        sweep(given)
    mesh = study(tp1=4, pp=16) | {"hardware": "mi300x"}
    with pytest.raises(Exception, match="no mesh or torus"):
        sweep(mesh)


def test_what_is_blank_is_refused_only_where_it_is_needed():
    known = machine("A100")
    hardware = replace(known, tiers=(known.tiers[0], replace(known.tiers[1], bandwidth=np.nan)))
    problem = ModelOnDevices(ONE_D, 2048, 1024, 8, 8, 8, 64)
    step = step_of(problem, hardware, tp1=2, pp=1, dp=np.array([4, 8]), nvs=8)
    rules = {rule.reason: rule.broken.tolist() for rule in step.violations}
    assert rules == {"network.scale-out.bandwidth is blank in the hardware profile, and foundation_models needs it":
                     [False, True]}  # fmt: skip
    near = replace(known, tiers=(known.tiers[0], replace(known.tiers[1], domain=12.0)))
    step = step_of(problem, near, tp1=2, pp=1, dp=np.array([4, 8]), nvs=8)
    assert [rule.broken.tolist() for rule in step.violations] == [[False, True]]
    assert "beyond the second" in step.violations[0].reason


def test_a_sweep_over_strategies_is_that_of_each_alone():
    axes = {"strategy": list(Strategy.words()), "tp1": [2, 4], "tp2": [1, 2], "formulas": ["as_published", "corrected"]}
    rows = sweep({**study(pp=16), "sweep": axes}).to_records()
    assert len(rows) == 24
    for row in rows:
        fixed = {name: row[name] for name in axes}
        if row["strategy"] == "1d" and row["tp2"] == 2:
            assert not row["feasible"]
            continue
        alone = sweep(study(pp=16, **fixed)).to_records()[0]
        assert alone["step_s"] == pytest.approx(row["step_s"], rel=1e-14)
        assert alone["memory_gib"] == row["memory_gib"]


def test_a_list_of_systems_is_an_axis_and_a_run_has_days():
    names = [f"papers/hardware/{name}" for name in (*paper.SYSTEMS.values(), "foundation-models-b200-next")]
    rows = sweep({**study(tp1=4, pp=16, tokens=1e12), "hardware": names}).to_records()
    seconds = [row["step_s"] for row in rows]
    assert seconds == sorted(seconds, reverse=True)
    assert rows[0]["days"] == pytest.approx(seconds[0] * 1e12 / (1024 * 2048) / 86400)
    assert rows[0]["gpu_hours"] == pytest.approx(rows[0]["days"] * 24 * 512)
