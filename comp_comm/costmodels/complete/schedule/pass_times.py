"""When each pass of a pipeline runs: a stage does one thing at a time, in order, once what it needs has come.

Seconds are arrays: the longest path through the task graph is found for many points at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from comp_comm.costmodels.complete.schedule.pass_order import PassOrder, Task
from comp_comm.costmodels.complete.schedule.task_graph import TaskGraph, shortened_graph, whole_graph
from comp_comm.costmodels.complete.schedule.tasks import Numbers
from comp_comm.formulas.arrays import ZERO, Array, add_up

# Steps that are timed, of which the last one counts, where stages do not wait for each other between them.
STEPS_IN_A_ROW = 3
# What counts as equally long, relative to a step: rounding. Thousands of periods left out add up to less than 1e-9.
SAME = 1e-13
# Seconds of passes that are worked out at once: what is looked at stays in the cache.
SECONDS_TOGETHER = 2**21


class ChunkSeconds(NamedTuple):
    """Seconds of the passes of each kind: of every chunk of the model (first axis) at every point (second axis).

    ``lag`` is how long after a pass its output is on the next stage, while the stage itself goes on: along the points,
    or one number.
    """

    passes: Mapping[str, Array]
    lag: Array = ZERO

    @property
    def size(self) -> int:
        """How many points there are."""
        return int(max(self.lag.size, *(each[0].size for each in self.passes.values())))

    def at(self, part: slice | Numbers) -> ChunkSeconds:
        """Return the seconds of some points."""

        def taken(seconds: Array) -> Array:
            return seconds[..., part] if seconds.ndim and seconds.shape[-1] > 1 else seconds

        return ChunkSeconds({kind: taken(each) for kind, each in self.passes.items()}, taken(self.lag))


class ScheduledTask(NamedTuple):
    """What a stage does in one go, and when it begins and ends, in seconds."""

    stage: int
    task: Task
    start: float
    end: float


def scheduled_tasks(passes: PassOrder, micro_batches: int, seconds: ChunkSeconds) -> list[ScheduledTask]:
    """Return when each pass of a step of so many micro-batches runs, at one point, stage by stage.

    >>> from comp_comm.choices import Schedule
    >>> two = ChunkSeconds({"F": np.asarray([[1.0], [1.0]]), "B": np.asarray([[2.0], [2.0]])})
    >>> max(each.end for each in scheduled_tasks(PassOrder(Schedule.GPIPE, 2, 1), 2, two))
    9.0
    """
    graph = whole_graph(passes, micro_batches)
    task_seconds = _task_seconds(graph, seconds)
    ends = _end_times(graph, task_seconds, seconds.lag)[: graph.size, 0]
    starts = ends - np.concatenate([task_seconds[level.kind, 0] for level in graph.levels])
    return [ScheduledTask(stage, task, float(starts[node]), float(ends[node]))
            for stage, (tasks, nodes) in enumerate(zip(passes.tasks(micro_batches), graph.of_stage, strict=True))
            for task, node in zip(tasks, nodes.tolist(), strict=True)]  # fmt: skip


def step_seconds(passes: PassOrder, micro_batches: Numbers, seconds: ChunkSeconds) -> Array:
    r"""Return how long a step takes at each point, all of which have the same order of passes.

    .. math:: e_n = \max(e_{n'},\; e_k + \ell \;\forall k) + t_n

    n' is what the stage did before, k what it waits for, of other stages, and :math:`\ell` the lag: the longest path
    through the passes. Where all passes of the steady part are as long after those of some periods before, they are so
    in all later ones, too (what comes out is what goes in, later by the same time), and these are left out. With a lag
    it may be many periods: under 1F1B as many as there are stages that wait for each other in a circle.

    Parameters
    ----------
    passes : PassOrder
        Which passes, in which order.
    micro_batches : array_like of int
        Micro-batches at each point.
    seconds : ChunkSeconds
        How long each pass takes.

    Returns
    -------
    ndarray of float64
        Seconds along the axis: from the first pass of any stage to the last one of any; for schedules without a
        barrier between steps, from the end of one step to that of the next.

    References
    ----------
    .. [1] F. Baccelli et al., "Synchronization and Linearity", 1992, chapter 3: such maps do not expand distances, and
       repeat after as many periods as their longest circuit in the mean has.

    Examples
    --------
    >>> from comp_comm.choices import Schedule
    >>> ones = np.ones((8, 2))
    >>> alike = ChunkSeconds({"F": ones, "B": ones * [2.0, 1.0]})
    >>> step_seconds(PassOrder(Schedule.ONE_F_ONE_B, 8, 1), np.array([1000, 1000]), alike).tolist()
    [3021.0, 2014.0]
    """
    micro_batches, made = np.broadcast_to(micro_batches, seconds.size), np.zeros(seconds.size)
    left, attempt = np.arange(seconds.size), 0
    while left.size:  # those that are not steady soon are given longer graphs
        some, many, known = seconds.at(left), micro_batches[left], np.zeros(left.size, np.bool_)
        cycles = _cycles(passes, many, some, attempt) if attempt else np.ones(left.size, np.intp)
        for graph, places, cycle, left_out in _graphs(passes, many, attempt, cycles):
            made[left[places]], known[places] = _step(graph, some.at(places), cycle, left_out)
        left, attempt = left[~known], attempt + 1
    return made


def _graphs(
    passes: PassOrder, micro_batches: Numbers, attempt: int, cycles: Numbers
) -> Iterator[tuple[TaskGraph, Numbers, int, Numbers]]:
    """Yield graphs, the points that each is for, their periods of a cycle, and how many cycles are left out there."""
    repeats = 1 if passes.schedule.has_barrier else STEPS_IN_A_ROW
    points: dict[tuple[TaskGraph, int], list[Numbers]] = {}
    left_out = np.zeros(micro_batches.size, np.intp)
    for many, cycle in sorted(set(zip(micro_batches.tolist(), cycles.tolist(), strict=True))):
        places = np.flatnonzero((micro_batches == many) & (cycles == cycle))
        graph, left_out[places] = shortened_graph(passes, many, repeats, attempt, cycle)
        points.setdefault((graph, cycle), []).append(places)
    for (graph, cycle), parts in points.items():
        places, each = np.concatenate(parts), max(1, SECONDS_TOGETHER // graph.size)
        for some in (places[start : start + each] for start in range(0, places.size, each)):
            yield graph, some, cycle, left_out[some]


def _cycles(passes: PassOrder, micro_batches: Numbers, seconds: ChunkSeconds, attempt: int) -> Numbers:
    """Return after how many periods all passes of the steady part are as much later, at each point.

    Where they are so after none, it is as many as there are stages, which is the most that are looked at.
    """
    most = passes.stages
    cycles = np.full(micro_batches.size, most)
    for graph, places, _, _ in _graphs(passes, micro_batches, attempt, cycles):
        if graph.window:
            some = seconds.at(places)
            ends = _end_times(graph, _task_seconds(graph, some), some.lag)
            for cycle in range(most, 0, -1):
                cycles[places[_apart(graph, ends, cycle)[1]]] = cycle
    return cycles


def _step(graph: TaskGraph, seconds: ChunkSeconds, cycle: int, left_out: Numbers) -> tuple[Array, NDArray[np.bool_]]:
    """Return the seconds of the last step of a graph, and where those of what was left out of it are known."""
    ends = _end_times(graph, _task_seconds(graph, seconds), seconds.lag)
    until, *before = (ends[each].max(axis=0) for each in reversed(graph.last))
    step = until - before[0] if before else until
    if not graph.window:
        return step, np.ones(until.size, np.bool_)
    later, known = _apart(graph, ends, cycle)
    return step + left_out * later, known


def _apart(graph: TaskGraph, ends: Array, cycle: int) -> tuple[Array, NDArray[np.bool_]]:
    """Return how much later passes of the steady part are than those a cycle before, and where this is so of all."""
    later, earlier = graph.alike(cycle)
    periods = ends[later] - ends[earlier]
    least, most = periods.min(axis=(0, 1)), periods.max(axis=(0, 1))
    return most, most - least <= SAME * ends[graph.last[-1]].max(axis=0)


def _task_seconds(graph: TaskGraph, seconds: ChunkSeconds) -> Array:
    """Return the seconds of each kind of task, in rows."""
    rows = np.empty((len(graph.kinds), seconds.size))
    for number, (kinds, chunks) in enumerate(graph.kinds):
        rows[number] = add_up(seconds.passes[kind][chunk] for kind, chunk in zip(kinds, chunks, strict=True))
    return rows


def _end_times(graph: TaskGraph, task_seconds: Array, lag: Array) -> Array:
    """Return when each node ends, in rows, by the longest path to it; the two last rows are of what is before all, and
    of what is not waited for."""
    ends = np.empty((graph.size + 2, task_seconds.shape[1]))
    ends[-2], ends[-1] = 0.0, -np.inf
    for level in graph.levels:
        # Rows are taken right into their place: without "clip" NumPy makes a copy of what it takes first.
        start = ends.take(level.before, axis=0, out=ends[level.nodes], mode="clip")
        for needs in level.needs:
            others = ends.take(needs, axis=0)
            if lag is not ZERO:
                others += lag
            np.maximum(start, others, out=start)
        start += task_seconds.take(level.kind, axis=0)
    return ends
