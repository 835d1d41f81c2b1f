"""A step of every trained model on its own machine: by the model `complete`, and by the paper's closed form."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np

from comp_comm.configs.hardware_file import load_profile
from comp_comm.configs.study import study_from
from comp_comm.errors import ConfigError
from comp_comm.field import Value
from comp_comm.formulas.arrays import Array, unwarned
from comp_comm.formulas.scaling import BASE_PARAMETERS, next_divisor, required_tp
from comp_comm.hardware.ratio import scale_out_key, scale_up_key
from comp_comm.sweeps.grid import BASE_MEMORY
from comp_comm.sweeps.result import sweep
from comp_comm.trends.tables import Models
from comp_comm.validation.predict import Point, batches, points_of, predict_points, table_of
from comp_comm.validation.readings import Silent
from comp_comm.validation.table import MeasuredRun
from comp_comm.violation import NO_ROOM

COLUMNS = (
    "step_s",
    "compute_s",
    "recompute_s",
    "serialized_comm_s",
    "hidden_comm_s",
    "exposed_comm_s",
    "visible_comm_fraction",
    "bubble_fraction",
    "mfu",
    "gpus",
    "dp",
    "accumulation",
    "parameters",
    *(f"{group}_{kind}_s" for group in ("tp", "cp", "pp", "dp", "ep") for kind in ("serialized", "exposed")),
)
LARGEST_TP = 256.0  # of the paper's Table 2


@dataclass(frozen=True)
class Steps:
    """Trained models whose step could be evaluated, and columns of it as arrays, one number a model.

    ``all_overlapped`` and ``none_overlapped`` are the visible shares if everything did that can, and if nothing did.
    """

    points: tuple[Point, ...]
    columns: Mapping[str, Array]
    all_overlapped: Array
    none_overlapped: Array
    left_out: Mapping[str, str]

    @property
    def models(self) -> Models:
        """The models, in the order of the columns."""
        return Models(tuple(point.run for point in self.points))

    def field(self, name: str, default: float = 1.0) -> Array:
        """Return a number of each model's study."""
        return np.asarray([float(point.fields.get(name) or default) for point in self.points])

    def since(self, year: float) -> Steps:
        """Return those of models published since then. Raises ``ConfigError`` where none is."""
        keep = np.flatnonzero(self.models.not_before(year))
        columns = {name: values[keep] for name, values in self.columns.items()}
        points = tuple(self.points[i] for i in keep.tolist())
        return Steps(points, columns, self.all_overlapped[keep], self.none_overlapped[keep], self.left_out)


@cache
def trained_steps() -> Steps:
    """Return the step of every model and recipe whose layout is known, and why there is none of the others.

    >>> steps = trained_steps()
    >>> len(steps.points), len(steps.left_out)
    (50, 62)
    >>> visible = steps.columns["visible_comm_fraction"]  # in between, as some of it overlapped
    >>> bool((steps.all_overlapped < visible).any()), bool((visible < steps.none_overlapped).any())
    (True, True)
    """
    listed = Models.read()
    known = listed.with_layout + Models.recipes()
    points, reasons = points_of(known.runs, Silent())
    points = sorted(points, key=lambda point: point.run["date"])
    stated = {run.run_id for run in known.runs}
    reasons |= {run.run_id: "no whole layout published" for run in listed.runs if run.run_id not in stated}
    values, broken = evaluate([*points, *overlapped(points, "on"), *overlapped(points, "off")])
    reasons |= {point.run.run_id: why for point, why in zip(points, broken, strict=False) if why}
    keep = [i for i, point in enumerate(points) if point.run.run_id not in reasons]
    as_run, on, off = np.split(values, 3, axis=1)
    place = COLUMNS.index("visible_comm_fraction")
    return Steps(tuple(points[i] for i in keep), dict(zip(COLUMNS, as_run[:, keep], strict=True)), on[place, keep],
                 off[place, keep], MappingProxyType(reasons))  # fmt: skip


def evaluate(points: Sequence[Point]) -> tuple[Array, list[str]]:
    """Return `COLUMNS` of the step of every point (an array of them by points), and why a point has none.

    Memory is no reason: what was trained did fit, whatever a count of it says.
    """
    values, reasons = np.full((len(COLUMNS), len(points)), np.nan), [""] * len(points)
    for members in batches(points):
        places = np.asarray([place for place, _ in members])
        try:
            plan, rows = table_of([point for _, point in members])
        except ConfigError as error:
            for place in places.tolist():
                reasons[place] = str(error)
            continue
        answer = plan.evaluate_alone((slice(None),))
        for rule in answer.violations:
            broken = np.broadcast_to(rule.broken, (plan.grid.points,))[rows] & (rule.reason != NO_ROOM)
            for place in places[broken].tolist():
                reasons[place] = rule.reason
        made: dict[str, Callable[[Any], Array]] = {name: column.of for name, column in plan.model.columns.items()}
        made |= plan.model.derived
        with unwarned():
            for number, name in enumerate(COLUMNS):
                values[number, places] = np.broadcast_to(made[name](answer), (plan.grid.points,))[rows]
    return values, reasons


