"""A search finds what evaluating every layout one by one finds, and says why nothing fits."""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from comp_comm.cli.main import run
from comp_comm.configs.study import study_from
from comp_comm.costmodels.layout_space import divisors
from comp_comm.errors import CompcommError, ConfigError, InfeasibleError
from comp_comm.placement import GROUPS, Placement
from comp_comm.searches import make_space, partition, result, run_search, search
from comp_comm.searches.objectives import OBJECTIVES, Aim
from comp_comm.searches.placements import first_of_orders
from comp_comm.sweeps.blocks import extent
from comp_comm.sweeps.plan import make_plan

SMALL = {"layers": 4, "hidden": 512, "heads": 4, "vocab": 1000, "seq_len": 256}


def spaces():
    """Return small searches, most of them random: a model, devices, a batch, and what is pinned."""
    chance = random.Random(3)
    for _ in range(5):
        model = {**SMALL, "layers": chance.choice((4, 6)), "hidden": chance.choice((512, 8192))}
        if chance.random() < 0.4:
            model |= {"experts": 4, "top_k": 2, "moe_ffn_hidden": 512}
        pinned = {"cp": chance.choice((1, 2)), "memory_capacity": chance.choice((1.0, 0.1, 0.05))}
        yield {**model, "global_batch": 4, **pinned}, 4
    # Of these some layouts fit and others do not.
    yield {**SMALL, "hidden": 8192, "global_batch": 4, "cp": 1, "memory_capacity": 0.2}, 4
    mixture = {"experts": 4, "top_k": 2, "moe_ffn_hidden": 512}
    yield {**SMALL, **mixture, "global_batch": 4, "cp": 2, "memory_capacity": 0.0281}, 4


def one_by_one(model, gpus, placements, headroom):
    """Return seconds and bytes of every layout that fits, each evaluated alone, and how many keep the rules."""
    found, candidates, seen = [], 0, set()
    few = [n for n in range(1, 17) if gpus % n == 0]
    experts = [1, 2, 4] if "experts" in model else [1]
    inside = few if "experts" in model else [None]
    # A flash kernel keeps nothing of attention that recomputing it alone would free.
    recomputed = ("none", "layernorm+moe_act", "full") if "experts" in model else ("none", "full")
    schedules = ("1f1b", "dualpipe") if "experts" in model else ("1f1b",)
    mixture = {"ep_dispatch": "deepep", "overlap_ep": "on"} if "experts" in model else {}
    layers = model["layers"] + model.get("encoder_layers", 0)
    # Chunks that divide the layers, or the layers with the embedding and the loss in the place of two.
    chunks = [n for n in range(1, layers + 3) if layers % n == 0 or (layers + 2) % n == 0]
    for tp, pp, vpp, mb, ep, etp in itertools.product(few, few, chunks, (1, 2, 4), experts, inside):
        if gpus % (tp * pp * model["cp"]) or (vpp > 1 and layers % (pp * vpp) and (layers + 2) % (pp * vpp)):
            continue
        dp = gpus // (tp * pp * model["cp"])
        sizes = dict(zip(GROUPS, (tp, model["cp"], dp, pp), strict=True))
        for zero, sp, again, schedule, placement in itertools.product(
            (0, 1, 2, 3), ("off", "on"), recomputed, schedules, placements
        ):
            order = tuple(name for name in placement.split("-") if sizes[name] > 1)
            sharded, split = zero if dp * model["cp"] > 1 else 0, sp if tp > 1 else "off"
            name = (tp, pp, vpp, mb, ep, etp, sharded, split, again, schedule if pp > 1 else None, order)
            if name in seen:
                continue
            seen.add(name)
            point = {**model, **mixture, "gpus": gpus, "tp": tp, "pp": pp, "vpp": vpp, "micro_batch": mb, "ep": ep,
                     "zero": zero, "sp": sp, "recompute": again, "schedule": schedule,
                     "placement": placement}  # fmt: skip
            if etp:
                point["etp"] = etp
                if tp % etp:
                    continue
            try:
                step = make_plan(study_from({"hardware": "h100-sxm", "set": point})).evaluate(())
            except ConfigError:
                continue
            candidates += 1
            if not step.broken and step.memory_bytes <= (1 - headroom) * step.memory_capacity:
                found.append((float(step.step_s), float(step.memory_bytes)))
    return sorted(found), candidates


