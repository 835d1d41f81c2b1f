"""AMPeD's validation against the runs that Megatron-LM published, and what its three case studies conclude."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from comp_comm.configs.overrides import read_settings
from comp_comm.configs.study import study_from
from comp_comm.records import Record, Records
from comp_comm.reproduce.published import read_table, relative_error
from comp_comm.sweeps.meta import identity
from comp_comm.sweeps.result import Result, sweep

TITLE = "AMPeD (ISPASS 2023), put together again: published runs of Megatron-LM beside ours"
SOURCE = "D. Narayanan et al., SC21, arXiv:2104.04473, Table 1 (A100, eight to a node, full recomputation)"
NOTES = (
    "amped_tflops_per_gpu is what the paper predicts for the four runs it validates with, from memory and unchecked",
    "one number is set (timing.gemm_efficiency, so that the 145B run comes out right); the paper's own was not at hand",
    "checked are the runs the paper validates with; an efficiency that knows only the micro-batch is too high for the "
    "small GEMMs of small models",
)
TABLE, HARDWARE = "amped.csv", "papers/hardware/amped-a100"
FIELDS = ("layers", "hidden", "heads", "vocab", "seq_len", "gpus", "tp", "pp", "vpp", "dp", "micro_batch",
          "global_batch")  # fmt: skip
SETTABLE = ("flop_vs_bw", "flops", "network", "latency", "timing", "bubble_ratio", "zero_overhead")
SHOWN = ("model", "gpus", "tp", "pp", "vpp", "dp", "micro_batch", "global_batch", "published_tflops_per_gpu",
         "ours_tflops_per_gpu", "error", "amped_tflops_per_gpu", "checked")  # fmt: skip
TOLERANCE = 0.12  # the paper's largest error
MAPPINGS, LOW_END, OPTICAL = (f"papers/amped-{name}" for name in ("mappings", "low-end", "optical"))
TERA = 1e12


def reproduce(overrides: Sequence[str] = ()) -> tuple[Records, Record]:
    """Return ours beside the published FLOP/s of each run, and what they were made with.

    ``overrides`` are ``"key=value"``: factors on the hardware, the timing preset, the bubble ratio, ZeRO's overhead.

    Examples
    --------
    >>> rows, _ = reproduce()
    >>> [round(row["ours_tflops_per_gpu"]) for row in rows if row["checked"]]
    [148, 154, 156, 145]
    """
    given = read_settings(overrides, SETTABLE)
    table = read_table(TABLE)
    study = study_from({
        "title": TITLE, "cost_model": "amped", "hardware": HARDWARE,
        "set": {"precision": "fp16", "recompute": "full", **given},
        "zip": [{name: int(run[name]) for name in FIELDS} for run in table],
    })  # fmt: skip
    columns = ("hardware_flops", "step_s", "compute_s", "tp_comm_s", "pp_comm_s", "dp_comm_s", "bubble_s")
    result = sweep(study, columns=columns)
    rows = [_row(run, {name: float(result.columns[name][i]) for name in columns}) for i, run in enumerate(table)]
    meta = {**identity(), "command": "reproduce amped", "title": TITLE, "source": SOURCE, "cost_model": "amped",
            "given": dict(given), "points": len(rows), "hardware": result.meta["hardware"],
            "conventions": result.meta["fixed"], "notes": list(NOTES)}  # fmt: skip
    return rows, meta


def _row(run: dict[str, str], ours: dict[str, float]) -> Record:
    published, paper = float(run["published_tflops_per_gpu"]), run["amped_tflops_per_gpu"]
    rate = ours["hardware_flops"] / (int(run["gpus"]) * ours["step_s"]) / TERA
    return {
        "model": run["model"], **{name: int(run[name]) for name in FIELDS}, "published_tflops_per_gpu": published,
        "ours_tflops_per_gpu": rate, "error": relative_error(rate, published),
        "amped_tflops_per_gpu": float(paper) if paper else None, "checked": bool(paper),
        "published_step_s": ours["step_s"] * rate / published, "ours_step_s": ours["step_s"],
        **{name: ours[name] for name in ("compute_s", "tp_comm_s", "pp_comm_s", "dp_comm_s", "bubble_s")},
    }  # fmt: skip


def case_studies(overrides: Sequence[str] = ()) -> Records:
    """Return what the three case studies conclude (from memory, but for the 4 of the abstract), with our figures.

    ``holds`` is None where the paper's numbers were not at hand, and ours are assumed.

    >>> [claim["holds"] for claim in case_studies()]
    [True, True, True, True, None]
    """
    read_settings(overrides, SETTABLE)
    mappings, low_end, optical = (sweep(study, overrides) for study in (MAPPINGS, LOW_END, OPTICAL))
    return [*_mappings(mappings), _low_end(low_end), _optical(optical)]


def _claim(study: str, text: str, source: str, ours: str, holds: object) -> Record:
    return {"study": study, "claim": text, "source": source, "ours": ours,
            "holds": None if holds is None else bool(holds)}  # fmt: skip


def _mappings(result: Result) -> Records:
    c = result.columns
    batches = np.unique(c["global_batch"])
    inside, split = c["nv_tp1"] == c["tp"], c["tp"] > 1
    best, worst, gaps = [], [], []
    for batch in batches:
        rows = np.flatnonzero(c["global_batch"] == batch)
        order = rows[np.argsort(c["tokens_per_s"][rows])]
        best.append(order[-1])
        worst.append(order[0])
        within = [i for i in rows if inside[i] and split[i]]
        gaps.append(1 - min(c["tokens_per_s"][i] for i in within) / max(c["tokens_per_s"][i] for i in within))
    slower = c["tokens_per_s"][best[-1]] / c["tokens_per_s"][worst[-1]]
    return [
        _claim(MAPPINGS, "TP within nodes is the fastest", "memory",
               f"tp {c['tp'][best[-1]]:.0f} within a node, at every batch", all(inside[i] and split[i] for i in best)),
        _claim(MAPPINGS, "TP between nodes is the slowest", "memory",
               f"{slower:.1f} times slower than the fastest", all(not inside[i] for i in worst)),
        _claim(MAPPINGS, "between nodes DP and PP are close once the batch is large", "memory",
               f"{100 * gaps[0]:.1f} % apart at batch {batches[0]:.0f}, {100 * gaps[-1]:.1f} % at {batches[-1]:.0f}",
               gaps[-1] < min(gaps[0], 0.05)),
    ]  # fmt: skip


def _low_end(result: Result) -> Record:
    """Compare DP alone with the best pipeline, with TP filling nodes of eight: many adapters, and one."""
    c = result.columns
    gains = {}
    for name in ("amped-a100", "amped-low-end-8"):
        rows = (c["hardware"] == name) & (c["tp"] == 8)
        alone = c["tokens_per_s"][rows & (c["pp"] == 1)][0]
        gains[name] = float(c["tokens_per_s"][rows & (c["pp"] > 1)].max() / alone - 1)
    high, low = gains.values()
    return _claim(LOW_END, "between nodes PP beats DP as a node's bandwidth falls", "memory",
                  f"PP against DP {100 * high:+.1f} % with eight adapters a node, {100 * low:+.1f} % with one",
                  high < 0 < low)  # fmt: skip


def _optical(result: Result) -> Record:
    c = result.columns
    names = list(dict.fromkeys(c["hardware"].tolist()))
    wires, light = (c["tokens_per_s"][c["hardware"] == name] for name in names)
    gain, best = light / wires, np.nanmax(light) / np.nanmax(wires)
    return _claim(OPTICAL, "optical links train large models up to 4 times faster", "abstract",
                  f"{np.nanmin(gain):.1f} to {np.nanmax(gain):.1f} times by mapping, {best:.1f} best against best, at "
                  "a bandwidth that is ours", None)  # fmt: skip
