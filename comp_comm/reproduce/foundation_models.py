"""The 360 best layouts that the foundation-models paper's code published, found again by searching all of them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from comp_comm.configs.hardware_file import load_profile
from comp_comm.configs.overrides import read_settings
from comp_comm.configs.study import Study, study_from
from comp_comm.errors import ConfigError, one_of
from comp_comm.fields import FIELDS, Value
from comp_comm.hardware.profile import Profile
from comp_comm.records import Record, Records
from comp_comm.reproduce.published import read_table, relative_error
from comp_comm.searches.answer_rows import steps_at
from comp_comm.searches.build_space import joint_space
from comp_comm.searches.groups import GroupResults
from comp_comm.searches.objectives import OBJECTIVES, Aim
from comp_comm.searches.run import run_search
from comp_comm.searches.space import SearchSpace
from comp_comm.sweeps.meta import identity

TITLE = "Best layouts of the foundation-models paper (arXiv:2410.00273): ours beside the published ones"
SOURCE = "the configurations stored with the code published with arXiv:2410.00273 (2024-10-02)"
TABLE = "foundation-models.csv"
# Sequence length, hidden size, heads, layers of the paper's models.
MODELS = {"gpt3_1T": (2048, 25600, 160, 128), "vit_era5": (64800, 12288, 64, 48)}
SYSTEMS = {"A100": "foundation-models-a100", "H200": "foundation-models-h200", "B200": "foundation-models-b200"}
FACTORS = ("flop_vs_bw", "flops", "network", "memory_bandwidth", "memory_capacity", "latency")
SETTABLE = (*FACTORS, "formulas", "global_batch")
CELL = ("strategy", "model", "gpu", "nvs", "n_gpus")  # what a cell of the table is, in its order
LAYOUT = {"dp": "dp", "tp1": "tp1", "tp2": "tp2", "pp": "pp", "mbs": "micro_batch", "summa_nb": "summa_panels",
          "nv_tp1": "nv_tp1", "nv_tp2": "nv_tp2", "nv_dp": "nv_dp", "nv_pp": "nv_pp"}  # fmt: skip
GROUPED = ("hardware", "nvs", "gpus", "global_batch")
TOLERANCE = 1e-9
GB = 1e9


@dataclass(frozen=True)
class BestOfCell:
    """The best layout of a cell, None where none fits, with its seconds and bytes; and how many layouts there are."""

    layout: Mapping[str, Value] | None
    step_s: float | None
    memory_bytes: float | None
    candidates: int
    feasible: int


def reproduce(overrides: Sequence[str] = (), only: Mapping[str, Sequence[str]] | None = None, timed: bool = False
              ) -> tuple[Records, Record]:  # fmt: skip
    """Return ours beside the published best layout of every cell, and what they were made with.

    Parameters
    ----------
    overrides : sequence of str
        ``"key=value"``: factors on the hardware, ``formulas``, ``global_batch``. With any of them the published values
        are no longer of the same machine, model or formulas.
    only : mapping of str to sequence of str
        Values of `CELL` names to keep cells of; all if empty.
    timed : bool
        Put the seconds it took into the meta data.

    Returns
    -------
    tuple
        Rows and meta data. ``ours_`` values and the layout are None where nothing fits.

    Examples
    --------
    >>> rows, meta = reproduce(only={"strategy": ["1d"], "gpu": ["A100"], "nvs": ["8"], "n_gpus": ["4096"]})
    >>> round(rows[0]["ours_iter_time_s"], 3), rows[0]["tp1"], rows[0]["pp"], meta["candidates"]
    (62.969, 8, 32, 2544)
    """
    given = read_settings(overrides, SETTABLE)
    cells = _cells(only or {})
    profiles = {gpu: load_profile(f"papers/hardware/{name}") for gpu, name in SYSTEMS.items()}
    start = time.perf_counter()
    best = _search(cells, given)
    seconds = time.perf_counter() - start
    rows = [_row(cell, result) for cell, result in zip(cells, best, strict=True)]
    meta = _meta(rows, best, profiles, given)
    if timed:
        meta |= {"seconds": seconds, "candidates_per_s": meta["candidates"] / seconds}
    return rows, meta


def _cells(only: Mapping[str, Sequence[str]]) -> list[dict[str, str]]:
    """Return the published cells wanted."""
    cells = read_table(TABLE)
    for name, values in only.items():
        known = list(dict.fromkeys(cell[name] for cell in read_table(TABLE)))
        wrong = [value for value in values if value not in known]
        if wrong:
            raise ConfigError(f"--{name.replace('_', '-')} {wrong[0]}: no such cell ({one_of(known)})")
        cells = [cell for cell in cells if cell[name] in values] if values else cells
    if not cells:
        raise ConfigError("no published cell is all of these: the table has no layout there that fits")
    return cells


def _search(cells: list[dict[str, str]], given: Mapping[str, Value]) -> list[BestOfCell]:
    """Return the best layout of each cell: a search for each strategy and model, of all their devices and domains."""
    best: dict[tuple[str, ...], BestOfCell] = {}
    for strategy, model in dict.fromkeys((cell["strategy"], cell["model"]) for cell in cells):
        mine = [cell for cell in cells if (cell["strategy"], cell["model"]) == (strategy, model)]
        best |= {_key(cell): one for cell, one in zip(mine, _joint(mine, given), strict=True)}
    return [best[_key(cell)] for cell in cells]


def _key(cell: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(cell[name] for name in CELL)


def _joint(cells: list[dict[str, str]], given: Mapping[str, Value]) -> list[BestOfCell]:
    """Return the best layout of each cell of a strategy and model."""
    study = _study(
        cells[0], [f"papers/hardware/{SYSTEMS[gpu]}" for gpu in dict.fromkeys(c["gpu"] for c in cells)], given
    )
    cases = [_case(cell, given) for cell in cells]
    space = joint_space(study, [dict(case) for case in dict.fromkeys(tuple(case.items()) for case in cases)])
    space = space.grouped(GROUPED)
    state = run_search(space, Aim(OBJECTIVES["step"]), 1, near_misses=0)
    if space.grouping is None or state.groups is None:  # nothing divides the devices anywhere
        return [BestOfCell(None, None, None, 0, 0)] * len(cells)
    known = {values: number for number, values in enumerate(space.grouping.values)}
    numbers = [known.get((SYSTEMS[cell["gpu"]], *(case[name] for name in GROUPED[1:]))) for cell, case in
               zip(cells, cases, strict=True)]  # fmt: skip
    return _best_of_cells(space, state.groups, numbers)


def _best_of_cells(space: SearchSpace, groups: GroupResults, numbers: Sequence[int | None]) -> list[BestOfCell]:
    """Return the best layouts of groups by their numbers: none where there are no layouts."""
    points = {number: space.point(place) for number in numbers
              if number is not None and (place := groups.places[number]) is not None}  # fmt: skip
    at = {number: i for i, number in enumerate(points)}
    step = steps_at(space, list(points.values())) if points else None
    cells = []
    for number in numbers:
        counts = (0, 0) if number is None else (int(groups.candidates[number]), int(groups.feasible[number]))
        if step is None or number not in at:
            cells.append(BestOfCell(None, None, None, *counts))
            continue
        seconds, memory = (float(np.broadcast_to(of, len(at))[at[number]]) for of in (step.step_s, step.memory_bytes))
        cells.append(BestOfCell(points[number], seconds, memory, *counts))
    return cells


def _case(cell: Mapping[str, str], given: Mapping[str, Value]) -> dict[str, Value]:
    """Return what moves from cell to cell."""
    batch = given.get("global_batch", int(cell["global_batch"]))
    return {"nvs": int(cell["nvs"]), "gpus": int(cell["n_gpus"]), "global_batch": batch}


def _study(cell: Mapping[str, str], systems: Sequence[str], given: Mapping[str, Value]) -> Study:
    model = dict(zip(("seq_len", "hidden", "heads", "layers"), MODELS[cell["model"]], strict=True))
    return study_from({
        "title": TITLE, "cost_model": "foundation_models", "hardware": list(systems),
        "set": {**model, "strategy": cell["strategy"], "global_batch": 1, **given},
    })  # fmt: skip


def _row(cell: dict[str, str], best: BestOfCell) -> Record:
    published_s, published_gb = float(cell["iter_time_s"]), float(cell["mem_gb"])
    ours_gb = None if best.memory_bytes is None else best.memory_bytes / GB
    layout = {name: best.layout[ours] if best.layout else None for name, ours in LAYOUT.items()}
    same = best.layout is not None and all(layout[name] == int(cell[name] or 1) for name in LAYOUT)
    return {
        "strategy": cell["strategy"], "model": cell["model"], "gpu": cell["gpu"], "nvs": int(cell["nvs"]),
        "n_gpus": int(cell["n_gpus"]), "published_iter_time_s": published_s, "ours_iter_time_s": best.step_s,
        "published_mem_gb": published_gb, "ours_mem_gb": ours_gb, **layout, "same_layout": same,
        "iter_time_error": relative_error(best.step_s, published_s), "mem_error": relative_error(ours_gb, published_gb),
        "candidates": best.candidates, "feasible": best.feasible,
    }  # fmt: skip


def missed(row: Record, tolerance: float) -> bool:
    """Return whether a cell is not the published one: time or memory further off than ``tolerance``, another layout."""
    errors = (row["iter_time_error"], row["mem_error"])
    return not row["same_layout"] or any(error is None or abs(error) > tolerance for error in errors)


def _meta(rows: Records, cells: list[BestOfCell], profiles: Mapping[str, Profile], given: Mapping[str, Value]
          ) -> Record:  # fmt: skip
    conventions = {name: given.get(name, FIELDS[name].default) for name in SETTABLE if name != "global_batch"}
    largest = {name: max((abs(row[name]) for row in rows if row[name] is not None), default=None)
               for name in ("iter_time_error", "mem_error")}  # fmt: skip
    return {
        **identity(), "command": "reproduce foundation-models", "title": TITLE, "source": SOURCE,
        "cost_model": "foundation_models", "conventions": conventions, "given": dict(given), "points": len(rows),
        "hardware": {gpu: {"title": p.title, "sha256": p.sha256} for gpu, p in profiles.items()},
        "same_layout": sum(row["same_layout"] for row in rows), "largest_iter_time_error": largest["iter_time_error"],
        "largest_mem_error": largest["mem_error"], "candidates": sum(one.candidates for one in cells),
        "feasible": sum(one.feasible for one in cells),
    }  # fmt: skip


def summary(rows: Sequence[Record]) -> Records:
    """Return the cells summed up by strategy, model and GPU."""
    lines = []
    names = ("strategy", "model", "gpu")
    for key in dict.fromkeys(tuple(row[name] for name in names) for row in rows):
        part = [row for row in rows if tuple(row[name] for name in names) == key]
        errors = {name: [abs(row[name]) for row in part if row[name] is not None]
                  for name in ("iter_time_error", "mem_error")}  # fmt: skip
        lines.append({
            **dict(zip(names, key, strict=True)), "cells": len(part),
            "same_layout": sum(r["same_layout"] for r in part),
            **{f"largest_{name}": max(values, default=None) for name, values in errors.items()},
            "candidates": sum(r["candidates"] for r in part), "feasible": sum(r["feasible"] for r in part),
        })  # fmt: skip
    return lines
