"""From a table of degrees to the rows of a search: those that keep every rule, each with every placement.

Three steps, each on the result of the one before:

1. `valid_rows` evaluates the rules of model and layout once for every row of degrees and every choice (but for the
   placement, which few rules depend on), and drops the rows that no choice makes a layout.
2. `subspaces` puts together rows that go with the same values of every choice, so that rows times choices is a plain
   product, and no mask as long as the space is ever needed.
3. `placed_rows` joins each row with the placements, one of each class that the network cannot tell apart.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from comp_comm.configs.axes import Axis, AxisColumn
from comp_comm.costmodels.layout_space import Degrees, SearchableAnswer, rows_of
from comp_comm.errors import ConfigError
from comp_comm.formulas.arrays import Index, Mask, distinct, to_float, unwarned
from comp_comm.searches.placements import PlacementClasses
from comp_comm.searches.space import Segment
from comp_comm.sweeps.grid import HARDWARE
from comp_comm.sweeps.plan import Plan

ROWS_AT_ONCE = 2**15  # whose rules are evaluated together
MAX_PLACED = 100_000_000


def axis_of(degrees: Degrees) -> Axis:
    """Return a table of degrees as an axis."""
    rows = np.arange(rows_of(degrees.columns), dtype=np.int32)
    return Axis({name: _column(degrees, name, rows, straight=True) for name in degrees.columns})


def _column(degrees: Degrees, name: str, rows: NDArray[np.int32], straight: bool = False) -> AxisColumn:
    return AxisColumn(to_float(degrees.columns[name]), rows, degrees.words.get(name, ()), straight)


@dataclass
class ValidRows:
    """Which rows of degrees keep every rule, and with which values of each choice."""

    rows: Mask  # of all rows of the table
    values: list[Mask]  # for each axis of choices: which of its values (first axis) go with which row
    rules_left: bool = False  # whether some rule is about several choices at once: then points have to be looked at
    broken: dict[str, tuple[str, ...]] = field(default_factory=dict)  # rules that cost rows, with the fields of each

    def drop(self, broken: Mask, part: slice) -> int:
        """Take away what breaks a rule, on a part of the rows; return how many rows are lost by it."""
        axes = [axis for axis, size in enumerate(broken.shape[:-1]) if size > 1]  # choices that the rule is about
        if len(axes) > 1:
            self.rules_left = True
            return 0
        if not axes:
            lost = np.broadcast_to(broken.reshape(-1), self.rows[part].shape)
            self.rows[part] &= ~lost
            return int(lost.sum())
        values = self.values[axes[0]][:, part]
        values &= ~broken.reshape(broken.shape[axes[0]], -1)
        lost = self.rows[part] & ~values.any(axis=0)
        self.rows[part] &= ~lost
        return int(lost.sum())

    def ranges(self) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Return from which value up to which each choice goes, for each row.

        A slice of an axis has no gaps: where some values between are no layouts, the row has all values, and the rule
        is left to be evaluated point by point.
        """
        ranges = []
        for values in self.values:
            begin, end = values.argmax(axis=0), len(values) - values[::-1].argmax(axis=0)
            gaps = values.sum(axis=0) != end - begin
            self.rules_left = self.rules_left or bool((gaps & self.rows).any())
            ranges.append((np.where(gaps, 0, begin), np.where(gaps, len(values), end)))
        return ranges


def valid_rows(plan: Plan, dropped: dict[str, int]) -> ValidRows:
    """Return the rows of a plan's last axis that keep every rule with some choices; others are counted in ``dropped``.

    A rule about one choice says which of its values go with a row; one about several is left for `block_search`.
    """
    *choices, last = plan.grid.axes
    valid = _all_rows(plan)
    for begin in range(0, len(last), ROWS_AT_ONCE):
        part = slice(begin, begin + ROWS_AT_ONCE)
        answer = cast(SearchableAnswer, plan.evaluate_alone((*(slice(None) for _ in choices), part)))
        with unwarned():
            rules = [rule for rule in answer.layout_violations if rule.wrong]
        valid.rules_left = valid.rules_left or answer.may_lack
        for rule in rules:
            missing_axes = len(plan.grid.axes) - rule.broken.ndim
            lost = valid.drop(rule.broken.reshape((1,) * missing_axes + rule.broken.shape), part)
            if lost:
                dropped[rule.reason] = dropped.get(rule.reason, 0) + lost
                valid.broken[rule.reason] = rule.fields
    return valid


