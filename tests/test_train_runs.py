"""Published training runs beside the model: they fit into memory, and communication took its measured share.

How long steps took is in `test_validation`; `test_published_runs` has two papers' runs by themselves.
"""

from __future__ import annotations

import csv
from functools import cache

import pytest
from face import explained

from comp_comm.validation.run import validate
from comp_comm.validation.table import shipped

pytestmark = pytest.mark.slow


def table():
    with shipped("communication.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@cache
def predictions():
    return validate().counted


def test_what_was_run_fits():
    """Nine of ten: of some the source does not say what was recomputed or sharded."""
    fits = [one.memory_bytes <= one.point.machine.profile().value("memory.capacity") for one in predictions()]
    assert sum(fits) / len(fits) > 0.88


def test_nobody_did_more_than_the_peak():
    """Predicted steps take longer than their compute alone, and that is most of them in most runs."""
    shares = [one.terms["compute_s"] / one.predicted_s for one in predictions()]
    assert 0 < min(shares) < max(shares) < 1
    assert sorted(shares)[len(shares) // 2] > 0.5


# -- what communication took ------------------------------------------------------------------------------------------

LUMI = {"layers": 70, "hidden": 14336, "heads": 112, "vocab": 131072, "seq_len": 2048, "tied": "on", "tp": 8, "pp": 8,
        "micro_batch": 2, "global_batch": 1024, "recompute": "full", "precision": "bf16", "sp": "off",
        "attention_kernel": "unfused", "overlap_dp": "off"}  # fmt: skip
BREAKDOWN = [row for row in table() if row["model"] == "GPT-175B (LUMI)"]
SHARE = "(dp_all_reduce+param_all_gather+embedding)/iter_time"


def lumi(devices):
    return explained({"hardware": "mi250x", "set": {**LUMI, "dp": int(devices) // 64}})


@pytest.mark.parametrize("row", [row for row in BREAKDOWN if row["quantity"] == "iter_time"], ids=lambda r: r["n_gpus"])
def test_seconds_of_a_step_on_lumi(row):
    """Of 70 layers on 128 and on 2048 of its devices, in milliseconds."""
    assert lumi(row["n_gpus"])["step_s"] == pytest.approx(float(row["value"]) / 1e3, rel=0.1)


def test_the_share_of_data_parallelism_on_lumi():
    """It grows twelvefold from two replicas to 32, as fewer micro-batches are left to each."""
    rows = {int(row["n_gpus"]): float(row["value"]) for row in BREAKDOWN if row["quantity"] == SHARE}
    assert sorted(rows) == [128, 256, 512, 2048]
    ours = {}
    for devices, share in rows.items():
        found = lumi(devices)
        ours[devices] = sum(found["comm"]["dp"][name] for name in ("serialized_s", "exposed_s")) / found["step_s"]
        assert share / 2 < ours[devices] < 1.25 * share
    assert list(ours.values()) == sorted(ours.values())
