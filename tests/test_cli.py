"""The command line as a user meets it: each line of what it must show, exit codes, and nothing written on failure."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import PATIENCE, rest_of, said, until, written

from comp_comm.cli.main import COMMANDS

CONFIGS = Path(__file__).resolve().parent.parent / "configs"
POINT = {"hidden": 65536, "seq_len": 4096, "micro_batch": 1, "tp": 256}
ROW = (
    "hidden", "seq_len", "micro_batch", "tp", "flop_vs_bw", "compute_s", "serialized_comm_s", "overlapped_comm_s",
    "serialized_comm_fraction", "overlap_ratio", "amdahl_edge_flop_per_byte", "slack_flop_per_byte",
)  # fmt: skip
STUDY = """\
title: three points
set: {hidden: 64K, seq_len: 4K, micro_batch: 1}
sweep: {tp: [64, 128, 256]}
"""


ONE_LAYER = "cost_model: comp_vs_comm\n"


@pytest.fixture
def study(tmp_path):
    """Write a study and return its path."""

    def write(text, name="study.yaml"):
        path = tmp_path / name
        if ":" in text and "cost_model" not in text and "extends" not in text:  # of one layer unless they say otherwise
            text += ONE_LAYER
        path.write_text(text)
        return path

    return write


def rows_of(text):
    return json.loads(text)["rows"]


# -- sweep ------------------------------------------------------------------------------------------------------------


def test_future_gives_1176_rows_with_every_column(compcomm):
    code, out, err = compcomm("sweep", CONFIGS / "future.yaml", "--format", "json")
    answer = json.loads(out)
    assert code == 0
    assert err == ""
    assert set(answer) == {"meta", "rows"}
    assert len(answer["rows"]) == answer["meta"]["points"] == 1176
    assert all(set(ROW) <= set(row) for row in answer["rows"])
    assert len({tuple(row[n] for n in ROW[:5]) for row in answer["rows"]}) == 7 * 4 * 2 * 7 * 3


def test_future_has_the_papers_headline_shares(compcomm):
    _, out, _ = compcomm("sweep", "future", "--format", "json")
    found = {row["flop_vs_bw"]: row["serialized_comm_fraction"] for row in rows_of(out)
             if all(row[name] == value for name, value in POINT.items())}  # fmt: skip
    assert found == pytest.approx({1: 0.478, 2: 0.647, 4: 0.785}, abs=0.0005)


def test_default_table_is_a_pivot_of_percent_with_tp_across(compcomm):
    code, out, _ = compcomm("sweep", "future")
    assert code == 0
    blocks = out.split("flop_vs_bw = ")
    assert [block.split("\n", 1)[0] for block in blocks[1:]] == ["1", "2", "4"]
    header = next(line for line in out.splitlines() if "tp 256" in line)
    assert header.split() == ["hidden", "seq_len", "micro_batch", "tp", "4", "tp", "8", "tp",
                              "16", "tp", "32", "tp", "64", "tp", "128", "tp", "256"]  # fmt: skip
    line = next(line for line in blocks[1].splitlines() if line.split()[:3] == ["64K", "4K", "1"])
    assert line.split()[-1] == "47.8"
    assert "timing A" in out
    assert "count complete" in out


def test_formats_hold_the_same_numbers(compcomm, study):
    path = study(STUDY)
    _, text, _ = compcomm("sweep", path, "--format", "json")
    rows = rows_of(text)
    _, lines, _ = compcomm("sweep", path, "--format", "jsonl")
    assert [json.loads(line) for line in lines.splitlines()] == rows
    _, table, _ = compcomm("sweep", path, "--format", "csv")
    for row, cells in zip(rows, csv.DictReader(io.StringIO(table)), strict=True):
        assert float(cells["serialized_comm_fraction"]) == row["serialized_comm_fraction"]
        assert int(cells["tp"]) == row["tp"]
        assert (cells["feasible"], cells["reason"]) == ("true", "")
    _, markdown, _ = compcomm("sweep", path, "--format", "markdown", "--long")
    assert f"{100 * rows[2]['serialized_comm_fraction']:.1f}" in markdown.splitlines()[-1]


@pytest.mark.parametrize(("name", "first"), [("o.json", "{"), ("o.csv", "hidden,"), ("o.jsonl", "{"), ("o.md", "## "),
                                             ("o.txt", "three points")])  # fmt: skip
def test_output_file_takes_its_extensions_format(compcomm, study, tmp_path, name, first):
    target = tmp_path / name
    code, out, _ = compcomm("sweep", study(STUDY), "-o", target)
    assert (code, out) == (0, "")
    assert target.read_text().startswith(first)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(["study.yaml", name])


def test_the_same_study_gives_the_same_bytes(compcomm, study):
    path = study(STUDY)
    assert compcomm("sweep", path, "--format", "json") == compcomm("sweep", path, "--format", "json")


def test_timing_puts_seconds_into_meta_only_when_asked(compcomm, study):
    path = study(STUDY)
    assert "seconds" not in json.loads(compcomm("sweep", path, "--format", "json")[1])["meta"]
    assert json.loads(compcomm("sweep", path, "--format", "json", "--elapsed")[1])["meta"]["seconds"] > 0


def test_top_gives_the_largest_first_and_ascending_the_smallest(compcomm):
    _, every, _ = compcomm("sweep", "future", "--format", "json")
    values = sorted((row["overlap_ratio"] for row in rows_of(every)), reverse=True)
    _, top, _ = compcomm("sweep", "future", "--top", 5, "--by", "overlap_ratio", "--format", "json")
    assert [row["overlap_ratio"] for row in rows_of(top)] == values[:5]
    _, low, _ = compcomm("sweep", "future", "--top", 5, "--by", "overlap_ratio", "--ascending", "--format", "json")
    assert [row["overlap_ratio"] for row in rows_of(low)] == values[::-1][:5]


def test_columns_are_those_asked_for_in_their_order(compcomm, study):
    _, out, _ = compcomm("sweep", study(STUDY), "--columns", "tp,overlap_ratio", "--format", "csv")
    assert out.splitlines()[0] == "tp,overlap_ratio"


def test_set_replaces_axes_fixed_values_and_hardware(compcomm):
    _, out, _ = compcomm("sweep", "future", "--set", "tp=16", "--set", "hidden=[4K, 8K]", "--set", "seq_len=1K",
                         "--set", "micro_batch=1", "--set", "flop_vs_bw=1", "--set", "hardware=h100-sxm",
                         "--format", "json")  # fmt: skip
    assert [(row["hidden"], row["tp"]) for row in rows_of(out)] == [(4096, 16), (8192, 16)]
    assert list(json.loads(out)["meta"]["hardware"]) == ["h100-sxm"]


def test_zip_moves_fields_together_and_where_filters(compcomm, study):
    path = study("set: {micro_batch: 1}\nzip:\n  - {hidden: 4K, seq_len: 1K, tp: 16}\n  - {hidden: 16K, seq_len: 2K, "
                 "tp: 64}\nsweep: {flop_vs_bw: {from: 1, to: 4, steps: 3, scale: log}}\n"
                 "where: [\"flop_vs_bw < 4\", \"feasible\"]\n")  # fmt: skip
    _, out, _ = compcomm("sweep", path, "--format", "json")
    assert [(r["hidden"], r["seq_len"], r["tp"], r["flop_vs_bw"]) for r in rows_of(out)] == [
        (4096, 1024, 16, 1), (4096, 1024, 16, 2), (16384, 2048, 64, 1), (16384, 2048, 64, 2)
    ]  # fmt: skip


def test_infeasible_rows_stay_with_a_reason_and_no_numbers(compcomm, study):
    path = study("set: {hidden: 1000, seq_len: 1K, micro_batch: 1}\nsweep: {tp: [8, 16]}\n")
    code, out, _ = compcomm("sweep", path, "--format", "json")
    good, bad = rows_of(out)
    assert code == 0
    assert (good["feasible"], good["reason"]) == (True, None)
    assert (bad["feasible"], bad["reason"]) == (False, "tp does not divide hidden")
    assert all(bad[name] is None for name in ROW[5:])
    assert "NaN" not in out


def test_hardware_axis_refuses_only_where_a_blank_number_is_needed(compcomm, study):
    path = study("hardware: [mi100, h100-sxm]\nset: {hidden: 8K, seq_len: 2K, micro_batch: 1, dp: 1}\n"
                 "sweep: {tp: [4, 8]}\n")  # fmt: skip
    _, out, _ = compcomm("sweep", path, "--format", "json")
    found = {(row["hardware"], row["tp"]): row["reason"] for row in rows_of(out)}
    assert found[("mi100", 8)].startswith("network.scale-out.bandwidth")
    assert [found[key] for key in (("mi100", 4), ("h100-sxm", 4), ("h100-sxm", 8))] == [None] * 3


def test_required_tp_is_derived_shown_and_rounded_to_a_divisor(compcomm, study):
    path = study("model: mt-nlg-530b\nset: {micro_batch: 1, tp: required}\n")
    code, out, err = compcomm("sweep", path, "--format", "json")
    assert code == 0
    assert rows_of(out)[0]["tp"] == 640  # 544 at twice the memory of 32 GiB; 20480 = 640 x 32
    assert "memory scaling 2" in err
    _, out, _ = compcomm("sweep", path, "--set", "memory_scaling=4.4", "--format", "json")
    assert rows_of(out)[0]["tp"] == 256


def test_required_tp_follows_the_hidden_axis(compcomm, study):
    path = study("set: {seq_len: 2K, micro_batch: 1, tp: required, layers: 96}\nsweep: {hidden: [4K, 12K, 64K]}\n")
    _, out, _ = compcomm("sweep", path, "--format", "json")
    # 8 x 12 L H^2 / 3.9e9 / 2 = 19.8, 178.4, 5074.9: the next divisors of H
    assert [row["tp"] for row in rows_of(out)] == [32, 192, 8192]


# -- case study, edge, required-tp, solve -----------------------------------------------------------------------------


def test_case_study_rows(compcomm):
    code, out, _ = compcomm("case-study", "--format", "json")
    rows = rows_of(out)
    assert code == 0
    shares = [[row[f"{name}_comm_fraction"] for name in ("serialized", "hidden", "visible")] for row in rows]
    assert shares[0] == pytest.approx([0.478, 0.090, 0.478], abs=0.003)
    assert shares[1] == pytest.approx([0.349, 0.254, 0.618], abs=0.003)
    assert shares[2][2] == pytest.approx(0.655, abs=0.003)
    for row in rows:
        parts = row["compute_s"] + row["serialized_comm_s"] + row["exposed_comm_s"]
        assert row["step_s"] == pytest.approx(parts, rel=1e-12)
        assert row["overlappable_comm_s"] == pytest.approx(row["hidden_comm_s"] + row["exposed_comm_s"], rel=1e-12)
    assert json.loads(out)["meta"]["setup"].startswith("inferred")


def test_case_study_says_what_is_inferred_and_what_is_ours(compcomm):
    _, out, _ = compcomm("case-study")
    assert "inferred" in out
    assert "the second is ours" in out
    _, out, _ = compcomm("case-study", "--tp", "128")
    assert "inferred: " not in out


def test_case_study_is_the_sweep_of_its_study(compcomm):
    _, case, _ = compcomm("case-study", "--format", "json")
    _, swept, _ = compcomm("sweep", "case-study", "--format", "json")
    for a, b in zip(rows_of(case), rows_of(swept), strict=True):
        assert a["step_s"] == b["step_s"]
        assert a["visible_comm_fraction"] == b["visible_comm_fraction"]


def test_case_study_takes_every_parameter(compcomm):
    _, base, _ = compcomm("case-study", "--format", "json")
    for flags in (["--hidden", "32K"], ["--seq-len", "2K"], ["--micro-batch", "4"], ["--tp", "128"],
                  ["--flop-vs-bw", "2"], ["--flops", "2"], ["--network", "2"], ["--timing", "B"],
                  ["--count", "paper_exact"], ["--inter-node-slowdown", "4"], ["--interference", "1.5"],
                  ["--hardware", "h100-sxm"]):  # fmt: skip
        code, changed, _ = compcomm("case-study", *flags, "--format", "json")
        assert code == 0, flags
        assert [r["step_s"] for r in rows_of(changed)] != [r["step_s"] for r in rows_of(base)], flags


def test_required_tp_of_the_largest_models(compcomm):
    _, out, _ = compcomm("required-tp", "--format", "json")
    found = {(row["model"], row["memory_scaling"]): row["required_tp"] for row in rows_of(out)}
    assert found[("mt-nlg-530b", 2.0)] == 544
    assert found[("mt-nlg-530b", 4.4)] == 247
    assert found[("palm-540b", 2.0)] == 554
    assert found[("palm-540b", 4.4)] == 252


def test_required_tp_of_a_bare_parameter_count(compcomm):
    _, out, _ = compcomm("required-tp", "--parameters", "3.9e9", "--memory-scaling", "1", "--format", "json")
    assert [row["required_tp"] for row in rows_of(out)] == [8]  # the base model itself


def test_edge_falls_from_bert_to_palm_when_tp_is_what_they_need(compcomm):
    _, out, _ = compcomm("edge", "--format", "json")
    rows = rows_of(out)
    assert len(rows) == 8
    assert rows[0]["amdahl_edge_flop_per_byte"] == 1.5 * (6 * 1024 + 512)
    assert rows[-1]["amdahl_edge_flop_per_byte"] == pytest.approx(1.5 * (6 * 18432 + 2048) / 576)
    assert rows[-1]["slack_ratio"] == 4  # 2 x 2048 against 2 x 512
    assert rows[-1]["memory_demand_ratio"] == 72  # Fig 6: 18 x 4
    _, out, _ = compcomm("edge", "--tp", "1", "--count", "paper_exact", "--format", "json")
    assert rows_of(out)[0]["amdahl_edge_flop_per_byte"] == 0.75 * (7 * 1024 + 512)


@pytest.mark.a_third
@pytest.mark.parametrize("field", ["network", "flops", "flop_vs_bw"])
def test_solve_inverts_sweep_through_the_command_line(compcomm, field):
    flags = ["--hidden", "64K", "--seq-len", "4K", "--micro-batch", "1", "--tp", "256"]
    target = ["--target", "serialized_comm_fraction=0.3", "--for", field]
    _, out, _ = compcomm("solve", *target, *flags, "--format", "json")
    value = rows_of(out)[0]["value"]
    fixed = {**POINT, "flop_vs_bw": 1, field: value}
    overrides = [f"--set={name}={number!r}" for name, number in fixed.items()]
    _, out, _ = compcomm("sweep", "future", *overrides, "--format", "json")
    assert rows_of(out)[0]["serialized_comm_fraction"] == pytest.approx(0.3, abs=1e-6)


def test_solve_for_a_whole_number_shows_its_valid_neighbours(compcomm):
    _, out, _ = compcomm("solve", "--target", "serialized_comm_fraction=0.2", "--for", "tp", "--hidden", "64K",
                         "--seq-len", "4K", "--micro-batch", "1", "--format", "json")  # fmt: skip
    row = rows_of(out)[0]
    # f = 1 / (1 + edge / X): TP = 1.5 (6 H + SL) f / (1 - f) ... = edge(TP=1) / (X (1 / f - 1))
    assert row["value"] == pytest.approx(1.5 * (6 * 65536 + 4096) / (2129.4117647 * 4), rel=1e-6)
    assert (row["below"], row["above"]) == (64, 128)
    assert row["at_below"] < 0.2 < row["at_above"]


def test_solve_without_a_solution_is_exit_3_with_the_range(compcomm):
    code, out, err = compcomm("solve", "--target", "serialized_comm_fraction=1.5", "--for", "tp", "--hidden", "64K",
                              "--seq-len", "4K", "--micro-batch", "1")  # fmt: skip
    assert (code, out) == (3, "")
    assert "it goes from" in err


def test_solve_over_axes_gives_a_row_a_point(compcomm, study):
    path = study("set: {seq_len: 4K, micro_batch: 1, tp: 64}\nsweep: {hidden: [16K, 64K], flop_vs_bw: [1, 2]}\n")
    target = ["--target", "serialized_comm_fraction=0.2", "--for", "network"]
    _, out, _ = compcomm("solve", path, *target, "--format", "csv")
    assert len(out.splitlines()) == 5


# -- hardware, columns, help ------------------------------------------------------------------------------------------


def test_hardware_list_show_and_ratio(compcomm):
    _, out, _ = compcomm("hardware", "list", "--format", "json")
    assert len(rows_of(out)) == 40
    _, out, _ = compcomm("hardware", "show", "mi210", "--format", "json")
    numbers = {row["key"]: row for row in rows_of(out)}
    assert numbers["peak.fp16"]["value"] == "181 TFLOP/s"
    assert all(row["source"] and row["certainty"] for row in numbers.values())
    _, out, _ = compcomm("hardware", "ratio", "v100-sxm-32gb", "a100-sxm-80gb", "--format", "json")
    assert rows_of(out)[0]["flop_per_scale_up"] == pytest.approx(1.25, abs=0.005)


def test_hardware_lint_is_clean_and_finds_a_sparse_peak(compcomm, study):
    code, _, err = compcomm("hardware", "lint")
    assert code == 0
    assert "0 findings" in err
    path = study("extends: h100-sxm\npeak: {bf16: 1979 TFLOP/s, fp16: 1979 TFLOP/s}\n", "mine.yaml")
    code, out, err = compcomm("hardware", "lint", path)
    assert code == 1
    assert "peak-twin" in out


def test_a_profile_that_extends_changes_one_number(compcomm, study):
    study("extends: mi210\nnetwork: {scale-up: {bandwidth: 300 GB/s}}\n", "fast.yaml")
    path = study("hardware: fast.yaml\n" + STUDY)
    _, out, _ = compcomm("sweep", path, "--format", "json")
    halved = rows_of(out)[-1]
    _, out, _ = compcomm("sweep", path, "--set", "hardware=mi210", "--format", "json")
    assert halved["serialized_comm_s"] == pytest.approx(rows_of(out)[-1]["serialized_comm_s"] / 2, rel=1e-12)


def test_every_command_has_help_with_an_example_and_the_short_help_of_its_own(compcomm):
    _, listed, _ = compcomm("--help")
    for name in COMMANDS:
        code, out, _ = compcomm(name, "--help")
        assert code == 0
        assert "Example" in out, name
        assert f"\n  compcomm {name}" in out, name  # an example a line, to be copied
        assert name in listed


def test_columns_describe_every_column_of_a_sweep(compcomm):
    _, out, _ = compcomm("columns", "--format", "json")
    described = {row["name"] for row in rows_of(out)}
    _, swept, _ = compcomm("sweep", "future", "--top", 1, "--format", "json")
    assert set(rows_of(swept)[0]) - {"feasible", "reason"} <= described


# -- wrong input ------------------------------------------------------------------------------------------------------

BAD_STUDIES = {
    "unknown key": ("titel: x\n" + STUDY, ":1: titel", "did you mean 'title'"),
    "unknown field": ("set: {hiden: 4K, seq_len: 1K, micro_batch: 1, tp: 4}\n", ":1: set.hiden", "'hidden'"),
    "negative": ("set: {hidden: -4, seq_len: 1K, micro_batch: 1, tp: 4}\n", "set.hidden", "out of range"),
    "zero": ("set: {hidden: 4K, seq_len: 1K, micro_batch: 1, tp: 0}\n", "set.tp", "out of range"),
    "nan": ("set: {hidden: 4K, seq_len: 1K, micro_batch: 1, tp: 4, network: .nan}\n", "set.network", "finite"),
    "infinite": ("set: {hidden: 4K, seq_len: 1K, micro_batch: 1, tp: 4, flops: .inf}\n", "set.flops", "finite"),
    "not whole": ("set: {hidden: 4K, seq_len: 1K, micro_batch: 1, tp: 4.5}\n", "set.tp", "whole"),
    "a word": ("set: {hidden: 4K, seq_len: 1K, micro_batch: off, tp: 4}\n", "set.micro_batch", "'off'"),
    "duplicate key": ("set:\n  tp: 4\n  tp: 8\n", ":3:", "lines 2 and 3"),
    "empty axis": (STUDY.replace("[64, 128, 256]", "[]"), "sweep.tp", "empty"),
    "range": (STUDY.replace("[64, 128, 256]", "{from: 1, to: 10, steps: 3, scale: log}"), "sweep.tp", "round_to"),
    "tag": ("set: !!python/object/apply:os.system ['true']\n", ":1", "tags are not allowed"),
    "alias": ("set: *nowhere\n", ":1", "not defined"),
    "two documents": ("set: {}\n---\nset: {}\n", ":2", "one document"),
    "a list": ("- 1\n", "", "mapping"),
    "empty": ("", "", "is empty"),
    "binary": ("\x00\x01\x02", "", "not valid YAML"),
    "unknown hardware": ("hardware: mi21\n" + STUDY, ":1: hardware", "mi210"),
    "unknown model": ("model: gpt3\n" + STUDY, ":1: model", "gpt3-13b"),
    "unknown cost model": ("cost_model: comp_vs_com\n" + STUDY, ":1: cost_model", "comp_vs_comm"),
    "no such preset": (STUDY.replace("micro_batch: 1", "micro_batch: 1, timing: D"), "set.timing", "A, B, C"),
    "no such peak": (STUDY.replace("micro_batch: 1", "micro_batch: 1, precision: fp8"), "set.precision", "fp16"),
    "not modelled": (STUDY.replace("micro_batch: 1", "micro_batch: 1, layers: 4"), "set.layers", "tp: required"),
    "missing": ("set: {hidden: 4K, seq_len: 1K, tp: 4}\n", "", "'micro_batch' is missing"),
    "given twice": (STUDY.replace("micro_batch: 1", "micro_batch: 1, tp: 4"), "sweep.tp", "already given"),
    "tp does not divide": ("set: {hidden: 1000, seq_len: 1K, micro_batch: 1, tp: 16}\n", "set.tp", "does not divide"),
    "where": (STUDY + "where: ['tp <= sixty']\n", "where[0]", "'sixty'"),
    "where column": (STUDY + "where: ['tpp <= 64']\n", "where[0]", "'tp'"),
    "where code": (STUDY + "where: ['__import__(1)']\n", "where[0]", "not a comparison"),
    "table column": (STUDY + "table: {columns: tq}\n", "table.columns", "tp"),
    "required without size": ("set: {hidden: 4K, seq_len: 1K, micro_batch: 1, tp: required}\n", "set.tp", "layers"),
    "required in an axis": (STUDY.replace("256]", "required]"), "sweep.tp[2]", "under 'set'"),
    "zip fields differ": ("zip: [{tp: 4}, {hidden: 4K}]\n", "zip[1]", "same fields"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_STUDIES)
def test_a_wrong_study_is_exit_2_with_place_and_remedy(compcomm, study, tmp_path, name):
    text, place, remedy = BAD_STUDIES[name]
    path = study(text)
    code, out, err = compcomm("sweep", path, "-o", tmp_path / "out.json")
    assert (code, out) == (2, "")
    assert place in err
    assert remedy in err
    assert "Traceback" not in err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["study.yaml"]


def test_every_problem_of_a_study_is_said_at_once(compcomm, study):
    path = study("titel: x\nhardware: mi21\nset: {precison: fp16, count: all, micro_batch: 0}\nsweep: {tp: []}\n")
    _, _, err = compcomm("sweep", path)
    for key in ("titel", "hardware", "precison", "count", "micro_batch", "sweep.tp", "'hidden' is missing"):
        assert key in err, key
    numbers = [line.split(":")[1] for line in err.removeprefix("Error: ").splitlines()]
    lines = [int(number) for number in numbers if number.isdigit()]
    assert lines == sorted(lines)


BAD_CALLS = {
    "missing file": (["sweep", "nofile.yaml"], "no such file"),
    "a directory": (["sweep", "."], "directory"),
    "unknown study": (["sweep", "futur"], "did you mean 'future'"),
    "unknown command": (["swep"], "did you mean 'sweep'"),
    "unknown flag": (["sweep", "future", "--tpp", "4"], "--tp"),
    "unknown set": (["sweep", "future", "--set", "tpp=4"], "did you mean 'tp'"),
    "set without a value": (["sweep", "future", "--set", "tp"], "key=value"),
    "set twice": (["sweep", "future", "--set", "tp=4", "--set", "tp=8"], "twice"),
    "set with bad yaml": (["sweep", "future", "--set", "tp=[4"], "YAML"),
    "unknown column": (["sweep", "future", "--columns", "tp,foo"], "'foo'"),
    "by without top": (["sweep", "future", "--by", "tp"], "--top"),
    "top of nothing": (["sweep", "future", "--top", "0"], "--top"),
    "unknown format": (["sweep", "future", "--format", "xml"], "xml"),
    "unknown extension": (["sweep", "future", "-o", "out.xml"], ".csv"),
    "no such folder": (["sweep", "future", "-o", "nowhere/out.csv"], "nowhere"),
    "case-study: zero": (["case-study", "--hidden", "0"], "--hidden"),
    "case-study: nan": (["case-study", "--interference", "nan"], "finite"),
    "case-study: faster by interference": (["case-study", "--interference", "0.5"], "--interference"),
    "case-study: an axis": (["case-study", "--tp", "[4, 8]"], "one value"),
    "edge: unknown model": (["edge", "--model", "gpt3"], "gpt3-13b"),
    "required-tp: nan": (["required-tp", "--memory-scaling", "nan"], "finite"),
    "required-tp: negative": (["required-tp", "--parameters", "-1"], "-1"),
    "solve: no target": (["solve", "--target", "overlap_ratio", "--for", "tp"], "COLUMN=VALUE"),
    "solve: unknown column": (["solve", "--target", "overlap=1", "--for", "tp"], "overlap_ratio"),
    "solve: unknown field": (["solve", "--target", "overlap_ratio=1", "--for", "tpp"], "'tp'"),
    "solve: a word": (["solve", "--target", "overlap_ratio=1", "--for", "count"], "count"),
    "solve: given": (["solve", "--target", "overlap_ratio=1", "--for", "tp", "--tp", "4"], "--tp"),
    "hardware: unknown": (["hardware", "show", "h10"], "h100-sxm"),
    "hardware: ratio of one": (["hardware", "ratio", "mi210"], "NEW"),
    "hardware: precision it lacks": (["hardware", "ratio", "mi50", "mi60", "--precision", "fp8"], "fp8"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_CALLS)
def test_a_wrong_call_is_exit_2_with_one_message(compcomm, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    arguments, remedy = BAD_CALLS[name]
    code, out, err = compcomm(*arguments)
    assert (code, out) == (2, "")
    assert remedy in err
    assert "Traceback" not in err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("text", "remedy"), [
    ("extends: mi210\npeak: {fp16: 181}\n", "has no unit"),
    ("extends: mi210\npeak: {fp16: 181 TB/s}\n", "not a unit of FLOP/s"),
    ("extends: mi210\nnetwork: {scale-up: {bandwidth: 150 Gb}}\n", "not a unit of bytes/s"),
    ("extends: mi210\nmemory: {bandwidth: 1638 gb/s}\n", "case matters"),
    ("extends: mi210\nmemory: {capacity: -64 GiB}\n", "out of range"),
    ("extends: mi210\ntiming: {gemm_efficiency: 66}\n", "at most 1"),
    ("extends: mi210\ntiming: {gemm_eficiency: 0.6}\n", "did you mean 'gemm_efficiency'"),
    ("extends: mi21\n", "did you mean 'mi210'"),
    ("extends: mine.yaml\n", "circle"),
    ("name: x\n", "peak"),
])  # fmt: skip
def test_a_wrong_profile_names_file_key_and_remedy(compcomm, study, text, remedy):
    study(text, "mine.yaml")
    code, out, err = compcomm("sweep", study("hardware: mine.yaml\n" + STUDY))
    assert (code, out) == (2, "")
    assert "mine.yaml" in err
    assert remedy in err


@pytest.mark.slow
def test_a_grid_too_large_to_write_out_is_refused_before_any_work(compcomm, study):
    path = study("set: {seq_len: 1K, micro_batch: 1}\nsweep:\n  hidden: {from: 1, to: 1000000, step: 1}\n"
                 "  tp: {from: 1, to: 1000000, step: 1}\n  flop_vs_bw: {from: 1, to: 2, steps: 1000}\n")  # fmt: skip
    code, out, err = compcomm("sweep", path)
    assert (code, out) == (2, "")
    assert "1,000,000,000,000,000 points" in err
    assert "--top" in err


def test_nothing_feasible_is_exit_3_with_the_reason(compcomm, study, tmp_path):
    path = study("set: {hidden: 1000, seq_len: 1K, micro_batch: 1}\nsweep: {tp: [3, 7]}\n")
    code, out, err = compcomm("sweep", path, "-o", tmp_path / "o.csv")
    assert (code, out) == (3, "")
    assert "tp does not divide hidden" in err
    assert not (tmp_path / "o.csv").exists()


def test_an_existing_file_survives_a_failed_run(compcomm, study, tmp_path):
    target = tmp_path / "o.csv"
    target.write_text("precious")
    compcomm("sweep", study("set: {hidden: 1000, seq_len: 1K, micro_batch: 1}\nsweep: {tp: [3, 7]}\n"), "-o", target)
    assert target.read_text() == "precious"


# -- interrupts and pipes, in processes of their own ------------------------------------------------------------------

LONG = """\
set: {micro_batch: 1, seq_len: 4K}
sweep:
  hidden: {from: 1024, to: 65536, step: 64}
  tp: [1, 2, 4, 8, 16, 32, 64]
  flop_vs_bw: {from: 1, to: 4, steps: 1000}
