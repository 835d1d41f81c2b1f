"""Figures of AMPeD (ISPASS 2023): its validation and its case studies."""

from __future__ import annotations

import numpy as np

from comp_comm.records import Record
from comp_comm.reproduce import amped
from comp_comm.reproduce.figure import Chart, Figure, Series, Statement, about, trend, unknown
from comp_comm.sweeps.result import sweep

PAPER = "amped"


def _rate(row: Record) -> Statement:
    stated = row["published_tflops_per_gpu"]
    fitted = row["model"] == "GPT-145B"
    note = "one number is set by this run: a fit" if fitted else "met within the paper's largest error, 12 %"
    return about(f"TFLOP/s of {row['model']}", stated, row["ours_tflops_per_gpu"], amped.TOLERANCE * stated, "TFLOP/s",
                 note)  # fmt: skip


def megatron() -> Figure:
    """Return AMPeD's validation against Megatron-LM."""
    rows, meta = amped.reproduce()
    checked = [row for row in rows if row["checked"]]
    said = [_rate(row) for row in checked]
    said += [
        unknown(
            f"its own prediction for {row['model']} (from memory)",
            row["ours_tflops_per_gpu"],
            "TFLOP/s",
            f"{row['amped_tflops_per_gpu']:g} from memory, not checked",
        )
        for row in checked
    ]
    names = [row["model"] for row in rows]
    chart = Chart("Megatron-LM on A100", "", "TFLOP/s a GPU", (
        Series("published", names, [row["published_tflops_per_gpu"] for row in rows], "bar"),
        Series("ours", names, [row["ours_tflops_per_gpu"] for row in rows], "bar")))  # fmt: skip
    return Figure(PAPER, "megatron", "Validation with Megatron-LM", tuple(said), rows, (chart,), "",
                  tuple(meta["notes"]), amped.SHOWN)  # fmt: skip


def case_studies() -> Figure:
    """Return AMPeD's three case studies."""
    claims = amped.case_studies()
    said = [
        unknown(one["claim"], None, "", f"{one['source']}; ours: {one['ours']}")
        if one["holds"] is None
        else trend(one["claim"], one["holds"], f"{one['source']}; ours: {one['ours']}")
        for one in claims
    ]
    charts = []
    for study, x in ((amped.MAPPINGS, "global_batch"), (amped.OPTICAL, "ep")):
        c = sweep(study).columns
        by = ("tp", "pp", "nv_tp1") if x == "global_batch" else ("hardware", "tp")
        keys = list(dict.fromkeys(zip(*(c[name].tolist() for name in by), strict=True)))
        series = []
        for key in keys:
            mask = np.all([c[name] == value for name, value in zip(by, key, strict=True)], axis=0)
            words = ", ".join(f"{name} {value:g}" if isinstance(value, float) else str(value) for name, value in
                              zip(by, key, strict=True))  # fmt: skip
            series.append(
                Series(words, c[x][mask].tolist(), [None if v != v else v for v in c["tokens_per_s"][mask].tolist()])
            )
        charts.append(Chart(study.removeprefix("papers/"), x.replace("_", " "), "tokens/s", tuple(series), 2, 10))
    notes = ("what they conclude is from memory, but for the abstract's 'up to 4x' of optical links",)
    return Figure(PAPER, "case-studies", "The three case studies", tuple(said), claims, tuple(charts), amped.MAPPINGS,
                  notes)  # fmt: skip


FIGURES = {"megatron": megatron, "case-studies": case_studies}