def all_rows(plan: Plan) -> ValidRows:
    """Return all rows of a plan's last axis, with all choices, where it is known that they keep every rule."""
    answer = cast(SearchableAnswer, plan.evaluate_alone(tuple(slice(0, 1) for _ in plan.grid.axes)))
    return replace(_all_rows(plan), rules_left=answer.may_lack)


def _all_rows(plan: Plan) -> ValidRows:
    *choices, last = plan.grid.axes
    return ValidRows(np.ones(len(last), bool), [np.ones((len(axis), len(last)), bool) for axis in choices])


class Subspace(NamedTuple):
    """Rows of a table of degrees that all have the same choices: the range of each axis that has an effect."""

    rows: NDArray[np.intp]
    choices: tuple[slice, ...]


def subspaces(plan: Plan, valid: ValidRows) -> list[Subspace]:
    """Return the valid rows of a plan's last axis, put together by the values of the choices that they go with.

    A choice without an effect would only name a layout again: of its values the first is enough.
    """
    *choices, _ = plan.grid.axes
    rows = np.flatnonzero(valid.rows)
    if all(HARDWARE in axis.values for axis in choices):
        return [Subspace(rows, tuple(slice(0, len(axis)) for axis in choices))] if rows.size else []
    first_choices: Index = (*(slice(0, 1) for _ in choices), rows)
    idle = cast(SearchableAnswer, plan.evaluate_alone(first_choices)).idle_choices()
    code, ranges = np.zeros(rows.size, np.intp), []
    for axis, (begin, end) in zip(choices, valid.ranges(), strict=True):
        begin, end = begin[rows], end[rows]
        for name in idle.keys() & axis.values.keys():
            end = np.where(idle[name].reshape(-1), begin + 1, end)
        code = code * (len(axis) + 1) ** 2 + begin * (len(axis) + 1) + end
        ranges.append((begin, end))
    found = []
    for each in distinct(code).tolist():
        alike = np.flatnonzero(code == each)
        used = (slice(int(begin[alike[0]]), int(end[alike[0]])) for begin, end in ranges)
        found.append(Subspace(rows[alike], tuple(used)))
    return found


class PlacedRows(NamedTuple):
    """The rows of a search: degrees with placements."""

    axis: Axis
    segments: tuple[Segment, ...]  # each subspace, as a range of the axis
    counts: NDArray[np.uint8]  # how many layouts each row is


def unplaced_rows(degrees: Degrees, parts: list[Subspace], axis: Axis) -> PlacedRows:
    """Return every row of every subspace, each a layout; ``axis`` are all rows of the table."""
    rows = _joined([part.rows for part in parts])
    if len(parts) > 1 or rows.size < len(axis):  # else it is all of them, in their order
        axis = Axis({name: _column(degrees, name, rows) for name in degrees.columns})
    return PlacedRows(axis, _segments(parts, [part.rows.size for part in parts]), np.ones(rows.size, np.uint8))


def placed_rows(degrees: Degrees, parts: list[Subspace], classes: PlacementClasses) -> PlacedRows:
    """Return every row of every subspace with the first placement of each class."""
    counts = classes.counts[classes.combination]
    kept = [np.nonzero(counts[part.rows]) for part in parts]
    lengths = [row.size for row, _ in kept]
    if sum(lengths) > MAX_PLACED:
        raise ConfigError(f"more than {MAX_PLACED:,} rows of degrees and placements: pin some of them")
    rows = _joined([part.rows[row] for part, (row, _) in zip(parts, kept, strict=True)])
    codes = _joined([placement for _, placement in kept]).astype(np.int8)
    columns = {name: _column(degrees, name, rows) for name in degrees.columns}
    placements = AxisColumn(to_float(np.arange(len(classes.names))), codes, classes.names)
    return PlacedRows(Axis({**columns, "placement": placements}), _segments(parts, lengths), counts[rows, codes])


def _segments(parts: list[Subspace], lengths: list[int]) -> tuple[Segment, ...]:
    ends = np.cumsum([0, *lengths]).tolist()
    return tuple(Segment(first, end, part.choices) for part, first, end in zip(parts, ends[:-1], ends[1:], strict=True))


def _joined(arrays: list[NDArray[np.intp]]) -> NDArray[np.int32]:
    return np.concatenate([array.astype(np.int32) for array in arrays] or [np.zeros(0, np.int32)])
