"""A block of a search: rows of degrees with all their placements, and choices that go with all of them.

Memory and rules do not depend on the placement, time does. So a block is there twice (`PlacedBlock`): as rows of
degrees, of which memory is evaluated, and as rows of degrees and placements, of which time is.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from comp_comm.formulas.arrays import AnyArray, Array, Index, Mask
from comp_comm.lazy import cached_property
from comp_comm.searches.best import Place
from comp_comm.searches.groups import BlockGrouping
from comp_comm.searches.space import SearchSpace
from comp_comm.structs import struct
from comp_comm.sweeps.blocks import extent

MOST_ADDED = 255  # truths that a byte can add up
Counts = NDArray[np.integer]


@struct
class RowBlock:
    """Points that are evaluated together: some rows of a space, each with a part of its choices."""

    choices: tuple[slice, ...]
    rows: NDArray[np.intp]
    counts: Counts  # how many layouts a point of each row stands for

    @property
    def shape(self) -> tuple[int, ...]:
        """Points along each axis: choices, then rows."""
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
    def one_each(self) -> bool:
        """Whether every point is one layout."""
        return bool((self.counts == 1).all())

    def of_rows(self, rows: NDArray[np.intp] | slice) -> RowBlock:
        """Return the block of some of its rows."""
        return RowBlock(self.choices, self.rows[rows], self.counts[rows])

    def grouped(self, space: SearchSpace) -> BlockGrouping:
        """Return its points by the groups whose best are asked for."""
        if space.grouping is None:
            raise TypeError("no groups are asked for")
        return BlockGrouping(space.grouping, self.choices, self.rows, self.counts)

    def layouts(self, mask: Mask) -> int:
        """Return how many layouts the points of a mask are.

        Truths are added up as bytes, which is several times faster than as whole numbers, as many at once as a byte
        can hold.
        """
        if self.one_each:
            return int(np.count_nonzero(mask)) * (prod(self.shape) // mask.size)
        each = np.broadcast_to(mask, (*mask.shape[:-1], self.rows.size)).reshape(-1, self.rows.size).view(np.uint8)
        parts = (each[i : i + MOST_ADDED] for i in range(0, len(each), MOST_ADDED))
        rows = sum(part.sum(axis=0, dtype=np.uint8).astype(np.intp) for part in parts)
        return int(np.dot(rows, self.counts)) * (prod(self.shape[:-1]) // len(each))

    def layouts_of(self, points: NDArray[np.intp]) -> Counts:
        """Return how many layouts each of some points is, by its number in the block."""
        return np.ones(points.size, np.uint8) if self.one_each else self.counts[points % self.rows.size]


class RowMemory(NamedTuple):
    """What memory says of every point of a block, with an axis for each choice and one for the rows."""

    needed: Array  # bytes of a device
    layouts: Mask  # whether it keeps every rule
    fits: Mask  # whether it is a layout, and there is room for it
    near: Mask  # whether it is a layout that needs a little more memory than there is

    def of_rows(self, rows: NDArray[np.intp]) -> RowMemory:
        """Return those of some rows."""
        needed, layouts, fits, near = self
        return RowMemory(needed.take(rows, -1), layouts.take(rows, -1), fits.take(rows, -1), near.take(rows, -1))


@struct
class PlacedBlock:
    """A block twice: as rows of degrees, and with their placements."""

    degrees: RowBlock
    placed: RowBlock
    of: NDArray[np.intp]  # the row of ``degrees`` that each row of ``placed`` is of
    has_effect: Mask  # which choices have an effect with which rows of degrees: the others are no layouts

    @classmethod
    def unplaced_rows(cls, block: RowBlock) -> PlacedBlock:
        """Return a block each of whose rows stands for itself."""
        return cls(block, block, np.arange(block.rows.size), np.ones((1,) * len(block.shape), bool))

    @classmethod
    def between(cls, space: SearchSpace, choices: tuple[slice, ...], first: int, end: int) -> PlacedBlock:
        """Return the block of some rows of degrees of a space."""
        ends = np.append(space.degree_begins, space.rows)[first : end + 1]
        rows, counts = ends[:-1], space.counts[ends[0] : ends[-1]]
        placed = RowBlock(choices, np.arange(ends[0], ends[-1]), counts)
        has_effect = space.has_effect(choices, rows)
        if counts.size == rows.size:
            return cls(placed, placed, np.arange(rows.size), has_effect)
        together = np.add.reduceat(counts, rows - ends[0], dtype=np.intp)  # which NumPy makes unsigned, else
        of = np.repeat(np.arange(rows.size), np.diff(ends))
        return cls(RowBlock(choices, rows, together), placed, of, has_effect)

    @property
    def points(self) -> int:
        """How many points there are, placements among them, where choices have an effect."""
        if self.has_effect.size == 1:
            return prod(self.placed.shape)
        each = prod(self.placed.shape[:-1]) // prod(self.has_effect.shape[:-1])
        return each * int(self.has_effect.reshape(-1, self.degrees.rows.size).sum(axis=0)[self.of].sum())

    def of_rows(self, rows: NDArray[np.intp]) -> PlacedBlock:
        """Return the block with some of the placements."""
        return replace(self, placed=self.placed.of_rows(rows), of=self.of[rows])

    @property
    def unplaced(self) -> bool:
        """Whether each row of degrees is one row."""
        return self.placed is self.degrees
