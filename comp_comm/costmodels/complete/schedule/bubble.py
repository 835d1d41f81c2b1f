"""The pipeline bubble: how long the slowest stage waits for the others in a step, under every schedule.

Where chunks are alike, a schedule's bubble is a formula of the literature (`comp_comm.formulas`). Where they are not,
GPipe and 1F1B have closed forms, too, and interleaving has one for most. For what is left, the longest path through the
task graph is found (`pass_times.py`, which is loaded then), many points at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from comp_comm.choices import Schedule
from comp_comm.costmodels.complete.schedule.chunk_passes import ChunkPasses
from comp_comm.costmodels.complete.schedule.pipeline import Pipeline
from comp_comm.formulas.arrays import ZERO, Array, Mask, Scalar, to_float
from comp_comm.formulas.interleaved import Chunks, interleaved_is_known, interleaved_seconds, more_chunks_seconds
from comp_comm.formulas.uneven import gpipe_bubble_seconds, uneven_bubble_seconds
from comp_comm.formulas.zero_bubble import dualpipe_seconds, zb_h2_seconds, zb_v_seconds, zero_bubble_seconds
from comp_comm.layout import Layout
from comp_comm.lazy import cached_property
from comp_comm.structs import struct

if TYPE_CHECKING:
    from comp_comm.costmodels.complete.schedule.pass_order import PassOrder
    from comp_comm.costmodels.complete.schedule.pass_times import ChunkSeconds

TOGETHER = 8192  # points whose longest paths are found at once
FIRST = np.zeros(1, np.intp)


class ClosedForm(NamedTuple):
    """Seconds of the bubble by a formula: where some path through the passes is as long, and where none is longer."""

    waits: Array
    is_path: Mask
    is_longest: Mask


@struct
class Bubble:
    """The waits of a pipeline: in closed form where there is one, else by the longest path through all passes."""

    pipeline: Pipeline

    @property
    def layout(self) -> Layout:
        """How the model is laid out."""
        return self.pipeline.layout

    @cached_property
    def chunks(self) -> ChunkPasses:
        """The passes of the chunks of the model."""
        return ChunkPasses(self.pipeline)

    @cached_property
    def seconds(self) -> Array:
        """Seconds the slowest stage waits in a step, for other stages to begin or to end."""
        return self.seconds_where(np.asarray(True))

    def seconds_where(self, wanted: Mask) -> Array:
        """Return the seconds where they are wanted, or known at once; infinity elsewhere."""
        if not self.needs_longest_path:
            return self.least
        return self._longest_paths(np.where(self._known, self.least, np.inf), wanted)

    @property
    def least(self) -> Array:
        """Seconds that it waits at least, in closed form: all of it where no longest path is needed."""
        return self._closed_forms[0]

    @property
    def needs_longest_path(self) -> bool:
        """Whether the task graph's longest path has to be found anywhere."""
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
            here = schedule.where(layout.schedule) & piped
            if here.any():
                waits, is_path, is_longest = self._closed_form(schedule)
                sure = is_longest if is_longest.all() else is_longest | ~self._has_task_order
                waits = waits if sure.all() else np.where(sure | is_path, waits, 0.0)
                least, known = np.where(here, waits, least), np.where(here, sure, known)
        return least, known

    def _closed_form(self, schedule: Schedule) -> ClosedForm:
        """Return the waits under a schedule in closed form."""
        everywhere = np.asarray(True)
        if schedule is Schedule.GPIPE:
            waits = gpipe_bubble_seconds(*self.chunks.with_sends, self.layout.accumulation)
            return ClosedForm(waits, everywhere, everywhere)
        if schedule is Schedule.ONE_F_ONE_B:  # a lag makes paths longer
            forward, backward = self.chunks.busy
            waits = uneven_bubble_seconds(forward, backward, self.chunks.runs.counts, self.layout.accumulation)
            return ClosedForm(waits, everywhere, self.chunks.lag <= 0)
        return self._interleaved() if schedule is Schedule.INTERLEAVED else self._split(schedule)

    def _interleaved(self) -> ClosedForm:
        layout = self.layout
        forward, backward = (self._ends(passes) for passes in (self.chunks.busy.forward, self.chunks.busy.backward))
        took = interleaved_seconds(layout.pp, layout.vpp, layout.accumulation, forward, backward, self.chunks.lag)
        known = interleaved_is_known(layout.pp, forward, backward, self.chunks.lag)
        waits = took - layout.stage_micro_batches * self.chunks.pace_s
        return ClosedForm(waits, self._alike_between, known & self._alike_between)

    def _split(self, schedule: Schedule) -> ClosedForm:
        """Return the waits where all chunks are alike, under a schedule that splits the backward pass."""
        pp, micro_batches = self.layout.pp, self.layout.accumulation
        forward, both, weights = (each[0] for each in (*self.chunks.busy, self.chunks.weights))
        passes = forward, both - weights, weights
        if schedule is Schedule.ZERO_BUBBLE:
            waits = zero_bubble_seconds(pp, micro_batches, *passes)
        elif schedule is Schedule.DUALPIPE:
            waits = dualpipe_seconds(pp, *passes)
        else:
            waits = zb_h2_seconds(pp, *passes) if schedule is Schedule.ZB_H2 else zb_v_seconds(pp, *passes)
        known = self._all_alike & (self.chunks.lag <= 0) & (passes[1] >= np.maximum(forward, weights))
        return ClosedForm(waits, known, known)

    # -- chunks -------------------------------------------------------------------------------------------------------

    def _ends(self, passes: list[Array]) -> Chunks:
        """Return the passes of the first chunk, of the second one, and of the last one."""
        counts = self.chunks.runs.counts
        inner = passes[0] if len(passes) == 1 else np.where(counts[0] > 1, passes[0], passes[1])
        last = passes[0]
        for each, count in zip(passes[1:], counts[1:], strict=True):
            last = np.where(count > 0, each, last)
        return Chunks(passes[0], inner, last)

    @cached_property
    def _alike_between(self) -> Mask:
        """Where the chunks between the first one and the last one are alike."""
        first, *others = self.chunks.runs.counts
        inner = self.layout.model_chunks - 2
        alike = first >= inner + 1
        return alike | ((first == 1) & (others[0] >= inner)) if others else alike

    @cached_property
    def _all_alike(self) -> Mask:
        """Where the passes of all chunks take equally long."""
        alike = np.asarray(True)
        for passes in (*self.chunks.busy, self.chunks.weights):
            for each, count in zip(passes[1:], self.chunks.runs.counts[1:], strict=True):
                alike = alike & ((count == 0) | (np.abs(each - passes[0]) <= 1e-12 * np.abs(passes[0])))
        return alike

    # -- pass by pass -------------------------------------------------------------------------------------------------

    @property
    def _has_task_order(self) -> Mask:
        """Where a layout is one that the schedule has an order of passes for: rules tell of the others."""
        layout, micro_batches = self.layout, to_float(self.layout.accumulation)
        pp, schedule = to_float(layout.pp), layout.schedule
        full = np.where(Schedule.ZB_H2.where(schedule) | Schedule.ZB_V.where(schedule), 2 * pp - 1, 1.0)
        both = Schedule.DUALPIPE.where(schedule)
        divisor = np.where(both, 2.0, np.where(Schedule.INTERLEAVED.where(schedule), pp, 1.0))
        right = (
            (micro_batches >= np.where(both, 2 * pp, full)) & (micro_batches % divisor == 0) & (~both | (pp % 2 == 0))
        )
        right = right & (sum(self.chunks.runs.counts, ZERO) == layout.model_chunks)
        right = right & ((to_float(layout.vpp) > 1) == Schedule.INTERLEAVED.where(schedule))
        for each in (*self.chunks.busy.forward, *self.chunks.busy.backward, self.chunks.lag):
            right = right & np.isfinite(each)
        return np.asarray(right)

    def _longest_paths(self, waits: Array, wanted: Mask) -> Array:
        """Return the waits, where they are not known and wanted by the longest path."""
        from comp_comm.costmodels.complete.schedule.pass_order import PassOrder
        from comp_comm.costmodels.complete.schedule.pass_times import step_seconds

        layout, chunks = self.layout, self.chunks
        few, more_s = self._left_out
        codes = [to_float(each) for each in (layout.schedule, layout.pp, few, layout.accumulation)]
        busy, row = layout.stage_micro_batches * chunks.pace_s - more_s, self.pipeline.work.stages.row
        passes = (*chunks.busy.forward, *chunks.busy.backward, *chunks.weights)
        shape = np.broadcast_shapes(*(each.shape for each in (waits, busy, row, chunks.lag, *codes, *passes)))
        made = np.array(np.broadcast_to(waits, shape)).reshape(-1)
        left = np.flatnonzero(np.broadcast_to(~self._known, shape) & _somewhere_along(wanted, shape))
        *orders, micro_batches = (
            np.broadcast_to(_taken(each, shape, left), left.shape).astype(np.intp) for each in codes
        )
        for schedule, pp, vpp in sorted(set(zip(*(each.tolist() for each in orders), strict=True))):
            alike = np.flatnonzero((orders[0] == schedule) & (orders[1] == pp) & (orders[2] == vpp))
            for some in (alike[start : start + TOGETHER] for start in range(0, alike.size, TOGETHER)):
                points, order = left[some], PassOrder(Schedule.at(schedule), pp, vpp)
                took = step_seconds(order, micro_batches[some], self.chunk_seconds(order, shape, points))
                made[points] = np.maximum(took - _taken(busy, shape, points), 0.0)  # not less by rounding
        return made.reshape(shape)

    @property
    def _left_out(self) -> tuple[Array, Array]:
        """Chunks of a stage that are in the task graph, and seconds of a step for those that are not.

        With interleaving those between are alike mostly: of each stage two are enough, and others add as much each.
        """
        layout, interleaved = self.layout, Schedule.INTERLEAVED.where(self.layout.schedule)
        vpp = to_float(layout.vpp)
        if not interleaved.any():
            return vpp, ZERO
        forward, backward = self._ends(self.chunks.busy.forward), self._ends(self.chunks.busy.backward)
        more_s, known = more_chunks_seconds(layout.pp, vpp - 2, layout.accumulation, forward, backward, self.chunks.lag)
        known = known & interleaved & self._alike_between & (vpp > 2)
        return np.where(known, 2.0, vpp), np.where(known, more_s, 0.0)

    def chunk_seconds(
        self, passes: PassOrder, shape: tuple[int, ...] = (), points: NDArray[np.intp] = FIRST
    ) -> ChunkSeconds:
        """Return the seconds of passes at some points, flat places in ``shape``.

        They are what keeps a stage busy; the gradients of weights are in B where the schedule does not take them apart.
        Where there are more chunks than ``passes`` has, some before the last one are left out.
        """
        from comp_comm.costmodels.complete.schedule.pass_times import ChunkSeconds

        stages, at = self.pipeline.work.stages, np.zeros(points.size, np.intp)
        ends = np.cumsum(stages.table.counts[:, at + _taken(stages.row, shape, points)], axis=0)
        chunk = np.repeat(np.arange(float(passes.model_chunks))[:, None], points.size, axis=1)
        chunk[-1] = ends[-1] - 1
        run = (chunk >= ends[:, None]).sum(axis=0)

        def of_chunks(of_runs: list[Array]) -> Array:
            seconds = np.stack([at + _taken(each, shape, points) for each in of_runs])
            each = np.take_along_axis(seconds, run, axis=0)
            return np.concatenate([each, each]) if passes.schedule is Schedule.DUALPIPE else each

        forward, backward, weights = (of_chunks(each) for each in (*self.chunks.busy, self.chunks.weights))
        backward = backward - weights if passes.schedule.splits_backward else backward
        return ChunkSeconds({"F": forward, "B": backward, "W": weights}, _taken(self.chunks.lag, shape, points))


def _somewhere_along(wanted: Mask, shape: tuple[int, ...]) -> Mask:
    """Return where something is wanted, as an array of a shape that may lack some axes."""
    axes = tuple(range(wanted.ndim - len(shape)))
    short = tuple(i - len(shape) for i, size in enumerate(shape) if size == 1 and len(shape) - i <= wanted.ndim)
    return np.any(wanted, axis=short, keepdims=True).any(axis=axes) if wanted.ndim else wanted


def _taken(values: NDArray[Scalar], shape: tuple[int, ...], points: NDArray[np.intp]) -> NDArray[Scalar]:
    """Return the values at some points of a shape, one number where all have the same."""
    return values.reshape(-1)[:1] if values.size == 1 else np.broadcast_to(values, shape).reshape(-1)[points]
