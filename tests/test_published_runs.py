"""Steps of the complete model beside published training runs on A100.

The rows are the project's own compilation of facts, each with its source. Nothing is fitted on those of Korthikanti et
al.; what a GEMM keeps of its isolated speed (``sustained``) is fitted on the ten of Narayanan et al.
"""

from __future__ import annotations

import csv
from pathlib import Path
from statistics import mean, median

import pytest

from comp_comm.configs.study import study_from
from comp_comm.sweeps.point import point_of

with open(Path(__file__).parent / "data" / "published_runs.csv", encoding="utf-8", newline="") as file:
    RUNS = list(csv.DictReader(file))
TIMED = [run for run in RUNS if run["measured_metric"] == "iter_time_s"]
SC21 = [run for run in RUNS if run["group"] == "megatron_sc21"]
WHOLE = ("layers", "hidden", "ffn_hidden", "heads", "vocab", "seq_len", "tp", "pp", "micro_batch", "global_batch")


def step_of(run, **more):
    """Return the step of a run: Megatron-LM of 2021 and 2022, attention unfused, states not sharded."""
    fields = {name: int(run[name]) for name in WHOLE}
    fields |= {"gpus": int(run["n_gpus"]), "vpp": int(run["vpp"] or 1), "recompute": run["recompute"], "zero": 0,
               "sp": "on" if run["sequence_parallel"] == "1" else "off", "precision": "fp16", "tied": True,
               "position": "learned", "attention_kernel": "unfused"}  # fmt: skip
    return point_of(study_from({"hardware": "a100-sxm-80gb", "set": {**fields, **more}}))[1]


def as_in_2021(run):
    """Return what the paper's scripts say (Megatron-LM, examples/academic_paper_scripts/sc21).

    PyTorch's data parallelism up to 18B, which reduces beside the backward pass, and sums in 16 bit that no GEMM adds
    to."""
    return {"overlap_dp": "on" if int(run["hidden"]) <= 6144 else "off", "gradient_accumulation_fusion": "off"}


def error_of(run):
    """Return predicted over measured seconds, less 1; a rate of FLOP counts those of recomputation (SC21, Eq 3)."""
    step = step_of(run, **(as_in_2021(run) if run["group"] == "megatron_sc21" else {}))
    value = float(run["measured_value"])
    if run["measured_metric"] == "iter_time_s":
        return float(step.step_s) / value - 1
    return float(step.step_s) * value * 1e12 * float(step.work.gpus) / float(step.work.hardware_flops) - 1


@pytest.mark.parametrize("run", TIMED, ids=[f"{run['model_name']}-{run['recompute']}" for run in TIMED])
def test_each_timed_run_of_korthikanti_is_within_ten_percent(run):
    assert abs(error_of(run)) < 0.10
    assert not step_of(run).broken  # it ran, so it fits


def test_there_are_eight_timed_runs_and_their_mean_error_is_small():
    errors = [error_of(run) for run in TIMED]
    assert len(errors) == 8
    assert mean(map(abs, errors)) < 0.065


def test_selective_recompute_gains_what_was_measured():
    for full, selective in zip(TIMED[::2], TIMED[1::2], strict=True):
        assert (full["recompute"], selective["recompute"]) == ("full", "selective")
        measured = float(full["measured_value"]) / float(selective["measured_value"])
        assert float(step_of(full).step_s / step_of(selective).step_s) == pytest.approx(measured, rel=0.06)


def test_gemms_that_add_gradients_up_explain_half_of_what_a_release_gained():
    """530B on 2520 and 2240 devices, 280 micro-batches a replica: 54.08 s in 2021, 50.36 s in 2022."""
    (run,) = [run for run in SC21 if run["hidden"] == "20480"]
    before, after = (float(step_of(run, overlap_dp="off", gradient_accumulation_fusion=word).step_s)
                     for word in ("off", "on"))  # fmt: skip
    assert before / after - 1 == pytest.approx(54.08 / 50.36 - 1, rel=0.5)


def test_the_runs_of_sc21_have_no_bias():
    errors = [error_of(run) for run in SC21]
    assert len(errors) == 10
    assert median(map(abs, errors)) < 0.05
    assert abs(mean(errors)) < 0.02
