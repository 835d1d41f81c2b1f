"""Several points explained side by side: where each one's step goes, what it holds, whether it fits."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import cast

import numpy as np

from comp_comm.configs.axes import Axis
from comp_comm.configs.study import Study
from comp_comm.costmodels.explained import ExplainedAnswer
from comp_comm.costmodels.records import STEP_PARTS
from comp_comm.errors import ConfigError, InfeasibleError
from comp_comm.records import Record, Records
from comp_comm.sweeps.engine import row_blocks
from comp_comm.sweeps.grid import HARDWARE
from comp_comm.sweeps.meta import meta
from comp_comm.sweeps.plan import FEASIBLE, REASON, Plan, make_plan
from comp_comm.sweeps.plan_notes import notes
from comp_comm.sweeps.point import check_explains
from comp_comm.sweeps.prices import NO_PRICES, Prices, priced
from comp_comm.sweeps.result import records, why_nothing
from comp_comm.units import GIB
from comp_comm.violation import NO_ROOM

# What people ask besides the parts of a step.
SUMMARY = ("step_s", "visible_comm_fraction", "mfu", "tokens_per_s", "memory_gib", "days")
MOST_POINTS = 1000
NONE_OF_ANY_DEVICE: Mapping[object, Prices] = MappingProxyType({})


def explain_over(study: Study, prices: Mapping[object, Prices] = NONE_OF_ANY_DEVICE) -> tuple[Records, Record]:
    """Return a row for each point of a study with axes: the parts of its step, and the meta data.

    ``prices`` are those of each device by its name, for what a step costs.

    Raises ``ConfigError`` for a wrong study, for a cost model without operations, and for more than 1,000 points;
    ``InfeasibleError`` where none is feasible, but for what does not fit, which is shown as one point is.

    >>> from comp_comm.configs.study import load_study
    >>> rows, _ = explain_over(load_study("llama-step", ["tp=4,8"]))
    >>> [row["tp"] for row in rows], round(sum(rows[1][name] for name in STEP_PARTS) / rows[1]["step_s"], 9)
    ([4, 8], 1.0)
    """
    plan = make_plan(study)
    check_explains(plan)
    if plan.grid.points > MOST_POINTS:
        raise ConfigError(f"{plan.grid.points:,} points are more than the {MOST_POINTS:,} that are explained side by "
                          "side; 'compcomm sweep' takes them all")  # fmt: skip
    known = [name for name in (*SUMMARY, *STEP_PARTS) if name in plan.output_columns]
    wanted = [*dict.fromkeys((*plan.grid.moving, "gpus", *known, FEASIBLE, REASON))]
    rows = [row for block in row_blocks(plan, wanted) for row in records(block)]
    if not any(row[FEASIBLE] or row[REASON] == NO_ROOM for row in rows):
        raise InfeasibleError(why_nothing(plan))
    _say_needed(plan, rows)
    return _with_costs(plan, rows, prices), {**meta(plan), "command": "explain", "notes": notes(plan)}


def _say_needed(plan: Plan, rows: Records) -> None:
    """Put into the reasons of points that do not fit how much memory they need, and how much there is."""
    tight = [row for row in rows if NO_ROOM in (row[REASON] or "")]
    if not tight:
        return
    points = plan.over(Axis({name: tuple(row[name] for row in tight) for name in plan.grid.moving}))
    step = cast(ExplainedAnswer, points.evaluate((slice(0, len(tight)),)))
    sizes = (np.broadcast_to(size, len(tight)) / GIB for size in (step.memory_bytes, step.memory_capacity))
    for row, needed, has in zip(tight, *sizes, strict=True):
        row[REASON] += f" ({needed:.1f} GiB needed, {has:.1f} there)"


def _with_costs(plan: Plan, rows: Records, prices: Mapping[object, Prices]) -> Records:
    """Return rows with what their steps cost, None where there is no step; without devices that do not move."""
    told = [priced(prices.get(row.get(HARDWARE, plan.grid.profiles[0].name), NO_PRICES), row,
                   row.get("tokens", plan.grid.fixed.get("tokens"))) for row in rows]  # fmt: skip
    names = dict.fromkeys(name for each in told for name in each)
    drop = () if "gpus" in plan.grid.moving else ("gpus",)
    return [{**{name: value for name, value in row.items() if name not in drop}, **dict.fromkeys(names), **each}
            for row, each in zip(rows, told, strict=True)]  # fmt: skip
