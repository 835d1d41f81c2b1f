"""The commands about one step: explain, memory, compare; what they promise, and what they refuse."""

from __future__ import annotations

import csv
import io
import json

import pytest

POINT = ["--hardware", "h100-sxm", "--layers", "32", "--hidden", "4096", "--heads", "32", "--vocab", "32000",
         "--seq-len", "4096", "--gpus", "64", "--tp", "4", "--pp", "2", "--global-batch", "128"]  # fmt: skip
KEYS = ("meta", "step_s", "mfu", "hfu", "model_flops", "hardware_flops", "parameters", "compute_s", "recompute_s",
        "optimizer_s", "bubble_s", "memory", "comm", "visible_comm_fraction", "bubble_fraction", "operations",
        "sensitivity", "feasible")  # fmt: skip
SPENT = ("serialized_s", "hidden_s", "exposed_s", "message_bytes", "volume_bytes", "wire_bytes", "calls")


def answer(compcomm, *arguments):
    code, out, err = compcomm(*arguments, "--format", "json")
    assert code == 0, err
    return json.loads(out)


@pytest.mark.a_third
@pytest.mark.parametrize("more", [[], ["--recompute", "full"], ["--zero", "3", "--pp", "1"], ["--cp", "2"],
                                  ["--overlap-tp", "on", "--overlap-pp", "on"]])  # fmt: skip
def test_explain_has_every_key_and_its_seconds_add_up(compcomm, more):
    found = answer(compcomm, "explain", *_merged(more))
    assert set(KEYS) <= set(found)
    assert all(set(SPENT) <= set(group) for group in found["comm"].values())
    visible = sum(group["serialized_s"] + group["exposed_s"] for group in found["comm"].values())
    parts = sum(found[name] for name in ("compute_s", "recompute_s", "optimizer_s", "host_s", "bubble_s"))
    assert parts + visible == pytest.approx(found["step_s"], rel=1e-9)
    assert found["visible_comm_fraction"] == pytest.approx(visible / found["step_s"])
    assert found["bubble_fraction"] == pytest.approx(found["bubble_s"] / found["step_s"])
    assert found["mfu"] == pytest.approx(found["model_flops"] / (64 * 989.4e12 * found["step_s"]))


def _merged(more):
    """Return the flags of the point with some of them replaced."""
    flags = dict(zip(POINT[::2], POINT[1::2], strict=True)) | dict(zip(more[::2], more[1::2], strict=True))
    return [part for pair in flags.items() for part in pair]


def test_fp8_is_measured_on_the_fp8_peak(compcomm):
    found = answer(compcomm, "explain", *_merged(["--precision", "fp8"]))
    assert found["mfu"] == pytest.approx(found["model_flops"] / (64 * 1978.9e12 * found["step_s"]))


def test_operations_are_what_the_step_is_made_of(compcomm):
    found = answer(compcomm, "explain", *POINT)
    spent = sum(op["seconds"] for op in found["operations"] if op["group"] is None)
    assert spent == pytest.approx(found["compute_s"] + found["recompute_s"] + found["optimizer_s"])
    assert all(op["formula"] and op["share"] == pytest.approx(op["seconds"] / found["step_s"])
               for op in found["operations"])  # fmt: skip
    names = {op["operation"] for op in found["operations"]}
    assert {"QKV projection", "attention", "FFN up", "logits", "Adam", "gradient norm", "stage boundary"} <= names


def test_sensitivity_is_what_a_change_of_the_hardware_gives(compcomm):
    found = answer(compcomm, "explain", *POINT)
    rows = {(row["number"], row["factor"]): row["step_s"] for row in found["sensitivity"]}
    for number, flag in (("flops", "--flops"), ("memory_bandwidth", "--memory-bandwidth")):
        for factor in (1.1, 2.0):
            other = answer(compcomm, "explain", *POINT, flag, factor)
            assert rows[number, factor] == pytest.approx(other["step_s"], rel=1e-12)
    both = answer(compcomm, "explain", *POINT, "--network", 2)["step_s"]
    assert both < min(rows["bandwidth of scale-up", 2.0], rows["bandwidth of scale-out", 2.0])
    assert rows["latency", 2.0] > found["step_s"] == rows["memory_capacity", 2.0]


def test_conventions_change_no_seconds(compcomm):
    full, causal = (answer(compcomm, "explain", *POINT, "--count-attention", word) for word in ("full", "causal"))
    assert full["step_s"] == causal["step_s"]
    assert full["model_flops"] > causal["model_flops"]


