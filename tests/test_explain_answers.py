"""The commands about one point, explain, memory and compare, as a user meets them."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import fields, replace

import pytest
from state_dict import random_model

from comp_comm.configs import catalogue
from comp_comm.configs.study import study_from
from comp_comm.costmodels.complete.model import evaluate
from comp_comm.hardware.numbers import Tier
from comp_comm.sweeps.point import explain, point_of, sensitivity

MODEL = ("--layers", "16", "--hidden", "2048", "--heads", "16", "--vocab", "50257", "--seq-len", "2048")
POINT = ("--hardware", "h100-sxm", *MODEL, "--gpus", "64", "--tp", "4", "--pp", "2", "--global-batch", "64")
STUDY = """\
title: a small step
cost_model: complete
hardware: h100-sxm
set: {layers: 16, hidden: 2048, heads: 16, vocab: 50257, seq_len: 2048, gpus: 64, tp: 4, pp: 2, global_batch: 64}
"""
KEYS = (
    "meta", "step_s", "mfu", "hfu", "model_flops", "hardware_flops", "parameters", "compute_s", "recompute_s",
    "optimizer_s", "bubble_s", "memory", "comm", "visible_comm_fraction", "bubble_fraction", "operations",
)  # fmt: skip
OF_A_GROUP = {"serialized_s", "hidden_s", "exposed_s", "message_bytes", "volume_bytes", "wire_bytes", "calls"}
PARTS = ("compute_s", "recompute_s", "optimizer_s", "host_s", "bubble_s")
# Layouts in which every part of a step is there.
LAYOUTS = {
    "plain": (),
    "recompute": ("--recompute", "full", "--vpp", "2", "--accumulation", "8"),
    "sharded": ("--zero", "3", "--cp", "2", "--recompute", "selective", "--attention-kernel", "unfused"),
    "experts": ("--experts", "8", "--top-k", "2", "--moe-ffn-hidden", "1024", "--ep", "4", "--overlap-ep", "on"),
    "overlapped": ("--overlap-tp", "on", "--overlap-pp", "on", "--interference", "1.3", "--schedule", "zero_bubble"),
}  # fmt: skip


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "small.yaml"
    file.write_text(STUDY)
    return file


def strictly(text):
    """Read JSON that has neither NaN nor infinity."""

    def refuse(constant):
        raise AssertionError(f"{constant} in the answer")

    return json.loads(text, parse_constant=refuse)


def answer(compcomm, *arguments):
    code, out, _ = compcomm(*arguments, "--format", "json")
    assert code == 0
    return strictly(out)


# -- explain ----------------------------------------------------------------------------------------------------------


@pytest.mark.a_third
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_answer_has_every_key_and_adds_up(compcomm, layout):
    more = LAYOUTS[layout]
    point = POINT[:-2] if "--accumulation" in more else POINT
    found = answer(compcomm, "explain", *point, *more)
    assert set(KEYS) <= set(found)
    assert all(set(group) == OF_A_GROUP for group in found["comm"].values())
    assert set(found["comm"]) >= {"tp", "pp", "dp", "world"}
    talked = sum(group["serialized_s"] + group["exposed_s"] for group in found["comm"].values())
    assert sum(found[part] for part in PARTS) + talked == pytest.approx(found["step_s"], abs=1e-9)
    assert found["visible_comm_fraction"] == pytest.approx(talked / found["step_s"], abs=1e-9)
    assert found["bubble_fraction"] == pytest.approx(found["bubble_s"] / found["step_s"], abs=1e-9)
    assert found["forward_s"] + found["backward_s"] == pytest.approx(found["compute_s"], abs=1e-9)


@pytest.mark.a_third
@pytest.mark.parametrize("layout", LAYOUTS)
def test_operations_sum_to_the_seconds_of_the_step(compcomm, layout):
    more = LAYOUTS[layout]
    point = POINT[:-2] if "--accumulation" in more else POINT
    found = answer(compcomm, "explain", *point, *more)
    phases: dict[str, float] = {}
    for op in found["operations"]:
        assert op["operation"]
        assert op["formula"]
        assert op["calls"] > 0
        assert op["share"] == pytest.approx(op["seconds"] / found["step_s"])
        key = "comm" if op["group"] else op["phase"]
        phases[key] = phases.get(key, 0) + op["seconds"]
    assert phases["forward"] == pytest.approx(found["forward_s"], abs=1e-9)
    assert phases["backward"] == pytest.approx(found["backward_s"], abs=1e-9)
    assert phases.get("recompute", 0) == pytest.approx(found["recompute_s"], abs=1e-9)
    assert phases["optimizer"] == pytest.approx(found["optimizer_s"], abs=1e-9)
    if "--interference" not in more:
        spent = sum(c["serialized_s"] + c["hidden_s"] + c["exposed_s"] for c in found["comm"].values())
        assert phases["comm"] == pytest.approx(spent, abs=1e-9)


@pytest.mark.parametrize(("precision", "peak"), [("bf16", 989.4e12), ("fp16", 989.4e12), ("fp8", 1978.9e12)])
def test_mfu_is_on_the_dense_peak_of_the_compute_precision(compcomm, precision, peak):
    found = answer(compcomm, "explain", *POINT, "--precision", precision, "--recompute", "full")
    most = 64 * peak * found["step_s"]
    assert found["mfu"] == pytest.approx(found["model_flops"] / most)
    assert found["hfu"] == pytest.approx(found["hardware_flops"] / most)
    assert found["tflops_per_gpu"] == pytest.approx(found["mfu"] * peak / 1e12)
    assert found["tokens_per_s"] == pytest.approx(64 * 2048 / found["step_s"])


def test_devices_do_all_flops_between_them(compcomm):
    split = ("--vocab", "0", "--tp", "4", "--pp", "2", "--cp", "2", "--gpus", "64", "--global-batch", "64")
    point = ("--hardware", "h100-sxm", *MODEL[:-4], *MODEL[-2:], *split)
    latent = ("--kv-lora-rank", "512", "--rope-head-dim", "64", "--q-lora-rank", "768")
    for more in ((), ("--recompute", "full"), ("--recompute", "selective"), LAYOUTS["experts"], latent):
        found = answer(compcomm, "explain", *point, *more)
        done = sum(op["flops"] * op["calls"] for op in found["operations"])
        assert 64 * done == pytest.approx(found["hardware_flops"], rel=1e-12)


@pytest.mark.a_third
@pytest.mark.parametrize("seed", range(25))
def test_no_model_makes_a_number_that_is_none(seed):
    found = explain(study_from({"hardware": "h100-sxm", "set": {**random_model(seed), "dp": 2, "recompute": "full"}}))
    assert json.dumps(found, allow_nan=False)
    assert 2 * sum(op["flops"] * op["calls"] for op in found["operations"]) == pytest.approx(found["hardware_flops"])


def test_a_run_of_so_many_tokens_has_days_and_hours(compcomm):
    assert "days" not in answer(compcomm, "explain", *POINT)
    found = answer(compcomm, "explain", *POINT, "--tokens", "1e12")
    steps = 1e12 / (64 * 2048)
    assert found["days"] == pytest.approx(steps * found["step_s"] / 86400)
    assert found["gpu_hours"] == pytest.approx(steps * found["step_s"] / 3600 * 64)


# -- sensitivity ------------------------------------------------------------------------------------------------------


def rows_by_name(found):
    return {(row["number"], row["factor"]): row for row in found["sensitivity"]}


@pytest.mark.slow
@pytest.mark.parametrize("factor", [1.1, 2])
@pytest.mark.parametrize("name", ["flops", "memory_bandwidth", "memory_capacity"])
def test_a_row_is_the_step_on_hardware_to_come(compcomm, name, factor):
    row = rows_by_name(answer(compcomm, "explain", *POINT))[name, factor]
    again = answer(compcomm, "explain", *POINT, f"--{name.replace('_', '-')}", factor)
    now = answer(compcomm, "explain", *POINT)["step_s"]
    assert row["step_s"] == pytest.approx(again["step_s"], rel=1e-12)
    assert row["change"] == pytest.approx(again["step_s"] / now - 1, abs=1e-12)
    assert row["feasible"] == again["feasible"]


@pytest.mark.parametrize(("tier", "bandwidth"), [("scale-up", "450 GB/s"), ("scale-out", "50 GB/s")])
def test_a_row_of_a_tier_is_a_profile_with_a_faster_tier(compcomm, tmp_path, tier, bandwidth):
    text = catalogue.locate("hardware", "h100-sxm").read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if f"bandwidth: {{value: {bandwidth}," in line)
    number, unit = bandwidth.split()
    faster = tmp_path / "faster.yaml"
    faster.write_text(text.replace(line, line.replace(bandwidth, f"{2 * int(number)} {unit}")), encoding="utf-8")
    row = rows_by_name(answer(compcomm, "explain", *POINT))[f"bandwidth of {tier}", 2]
    again = answer(compcomm, "explain", "--hardware", faster, *POINT[2:])
    assert row["step_s"] == pytest.approx(again["step_s"], rel=1e-12)
    assert row["change"] < 0


def test_in_one_domain_the_network_is_its_tier(compcomm):
    point = ("--hardware", "h100-sxm", *MODEL, "--gpus", "8", "--tp", "4", "--global-batch", "8")
    rows = rows_by_name(answer(compcomm, "explain", *point))
    assert rows["bandwidth of scale-up", 2]["step_s"] == pytest.approx(
        answer(compcomm, "explain", *point, "--network", "2")["step_s"], rel=1e-12)  # fmt: skip
    assert rows["bandwidth of scale-out", 2]["change"] == 0


@pytest.mark.a_third
@pytest.mark.parametrize("seq_len", [128, 8192])
@pytest.mark.parametrize("hardware", ["h100-sxm", "a100-sxm-80gb", "mi300x", "perlmutter"])
def test_the_row_of_latency_scales_every_latency_of_the_network(hardware, seq_len):
    point = {"layers": 4, "hidden": 4096, "heads": 32, "vocab": 1024, "seq_len": seq_len, "gpus": 64, "tp": 2,
             "cp": 2, "cp_comm": "all_to_all"}  # fmt: skip
    plan, step = point_of({"hardware": hardware, "set": point})
    (row,) = [row for row in sensitivity(plan, step, (2.0,)) if row["number"] == "latency"]
    names = [item.name for item in fields(Tier) if item.name.endswith("latency")]
    device = step.work.scenario.hardware
    tiers = tuple(replace(tier, **{name: 2 * getattr(tier, name) for name in names}) for tier in device.tiers)
    timing = replace(device.timing, collective_latency=2 * device.timing.collective_latency)
    slower = evaluate(replace(step.work.scenario, hardware=replace(device, tiers=tiers, timing=timing)))
    assert row["step_s"] == pytest.approx(float(slower.step_s), rel=1e-12)
    assert row["change"] > 0


def test_memory_capacity_changes_what_fits_and_no_second(compcomm):
    point = ("--hardware", "h100-sxm", *MODEL, "--gpus", "1", "--global-batch", "32", "--micro-batch", "32")
    found = answer(compcomm, "explain", *point)
    assert found["feasible"] is False
    row = rows_by_name(found)["memory_capacity", 2]
    assert (row["feasible"], row["change"]) == (True, 0)


# -- formats, files, studies ------------------------------------------------------------------------------------------


def test_formats_of_explain_hold_the_same_operations(compcomm):
    found = answer(compcomm, "explain", *POINT)
    _, lines, _ = compcomm("explain", *POINT, "--format", "jsonl")
    assert [strictly(line) for line in lines.splitlines()] == found["operations"]
    _, table, _ = compcomm("explain", *POINT, "--format", "csv")
    cells = list(csv.DictReader(io.StringIO(table)))
    assert [row["operation"] for row in cells] == [op["operation"] for op in found["operations"]]
    assert [float(row["seconds"]) for row in cells] == [op["seconds"] for op in found["operations"]]
    for form, heading in (("table", "\nMemory of the stage"), ("markdown", "\n### Memory of the stage")):
        code, text, _ = compcomm("explain", *POINT, "--format", form)
        assert code == 0
        assert heading in text
        assert f"{found['step_s']:.4g} s a step" in text
        assert f"MFU {100 * found['mfu']:.1f} %" in text
        for op in found["operations"]:
            assert op["operation"] in text


def test_formats_of_memory_hold_the_same_bytes(compcomm):
    found = answer(compcomm, "memory", *POINT)
    sizes = {name: value for name, value in found.items() if name.endswith("_bytes")}
    _, lines, _ = compcomm("memory", *POINT, "--format", "jsonl")
    assert {row["memory"]: row["bytes"] for row in map(strictly, lines.splitlines())} == sizes
    _, table, _ = compcomm("memory", *POINT, "--format", "csv")
    assert {row["memory"]: float(row["bytes"]) for row in csv.DictReader(io.StringIO(table))} == sizes
    _, text, _ = compcomm("memory", *POINT)
    assert f"{sizes['total_bytes'] / 2**30:.2f}" in text
    assert answer(compcomm, "explain", *POINT)["memory"] == sizes


@pytest.mark.parametrize("command", ["explain", "memory"])
def test_a_file_takes_its_extensions_format_and_stdout_stays_empty(compcomm, tmp_path, command):
    for name, first in (("o.json", "{"), ("o.jsonl", "{"), ("o.md", "## "), ("o.txt", "H 2048 on ")):
        code, out, _ = compcomm(command, *POINT, "-o", tmp_path / name)
        assert (code, out) == (0, "")
        assert (tmp_path / name).read_text().startswith(first)


def test_a_study_and_flags_go_together_and_flags_win(compcomm, path):
    assert answer(compcomm, "explain", path)["step_s"] == answer(compcomm, "explain", *POINT)["step_s"]
    flag, override = (answer(compcomm, "explain", path, *more) for more in (("--tp", "8"), ("--set", "tp=8")))
    given = [*POINT]
    given[given.index("--tp") + 1] = "8"
    assert flag["step_s"] == override["step_s"] == answer(compcomm, "explain", *given)["step_s"]


def test_the_same_point_gives_the_same_bytes(compcomm, path):
    assert compcomm("explain", path, "--format", "json") == compcomm("explain", path, "--format", "json")


# -- compare ----------------------------------------------------------------------------------------------------------


def test_two_points_side_by_side_term_by_term(compcomm, path):
    found = answer(compcomm, "compare", path, path, "--set-b", "tp=8", "--set", "recompute=full", "--set-a", "zero=0")
    left = answer(compcomm, "explain", path, "--zero", "0", "--recompute", "full")
    right = answer(compcomm, "explain", path, "--tp", "8", "--recompute", "full")
    rows = {row["term"]: row for row in found["rows"]}
    for row in rows.values():
        a, b = left, right
        for name in row["term"].split("."):
            a, b = a[name], b[name]
        assert (row["a"], row["b"], row["difference"]) == (a, b, b - a)
        assert row["ratio"] == (b / a if a else None)
    assert {"step_s", "mfu", "memory.total_bytes", "comm.tp.wire_bytes", "comm.dp.exposed_s"} <= set(rows)
    assert rows["memory.optimizer_bytes"]["ratio"] < 1


def test_what_only_one_of_two_has_is_0_in_the_other(compcomm, path):
    rows = {row["term"]: row for row in answer(compcomm, "compare", path, path, "--set-b", "pp=1")["rows"]}
    assert rows["comm.pp.calls"]["b"] == 0
    assert rows["bubble_s"]["ratio"] == 0
    back = {row["term"]: row for row in answer(compcomm, "compare", path, path, "--set-a", "pp=1")["rows"]}
    assert back["bubble_s"]["ratio"] is None


@pytest.mark.a_third
@pytest.mark.parametrize("form", ["table", "markdown", "csv", "jsonl"])
def test_compare_has_every_format(compcomm, path, form):
    code, out, _ = compcomm("compare", path, path, "--set-b", "tp=8", "--format", form)
    assert code == 0
    assert "comm.tp.wire_bytes" in out