@pytest.mark.slow
@pytest.mark.parametrize(("model", "gpus"), list(spaces()))
def test_the_best_is_that_of_every_layout_alone(model, gpus):
    """Of which a twentieth of the memory is left free. Layouts alike in all numbers are one row, with their count."""
    placements = ["tp-cp-dp-pp", "pp-tp-cp-dp"] if model["cp"] == 1 else ["tp-cp-dp-pp"]
    given = {"hardware": "h100-sxm", "set": dict(model), "sweep": {"placement": placements}}
    fitting, candidates = one_by_one(model, gpus, placements, 0.05)
    if not fitting:
        with pytest.raises(InfeasibleError, match="fits"):
            search(study_from(given), gpus)
        return
    found = search(study_from(given), gpus, top=5)
    assert found["meta"]["candidates"] == candidates
    assert found["meta"]["feasible"] == len(fitting)
    alike = sorted(Counter(fitting).items())[:5]
    rows = found["rows"]
    assert [row["step_s"] for row in rows] == pytest.approx([seconds for (seconds, _), _ in alike], rel=1e-12)
    assert [row["memory_gib"] * 2**30 for row in rows] == pytest.approx([size for (_, size), _ in alike], rel=1e-12)
    assert [row["ties"] for row in rows] == [count for _, count in alike]