def test_tokens_give_days_and_gpu_hours(compcomm):
    found = answer(compcomm, "explain", *POINT, "--tokens", "1e12")
    seconds = 1e12 / (128 * 4096) * found["step_s"]
    assert found["days"] == pytest.approx(seconds / 86400)
    assert found["gpu_hours"] == pytest.approx(64 * seconds / 3600)
    assert "days" not in answer(compcomm, "explain", *POINT)


@pytest.mark.a_third
@pytest.mark.parametrize("command", ["explain", "memory"])
@pytest.mark.parametrize("form", ["table", "markdown", "csv", "jsonl"])
def test_every_format(compcomm, command, form):
    code, out, _ = compcomm(command, *POINT, "--format", form)
    assert code == 0
    if form == "csv":
        assert len(list(csv.DictReader(io.StringIO(out)))) > 5


def test_memory_is_that_of_explain(compcomm):
    whole, alone = answer(compcomm, "explain", *POINT)["memory"], answer(compcomm, "memory", *POINT)
    assert {name: alone[name] for name in whole} == whole
    beside = ("total_bytes", "allocated_bytes", "reserved_bytes", "capacity_bytes")
    parts = sum(size for name, size in whole.items() if name not in beside)
    assert whole["allocated_bytes"] == whole["total_bytes"] - whole["framework_bytes"]
    assert parts == pytest.approx(whole["total_bytes"])


def test_what_does_not_fit_is_shown_and_said(compcomm):
    code, out, err = compcomm("memory", *_merged(["--tp", "1", "--pp", "1", "--zero", "0", "--hidden", "16384"]))
    assert code == 0
    assert "NOT FEASIBLE: does not fit" in out
    assert "GiB needed" in err
    found = answer(compcomm, "explain", *_merged(["--tp", "1", "--pp", "1", "--zero", "0", "--hidden", "16384"]))
    assert found["feasible"] is False


def test_a_study_and_flags_together(compcomm):
    found = answer(compcomm, "explain", "llama-step", "--tp", "4", "--vpp", "1")
    assert found["meta"]["fixed"]["tp"] == 4
    assert found["dp"] == 32


def test_every_broken_rule_is_listed_at_once(compcomm):
    code, out, err = compcomm(
        "explain", *_merged(["--heads", "30", "--gpus", "63", "--pp", "15", "--ep", "2", "--vpp", "3"])
    )
    assert (code, out) == (2, "")
    for rule in ("heads does not divide hidden", "tp does not divide heads", "does not divide gpus", "ep needs experts",
                 "pp x vpp exceeds the layers"):  # fmt: skip
        assert rule in err


@pytest.mark.parametrize(("arguments", "said"), [
    (["explain"], "nothing is asked"), (["memory", "--layers", "4"], "'hardware' is missing"),
    (["explain", "future"], "no operations"), (["memory", "llama-step", "--tp", "[4, 8]"], "several points"),
    (["explain", *POINT, "--top-k", "2"], "means nothing without experts"),
    (["explain", *POINT, "--zero", "4"], "from 0 to 3"), (["explain", *POINT, "--cost-model", "x"], "--cost-model"),
    (["explain", *POINT, "--recompute", "some"], "none, selective, full"),
    (["explain", *POINT, "--precision", "fp32"], "fp32"), (["explain", "llama-stp"], "did you mean 'llama-step'"),
    (["compare", "llama-step"], "B is missing"), (["compare", "llama-step", "future"], "several points"),
])  # fmt: skip
def test_wrong_questions_are_exit_2(compcomm, arguments, said):
    code, out, err = compcomm(*arguments)
    assert (code, out) == (2, "")
    assert said in err


def test_compare_sets_two_steps_side_by_side(compcomm):
    found = answer(compcomm, "compare", "llama-step", "llama-step", "--set-b", "tp=4")
    rows = {row["term"]: row for row in found["rows"]}
    a, b = (answer(compcomm, "explain", "llama-step", "--tp", tp)["step_s"] for tp in (8, 4))
    assert (rows["step_s"]["a"], rows["step_s"]["b"]) == (a, b)
    assert rows["step_s"]["difference"] == pytest.approx(b - a)
    assert rows["dp"]["ratio"] == 2
    assert rows["memory.total_bytes"]["ratio"] > 1
    assert rows["comm.tp.serialized_s"]["ratio"] < 1


def test_an_output_is_written_whole_or_not_at_all(compcomm, tmp_path):
    target = tmp_path / "step.json"
    assert compcomm("explain", *POINT, "-o", target)[0] == 0
    assert json.loads(target.read_text())["step_s"] > 0
    assert compcomm("explain", *_merged(["--tp", "3"]), "-o", tmp_path / "no.json")[0] == 2
    assert not (tmp_path / "no.json").exists()
