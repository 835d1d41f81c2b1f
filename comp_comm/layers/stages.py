"""Pipeline stages: the layers each has, and which of them can be the slowest or need the most memory.

A stage that has no more layers of any kind than another one can be neither. So only the Pareto front of the stages (by
their layers of each kind) is kept, and the first and the last stage, which have the embedding and the head. It is found
in a table with a row for each distinct layout of a study, not for each of its points.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from comp_comm.distinct import distinct_rows
from comp_comm.formulas.arrays import Array, Numeric, everywhere, isnan, maximum, somewhere, to_codes, to_float, where
from comp_comm.formulas.pipeline import chunk_boundaries
from comp_comm.layers.chunk_assignment import (
    ALL,
    BIDIRECTIONAL,
    ChunkAssignment,
    Whole,
    assign_chunks,
    chunk_bounds,
    chunk_order_of,
    recomputed_by_rank,
    summed_by_stage,
)
from comp_comm.layers.pattern import Pattern, PatternKey, counted_layers
from comp_comm.layout import Layout
from comp_comm.lazy import cached_property
from comp_comm.structs import struct


class Stage(NamedTuple):
    """A stage: its layers of each kind, and how many of these are recomputed in full, or have their activations in the
    host's memory: a layout has one or the other.

    ``embedding`` and ``head`` are 1 where it has them, ``place`` is its number from 0: that of the first of those
    alike.
    """

    layer_counts: tuple[Array, ...]
    recomputed_or_offloaded: tuple[Array, ...]
    embedding: Array
    head: Array
    place: Array

    @property
    def total_layers(self) -> Array:
        """Layers of all kinds."""
        return to_float(sum(self.layer_counts, to_float(0.0)))


@struct
class Stages:
    """The candidates for slowest and fullest stage: the first, the last, and those between that no other one dominates.

    ``recomputed_or_offloaded`` are the layers of each kind, over all stages of one copy of the model, that full
    recomputation, or the host's memory, is for.
    """

    candidates: tuple[Stage, ...]
    recomputed_or_offloaded: tuple[Array, ...]
    table: StageTable
    row: NDArray[np.intp]

    @property
    def last_has_most(self) -> bool:
        """Whether the last stage has all that the first one has everywhere, but for an embedding where it has a head.

        ``candidates`` has the first stage, then the last, then others.
        """
        return self.table.last_has_most

    @cached_property
    def runs(self) -> tuple[tuple[Stage, Array], ...]:
        """The chunks of the model in order, each with how many like it follow each other; of two copies, the first.

        Where stages have one chunk, these are the stages. ``place`` is the stage of the first chunk of a run.
        """
        return tuple(
            (self.table.runs.stage(number, self.row), _each(count, self.row))
            for number, count in enumerate(self.table.counts)
        )


def stages_of(pattern: Pattern, layout: Layout) -> Stages:
    """Return the stages of a model with that pattern of layers on a resolved layout.

    >>> from comp_comm.layers.pattern import pattern_of
    >>> from comp_comm.transformer import Transformer, resolved
    >>> model = resolved(Transformer(64, 64, layers=61, heads=4, experts=8, top_k=2, dense_layers=3, vocab=9))
    >>> stages = stages_of(pattern_of(model), Layout(pp=16)).candidates
    >>> [[int(count) for count in stage.layer_counts] for stage in stages]  # dense layers and layers of experts
    [[3, 0], [0, 2], [0, 4]]
    """
    # Whole layers are recomputed, or their activations are offloaded to the host, never both.
    recomputed, offloaded = to_float(layout.recompute_layers), to_float(layout.offload_activations)
    given = recomputed if everywhere(isnan(offloaded)) else where(isnan(offloaded), recomputed, offloaded)
    chosen = where(isnan(given), ALL, given)
    order = chunk_order_of(to_codes(layout.schedule))
    given_numbers = (pattern.row, pattern.layers, pattern.mtp, layout.pp, layout.vpp, chosen, order)
    numbers = [to_float(number) for number in given_numbers]
    codes = layout.pp_layout.codes if layout.pp_layout.given else np.asarray(0)
    rows, row = _distinct([*numbers, to_float(codes)])
    table = _stage_table(pattern.key, rows, layout.pp_layout.texts)

    candidates = tuple(table.candidates.stage(number, row) for number in range(len(table.candidates.place)))
    again = tuple(_each(table.recomputed_or_offloaded[:, k], row) for k in range(len(pattern.kinds)))
    return Stages(candidates, again, table, row)


def _each(values: NDArray[np.float64], row: NDArray[np.intp]) -> Array:
    """Return what each point has of a column of a table; without an axis where all have the same."""
    return to_float(values[0]) if len(values) == 1 or everywhere(values == values[0]) else values[row]


def _distinct(numbers: list[Array]) -> tuple[tuple[tuple[int, ...], ...], NDArray[np.intp]]:
    """Return the distinct rows of whole numbers that broadcast, and which of them each point has."""
    if all(number.size == 1 for number in numbers):
        return (tuple(int(number.item()) for number in numbers),), np.asarray(0, np.intp)
    columns = np.broadcast_arrays(*numbers)
    flat = [column.reshape(-1) for column in columns]
    table = distinct_rows(flat, flat[0].size)
    rows = zip(*(np.floor(column[table.first]).astype(np.int64).tolist() for column in flat), strict=True)
    return tuple(rows), table.row.reshape(columns[0].shape)


class StageRows(NamedTuple):
    """Some stages along the first axis, layouts along the next, kinds of layers along the last."""

    layers: NDArray[np.float64]
    recomputed: NDArray[np.float64]
    embedding: NDArray[np.float64]
    head: NDArray[np.float64]
    place: NDArray[np.float64]

    def stage(self, number: int, row: NDArray[np.intp]) -> Stage:
        """Return one of the stages, as the points see it."""
        layers, recomputed = (
            tuple(_each(column, row) for column in table[number].T) for table in (self.layers, self.recomputed)
        )
        ends = (_each(table[number], row) for table in (self.embedding, self.head, self.place))
        return Stage(layers, recomputed, *ends)


class StageTable(NamedTuple):
    """The candidates for slowest and fullest stage, the first chunks of runs of chunks that are alike with how many
    there are, and the layers of each kind of a copy of the model that are recomputed in full or offloaded."""

    candidates: StageRows
    runs: StageRows
    counts: NDArray[np.float64]
    recomputed_or_offloaded: NDArray[np.float64]

    @property
    def last_has_most(self) -> bool:
        """Whether every layout's last stage has all that the first has, but for an embedding where it has a head."""
        if len(self.candidates.place) == 1:
            return False
        (layers, more), (again, again_more) = self.candidates.layers[:2], self.candidates.recomputed[:2]
        (embedding, other), (head, other_head) = self.candidates.embedding[:2], self.candidates.head[:2]
        return bool(everywhere(more >= layers) and everywhere(again_more >= again)
                    and everywhere(other_head - head >= maximum(embedding - other, 0.0)))  # fmt: skip