TABLES = {
    "dense": ("a100-sxm-80gb", {}),
    "experts": (
        "h100-sxm",
        {"experts": 8, "global_batch": 64, "layers": 12, "top_k": 2, "moe_ffn_hidden": 512, "shared_experts": 1},
    ),
    "three tiers": ("gb200-nvl72", {"tied": "on", "mtp_layers": 1}),
    "a mesh": ("mi300x", {"kv_heads": 2}),
    "a torus": ("tpu-v5p", {"precision": "bf16"}),
    "many choices": ("h200-sxm", {"dp_shard": 2}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_what_layouts_share_is_what_each_has_alone(name):
    """Every point of a table with shared rows, against the same table without, and some of them against a point."""
    hardware, more = TABLES[name]
    axes = {"overlap_dp": ["off", "on"], "schedule": ["1f1b", "gpipe"]} if name == "many choices" else {}
    model = {**SMALL, "hidden": 4096, "heads": 8, "layers": 8, "global_batch": 32, **more}
    space = make_space(study_from({"hardware": hardware, "set": model, "sweep": axes}), 16)
    chance = random.Random(name)
    assert space.rows > 100
    for begin, end, choices in space.segments:
        index = (*choices, slice(begin, end))
        shared = space.plan.evaluate(index)
        alone = space.plan.evaluate_alone(index)
        assert not any(rule.broken.all() for rule in shared.shape_violations)
        with np.errstate(invalid="ignore"):  # stages that nobody has
            for column in ("step_s", "memory_bytes", "exposed_comm_s", "optimizer_s"):
                one, other = (np.broadcast_to(getattr(step, column), extent(index)) for step in (shared, alone))
                np.testing.assert_allclose(one, other, rtol=1e-12)
                for _ in range(3):
                    place = tuple(chance.randrange(n) for n in one.shape)
                    point = result.step_at(space, tuple(i + part.start for i, part in zip(place, index, strict=True)))
                    assert float(getattr(point, column)) == pytest.approx(one[place], rel=1e-12)


MODELS = ("gpt2", "llama-3-8b", "mixtral-8x7b", "qwen3-30b-a3b", "bert-large", "t5-11b", "vit-l-16", "gemma-2-9b")
MACHINES = ("a100-sxm-80gb", "h100-sxm", "mi300x", "gb200-nvl72", "tpu-v5p", "trainium2", "perlmutter", "mi210")
PINS = {"dp_shard": [2, 4], "cp": [1, 2], "tp": [1, 2, 4], "pp": [1, 2, 3], "micro_batch": [1, 2], "bucket": [1e7],
        "recompute_layers": [2], "memory_capacity": [2, 5]}  # fmt: skip
TRIED = {"overlap_dp": ["on", "off"], "overlap_tp": ["on", "off"],
         "schedule": ["1f1b", "gpipe", "zero_bubble", "zb_v", "dualpipe"],
         "collective_algorithm": ["best", "ring", "tree"], "kernels": ["fused", "eager"],
         "offload_optimizer": ["off", "on"], "kv_replication": ["off", "on"]}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_what_a_search_says_of_its_best_is_so(seed):
    """Random searches: every layout named, fitting or not, has its score alone too, and keeps the rules."""
    chance, looked_at = random.Random(seed), 0
    for _ in range(60):
        given = {"hardware": chance.choice(MACHINES), "model": chance.choice(MODELS),
                 "set": {"global_batch": chance.choice((7, 8, 12, 32, 64)), "precision": "bf16"},
                 "sweep": {name: values for name, values in TRIED.items() if chance.random() < 0.15}}  # fmt: skip
        given["set"] |= {name: chance.choice(values) for name, values in PINS.items() if chance.random() < 0.2}
        gpus = chance.choice((1, 2, 3, 4, 6, 7, 8, 12, 16, 24, 32))
        aim = Aim(OBJECTIVES[chance.choice(("step", "memory"))], chance.choice((0.0, 0.05)))
        try:
            space = make_space(study_from(given), gpus)
        except CompcommError:
            continue
        if space.points > 50_000:
            continue
        found = run_search(space, aim, 3)
        named = [(tie, place) for tie in (*found.best.ties, *found.near_misses.ties) for place in tie.places]
        assert len({place for _, place in named}) == len(named)
        for tie, place in named:
            step, asked = result.step_at(space, place), (given, gpus, place)
            score = float(aim.objective.score(space.plan.model, step))
            numbers = (score, float(step.memory_bytes), float(step.step_s))[: len(tie.numbers)]
            assert numbers == pytest.approx(tie.numbers, rel=1e-11), asked
            assert not any(rule.broken for rule in step.shape_violations), asked
            assert (tie in found.best.ties) == (step.memory_bytes <= aim.usable * step.hardware.memory_capacity), asked
            looked_at += 1
        assert all(tie.layouts >= len(tie.places) > 0 for tie in (*found.best.ties, *found.near_misses.ties))
    assert looked_at > 20


@pytest.mark.a_third
@pytest.mark.parametrize("more", [{}, {"dp_shard": 3}, {"tp": 1, "cp": 1}, {"pp": 1, "cp": 1}, {"pp": 7}])
def test_devices_that_divide_nothing(more):
    """Spaces with one stage, one replica, or no layout at all."""
    given = {"hardware": "h100-sxm", "set": {**SMALL, "layers": 7, "global_batch": 7, **more}}
    if "dp_shard" in more:
        with pytest.raises(InfeasibleError, match="dp_shard does not divide"):
            search(study_from(given), 7)
        return
    for row in search(study_from(given), 7)["rows"]:
        names = ("tp", "cp", "pp", "vpp", "micro_batch", "zero", "sp", "recompute", "placement", "gpus")
        alone = make_plan(study_from({**given, "set": {**given["set"], **{name: row[name] for name in names}}}))
        assert float(alone.evaluate(()).step_s) == pytest.approx(row["step_s"], rel=1e-12)


@pytest.mark.slow
def test_a_number_only_some_choices_need_leaves_the_others():
    """No profile says how fast a Trainium2's host is: layouts that keep states on the device do not care."""
    given = {"hardware": "trainium2", "set": {**SMALL, "layers": 8, "global_batch": 16, "precision": "bf16"}}
    both = search(study_from({**given, "sweep": {"offload_optimizer": ["off", "on"]}}), 8, top=50)
    assert {row["offload_optimizer"] for row in both["rows"]} == {"off"}
    assert both["rows"][0]["step_s"] == search(study_from(given), 8)["rows"][0]["step_s"]
    assert any("host_bandwidth" in reason for reason in both["meta"]["dropped"])


BASE = {"hardware": "a100-sxm-80gb", "model": "gpt3-175b", "set": {"global_batch": 256}}


def best(**more):
    given = {**BASE, "set": {**BASE["set"], "placement": "tp-cp-dp-pp", "cp": 1, **more}}
    return search(study_from(given), 128)["rows"][0]["step_s"]


@pytest.mark.slow
def test_pinning_never_helps_and_memory_never_hurts():
    free = best()
    assert best(tp=8) >= free
    assert best(zero=0) >= free
    assert best(recompute="full") > free
    roomy = best(memory_capacity=2)
    assert roomy <= free <= best(memory_capacity=0.8)


def test_a_row_is_the_point_it_names():
    given = {**BASE, "set": {**BASE["set"], "placement": "tp-cp-dp-pp", "cp": 1}}
    for row in search(study_from(given), 128, top=4)["rows"]:
        names = ("tp", "pp", "vpp", "micro_batch", "zero", "sp", "recompute", "placement", "gpus")
        point = {"cp": 1, **{name: row[name] for name in names}}
        step = make_plan(study_from({**BASE, "set": {**BASE["set"], **point}})).evaluate(())
        assert float(step.step_s) == row["step_s"]
        assert not step.broken


def test_the_front_has_nothing_that_another_beats():
    given = {**BASE, "set": {**BASE["set"], "placement": "tp-cp-dp-pp", "cp": 1}}
    found = search(study_from(given), 128)
    front = found["front"]
    assert front[0]["score"] == found["rows"][0]["step_s"]
    assert all(a["score"] < b["score"] and a["memory_gib"] > b["memory_gib"] for a, b in itertools.pairwise(front))
    lean = search(study_from(given), 128, objective="memory")["rows"][0]
    assert front[-1]["memory_gib"] == pytest.approx(lean["memory_gib"])


@pytest.mark.slow
@pytest.mark.parametrize(("objective", "column", "sign"), [
    ("step", "step_s", 1), ("tokens_per_s", "tokens_per_s", -1), ("mfu", "mfu", -1), ("memory", "memory_gib", 1),
    ("comm", "visible_comm_fraction", 1), ("days", "days", 1), ("gpu-hours", "gpu_hours", 1),
])  # fmt: skip
def test_objectives_order_rows(objective, column, sign):
    given = {**BASE, "set": {**BASE["set"], "placement": "tp-cp-dp-pp", "cp": 1, "tokens": 3e11}}
    values = [sign * row[column] for row in search(study_from(given), 128, objective=objective, top=20)["rows"]]
    assert values == sorted(values)


def test_a_placement_counts_once_for_what_it_places():
    for many in range(16):
        orders = {tuple(n for n in Placement.words()[i].split("-") if many >> GROUPS.index(n) & 1) for i in range(24)}
        assert first_of_orders(Placement.words())[:, many].sum() == len(orders)


@pytest.mark.parametrize("number", [1, 2, 12, 97, 360, 4096, 65536 * 3])
def test_divisors(number):
    assert divisors(number).tolist() == [n for n in range(1, number + 1) if number % n == 0]


def test_a_list_tries_only_its_values():
    given = {**BASE, "sweep": {"tp": [2, 4]}, "set": {**BASE["set"], "cp": 1}}
    space = make_space(study_from(given), 128)
    assert set(space.table["tp"].tolist()) == {2, 4}
    assert {row["tp"] for row in search(study_from(given), 128, top=50)["rows"]} <= {2, 4}


def test_nothing_fits_says_the_nearest_miss():
    given = {**BASE, "set": {**BASE["set"], "memory_capacity": 0.02}}
    with pytest.raises(
        InfeasibleError,
        match=r"GiB of 1\.5 \(5 % of the memory is left free: --headroom\); it would take [\d.]+ times",
    ):
        search(study_from(given), 8)


def test_interrupted_keeps_what_was_found(monkeypatch):
    monkeypatch.setattr(partition, "BLOCK_POINTS", 2**13)
    given = {**BASE, "set": {**BASE["set"], "cp": 1}}
    found = search(study_from(given), 128, progress=lambda points: True)
    assert found["meta"]["interrupted"]
    assert found["rows"]


# -- the command ------------------------------------------------------------------------------------------------------

CALL = ["search", "--model", "gpt3-175b", "--hardware", "a100-sxm-80gb", "--gpus", "128", "--global-batch", "256",
        "--cp", "1", "--placement", "tp-cp-dp-pp"]  # fmt: skip


def test_search_prints_rows_and_counts(capsys):
    assert run([*CALL, "--top", "3", "--format", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert len(answer["rows"]) == 3
    assert {"tp", "pp", "dp", "zero", "step_s", "mfu", "memory_gib", "visible_comm_fraction"} <= set(answer["rows"][0])
    assert 0 < answer["meta"]["feasible"] <= answer["meta"]["candidates"]
    assert answer["best"]["step_s"] == answer["rows"][0]["step_s"]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["table", "markdown", "csv", "jsonl"])
def test_every_format(form, capsys):
    assert run([*CALL, "--format", form]) == 0
    assert capsys.readouterr().out.strip()


@pytest.mark.slow
def test_several_machines_and_device_counts_side_by_side(capsys):
    call = [*CALL, "--price-per-gpu-hour", "2,3", "--watts", "400", "--format", "json"]
    call[call.index("a100-sxm-80gb")] = "a100-sxm-80gb,h100-sxm"
    call[call.index("128")] = "[64,128]"
    assert run(call) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["hardware"], row["gpus"]) for row in rows] == list(
        itertools.product(("a100-sxm-80gb", "h100-sxm"), (64, 128))
    )
    a100, h100 = rows[0], rows[2]
    hours = a100["step_s"] * 64 / 3600 / (256 * 2048 / 1e6)
    assert a100["cost_per_million_tokens"] == pytest.approx(2 * hours)
    assert a100["energy_kwh_per_million_tokens"] == pytest.approx(0.4 * hours)
    assert h100["cost_per_million_tokens"] < a100["cost_per_million_tokens"]


@pytest.mark.parametrize(("more", "said"), [
    (["--objective", "speed"], "objective"), (["--top", "0"], "--top"), (["--objective", "days"], "tokens"),
    (["--dp", "4"], "dp"), (["--price-per-gpu-hour", "-1"], "must be from 1e-06"), (["--watts", "1,2,3"], "3 numbers"),
    (["--tp", "7"], "no layout"), (["--hidden", "[4096, 8192]"], "no part of a layout"),
])  # fmt: skip
def test_wrong_questions_are_exit_2(more, said, capsys):
    code = run([*CALL, *more])
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert said in err


def test_nothing_fits_is_exit_3(capsys):
    assert run([*CALL, "--memory-capacity", "0.01"]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert "nearest" in err


def test_scores_are_finite():
    given = {**BASE, "set": {**BASE["set"], "cp": 1}}
    study = study_from(given)
    found = search(replace(study), 64)
    assert np.isfinite([row["step_s"] for row in found["rows"]]).all()
