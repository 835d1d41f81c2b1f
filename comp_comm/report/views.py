"""Which axes go where: a study's ``table`` and ``plot`` blocks, completed and checked against its columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from comp_comm.errors import nearest, one_of
from comp_comm.fields import FIELDS
from comp_comm.records import Record, Records
from comp_comm.sweeps.grid import HARDWARE
from comp_comm.sweeps.plan import Plan

View = Record
PLOT_KINDS = ("lines", "heatmap")
MOST_VALUES = 8  # that are told of an axis


def table_view(plan: Plan) -> View | None:
    """Return the pivot to show, None where there is no axis to put across.

    Axes that the study's table does not place become further blocks (``per``), so that no cell stands for two rows.
    Raises ``ConfigError`` for what the study's table says wrongly.
    """
    view = plan.study.table
    moving = plan.grid.moving
    across = _name(plan, "table", "columns", view.get("columns", _tensor_parallel(plan)), _fields(plan))
    value = _name(plan, "table", "value", view.get("value", plan.model.headline), tuple(plan.output_columns))
    down = _names(plan, "table", "rows", view.get("rows"))
    per = _names(plan, "table", "per", view.get("per"))
    said = {"columns": [across] if "columns" in view else [], "rows": down, "per": per}
    _refuse_twice(plan, "table", said)
    plan.study.problems.raise_if_any()
    if across not in moving:
        return None
    if "rows" not in view:
        per = per or [name for name in ("flop_vs_bw",) if name in moving and name != across]
        down = [name for name in plan.inputs if name in moving and name not in (*per, across)]
    per, down = ([name for name in names if name in able] for names, able in ((per, moving), (down, plan.inputs)))
    placed = {across, *down, *per}
    per += [name for axis in plan.grid.axes for name in axis.values if not placed & set(axis.values)]
    return {"value": value, "columns": across, "rows": [n for n in down if n != across], "per": per}


def table_notes(plan: Plan) -> list[str]:
    """Return what to say where a study's table cannot be shown as it says."""
    across = plan.study.table.get("columns")
    if across is None or across in plan.grid.moving:
        return []
    return [f"the study's table puts {across} across, which has one value here: it is a row a point instead"]


def _tensor_parallel(plan: Plan) -> str:
    """Return what the cost model calls the tensor-parallel degree."""
    return next(name for name in ("tp", "tp1") if name in plan.model.fields)


def _fields(plan: Plan) -> tuple[str, ...]:
    """Return the fields of rows, and those that have a value which rows do not show."""
    return tuple(dict.fromkeys((*plan.inputs, *plan.grid.names)))


def check_plot_block(plan: Plan) -> None:
    """Raise ``ConfigError`` for what a study's plot says wrongly, though nothing is drawn.

    What it names may have one value here, given by a flag: only what is drawn has to move.
    """
    if plan.study.plot:
        _plot_names(plan, _fields(plan))
        plan.study.problems.raise_if_any()


def plot_view(plan: Plan) -> View:
    """Return the plot to draw: as the study says, else lines over tp (or the longest axis), one a model.

    Raises ``ConfigError`` for what the study's plot says wrongly, and where axes move that it does not place.
    """
    view, moving = plan.study.plot, plan.grid.moving
    placed = _plot_names(plan, moving or plan.inputs)
    plan.study.problems.raise_if_any()
    x, lines, per = placed["x"], placed["lines"], [name for name in placed["per"] if name in moving]
    if "per" not in view and placed["kind"] == "lines":
        per = [name for name in ("flop_vs_bw",) if name in moving and name not in (x, *lines)]
    if "lines" not in view:
        lines = [name for name in plan.inputs if name in moving and name not in (x, *per)]
    across = lines if placed["kind"] == "lines" else [placed["y"]]
    left = [name for axis in plan.grid.axes for name in axis.values if not {x, *across, *per} & set(axis.values)]
    if left and view and "only" not in view:
        key = "lines" if placed["kind"] == "lines" and "lines" in view else "per"
        where = ("plot", key) if key in view else ("plot",)
        plan.study.problem_at(where, f"does not say where {', '.join(left)} of the rows goes: put "
                              f"{'them' if len(left) > 1 else 'it'} under 'per', or pick points by 'only'")  # fmt: skip
        plan.study.problems.raise_if_any()
    if placed["kind"] == "lines":
        return {"kind": "lines", "x": x, "y": placed["y"], "lines": lines, "per": per}
    return {"kind": "heatmap", "x": x, "y": placed["y"], "value": placed["value"], "per": per}


