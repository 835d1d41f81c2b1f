"""What two papers say of their runs beside seconds: FLOP, shares of the peak, what fits; and what was held out."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from comp_comm.configs import catalogue
from comp_comm.configs.strict_yaml import load
from comp_comm.configs.study import study_from
from comp_comm.sweeps.plan import make_plan

HARDWARE, PEAK = "a100-sxm-80gb", 312e12
HELD_OUT = ("Korthikanti", "2205.05198")
SAME = ("layers", "hidden", "heads", "vocab", "seq_len", "tp", "pp", "vpp", "micro_batch", "global_batch")
# Megatron-LM of 2021 and 2022: no fused attention, no sharded optimizer, gradients reduced at the end.
SOFTWARE = {"attention_kernel": "unfused", "zero": 0, "tied": "on", "position": "learned", "overlap_dp": "off"}
with (Path(__file__).parent / "data" / "published_runs.csv").open(encoding="utf-8", newline="") as file:
    ROWS = list(csv.DictReader(file))


def rows(group, metric):
    return [row for row in ROWS if (row["group"], row["measured_metric"]) == (group, metric)]


TIMED, FAST = rows("korthikanti2022", "iter_time_s"), rows("megatron_sc21", "tflops_per_gpu")
SHARES = rows("korthikanti2022", "mfu")


def name(row):
    return f"{row['model_name']}-{row['recompute']}-{row['n_gpus']}"


def step(row, **more):
    point = {key: int(row[key]) for key in SAME} | {"gpus": int(row["n_gpus"]), "precision": row["precision"]}
    point |= {"recompute": row["recompute"], "sp": "on" if row["sequence_parallel"] == "1" else "off"}
    assert int(row["dp"]) == point["gpus"] / point["tp"] / point["pp"]
    return make_plan(study_from({"hardware": HARDWARE, "set": {**point, **SOFTWARE, **more}})).evaluate(())


def counted(row):
    """FLOP of a step as Narayanan et al. count them: 96 B s L h^2 (1 + s / 6h + V / 16 L h), all layers twice."""
    keys = ("layers", "hidden", "seq_len", "global_batch", "vocab")
    layers, hidden, seq, batch, vocab = (int(row[key]) for key in keys)
    return 96 * batch * seq * layers * hidden**2 * (1 + seq / (6 * hidden) + vocab / (16 * layers * hidden))


def test_all_rows_are_used():
    assert (len(TIMED), len(FAST), len(SHARES)) == (8, 10, 2)
    assert len(ROWS) == 20


@pytest.mark.a_third
@pytest.mark.parametrize("row", FAST, ids=name)
def test_hardware_flops_and_the_rate_are_by_the_papers_count(row):
    answer = step(row)
    assert float(answer.work.hardware_flops) == pytest.approx(counted(row), rel=1e-9)
    rate = counted(row) / (int(row["n_gpus"]) * float(answer.step_s)) / 1e12
    assert rate == pytest.approx(float(row["measured_value"]), rel=0.10)


@pytest.mark.parametrize("row", SHARES, ids=name)
def test_the_share_of_the_peak_of_2240_devices(row):
    """42.1 % with full recomputation, 54.2 % without: the abstract of Korthikanti et al."""
    answer = step(row)
    mfu = float(answer.work.model_flops) / (PEAK * int(row["n_gpus"]) * float(answer.step_s))
    assert mfu == pytest.approx(float(row["measured_value"]), rel=0.10)


@pytest.mark.parametrize("row", TIMED, ids=name)
def test_what_ran_fits_and_what_the_paper_says_does_not_fit_does_not(row):
    """Figure 1 of Korthikanti et al.: without their work none of the four models fits into 80 GB."""
    assert not step(row).broken
    assert step(row, recompute="none", sp="off").broken


def test_nothing_is_fitted_on_the_runs_held_out():
    path = catalogue.locate("hardware", HARDWARE)
    profile = load(path.read_text(encoding="utf-8"), path.name).data
    blocks = [profile[block] for block in ("timing", "memory", "peak")] + list(profile["network"].values())
    used = {number["source"] for block in blocks for number in block.values() if isinstance(number, dict)}
    texts = {key: profile["sources"][key]["text"] for key in used}
    assert [key for key, text in texts.items() if any(word in text for word in HELD_OUT)] == []
