"""A search of the cost model `foundation_models`: every layout of its paper, put on domains in every way.

There are few of them (thousands, not millions), and a layer is timed once for many: all are timed, whether they fit or
not, and one process does it in a moment.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from comp_comm.configs.study import Study
from comp_comm.costmodels.foundation_columns import COLUMNS, DERIVED, GIB
from comp_comm.costmodels.foundation_models import FoundationStep
from comp_comm.costmodels.foundation_rules import profile_rules
from comp_comm.fields import FIELDS, Value
from comp_comm.formulas.arrays import Array
from comp_comm.hardware.numbers import Hardware
from comp_comm.search.foundation_search import Timed, every_layout, scenario_of
from comp_comm.search.foundation_space import Problem
from comp_comm.search.landscape import Landscape
from comp_comm.search.prices import FREE, Prices, costs
from comp_comm.sweep.plan import Plan, make_plan, notes
from comp_comm.sweep.result import identity
from comp_comm.words import STRATEGIES

FOUNDATION = "foundation_models"
TIMES = ("step", "tokens", "days", "gpu-hours")  # objectives: on so many devices they order layouts alike
PLACES = ("nv_tp1", "nv_tp2", "nv_dp", "nv_pp")
TABLE = ("tp1", "tp2", "pp", "dp", "micro_batch", "summa_panels", *PLACES)
LAYOUT = ("gpus", "strategy", "tp1", "tp2", "pp", "dp", "micro_batch", "accumulation", "summa_panels", *PLACES,
          "global_batch")  # fmt: skip
PARTS = {"compute": "compute_s", "HBM beyond compute": "memory_bound_s", "tensor-parallel communication": "tp_comm_s",
         "pipeline sends": "pp_comm_s", "data-parallel communication": "dp_comm_s",
         "pipeline bubble": "bubble_s"}  # fmt: skip
RESULTS = ("step_s", "tokens_per_s", "memory_gib", "exposed_comm_fraction", "bubble_fraction", *PARTS.values())
FLAT, NEAR_MISSES = (1, 2, 5, 10), 3
Record = dict[str, Any]


@dataclass(frozen=True)
class Every:
    """All layouts of every strategy that is tried, one strategy after the other."""

    parts: tuple[tuple[str, Timed], ...]
    seconds: Array
    memory_bytes: Array
    fits: NDArray[np.bool_]

    def point(self, number: int) -> dict[str, Value]:
        """Return the fields of one of them."""
        for strategy, timed in self.parts:
            if number < len(timed.seconds):
                found = timed.at(number)
                names = [name for name in TABLE if name != "summa_panels" or strategy == "2d"]
                return {"strategy": strategy, **{name: found[name] for name in names}}
            number -= len(timed.seconds)
        raise IndexError(number)


def search_foundation(study: Study, gpus: int, objective: str = "step", top: int = 10, prices: Prices = FREE) -> Record:
    """Return the best layouts of the paper as `comp_comm.search.search` does; no rows, but a ``reason``, if none fits.

    A field of the layout that the study fixes is pinned; one with a list takes only those values. Raises
    ``ConfigError`` with everything wrong with the study.

    Examples
    --------
    >>> from comp_comm.configs.study import load_study
    >>> best = search_foundation(load_study("papers/foundation-models-gpt3"), 512)["rows"][0]
    >>> [best[name] for name in ("tp1", "pp", "dp", "micro_batch")], round(best["step_s"], 3)
    ([4, 16, 8, 1], 22.469)
    """
    plan, only = _plan(study, gpus)
    hardware = plan.grid.scenario(())[0].hardware
    strategies = [str(word) for word in only.pop("strategy", ()) or (plan.grid.words("strategy")[0],)]
    every = _every(plan, hardware, gpus, strategies, only)
    best = np.argsort(np.where(every.fits, every.seconds, np.inf), kind="stable")[: min(top, int(every.fits.sum()))]
    rows = [_row(plan, gpus, every.point(int(i)), prices) for i in best]
    bar = every.seconds[best[0]] if rows else -np.inf
    faster = np.flatnonzero(~every.fits & (every.seconds < bar))
    misses = faster[np.argsort(every.seconds[faster], kind="stable")][:NEAR_MISSES]
    land = Landscape()
    land.add(every.seconds[every.fits], every.memory_bytes[every.fits])
    found = {
        "meta": _meta(study, plan, every, gpus, objective, land),
        "rows": rows,
        "near_misses": [_row(plan, gpus, every.point(int(i)), prices) for i in misses],
        "front": [{"score": float(score), "memory_gib": float(memory) / GIB}
                  for score, memory in zip(land.scores, land.memory, strict=True)],
        "reason": None if rows else _why_nothing(every, gpus, hardware),
    }  # fmt: skip
    return {**found, "best": _best(plan, gpus, every.point(int(best[0])))} if rows else found


def _plan(study: Study, gpus: int) -> tuple[Plan, dict[str, tuple[Value, ...]]]:
    """Return the plan of the study's model and hardware on one device, and the values of a layout's fields to try."""
    given = {name: tuple(values) for axis in study.axes for name, values in axis.values.items()}
    only = {name: given.get(name) or ((study.fixed[name],) if name in study.fixed else ())
            for name in ("strategy", *TABLE)}  # fmt: skip
    only = {name: values for name, values in only.items() if values}
    for name in sorted(set(given) - {"strategy", *TABLE}):
        study.problem(name, f"{name} is no part of a layout to search; give it one value")
    if "accumulation" in study.origins:
        study.problem("accumulation", "accumulation follows from the others in a search; pin dp or micro_batch instead")
    if "summa_panels" in only and "2d" not in only.get("strategy", ()):
        study.problem("summa_panels", "summa_panels is for strategy 2d")
    fixed = {name: value for name, value in study.fixed.items() if name not in TABLE}
    fixed |= {"gpus": 1, "dp": 1} | ({"strategy": only["strategy"][0]} if "strategy" in only else {})
    plan = make_plan(replace(study, axes=(), fixed=fixed))
    _check_profile(study, plan, gpus)
    return plan, only


def _check_profile(study: Study, plan: Plan, gpus: int) -> None:
    """Raise ``ConfigError`` where the network does not reach as far as so many devices."""
    problem = _problem(plan, gpus, STRATEGIES[0], {})
    hardware = plan.grid.scenario(())[0].hardware
    for rule in profile_rules(FoundationStep(scenario_of(problem, hardware, dp=gpus))):
        if rule.broken.any():
            study.problem(rule.fields[0], rule.reason)
    study.problems.raise_if_any()


def _problem(plan: Plan, gpus: int, strategy: str, only: dict[str, tuple[Value, ...]]) -> Problem:
    fixed, formulas = plan.grid.fixed, int(plan.grid.codes("formulas", ()))
    seq_len, hidden, heads, layers = (int(fixed[name]) for name in ("seq_len", "hidden", "heads", "layers"))
    wanted = tuple((name, tuple(int(value) for value in values)) for name, values in sorted(only.items())
                   if name != "summa_panels" or strategy == "2d")  # fmt: skip
    return Problem(STRATEGIES.index(strategy), seq_len, hidden, heads, layers, gpus, int(fixed["global_batch"]),
                   formulas, wanted)  # fmt: skip


def _every(plan: Plan, hardware: Hardware, gpus: int, strategies: list[str], only: dict[str, tuple[Value, ...]]
           ) -> Every:  # fmt: skip
    nvs = int(min(float(np.asarray(hardware.tiers[0].domain)), gpus))
    parts = [(name, every_layout(_problem(plan, gpus, name, only), hardware, nvs)) for name in strategies]
    seconds = np.concatenate([timed.seconds for _, timed in parts])
    memory = np.concatenate([timed.memory_bytes[timed.row] for _, timed in parts])
    return Every(tuple(parts), seconds, memory, memory <= float(np.asarray(hardware.memory_capacity)))


def _step(plan: Plan, gpus: int, point: dict[str, Value]) -> FoundationStep:
    """Return the step of one layout, alone: the evaluator of a single point."""
    grid = replace(plan.grid, fixed={**plan.grid.fixed, **point, "gpus": gpus})
    return cast(FoundationStep, replace(plan, grid=grid).evaluate(()))


def _row(plan: Plan, gpus: int, point: dict[str, Value], prices: Prices) -> Record:
    step = _step(plan, gpus, point)
    known = {**point, "global_batch": plan.grid.fixed["global_batch"],
             **{name: int(DERIVED[name](step)) for name in ("gpus", "accumulation", "summa_panels")}}  # fmt: skip
    row: Record = {name: known[name] for name in LAYOUT}
    run = float(np.asarray(step.scenario.tokens))
    names = (*RESULTS, *(() if np.isnan(run) else ("days", "gpu_hours")))
    row |= {name: float(COLUMNS[name].of(step)) for name in names}
    return row | costs(prices, row["step_s"], gpus, float(step.step_tokens), run)


def _best(plan: Plan, gpus: int, point: dict[str, Value]) -> Record:
    """Return the parts of the best layout's step and memory."""
    step = _step(plan, gpus, point)
    memory = {f"{name}_bytes": float(part) for name, part in step.memory._asdict().items()}
    memory |= {"total_bytes": float(step.memory_bytes),
               "capacity_bytes": float(np.asarray(step.scenario.hardware.memory_capacity))}  # fmt: skip
    parts = {said: float(COLUMNS[name].of(step)) for said, name in PARTS.items()}
    return {"step_s": float(step.step_s), "parts": parts, "memory": memory}


