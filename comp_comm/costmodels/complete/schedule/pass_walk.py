"""The passes of a pipeline in an order in which each comes after what it needs; the steady part of it only once.

Everything is an array over what stages do, so that a walk through a hundred thousand passes is made, and followed, a
level at a time: things that wait for nothing of their own level, one of each stage at most.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import count
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from comp_comm.choices import Schedule
from comp_comm.costmodels.complete.schedule.pass_order import KINDS, B, F, PassOrder, ends_of, order_array
from comp_comm.errors import ConfigError
from comp_comm.structs import struct

Numbers = NDArray[np.intp]
# Schedules under which some stage begins twice as many micro-batches as there are stages before it is steady.
LONG_WARM_UP = (Schedule.INTERLEAVED, Schedule.DUALPIPE, Schedule.ZB_V, Schedule.ZB_H2)
CIRCLE = "the passes of this schedule wait for each other: it needs more micro-batches"


class Took(NamedTuple):
    """What one thing that a stage does takes: the kinds of its passes, and which chunk of the model each is of."""

    kinds: tuple[str, ...]
    chunks: tuple[int, ...]


class Level(NamedTuple):
    """Nodes that wait for earlier levels only: a range of their numbers, and for each of them what it takes (a number),
    the node before it on its stage, and those of other stages that it waits for. For none there are two numbers after
    those of all nodes: of what is before all of them, and of what is not waited for."""

    nodes: slice
    took: Numbers
    before: Numbers
    needs: tuple[Numbers, ...]


@struct
class Walk:
    """The things that stages do, nodes for short, of a step or of several, one right after the other.

    Nodes are numbered level by level. ``places`` are their numbers by stage, in the order of the stage. ``ends`` are
    the last nodes of every stage in each step. ``steady`` are the nodes of the steady part, period after period:
    what follows depends on those of ``window`` periods alone.
    """

    levels: tuple[Level, ...]
    took: tuple[Took, ...]
    places: tuple[Numbers, ...]
    ends: tuple[Numbers, ...]
    steady: Numbers
    window: int

    def alike(self, cycle: int) -> tuple[Numbers, Numbers]:
        """Return the nodes of the last periods of the steady part, and those that do the same so many periods before.

        Where all of these are as far apart, all later ones would be, too.
        """
        end = len(self.steady)
        return self.steady[end - self.window :], self.steady[end - self.window - cycle : end - cycle]

    @property
    def size(self) -> int:
        """How many nodes there are."""
        return sum(each.size for each in self.places)


@struct
class _Tasks:
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


class _Steady(NamedTuple):
    """Where on each stage the steady part begins, how many things a period of it has, how many periods there are, and
    of how many of them all that is needed later is."""

    begin: Numbers
    length: int
    periods: int
    window: int


NEVER_STEADY = _Steady(np.zeros(0, np.intp), 0, 0, 0)


@lru_cache(maxsize=64)
def whole_walk(passes: PassOrder, micro_batches: int, repeats: int = 1) -> Walk:
    """Return the walk through all passes of a step of so many micro-batches, or of several steps one after the other.

    Raises ``ConfigError`` where passes wait for each other in a circle: there are too few micro-batches.

    >>> whole_walk(PassOrder(Schedule.ONE_F_ONE_B, 4, 1), 8).size
    64
    """
    return _walk(_tasks(passes, micro_batches), repeats, NEVER_STEADY)


def short_walk(passes: PassOrder, micro_batches: int, repeats: int, settled: int, cycle: int = 1) -> tuple[Walk, int]:
    """Return a walk that leaves cycles of so many periods of the steady part out, and how many; the whole one where
    there are none to leave out.

    A larger ``settled`` has the seconds more time to become steady. Where walks differ in what they leave out alone,
    they are the same.

    >>> walk, left_out = short_walk(PassOrder(Schedule.ONE_F_ONE_B, 4, 1), 1000, 1, 0)
    >>> walk.size // 8 + left_out
    1000
    """
    each = passes.period * cycle
    for begin, tail, window in _sizes(passes, settled):
        few = begin + (window + cycle) * passes.period + tail
        few += (micro_batches - few) % each
        if few >= micro_batches or passes.schedule is Schedule.GPIPE:  # which has no part that is steady
            break
        walk = _steady_walk(passes, few, begin, window + cycle, window, repeats)
        if walk is not None:
            return walk, (micro_batches - few) // each
    return whole_walk(passes, micro_batches, repeats), 0


@lru_cache(maxsize=1024)
def _steady_walk(
    passes: PassOrder, micro_batches: int, begin: int, periods: int, window: int, repeats: int
) -> Walk | None:
    """Return the walk of few micro-batches, None where so many periods are not steady from ``begin`` on."""
    tasks = _tasks(passes, micro_batches)
    steady = _steady(passes, tasks, begin, periods, window)
    return None if steady is None else _walk(tasks, repeats, steady)


def _sizes(passes: PassOrder, settled: int) -> Iterator[tuple[int, int, int]]:
    """Yield where the steady part may begin, micro-batches after it, and periods that all depends on, the fewest
    first."""
    unit = passes.period * -(-passes.stages // (2 * passes.period))
    first = -(-2 * passes.stages // unit) if passes.schedule in LONG_WARM_UP else 1
    for size in count(first):
        for tail in range(size + 1):
            for window in (2, 3):
                yield (size + 4 * (2**settled - 1)) * unit, tail * unit, window


def _tasks(passes: PassOrder, micro_batches: int) -> _Tasks:
    """Return what all stages do, and what that needs."""
    schedule, stages, chunks = passes
    listed = [order_array(schedule, stages, chunks, micro_batches, stage) for stage in range(stages)]
    width = max(each.shape[1] for each in listed)
    padded = [np.pad(each, ((0, 0), (0, width - each.shape[1]), (0, 0)), constant_values=-1) for each in listed]
    together = np.concatenate(padded)
    begin = np.concatenate([[0], np.cumsum([len(each) for each in listed])])
    return _Tasks(begin, together, *_needs(together, ends_of(schedule, stages, chunks)))


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


def _steady(passes: PassOrder, tasks: _Tasks, begin: int, periods: int, window: int) -> _Steady | None:
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
    steady = _Steady(np.asarray(starts), length, periods, window)
    return steady if _reaches(tasks, steady) else None


def _reaches(tasks: _Tasks, steady: _Steady) -> bool:
    """Return whether what the last period needs of other stages is in its window, or after it."""
    before = steady.periods - 1 - steady.window
    starts, stage = tasks.begin[:-1] + steady.begin + before * steady.length, tasks.stage
    last = (starts + steady.window * steady.length)[:, None] + np.arange(steady.length)
    needs = tasks.needs[last]
    others = (needs >= 0) & (stage[needs] != np.arange(len(starts))[:, None, None])
    return not (others & (needs < starts[stage[needs]])).any()


def _walk(tasks: _Tasks, repeats: int, steady: _Steady) -> Walk:
    """Return the walk through so many steps, with nodes numbered level by level."""
    each, size = len(tasks.passes), repeats * len(tasks.passes)
    steps = [np.arange(start, stop) for start, stop in zip(tasks.begin[:-1], tasks.begin[1:], strict=True)]
    lines = [np.concatenate([again * each + step for again in range(repeats)]) for step in steps]
    before = np.full(size, -2)
    for line in lines:
        before[line[1:]] = line[:-1]
    stage = tasks.stage
    elsewhere = (tasks.needs >= 0) & (stage[tasks.needs] != stage[:, None])
    if tasks.missing or (~elsewhere & (tasks.needs > np.arange(each)[:, None])).any():
        raise ConfigError(CIRCLE)
    needs = np.concatenate([np.where(elsewhere, tasks.needs + again * each, -1) for again in range(repeats)])
    levels = _levels(lines, needs)
    number = np.empty(size + 2, np.intp)
    number[np.concatenate(levels)] = np.arange(size)
    number[[-2, -1]] = size, size + 1
    kinds, took = _took(tasks.passes)
    places = tuple(number[line] for line in lines)
    ends = [number[tasks.begin[1:] - 1 + again * each] for again in range(repeats)]
    waits = [number[column] for column in needs.T if (column >= 0).any()]
    made, at = [], 0
    for nodes in levels:
        part = slice(at, at + nodes.size)
        made.append(Level(part, kinds[nodes % each], number[before[nodes]], tuple(column[nodes] for column in waits)))
        at = part.stop
    periods = _of_steady(places, tasks.length, repeats, steady)
    return Walk(levels=tuple(made), took=took, places=places, ends=tuple(ends), steady=periods, window=steady.window)


def _of_steady(places: tuple[Numbers, ...], lengths: Numbers, repeats: int, steady: _Steady) -> Numbers:
    """Return the nodes of the steady part of all stages, one period a row."""
    seen = np.arange(steady.periods * steady.length).reshape(steady.periods, steady.length)
    if not steady.periods:
        return seen
    firsts = np.arange(repeats)[:, None] * lengths + steady.begin
    return np.concatenate([place[begin + seen] for again in firsts for place, begin in zip(places, again, strict=True)],
                          axis=1)  # fmt: skip


def _levels(lines: list[Numbers], needs: Numbers) -> list[Numbers]:
    """Return the nodes of every level: the next one of each stage's line that waits for nothing more.

    Raises ``ConfigError`` where none is left to do, and not all are done.
    """
    size = len(needs)
    nothing, never = size, size + 1  # what need not be waited for, and what a stage that is done waits for
    line = np.concatenate([np.append(each, size) for each in lines])
    needs = np.concatenate([np.where(needs < 0, nothing, needs), np.full((1, needs.shape[1]), never)])
    done = np.zeros(size + 2, np.bool_)
    done[nothing] = True
    at = np.cumsum([0, *(len(each) + 1 for each in lines[:-1])])
    levels, left = [], size
    while left:
        nodes = line[at]
        ready = done[needs[nodes]].all(axis=1)
        level = nodes[ready]
        if not level.size:
            raise ConfigError(CIRCLE)
        levels.append(level)
        done[level] = True
        at += ready
        left -= level.size
    return levels


def _took(passes: Numbers) -> tuple[Numbers, tuple[Took, ...]]:
    """Return what each task takes, as a number of what there is: the kinds and chunks of its passes."""
    base = len(KINDS) * (int(passes[..., 2].max()) + 1) + 1
    code = np.zeros(len(passes), np.intp)
    for kind, _, chunk in np.moveaxis(passes, (1, 2), (0, 1)):
        code = code * base + np.where(kind >= 0, len(KINDS) * chunk + kind + 1, 0)
    _, first, number = np.unique(code, return_index=True, return_inverse=True)
    told = ([(KINDS[kind], chunk) for kind, _, chunk in task if kind >= 0] for task in passes[first].tolist())
    return number.reshape(-1), tuple(Took(*zip(*each, strict=True)) for each in told)
