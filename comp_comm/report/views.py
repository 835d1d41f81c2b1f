"""Which axes go where: a study's ``table`` and ``plot`` blocks, completed and checked against its columns."""

from __future__ import annotations

from collections.abc import Sequence

from comp_comm.errors import nearest, one_of
from comp_comm.fields import FIELDS, unknown_field
from comp_comm.records import Record, Records
from comp_comm.sweeps.plan import Plan

View = Record
PLOT_KINDS = ("lines", "heatmap")


def table_view(plan: Plan) -> View | None:
    """Return the pivot to show, None where there is no axis to put across.

    Axes that the study's table does not place become further blocks (``per``), so that no cell stands for two rows.
    """
    view = plan.study.table
    moving = plan.grid.moving
    across = _name(plan, "table", "columns", view.get("columns", _tensor_parallel(plan)), moving)
    value = _name(plan, "table", "value", view.get("value", plan.model.headline), tuple(plan.output_columns))
    down = _names(plan, "table", "rows", view.get("rows"), plan.inputs)
    per = _names(plan, "table", "per", view.get("per"), plan.inputs)
    plan.study.problems.raise_if_any()
    if across not in moving:
        return None
    if "rows" not in view:
        per = per or [name for name in ("flop_vs_bw",) if name in moving and name != across]
        down = [name for name in plan.inputs if name in moving and name not in (*per, across)]
    per = [name for name in per if name in moving]
    placed = {across, *down, *per}
    per += [name for axis in plan.grid.axes for name in axis.values if not placed & set(axis.values)]
    return {"value": value, "columns": across, "rows": [n for n in down if n != across], "per": per}


def _tensor_parallel(plan: Plan) -> str:
    """Return what the cost model calls the tensor-parallel degree."""
    return next(name for name in ("tp", "tp1") if name in plan.model.fields)


def plot_view(plan: Plan) -> View:
    """Return the plot to draw: as the study says, else lines over tp (or the longest axis), one a model."""
    view = plan.study.plot
    moving = plan.grid.moving
    kind = view.get("kind", "lines")
    if kind not in PLOT_KINDS:
        plan.study.problem_at(("plot", "kind"), one_of(PLOT_KINDS))
        kind = "lines"
    for other in {"value"} & set(view) if kind == "lines" else {"lines"} & set(view):
        plan.study.problem_at(("plot", other), f"does not go with 'kind: {kind}'")
    longest = max(plan.grid.axes, key=len, default=None)
    degree = _tensor_parallel(plan)
    default_x = degree if degree in moving or longest is None else next(iter(longest.values))
    x = _name(plan, "plot", "x", view.get("x", default_x), moving or plan.inputs)
    allowed_y = tuple(plan.output_columns) if kind == "lines" else moving
    y = _name(plan, "plot", "y", view.get("y", plan.model.headline if kind == "lines" else None), allowed_y)
    value = _name(plan, "plot", "value", view.get("value", plan.model.headline), tuple(plan.output_columns))
    lines = _names(plan, "plot", "lines", view.get("lines"), plan.inputs)
    per = [name for name in _names(plan, "plot", "per", view.get("per"), plan.inputs) if name in moving]
    _only(plan)
    plan.study.problems.raise_if_any()
    if "per" not in view and kind == "lines":
        per = [name for name in ("flop_vs_bw",) if name in moving and name not in (x, *lines)]
    if "lines" not in view:
        lines = [name for name in plan.inputs if name in moving and name not in (x, *per)]
    if kind == "lines":
        return {"kind": kind, "x": x, "y": y, "lines": lines, "per": per}
    return {"kind": kind, "x": x, "y": y, "value": value, "per": per}


def plotted_rows(plan: Plan, rows: Sequence[Record]) -> Records:
    """Return the rows a plot shows: those that match a point of the study's ``plot: only``, or all of them."""
    points = _only(plan)
    if not points:
        return list(rows)
    return [row for row in rows if any(all(row.get(n) == v for n, v in point.items()) for point in points)]


def _only(plan: Plan) -> Records:
    given = plan.study.plot.get("only", [])
    empty = "only" in plan.study.plot and not given
    if empty or not isinstance(given, list) or not all(isinstance(point, dict) for point in given):
        plan.study.problem_at(("plot", "only"), "must be a list of points, each a mapping of fields to values")
        return []
    points = []
    for index, point in enumerate(given):
        parsed = {}
        for name, raw in point.items():
            try:
                if name not in FIELDS:
                    raise ValueError(unknown_field(name))
                parsed[name] = FIELDS[name].parse(raw)
            except ValueError as error:
                plan.study.problem_at(("plot", "only", index, name), str(error))
        points.append(parsed)
    return points


def _name(plan: Plan, block: str, key: str, name: object, allowed: Sequence[str]) -> str:
    known = name in allowed or (key == "columns" and name in plan.inputs)
    if not isinstance(name, str) or not known:
        shown = "a name is missing" if name is None else f"'{name}' cannot be shown here"
        hint = nearest(name, allowed) if isinstance(name, str) else ""
        plan.study.problem_at((block, key), f"{shown}{hint} ({one_of(allowed)})")
        return allowed[0] if allowed else ""
    return name


def _names(plan: Plan, block: str, key: str, given: object, allowed: Sequence[str]) -> list[str]:
    if given is None:
        return []
    items = given if isinstance(given, list) else [given]
    return [_name(plan, block, key, item, allowed) for item in items]
