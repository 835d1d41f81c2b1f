"""A search of the foundation-models paper's layouts finds what a sweep of them, one by one, finds."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from comp_comm.cli.main import run
from comp_comm.configs.study import load_study, study_from
from comp_comm.errors import InfeasibleError
from comp_comm.searches import search
from comp_comm.sweeps.result import sweep

PAPER = "papers/foundation-models-gpt3"
FREE = {
    "cost_model": "foundation_models", "hardware": "papers/hardware/foundation-models-a100", "model": "gpt3-175b",
    "set": {"gpus": 512, "global_batch": 1024, "nvs": 4},
}  # fmt: skip


def test_the_published_optimum(capsys):
    assert run(["search", PAPER, "--format", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    best = answer["rows"][0]
    assert [best[name] for name in ("tp1", "pp", "dp", "micro_batch")] == [4, 16, 8, 1]
    assert best["step_s"] == pytest.approx(22.469, abs=5e-4)
    assert 0 < answer["meta"]["feasible"] < answer["meta"]["candidates"]
    assert answer["best"]["step_s"] == best["step_s"] == pytest.approx(sum(answer["best"]["parts"].values()))
    free = search(study_from(FREE), 512)
    assert free["rows"][0] == best
    assert free["meta"]["candidates"] > answer["meta"]["candidates"]


def test_a_study_searched_is_the_study_swept():
    study = load_study(PAPER)
    swept = sweep(study, columns=["step_s"]).columns["step_s"]
    everything = sweep(replace(study, where=()), columns=["step_s", "reason"]).columns
    keep_rules = sum(reason in (None, "", "does not fit: memory exceeds that of the device")
                     for reason in everything["reason"])  # fmt: skip
    found = search(study, 512, top=1000)
    assert found["meta"]["feasible"] == len(found["rows"]) == len(swept)
    assert found["meta"]["candidates"] == keep_rules
    np.testing.assert_allclose([row["step_s"] for row in found["rows"]], np.sort(swept), rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("pinned", [
    {"tp1": 8}, {"pp": 8}, {"dp": 16}, {"micro_batch": 2}, {"nv_dp": 2}, {"strategy": "2d", "summa_panels": 8},
    {"strategy": "2d-seqp", "tp2": 4}, {"formulas": "corrected", "nv_pp": 2},
])  # fmt: skip
def test_pinning_never_helps_and_is_kept(pinned):
    loose = {name: value for name, value in pinned.items() if name in ("strategy", "formulas")}
    free = search(study_from({**FREE, "set": {**FREE["set"], **loose}}), 512)["rows"][0]["step_s"]
    found = search(study_from({**FREE, "set": {**FREE["set"], **pinned}}), 512, top=50)
    assert found["rows"][0]["step_s"] >= free
    kept = {name: value for name, value in pinned.items() if name != "formulas"}
    assert all(row[name] == value for row in found["rows"] for name, value in kept.items())


def test_several_strategies_together_have_the_best_of_each():
    names = ("1d", "2d", "2d-seqp")
    alone = [search(study_from({**FREE, "set": {**FREE["set"], "strategy": name}}), 512) for name in names]
    both = search(study_from({**FREE, "sweep": {"strategy": list(names)}}), 512, top=20)
    assert both["meta"]["candidates"] == sum(one["meta"]["candidates"] for one in alone)
    assert both["meta"]["feasible"] == sum(one["meta"]["feasible"] for one in alone)
    assert both["rows"][0] == min((one["rows"][0] for one in alone), key=lambda row: row["step_s"])
    assert len({row["strategy"] for row in both["rows"]}) > 1


def test_every_row_is_the_point_it_names_and_near_misses_are_faster():
    few = {**FREE["set"], "gpus": 64}  # with more of them memory does not matter
    found = search(study_from({**FREE, "set": few, "sweep": {"strategy": ["1d", "2d"]}}), 64)
    names = ("strategy", "tp1", "tp2", "pp", "dp", "micro_batch", "nv_tp1", "nv_tp2", "nv_dp", "nv_pp")
    for row in (*found["rows"], *found["near_misses"]):
        point = {name: row[name] for name in names}
        if row["strategy"] == "2d":
            point["summa_panels"] = row["summa_panels"]
        roomy = study_from({**FREE, "set": {**few, **point, "memory_capacity": 100}})
        alone = sweep(roomy, columns=["step_s", "memory_gib"]).columns
        assert (alone["step_s"][0], alone["memory_gib"][0]) == (row["step_s"], row["memory_gib"])
    assert found["near_misses"]
    assert all(miss["step_s"] < found["rows"][0]["step_s"] for miss in found["near_misses"])
    assert all(2 * 80e9 >= miss["memory_gib"] * 2**30 > 80e9 for miss in found["near_misses"])


def test_a_design_space_of_the_paper(capsys):
    call = ["search", PAPER, "--nvs", "4,8", "--network", "1,4", "--format", "json"]
    assert run(call) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    seconds = {(row["nvs"], row["network"]): row["step_s"] for row in rows}
    assert seconds[4, 1] == pytest.approx(22.469, abs=5e-4)
    assert seconds[4, 4] < seconds[4, 1]
    assert seconds[8, 1] < seconds[4, 1]


def test_costs_and_days():
    from comp_comm.sweeps.prices import Prices

    study = study_from({**FREE, "set": {**FREE["set"], "tokens": 3e11}})
    row = search(study, 512, "days", prices=Prices(2.0, 400.0))["rows"][0]
    hours = row["days"] * 24 * 512
    assert row["gpu_hours"] == pytest.approx(hours)
    assert row["cost_of_run"] == pytest.approx(2 * hours)
    assert row["energy_kwh_of_run"] == pytest.approx(0.4 * hours)


def test_nothing_fits_and_no_layout():
    with pytest.raises(InfeasibleError, match=r"needs [\d.]+ GiB of 0\.7"):
        search(study_from({**FREE, "set": {**FREE["set"], "memory_capacity": 0.01}}), 512)
    with pytest.raises(InfeasibleError, match="no layout on 96 devices"):
        search(study_from({**FREE, "set": {**FREE["set"], "nvs": 64, "global_batch": 96}}), 96)
    corrected = {**FREE["set"], "nvs": 64, "global_batch": 96, "formulas": "corrected", "memory_capacity": 4}
    assert search(study_from({**FREE, "set": corrected}), 96)["rows"]


@pytest.mark.parametrize(("more", "said"), [
    (["--objective", "mfu"], "searched by time"),
    (["--tp", "4"], "does not model tp"),
    (["--set", "accumulation=2"], "accumulation"), (["--set", "summa_panels=8"], "strategy 2d"),
    (["--hidden", "1536,3072"], "no part of a layout"), (["--hardware", "gaudi3"], "vector_flops"),
    (["--set", "cost_model=amped"], "sweep STUDY --top"), (["--set", "cost_model=comp_vs_comm"], "sweep STUDY --top"),
])  # fmt: skip
def test_what_does_not_apply_is_refused(more, said, capsys):
    assert run(["search", PAPER, *more]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err


def test_devices_beyond_the_network_are_refused(tmp_path):
    own = tmp_path / "small.yaml"
    own.write_text("name: small\ntitle: no way out\nextends: papers/hardware/foundation-models-a100\n"
                   "network: {scale-out: {bandwidth: null}}\n")  # fmt: skip
    with pytest.raises(InfeasibleError, match=r"scale-out\.bandwidth is blank"):
        search(study_from({**FREE, "hardware": str(own)}), 512)
    assert search(study_from({**FREE, "hardware": str(own), "set": {**FREE["set"], "memory_capacity": 100}}), 4)["rows"]
