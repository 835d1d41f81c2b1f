"""A step as a timeline: what each stage computes and sends when, its end that of the step."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from comp_comm.choices import Schedule, Switch
from comp_comm.costmodels.complete.pass_order import KNOWN, Timed, order, run
from comp_comm.costmodels.complete.pipeline import SPLIT
from comp_comm.costmodels.complete.step import Step
from comp_comm.costmodels.timeline import COMM, COMPUTE, SENDS, STATES, Slice, Timeline
from comp_comm.errors import ConfigError
from comp_comm.formulas.arrays import add_up
from comp_comm.layers.stages import Stage

MOST_PASSES = 100_000


class _Chunk(NamedTuple):
    """Seconds of a chunk of the model, one micro-batch: compute, and of its communication what shows and what not."""

    forward: float
    backward: float
    weights: float
    forward_comm: float
    backward_comm: float
    forward_hidden: float
    backward_hidden: float

    def scaled(self, factor: float) -> _Chunk:
        """Return a chunk that takes so many times as long."""
        return _Chunk(*(factor * each for each in self))


@dataclass(frozen=True)
class _Times:
    """How long everything of a step's timeline takes."""

    chunks: list[_Chunk]
    sends: float
    beside: bool
    split: bool

    def of(self, chunk: int) -> dict[str, float]:
        """Return the seconds of each kind of pass of a chunk, with the send that follows where it is waited for."""
        times, waits = self.chunks[chunk], 0.0 if self.beside else self.sends
        return {"F": times.forward + times.forward_comm + waits, "W": times.weights,
                "B": times.backward + times.backward_comm + waits - (times.weights if self.split else 0.0)}  # fmt: skip


def timeline(step: Step) -> Timeline:
    """Return the timeline of a step at one point. Raises ``ConfigError`` where its schedule's passes are not known.

    Passes are done in the order of the schedule, each as long as the layers of its stage take; after the last one,
    what shows of the states' communication and the optimizer. Where the seconds of the pipeline in closed form are not
    those of the passes (interleaved chunks, split backward passes), the passes are stretched to it.
    """
    layout = step.work.layout
    stages, chunks, steps = (int(float(number)) for number in (layout.pp, layout.vpp, layout.accumulation))
    schedule = Schedule.at(int(layout.schedule))
    passes = 2 * stages * chunks * steps
    if passes > MOST_PASSES:
        raise ConfigError(f"a trace of {passes:,} passes is too long to look at; at most {MOST_PASSES:,}: a smaller "
                          "global_batch shows the same")  # fmt: skip
    beside = bool(Switch.ON.where(layout.overlap_pp))
    split = schedule in SPLIT
    sends = float(step.pipeline.sends_s) / chunks if stages > 1 else 0.0  # each chunk's output is sent
    times = _Times(_chunks(step, stages, chunks), sends, beside, split)
    orders = [order(schedule if stages > 1 else KNOWN[0], stages, chunks, steps, stage) for stage in range(stages)]
    each = [times.of(chunk) for chunk in range(stages * chunks)]
    timed = run(orders, each, times.sends if beside else 0.0, chunks)
    walked = max(done.end for done in timed)
    pipelined = float(layout.stage_steps * step.pipeline.pace_s + step.bubble_s + step.sent_on.visible)
    stretch = pipelined / walked
    slices = [piece for done in timed for piece in _slices(done, times, stretch, beside)]
    slices += _tail(step, stages, pipelined)
    return Timeline(slices, stages, float(step.step_s), stretch)


def _slices(done: Timed, times: _Times, stretch: float, beside: bool) -> list[Slice]:
    """Return what a pass looks like: compute, then what shows of its communication; what is hidden is below it."""
    kind, j, chunk = done.work
    own = times.chunks[chunk]
    compute = {"F": own.forward, "W": own.weights, "B": own.backward - (own.weights if times.split else 0.0)}[kind]
    shows, hidden = {"F": (own.forward_comm, own.forward_hidden), "W": (0.0, 0.0),
                     "B": (own.backward_comm, own.backward_hidden)}[kind]  # fmt: skip
    name, start = f"{kind} {j}", done.start
    about: dict[str, object] = {"micro_batch": j, "chunk": chunk}
    pieces = [Slice(done.stage, COMPUTE, name, start * stretch, compute * stretch, {**about, "pass": kind})]
    if hidden:
        pieces.append(Slice(done.stage, COMM, f"{name} hidden", start * stretch, hidden * stretch, about))
    if shows:
        at = (start + compute) * stretch
        pieces.append(Slice(done.stage, COMM, f"{name} communication", at, shows * stretch, about))
    if times.sends and kind != "W":
        at = (done.end if beside else done.end - times.sends) * stretch
        pieces.append(Slice(done.stage, SENDS, f"{name} send", at, times.sends * stretch, about))
    return pieces


def _tail(step: Step, stages: int, start: float) -> list[Slice]:
    """Return what follows the last pass, on every stage; and before its end what ran beside it."""
    states = step.states_sent
    pieces = []
    for stage in range(stages):
        hidden = float(states.hidden)
        if hidden:
            pieces.append(Slice(stage, STATES, "gradients and weights, hidden", max(start - hidden, 0.0), hidden, {}))
        at = start
        for stream, name, seconds in ((STATES, "gradients and weights", float(states.visible)),
                                      (STATES, "gradients of norms and tied embeddings", float(step.beside_s)),
                                      (STATES, "norm of all gradients", float(step.states.world_s)),
                                      (COMPUTE, "optimizer", float(step.optimizer_s))):  # fmt: skip
            if seconds:
                pieces.append(Slice(stage, stream, name, at, seconds, {}))
            at += seconds
    return pieces


def _chunks(step: Step, stages: int, chunks: int) -> list[_Chunk]:
    """Return the seconds of every chunk, in order."""
    if chunks == 1:
        return [_chunk(step, stage) for stage, count in step.work.stages.runs for _ in range(int(float(count)))]
    one, none, number = np.asarray(1.0), np.asarray(0.0), stages * chunks
    layers, again = tuple(step.work.pattern.totals), step.work.stages.recomputed
    empty = tuple(none for _ in layers), tuple(np.zeros_like(count) for count in again)
    inner = _chunk(step, Stage(layers, again, none, none, none)).scaled(1 / number)
    first, last = (_chunk(step, Stage(*empty, *ends, none)) for ends in ((one, none), (none, one)))
    pieces = [inner] * number
    pieces[0] = _Chunk(*(a + b for a, b in zip(pieces[0], first, strict=True)))
    pieces[-1] = _Chunk(*(a + b for a, b in zip(pieces[-1], last, strict=True)))
    return pieces


def _chunk(step: Step, stage: Stage) -> _Chunk:
    pipeline = step.pipeline
    parts = pipeline.parts(stage)
    forward = float(add_up(count * times.compute.forward for times, count in parts))
    forward_s = float(add_up(count * times.forward_s for times, count in parts))
    both_s = float(pipeline.passes_s(stage))
    again = float(pipeline.again(stage, "compute")) if pipeline.recomputes else 0.0
    backward = float(add_up(count * times.compute.backward for times, count in parts)) + again
    weights = float(add_up(count * times.compute.for_weights for times, count in zip(pipeline.layers, stage.layers,
                                                                                      strict=True)))  # fmt: skip
    hidden = [float(add_up([count * spent.hidden for times, count in parts for spent in passed(times).values()]))
              for passed in (attrgetter("forward"), attrgetter("backward"))]  # fmt: skip
    return _Chunk(forward, backward, weights, forward_s - forward, both_s - forward_s - backward, *hidden)
