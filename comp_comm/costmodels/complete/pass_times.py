"""When each pass of a pipeline runs: a stage does one thing at a time, in order, once what it needs has come.

Seconds are arrays, so that many points with the same passes are walked through together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from comp_comm.choices import Schedule
from comp_comm.costmodels.complete.pass_order import Work
from comp_comm.costmodels.complete.pass_walk import PassSchedule, Walk, short_walk, whole_walk
from comp_comm.formulas.arrays import ZERO, Array, add_up

# Schedules whose stages begin their next step when they are done with this one, however far the others are; and how
# many steps are walked through, of which the last one counts.
IN_A_ROW = (Schedule.ZB_H2, Schedule.ZB_V)
STEPS_IN_A_ROW = 3
# What counts as equally long, relative to a step: rounding. Thousands of periods left out add up to less than 1e-9.
SAME = 1e-13
# Points that are walked through at once, and seconds: what is looked at stays in the cache.
TOGETHER, SECONDS_TOGETHER = 8192, 2**21


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
    """What a stage does in one go, and when it begins and ends, in seconds."""

    stage: int
    work: Work
    start: float
    end: float


def timed(passes: PassSchedule, seconds: ChunkSeconds) -> list[Timed]:
    """Return when each pass of a step runs, at one point, stage by stage.

    >>> one = ChunkSeconds(({"F": np.asarray(1.0), "B": np.asarray(2.0)},), (0, 0))
    >>> max(each.end for each in timed(PassSchedule(Schedule.GPIPE, 2, 1, 2), one))
    9.0
    """
    walk = whole_walk(passes)
    took = _took(walk, seconds, 1)
    ends = _ends(walk, took, seconds.lag)[: walk.size, 0]
    starts = ends - np.concatenate([took[level.took, 0] for level in walk.levels])
    return [Timed(stage, work, float(starts[node]), float(ends[node]))
            for stage, (works, nodes) in enumerate(zip(passes.works(), walk.places, strict=True))
            for work, node in zip(works, nodes.tolist(), strict=True)]  # fmt: skip


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
    made, left, settled = np.zeros(size), np.arange(size), 0
    while left.size:
        walk = short_walk(passes, repeats, settled)
        each, steady = max(1, SECONDS_TOGETHER // walk.size), np.ones(left.size, np.bool_)
        for start in range(0, left.size, each):
            part = slice(start, min(start + each, left.size))
            made[left[part]], steady[part] = _step(walk, seconds.at(part), part.stop - part.start)
        left, seconds, settled = left[~steady], seconds.at(~steady), settled + 1
    return made


def _step(walk: Walk, seconds: ChunkSeconds, size: int) -> tuple[Array, NDArray[np.bool_]]:
    """Return the seconds of the last step of a walk, and where those of what was left out of it are known."""
    ends = _ends(walk, _took(walk, seconds, size), seconds.lag)
    until, *before = (ends[each].max(axis=0) for each in reversed(walk.ends))
    step = until - before[0] if before else until
    if not walk.left_out:
        return step, np.ones(size, np.bool_)
    later, earlier = walk.alike
    periods = ends[later] - ends[earlier]
    least, most = periods.min(axis=0), periods.max(axis=0)
    return step + walk.left_out * most, most - least <= SAME * until


def _took(walk: Walk, seconds: ChunkSeconds, size: int) -> Array:
    """Return the seconds of each thing that stages do, in rows; those of like chunks are added up once."""
    made: dict[tuple[tuple[str, int], ...], Array] = {}
    rows = np.empty((len(walk.took), size))
    for number, (kinds, chunks) in enumerate(walk.took):
        key = tuple((kind, seconds.of_chunk[chunk]) for kind, chunk in zip(kinds, chunks, strict=True))
        if key not in made:
            made[key] = add_up(seconds.sorts[sort][kind] for kind, sort in key)
        rows[number] = made[key]
    return rows


def _ends(walk: Walk, took: Array, lag: Array) -> Array:
    """Return when each node ends, in rows; the two last ones are what is before all, and what is not waited for."""
    ends = np.empty((walk.size + 2, took.shape[1]))
    ends[-2], ends[-1] = 0.0, -np.inf
    for level in walk.levels:
        start = ends[level.before]
        for needs in level.needs:
            others = ends[needs]
            np.maximum(start, others if lag is ZERO else others + lag, out=start)
        np.add(start, took[level.took], out=ends[level.nodes])
    return ends
