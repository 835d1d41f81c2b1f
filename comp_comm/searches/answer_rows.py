"""Layouts of a search as rows of its answer: their fields and results, all of them evaluated as one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np

from comp_comm.configs.axes import Axis
from comp_comm.costmodels import CostModel
from comp_comm.costmodels.layout_space import LayoutSpace, SearchableAnswer
from comp_comm.field import Value
from comp_comm.fields import FIELDS
from comp_comm.formulas.arrays import Array, to_float, unwarned
from comp_comm.records import Record
from comp_comm.searches.best import Tie
from comp_comm.searches.space import Point, SearchSpace
from comp_comm.sweeps.prices import Prices, priced

Row = Record
RUN = ("days", "gpu_hours")  # columns of a whole run, where its tokens are known


def model_and_layouts(space: SearchSpace) -> tuple[CostModel, LayoutSpace]:
    """Return the cost model of a search, and what it says about its layouts."""
    model = space.plan.model
    if model.space is None:
        raise TypeError(f"{model.name} has no layouts to search")
    return model, model.space


def steps_at(space: SearchSpace, points: Sequence[Point]) -> SearchableAnswer:
    """Return the steps of some layouts, evaluated as one table."""
    axis = Axis({name: tuple(point[name] for point in points) for name in points[0]})
    return cast(SearchableAnswer, space.plan.over(axis).evaluate_alone((slice(None),)))


def rows_of(space: SearchSpace, ties: Sequence[Tie], prices: Prices) -> list[Row]:
    """Return the rows of some ties: their layouts, results, and in what those that nothing tells apart differ."""
    if not ties:
        return []
    points = [space.point(tie.place) for tie in ties]
    plan, (model, layouts) = space.plan, model_and_layouts(space)
    step, run = steps_at(space, points), plan.grid.fixed.get("tokens")

    def of(column: Array) -> list[float]:
        numbers: list[float] = np.broadcast_to(to_float(column), len(ties)).tolist()
        return numbers

    with unwarned():
        derived = {name: of(made(step)) for name, made in model.derived.items() if name in layouts.layout_columns}
        names = (*layouts.result_columns, *(RUN if run is not None else ()))
        results = {name: of(model.columns[name].of(step)) for name in names}
    rows = []
    for number, (tie, point) in enumerate(zip(ties, points, strict=True)):
        numbers = {name: int(values[number]) for name, values in derived.items()}
        layout = _ordered({"global_batch": plan.grid.fixed["global_batch"], **numbers, **point}, layouts)
        row = layout | {name: values[number] for name, values in results.items()}
        row |= {"ties": tie.layouts, "also": _also(space, tie)}
        rows.append(row | priced(prices, row, run))
    return rows


def number_columns(space: SearchSpace, prices: Prices) -> list[str]:
    """Return the columns of `rows_of` that are numbers of a layout, before any is evaluated."""
    model, layouts = model_and_layouts(space)
    run = space.plan.grid.fixed.get("tokens")
    derived = (name for name in model.derived if name in layouts.layout_columns)
    moving = (name for axis in space.plan.grid.axes for name in axis.values)
    fields = ("global_batch", *derived, *space.choices, *moving)
    numbers = {name: 0 for name in fields if name in FIELDS and FIELDS[name].kind in ("int", "float")}
    any_step = {"step_s": 1.0, "gpus": 1.0, "tokens_per_s": 1.0}
    of_run = RUN if run is not None else ()
    return [*_ordered(numbers, layouts), *layouts.result_columns, *of_run, *priced(prices, any_step, run)]


def _ordered(known: Mapping[str, Value], layouts: LayoutSpace) -> Row:
    return {name: known[name] for name in (*layouts.layout_columns, *known) if name in known}


def _also(space: SearchSpace, tie: Tie) -> str | None:
    """Return in what the layouts of a tie differ, in words; None where there is one."""
    values: dict[str, list[Value]] = {}
    for place in tie.places:
        for name, value in space.point(place).items():
            values.setdefault(name, []).extend(
                space.equivalent_placements(place[-1]) if name == "placement" else (value,)
            )
    several = {name: list(dict.fromkeys(known)) for name, known in values.items()}
    differing = [f"{name} {' or '.join(map(str, known))}" for name, known in several.items() if len(known) > 1]
    return "; ".join(differing) or None
