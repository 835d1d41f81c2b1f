"""What a study gives that changes nothing anywhere in it: said, since a study that sweeps more may give it."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from comp_comm.configs.axes import AxisColumn
from comp_comm.costmodels.field_groups import NO_EFFECT
from comp_comm.formulas.arrays import to_float
from comp_comm.sweeps.grid import Grid


def no_effect_notes(grid: Grid, given: Collection[str]) -> list[str]:
    """Return a note of what has no effect of the fields that are ``given``; none where all have one."""
    found = [f"{name} ({other} is {value})" for name, (other, value) in NO_EFFECT.items()
            if name in given and _without_effect(grid, name, other, value)]  # fmt: skip
    if "scale_out" in given and (domain := _one_domain(grid)):
        found.append(f"scale_out (all devices are in one domain of {domain:g})")
    return [f"without effect here: {', '.join(found)}"] if found else []


def _without_effect(grid: Grid, name: str, other: str, value: int) -> bool:
    """Return whether a choice is not its default, and another field has the one value with which it has no effect."""
    if not {name, other} <= {*grid.model.fields}:
        return False
    others = grid.labels(other) or (grid.model.default(other),)
    all_default = all(word == grid.model.default(name) for word in grid.words(name))
    return not all_default and not isinstance(others, AxisColumn) and all(each == value for each in others)


def _one_domain(grid: Grid) -> float | None:
    """Return the devices of the innermost domain where all devices of every point are in it."""
    gpus, domains = grid.labels("gpus"), grid.labels("nvs")
    if not gpus or isinstance(gpus, AxisColumn) or isinstance(domains, AxisColumn):
        return None
    sizes = to_float(domains) if domains else [np.min(row.tiers[0].domain) for row in grid.machines.rows]
    least = float(np.min(sizes))
    return least if float(np.max(to_float(gpus))) <= least else None