@lru_cache(maxsize=64)
def _stage_table(key: PatternKey, rows: tuple[tuple[int, ...], ...], texts: tuple[str, ...]) -> StageTable:
    """Return the table for distinct rows of pattern, layers, MTP modules, pp, vpp, recomputed layers, order, text."""
    pattern, layers, mtp, pp, vpp, recomputed, order, code = (
        np.asarray(column, np.int64) for column in zip(*rows, strict=True)
    )
    assignment = assign_chunks(pp, vpp, order, layers)
    bounds, mtp_chunk = chunk_bounds(layers, assignment.chunks, code, texts)
    before = counted_layers(key).before
    until = before[pattern[:, None, None], np.arange(before.shape[1])[None, :, None], bounds[:, None, :]]
    of_chunks = np.diff(until, axis=-1)[:, :, : int(assignment.chunks.max())]
    of_stages = summed_by_stage(of_chunks, assignment)
    if (recomputed == ALL).all():
        recomputed_of_chunks, recomputed_of_stages = of_chunks, of_stages
    else:
        by_rank = recomputed_by_rank(before, pattern, bounds, assignment, recomputed)
        recomputed_of_chunks, recomputed_of_stages = assignment.by_chunk(by_rank), np.sum(by_rank, axis=0)
    first, last = np.zeros_like(assignment.chunks), assignment.chunks - 1
    chunk = np.arange(of_chunks.shape[-1])[None, :]
    stages = Counted(of_stages, recomputed_of_stages, *(assignment.stage_mask(end) for end in (first, last)))
    chunks = Counted(of_chunks, recomputed_of_chunks, *(np.int64(chunk == end[:, None]) for end in (first, last)))
    if key.has_mtp:
        module, place = counted_layers(key).modules[pattern], (last - mtp_chunk) % assignment.chunks
        repeats = np.where(recomputed == ALL, mtp, 0)
        stages.add_modules(module, assignment.stage_mask(place), mtp, repeats)
        chunks.add_modules(module, np.int64(chunk == place[:, None]), mtp, repeats)
    return _table_of(stages, chunks, assignment)


class Counted(NamedTuple):
    """What stages, or chunks, have: layers and recomputed layers by row, kind and stage; embedding and head by row."""

    layers: Whole
    recomputed: Whole
    embedding: Whole
    head: Whole

    @property
    def distinguishing(self) -> Whole:
        """Numbers that together tell how long a stage takes and how much it keeps: of more, neither can be less."""
        return np.concatenate([self.recomputed, self.layers - self.recomputed], axis=1)

    def add_modules(self, kind: NDArray[np.intp], where_held: Whole, modules: Whole, recomputed: Whole) -> None:
        """Count modules of multi-token prediction, a kind of layer of their own, where they are held."""
        row, there = np.arange(len(kind)), where_held * modules[:, None]
        self.layers[row, kind] = np.where(there > 0, there, self.layers[row, kind])
        again = where_held * recomputed[:, None]
        self.recomputed[row, kind] = np.where(there > 0, again, self.recomputed[row, kind])

    def select(self, number: Whole, place: Whole) -> StageRows:
        """Return the stages (or chunks) of some numbers in each row; ``place`` is the stage that each is."""
        row = np.arange(number.shape[1])[None, :]
        layers, recomputed = (to_float(values[row, :, number]) for values in (self.layers, self.recomputed))
        embedding, head = (to_float(values[row, number]) for values in (self.embedding, self.head))
        return StageRows(layers, recomputed, embedding, head, to_float(place))


