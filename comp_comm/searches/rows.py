"""Rows of a search: degrees that keep every rule, joined with placements, in parts with the same choices."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from comp_comm.configs.axes import Axis, AxisColumn
from comp_comm.costmodels.layout_space import Degrees, SearchableAnswer, rows_of
from comp_comm.errors import ConfigError
from comp_comm.formulas.arrays import Index, distinct, to_float, unwarned
from comp_comm.searches.placements import PlacementClasses
from comp_comm.sweeps.grid import HARDWARE
from comp_comm.sweeps.plan import Plan

RULED_ROWS = 2**15  # whose rules are looked at together
MAX_PLACED = 100_000_000
Mask = NDArray[np.bool_]
Part = tuple[NDArray[np.intp], tuple[slice, ...]]  # rows, and the part of every axis of choices that has an effect


def axis_of(degrees: Degrees) -> Axis:
    """Return a table of degrees as an axis."""
    rows = np.arange(rows_of(degrees.columns), dtype=np.int32)
    return Axis({name: _column(degrees, name, rows, straight=True) for name in degrees.columns})


def _column(degrees: Degrees, name: str, rows: NDArray[np.int32], straight: bool = False) -> AxisColumn:
    return AxisColumn(to_float(degrees.columns[name]), rows, degrees.words.get(name, ()), straight)


@dataclass
class LawfulRows:
    """Rows that keep every rule, which values of each choice go with them, and whether more is to be looked at.

    ``broken`` are the rules by which rows are lost, each with the fields that it is about.
    """

    rows: Mask
    values: list[Mask]
    ruled: bool = False
    broken: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def add(self, broken: Mask, part: slice) -> int:
        """Take away what breaks a rule, on a part of the rows; return how many rows are lost by it."""
        named = [axis for axis, size in enumerate(broken.shape[:-1]) if size > 1]
        if len(named) > 1:
            self.ruled = True
            return 0
        if not named:
            lost = np.broadcast_to(broken.reshape(-1), self.rows[part].shape)
            self.rows[part] &= ~lost
            return int(lost.sum())
        values = self.values[named[0]][:, part]
        values &= ~broken.reshape(broken.shape[named[0]], -1)
        lost = self.rows[part] & ~values.any(axis=0)
        self.rows[part] &= ~lost
        return int(lost.sum())

    def ranges(self) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Return from which value to which each choice goes, for each row; all of them where some between do not."""
        ranges = []
        for values in self.values:
            begin, end = values.argmax(axis=0), len(values) - values[::-1].argmax(axis=0)
            gaps = values.sum(axis=0) != end - begin
            self.ruled = self.ruled or bool((gaps & self.rows).any())
            ranges.append((np.where(gaps, 0, begin), np.where(gaps, len(values), end)))
        return ranges


def lawful_rows(plan: Plan, dropped: dict[str, int]) -> LawfulRows:
    """Return the rows of a plan's last axis that keep every rule with some choices; others are counted in ``dropped``.

    A rule about one choice says which of its values go with a row; one about several is left to be looked at later.
    """
    *choices, last = plan.grid.axes
    lawful = LawfulRows(np.ones(len(last), bool), [np.ones((len(axis), len(last)), bool) for axis in choices])
    for begin in range(0, len(last), RULED_ROWS):
        part = slice(begin, begin + RULED_ROWS)
        answer = cast(SearchableAnswer, plan.evaluate_alone((*(slice(None) for _ in choices), part)))
        with unwarned():
            rules = [rule for rule in answer.layout_violations if rule.wrong]
        lawful.ruled = lawful.ruled or answer.may_lack
        for rule in rules:
            lost = lawful.add(
                rule.broken.reshape((1,) * (len(plan.grid.axes) - rule.broken.ndim) + rule.broken.shape), part
            )
            if lost:
                dropped[rule.reason] = dropped.get(rule.reason, 0) + lost
                lawful.broken[rule.reason] = rule.fields
    return lawful


