"""A step as a timeline: what each stage computes and sends when, its end that of the step."""

from __future__ import annotations

from operator import attrgetter
from typing import NamedTuple

from comp_comm.choices import Schedule, Switch
from comp_comm.costmodels.complete.schedule.pass_order import Pass, PassOrder
from comp_comm.costmodels.complete.schedule.pass_times import ScheduledTask, scheduled_tasks
from comp_comm.costmodels.complete.step import Step
from comp_comm.costmodels.timeline import COMM, COMPUTE, SENDS, STATES, Slice, Timeline
from comp_comm.errors import ConfigError
from comp_comm.formulas.arrays import add_up
from comp_comm.layers.stages import Stage
from comp_comm.structs import struct

MOST_PASSES = 100_000


class _Chunk(NamedTuple):
    """Seconds of a chunk of the model, one micro-batch: compute, and of its communication what shows and what not."""

    forward: float
    backward: float
    weights: float
    weights_waits: float
    forward_comm: float
    backward_comm: float
    forward_hidden: float
    backward_hidden: float


@struct
class _Times:
    """How long everything of a step's timeline takes."""

    chunks: list[_Chunk]
    sends: float
    beside: bool
    split: bool
    model_chunks: int

    def goes_on(self, item: Pass) -> bool:
        """Return whether what a pass makes goes to another stage, or keeps its own one busy as if it did."""
        end = {"F": self.model_chunks - 1, "B": 0}.get(item.kind)
        return bool(self.sends) and end is not None and not (self.beside and item.chunk % self.model_chunks == end)

    def of(self, item: Pass) -> tuple[float, float, float]:
        """Return the compute of a pass, and of the communication of its layers what shows and what is hidden."""
        own = self.chunks[item.chunk]
        weights, waits = (own.weights, own.weights_waits) if self.split else (0.0, 0.0)
        return {"F": (own.forward, own.forward_comm, own.forward_hidden), "W": (weights, waits, 0.0),
                "B": (own.backward - weights, own.backward_comm - waits, own.backward_hidden),
                }[item.kind]  # fmt: skip


def timeline(step: Step) -> Timeline:
    """Return the timeline of a step at one point. Raises ``ConfigError`` where it is too long to look at.

    Passes are done in the order of the schedule, each as long as the layers of its chunk take; after the last one,
    what shows of the states' communication and the optimizer. Sends that do not fit beside the compute stretch the
    passes. Where stages begin the next step while others are in this one, the last stage ends later than a step takes.
    """
    layout = step.work.layout
    stages, chunks, micro_batches = (int(float(number)) for number in (layout.pp, layout.vpp, layout.accumulation))
    schedule = Schedule.at(int(layout.schedule)) if stages > 1 else Schedule.ONE_F_ONE_B
    passes = int(2 * float(layout.model_chunks) * micro_batches)
    if passes > MOST_PASSES:
        raise ConfigError(f"a trace of {passes:,} passes is too long to look at; at most {MOST_PASSES:,}: a smaller "
                          "global_batch shows the same")  # fmt: skip
    listed = [_chunk(step, stage) for stage, count in step.work.stages.runs for _ in range(int(float(count)))]
    sends = float(step.bubble.chunks.send_s) if stages > 1 else 0.0  # each chunk's output is sent
    times = _Times(
        listed * int(float(layout.copies)),
        sends,
        bool(Switch.ON.where(layout.overlap_pp)),
        schedule.splits_backward,
        len(listed),
    )
    order = PassOrder(schedule, stages, chunks)
    done = scheduled_tasks(order, micro_batches, step.bubble.chunk_seconds(order))
    ran = max(each.end for each in done)
    pipelined = float(
        layout.stage_micro_batches * step.pipeline.pace_s + step.bubble_s + step.communication.sends_visible_s
    )
    alone = float(layout.stage_micro_batches * step.bubble.chunks.pace_s + step.bubble_s)
    stretch = pipelined / (ran if schedule.has_barrier else alone)
    slices = [piece for each in done for piece in _slices(each, times, stretch)]
    ends = {each.stage: each.end * stretch for each in done}
    if schedule.has_barrier:
        ends = dict.fromkeys(ends, pipelined)
    slices += [piece for stage, start in ends.items() for piece in _tail(step, stage, start)]
    end = float(step.step_s) if schedule.has_barrier else max(piece.start + piece.seconds for piece in slices)
    return Timeline(slices, stages, end, stretch)


def _slices(done: ScheduledTask, times: _Times, stretch: float) -> list[Slice]:
    """Return what a stage does in one go, pass by pass."""
    pieces, start = [], done.start
    for item in done.task:
        more, start = _pass(done.stage, item, start, times)
        pieces += more
    return [piece._replace(start=piece.start * stretch, seconds=piece.seconds * stretch) for piece in pieces]


def _pass(stage: int, item: Pass, start: float, times: _Times) -> tuple[list[Slice], float]:
    """Return a pass and when it ends: compute, then what shows of its communication; what is hidden is below it."""
    kind, j, chunk = item
    compute, shows, hidden = times.of(item)
    name, about = f"{kind} {j}", {"micro_batch": j, "chunk": chunk}
    pieces = [Slice(stage, COMPUTE, name, start, compute, {**about, "pass": kind})]
    if hidden:
        pieces.append(Slice(stage, COMM, f"{name} hidden", start, hidden, {**about}))
    if shows:
        pieces.append(Slice(stage, COMM, f"{name} communication", start + compute, shows, {**about}))
    end = start + compute + shows
    if times.goes_on(item):
        pieces.append(Slice(stage, SENDS, f"{name} send", end, times.sends, {**about}))
        end += 0.0 if times.beside else times.sends
    return pieces, end


def _tail(step: Step, stage: int, start: float) -> list[Slice]:
    """Return what follows the last pass on a stage, and before its end what ran beside it."""
    comm, states = step.communication, step.communication.states_comm
    pieces, hidden, at = [], float(states.hidden), start
    if hidden:
        pieces.append(Slice(stage, STATES, "gradients and weights, hidden", max(start - hidden, 0.0), hidden, {}))
    for stream, name, seconds in ((STATES, "gradients and weights", float(states.visible)),
                                  *((STATES, name, float(each)) for name, each in comm.after_passes_s.items()),
                                  (COMPUTE, "optimizer", float(step.optimizer_s))):  # fmt: skip
        if seconds:
            pieces.append(Slice(stage, stream, name, at, seconds, {}))
        at += seconds
    return pieces


def _chunk(step: Step, stage: Stage) -> _Chunk:
    pipeline = step.pipeline
    parts = pipeline.layers_and_ends(stage)
    forward = float(add_up(count * times.compute.forward for times, count in parts))
    forward_s = float(add_up(count * times.forward_pass_s for times, count in parts))
    both_s = float(pipeline.both_passes_s(stage))
    again = float(pipeline.recomputed_s(stage, lambda times: times.compute.forward)) if pipeline.recomputes else 0.0
    backward = float(add_up(count * times.compute.backward for times, count in parts)) + again
    layers = zip(pipeline.layer_times, stage.layer_counts, strict=True)
    weights = float(add_up(count * times.compute.for_weights for times, count in layers))
    hidden = [float(add_up([count * spent.hidden for times, count in parts for spent in passed(times).values()]))
              for passed in (attrgetter("forward_comm"), attrgetter("backward_comm"))]  # fmt: skip
    waits = float(pipeline.weights_s(stage)) - weights
    return _Chunk(forward, backward, weights, waits, forward_s - forward, both_s - forward_s - backward, *hidden)
