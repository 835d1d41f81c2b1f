"""The task graph of a pipeline in topological levels; of a long steady part only as much as shows how it goes on.

Everything is an array over tasks, so that a graph of a hundred thousand passes is made, and its longest path found, a
level at a time: tasks that wait for nothing of their own level, one of each stage at most.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import count
from typing import NamedTuple

import numpy as np

from comp_comm.choices import Schedule
from comp_comm.costmodels.complete.schedule.pass_order import KINDS, PassOrder
from comp_comm.costmodels.complete.schedule.tasks import NEVER_STEADY, Numbers, SteadyPart, Tasks, steady_part, tasks_of
from comp_comm.errors import ConfigError
from comp_comm.structs import struct

# Schedules under which some stage begins twice as many micro-batches as there are stages before it is steady.
LONG_WARM_UP = (Schedule.INTERLEAVED, Schedule.DUALPIPE, Schedule.ZB_V, Schedule.ZB_H2)
CIRCLE = "the passes of this schedule wait for each other: it needs more micro-batches"


class TaskKind(NamedTuple):
    """What the seconds of a task follow from: the kinds of its passes, and which chunk of the model each is of."""

    kinds: tuple[str, ...]
    chunks: tuple[int, ...]


class Level(NamedTuple):
    """Nodes that wait for earlier levels only: a range of their numbers, and for each of them its kind (a place in the
    graph's ``kinds``), the node before it on its stage, and those of other stages that it waits for. For none there are
    two numbers after those of all nodes: of what is before all of them, and of what is not waited for."""

    nodes: slice
    kind: Numbers
    before: Numbers
    needs: tuple[Numbers, ...]


@struct
class TaskGraph:
    """The tasks of a step or of several, one right after the other: its nodes, with what each waits for.

    Nodes are numbered level by level. ``of_stage`` are their numbers by stage, in the order of the stage. ``last`` are
    the last nodes of every stage in each step. ``steady`` are the nodes of the steady part, period after period:
    what follows depends on those of ``window`` periods alone.
    """

    levels: tuple[Level, ...]
    kinds: tuple[TaskKind, ...]
    of_stage: tuple[Numbers, ...]
    last: tuple[Numbers, ...]
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
        return sum(each.size for each in self.of_stage)


@lru_cache(maxsize=64)
def whole_graph(passes: PassOrder, micro_batches: int, repeats: int = 1) -> TaskGraph:
    """Return the graph of all passes of a step of so many micro-batches, or of several steps one after the other.

    Raises ``ConfigError`` where passes wait for each other in a circle: there are too few micro-batches.

    >>> whole_graph(PassOrder(Schedule.ONE_F_ONE_B, 4, 1), 8).size
    64
    """
    return _graph(tasks_of(passes, micro_batches), repeats, NEVER_STEADY)


def shortened_graph(
    passes: PassOrder, micro_batches: int, repeats: int, attempt: int, cycle: int = 1
) -> tuple[TaskGraph, int]:
    """Return a graph that leaves cycles of so many periods of the steady part out, and how many; the whole one where
    there are none to leave out.

    A later ``attempt`` gives the seconds more time to become steady. Steps that differ only in how many cycles are left
    out have the same graph.

    >>> graph, left_out = shortened_graph(PassOrder(Schedule.ONE_F_ONE_B, 4, 1), 1000, 1, 0)
    >>> graph.size // 8 + left_out
    1000
    """
    each = passes.period * cycle
    for begin, tail, window in _sizes(passes, attempt):
        few = begin + (window + cycle) * passes.period + tail
        few += (micro_batches - few) % each
        if few >= micro_batches or passes.schedule is Schedule.GPIPE:  # which has no part that is steady
            break
        graph = _steady_graph(passes, few, begin, window + cycle, window, repeats)
        if graph is not None:
            return graph, (micro_batches - few) // each
    return whole_graph(passes, micro_batches, repeats), 0


@lru_cache(maxsize=1024)
def _steady_graph(
    passes: PassOrder, micro_batches: int, begin: int, periods: int, window: int, repeats: int
) -> TaskGraph | None:
    """Return the graph of few micro-batches, None where so many periods are not steady from ``begin`` on."""
    tasks = tasks_of(passes, micro_batches)
    steady = steady_part(passes, tasks, begin, periods, window)
    return None if steady is None else _graph(tasks, repeats, steady)


def _sizes(passes: PassOrder, attempt: int) -> Iterator[tuple[int, int, int]]:
    """Yield where the steady part may begin, micro-batches after it, and periods that all depends on, the fewest
    first."""
    unit = passes.period * -(-passes.stages // (2 * passes.period))
    first = -(-2 * passes.stages // unit) if passes.schedule in LONG_WARM_UP else 1
    for size in count(first):
        for tail in range(size + 1):
            for window in (2, 3):
                yield (size + 4 * (2**attempt - 1)) * unit, tail * unit, window


def _graph(tasks: Tasks, repeats: int, steady: SteadyPart) -> TaskGraph:
    """Return the graph of so many steps, with nodes numbered level by level."""
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
    kind, kinds = _task_kinds(tasks.passes)
    of_stage = tuple(number[line] for line in lines)
    last = [number[tasks.begin[1:] - 1 + again * each] for again in range(repeats)]
    waits = [number[column] for column in needs.T if (column >= 0).any()]
    made, at = [], 0
    for nodes in levels:
        part = slice(at, at + nodes.size)
        made.append(Level(part, kind[nodes % each], number[before[nodes]], tuple(column[nodes] for column in waits)))
        at = part.stop
    periods = _of_steady(of_stage, tasks.length, repeats, steady)
    return TaskGraph(tuple(made), kinds, of_stage, tuple(last), periods, steady.window)


def _of_steady(of_stage: tuple[Numbers, ...], lengths: Numbers, repeats: int, steady: SteadyPart) -> Numbers:
    """Return the nodes of the steady part of all stages, one period a row."""
    seen = np.arange(steady.periods * steady.length).reshape(steady.periods, steady.length)
    if not steady.periods:
        return seen
    firsts = np.arange(repeats)[:, None] * lengths + steady.begin
    pairs = ((nodes, begin) for again in firsts for nodes, begin in zip(of_stage, again, strict=True))
    return np.concatenate([nodes[begin + seen] for nodes, begin in pairs], axis=1)


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


def _task_kinds(passes: Numbers) -> tuple[Numbers, tuple[TaskKind, ...]]:
    """Return the kind of each task, as a place among those that there are, and these."""
    base = len(KINDS) * (int(passes[..., 2].max()) + 1) + 1
    code = np.zeros(len(passes), np.intp)
    for kind, _, chunk in np.moveaxis(passes, (1, 2), (0, 1)):
        code = code * base + np.where(kind >= 0, len(KINDS) * chunk + kind + 1, 0)
    _, first, number = np.unique(code, return_index=True, return_inverse=True)
    told = ([(KINDS[kind], chunk) for kind, _, chunk in task if kind >= 0] for task in passes[first].tolist())
    return number.reshape(-1), tuple(TaskKind(*zip(*each, strict=True)) for each in told)
