"""The best layout for each value of some fields, and how many layouts there are: of a search's rows and choices."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from comp_comm.distinct import distinct_rows
from comp_comm.field import Value
from comp_comm.formulas.arrays import Array, distinct
from comp_comm.searches.best import Place
from comp_comm.sweeps.grid import Grid

Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Groups:
    """Points of a plan by the values of some ``fields``: ``values`` of each group, in the order they are told.

    ``rows`` is the part of its number that each row of the last axis gives a group, ``choices`` that of each value of
    an axis before it: a group's number is their sum.
    """

    fields: tuple[str, ...]
    values: tuple[tuple[Value, ...], ...]
    rows: NDArray[np.intp]
    choices: tuple[NDArray[np.intp], ...]


def groups_of(grid: Grid, fields: Sequence[str], fixed: dict[str, Value]) -> Groups:
    """Return the groups of a grid's points that have the same values of some fields, fixed ones among them."""
    *before, last = grid.axes
    along = [name for name in fields if name in last.values]
    columns = [last.values[name] for name in along]
    index = (*(slice(0, 1) for _ in before), slice(None))
    row = distinct_rows([grid.values(name, index).reshape(-1) for name in along], len(last)) if along else None
    rows = row.row if row else np.zeros(len(last), np.intp)
    firsts = row.first.tolist() if row else [0]
    of_rows = [{name: column[i] for name, column in zip(along, columns, strict=True)} for i in firsts]
    step, choices, moving = len(of_rows), [], []
    for axis in before:
        name = next((name for name in fields if name in axis.values), None)
        moving.append([(name, value) for value in axis.values[name]] if name else [(None, None)])
        choices.append(step * np.arange(len(axis)) if name else np.zeros(len(axis), np.intp))
        step *= len(moving[-1])
    values = []
    for picked in itertools.product(*reversed(moving)):
        known = {name: value for name, value in picked if name is not None and value is not None}
        values += [tuple({**fixed, **known, **row}[name] for name in fields) for row in of_rows]
    return Groups(tuple(fields), tuple(values), rows, tuple(choices))


@dataclass
class BestOfEach:
    """Of each group the best score and where it is, and how many layouts there are, and how many of them fit."""

    scores: Array
    places: list[Place | None]
    candidates: NDArray[np.int64]
    feasible: NDArray[np.int64]

    @classmethod
    def of(cls, groups: int) -> BestOfEach:
        """Return that of so many groups of which nothing was seen."""
        return cls(np.full(groups, np.inf), [None] * groups, np.zeros(groups, np.int64), np.zeros(groups, np.int64))

    def merge(self, other: BestOfEach) -> None:
        """Add what was seen in points after these."""
        for group in np.flatnonzero(other.scores < self.scores).tolist():
            self.scores[group], self.places[group] = other.scores[group], other.places[group]
        self.candidates += other.candidates
        self.feasible += other.feasible


class BlockGroups:
    """The points of a block by group: rows sorted by it, and which of its choices make another group of them.

    ``choices`` and ``rows`` are those of the block, ``counts`` how many layouts a point of each row is.
    """

    def __init__(self, groups: Groups, choices: tuple[slice, ...], rows: NDArray[np.intp], counts: NDArray[np.integer]
                 ) -> None:  # fmt: skip
        self.choices, self.rows, self.counts = choices, rows, counts
        self.shape = tuple(part.stop - part.start for part in choices)
        of_rows = groups.rows[rows]
        self.order = np.argsort(of_rows, kind="stable")
        self.begins = np.flatnonzero(np.append(True, np.diff(of_rows[self.order]) != 0))
        self.group = of_rows[self.order[self.begins]]
        of_choices = [table[part] for table, part in zip(groups.choices, choices, strict=True)]
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

    def count(self, best: BestOfEach, layouts: Mask, fits: Mask) -> None:
        """Count the layouts of a block, with an axis for each choice and the rows, and those that fit."""
        for choices, group in self._parts():
            for counted, mask in ((best.candidates, layouts), (best.feasible, fits)):
                rows = mask.reshape(-1, self.rows.size)[choices].sum(axis=0) * self.counts
                counted[group] += np.add.reduceat(rows[self.order], self.begins)

    def improve(self, best: BestOfEach, scores: Array, fits: Mask) -> None:
        """Note the groups that have a better score than any before."""
        fitting = np.where(fits, scores, np.inf).reshape(-1, self.rows.size)
        ends = np.append(self.begins[1:], self.rows.size)
        for choices, group in self._parts():
            of_rows = fitting[choices].min(axis=0)[self.order]
            least = np.minimum.reduceat(of_rows, self.begins)
            for i in np.flatnonzero(least < best.scores[group]).tolist():
                row = int(self.order[self.begins[i] + of_rows[self.begins[i] : ends[i]].argmin()])
                place = np.unravel_index(int(choices[fitting[choices, row].argmin()]), self.shape)
                best.scores[group[i]] = least[i]
                best.places[int(group[i])] = (*(part.start + int(at) for part, at in zip(self.choices, place,
                                                strict=True)), int(self.rows[row]))  # fmt: skip
