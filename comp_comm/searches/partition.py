"""How a space is cut into blocks: about equal ranges of rows of degrees, with all their placements and choices.

Blocks have numbers, and depend on the space alone: so workers can be given ranges of numbers, and a search that was
killed goes on at the number it had come to.
"""

from __future__ import annotations

from itertools import accumulate
from math import prod

import numpy as np

from comp_comm.searches.blocks import PlacedBlock, RowBlock
from comp_comm.searches.space import SearchSpace
from comp_comm.sweeps.blocks import extent

BLOCK_POINTS = 2**19  # of a block, before placements: many rows share what they cost, and arrays are not too large
LEAST_ROWS = 64


def block_count(space: SearchSpace) -> int:
    """Return how many blocks a space has."""
    return sum(blocks for _, _, _, blocks in _segments(space))


def nth_block(space: SearchSpace, number: int) -> PlacedBlock:
    """Return one of the blocks of a space by its number."""
    segments = _segments(space)
    ends = list(accumulate(blocks for _, _, _, blocks in segments))
    place = next(i for i, end in enumerate(ends) if number < end)
    first, end, choices, blocks = segments[place]
    part = number - (ends[place] - blocks)
    begin, stop = (first + (end - first) * i // blocks for i in (part, part + 1))
    return PlacedBlock.between(space, choices, begin, stop)


def rows_at_once(block: RowBlock) -> int:
    """Return how many rows of a block, placements among them, are timed together."""
    return max(1, BLOCK_POINTS // prod(block.shape[:-1]))


def _segments(space: SearchSpace) -> list[tuple[int, int, tuple[slice, ...], int]]:
    """Return the segments of a space as ranges of rows of degrees: first, end, choices, and how many blocks each is."""
    segments = []
    for first, end, choices in space.joined_segments(BLOCK_POINTS):
        begin, stop = np.searchsorted(space.degree_begins, (first, end)).tolist()
        rows = max(LEAST_ROWS, BLOCK_POINTS // prod(extent(choices)))
        segments.append((begin, stop, choices, -(-(stop - begin) // rows)))
    return segments