"""
MAIN = [sys.executable, "-c", "from comp_comm.cli.main import main; main()"]


def started(arguments):
    return subprocess.Popen([*MAIN, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_ctrl_c_keeps_the_rows_that_are_done_apart_from_a_whole_answer(study, tmp_path):
    path = study(LONG)
    process = started(["sweep", path, "-o", tmp_path / "rows.jsonl"])
    assert until(lambda: written(tmp_path, {path.name}) > 500_000, process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "Traceback" not in err
    kept = (tmp_path / "rows.partial.jsonl").read_text().splitlines()
    assert not (tmp_path / "rows.jsonl").exists()
    assert len(kept) > 1000
    assert all(json.loads(line)["feasible"] in (True, False) for line in kept[:: len(kept) // 100])


@pytest.mark.skipif(os.name != "posix", reason="it sends itself a signal of POSIX")
def test_ctrl_c_that_meets_code_made_from_text_has_the_usual_exit_code(tmp_path):
    """As where a dataclass is made at that moment: CPython would end `python -m` by the signal."""
    text = """
from comp_comm.cli import main
text = "import os, signal; os.kill(os.getpid(), signal.SIGINT)" + chr(10) + "for _ in range(100): pass"
main.cli.main = lambda **_: exec(text)
main.main()
"""
    (tmp_path / "interrupted.py").write_text(text)
    done = subprocess.run([sys.executable, "-m", "interrupted"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr.strip()) == (130, "interrupted")


@pytest.mark.slow
def test_ctrl_c_while_ranking_gives_the_best_so_far(study):
    text = LONG.replace("seq_len: 4K", "precision: fp16") + "  seq_len: {from: 1, to: 100000, step: 1}\n"
    process = started(["sweep", study(text), "--top", 3, "--format", "json"])
    said(process, "points")  # a second has passed, so progress was shown
    process.send_signal(signal.SIGINT)
    out, _ = rest_of(process)
    answer = json.loads(out)
    assert process.returncode == 130
    assert answer["interrupted"] is True
    assert len(answer["rows"]) == 3


@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_error(study):
    command, environment = [*MAIN, "sweep", "future", "--format", "csv"], {**os.environ, "PYTHONUNBUFFERED": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, env=environment, **pipes)
    process.stdout.readline()
    process.stdout.close()
    with process.stderr as errors:
        assert "Traceback" not in errors.read()
    process.wait(timeout=30)


def test_a_device_is_written_to_and_never_replaced(compcomm, study):
    code, out, _ = compcomm("sweep", study(STUDY), "-o", "/dev/null", "--format", "csv")
    assert (code, out) == (0, "")
    assert Path("/dev/null").is_char_device()


def test_a_link_stays_a_link(compcomm, study, tmp_path):
    (tmp_path / "link.csv").symlink_to(tmp_path / "real.csv")
    assert compcomm("sweep", study(STUDY), "-o", tmp_path / "link.csv")[0] == 0
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text().startswith("hidden,")


@pytest.mark.slow
@pytest.mark.parametrize(
    "shell", ["{} sweep future --format csv | head -1", "{} sweep future >&-", "{} sweep future > /dev/full"]
)
def test_a_standard_output_that_fails_gives_no_traceback(shell):
    command = f'"{sys.executable}" -c "from comp_comm.cli.main import main; main()"'
    done = subprocess.run(["bash", "-c", "set -o pipefail; " + shell.format(command)], capture_output=True, text=True)
    assert "Traceback" not in done.stderr
    assert done.returncode == (0 if "|" in shell else 2)


def test_a_study_comes_from_standard_input(compcomm, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((STUDY + ONE_LAYER).encode())))
    code, out, _ = compcomm("sweep", "-", "--format", "csv")
    assert (code, len(out.splitlines())) == (0, 4)


def test_a_table_for_people_has_a_limit_that_csv_has_not(compcomm, study):
    text = STUDY.replace("{tp: [64, 128, 256]}", "{network: {from: 1, to: 2, steps: 100001}, tp: [64]}")
    code, out, err = compcomm("sweep", study(text))
    assert (code, out) == (2, "")
    assert "100,000" in err
    assert "--format" in err


@pytest.mark.parametrize(("change", "key"), [
    ("timing: {attention_efficiency: null}", "timing.attention_efficiency"),
    ("timing: {kernel_latency: null}", "timing.kernel_latency"),
    ("network: {scale-up: {efficiency: null}}", "network.scale-up.efficiency"),
    ("network: {scale-up: {latency: null}}", "network.scale-up.latency"),
    ("network: {scale-out: {bandwidth: null}}", "network.scale-out.bandwidth"),
    ("network: {scale-out: {latency: null}}", "network.scale-out.latency"),
])  # fmt: skip
def test_a_blank_number_refuses_what_needs_it_by_its_key(compcomm, study, change, key):
    study(f"extends: h100-sxm\n{change}\n", "mine.yaml")
    path = study("hardware: mine.yaml\nset: {hidden: 8K, seq_len: 2K, micro_batch: 1, tp: 16}\n")
    code, out, err = compcomm("sweep", path)
    assert (code, out) == (2, "")
    assert f"{key} is blank in the hardware profile" in err


def test_a_domain_cannot_be_blank(compcomm, study):
    study("extends: h100-sxm\nnetwork: {scale-up: {domain: null}}\n", "mine.yaml")
    code, _, err = compcomm("sweep", study("hardware: mine.yaml\n" + STUDY))
    assert code == 2
    assert "network.scale-up.domain: cannot be blank" in err


@pytest.mark.parametrize(
    ("more", "name"),
    [("layers: 96, parameters: 1e11", "layers"), ("memory_scaling: 2, memory_capacity: 2", "memory_c")],
)
def test_a_size_of_the_model_or_memory_is_given_once(compcomm, study, more, name):
    code, out, err = compcomm(
        "sweep", study(f"set: {{hidden: 4K, seq_len: 1K, micro_batch: 1, tp: required, {more}}}\n")
    )
    assert (code, out) == (2, "")
    assert name in err
    assert "has no effect beside" in err


def test_solve_says_where_a_blank_number_stands_in_the_way(compcomm, study):
    path = study("hardware: mi50\nset: {hidden: 8K, seq_len: 1K, micro_batch: 1}\nsweep: {tp: [4, 8]}\n")
    target = ["--target", "serialized_comm_fraction=0.2", "--for", "network"]
    code, out, err = compcomm("solve", path, *target, "--format", "json")
    good, blank = rows_of(out)
    assert (code, err) == (0, "")
    assert good["achieved"] == pytest.approx(0.2, abs=1e-9)
    assert blank["value"] is None
    assert blank["reason"].startswith("network.scale-out.bandwidth is blank")


def test_a_blank_capacity_refuses_the_tp_that_follows_from_it(compcomm, study):
    study("extends: mi210\nmemory: {capacity: null}\n", "mine.yaml")
    code, out, err = compcomm(
        "sweep", study("hardware: mine.yaml\nmodel: gpt3-175b\nset: {micro_batch: 1, tp: required}\n")
    )
    assert (code, out) == (2, "")
    assert "memory.capacity is blank" in err


@pytest.mark.parametrize("key", ["score_passes", "score_head_dim", "activation_passes", "network_efficiency"])
def test_a_blank_number_of_a_preset_is_refused_by_its_key(compcomm, study, key):
    study(f"extends: mi210\npresets: {{C: {{{key}: null}}}}\n", "mine.yaml")
    path = study("hardware: mine.yaml\n" + STUDY)
    code, out, err = compcomm("sweep", path, "--set", "timing=C", "--set", "tp=64")
    assert (code, out) == (2, "")
    assert f"timing.{key} is blank" in err


def test_a_head_dimension_is_at_least_one(compcomm, study):
    study("extends: mi210\npresets: {C: {score_head_dim: 0}}\n", "mine.yaml")
    code, _, err = compcomm("sweep", study("hardware: mine.yaml\n" + STUDY), "--set", "timing=C")
    assert code == 2
    assert "presets.C.score_head_dim" in err


SOLVED = ["--hidden", "64K", "--seq-len", "4K", "--micro-batch", "1"]


def test_solve_says_that_a_field_does_not_change_a_column(compcomm):
    target = ["--target", "slack_flop_per_byte=4096", "--for", "network"]
    code, out, err = compcomm("solve", *target, *SOLVED, "--tp", "256")
    assert (code, out) == (3, "")
    assert "no value of network from 0.0001 to 10,000 gives" in err
    assert "network does not change it: it is 8192" in err


def test_solve_says_that_any_value_does(compcomm):
    """2 x 4096 tokens of slack, whatever the network: its target is met before anything is chosen."""
    target = ["--target", "slack_flop_per_byte=8192", "--for", "network"]
    code, out, _ = compcomm("solve", *target, *SOLVED, "--tp", "256", "--format", "json")
    (row,) = rows_of(out)
    assert (code, row["value"], row["achieved"]) == (0, None, 8192)
    assert row["reason"] == "any value of network does: slack_flop_per_byte is 8192 at all of them"


LLAMA = ["--model", "llama-3-8b", "--hardware", "h100", "--format", "json"]  # 32 heads, 8 of keys and values
STEP = [*LLAMA, "--gpus", "32", "--global-batch", "128"]


@pytest.mark.a_third
@pytest.mark.parametrize(("wanted", "flags", "beside"), [
    # 4 replicas x micro_batch divides 128, so that 15 is none
    (("memory_gib=79", "micro_batch"), (*STEP, "--tp", "8"), (8, 16)),
    (("memory_gib=20", "micro_batch"), (*STEP[:-1], "96", "--tp", "8"), (2, 3)),  # 4 replicas: a divisor of 24
    # sequence parallelism splits a sequence over 8 devices, so that 15,582 is none
    (("mfu=40%", "seq_len"), (*LLAMA, "--gpus", "64", "--tp", "8"), (15576, 15584)),
    # a sequence is split over 4 devices, and what each has over 8
    pytest.param(("mfu=40%", "seq_len"), (*LLAMA, "--gpus", "64", "--tp", "8", "--cp", "4"), (37120, 37152),
                 marks=pytest.mark.slow),
    (("visible_comm_fraction=30%", "tp"), STEP, (4, 8)),
])  # fmt: skip
def test_the_neighbours_of_a_solution_are_values_that_a_study_may_have(wanted, flags, beside, compcomm):
    _, out, _ = compcomm("solve", "--target", wanted[0], "--for", wanted[1], *flags)
    (row,) = rows_of(out)
    assert (row["below"], row["above"]) == beside
    assert row["below"] <= row["value"] <= row["above"]
    for value in range(row["below"], row["above"] + 1):
        code, _, err = compcomm("explain", *flags, "--set", f"{wanted[1]}={value}")
        assert (code == 0) == (value in beside), (value, err)


@pytest.mark.slow
def test_solve_looks_no_further_than_the_study_goes(compcomm):
    code, _, err = compcomm("solve", "--target", "mfu=99%", "--for", "micro_batch", *STEP)
    assert code == 3
    assert "no value of micro_batch from 1 to 128 gives" in err
    code, _, err = compcomm("solve", "--target", "visible_comm_fraction=99%", "--for", "tp", *STEP)
    assert code == 3
    assert "no value of tp from 1 to 32 gives" in err
    code, _, err = compcomm("solve", "--target", "visible_comm_fraction=60%", "--for", "tp", *STEP)
    assert code == 3
    assert "more than the largest that the study allows, 8" in err


def test_solve_says_where_neither_neighbour_fits(compcomm):
    code, out, _ = compcomm("solve", "--target", "memory_gib=100", "--for", "micro_batch", *STEP, "--tp", "8")
    (row,) = rows_of(out)
    assert (code, row["below"], row["above"]) == (0, 16, 32)
    assert row["at_below"] > 79.7  # GiB, what an H100 has
    assert row["reason"] == "neither number beside it fits into the device's memory"


def test_solve_for_tp_knows_one_device_and_the_width_of_the_model(compcomm):
    _, out, _ = compcomm("solve", "--target", "serialized_comm_fraction=0", "--for", "tp", *SOLVED, "--format", "json")
    assert [row["value"] for row in rows_of(out)] == [1]
    code, out, err = compcomm("solve", "--target", "serialized_comm_fraction=0.999", "--for", "tp", *SOLVED)
    assert (code, out) == (3, "")
    assert "more than the largest that the study allows, 65,536" in err


# -- found by someone who tried to break it ---------------------------------------------------------------------------


def shell(line, **environment):
    """Run a line of bash in which ``$C`` is the command."""
    command = f'"{sys.executable}" -c "from comp_comm.cli.main import main; main()"'
    return subprocess.run(["bash", "-c", line.replace("$C", command)], capture_output=True, text=True,
                          env={**os.environ, **environment})  # fmt: skip


def test_an_output_never_replaces_an_input(compcomm, study, tmp_path):
    path = study(STUDY)
    code, out, err = compcomm("sweep", path, "-o", path, "--format", "csv")
    assert (code, out) == (2, "")
    assert "is an input" in err
    assert path.read_text() == STUDY + ONE_LAYER
    mine = study("extends: mi210\n", "mine.yaml")
    code, _, err = compcomm("sweep", study("hardware: mine.yaml\n" + STUDY), "-o", mine, "--format", "csv")
    assert (code, mine.read_text()) == (2, "extends: mi210\n")


def test_an_output_that_is_named_as_a_folder_is_refused(compcomm, study, tmp_path):
    assert compcomm("sweep", study(STUDY), "-o", f"{tmp_path}/x.csv/")[0] == 2
    assert not (tmp_path / "x.csv").exists()


@pytest.mark.slow
def test_a_terminal_that_cannot_show_a_letter_gets_its_escape(study):
    path = study("title: Größe\n" + STUDY.split("\n", 1)[1])
    done = shell(f"$C sweep {path}", LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert done.stdout.startswith("Gr\\xf6")


@pytest.mark.slow
@pytest.mark.parametrize(("line", "code"), [
    ("$C sweep future --top 1 --columns tp 2>&-", 0),
    ("$C sweep nosuch 2>/dev/full", 2),
    ("$C sweep future --set hardware=h100-sxm --top 1 --columns tp 2>/dev/full", 0),
])  # fmt: skip
def test_what_nobody_hears_changes_nothing(line, code):
    done = shell(line)
    assert done.returncode == code
    assert bool(done.stdout) == (code == 0)


@pytest.mark.slow
def test_a_terminated_run_leaves_no_file(study, tmp_path):
    path = study(LONG)
    process = subprocess.Popen([*MAIN, "sweep", str(path), "-o", str(tmp_path / "rows.csv")], stderr=-3)
    assert until(lambda: written(tmp_path, {path.name}) > 0, process)
    process.terminate()
    assert process.wait(timeout=PATIENCE) == 143
    assert [p.name for p in tmp_path.iterdir()] == ["study.yaml"]


@pytest.mark.parametrize(("arguments", "remedy"), [
    (["edge", "--tp", "8", "--memory-scaling", "4"], "--tp required"),
    (["sweep", "future", "--elapsed"], "--format json"),
    (["sweep", "future", "--plot", ""], "empty"),
    (["sweep", "future", "--columns", ""], "empty"),
    (["sweep", "future", "--set", "hardware="], "empty"),
    (["sweep", "future", "--set", "cost_model=complet"], "--set cost_model"),
    (["hardware", "show", "h10"], "did you mean 'h100-"),
])  # fmt: skip
def test_what_would_be_ignored_is_refused(compcomm, arguments, remedy):
    code, out, err = compcomm(*arguments)
    assert (code, out) == (2, "")
    assert remedy in err


def test_case_study_says_what_has_no_effect(compcomm):
    _, out, _ = compcomm("case-study", "--dp", "4")
    assert "dp above 1 has no effect" in out


def test_infeasible_rows_can_be_asked_for(compcomm, study):
    path = study("set: {hidden: 1000, seq_len: 1K, micro_batch: 1}\nsweep: {tp: [8, 16]}\nwhere: [not feasible]\n")
    code, out, _ = compcomm("sweep", path, "--format", "json")
    assert code == 0
    assert [row["tp"] for row in rows_of(out)] == [16]


@pytest.mark.parametrize(("text", "remedy"), [
    (STUDY + "plot: {kind: lines, value: step_s}\n", "does not go with"),
    (STUDY + "plot: {only: []}\n", "plot.only"),
])  # fmt: skip
def test_a_plot_key_that_would_be_ignored_is_refused(compcomm, study, tmp_path, text, remedy):
    code, out, err = compcomm("sweep", study(text), "--plot", tmp_path / "p.png")
    assert (code, out) == (2, "")
    assert remedy in err


INPUTS = {
    "s.yaml": STUDY + ONE_LAYER,
    "hw.yaml": "extends: parent.yaml\n",
    "parent.yaml": "extends: mi210\n",
    "m.yaml": "layers: 24\nhidden: 1K\nseq_len: 512\nparameters: 3.4e8\n",
}


@pytest.mark.parametrize(("arguments", "target"), [
    (["sweep", "s.yaml", "--set", "hardware=hw.yaml"], "parent.yaml"),
    (["solve", "s.yaml", "--target", "serialized_comm_fraction=0.2", "--for", "network"], "s.yaml"),
    (["case-study", "--hardware", "hw.yaml"], "hw.yaml"),
    (["hardware", "show", "hw.yaml"], "hw.yaml"),
    (["hardware", "lint", "hw.yaml"], "hw.yaml"),
    (["hardware", "ratio", "mi210", "hw.yaml"], "parent.yaml"),
    (["edge", "--model", "m.yaml"], "m.yaml"),
    (["required-tp", "--model", "m.yaml"], "m.yaml"),
])  # fmt: skip
def test_no_command_writes_over_what_it_read(compcomm, tmp_path, monkeypatch, arguments, target):
    monkeypatch.chdir(tmp_path)
    for name, text in INPUTS.items():
        Path(name).write_text(text)
    code, out, err = compcomm(*arguments, "-o", target, "--format", "csv")
    assert (code, out) == (2, "")
    assert f"{target}: is an input" in err
    assert {name: Path(name).read_text() for name in INPUTS} == INPUTS
    assert len(list(tmp_path.iterdir())) == len(INPUTS)
    assert compcomm(*arguments, "-o", "fresh.csv", "--format", "csv")[0] in (0, 1)  # lint finds a missing source


# -- small faces ------------------------------------------------------------------------------------------------------


def test_a_pivot_says_why_it_has_blanks(compcomm):
    call = ["sweep", "llama-step", "--set", "tp=4,8,16", "--set", "pp=1,7", "--set", "vpp=1"]
    code, out, _ = compcomm(*call)
    assert code == 0
    assert "infeasible: 5 points" in out
    assert "  2: tp exceeds kv_heads" in out
    assert "  3: tp x cp x pp does not divide gpus" in out
    assert "infeasible" not in compcomm("sweep", "llama-step", "--set", "tp=4,8")[1]


def test_sweep_on_other_hardware(compcomm):
    names = ["h100-sxm", "b200-sxm"]
    code, out, _ = compcomm("sweep", "llama-step", "--hardware", ",".join(names), "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert code == 0
    assert [row["hardware"] for row in rows] == names
    alone = compcomm("sweep", "llama-step", "--hardware", "b200-sxm", "--format", "csv")[1]
    assert alone == compcomm("sweep", "llama-step", "--set", "hardware=b200-sxm", "--format", "csv")[1]
    assert compcomm("sweep", "llama-step", "--hardware", "b20")[2].count("did you mean 'b200-sxm'") == 1
    assert "given twice" in compcomm("sweep", "future", "--hardware", "mi210", "--set", "hardware=mi100")[2]
