"""Blocks of a search: rows of degrees with all their placements, and choices that go with all of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from comp_comm.formulas.arrays import AnyArray, Array, Index
from comp_comm.lazy import cached_property
from comp_comm.searches.best import Place
from comp_comm.searches.each import BlockGroups
from comp_comm.searches.space import SearchSpace
from comp_comm.sweeps.blocks import extent

MOST_ADDED = 255  # truths that a byte can add up
Counts = NDArray[np.integer]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class RowBlock:
    """Points that are looked at together: some rows of a space, each with a part of its choices.

    ``counts`` says how many layouts a point of each row stands for.
    """

    choices: tuple[slice, ...]
    rows: NDArray[np.intp]
    counts: Counts

    @property
    def shape(self) -> tuple[int, ...]:
        """Points along each axis."""
        return (*extent(self.choices), self.rows.size)

    @property
    def index(self) -> Index:
        """The block of the plan's grid."""
        first, last = int(self.rows[0]), int(self.rows[-1])
        return (*self.choices, slice(first, last + 1) if last - first < self.rows.size else self.rows)

    def place(self, flat: int) -> Place:
        """Return where on each axis of the plan a point is, by its number in the block."""
        *choices, row = (int(i) for i in np.unravel_index(flat, self.shape))
        return (*(each.start + i for each, i in zip(self.choices, choices, strict=True)), int(self.rows[row]))

    def broadcast(self, array: AnyArray) -> AnyArray:
        """Return an array as that of all points."""
        return np.broadcast_to(array, self.shape)

    @cached_property
    def alone(self) -> bool:
        """Whether every point is one layout."""
        return bool((self.counts == 1).all())

    def of_rows(self, rows: NDArray[np.intp] | slice) -> RowBlock:
        """Return the block of some of its rows."""
        return RowBlock(self.choices, self.rows[rows], self.counts[rows])

    def grouped(self, space: SearchSpace) -> BlockGroups:
        """Return its points by the groups whose best are asked for."""
        if space.groups is None:
            raise TypeError("no groups are asked for")
        return BlockGroups(space.groups, self.choices, self.rows, self.counts)

    def layouts(self, mask: Mask) -> int:
        """Return how many layouts the points of a mask are."""
        if self.alone:
            return int(np.count_nonzero(mask)) * (prod(self.shape) // mask.size)
        each = np.broadcast_to(mask, (*mask.shape[:-1], self.rows.size)).reshape(-1, self.rows.size).view(np.uint8)
        parts = (each[i : i + MOST_ADDED] for i in range(0, len(each), MOST_ADDED))
        rows = sum(part.sum(axis=0, dtype=np.uint8).astype(np.intp) for part in parts)
        return int(np.dot(rows, self.counts)) * (prod(self.shape[:-1]) // len(each))

    def layouts_of(self, points: NDArray[np.intp]) -> Counts:
        """Return how many layouts each of some points is, by its number in the block."""
        return np.ones(points.size, np.uint8) if self.alone else self.counts[points % self.rows.size]


class RowMemory(NamedTuple):
    """Of every point of a block the bytes that it needs, whether it is a layout, and whether it fits, or nearly."""

    needed: Array
    layouts: Mask
    fits: Mask
    near: Mask

    def of_rows(self, rows: NDArray[np.intp]) -> RowMemory:
        """Return those of some rows."""
        needed, layouts, fits, near = self
        return RowMemory(needed.take(rows, -1), layouts.take(rows, -1), fits.take(rows, -1), near.take(rows, -1))


@dataclass(frozen=True)
class PlacedBlock:
    """A block of rows of degrees, and that of their placements; ``of`` says which of the former each of these is.

    ``there`` says which choices are tried with which rows of degrees.
    """

    degrees: RowBlock
    placed: RowBlock
    of: NDArray[np.intp]
    there: Mask

    @classmethod
    def alone(cls, block: RowBlock) -> PlacedBlock:
        """Return a block each of whose rows stands for itself."""
        return cls(block, block, np.arange(block.rows.size), np.ones((1,) * len(block.shape), bool))

    @classmethod
    def between(cls, space: SearchSpace, choices: tuple[slice, ...], first: int, last: int) -> PlacedBlock:
        """Return the block of some rows of degrees of a space."""
        ends = np.append(space.begins, space.rows)[first : last + 1]
        rows, counts = ends[:-1], space.counts[ends[0] : ends[-1]]
        placed, there = RowBlock(choices, np.arange(ends[0], ends[-1]), counts), space.there(choices, rows)
        if counts.size == rows.size:
            return cls(placed, placed, np.arange(rows.size), there)
        together = np.add.reduceat(counts, rows - ends[0], dtype=np.intp)  # which NumPy makes unsigned, else
        of = np.repeat(np.arange(rows.size), np.diff(ends))
        return cls(RowBlock(choices, rows, together), placed, of, there)

    @property
    def points(self) -> int:
        """How many points there are."""
        if self.there.size == 1:
            return prod(self.placed.shape)
        each = prod(self.placed.shape[:-1]) // prod(self.there.shape[:-1])
        return each * int(self.there.reshape(-1, self.degrees.rows.size).sum(axis=0)[self.of].sum())

    def of_rows(self, rows: NDArray[np.intp]) -> PlacedBlock:
        """Return the block with some of the placements."""
        return replace(self, placed=self.placed.of_rows(rows), of=self.of[rows])

    @property
    def unplaced(self) -> bool:
        """Whether each row of degrees is one row."""
        return self.placed is self.degrees