def overlapped(points: Sequence[Point], word: str) -> list[Point]:
    """Return points with everything overlapped that may be (``"on"``), or nothing (``"off"``)."""
    return [replace(point, fields={**point.fields, **_overlap_fields(point.fields, word)}) for point in points]


def _overlap_fields(fields: Mapping[str, Value], word: str) -> dict[str, Value]:
    wanted = {"overlap_dp": True, "overlap_tp": int(fields.get("tp", 1)) > 1,
              "overlap_pp": int(fields.get("pp", 1)) > 1 and int(fields.get("vpp", 1)) > 1,
              "overlap_ep": int(fields.get("ep", 1)) > 1}  # fmt: skip
    return {name: word for name, has in wanted.items() if has}


@dataclass(frozen=True)
class MachineNumbers:
    """Numbers of the machines of models, as the paper's algebra needs them: arrays, one number a model."""

    peak: Array
    scale_up: Array
    scale_out: Array
    memory: Array

    @classmethod
    def of(cls, points: Sequence[Point]) -> MachineNumbers:
        """Return those of points, in the precision that each trained in."""
        profiles = [point.machine.profile() for point in points]
        peaks = [profile.value(f"peak.{point.fields.get('precision', 'bf16')}")
                 for profile, point in zip(profiles, points, strict=True)]  # fmt: skip
        keys = (scale_up_key, scale_out_key, lambda profile: "memory.capacity")
        rest = [[profile.value(key(profile)) for profile in profiles] for key in keys]
        return cls(*(np.asarray(numbers, np.float64) for numbers in (peaks, *rest)))

    @property
    def flop_vs_bw(self) -> Array:
        """The paper's k: FLOP per byte of scale-up bandwidth over those of its MI210."""
        today = load_profile("mi210")
        return self.peak / self.scale_up / (today.value("peak.fp16") / today.value(scale_up_key(today)))


def eq10_tp(parameters: Array, memory: Array) -> Array:
    """Return the TP that Eq 10 asks for, not rounded.

    >>> round(float(eq10_tp(np.asarray(530e9), np.asarray(80 * 2.0**30))))
    435
    """
    return required_tp(parameters, memory / BASE_MEMORY, base_parameters=BASE_PARAMETERS)


def paper_share(hidden: Array, seq_len: Array, tp: Array, flop_vs_bw: Array) -> Array:
    """Return the serialized share of the paper's model on its MI210 scaled by each machine's flop-vs-bw.

    ``tp`` is rounded up to a divisor of H, as Eq 10 needs; where it is 1 nothing is communicated.

    >>> paper_share(np.asarray([65536.0]), np.asarray([4096.0]), np.asarray([256.0]), np.asarray([1.0])).round(3)
    array([0.478])
    """
    degree = next_divisor(hidden, np.clip(tp, 1, LARGEST_TP))
    columns = {"hidden": hidden, "seq_len": seq_len, "tp": degree, "flop_vs_bw": flop_vs_bw}
    distinct, place = np.unique(np.stack(list(columns.values()), 1), axis=0, return_inverse=True)
    rows = [dict(zip(columns, map(_plain, row), strict=True)) for row in distinct.tolist()]
    study = study_from({"cost_model": "comp_vs_comm", "hardware": "mi210", "set": {"micro_batch": 1}, "zip": rows})
    share = "serialized_comm_fraction"
    return np.asarray(sweep(study, columns=[share]).columns[share])[place.reshape(-1)]


def _plain(number: float) -> float | int:
    return int(number) if number == int(number) else number


def measured_errors(points: Sequence[Point]) -> list[tuple[MeasuredRun, float, float]]:
    """Return runs whose step was measured, with measured and predicted seconds."""
    return [(one.run, one.measured_s, one.predicted_s) for one in predict_points(points)
            if one.measured_s is not None and one.predicted_s is not None and one.counted]  # fmt: skip


__all__ = ["COLUMNS", "MachineNumbers", "Steps", "eq10_tp", "evaluate", "measured_errors", "overlapped", "paper_share",
           "trained_steps"]  # fmt: skip
