"""What the stages of a pipeline do, task by task, what each task needs, and where all of that repeats.

A task is what a stage does in one go: a pass, or two that run together. Everything is an array over tasks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from comp_comm.costmodels.complete.schedule.pass_order import KINDS, B, F, PassOrder, ends_of, order_array
from comp_comm.structs import struct

Numbers = NDArray[np.intp]


@struct
class Tasks:
    """What stages do in a step, stage after stage: where each stage begins, the passes of every task, and the tasks
    that each of these needs (-1: none). ``missing`` says whether some need what no stage ever does."""

    begin: Numbers
    passes: Numbers
    needs: Numbers
    missing: bool

    @property
    def length(self) -> Numbers:
        """How many tasks every stage has."""
        return np.diff(self.begin)

    @property
    def stage(self) -> Numbers:
        """The stage of every task."""
        return np.repeat(np.arange(self.length.size), self.length)


class SteadyPart(NamedTuple):
    """Where on each stage the steady part begins, how many tasks a period of it has, how many periods there are, and
    how many of them, the last, have all that is needed later."""

    begin: Numbers
    length: int
    periods: int
    window: int


NEVER_STEADY = SteadyPart(np.zeros(0, np.intp), 0, 0, 0)


def tasks_of(passes: PassOrder, micro_batches: int) -> Tasks:
    """Return what all stages do, and what that needs."""
    schedule, stages, chunks = passes
    listed = [order_array(schedule, stages, chunks, micro_batches, stage) for stage in range(stages)]
    width = max(each.shape[1] for each in listed)
    padded = [np.pad(each, ((0, 0), (0, width - each.shape[1]), (0, 0)), constant_values=-1) for each in listed]
    together = np.concatenate(padded)
    begin = np.concatenate([[0], np.cumsum([len(each) for each in listed])])
    return Tasks(begin, together, *_needs(together, ends_of(schedule, stages, chunks)))


def _needs(passes: Numbers, ends: tuple[set[int], set[int]]) -> tuple[Numbers, bool]:
    """Return the task that each pass of every task needs beside its own, -1 for none, and whether some are missing."""
    kind, j, chunk = np.moveaxis(passes, -1, 0)
    first, last = (np.isin(chunk, list(each)) for each in ends)
    number = np.broadcast_to(np.arange(len(passes))[:, None], kind.shape)
    table = np.full((len(KINDS), j.max() + 1, chunk.max() + 2), -1)
    there = kind >= 0
    table[kind[there], j[there], chunk[there]] = number[there]
    of_kind = np.where((kind == F) | ((kind == B) & last), F, B)
    of_chunk = chunk - ((kind == F) & ~first) + ((kind == B) & ~last)
    needed = there & ~((kind == F) & first)
    before = np.where(needed, table[of_kind, j, of_chunk], -1)
    return np.where(before == number, -1, before), bool((needed & (before < 0)).any())


def steady_part(passes: PassOrder, tasks: Tasks, begin: int, periods: int, window: int) -> SteadyPart | None:
    """Return the steady part from the forward pass of micro-batch ``begin`` on, None where it is not steady there."""
    starts, length, period = [], 0, passes.period
    if tasks.missing:
        return None
    for start, stop in zip(tasks.begin[:-1].tolist(), tasks.begin[1:].tolist(), strict=True):
        listed = tasks.passes[start:stop]
        forward = np.where(listed[..., 0] == F, listed[..., 1], -1).max(axis=1)
        first, later = (int((forward >= j).argmax()) for j in (begin, begin + period))
        length = length or later - first
        end = first + (periods - 1) * length
        if later - first != length or end + length > len(listed):
            return None
        shifted = listed[first:end].copy()
        shifted[..., 1] += period * (shifted[..., 0] >= 0)
        if not np.array_equal(shifted, listed[first + length : end + length]):
            return None
        starts.append(first)
    steady = SteadyPart(np.asarray(starts), length, periods, window)
    return steady if _reaches(tasks, steady) else None


def _reaches(tasks: Tasks, steady: SteadyPart) -> bool:
    """Return whether what the last period needs of other stages is in its window, or after it."""
    before = steady.periods - 1 - steady.window
    starts, stage = tasks.begin[:-1] + steady.begin + before * steady.length, tasks.stage
    last = (starts + steady.window * steady.length)[:, None] + np.arange(steady.length)
    needs = tasks.needs[last]
    others = (needs >= 0) & (stage[needs] != np.arange(len(starts))[:, None, None])
    return not (others & (needs < starts[stage[needs]])).any()
