"""A search for people to read: the best layouts, how flat the top is, what nearly was, and the best one's parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO

from comp_comm.records import Record
from comp_comm.report import machine, table
from comp_comm.report.explain_table import write_memory
from comp_comm.searches.design import FACTORS, WORK

PAPER = ("nv_tp1", "nv_tp2", "nv_dp", "nv_pp", "summa_panels")
SHOWN = ("strategy", "tp", "tp1", "tp2", "cp", "pp", "vpp", "ep", "ep_dispatch", "dp", "micro_batch", "zero", "sp",
         "recompute", "placement", *PAPER, "step_s", "mfu", "memory_gib", "visible_comm_fraction")  # fmt: skip
SIDE = ("hardware", "gpus", *WORK, *FACTORS, "strategy", "tp", "tp1", "tp2", "cp", "pp", "vpp", "ep", "ep_dispatch",
        "dp", "micro_batch", "zero", "recompute", *PAPER, "step_s", "mfu", "memory_gib", "visible_comm_fraction",
        "speedup", "efficiency")  # fmt: skip


def write_answer(out: IO[str], answer: Record, form: str, several: bool) -> None:
    """Write a search in any format; ``several`` says that it is the best of several, side by side."""
    if form == "json":
        machine.write_record(out, answer)
    elif form in machine.WRITERS:
        machine.write_rows(out, answer["rows"], form)
    else:
        write_search(out, answer, form, SIDE if several else SHOWN)


def write_search(out: IO[str], answer: Record, style: str, columns: Sequence[str]) -> None:
    """Write what was found: one search with the parts of its best layout, or the best of several side by side."""
    meta, rows = answer["meta"], answer["rows"]
    moves = {name for axis in meta.get("axes", ()) for name in axis}
    fixed = meta["fixed"] if "gpus" in moves else {**meta["fixed"], "gpus": meta["gpus"]}
    table.write_heading(out, {**meta, "fixed": fixed}, {}, style)
    if "searches" not in meta:
        table.write_line(out, _counts(meta), style)
    out.write("\n")
    given = [name for name in columns if name in rows[0] and _tells(name, moves, "searches" in meta)]
    moving = [name for name in given if any(row[name] not in (None, _DULL.get(name)) for row in rows)]
    costs = [name for name in rows[0] if name.startswith(("cost", "energy", "days", "gpu_hours"))]
    table.write_records(out, rows, [*moving, *costs], style)
    if "searches" in meta:
        return
    if answer["near_misses"]:
        _title(out, "Faster, but they do not fit", style)
        table.write_records(out, answer["near_misses"], moving, style)
    best = answer["best"]
    _title(out, "The best one's step", style)
    parts = [{"step": name, "seconds": f"{each:.4g}", "share (%)": f"{100 * each / best['step_s']:.1f}"}
             for name, each in best["parts"].items()]  # fmt: skip
    table.write_records(out, parts, list(parts[0]), style)
    write_memory(out, best["memory"], style)


def _tells(name: str, moves: set[str], several: bool) -> bool:
    """Return whether a column of searches side by side can tell them apart."""
    if several and name in (*FACTORS, *WORK, "hardware", "gpus"):
        return name in moves
    return name != "efficiency" or "gpus" in moves


# Columns that say nothing where every row has this value.
_DULL: Record = {"strategy": "1d", "cp": 1, "ep": 1, "vpp": 1, "pp": 1, "tp2": 1, "nv_tp2": 1, "summa_panels": 1,
                 "placement": "tp-cp-dp-pp"}  # fmt: skip


def _counts(meta: Record) -> str:
    close = ", ".join(f"{count:,} within {percent} %" for percent, count in meta["within_percent"].items())
    return (f"{meta['candidates']:,} layouts keep every rule, {meta['feasible']:,} of them fit; best by "
            f"{meta['objective']}; of those that fit, {close} of the best")  # fmt: skip


def _title(out: IO[str], text: str, style: str) -> None:
    out.write(f"\n### {text}\n\n" if style == "markdown" else f"\n{text}\n\n")