def _table_of(stages: Counted, chunks: Counted, assignment: ChunkAssignment) -> StageTable:
    copies = where(assignment.order == BIDIRECTIONAL, 2.0, 1.0)[:, None]
    candidates = _candidate_stages(stages.distinguishing, assignment.pp)
    first, repeats = _runs(chunks, assignment)
    return StageTable(
        candidates=stages.select(candidates, candidates),
        runs=chunks.select(first, assignment.stage_of(first.T).T),
        counts=to_float(repeats),
        recomputed_or_offloaded=stages.recomputed.sum(axis=-1) / copies,
    )


def _runs(chunks: Counted, assignment: ChunkAssignment) -> tuple[Whole, Whole]:
    """Return for each row the first chunk of each run of like chunks, and how many are in it."""
    numbers = np.concatenate([chunks.distinguishing, chunks.embedding[:, None], chunks.head[:, None]], axis=1)
    count, chunk = assignment.chunks[:, None], np.arange(numbers.shape[-1])[None, :]
    change = np.any(numbers[:, :, 1:] != numbers[:, :, :-1], axis=1) & (chunk[:, 1:] < count)
    run = np.concatenate([np.zeros((len(count), 1), np.int64), np.cumsum(change, axis=1)], axis=1)
    members = [(run == number) & (chunk < count) for number in range(int(run.max()) + 1)]
    return np.stack([each.argmax(axis=1) for each in members]), np.stack([each.sum(axis=1) for each in members])


def _candidate_stages(numbers: Whole, pp: Whole) -> Whole:
    """Return the stages of each row that can be the slowest or the fullest: first, last, and the front of the others.

    ``numbers`` are `Counted.distinguishing`. Rows with fewer such stages name their first one again.
    """
    rows, stages = len(pp), numbers.shape[-1]
    number = np.arange(stages)[None, :]
    row, stage = np.nonzero((number > 0) & (number < pp[:, None] - 1))
    between = np.zeros((rows, 0), np.intp)
    if row.size:
        values = numbers[row, :, stage]
        codes = distinct_rows(list(values.T), row.size).row
        _, first = np.unique(row * (codes.max() + 1) + codes, return_index=True)
        first.sort()  # by row, and in a row by stage
        between = _non_dominated(numbers, row[first], stage[first])
    last = np.where(pp > 1, pp - 1, 0)
    begin = np.zeros((rows, 1), np.intp)
    candidates: Whole = np.concatenate([begin, last[:, None], between], axis=1) if somewhere(pp > 1) else begin
    return np.asarray(candidates.T)


def _non_dominated(numbers: Whole, row: NDArray[np.intp], stage: NDArray[np.intp]) -> Whole:
    """Return those of some inner stages that no earlier one of their row dominates, 0 for the others.

    One stage dominates another if none of its ``numbers`` is less.
    """
    begin = np.searchsorted(row, np.arange(len(numbers)))
    place = np.arange(row.size) - begin[row]
    listed = np.zeros((len(numbers), int(place.max()) + 1), np.intp)
    listed[row, place] = stage
    values = np.take_along_axis(numbers, listed[:, None, :], axis=-1)
    for later in range(listed.shape[1]):
        earlier = np.concatenate([numbers[:, :, :1], values[:, :, :later]], axis=-1)
        dominated = np.any(np.all(earlier >= values[:, :, [later]], axis=1), axis=1)
        listed[dominated, later] = 0
    # One after the other, so that the place of a stage depends on no other row.
    listed = np.take_along_axis(listed, np.argsort(listed == 0, axis=1, kind="stable"), axis=1)
    return np.asarray(listed[:, np.flatnonzero(listed.max(axis=0))])


def stage_layers(layers: Numeric, pp: Numeric, vpp: Numeric = 1) -> list[int]:
    """Return the layers of each stage of one model, as they are assigned where a study does not say.

    >>> stage_layers(126, 16)
    [7, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 7]
    """
    count, stages, chunks = (int(number) for number in (layers, pp, vpp))
    bounds = chunk_boundaries(count, stages * chunks, to_float(np.arange(stages * chunks + 1)))
    sizes = np.diff(bounds).reshape(chunks, stages).sum(axis=0)
    return [int(size) for size in sizes]