def _plot_names(plan: Plan, able: Sequence[str]) -> View:
    """Return what a study's plot names, with defaults; its x, and the y of a heat map, are of those ``able``.

    What is wrong is noted among the study's problems.
    """
    view = plan.study.plot
    kind = view.get("kind", "lines")
    if not isinstance(kind, str) or kind not in PLOT_KINDS:
        guess = nearest(kind, PLOT_KINDS) if isinstance(kind, str) else ""
        plan.study.problem_at(("plot", "kind"), f"{_shown(kind)} is no kind of plot{guess} ({one_of(PLOT_KINDS)})")
        kind = "lines"
    for other in {"value"} & set(view) if kind == "lines" else {"lines"} & set(view):
        plan.study.problem_at(("plot", other), f"does not go with 'kind: {kind}'")
    longest = max(plan.grid.axes, key=len, default=None)
    degree = _tensor_parallel(plan)
    default_x = degree if degree in plan.grid.moving or longest is None else next(iter(longest.values))
    outputs = tuple(plan.output_columns)
    x = _name(plan, "plot", "x", view.get("x", default_x), able)
    default_y = plan.model.headline if kind == "lines" else None
    y = _name(plan, "plot", "y", view.get("y", default_y), outputs if kind == "lines" else able)
    value = _name(plan, "plot", "value", view.get("value", plan.model.headline), outputs)
    lines, per = (_names(plan, "plot", key, view.get(key)) for key in ("lines", "per"))
    y_of_map = [y] if kind == "heatmap" and "y" in view else []
    said = {"x": [x] if "x" in view else [], "y": y_of_map, "lines": lines, "per": per}
    _refuse_twice(plan, "plot", said)
    _only(plan)
    return {"kind": kind, "x": x, "y": y, "value": value, "lines": lines, "per": per}


def plotted_rows(plan: Plan, rows: Sequence[Record]) -> Records:
    """Return the rows a plot shows: those that match a point of the study's ``plot: only``, or all of them."""
    points = _only(plan)
    if not points:
        return list(rows)
    return [row for row in rows if any(all(row.get(n, v) == v for n, v in point.items()) for point in points)]


def _only(plan: Plan) -> Records:
    given = plan.study.plot.get("only", [])
    empty = "only" in plan.study.plot and not given
    if empty or not isinstance(given, list) or not all(isinstance(point, dict) and point for point in given):
        plan.study.problem_at(("plot", "only"), "must be a list of points, each a mapping of fields to values")
        return []
    points = []
    for index, point in enumerate(given):
        parsed = {}
        for name, raw in point.items():
            try:
                parsed[name] = _value_of(plan, name, raw)
            except ValueError as error:
                plan.study.problem_at(("plot", "only", index, name), str(error))
        points.append(parsed)
    return points


def _value_of(plan: Plan, name: str, raw: object) -> object:
    """Return a value of a column that rows may have. Raises ``ValueError`` where it is none, or no row has it."""
    if name not in _fields(plan):
        raise ValueError(f"is no field of the rows{nearest(str(name), _fields(plan))} ({one_of(plan.inputs)})")
    value = raw if name == HARDWARE else FIELDS[name].parse(raw)
    axis = plan.grid.axis_of(name)
    has = (
        list(plan.grid.axes[axis].values[name])
        if axis is not None
        else [plan.grid.profiles[0].name if name == HARDWARE else plan.grid.fixed.get(name, plan.model.default(name))]
    )
    origin = plan.study.origins.get(name)
    own = origin is None or origin[0] is plan.study.document  # and no flag's, in the place of what the study says
    if value not in has and own and has != [None]:
        raise ValueError(f"no row has {_shown(value)}; they have {', '.join(map(str, has[:MOST_VALUES]))}"
                         f"{', ...' if len(has) > MOST_VALUES else ''}")  # fmt: skip
    return value


def _refuse_twice(plan: Plan, block: str, said: Mapping[str, Sequence[str]]) -> None:
    """Note names that stand in two places, or twice in one."""
    first: dict[str, str] = {}
    for key, names in said.items():
        for name in filter(None, names):
            if name in first:
                also = " twice" if first[name] == key else f", which stands under '{first[name]}' already"
                plan.study.problem_at((block, key), f"names {name}{also}")
            first.setdefault(name, key)


def _shown(value: object) -> str:
    """Return a value as a message names it: a word in quotes, what holds others by its kind."""
    if isinstance(value, (list, dict)):
        return "a list" if isinstance(value, list) else "a mapping"
    return f"'{value}'" if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)


def _name(plan: Plan, block: str, key: str, name: object, allowed: Sequence[str], at: tuple[int, ...] = ()) -> str:
    if isinstance(name, str) and name in allowed:
        return name
    if isinstance(name, str) and allowed == plan.grid.moving and name in _fields(plan):
        said = f"'{name}' has one value here, and several are needed"
    elif isinstance(name, str):
        said = f"'{name}' cannot be shown here{nearest(name, allowed)}"
    else:
        said = "a name is missing" if name is None else f"must be a name, not {_shown(name)}"
    told = plan.inputs if set(plan.inputs) < set(allowed) else allowed
    plan.study.problem_at((block, key, *at), f"{said} ({one_of(told)})")
    return ""


def _names(plan: Plan, block: str, key: str, given: object) -> list[str]:
    """Return names of fields, one or a list of them."""
    if isinstance(given, list):
        return [_name(plan, block, key, item, _fields(plan), (index,)) for index, item in enumerate(given)]
    return [] if given is None else [_name(plan, block, key, given, _fields(plan))]
