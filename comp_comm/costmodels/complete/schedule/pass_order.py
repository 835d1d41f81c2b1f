"""In which order a stage of a pipeline does its passes."""

from __future__ import annotations

from collections import Counter, deque
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from comp_comm.choices import Schedule


class Pass(NamedTuple):
    """A pass of a micro-batch through a chunk of the model: F forward, B backward, W gradients of weights apart.

    Chunks are numbered in the order in which a micro-batch goes through them; those of a second copy of the model
    after those of the first.
    """

    kind: str
    micro_batch: int
    chunk: int


# What a stage does in one go: a pass, or under DualPipe a forward and a backward one beside each other.
Task = tuple[Pass, ...]
KINDS = "FBW"  # in arrays of passes a kind is its place here
F, B, W = range(len(KINDS))


class PassOrder(NamedTuple):
    """In which order stages do their passes: a schedule, stages, and chunks of a stage (of ``vpp``)."""

    schedule: Schedule
    stages: int
    chunks: int

    @property
    def period(self) -> int:
        """Micro-batches after which a stage does the same again."""
        return {Schedule.INTERLEAVED: self.stages, Schedule.DUALPIPE: 2}.get(self.schedule, 1)

    @property
    def model_chunks(self) -> int:
        """Chunks that a micro-batch goes through."""
        return self.stages * self.chunks * self.schedule.turns

    def tasks(self, micro_batches: int) -> list[list[Task]]:
        """Return what every stage does with so many micro-batches, in order."""
        return [order(self.schedule, self.stages, self.chunks, micro_batches, stage) for stage in range(self.stages)]


def order(schedule: Schedule, stages: int, chunks: int, micro_batches: int, stage: int) -> list[Task]:
    """Return what a stage does in a step of so many ``micro_batches``, in order; it has ``chunks`` of the model.

    References: D. Narayanan et al., arXiv:2104.04473, figures 3 and 4; P. Qi et al., arXiv:2401.10241, figures 2, 3
    and section 6; DeepSeek-AI, arXiv:2412.19437, figure 5, and its published code (github.com/deepseek-ai/DualPipe).

    >>> def told(tasks):
    ...     return ["".join(f"{kind}{j}" for kind, j, _ in task) for task in tasks]
    >>> told(order(Schedule.ONE_F_ONE_B, 2, 1, 3, 0))
    ['F0', 'F1', 'B0', 'F2', 'B1', 'B2']
    >>> told(order(Schedule.ZERO_BUBBLE, 2, 1, 2, 1))
    ['F0', 'B0', 'F1', 'B1', 'W0', 'W1']
    >>> told(order(Schedule.DUALPIPE, 2, 1, 4, 0))
    ['F0', 'F1', 'F2B1W1', 'F3B0W0', 'B3W3', 'B2', 'W2']
    """
    if schedule is Schedule.GPIPE:
        return [(Pass(kind, j, stage),) for kind in "FB" for j in range(micro_batches)]
    if schedule in ARRAYS:
        listed = ARRAYS[schedule](stages, chunks, micro_batches, stage).tolist()
        return [tuple(Pass(KINDS[kind], j, chunk) for kind, j, chunk in task if kind >= 0) for task in listed]
    if schedule is Schedule.ZB_V:
        return _v_shaped(stages, micro_batches, stage)
    two = schedule is Schedule.ZB_H2
    ahead = min(micro_batches, 2 * (stages - stage) - 1 if two else stages - stage)
    return _split(micro_batches, stage, ahead, (2 if two else 1) * stage)


def ends_of(schedule: Schedule, stages: int, chunks: int) -> tuple[set[int], set[int]]:
    """Return the chunks that micro-batches begin in, and those that they turn back in.

    >>> ends_of(Schedule.DUALPIPE, 4, 1)
    ({0, 4}, {3, 7})
    """
    if schedule is Schedule.DUALPIPE:
        return {0, stages}, {stages - 1, 2 * stages - 1}
    return {0}, {schedule.turns * chunks * stages - 1}


def order_array(schedule: Schedule, stages: int, chunks: int, micro_batches: int, stage: int) -> NDArray[np.intp]:
    """Return ``order`` as an array: kind, micro-batch and chunk (last axis) of the passes of every task, -1 for none.

    >>> order_array(Schedule.ONE_F_ONE_B, 2, 1, 2, 1).tolist()
    [[[0, 0, 1]], [[1, 0, 1]], [[0, 1, 1]], [[1, 1, 1]]]
    """
    if schedule in ARRAYS:
        return ARRAYS[schedule](stages, chunks, micro_batches, stage)
    tasks = order(schedule, stages, chunks, micro_batches, stage)
    width = max(map(len, tasks))
    none = [(-1, -1, -1)]
    return np.asarray([
        [(KINDS.index(kind), j, chunk) for kind, j, chunk in task] + none * (width - len(task)) for task in tasks
    ])  # fmt: skip


