"""When each pass of a pipeline runs: a stage does one thing at a time, in order, once what it needs has come.

Seconds are arrays, so that many points with the same passes are walked through together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from comp_comm.choices import Schedule
from comp_comm.costmodels.complete.pass_walk import Node, PassSchedule, Walk, short_walk, whole_walk
from comp_comm.formulas.arrays import ZERO, Array, add_up

# Schedules whose stages begin their next step when they are done with this one, however far the others are; and how
# many steps are walked through, of which the last one counts.
IN_A_ROW = (Schedule.ZB_H2, Schedule.ZB_V)
STEPS_IN_A_ROW = 3
# What counts as equally long, relative to a step: rounding. Thousands of periods left out add up to less than 1e-9.
SAME = 1e-13
TOGETHER = 8192  # points that are walked through at once: their seconds stay in the cache


class ChunkSeconds(NamedTuple):
    """Seconds of passes: of their kinds for each sort of chunks, and which sort each chunk of the model is, in order.

    ``lag`` is how long after a pass its output is on the next stage, while the stage itself goes on. Arrays are along
    one axis, or numbers.
    """

    sorts: tuple[Mapping[str, Array], ...]
    of_chunk: tuple[int, ...]
    lag: Array = ZERO

    @property
    def size(self) -> int:
        """How many points there are."""
        return max(self.lag.size, *(each.size for sort in self.sorts for each in sort.values()))

    def at(self, part: slice | NDArray[np.bool_]) -> ChunkSeconds:
        """Return the seconds of some points."""

        def taken(seconds: Array) -> Array:
            return seconds[part] if seconds.size > 1 else seconds

        sorts = tuple({kind: taken(each) for kind, each in sort.items()} for sort in self.sorts)
        return ChunkSeconds(sorts, self.of_chunk, taken(self.lag))


class Timed(NamedTuple):
    """A thing that a stage does, and when it begins and ends, in seconds."""

    node: Node
    start: float
    end: float


def timed(passes: PassSchedule, seconds: ChunkSeconds) -> list[Timed]:
    """Return when each pass of a step runs, at one point.

    >>> one = ChunkSeconds(({"F": np.asarray(1.0), "B": np.asarray(2.0)},), (0, 0))
    >>> max(each.end for each in timed(PassSchedule(Schedule.GPIPE, 2, 1, 2), one))
    9.0
    """
    walk = whole_walk(passes)
    took = _took(walk, seconds)
    ends: dict[int, Array] = {}
    for number, node in enumerate(walk.nodes):
        ends[number] = _end(node, ends, took, seconds.lag)
    return [Timed(node, (ends[number] - took[node.took]).item(), ends[number].item())
            for number, node in enumerate(walk.nodes)]  # fmt: skip


def step_seconds(passes: PassSchedule, seconds: ChunkSeconds) -> Array:
    r"""Return how long a step takes at each point, all of which have the same passes.

    .. math:: e_n = \max(e_{n'},\; e_k + \ell \;\forall k) + t_n

    n' is what the stage did before, k what it waits for, of other stages, and :math:`\ell` the lag: the longest path
    through the passes. Where all passes of the steady part are as long after those of the period before, they are so
    in all later periods, too (what comes out is what goes in, later by the same time), and these are left out.

    Parameters
    ----------
    passes : PassSchedule
        Which passes, in which order.
    seconds : ChunkSeconds
        How long each takes.

    Returns
    -------
    ndarray of float64
        Seconds along the axis: from the first pass of any stage to the last one of any; for schedules without a
        barrier between steps, from the end of one step to that of the next.

    References
    ----------
    .. [1] F. Baccelli et al., "Synchronization and Linearity", 1992, chapter 3: such maps do not expand distances.

    Examples
    --------
    >>> one = {"F": np.asarray([1.0, 1.0]), "B": np.asarray([2.0, 1.0])}
    >>> step_seconds(PassSchedule(Schedule.ONE_F_ONE_B, 8, 1, 1000), ChunkSeconds((one,), (0,) * 8)).tolist()
    [3021.0, 2014.0]
    """
    parts = [slice(start, start + TOGETHER) for start in range(0, seconds.size, TOGETHER)]
    return np.concatenate([_some(passes, seconds.at(part), min(TOGETHER, seconds.size - part.start)) for part in parts])


def _some(passes: PassSchedule, seconds: ChunkSeconds, size: int) -> Array:
    """Return the seconds of some points: those that are not steady soon are walked through for longer."""
    repeats = STEPS_IN_A_ROW if passes.schedule in IN_A_ROW else 1
    took, left, settled = np.zeros(size), np.arange(size), 0
    while left.size:
        walk = short_walk(passes, repeats, settled)
        found, steady = _step(walk, seconds, left.size)
        took[left] = found
        left, seconds, settled = left[~steady], seconds.at(~steady), settled + 1
    return took


def _step(walk: Walk, seconds: ChunkSeconds, size: int) -> tuple[Array, NDArray[np.bool_]]:
    """Return the seconds of the last step of a walk, and where those of what was left out of it are known."""
    took = _took(walk, seconds)
    ends: dict[int, Array] = {}
    least, most = np.full(size, np.inf), np.full(size, -np.inf)
    for number, node in enumerate(walk.nodes):
        ends[number] = end = _end(node, ends, took, seconds.lag)
        if number in walk.alike:
            period = end - ends[walk.alike[number]]
            least, most = np.minimum(least, period), np.maximum(most, period)
        for gone in node.done:
            del ends[gone]
    until, *before = (_latest(ends, each) for each in reversed(walk.ends))
    step = until - before[0] if before else until
    if not walk.left_out:
        return np.broadcast_to(step, size), np.ones(size, np.bool_)
    return step + walk.left_out * most, most - least <= SAME * until


def _latest(ends: Mapping[int, Array], numbers: Sequence[int]) -> Array:
    latest = ends[numbers[0]]
    for number in numbers[1:]:
        latest = np.maximum(latest, ends[number])
    return latest


def _took(walk: Walk, seconds: ChunkSeconds) -> list[Array]:
    """Return the seconds of each thing that stages do; those of like chunks are the same array."""
    made: dict[tuple[tuple[str, int], ...], Array] = {}
    listed = []
    for kinds, chunks in walk.took:
        key = tuple((kind, seconds.of_chunk[chunk]) for kind, chunk in zip(kinds, chunks, strict=True))
        if key not in made:
            made[key] = add_up(seconds.sorts[sort][kind] for kind, sort in key)
        listed.append(made[key])
    return listed


def _end(node: Node, ends: Mapping[int, Array], took: Sequence[Array], lag: Array) -> Array:
    start = ends[node.before] if node.before >= 0 else ZERO
    for need in node.needs:
        start = np.maximum(start, ends[need] if lag is ZERO else ends[need] + lag)
    return took[node.took] if start is ZERO else start + took[node.took]
