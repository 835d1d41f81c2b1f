"""Published training runs, as far as their sources say: they are layouts, they fit, and they take about as long.

Nothing is set for a run that its source does not state: kernels, overlap and number formats are the model's defaults,
so that errors are those of a user who knows the layout alone. `test_published_runs` has runs with every setting.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path
from statistics import mean, median

import pytest
from face import explained

from comp_comm.errors import ConfigError

pytestmark = pytest.mark.slow
FOLDER = Path(__file__).parent / "data"
DEVICES = {
    "A100-80GB-SXM": "a100-sxm-80gb", "A100-80GB-SXM (inferred)": "a100-sxm-80gb", "A100": "a100-sxm-80gb",
    "A100-40GB-SXM": "a100-sxm-40gb", "H100-80GB-SXM": "h100-sxm", "GB200": "gb200-nvl72", "B200-SXM": "b200-sxm",
    "V100-16GB-SXM2": "v100-sxm-16gb", "V100-16GB-SXM": "v100-sxm-16gb", "V100-32GB-SXM": "v100-sxm-32gb",
    "V100-32GB-SXM(DGX-2)": "v100-sxm-32gb", "MI250X (GCD)": "mi250x", "MI250 (GCD, 64GB)": "mi250x",
    "MI300X": "mi300x",
}  # fmt: skip
SAME = ("layers", "hidden", "ffn_hidden", "heads", "kv_heads", "vocab", "seq_len", "tp", "cp", "pp", "vpp",
        "micro_batch", "global_batch")  # fmt: skip
NUMBERS = {"n_gpus": "gpus"} | {name: name for name in SAME}
STAGES = {"fsdp": 3, "fsdp2": 3, "hsdp": 3, "ddp": 0, "ddp/dist-opt": 1, "": 1}


def table(name):
    with (FOLDER / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def point_of(run):
    """Return the fields of a run that its source states."""
    fields = {field: int(float(run[name])) for name, field in NUMBERS.items() if run[name]}
    fields |= {"vocab": fields.get("vocab", 0), "precision": "fp16" if run["precision"] == "fp16" else "bf16"}
    if "fp8" in run["precision"] or "float8" in run["precision"]:
        fields["precision"] = "fp8"
    fields |= {"gated": "on"} if run["gated_mlp"] == "1" else {}
    selective = "per_op" if "torchtitan" in run["group"] else "selective"
    again = {"full": "full", "selective": selective}
    fields |= {"recompute": again[run["recompute"]]} if run["recompute"] in again else {}
    fields |= {"attention_kernel": "unfused"} if "unfused" in run["attention_kernel"] else {}
    fields |= {"kv_replication": "on"} if fields.get("tp", 1) > fields.get("kv_heads", fields["heads"]) else {}
    if fields.get("pp", 1) == 1:
        fields.pop("vpp", None)
    zero = run["zero_stage"]
    sharded = {
        "zero": int(zero) if zero.isdigit() else STAGES[zero],
        "sp": "on" if run["sequence_parallel"] == "1" else "off",
    }
    return {**fields, **sharded}


RUNS = [run for run in table("train_runs.csv") if run["arch"] == "dense" and run["gpu"] in DEVICES
        and all(run[name] for name in ("layers", "hidden", "heads", "seq_len", "n_gpus"))]  # fmt: skip


@cache
def answers():
    """Return every run with what the model says of it, or why it has nothing to say."""
    found = []
    for run in RUNS:
        try:
            found.append((run, explained({"hardware": DEVICES[run["gpu"]], "set": point_of(run)}), ""))
        except ConfigError as error:
            found.append((run, None, str(error)))
    return found


def errors_of(group):
    """Return predicted over measured seconds, less 1, of the runs of a source that have a time."""
    found = []
    for run, step, _ in answers():
        if run["group"] == group and step and run["measured_metric"] in ("iter_time_s", "tokens_per_s_per_gpu"):
            value = float(run["measured_value"])
            rate = step["tokens_per_s"] / step["gpus"]
            found.append(step["step_s"] / value - 1 if run["measured_metric"] == "iter_time_s" else value / rate - 1)
    return found


@pytest.mark.slow
def test_what_was_run_is_a_layout():
    """All but a few: a source with a slip, heads with a dimension it does not say, stages that are not even."""
    assert len(RUNS) > 380
    known = ("heads does not divide hidden", "exceeds the layers", "dp x micro_batch does not divide global_batch",
             "network.scale-out.bandwidth is blank")  # fmt: skip
    refused = [why for _, step, why in answers() if step is None]
    assert all(any(part in why for part in known) for why in refused), refused
    assert len(refused) <= 16


@pytest.mark.slow
def test_what_was_run_fits():
    """Nine of ten: of some the source does not say what was recomputed or sharded."""
    fits = [step["feasible"] for _, step, _ in answers() if step]
    assert sum(fits) / len(fits) > 0.88


@pytest.mark.parametrize(("group", "runs", "most"), [
    ("megatron_2020", 8, 0.06), ("korthikanti2022", 8, 0.08), ("vtrain_multi", 60, 0.06), ("llm_foundry", 120, 0.13),
    ("bigscience_a100", 50, 0.19), ("megascale", 9, 0.10),
])  # fmt: skip
def test_what_was_run_took_about_as_long(group, runs, most):
    found = errors_of(group)
    assert len(found) >= runs - 2
    assert median(map(abs, found)) < most


def test_nobody_did_more_than_the_peak():
    """And it is near what is usually done: a third to a half of it in the mean."""
    shares = [step["mfu"] for _, step, _ in answers() if step and step["feasible"]]
    assert 0 < min(shares) < max(shares) < 0.85
    assert 0.3 < mean(shares) < 0.55


# -- what communication took ------------------------------------------------------------------------------------------

LUMI = {"layers": 70, "hidden": 14336, "heads": 112, "vocab": 131072, "seq_len": 2048, "tied": "on", "tp": 8, "pp": 8,
        "micro_batch": 2, "global_batch": 1024, "recompute": "full", "precision": "bf16", "sp": "off",
        "attention_kernel": "unfused", "overlap_dp": "off"}  # fmt: skip
BREAKDOWN = [row for row in table("comm_breakdown.csv") if row["model"] == "GPT-175B (LUMI)"]
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
