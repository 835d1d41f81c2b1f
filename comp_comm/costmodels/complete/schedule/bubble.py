"""How long the slowest stage of a pipeline waits for the others in a step, under every schedule."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from comp_comm.choices import Schedule, Switch
from comp_comm.costmodels.complete.schedule.pass_times import ChunkSeconds, step_seconds
from comp_comm.costmodels.complete.schedule.pass_walk import PassOrder
from comp_comm.costmodels.complete.schedule.pipeline import Pipeline
from comp_comm.formulas.arrays import ZERO, Array, Scalar, add_up, to_float
from comp_comm.formulas.interleaved import Chunks, interleaved_is_known, interleaved_seconds, more_chunks_seconds
from comp_comm.formulas.uneven import gpipe_bubble_seconds, uneven_bubble_seconds
from comp_comm.formulas.zero_bubble import dualpipe_seconds, zb_h2_seconds, zb_v_seconds, zero_bubble_seconds
from comp_comm.layers.stages import Stage
from comp_comm.layout import Layout
from comp_comm.lazy import cached_property
from comp_comm.violation import Mask

# Schedules that do gradients of weights apart from those of inputs.
SPLIT = (Schedule.ZERO_BUBBLE, Schedule.ZB_H2, Schedule.ZB_V, Schedule.DUALPIPE)
TOGETHER = 8192  # points that are walked through at once
FIRST = np.zeros(1, np.intp)


@dataclass(frozen=True, eq=False)
class Bubble:
    """The waits of a pipeline: in closed form where there is one, else along all passes."""

    pipeline: Pipeline

    @property
    def layout(self) -> Layout:
        """How the model is laid out."""
        return self.pipeline.layout

    @cached_property
    def seconds(self) -> Array:
        """Seconds the slowest stage waits in a step, for other stages to begin or to end."""
        return self.seconds_where(np.asarray(True))

    def seconds_where(self, wanted: Mask) -> Array:
        """Return the seconds where they are wanted, or known at once; infinity elsewhere."""
        if not self.walks:
            return self.least
        return self._walked(np.where(self._known, self.least, np.inf), wanted)

    @property
    def least(self) -> Array:
        """Seconds that it waits at least: known at once, and where there is no need to walk, all of it."""
        return self._closed_forms[0]

    @property
    def walks(self) -> bool:
        """Whether passes have to be walked through anywhere."""
        return not self._known.all()

    @property
    def _known(self) -> Mask:
        return self._closed_forms[1]

    @cached_property
    def _closed_forms(self) -> tuple[Array, Mask]:
        """The least waits, and where it is known that they are no longer."""
        layout = self.layout
        piped = to_float(layout.pp) > 1
        least, known = ZERO, ~piped
        for schedule in Schedule:
            there = schedule.where(layout.schedule) & piped
            if there.any():
                waits, path, sure = self._closed_form(schedule)
                sure = sure if sure.all() else sure | ~self._walkable
                waits = waits if sure.all() else np.where(sure | path, waits, 0.0)
                least, known = np.where(there, waits, least), np.where(there, sure, known)
        return least, known

    def _closed_form(self, schedule: Schedule) -> tuple[Array, Mask, Mask]:
        """Return the waits under a schedule in closed form, where some path through the passes is as long, and where
        none is longer."""
        yes = np.asarray(True)
        if schedule is Schedule.GPIPE:
            return gpipe_bubble_seconds(*self._runs, self.layout.accumulation), yes, yes
        if schedule is Schedule.ONE_F_ONE_B:  # a lag makes paths longer
            forward, backward = self._busy
            waits = uneven_bubble_seconds(forward, backward, self._chunks[1], self.layout.accumulation)
            return waits, yes, self._lag <= 0
        return self._interleaved() if schedule is Schedule.INTERLEAVED else self._split(schedule)

    def _interleaved(self) -> tuple[Array, Mask, Mask]:
        layout = self.layout
        forward, backward = (self._ends(passes) for passes in (self._busy[0], self._busy[1]))
        took = interleaved_seconds(layout.pp, layout.vpp, layout.accumulation, forward, backward, self._lag)
        known = interleaved_is_known(layout.pp, forward, backward, self._lag)
        return took - layout.stage_micro_batches * self.pace_s, self._alike_between, known & self._alike_between

    def _split(self, schedule: Schedule) -> tuple[Array, Mask, Mask]:
        """Return the waits where all chunks are alike, under a schedule that splits the backward pass."""
        pp, micro_batches = self.layout.pp, self.layout.accumulation
        forward, both, weights = (each[0] for each in (*self._busy, self._weights))
        passes = forward, both - weights, weights
        if schedule is Schedule.ZERO_BUBBLE:
            waits = zero_bubble_seconds(pp, micro_batches, *passes)
        elif schedule is Schedule.DUALPIPE:
            waits = dualpipe_seconds(pp, *passes)
        else:
            waits = zb_h2_seconds(pp, *passes) if schedule is Schedule.ZB_H2 else zb_v_seconds(pp, *passes)
        known = self._all_alike & (self._lag <= 0) & (passes[1] >= np.maximum(forward, weights))
        return waits, known, known

    # -- chunks -------------------------------------------------------------------------------------------------------

    @cached_property
    def _chunks(self) -> tuple[tuple[Stage, ...], tuple[Array, ...]]:
        """The chunks of the model that are unlike their neighbours, and how many like each follow each other."""
        stages, counts = zip(*self.pipeline.work.stages.runs, strict=True)
        return stages, counts

    @cached_property
    def _per_stage(self) -> Array:
        """Chunks that a micro-batch, or two from both ends, go through on a stage."""
        layout = self.layout
        return layout.model_chunks * layout.copies / layout.pp

    @cached_property
    def _passes(self) -> tuple[list[Array], list[Array]]:
        """Seconds of passes, forward and backward, of a chunk of each run."""
        forward = [self.pipeline.forward_s(stage) for stage in self._chunks[0]]
        return forward, [self.pipeline.passes_s(stage) - f for stage, f in zip(self._chunks[0], forward, strict=True)]

    @cached_property
    def send_s(self) -> Array:
        """Seconds of the send after a pass of a chunk."""
        return ZERO if self.pipeline.sends_s is ZERO else self.pipeline.sends_s / self._per_stage

    @cached_property
    def _runs(self) -> tuple[list[Array], list[Array], tuple[Array, ...]]:
        """Passes with the sends that follow, and how many stages are in each run: of stages with one chunk."""
        forward, backward = ([add_up((each, self.send_s)) for each in passes] for passes in self._passes)
        return forward, backward, self._chunks[1]

    @cached_property
    def _sends_overlap(self) -> Mask:
        """Where sends run beside compute."""
        return Switch.ON.where(self.layout.overlap_pp)

    @cached_property
    def _lag(self) -> Array:
        """Seconds from the end of a pass until its output is on the next stage, while the stage goes on."""
        if self.send_s is ZERO or not self._sends_overlap.any():
            return ZERO
        return np.where(self._sends_overlap, self.send_s, 0.0)

    @cached_property
    def _busy(self) -> tuple[list[Array], list[Array]]:
        """Seconds that a pass keeps a stage busy, with the send where it waits for that."""
        waits = ZERO if self.send_s is ZERO else self.send_s - self._lag
        forward, backward = ([add_up((each, waits)) for each in passes] for passes in self._passes)
        return forward, backward

    @cached_property
    def _weights(self) -> list[Array]:
        """Seconds of the gradients of weights of a chunk of each run."""
        return [self.pipeline.weights_s(stage) for stage in self._chunks[0]]

    @cached_property
    def pace_s(self) -> Array:
        """Seconds that both passes of a micro-batch keep the slowest stage busy."""
        if self.send_s is ZERO:
            return self.pipeline.pace_s
        return self.pipeline.pace_s + 2 * self._per_stage * (self.send_s - self._lag)

    def _ends(self, passes: list[Array]) -> Chunks:
        """Return the passes of the first chunk, of the second one, and of the last one."""
        counts = self._chunks[1]
        inner = passes[0] if len(passes) == 1 else np.where(counts[0] > 1, passes[0], passes[1])
        last = passes[0]
        for each, count in zip(passes[1:], counts[1:], strict=True):
            last = np.where(count > 0, each, last)
        return Chunks(passes[0], inner, last)

    @cached_property
    def _alike_between(self) -> Mask:
        """Where the chunks between the first one and the last one are alike."""
        first, *others = self._chunks[1]
        inner = self.layout.model_chunks - 2
        alike = first >= inner + 1
        return alike | ((first == 1) & (others[0] >= inner)) if others else alike

    @cached_property
    def _all_alike(self) -> Mask:
        """Where the passes of all chunks take equally long."""
        alike = np.asarray(True)
        for passes in (*self._busy, self._weights):
            for each, count in zip(passes[1:], self._chunks[1][1:], strict=True):
                alike = alike & ((count == 0) | (np.abs(each - passes[0]) <= 1e-12 * np.abs(passes[0])))
        return alike

    # -- pass by pass -------------------------------------------------------------------------------------------------

    @property
    def _walkable(self) -> Mask:
        """Where a layout is one that the schedule has an order of passes for: rules tell of the others."""
        layout, micro_batches = self.layout, to_float(self.layout.accumulation)
        pp, schedule = to_float(layout.pp), layout.schedule
        full = np.where(Schedule.ZB_H2.where(schedule) | Schedule.ZB_V.where(schedule), 2 * pp - 1, 1.0)
        both = Schedule.DUALPIPE.where(schedule)
        divisor = np.where(both, 2.0, np.where(Schedule.INTERLEAVED.where(schedule), pp, 1.0))
        right = (
            (micro_batches >= np.where(both, 2 * pp, full)) & (micro_batches % divisor == 0) & (~both | (pp % 2 == 0))
        )
        right = right & (sum(self._chunks[1], ZERO) == layout.model_chunks)
        right = right & ((to_float(layout.vpp) > 1) == Schedule.INTERLEAVED.where(schedule))
        for each in (*self._busy[0], *self._busy[1], self._lag):
            right = right & np.isfinite(each)
        return np.asarray(right)

    def _walked(self, waits: Array, wanted: Mask) -> Array:
        """Return the waits, where they are not known and wanted those that all passes come to, one by one."""
        layout = self.layout
        few, more_s = self._left_out
        codes = [to_float(each) for each in (layout.schedule, layout.pp, few, layout.accumulation)]
        busy, row = layout.stage_micro_batches * self.pace_s - more_s, self.pipeline.work.stages.row
        seconds = (waits, busy, row, self._lag, *codes, *self._busy[0], *self._busy[1], *self._weights)
        shape = np.broadcast_shapes(*(each.shape for each in seconds))
        made = np.array(np.broadcast_to(waits, shape)).reshape(-1)
        left = np.flatnonzero(np.broadcast_to(~self._known, shape) & _somewhere_along(wanted, shape))
        *orders, micro_batches = (
            np.broadcast_to(_taken(each, shape, left), left.shape).astype(np.intp) for each in codes
        )
        for schedule, pp, vpp in sorted(set(zip(*(each.tolist() for each in orders), strict=True))):
            there = np.flatnonzero((orders[0] == schedule) & (orders[1] == pp) & (orders[2] == vpp))
            for some in (there[start : start + TOGETHER] for start in range(0, there.size, TOGETHER)):
                points, passes = left[some], PassOrder(Schedule.at(schedule), pp, vpp)
                took = step_seconds(passes, micro_batches[some], self.chunk_seconds(passes, shape, points))
                made[points] = np.maximum(took - _taken(busy, shape, points), 0.0)  # not less by rounding
        return made.reshape(shape)

    @property
    def _left_out(self) -> tuple[Array, Array]:
        """Chunks of a stage that are walked through, and seconds of a step for those that are not.

        With interleaving those between are alike mostly: of each stage two are enough, and others add as much each.
        """
        layout, interleaved = self.layout, Schedule.INTERLEAVED.where(self.layout.schedule)
        vpp = to_float(layout.vpp)
        if not interleaved.any():
            return vpp, ZERO
        forward, backward = self._ends(self._busy[0]), self._ends(self._busy[1])
        more_s, known = more_chunks_seconds(layout.pp, vpp - 2, layout.accumulation, forward, backward, self._lag)
        known = known & interleaved & self._alike_between & (vpp > 2)
        return np.where(known, 2.0, vpp), np.where(known, more_s, 0.0)

    def chunk_seconds(
        self, passes: PassOrder, shape: tuple[int, ...] = (), points: NDArray[np.intp] = FIRST
    ) -> ChunkSeconds:
        """Return the seconds of passes at some points, flat places in ``shape``.

        They are what keeps a stage busy; the gradients of weights are in B where the schedule does not take them apart.
        Where there are more chunks than ``passes`` has, some before the last one are left out.
        """
        stages, at = self.pipeline.work.stages, np.zeros(points.size, np.intp)
        ends = np.cumsum(stages.table.counts[:, at + _taken(stages.row, shape, points)], axis=0)
        chunk = np.repeat(np.arange(float(passes.model_chunks))[:, None], points.size, axis=1)
        chunk[-1] = ends[-1] - 1
        run = (chunk >= ends[:, None]).sum(axis=0)

        def of_chunks(of_runs: list[Array]) -> Array:
            seconds = np.stack([at + _taken(each, shape, points) for each in of_runs])
            each = np.take_along_axis(seconds, run, axis=0)
            return np.concatenate([each, each]) if passes.schedule is Schedule.DUALPIPE else each

        forward, backward, weights = (of_chunks(each) for each in (*self._busy, self._weights))
        backward = backward - weights if passes.schedule in SPLIT else backward
        return ChunkSeconds({"F": forward, "B": backward, "W": weights}, _taken(self._lag, shape, points))


def _somewhere_along(wanted: Mask, shape: tuple[int, ...]) -> Mask:
    """Return where something is wanted, as an array of a shape that may lack some axes."""
    axes = tuple(range(wanted.ndim - len(shape)))
    short = tuple(i - len(shape) for i, size in enumerate(shape) if size == 1 and len(shape) - i <= wanted.ndim)
    return np.any(wanted, axis=short, keepdims=True).any(axis=axes) if wanted.ndim else wanted


def _taken(values: NDArray[Scalar], shape: tuple[int, ...], points: NDArray[np.intp]) -> NDArray[Scalar]:
    """Return the values at some points of a shape, one number where all have the same."""
    return values.reshape(-1)[:1] if values.size == 1 else np.broadcast_to(values, shape).reshape(-1)[points]
