"""What a machine-readable answer says of itself: what was asked, of which devices and model, by which cost model."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from comp_comm.fields import FIELDS
from comp_comm.formulas.arrays import unwarned
from comp_comm.hardware.profile import BASE_TIMING
from comp_comm.records import Record
from comp_comm.sweeps.plan import Plan
from comp_comm.version import __version__

SCHEMA = 1
LAYOUT_NUMBERS = tuple(name for name, field in FIELDS.items() if field.group == "layout" and field.kind == "int")
LISTED = 100  # an axis longer than this is summed up


def identity() -> Record:
    """Return what every meta block begins with."""
    return {"tool": "compcomm", "version": __version__, "schema": SCHEMA}


def meta(plan: Plan) -> Record:
    """Return what a machine-readable answer says of itself; the same study gives the same bytes."""
    study, grid = plan.study, plan.grid
    moving = grid.moving
    unused = () if grid.derives_tp else plan.model.for_required_tp  # a model brings them, nothing reads them
    stated = {name: grid.labels(name)[0] for name in grid.names if name not in moving and name not in unused}
    for name in plan.model.fields:
        default = plan.model.default(name)
        if name not in (*stated, *moving, *unused) and default is not None:
            stated[name] = default
    presets = {profile.name: profile.timing_name(None) for profile in grid.profiles}
    free = "timing" in plan.model.fields and "timing" not in stated and "timing" not in moving
    if free and len(set(presets.values())) == 1:
        stated["timing"] = next(iter(presets.values())) or BASE_TIMING
    devices = {profile.name: {"title": profile.title, "sha256": profile.sha256} for profile in grid.profiles}
    return {
        **identity(),
        "title": study.title,
        "cost_model": plan.model.name,
        "study_sha256": study.sha256(),
        "hardware": {} if study.hardware_assumed else devices,
        **({"hardware_assumed": devices} if study.hardware_assumed else {}),
        "model": study.model.name if study.model else None,
        **({"model_fields": _brought(plan)} if study.model else {}),
        "fixed": dict(sorted(stated.items())),
        "derived": _derived(plan),
        "axes": [{name: _axis(values) for name, values in axis.values.items()} for axis in grid.axes],
        "where": list(study.where),
        "units": {name: plan.output_columns[name].unit or "1" for name in plan.outputs},
        "points": grid.points,
    }


def _axis(values: Sequence[object]) -> object:
    """Return an axis as meta data: its values, or of a long one its ends and how many there are.

    >>> _axis((20, math.nan))
    [20, None]
    """
    if len(values) > LISTED:
        return {"first": values[0], "last": values[-1], "count": len(values)}
    # A number that a stack gives at some points of an axis alone is NaN at the others.
    return [None if isinstance(value, float) and math.isnan(value) else value for value in values]


def _brought(plan: Plan) -> Record:
    """Return what the study's model says of the fields the cost model knows."""
    fields = plan.study.model.fields if plan.study.model else {}
    return {name: value for name, value in fields.items() if name in plan.model.fields}


def _derived(plan: Plan) -> Record:
    """Return devices and batch where they are not given, but follow from what is fixed: they are the same in all rows.

    A column that moves with an axis, or has no number, is left out.
    """
    asked = [name for name in ("gpus", "global_batch") if name in plan.model.derived and name not in plan.grid.names]
    if not asked or set(plan.grid.moving) & set(LAYOUT_NUMBERS):
        return {}
    answer = plan.evaluate_alone(tuple(slice(0, 1) for _ in plan.grid.axes))
    with unwarned():
        numbers = {name: float(np.asarray(plan.model.derived[name](answer)).flat[0]) for name in asked}
    return {name: int(number) for name, number in numbers.items() if math.isfinite(number)}
