"""How layers are dealt out to the chunks of a model, and chunks to the stages of a pipeline, for a table of layouts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from comp_comm.choices import Schedule
from comp_comm.formulas.arrays import to_float
from comp_comm.formulas.pipeline import chunk_boundaries
from comp_comm.stage_layout import ENDS, TORCHTITAN, parse_stage_layout

Whole = NDArray[np.int64]
ALL = -1  # recompute_layers that is not given: full recomputation is for all layers
# Ways to deal chunks out: every pp-th to a stage, down the stages and up again, or once from either end.
IN_TURN, V_SHAPED, BOTH_ENDS = 0, 1, 2


def way_of(schedule: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return how a schedule deals chunks out.

    >>> way_of(np.asarray([Schedule.GPIPE, Schedule.ZB_V, Schedule.DUALPIPE])).tolist()
    [0, 1, 2]
    """
    v, both = Schedule.ZB_V.where(schedule), Schedule.DUALPIPE.where(schedule)
    return np.where(v, V_SHAPED, np.where(both, BOTH_ENDS, IN_TURN))


class Dealing(NamedTuple):
    """Rows of layouts: stages, chunks that a stage has, and how they are dealt out."""

    pp: Whole
    held: Whole
    way: Whole

    @property
    def chunks(self) -> Whole:
        """Chunks of the model; of two copies, those of one."""
        return np.where(self.way == BOTH_ENDS, self.pp, self.pp * self.held)

    @property
    def stages(self) -> Whole:
        """The numbers of the stages of the row that has most."""
        return np.arange(int(self.pp.max()))

    def chunk(self, turn: int) -> Whole:
        """Return the number of the chunk that each stage (the last axis) has at its ``turn``."""
        pp, stage = self.pp[:, None], self.stages[None, :]
        chunk: Whole = turn * pp + stage
        if turn == 1:
            way = self.way[:, None]
            chunk = np.where(way == V_SHAPED, 2 * pp - 1 - stage, np.where(way == BOTH_ENDS, pp - 1 - stage, chunk))
        return chunk

    def has(self, turn: int) -> NDArray[np.bool_]:
        """Return which stages there are that have a chunk at this ``turn``."""
        return np.asarray((self.stages[None, :] < self.pp[:, None]) & (turn < self.held[:, None]))

    def stage_of(self, chunk: Whole) -> Whole:
        """Return the stage of a chunk of each row; of two copies, that of the first."""
        pp, way = (each.reshape(-1, *(1,) * (chunk.ndim - 1)) for each in (self.pp, self.way))
        return np.where(way == V_SHAPED, np.minimum(chunk, 2 * pp - 1 - chunk), chunk % pp)

    def by_chunk(self, turns: Sequence[Whole]) -> Whole:
        """Return what the stages (the last axis) have at each turn by the chunks of the model; of two copies, the first
        one's."""
        made = np.zeros((*turns[0].shape[:-1], int(self.chunks.max())), np.int64)
        for turn, of_stages in enumerate(turns):
            has = self.has(turn) & ((turn == 0) | (self.way != BOTH_ENDS))[:, None]
            row, stage = np.nonzero(has)
            made[row, ..., self.chunk(turn)[row, stage]] = of_stages[row, ..., stage]
        return made

    def marked(self, chunk: Whole) -> Whole:
        """Return 1 at the stages (the last axis) of a chunk of each row, of both copies where there are two."""
        row, stage = np.arange(len(self.pp)), self.stage_of(chunk)
        marks = np.zeros((len(self.pp), self.stages.size), np.int64)
        marks[row, stage] = 1
        both = np.flatnonzero(self.way == BOTH_ENDS)
        marks[both, (self.pp - 1 - stage)[both]] = 1
        return marks


def dealing_of(pp: Whole, vpp: Whole, way: Whole, layers: Whole) -> Dealing:
    """Return how chunks are dealt out; points with more chunks than layers break a rule, and need only be something.

    >>> row = dealing_of(*(np.asarray([number]) for number in (4, 1, V_SHAPED, 24)))
    >>> [row.chunk(turn)[0].tolist() for turn in (0, 1)]
    [[0, 1, 2, 3], [7, 6, 5, 4]]
    """
    pp = np.clip(pp, 1, np.maximum(layers, 1))
    way = np.where((way == V_SHAPED) & (layers < 2 * pp), IN_TURN, way)
    vpp = np.clip(vpp, 1, np.maximum((layers + ENDS) // pp, 1))
    return Dealing(pp, np.where(way == IN_TURN, vpp, 2), way)


def chunk_bounds(layers: Whole, chunks: Whole, code: Whole, texts: tuple[str, ...]) -> tuple[Whole, Whole]:
    """Return where the chunks of each row begin and end, and how far from the end MTP modules are."""
    most = int(chunks.max())
    edges = np.arange(most + 1, dtype=np.float64)
    bounds = chunk_boundaries(to_float(layers[:, None]), to_float(chunks[:, None]), edges).astype(np.int64)
    mtp = np.zeros(len(chunks), np.int64)
    for number in np.flatnonzero([bool(texts[i]) for i in code]):
        text, count = texts[code[number]], int(chunks[number])
        if text == TORCHTITAN:
            bounds[number] = chunk_boundaries(float(layers[number]), count, edges, ends=True)
            continue
        stated = parse_stage_layout(text)
        dealt = stated.layers(count, int(layers[number]))
        if dealt is not None:  # else a rule is broken
            bounds[number, : count + 1] = np.concatenate([[0], np.cumsum(dealt)])
            mtp[number] = stated.mtp
    return bounds, mtp


def dealt(chunks: Whole, dealing: Dealing) -> Whole:
    """Return what each stage has of what the chunks (the last axis) have."""
    total = np.zeros((*chunks.shape[:-1], dealing.stages.size), np.int64)
    for turn in range(int(dealing.held.max())):
        place = np.minimum(dealing.chunk(turn), chunks.shape[-1] - 1)[:, None, :]
        total += np.take_along_axis(chunks, place, axis=-1) * dealing.has(turn)[:, None, :]
    return total


def repeated(before: Whole, pattern: Whole, bounds: Whole, dealing: Dealing, again: Whole) -> list[Whole]:
    """Return for each turn the layers of each kind that are computed again: the first ``again`` of every stage."""
    kinds = np.arange(before.shape[1])
    left = np.repeat(np.where(again == ALL, np.iinfo(np.int32).max, again)[:, None], dealing.stages.size, axis=1)
    turns = []
    for turn in range(int(dealing.held.max())):
        chunk = np.clip(dealing.chunk(turn), 0, bounds.shape[1] - 2)
        begin, end = (np.take_along_axis(bounds, chunk + i, axis=1) for i in range(2))
        taken = np.where(dealing.has(turn), np.minimum(end - begin, left), 0)
        first, last = (
            before[pattern[:, None, None], kinds[None, :, None], place[:, None, :]] for place in (begin, begin + taken)
        )
        turns.append(last - first)
        left = left - taken
    return turns
