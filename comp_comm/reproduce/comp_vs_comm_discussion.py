"""The discussion of Comp-vs-Comm (arXiv:2302.02825), section 6: host memory, formats, inference, other networks."""

from __future__ import annotations

import numpy as np

from comp_comm.configs.hardware_file import load_profile
from comp_comm.configs.study import load_study
from comp_comm.records import Records
from comp_comm.reproduce.comp_vs_comm import PAPER
from comp_comm.reproduce.figure import Chart, Figure, Series, about, trend, unknown
from comp_comm.sweeps.result import sweep


def section_6_1_3() -> Figure:
    """Return section 6.1.3: model state in the host's memory."""
    study = "papers/comp-vs-comm-host-memory"
    columns = ("offload_optimizer", "step_s", "optimizer_s", "memory_gib", "feasible", "reason")
    rows = sweep(study, columns=columns).to_records()
    device, host = rows
    said = (
        trend(
            "with it larger models fit on the same devices",
            not device["feasible"] and host["feasible"],
            f"on the device: {device['reason']}",
        ),
        trend("data movement to the host takes time", (host["optimizer_s"] or 0) > 0),
        unknown("time of the optimizer's step and its traffic", 100 * host["optimizer_s"] / host["step_s"], "%"),
    )
    return Figure(PAPER, "section-6.1.3", "Section 6.1.3: large system memory", said, rows, (), study)


def section_6_2() -> Figure:
    """Return section 6.2: number formats."""
    study = "papers/comp-vs-comm-formats"
    result = sweep(study)
    c, profile = result.columns, load_profile("papers/hardware/mi210-fp32")
    share = {name: c["serialized_comm_fraction"][c["precision"] == name] for name in ("fp32", "fp16")}
    sent = {name: c["serialized_comm_s"][c["precision"] == name] for name in share}
    times = profile.value("peak.fp16") / profile.value("peak.fp32")
    said = (
        about("FP16 over FP32 throughput of an MI210", 4, times, 0.05, "x", "both peaks are of its data sheet"),
        about("bytes of FP32 over FP16", 2, float((sent["fp32"] / sent["fp16"]).mean()), 0.01, "x"),
        trend("fewer bits raise communication's share", (share["fp16"] > share["fp32"]).all(),
              "so the conclusions carry over to narrower formats"),
    )  # fmt: skip
    models = [f"H={hidden // 1024:.0f}K" for hidden in c["hidden"][c["precision"] == "fp16"]]
    chart = Chart("serialized communication", "", "share (%)", tuple(
        Series(name, models, (100 * values).tolist(), "bar") for name, values in share.items()))  # fmt: skip
    return Figure(
        PAPER,
        "section-6.2",
        "Section 6.2: number formats",
        said,
        result.to_records(),
        (chart,),
        study,
        (),
        ("hidden", "tp", "precision", "compute_s", "serialized_comm_s", "serialized_comm_fraction"),
    )


def section_6_3() -> Figure:
    """Return section 6.3: inference."""
    study = "papers/comp-vs-comm-inference"
    result = sweep(study)
    c = result.columns
    said = (
        trend("the analysis carries over: communication's share grows with TP", (
            np.diff(c["prefill_comm_fraction"]) > 0).all() and (np.diff(c["decode_comm_fraction"]) > 0).all()),
        unknown("share of communication in a prefill with TP 8", 100 * float(c["prefill_comm_fraction"][-1]), "%"),
        unknown("share of communication of a generated token with TP 8", 100 * float(c["decode_comm_fraction"][-1]),
                "%"),
    )  # fmt: skip
    chart = Chart(
        "Llama 3 70B on H100",
        "TP",
        "communication (%)",
        tuple(
            Series(name, c["tp"].tolist(), (100 * c[f"{name}_comm_fraction"]).tolist())
            for name in ("prefill", "decode")
        ),
        2,
    )
    return Figure(PAPER, "section-6.3", "Section 6.3: inference", said, result.to_records(), (chart,), study, (), (
        "tp", "ttft_s", "tpot_s", "prefill_comm_fraction", "decode_comm_fraction"))  # fmt: skip


def section_6_4() -> Figure:
    """Return section 6.4: other networks."""
    study, shares = "papers/comp-vs-comm-beyond", {}
    rows: Records = []
    for model in ("vit-22b", "mamba2-2.7b", "nemotron-h-8b", "llama-3-8b"):
        result = sweep(load_study(study, [f"model={model}"]), columns=["tp", "step_s", "serialized_comm_fraction"])
        rows += [{"model": model, **row} for row in result.to_records()]
        shares[model] = result.columns
    grows = [
        np.diff(c["serialized_comm_fraction"][~np.isnan(c["serialized_comm_fraction"])]) > 0 for c in shares.values()
    ]
    said = (trend("the method carries over: shares grow with TP for each of them", all(each.all() for each in grows)),
            unknown("share of a state-space model with TP 8", 100 * float(
                shares["mamba2-2.7b"]["serialized_comm_fraction"][-1]), "%"))  # fmt: skip
    chart = Chart(
        "serialized communication on 64 H100",
        "TP",
        "share (%)",
        tuple(
            Series(model, c["tp"].tolist(), (100 * c["serialized_comm_fraction"]).tolist())
            for model, c in shares.items()
        ),
        2,
    )
    return Figure(PAPER, "section-6.4", "Section 6.4: beyond transformers", said, rows, (chart,), study)


FIGURES = {"section-6.1.3": section_6_1_3, "section-6.2": section_6_2, "section-6.3": section_6_3,
           "section-6.4": section_6_4}  # fmt: skip