def all_rows(plan: Plan) -> LawfulRows:
    """Return all rows of a plan's last axis, with all choices, where it is known that they keep every rule."""
    *choices, last = plan.grid.axes
    lawful = LawfulRows(np.ones(len(last), bool), [np.ones((len(axis), len(last)), bool) for axis in choices])
    answer = cast(SearchableAnswer, plan.evaluate_alone(tuple(slice(0, 1) for _ in plan.grid.axes)))
    return replace(lawful, ruled=answer.may_lack)


def parts_of(plan: Plan, lawful: LawfulRows) -> list[Part]:
    """Return rows of a plan's last axis in parts that go with the same values of the choices.

    A choice without an effect would only name a layout again: of its values the first is enough.
    """
    *choices, _ = plan.grid.axes
    rows = np.flatnonzero(lawful.rows)
    if all(HARDWARE in axis.values for axis in choices):
        return [(rows, tuple(slice(0, len(axis)) for axis in choices))] if rows.size else []
    simplest: Index = (*(slice(0, 1) for _ in choices), rows)
    idle = cast(SearchableAnswer, plan.evaluate_alone(simplest)).idle_choices()
    code, ranges = np.zeros(rows.size, np.intp), []
    for axis, (begin, end) in zip(choices, lawful.ranges(), strict=True):
        begin, end = begin[rows], end[rows]
        for name in idle.keys() & axis.values.keys():
            end = np.where(idle[name].reshape(-1), begin + 1, end)
        code = code * (len(axis) + 1) ** 2 + begin * (len(axis) + 1) + end
        ranges.append((begin, end))
    parts = []
    for each in distinct(code).tolist():
        alike = np.flatnonzero(code == each)
        used = (slice(int(begin[alike[0]]), int(end[alike[0]])) for begin, end in ranges)
        parts.append((rows[alike], tuple(used)))
    return parts


class PlacedRows(NamedTuple):
    """Rows of degrees with placements: as an axis, where on it each part begins, and how many layouts each row is."""

    axis: Axis
    begins: list[int]
    counts: NDArray[np.uint8]


def unplaced_rows(degrees: Degrees, parts: list[Part], axis: Axis) -> PlacedRows:
    """Return every row of every part, each a layout; ``axis`` are all rows of the table."""
    rows = _joined([rows for rows, _ in parts])
    begins = np.cumsum([0, *(part.size for part, _ in parts)])[:-1]
    if len(parts) > 1 or rows.size < len(axis):  # else it is all of them, in their order
        axis = Axis({name: _column(degrees, name, rows) for name in degrees.columns})
    return PlacedRows(axis, begins.tolist(), np.ones(rows.size, np.uint8))


def placed_rows(degrees: Degrees, parts: list[Part], classes: PlacementClasses) -> PlacedRows:
    """Return every row of every part with every placement that costs something of its own."""
    placements = classes.names
    counts = classes.counts[classes.degrees]
    kept = [np.nonzero(counts[rows]) for rows, _ in parts]
    lengths = [rows.size for rows, _ in kept]
    if sum(lengths) > MAX_PLACED:
        raise ConfigError(f"more than {MAX_PLACED:,} rows of degrees and placements: pin some of them")
    rows = _joined([part[row] for (part, _), (row, _) in zip(parts, kept, strict=True)])
    codes = _joined([placement for _, placement in kept]).astype(np.int8)
    columns = {name: _column(degrees, name, rows) for name in degrees.columns}
    axis = Axis({**columns, "placement": AxisColumn(to_float(np.arange(len(placements))), codes, placements)})
    return PlacedRows(axis, np.cumsum([0, *lengths])[:-1].tolist(), counts[rows, codes])


def _joined(arrays: list[NDArray[np.intp]]) -> NDArray[np.int32]:
    return np.concatenate([array.astype(np.int32) for array in arrays] or [np.zeros(0, np.int32)])
