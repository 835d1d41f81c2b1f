"""A design space: hardware factors beside a search, the best layout at each of their points."""

from __future__ import annotations

import csv
import io
import itertools
import json

import numpy as np
import pytest

from comp_comm.cli.main import run
from comp_comm.configs.study import study_from
from comp_comm.report.plot import MAX_PANELS
from comp_comm.report.search_plot import design_view
from comp_comm.searches import search
from comp_comm.searches.design import FACTORS, make_design
from comp_comm.sweeps.result import sweep

LAYOUTS = {"cp": 1, "placement": "tp-cp-dp-pp", "recompute": "none", "zero": 1}
SMALL = {"hardware": "h100-sxm", "model": "llama-3-8b", "set": {"global_batch": 64, **LAYOUTS}}
CALL = ["search", "--hardware", "h100-sxm", "--model", "llama-3-8b", "--global-batch", "64", "--cp", "1", "--placement",
        "tp-cp-dp-pp", "--recompute", "none", "--zero", "1", "-q"]  # fmt: skip


def rows_of(capsys, *more):
    assert run([*CALL, *more, "--format", "json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.slow
def test_each_point_is_a_search_of_its_own(capsys):
    found = rows_of(capsys, "--gpus", "16,32", "--network", "0.25,1", "--nvs", "4,8")
    places = [(row["gpus"], row["network"], row["nvs"]) for row in found["rows"]]
    assert sorted(places) == sorted(itertools.product((16, 32), (0.25, 1.0), (4, 8)))
    for row in found["rows"]:
        fixed = {**SMALL["set"], "network": row["network"], "nvs": row["nvs"]}
        alone = search(study_from({**SMALL, "set": fixed}), row["gpus"])
        assert row["step_s"] == alone["rows"][0]["step_s"]
        assert (row["candidates"], row["feasible"]) == (alone["meta"]["candidates"], alone["meta"]["feasible"])
    assert len({row["step_s"] for row in found["rows"]}) > 4
    assert found["meta"]["axes"] == [{"gpus": [16, 32]}, {"network": [0.25, 1.0]}, {"nvs": [4, 8]}]
    assert len(found["meta"]["searches"]) == 8


@pytest.mark.slow
def test_more_of_anything_is_never_slower(capsys):
    for name in ("flops", "network", "memory_bandwidth", "memory_capacity"):
        rows = rows_of(capsys, "--gpus", "32", f"--{name.replace('_', '-')}", "0.5,1,2")["rows"]
        seconds = [row["step_s"] for row in rows]
        assert seconds == sorted(seconds, reverse=True)
    slower = [row["step_s"] for row in rows_of(capsys, "--gpus", "32", "--latency", "0.1,1,10")["rows"]]
    assert slower == sorted(slower)
    assert slower[0] < slower[-1]


@pytest.mark.slow
def test_a_study_with_hardware_and_factors_that_move_together(tmp_path, capsys):
    path = tmp_path / "generations.yaml"
    path.write_text("""
hardware: [a100-sxm-80gb, h100-sxm]
model: llama-3-8b
set: {global_batch: 64, gpus: 16, cp: 1, placement: tp-cp-dp-pp}
zip:
  - {flops: 1, network: 1}
  - {flops: 2, network: 1.5}
""")
    assert run(["search", str(path), "--zero", "1", "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(row["hardware"], row["flops"], row["network"]) for row in rows] == [
        ("a100-sxm-80gb", "1.0", "1.0"), ("a100-sxm-80gb", "2.0", "1.5"),
        ("h100-sxm", "1.0", "1.0"), ("h100-sxm", "2.0", "1.5"),
    ]  # fmt: skip


@pytest.mark.slow
def test_weak_scaling_and_precisions(tmp_path, capsys):
    path = tmp_path / "weak.yaml"
    path.write_text("""
hardware: h100-sxm
model: llama-3-8b
set: {cp: 1, placement: tp-cp-dp-pp, zero: 1}
sweep: {precision: [bf16, fp8]}
zip: [{gpus: 16, global_batch: 32}, {gpus: 32, global_batch: 64}]
""")
    assert run(["search", str(path), "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["gpus"], row["global_batch"], row["precision"]) for row in rows] == [
        (16, 32, "bf16"), (16, 32, "fp8"), (32, 64, "bf16"), (32, 64, "fp8")]  # fmt: skip
    assert rows[1]["step_s"] < rows[0]["step_s"]
    assert rows[0]["efficiency"] == rows[1]["efficiency"] == 1
    assert 0.8 < rows[2]["efficiency"] < 1.1


def test_where_nothing_fits_a_row_stays_and_says_why(capsys):
    found = rows_of(capsys, "--gpus", "8", "--memory-capacity", "0.001,1")
    nothing, fits = found["rows"]
    assert nothing["feasible"] == 0
    assert nothing["step_s"] is None
    assert "nearest" in nothing["reason"]
    assert fits["step_s"] > 0
    assert fits["reason"] is None
    assert fits["speedup"] == 1
    assert run([*CALL, "--gpus", "8", "--memory-capacity", "0.001,0.002"]) == 3
    assert "nearest" in capsys.readouterr().err


@pytest.mark.slow
def test_killed_and_gone_on_with(tmp_path, capsys, monkeypatch):
    """A design space that ends half-way is gone on with from its last finished search."""
    from comp_comm.cli import search as command
    from comp_comm.sweeps import resume

    monkeypatch.setattr(resume, "KEEP_SECONDS", 0.0)
    call = [*CALL, "--gpus", "16", "--network", "1,2,4", "-o"]
    assert run([*call, str(tmp_path / "whole.csv")]) == 0
    real, done = command.run_search, []

    def dies(*given):
        if len(done) == 2:
            raise RuntimeError("killed")
        done.append(given)
        return real(*given)

    monkeypatch.setattr(command, "run_search", dies)
    with pytest.raises(RuntimeError):
        command.command.main([*call[1:], str(tmp_path / "half.csv"), "--resume"], standalone_mode=False)
    monkeypatch.setattr(command, "run_search", real)
    assert (tmp_path / "half.csv.manifest").exists()
    assert run([*call, str(tmp_path / "half.csv"), "--resume"]) == 0
    assert (tmp_path / "half.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
    assert not (tmp_path / "half.csv.manifest").exists()


@pytest.mark.parametrize(("more", "said"), [
    ({"zip": [{"tp": 1, "pp": 2}, {"tp": 2, "pp": 1}]}, "tied by 'zip'"),
    ({"where": ["tp <= 2"]}, "no condition of a search"),
    ({"sweep": {"hidden": [4096, 8192]}}, "no part of a layout"),
])  # fmt: skip
def test_what_a_search_cannot_do_is_refused(more, said, tmp_path, capsys):
    path = tmp_path / "study.json"
    path.write_text(json.dumps({**SMALL, "set": {"global_batch": 64, "gpus": 8}, **more}))
    assert run(["search", str(path)]) == 2
    assert said in capsys.readouterr().err


def test_ctrl_c_keeps_the_searches_that_ended(capsys, monkeypatch):
    from comp_comm.cli import search as command

    real, done = command.run_search, []

    def stops(*given):
        if done:
            raise KeyboardInterrupt
        done.append(1)
        return real(*given)

    monkeypatch.setattr(command, "run_search", stops)
    assert run([*CALL, "--gpus", "16", "--network", "1,2", "--format", "json"]) == 130
    out, err = capsys.readouterr()
    answer = json.loads(out)
    assert [row["network"] for row in answer["rows"]] == [1.0]
    assert answer["meta"]["interrupted"]
    assert [one["interrupted"] for one in answer["meta"]["searches"]] == [False]
    assert "interrupted" in err


# -- pictures ---------------------------------------------------------------------------------------------------------


def test_which_picture():
    assert design_view([["hardware"], ["gpus"]], "step_s") is None
    assert design_view([["hardware"], ["flops"]], "mfu") == {
        "kind": "lines", "x": "flops", "y": "mfu", "lines": ["hardware"], "per": []}  # fmt: skip
    heat = design_view([["hardware"], ["flops"], ["nvs"], ["network"]], "step_s")
    assert (heat["x"], heat["y"], heat["per"]) == ("flops", "nvs", ["hardware", "network"])


@pytest.mark.slow
@pytest.mark.parametrize("more", [
    ["--network", "1,2"], ["--network", "1,2", "--flops", "1,2"], ["--network", "1,2", "--memory-capacity", "0.001,1"],
    ["--hardware", "h100-sxm,b200-sxm", "--network", "1,2", "--flops", "1,2"],
])  # fmt: skip
def test_it_is_drawn(more, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    call = [word for word in CALL if word not in ("--hardware", "h100-sxm")] if "--hardware" in more else CALL
    picture = tmp_path / "design.svg"
    assert run([*call, "--gpus", "16", *more, "--plot", str(picture)]) == 0
    assert "step time" in picture.read_text()


def test_too_many_panels_are_refused_before_the_work(capsys):
    factors = ",".join(map(str, range(1, MAX_PANELS + 2)))
    call = [*CALL, "--gpus", "16", "--network", "1,2", "--flops", "1,2", "--nvs", factors, "--plot", "many.png"]
    assert run(call) == 2
    assert "panels" in capsys.readouterr().err


# -- the size of a domain, in every cost model ------------------------------------------------------------------------


def step(nvs, **more):
    given = {"tp": 8, "gpus": 64, "global_batch": 64, "recompute": "full", **more}
    given |= {} if nvs is None else {"nvs": nvs}
    study = {"hardware": "h100-sxm", "model": "llama-3-70b", "set": given}
    return float(sweep(study, columns=["step_s"]).columns["step_s"][0])


def test_a_domain_of_the_profile_is_the_default():
    assert step(None) == step(8)
    assert step(4) > step(8) > step(64)


def test_a_domain_counts_as_if_the_profile_had_it(tmp_path):
    own = tmp_path / "wide.yaml"
    own.write_text("name: wide\ntitle: H100 with domains of 32\nextends: h100-sxm\n"
                   "network: {scale-up: {domain: {value: 32, source: assumed, certainty: assumed}}}\n")  # fmt: skip
    for study in (
        {"model": "llama-3-70b", "set": {"tp": 8, "cp": 2, "gpus": 64, "global_batch": 64, "recompute": "full"}},
        {"cost_model": "comp_vs_comm", "set": {"hidden": 16384, "seq_len": 2048, "micro_batch": 1, "tp": 16, "dp": 4}},
    ):
        column = "serialized_comm_s"
        as_profile = sweep({**study, "hardware": str(own)}, columns=[column]).columns[column][0]
        as_field = sweep({**study, "hardware": "h100-sxm", "set": {**study["set"], "nvs": 32}}, columns=[column])
        plain = sweep({**study, "hardware": "h100-sxm"}, columns=[column])
        assert as_field.columns[column][0] == as_profile
        assert np.abs(plain.columns[column][0] / as_profile - 1) > 1e-6


@pytest.mark.parametrize(("hardware", "more", "said"), [
    ("mi300x", {}, "is a mesh"), ("perlmutter", {}, "mesh"),
    ("mi210", {"cost_model": "comp_vs_comm", "set": {"hidden": 4096, "seq_len": 1024, "micro_batch": 1, "tp": 4}},
     "without network tiers"),
])  # fmt: skip
def test_domains_that_cannot_change(hardware, more, said, tmp_path, capsys):
    given = {"hardware": hardware, "model": "llama-3-8b", "set": {"gpus": 8, "global_batch": 8}, **more}
    if "cost_model" in more:
        del given["model"]
    given["set"] = {**given["set"], "nvs": 16}
    path = tmp_path / "study.json"
    path.write_text(json.dumps(given))
    assert run(["sweep", str(path)]) == 2
    assert said in capsys.readouterr().err


def test_commas_make_a_list():
    listed = make_design([study_from({**SMALL}, overrides=["gpus=8,16"])])
    assert [case.gpus for case in listed.cases] == [8, 16]
    assert set(FACTORS) >= {"flops", "network", "memory_bandwidth", "memory_capacity", "nvs", "latency", "flop_vs_bw"}


@pytest.mark.parametrize(("more", "said"), [
    (("--hardware", "h100-sxm,h100-sxm"), "names h100-sxm twice"),
    (("--hardware", "h100-sxm", "--price-per-gpu-hour", "1e308"), "must be from 1e-06 to 1,000,000"),
    (("--hardware", "h100-sxm", "--watts", "1e-320"), "must be from"),
    (("--hardware", "h100-sxm", "--tokens", "1e30", "--objective", "days"), "1e+30 is out of range"),
    (("--hardware", "h100-sxm", "--objective", "days"), "needs 'tokens'"),
    (("--hardware", "h100-sxm,v100-sxm-16gb", "--precision", "fp8"), "v100-sxm-16gb"),
    (("--hardware", "h100-sxm", "--tp", "3"), "tp does not divide heads (1 tried)"),
])  # fmt: skip
def test_what_a_search_refuses(compcomm, more, said):
    code, out, err = compcomm("search", "--model", "llama-3-8b", "--gpus", "8", "--global-batch", "8", "-q", *more)
    assert (code, out) == (2, "")
    assert said in err
