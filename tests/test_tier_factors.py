"""Factors on the bandwidth of one tier: scale_up of the innermost, scale_out of those beyond it."""

from __future__ import annotations

import json

import pytest
from face import machine, row_of, rows_of, search_of

from comp_comm.cli.main import run
from comp_comm.errors import ConfigError

LLAMA = {"hardware": "h100-sxm", "model": "llama-3-8b"}
SPLIT = {"gpus": 64, "tp": 8, "global_batch": 64}
PAPERS = {
    "complete": {**LLAMA, "set": {**SPLIT, "memory_capacity": 10}},
    "inference": {**LLAMA, "set": {"gpus": 16, "tp": 8, "pp": 2, "phase": "inference"}},
    "foundation_models": {"cost_model": "foundation_models", "hardware": "papers/hardware/foundation-models-a100",
                          "model": "gpt3-175b", "set": {"gpus": 512, "global_batch": 512, "tp1": 4, "pp": 16, "dp": 8,
                                                        "nvs": 4}},
    "amped": {"cost_model": "amped", "hardware": "papers/hardware/amped-a100", "model": "megatron-145b",
              "set": {"gpus": 1024, "global_batch": 2048, "tp": 8, "pp": 8, "dp": 16}},
}  # fmt: skip
ONE_LAYER = {"hidden": 4096, "seq_len": 1024, "micro_batch": 1, "tp": 8}
SECONDS = {"inference": "request_s"}


def seconds(name, **more):
    study = PAPERS[name]
    return row_of({**study, "set": {**study["set"], **more}})[SECONDS.get(name, "step_s")]


@pytest.mark.a_third
@pytest.mark.parametrize("name", PAPERS)
def test_both_together_are_the_network(name):
    """And each alone gains something, but less than both."""
    usual, both = seconds(name), seconds(name, network=2)
    assert seconds(name, scale_up=2, scale_out=2) == pytest.approx(both, rel=1e-12)
    assert seconds(name, scale_up=4, scale_out=4, network=0.5) == pytest.approx(both, rel=1e-12)
    assert both < seconds(name, scale_up=2) < usual
    assert both < seconds(name, scale_out=2) < usual


def test_a_factor_is_that_of_the_profile_with_such_a_network(tmp_path):
    """400 Gb/s a device between nodes, twice: as a file of such a device has it."""
    faster = tmp_path / "faster.yaml"
    faster.write_text("extends: h100-sxm\nnetwork: {scale-out: {bandwidth: 100 GB/s}}\n")
    mine = {**PAPERS["complete"], "hardware": str(faster)}
    assert row_of(mine)["step_s"] == pytest.approx(seconds("complete", scale_out=2), rel=1e-12)


def test_seconds_between_nodes_counted_by_hand(tmp_path):
    """Gradients of one device a node are all that is sent, without latency: twice the links take half of it."""
    one_each = machine(tmp_path, domain=1, outer=1e9)
    point = {"layers": 2, "hidden": 256, "heads": 4, "vocab": 0, "seq_len": 64, "gpus": 8, "global_batch": 8,
             "overlap_dp": "off", "zero": 0}  # fmt: skip
    base, twice = (row_of({"hardware": one_each, "set": {**point, "scale_out": factor}}, ["serialized_comm_s",
                   "exposed_comm_s"]) for factor in (1, 2))  # fmt: skip
    assert sum(twice.values()) == pytest.approx(sum(base.values()) / 2, rel=1e-3)


def test_nothing_changes_within_a_domain_and_it_is_said(capsys):
    inside = {**LLAMA, "set": {"gpus": 8, "tp": 8, "global_batch": 8}}
    several = [row["step_s"] for row in rows_of({**inside, "sweep": {"scale_out": [1, 2, 8]}}, ["step_s"])]
    assert len(set(several)) == 1
    flags = ("--model", "llama-3-8b", "--hardware", "h100-sxm", "--tp", "8", "--global-batch", "8", "--scale-out", "2")
    for gpus, said in (("8", True), ("8,16", False)):
        assert run(["sweep", *flags, "--gpus", gpus]) == 0
        assert ("scale_out (all devices are in one domain of 8)" in capsys.readouterr().err) is said
    assert run(["sweep", *flags, "--gpus", "16", "--nvs", "16"]) == 0
    assert "in one domain of 16" in capsys.readouterr().err


def test_it_is_refused_where_there_is_no_such_network():
    alone = {"hardware": "mi50", "model": "gpt2", "set": {"gpus": 4, "precision": "fp16", "global_batch": 4}}
    row_of(alone)
    with pytest.raises(ConfigError, match="scale_out is of the network beyond the innermost tier"):
        row_of({**alone, "set": {**alone["set"], "scale_out": 2}})
    rows = rows_of({**alone, "sweep": {"scale_out": [1, 2]}}, ["feasible", "reason"])
    assert [row["feasible"] for row in rows] == [True, False]
    with pytest.raises(ConfigError, match="comp_vs_comm does not model scale_out"):
        row_of({"cost_model": "comp_vs_comm", "set": {**ONE_LAYER, "scale_out": 2}})


@pytest.mark.slow
def test_a_search_takes_it_as_a_factor_on_the_hardware(capsys):
    call = ("search", "--model", "llama-3-8b", "--hardware", "h100-sxm", "--gpus", "16", "--global-batch", "16", "--cp",
            "1", "--scale-out", "1,4", "--format", "json")  # fmt: skip
    assert run([*call]) == 0
    first, second = json.loads(capsys.readouterr().out)["rows"]
    assert (first["scale_out"], second["scale_out"]) == (1, 4)
    alone = search_of({**LLAMA, "set": {"global_batch": 16, "cp": 1, "scale_out": 4}}, 16)["rows"][0]
    assert second["step_s"] == alone["step_s"] < first["step_s"]