def _meta(study: Study, plan: Plan, every: Every, gpus: int, objective: str, land: Landscape) -> Record:
    fitting = every.seconds[every.fits]
    best = float(fitting.min()) if fitting.size else np.nan
    brought = {n: v for n, v in (study.model.fields if study.model else {}).items() if n in plan.model.fields}
    fixed = {name: value for name, value in study.fixed.items() if name in FIELDS and name in plan.model.fields}
    searched: dict[str, list[Value]] = {"strategy": [name for name, _ in every.parts]}
    for name in ("tp1", "tp2", "pp", "dp", "micro_batch"):
        searched[name] = sorted({int(n) for _, timed in every.parts for n in timed.layouts[name]})
    return {
        **identity(), "command": "search", "title": study.title, "cost_model": plan.model.name,
        "study_sha256": study.sha256(),
        "hardware": {profile.name: {"title": profile.title, "sha256": profile.sha256} for profile in study.profiles},
        "model": study.model.name if study.model else None, "model_fields": brought, "gpus": gpus,
        "objective": objective, "fixed": dict(sorted(fixed.items())), "searched": searched,
        "candidates": len(every.seconds), "feasible": int(every.fits.sum()),
        "within_percent": {str(percent): land.within(best, percent) for percent in FLAT},
        "dropped": {}, "notes": notes(plan), "interrupted": False,
    }  # fmt: skip


def _why_nothing(every: Every, gpus: int, hardware: Hardware) -> str:
    """Return why nothing fits, with the nearest miss and what would have to change."""
    if not len(every.seconds):
        return (f"no layout on {gpus:,} devices keeps every rule of the paper (groups divide the devices, the model "
                "and the batch; a domain is filled exactly unless 'formulas: corrected')")  # fmt: skip
    leanest = int(every.memory_bytes.argmin())
    needs, has = every.memory_bytes[leanest] / GIB, float(np.asarray(hardware.memory_capacity)) / GIB
    layout = ", ".join(f"{name} {value}" for name, value in every.point(leanest).items() if value != 1)
    return (f"none of {len(every.seconds):,} layouts on {gpus:,} devices fits: the nearest ({layout}) needs "
            f"{needs:.1f} GiB of {has:.1f}; it would take {needs / has:.2f} times the memory, or more "
            "devices")  # fmt: skip
