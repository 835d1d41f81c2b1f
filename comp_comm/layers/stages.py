"""Pipeline stages: how layers are dealt out to them, and which stages differ.

Only stages that differ matter: the slowest and the fullest are among them. They are found in a table with a row for
each distinct layout of a study, not for each of its points.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from comp_comm.distinct import distinct_rows
from comp_comm.formulas.arrays import Array, Numeric, everywhere, isnan, maximum, somewhere, to_codes, to_float, where
from comp_comm.formulas.pipeline import chunk_boundaries
from comp_comm.layers.dealing import ALL, BOTH_ENDS, Dealing, Whole, chunk_bounds, dealing_of, dealt, repeated, way_of
from comp_comm.layers.pattern import Pattern, PatternKey, counted_layers
from comp_comm.layout import Layout
from comp_comm.lazy import cached_property


class Stage(NamedTuple):
    """A stage: its layers of each kind, and of these those that full recomputation, or the host's memory, is for.

    ``embedding`` and ``head`` are 1 where it has them, ``place`` is its number from 0: that of the first of those
    alike.
    """

    layers: tuple[Array, ...]
    recomputed: tuple[Array, ...]
    embedding: Array
    head: Array
    place: Array

    @property
    def layer_count(self) -> Array:
        """Layers of all kinds."""
        return to_float(sum(self.layers, to_float(0.0)))


@dataclass(frozen=True, eq=False)
class Stages:
    """The stages that differ: the first, the last, and those between that no other one outdoes in any kind of layers.

    ``recomputed`` are the layers of each kind, over all stages of one copy of the model, that full recomputation is
    for.
    """

    distinct: tuple[Stage, ...]
    recomputed: tuple[Array, ...]
    table: StageTable
    row: NDArray[np.intp]

    @property
    def last_has_most(self) -> bool:
        """Whether the last stage has all that the first one has everywhere, but for an embedding where it has a head.

        ``distinct`` has the first stage, then the last, then others.
        """
        return self.table.last_has_most

    @cached_property
    def runs(self) -> tuple[tuple[Stage, Array], ...]:
        """The chunks of the model in order, each as often as it is repeated; of two copies, those of the first one.

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
    >>> stages = stages_of(pattern_of(model), Layout(pp=16)).distinct
    >>> [[int(count) for count in stage.layers] for stage in stages]  # dense layers and layers of experts
    [[3, 0], [0, 2], [0, 4]]
    """
    # Layers are made again whole, or kept in the host's memory, never both.
    again, away = to_float(layout.recompute_layers), to_float(layout.offload_activations)
    given = again if everywhere(isnan(away)) else where(isnan(away), again, away)
    again = where(isnan(given), ALL, given)
    way = way_of(to_codes(layout.schedule))
    given_numbers = (pattern.row, pattern.layers, pattern.mtp, layout.pp, layout.vpp, again, way)
    numbers = [to_float(number) for number in given_numbers]
    codes = layout.pp_layout.codes if layout.pp_layout.given else np.asarray(0)
    rows, row = _distinct([*numbers, to_float(codes)])
    table = _stage_table(pattern.key, rows, layout.pp_layout.texts)

    distinct = tuple(table.distinct.stage(number, row) for number in range(len(table.distinct.place)))
    return Stages(distinct, tuple(_each(table.total[:, k], row) for k in range(len(pattern.kinds))), table, row)


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


class ListedStages(NamedTuple):
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
    """The stages that differ, the first chunks of runs of chunks that are alike with how many there are, and the layers
    of each kind that full recomputation is for."""

    distinct: ListedStages
    runs: ListedStages
    counts: NDArray[np.float64]
    total: NDArray[np.float64]

    @property
    def last_has_most(self) -> bool:
        """Whether every layout's last stage has all that the first has, but for an embedding where it has a head."""
        if len(self.distinct.place) == 1:
            return False
        (layers, more), (again, again_more) = self.distinct.layers[:2], self.distinct.recomputed[:2]
        (embedding, other), (head, other_head) = self.distinct.embedding[:2], self.distinct.head[:2]
        return bool(everywhere(more >= layers) and everywhere(again_more >= again)
                    and everywhere(other_head - head >= maximum(embedding - other, 0.0)))  # fmt: skip


@lru_cache(maxsize=64)
def _stage_table(key: PatternKey, rows: tuple[tuple[int, ...], ...], texts: tuple[str, ...]) -> StageTable:
    pattern, layers, mtp, pp, vpp, again, way, code = (
        np.asarray(column, np.int64) for column in zip(*rows, strict=True)
    )
    dealing = dealing_of(pp, vpp, way, layers)
    bounds, mtp_chunk = chunk_bounds(layers, dealing.chunks, code, texts)
    before = counted_layers(key).before
    held = before[pattern[:, None, None], np.arange(before.shape[1])[None, :, None], bounds[:, None, :]]
    chunks = np.diff(held, axis=-1)[:, :, : int(dealing.chunks.max())]
    counts = dealt(chunks, dealing)
    everything = bool((again == ALL).all())
    turns = [] if everything else repeated(before, pattern, bounds, dealing, again)
    again_of = counts if everything else np.sum(turns, axis=0)
    chunks_again = chunks if everything else dealing.by_chunk(turns)
    if key.has_mtp:
        module, rank, last = counted_layers(key).modules[pattern], np.arange(len(pp)), dealing.chunks - 1
        place = (last - mtp_chunk) % dealing.chunks
        repeats = np.where(again == ALL, mtp, 0)
        for made, kept, where in ((counts, again_of, dealing.marked(place)),
                                  (chunks, chunks_again, np.arange(chunks.shape[-1]) == place[:, None])):  # fmt: skip
            there = where * mtp[:, None]
            made[rank, module] = np.where(there > 0, there, made[rank, module])
            kept[rank, module] = np.where(there > 0, where * repeats[:, None], kept[rank, module])
    first, last = np.zeros_like(dealing.chunks), dealing.chunks - 1
    ends = np.stack([dealing.marked(first), dealing.marked(last)])
    at_ends = np.stack([np.arange(chunks.shape[-1]) == place[:, None] for place in (first, last)])
    return _table((counts, again_of, ends), (chunks, chunks_again, at_ends.astype(np.int64)), dealing)