def _one_forward_one_backward(stages: int, chunks: int, micro_batches: int, stage: int) -> NDArray[np.intp]:
    """Return kind, micro-batch and chunk of every pass: millions in a search of models whose layers do not divide."""
    total = micro_batches * chunks
    rounds, place = np.divmod(np.arange(total), stages * chunks)
    turn, number = np.divmod(place, stages)
    micro_batch = rounds * stages + number
    forward, backward = (
        np.stack([np.full(total, kind), micro_batch, each * stages + stage], axis=1)
        for kind, each in ((F, turn), (B, chunks - 1 - turn))
    )
    behind = stages - stage - 1
    ahead = min(total, behind if chunks == 1 else 2 * behind + (chunks - 1) * stages)
    steady = np.stack([forward[ahead:], backward[: total - ahead]], axis=1).reshape(-1, 3)
    return np.concatenate([forward[:ahead], steady, backward[total - ahead :]])[:, None]


def _split(micro_batches: int, stage: int, ahead: int, late: int) -> list[Task]:
    """Return so many forward passes ahead, gradients of weights late by so many micro-batches."""
    passes, begun, done = [Pass("F", j, stage) for j in range(ahead)], ahead, 0
    for j in range(micro_batches):
        passes.append(Pass("B", j, stage))
        if j - done >= late:
            passes.append(Pass("W", done, stage))
            done += 1
        if begun < micro_batches:
            passes.append(Pass("F", begun, stage))
            begun += 1
    return [(each,) for each in (*passes, *(Pass("W", j, stage) for j in range(done, micro_batches)))]


def _v_shaped(stages: int, micro_batches: int, stage: int) -> list[Task]:
    """Return ZB-V's passes: without a bubble where F, B and W take equally long."""
    down, up, late = stage, 2 * stages - 1 - stage, stages - stage
    begin = [("F", down)] * (2 * late - 1) + [("F", up), ("F", down)] * stage
    passes_of = [[(kind, chunk) for kind in "FBW"] for chunk in (up, down)]
    steady = max(micro_batches - 2 * stages + stage + 1, 0)
    listed = begin + passes_of[0] * late + (passes_of[1] + passes_of[0]) * steady
    ahead = sum(each == ("F", up) for each in listed)
    listed += ([("B", down), ("W", down)] + passes_of[0]) * (micro_batches - ahead)
    listed += [("B", down), ("B", up)] * stage + [("B", down), ("W", down)] * late
    for chunk in (up, down):
        listed += [("W", chunk)] * (micro_batches - sum(each == ("W", chunk) for each in listed))
    count: Counter[tuple[str, int]] = Counter()
    passes: list[Task] = []
    for each in listed:
        passes.append((Pass(each[0], count[each], each[1]),))
        count[each] += 1
    return passes


def _bidirectional(stages: int, chunks: int, micro_batches: int, stage: int) -> NDArray[np.intp]:
    """Return kind, micro-batch and chunk of every pass of every task of DualPipe, -1 for none.

    Of two copies of the model (directions 0 and 1) the one begins at the first stage, the other at the last one. A
    direction's passes of a kind come in the order of its micro-batches, which are every second one.
    """
    listed = _directions(stages, micro_batches, stage)
    kind, direction = np.moveaxis(np.asarray([task + [NO_PASS] * (3 - len(task)) for task in listed]), -1, 0)
    code, number = (2 * kind + direction).reshape(-1), np.empty(kind.size, np.intp)
    for each in range(2 * len(KINDS)):
        places = np.flatnonzero(code == each)
        number[places] = np.arange(places.size)
    there, chunk = kind >= 0, np.asarray((stage, 2 * stages - 1 - stage))
    micro_batch = 2 * number.reshape(kind.shape) + direction
    return np.stack([kind, np.where(there, micro_batch, -1), np.where(there, chunk[direction], -1)], axis=-1)


Directed = list[tuple[int, int]]  # passes that are done in one go: the place of each one's kind, and its direction
NO_PASS = (-1, -1)


def _forward(direction: int) -> Directed:
    return [(F, direction)]


def _backward(direction: int, whole: bool = True) -> Directed:
    return [(B, direction), *(_weights(direction) if whole else [])]


def _weights(direction: int) -> Directed:
    return [(W, direction)]


def _directions(stages: int, micro_batches: int, stage: int) -> list[Directed]:
    """Return the kind and the direction of the passes of every task of DualPipe.

    ``first`` is the direction whose beginning is nearer to the stage.
    """
    half, place = stages // 2, min(stage, stages - 1 - stage)
    first, second = (0, 1) if stage < half else (1, 0)
    inner = half - place - 1
    tasks = [_forward(first)] * (2 * inner) + [_forward(first), _forward(second)] * (place + 1)
    tasks += [_backward(second, whole=False), _weights(second), _forward(second)] * inner
    there, back = _forward(first) + _backward(second), _forward(second) + _backward(first)
    tasks += [there, back] * (micro_batches // 2 - stages + place + 1) + [_backward(second), back] * inner
    late: deque[int] = deque()
    for number in range(2 * (place + 1)):
        direction = first if number % 2 else second
        tasks.append(_backward(direction, whole=number <= place))
        late += [direction] * (number > place)
    for _ in range(inner):
        tasks += [_weights(late.popleft()), _backward(first, whole=False)]
        late.append(first)
    return tasks + [_weights(direction) for direction in late]


# Schedules whose passes are made as arrays: a search goes through millions of them.
ARRAYS = {Schedule.ONE_F_ONE_B: _one_forward_one_backward, Schedule.INTERLEAVED: _one_forward_one_backward,
          Schedule.DUALPIPE: _bidirectional}  # fmt: skip
