"""What a search says beside the best: ties, headroom, the best for each value, what was tried."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from comp_comm.cli.main import run
from comp_comm.configs.study import study_from
from comp_comm.errors import ConfigError
from comp_comm.searches import search
from comp_comm.searches.build_space import make_space
from comp_comm.sweeps.plan import make_plan
from comp_comm.sweeps.prices import Prices

GIVEN = {"hardware": "a100-sxm-80gb", "model": "gpt3-13b", "set": {"global_batch": 64}}
SHELL = ("search", "--hardware", "a100-sxm-80gb", "--model", "gpt3-13b", "--gpus", "32", "-q")


def alone(row, **more):
    names = ("gpus", "tp", "cp", "pp", "vpp", "micro_batch", "zero", "sp", "recompute", "placement")
    fixed = {"global_batch": 64, **{name: row[name] for name in names}, **more}
    return make_plan(study_from({**GIVEN, "set": fixed})).evaluate(())


@pytest.fixture(scope="module")
def found():
    return search(study_from(GIVEN), 32, top=12, per=("tp", "recompute"))


def test_the_best_for_each_value_is_the_same_beside_a_comparison(compcomm):
    """To be compared, layouts are told apart by all degrees: those of one TP are put together again."""
    small = ("search", "--model", "llama-3-8b", "--hardware", "h100-sxm", "--gpus", "16", "--global-batch", "16",
             "--cp", "1", "--per", "tp", "--format", "json", "-q")  # fmt: skip
    alone, beside = (json.loads(compcomm(*small, *more)[1]) for more in ((), ("--compare",)))
    assert beside["per"] == alone["per"]
    assert sum(row["candidates"] for row in beside["per"]["rows"]) == beside["meta"]["candidates"]


@pytest.mark.slow
def test_placements_of_a_row_cost_the_same_one_by_one():
    found = search(study_from({**GIVEN, "set": {"global_batch": 64, "cp": 2, "pp": 4}}), 32)
    told = 0
    for row in found["rows"]:
        text = dict(part.split(" ", 1) for part in (row["also"] or "").split("; ") if part)
        names = text.get("placement", row["placement"]).split(" or ")
        told += len(names) > 1
        for name in names:
            step = alone(row, placement=name)
            assert float(step.step_s) == pytest.approx(row["step_s"], rel=1e-12)
            assert float(step.memory_bytes) / 2**30 == pytest.approx(row["memory_gib"], rel=1e-12)
        assert row["ties"] >= len(names)
    assert told > 3
    keys = [(row["step_s"], row["memory_gib"]) for row in found["rows"]]
    assert len(set(keys)) == len(keys)


@pytest.mark.slow
@pytest.mark.parametrize(("hardware", "gpus"), [("h100-sxm", 96), ("gb200-nvl72", 1152), ("b200-sxm", 64)])
def test_a_class_of_placements_is_all_that_cost_the_same(hardware, gpus):
    given = {"hardware": hardware, "model": "llama-3-8b", "set": {"global_batch": gpus}}
    space = make_space(study_from(given), gpus)
    chance = np.random.default_rng(3)
    plan, several = space.plan, 0
    for row in chance.choice(space.rows, 25, replace=False).tolist():
        names = space.equivalent_placements(row)
        assert len(names) == space.counts[row]
        point = {name: values[row] for name, values in plan.grid.axes[-1].values.items()}
        fixed = {**plan.grid.fixed, **point, "zero": 2, "sp": "on", "recompute": "none"}
        seconds = []
        for name in names:
            study = study_from({"hardware": hardware, "model": "llama-3-8b", "set": {**fixed, "placement": name}})
            seconds.append(float(make_plan(study).evaluate(()).step_s))
        assert seconds == pytest.approx([seconds[0]] * len(names), rel=1e-12)
        several += len(names) > 1
    assert several > 1


@pytest.mark.slow
def test_the_best_for_each_value_is_that_of_a_search_of_it(found):
    lines = found["per"]["rows"]
    assert sum(line["candidates"] for line in lines) == found["meta"]["candidates"]
    assert sum(line["feasible"] for line in lines) == found["meta"]["feasible"]
    assert min(line["behind_percent"] for line in lines if line["feasible"]) == 0
    for line in lines[:: max(1, len(lines) // 4)]:
        if not line["feasible"]:
            assert line["step_s"] is None
            continue
        pinned = {**GIVEN, "set": {"global_batch": 64, "tp": line["tp"], "recompute": line["recompute"]}}
        best = search(study_from(pinned), 32, top=1)
        assert best["rows"][0]["step_s"] == pytest.approx(line["step_s"], rel=1e-12)
        assert best["meta"]["feasible"] == line["feasible"]
        behind = 100 * (line["step_s"] / found["rows"][0]["step_s"] - 1)
        assert line["behind_percent"] == pytest.approx(behind, abs=1e-9)


def test_headroom_is_memory_left_free(found):
    assert found["meta"]["headroom"] == 0.05
    assert all(row["memory_gib"] <= 0.95 * 80 for row in found["rows"])
    assert [line["headroom_percent"] for line in found["headrooms"]] == [5, 10, 20]
    for line in found["headrooms"]:
        free = line["headroom_percent"] / 100
        best = search(study_from(GIVEN), 32, top=1, headroom=free)["rows"][0]
        assert line["step_s"] == pytest.approx(best["step_s"], rel=1e-12)
        assert best["memory_gib"] <= (1 - free) * 80
    assert search(study_from(GIVEN), 32, headroom=0)["meta"]["feasible"] > found["meta"]["feasible"]
    with pytest.raises(ConfigError, match="share of the memory"):
        search(study_from(GIVEN), 32, headroom=1.0)


def test_what_was_not_tried_is_said(found):
    left = found["meta"]["not_tried"]
    assert left["schedule"]["value"] == "1f1b"
    assert "zb_h2" in left["schedule"]["others"]
    assert not {"zero", "recompute", "placement"} & left.keys()


def test_cost_and_energy_need_a_price_and_watts():
    with pytest.raises(ConfigError, match="--objective cost needs --price-per-gpu-hour"):
        search(study_from(GIVEN), 32, "cost")
    best = search(study_from(GIVEN), 32, "energy", 1, Prices(watts=400))["rows"][0]
    assert best["energy_kwh_per_million_tokens"] == pytest.approx(0.4 * 32 * best["step_s"] / 3600 / (64 * 2048) * 1e6)


def test_the_decision_in_one_call(compcomm):
    code, out, _ = compcomm(*SHELL, "--batch-tokens", "128K", "--per", "tp", "--explain", "--compare", "--format",
                            "json")  # fmt: skip
    answer = json.loads(out)
    assert code == 0
    assert answer["meta"]["fixed"]["global_batch"] == 64
    assert answer["explain"]["step_s"] == pytest.approx(answer["rows"][0]["step_s"], rel=1e-12)
    terms = {row["term"]: row for row in answer["compare"]}
    sides = [answer["rows"][0]["step_s"], answer["runner_up"]["step_s"]]
    assert [terms["step_s"][side] for side in "ab"] == pytest.approx(sides)
    assert [line["tp"] for line in answer["per"]["rows"]] == sorted({line["tp"] for line in answer["per"]["rows"]})


DEGREES = ("tp", "cp", "pp", "ep", "dp")


@pytest.mark.slow
@pytest.mark.parametrize("more", [
    (), *(pytest.param(more, marks=pytest.mark.slow) for more in (
        ("--per", "tp"), ("--objective", "memory"), ("--pp", "8", "--cp", "1", "--tp", "2,4"))), ("--per", "zero,pp"),
])  # fmt: skip
def test_the_best_is_compared_with_the_next_of_other_degrees(more, compcomm):
    """It is found among all layouts, whatever is shown: here it is looked for in a list of all by hand."""
    shell = (*SHELL, "--global-batch", "64", *more)
    found = json.loads(compcomm(*shell, "--compare", "--top", "1", "--format", "json")[1])
    listed = json.loads(compcomm(*shell, "--top", "5000", "--format", "json")[1])
    best, *others = listed["rows"]
    column = "memory_gib" if "memory" in more else "step_s"
    second = next(row for row in others if any(row[name] != best[name] for name in DEGREES))
    if "8" in more:
        assert others.index(second) > 1  # before it are rows that differ in chunks of a stage and the like
    assert found["runner_up"][column] == second[column]
    assert any(found["runner_up"][name] != best[name] for name in DEGREES)
    assert found["compared"]["other_degrees"] is True
    assert found["per"] == listed["per"]


def test_without_other_degrees_the_second_is_compared(compcomm):
    pinned = ("--global-batch", "64", "--tp", "4", "--cp", "1", "--pp", "4", "--ep", "1")
    code, out, _ = compcomm(*SHELL, *pinned, "--compare")
    assert code == 0
    assert "and the second (b: " in out
    assert "no layout of other degrees fits" in out


@pytest.mark.parametrize(("more", "said"), [
    (("--batch-tokens", "5000"), "4,096 and 6,144 are"),
    (("--batch-tokens", "4M", "--global-batch", "8"), "give one of them"),
    (("--global-batch", "64", "--per", "tpp"), "did you mean 'tp'"),
    (("--global-batch", "64", "--per", "dp"), "no field of the layouts"),
])  # fmt: skip
def test_refusals(more, said, compcomm):
    code, out, err = compcomm(*SHELL, *more)
    assert (code, out) == (2, "")
    assert said in err


# -- what cannot be told from the best --------------------------------------------------------------------------------


def test_layouts_within_the_error_of_a_ratio_tie_with_the_best(found, capsys):
    """All that fit and are near are counted; listed are those of the front, the least memory first."""
    tied, rows = found["tied"], found["rows"]
    best = rows[0]["step_s"]
    near = [tuple(each.values()) for each in found["front"] if each["score"] <= best * (1 + tied["percent"] / 100)]
    listed = [(row["step_s"], row["memory_gib"]) for row in tied["rows"]]
    assert len(listed) > 1
    assert np.asarray(listed) == pytest.approx(np.asarray(near[::-1]), rel=1e-12)
    assert [row["behind_percent"] for row in tied["rows"]][-1] == 0
    within = found["meta"]["within_percent"]
    assert within["10"] < tied["layouts"] < found["meta"]["feasible"]
    assert 10 < tied["percent"] < 15
    span = found["best"]["interval"]
    assert span["low_s"] < best < span["high_s"]
    assert run([*SHELL, "--set", "global_batch=64"]) == 0
    out = capsys.readouterr().out
    assert f"between {span['low_s']:.4g} and {span['high_s']:.4g} s for 80 % of runs" in out
    assert "layouts tie" in out


def test_every_column_of_a_search_is_told(capsys):
    """`compcomm columns` knows whatever a search prints as a column."""
    prices = ("--price-per-gpu-hour", "2", "--watts", "700", "--tokens", "1T", "--per", "tp", "--format", "json")
    small = (*SHELL, "--set", "global_batch=64", "--cp", "1", "--pp", "1", "--zero", "1")
    assert run([*small, *prices]) == 0
    one = json.loads(capsys.readouterr().out)
    tables = (one["rows"], one["per"]["rows"], one["headrooms"], one["tied"]["rows"])
    shown = {name for rows in tables for name in rows[0]}
    assert {"ties", "behind_percent", "headroom_percent", "cost_of_run", "energy_kwh_of_run", "feasible"} <= shown
    assert run(["columns", "--format", "json"]) == 0
    assert shown <= {row["name"] for row in json.loads(capsys.readouterr().out)["rows"]}


@pytest.mark.parametrize(("more", "said"), [((), True), (("--stack", "megatron"), False),
                                            (("--grad-precision", "fp32"), False)])  # fmt: skip
def test_the_bytes_of_gradients_are_said_where_no_framework_is(more, said, capsys):
    """Without a stack gradients take 2 bytes where Megatron-LM's take 4: a layout that fits may not."""
    one = ("--tp", "4", "--cp", "1", "--pp", "4", "--vpp", "1", "--zero", "0", "--sp", "on", "--micro-batch", "1")
    assert run([*SHELL, "--set", "global_batch=64", *one, "--recompute", "none", *more]) == 0
    out = capsys.readouterr().out
    assert ("gradients are in the format of the weights (--stack megatron" in out) is said
    memory = dict(re.findall(r"^(weights|gradients) +([0-9.]+)", out, re.MULTILINE))
    assert (memory["weights"] == memory["gradients"]) is said


def test_what_is_no_time_has_no_ties():
    assert search(study_from(GIVEN), 32, objective="memory", top=3)["tied"] is None
