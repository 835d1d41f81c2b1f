"""Groups of layouts: the best of each, and how many layouts it has. What ``--per tp,zero`` and ``--compare`` ask for.

A group is all layouts that have the same values of some fields. `Grouping` says for every point of a space which group
it is of, `GroupResults` is what was found in each, and `BlockGrouping` adds the points of one block to that.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from comp_comm.distinct import distinct_rows
from comp_comm.field import Value
from comp_comm.formulas.arrays import Array, Mask, distinct
from comp_comm.searches.best import Place
from comp_comm.structs import struct
from comp_comm.sweeps.grid import Grid


@struct
class Grouping:
    """Groups of a plan's points, by number, and what gives a point its group.

    The number of a point's group is a sum: a term of its row, and one of its value on each axis of choices. So no array
    is as long as the space.
    """

    fields: tuple[str, ...]  # points are of one group where they agree in all of these
    values: tuple[tuple[Value, ...], ...]  # of the fields, for each group
    rows: NDArray[np.intp]  # the term of each row of the last axis
    choices: tuple[NDArray[np.intp], ...]  # of each axis before it, the term of each of its values


def make_grouping(grid: Grid, fields: Sequence[str], fixed: dict[str, Value]) -> Grouping:
    """Return the groups of a grid's points that have the same values of some fields, fixed ones among them."""
    *choice_axes, last = grid.axes
    of_rows = [name for name in fields if name in last.values]
    columns = [last.values[name] for name in of_rows]
    index = (*(slice(0, 1) for _ in choice_axes), slice(None))
    distinct_of = (
        distinct_rows([grid.values(name, index).reshape(-1) for name in of_rows], len(last)) if of_rows else None
    )
    rows = distinct_of.row if distinct_of else np.zeros(len(last), np.intp)
    firsts = distinct_of.first.tolist() if distinct_of else [0]
    row_values = [{name: column[i] for name, column in zip(of_rows, columns, strict=True)} for i in firsts]
    # A number of mixed radix: rows are its lowest digit, then comes a digit for each axis along which a field moves.
    stride, choices, digits = len(row_values), [], []
    for axis in choice_axes:
        name = next((name for name in fields if name in axis.values), None)
        digits.append([(name, value) for value in axis.values[name]] if name else [(None, None)])
        choices.append(stride * np.arange(len(axis)) if name else np.zeros(len(axis), np.intp))
        stride *= len(digits[-1])
    values = []
    for picked in itertools.product(*reversed(digits)):
        moved = {name: value for name, value in picked if name is not None and value is not None}
        values += [tuple({**fixed, **moved, **row}[name] for name in fields) for row in row_values]
    return Grouping(tuple(fields), tuple(values), rows, tuple(choices))


@dataclass
class GroupResults:
    """What was found in each group, by its number."""

    scores: Array  # the best of those that fit, infinity where none does
    places: list[Place | None]  # where the best is
    candidates: NDArray[np.int64]  # layouts that keep every rule
    feasible: NDArray[np.int64]  # those of them that fit

    @classmethod
    def of(cls, groups: int) -> GroupResults:
        """Return the results of so many groups in which nothing was looked for yet."""
        return cls(np.full(groups, np.inf), [None] * groups, np.zeros(groups, np.int64), np.zeros(groups, np.int64))

    def merge(self, other: GroupResults) -> None:
        """Add what was found in points after these."""
        for group in np.flatnonzero(other.scores < self.scores).tolist():
            self.scores[group], self.places[group] = other.scores[group], other.places[group]
        self.candidates += other.candidates
        self.feasible += other.feasible


class BlockGrouping:
    """The points of a block by group: rows sorted by it, and which of its choices make another group of them.

    ``choices`` and ``rows`` are those of the block, ``counts`` how many layouts a point of each row is.
    """

    def __init__(
        self, grouping: Grouping, choices: tuple[slice, ...], rows: NDArray[np.intp], counts: NDArray[np.integer]
    ) -> None:
        self.choices, self.rows, self.counts = choices, rows, counts
        self.shape = tuple(part.stop - part.start for part in choices)
        of_rows = grouping.rows[rows]
        self.order = np.argsort(of_rows, kind="stable")
        self.begins = np.flatnonzero(np.append(True, np.diff(of_rows[self.order]) != 0))
        self.group = of_rows[self.order[self.begins]]
        of_choices = [table[part] for table, part in zip(grouping.choices, choices, strict=True)]
        self.of_choices = sum(np.ix_(*of_choices), np.zeros(self.shape, np.intp)).reshape(-1)

    def _parts(self) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Yield the choices that make the same groups of the rows, and the numbers of these."""
        for code in distinct(self.of_choices).tolist():
            yield np.flatnonzero(self.of_choices == code), self.group + code

    def of_points(self, scores: Array) -> Array:
        """Return what a number of each group is for every point of the block."""
        of_rows = np.empty_like(self.order)
        of_rows[self.order] = np.repeat(self.group, np.diff(np.append(self.begins, self.order.size)))
        numbers: Array = scores[np.add.outer(self.of_choices, of_rows)]
        return numbers.reshape(*self.shape, -1)

    def count(self, results: GroupResults, layouts: Mask, fits: Mask) -> None:
        """Count the layouts of a block, with an axis for each choice and the rows, and those that fit."""
        for choices, group in self._parts():
            for counted, mask in ((results.candidates, layouts), (results.feasible, fits)):
                rows = mask.reshape(-1, self.rows.size)[choices].sum(axis=0) * self.counts
                counted[group] += np.add.reduceat(rows[self.order], self.begins)

    def improve(self, results: GroupResults, scores: Array, fits: Mask) -> None:
        """Note the groups that have a better score than any before."""
        fitting = np.where(fits, scores, np.inf).reshape(-1, self.rows.size)
        ends = np.append(self.begins[1:], self.rows.size)
        for choices, group in self._parts():
            of_rows = fitting[choices].min(axis=0)[self.order]
            least = np.minimum.reduceat(of_rows, self.begins)
            for i in np.flatnonzero(least < results.scores[group]).tolist():
                row = int(self.order[self.begins[i] + of_rows[self.begins[i] : ends[i]].argmin()])
                place = np.unravel_index(int(choices[fitting[choices, row].argmin()]), self.shape)
                results.scores[group[i]] = least[i]
                results.places[int(group[i])] = (*(part.start + int(at) for part, at in zip(self.choices, place,
                                                strict=True)), int(self.rows[row]))  # fmt: skip
