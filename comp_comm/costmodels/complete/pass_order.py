"""In which order a stage of a pipeline does its passes, and when each of them runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from comp_comm.choices import Schedule
from comp_comm.errors import ConfigError

KNOWN = (Schedule.ONE_F_ONE_B, Schedule.INTERLEAVED, Schedule.GPIPE, Schedule.ZERO_BUBBLE, Schedule.ZB_H2)


class Pass(NamedTuple):
    """A pass of a micro-batch through a chunk of the model: F forward, B backward, W gradients of weights apart."""

    kind: str
    micro_batch: int
    chunk: int


class Timed(NamedTuple):
    """A pass of a stage and when it begins and ends, in seconds."""

    stage: int
    work: Pass
    start: float
    end: float


def order(schedule: Schedule, stages: int, chunks: int, steps: int, stage: int) -> list[Pass]:
    """Return what a stage does, in order; ``chunks`` of the model are on each stage, ``steps`` is of micro-batches.

    Raises ``ConfigError`` for a schedule whose order is not known here.

    References: D. Narayanan et al., arXiv:2104.04473, figures 3 and 4; P. Qi et al., arXiv:2401.10241, figures 2 and 3.

    >>> [f"{kind}{j}" for kind, j, _ in order(Schedule.ONE_F_ONE_B, 2, 1, 3, 0)]
    ['F0', 'F1', 'B0', 'F2', 'B1', 'B2']
    >>> [f"{kind}{j}" for kind, j, _ in order(Schedule.ZERO_BUBBLE, 2, 1, 2, 1)]
    ['F0', 'B0', 'F1', 'B1', 'W0', 'W1']
    """
    if schedule not in KNOWN:
        raise ConfigError(f"a trace knows the passes of the schedules {', '.join(each.word for each in KNOWN)}, "
                          f"not those of {schedule.word}")  # fmt: skip
    if schedule is Schedule.GPIPE:
        return [Pass(kind, j, stage) for kind in "FB" for j in range(steps)]
    if schedule in (Schedule.ONE_F_ONE_B, Schedule.INTERLEAVED):
        return _one_forward_one_backward(stages, chunks, steps, stage)
    two = schedule is Schedule.ZB_H2
    ahead = min(steps, 2 * (stages - stage) - 1 if two else stages - stage)
    return _split(steps, stage, ahead, (2 if two else 1) * stage)


def _one_forward_one_backward(stages: int, chunks: int, steps: int, stage: int) -> list[Pass]:
    total = steps * chunks

    def nth(number: int, kind: str) -> Pass:
        turn = number % (stages * chunks) // stages
        micro_batch = number // (stages * chunks) * stages + number % stages
        return Pass(kind, micro_batch, (turn if kind == "F" else chunks - 1 - turn) * stages + stage)

    behind = stages - stage - 1
    ahead = min(total, behind if chunks == 1 else 2 * behind + (chunks - 1) * stages)
    steady = [each for k in range(total - ahead) for each in (nth(ahead + k, "F"), nth(k, "B"))]
    return [*(nth(k, "F") for k in range(ahead)), *steady, *(nth(k, "B") for k in range(total - ahead, total))]


def _split(steps: int, stage: int, ahead: int, late: int) -> list[Pass]:
    passes, begun, done = [Pass("F", j, stage) for j in range(ahead)], ahead, 0
    for j in range(steps):
        passes.append(Pass("B", j, stage))
        if j - done >= late:
            passes.append(Pass("W", done, stage))
            done += 1
        if begun < steps:
            passes.append(Pass("F", begun, stage))
            begun += 1
    return [*passes, *(Pass("W", j, stage) for j in range(done, steps))]


def run(orders: Sequence[Sequence[Pass]], seconds: Sequence[dict[str, float]], lag: float, chunks: int) -> list[Timed]:
    """Return when each pass runs: a stage does one at a time, in order, once what it needs has come.

    ``seconds`` are those of the kinds of passes of each chunk of the model, in order; ``lag`` is how long after a pass
    its output is on the next stage, while the stage itself goes on.

    >>> passes = [order(Schedule.GPIPE, 2, 1, 2, stage) for stage in range(2)]
    >>> max(done.end for done in run(passes, [{"F": 1.0, "B": 2.0}] * 2, 0.0, 1))
    9.0
    """
    ended: dict[Pass, float] = {}
    free, places, timed = [0.0] * len(orders), [0] * len(orders), []
    last = len(orders) * chunks - 1
    left = sum(map(len, orders))
    while left:
        before = left
        for stage, passes in enumerate(orders):
            while places[stage] < len(passes):
                work = passes[places[stage]]
                ready = _ready(work, last, ended, lag)
                if ready is None:
                    break
                start = max(free[stage], ready)
                free[stage] = ended[work] = start + seconds[work.chunk][work.kind]
                timed.append(Timed(stage, work, start, free[stage]))
                places[stage] += 1
                left -= 1
        if left == before:
            raise ConfigError("the passes of this schedule wait for each other: it needs more micro-batches")
    return timed


def _ready(work: Pass, last: int, ended: dict[Pass, float], lag: float) -> float | None:
    """Return when what a pass needs is there, None where it is not known yet."""
    kind, j, chunk = work
    if kind == "W":
        return ended.get(Pass("B", j, chunk))
    if kind == "B" and chunk == last:
        return ended.get(Pass("F", j, chunk))
    if kind == "F" and chunk == 0:
        return 0.0
    came = ended.get(Pass(kind, j, chunk - 1 if kind == "F" else chunk + 1))
    return None if came is None else came + lag
