"""Which layers each chunk of a model has, and which chunks each pipeline stage, for a table of layouts.

A *chunk* is a run of layers that a stage holds without a break (Megatron-LM's virtual pipeline stage). A stage has
``chunks_per_stage`` of them, numbered by ``vpp_rank``. All functions take a table with a row for each distinct layout.
"""

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
# Orders in which stages take chunks: every pp-th chunk to a stage (1F1B, interleaved), down the stages and up again
# (ZB-V), or both copies of the model from opposite ends (DualPipe).
ROUND_ROBIN, V_SHAPED, BIDIRECTIONAL = 0, 1, 2


def chunk_order_of(schedule: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the order in which the stages of a schedule take chunks.

    >>> chunk_order_of(np.asarray([Schedule.GPIPE, Schedule.ZB_V, Schedule.DUALPIPE])).tolist()
    [0, 1, 2]
    """
    v, both = Schedule.ZB_V.where(schedule), Schedule.DUALPIPE.where(schedule)
    return np.where(v, V_SHAPED, np.where(both, BIDIRECTIONAL, ROUND_ROBIN))


class ChunkAssignment(NamedTuple):
    """Rows of layouts: their pipeline stages, the chunks that each stage has, and the order in which stages take them.

    Arrays over rows; what is asked of the stages has them as its last axis, as many as the deepest pipeline has.
    """

    pp: Whole
    chunks_per_stage: Whole
    order: Whole

    @property
    def chunks(self) -> Whole:
        """Chunks of one copy of the model."""
        return np.where(self.order == BIDIRECTIONAL, self.pp, self.pp * self.chunks_per_stage)

    @property
    def stages(self) -> Whole:
        """The stage numbers of the deepest pipeline."""
        return np.arange(int(self.pp.max()))

    def chunk(self, vpp_rank: int) -> Whole:
        """Return the number of the chunk that each stage has at a ``vpp_rank``."""
        pp, stage = self.pp[:, None], self.stages[None, :]
        chunk: Whole = vpp_rank * pp + stage
        if vpp_rank == 1:
            order = self.order[:, None]
            chunk = np.where(
                order == V_SHAPED, 2 * pp - 1 - stage, np.where(order == BIDIRECTIONAL, pp - 1 - stage, chunk)
            )
        return chunk

    def has(self, vpp_rank: int) -> NDArray[np.bool_]:
        """Return which stages exist and have a chunk at a ``vpp_rank``."""
        return np.asarray((self.stages[None, :] < self.pp[:, None]) & (vpp_rank < self.chunks_per_stage[:, None]))

    def stage_of(self, chunk: Whole) -> Whole:
        """Return the stage of a chunk of each row, in the first copy of the model."""
        pp, order = (each.reshape(-1, *(1,) * (chunk.ndim - 1)) for each in (self.pp, self.order))
        return np.where(order == V_SHAPED, np.minimum(chunk, 2 * pp - 1 - chunk), chunk % pp)

    def by_chunk(self, by_rank: Sequence[Whole]) -> Whole:
        """Return numbers of stages, given for each ``vpp_rank``, by chunk of the model's first copy (the last axis)."""
        made = np.zeros((*by_rank[0].shape[:-1], int(self.chunks.max())), np.int64)
        for vpp_rank, of_stages in enumerate(by_rank):
            has = self.has(vpp_rank) & ((vpp_rank == 0) | (self.order != BIDIRECTIONAL))[:, None]
            row, stage = np.nonzero(has)
            made[row, ..., self.chunk(vpp_rank)[row, stage]] = of_stages[row, ..., stage]
        return made

    def stage_mask(self, chunk: Whole) -> Whole:
        """Return 1 at the stages that have a chunk of each row, in every copy of the model, 0 at the others."""
        row, stage = np.arange(len(self.pp)), self.stage_of(chunk)
        marks = np.zeros((len(self.pp), self.stages.size), np.int64)
        marks[row, stage] = 1
        both = np.flatnonzero(self.order == BIDIRECTIONAL)
        marks[both, (self.pp - 1 - stage)[both]] = 1
        return marks


def assign_chunks(pp: Whole, vpp: Whole, order: Whole, layers: Whole) -> ChunkAssignment:
    """Return the chunks of each layout's stages.

    Where a layout has more chunks than layers it breaks a rule, which is told elsewhere: it gets as many as it can.

    >>> row = assign_chunks(*(np.asarray([number]) for number in (4, 1, V_SHAPED, 24)))
    >>> [row.chunk(vpp_rank)[0].tolist() for vpp_rank in (0, 1)]
    [[0, 1, 2, 3], [7, 6, 5, 4]]
    """
    pp = np.clip(pp, 1, np.maximum(layers, 1))
    order = np.where((order == V_SHAPED) & (layers < 2 * pp), ROUND_ROBIN, order)
    vpp = np.clip(vpp, 1, np.maximum((layers + ENDS) // pp, 1))
    return ChunkAssignment(pp, np.where(order == ROUND_ROBIN, vpp, 2), order)


def chunk_bounds(layers: Whole, chunks: Whole, code: Whole, texts: tuple[str, ...]) -> tuple[Whole, Whole]:
    """Return the bounds of each row's chunks in layers, and how many chunks from the end MTP modules are."""
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
        sizes = stated.layers(count, int(layers[number]))
        if sizes is not None:  # else a rule is broken, which is told elsewhere
            bounds[number, : count + 1] = np.concatenate([[0], np.cumsum(sizes)])
            mtp[number] = stated.mtp
    return bounds, mtp


def summed_by_stage(chunks: Whole, assignment: ChunkAssignment) -> Whole:
    """Return numbers of chunks (the last axis) summed over the chunks of each stage."""
    total = np.zeros((*chunks.shape[:-1], assignment.stages.size), np.int64)
    for vpp_rank in range(int(assignment.chunks_per_stage.max())):
        place = np.minimum(assignment.chunk(vpp_rank), chunks.shape[-1] - 1)[:, None, :]
        total += np.take_along_axis(chunks, place, axis=-1) * assignment.has(vpp_rank)[:, None, :]
    return total


def recomputed_by_rank(
    layers_before: Whole, pattern: Whole, bounds: Whole, assignment: ChunkAssignment, recomputed: Whole
) -> list[Whole]:
    """Return for each ``vpp_rank`` the layers of each kind that are recomputed: the first so many of every stage.

    ``layers_before`` counts, for each pattern and kind, the layers before any place in the model.
    """
    kinds = np.arange(layers_before.shape[1])
    of_a_stage = np.where(recomputed == ALL, np.iinfo(np.int32).max, recomputed)
    left = np.repeat(of_a_stage[:, None], assignment.stages.size, axis=1)
    by_rank = []
    for vpp_rank in range(int(assignment.chunks_per_stage.max())):
        chunk = np.clip(assignment.chunk(vpp_rank), 0, bounds.shape[1] - 2)
        begin, end = (np.take_along_axis(bounds, chunk + i, axis=1) for i in range(2))
        taken = np.where(assignment.has(vpp_rank), np.minimum(end - begin, left), 0)
        first, last = (
            layers_before[pattern[:, None, None], kinds[None, :, None], place[:, None, :]]
            for place in (begin, begin + taken)
        )
        by_rank.append(last - first)
        left = left - taken
    return by_rank