Held = tuple[Whole, Whole, Whole]  # layers by row, kind and place, those of them made again, and embedding and head


def _table(stages: Held, chunks: Held, dealing: Dealing) -> StageTable:
    """Return the table of stages that differ, and of runs of chunks, from what stages and chunks have."""
    counts, again, _ = stages
    copies = where(dealing.way == BOTH_ENDS, 2.0, 1.0)[:, None]
    held = np.concatenate([again, counts - again], axis=1)
    number = _listed(held, dealing.pp)
    first, repeats = _runs(chunks, dealing)
    return StageTable(_held(stages, number, number), _held(chunks, first, dealing.stage_of(first.T).T),
                      to_float(repeats), again.sum(axis=-1) / copies)  # fmt: skip


def _held(has: Held, number: Whole, place: Whole) -> ListedStages:
    row = np.arange(number.shape[1])[None, :]
    layers, recomputed = (to_float(values[row, :, number]) for values in has[:2])
    embedding, head = (to_float(each[row, number]) for each in has[2])
    return ListedStages(layers, recomputed, embedding, head, to_float(place))


def _runs(has: Held, dealing: Dealing) -> tuple[Whole, Whole]:
    """Return for each row the first chunk of each run of like chunks, and how many are in it."""
    counts, again, ends = has
    held = np.concatenate([again, counts - again, np.moveaxis(ends, 0, 1)], axis=1)
    chunks, places = dealing.chunks[:, None], np.arange(counts.shape[-1])[None, :]
    change = np.any(held[:, :, 1:] != held[:, :, :-1], axis=1) & (places[:, 1:] < chunks)
    number = np.concatenate([np.zeros((len(chunks), 1), np.int64), np.cumsum(change, axis=1)], axis=1)
    members = [(number == run) & (places < chunks) for run in range(int(number.max()) + 1)]
    return np.stack([each.argmax(axis=1) for each in members]), np.stack([each.sum(axis=1) for each in members])


def _listed(held: Whole, pp: Whole) -> Whole:
    """Return for each row the stages that are not outdone: the first, the last, and others that have more of something.

    Rows with fewer such stages name their first one again.
    """
    rows, stages = len(pp), held.shape[-1]
    number = np.arange(stages)[None, :]
    row, stage = np.nonzero((number > 0) & (number < pp[:, None] - 1))
    between = np.zeros((rows, 0), np.intp)
    if row.size:
        values = held[row, :, stage]
        codes = distinct_rows(list(values.T), row.size).row
        _, first = np.unique(row * (codes.max() + 1) + codes, return_index=True)
        first.sort()  # by row, and in a row by stage
        between = _undone(held, row[first], stage[first])
    last = np.where(pp > 1, pp - 1, 0)
    begin = np.zeros((rows, 1), np.intp)
    unlike: Whole = np.concatenate([begin, last[:, None], between], axis=1) if somewhere(pp > 1) else begin
    return np.asarray(unlike.T)


def _undone(held: Whole, row: NDArray[np.intp], stage: NDArray[np.intp]) -> Whole:
    """Return those of some stages between the ends that no earlier one of their row outdoes, 0 for the others."""
    begin = np.searchsorted(row, np.arange(len(held)))
    place = np.arange(row.size) - begin[row]
    listed = np.zeros((len(held), int(place.max()) + 1), np.intp)
    listed[row, place] = stage
    values = np.take_along_axis(held, listed[:, None, :], axis=-1)
    for later in range(listed.shape[1]):
        earlier = np.concatenate([held[:, :, :1], values[:, :, :later]], axis=-1)
        outdone = np.any(np.all(earlier >= values[:, :, [later]], axis=1), axis=1)
        listed[outdone, later] = 0
    # One after the other, so that the place of a stage depends on no other row.
    listed = np.take_along_axis(listed, np.argsort(listed == 0, axis=1, kind="stable"), axis=1)
    return np.asarray(listed[:, np.flatnonzero(listed.max(axis=0))])


def stage_layers(layers: Numeric, pp: Numeric, vpp: Numeric = 1) -> list[int]:
    """Return the layers of each stage of one model, as they are dealt out where a study does not say.

    >>> stage_layers(126, 16)
    [7, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 7]
    """
    count, stages, chunks = (int(number) for number in (layers, pp, vpp))
    bounds = chunk_boundaries(count, stages * chunks, to_float(np.arange(stages * chunks + 1)))
    sizes = np.diff(bounds).reshape(chunks, stages).sum(axis=0)
    return [int(size) for size in sizes]
