"""Seconds of the passes of every chunk of a model, with the sends between them: what a pipeline schedule is made of."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from comp_comm.choices import Switch
from comp_comm.costmodels.complete.schedule.pipeline import Pipeline
from comp_comm.formulas.arrays import ZERO, Array, Mask, add_up
from comp_comm.layers.stages import Stage
from comp_comm.layout import Layout
from comp_comm.lazy import cached_property
from comp_comm.structs import struct


class ChunkRuns(NamedTuple):
    """Chunks of the model that are unlike their neighbours, and how many like each follow each other."""

    stages: tuple[Stage, ...]
    counts: tuple[Array, ...]


class PassSeconds(NamedTuple):
    """Seconds of passes forward and backward, of a chunk of each run."""

    forward: list[Array]
    backward: list[Array]


@struct
class ChunkPasses:
    """The passes of one micro-batch through the chunks of a pipeline's model."""

    pipeline: Pipeline

    @property
    def layout(self) -> Layout:
        """How the model is laid out."""
        return self.pipeline.layout

    @cached_property
    def runs(self) -> ChunkRuns:
        """The chunks of the model; of two copies, those of the first."""
        stages, counts = zip(*self.pipeline.work.stages.runs, strict=True)
        return ChunkRuns(stages, counts)

    @cached_property
    def per_stage(self) -> Array:
        """Chunks that a micro-batch, or two from both ends, go through on a stage."""
        layout = self.layout
        return layout.model_chunks * layout.copies / layout.pp

    @cached_property
    def passes(self) -> PassSeconds:
        """Seconds of passes, forward and backward, of a chunk of each run."""
        stages = self.runs.stages
        forward = [self.pipeline.forward_pass_s(stage) for stage in stages]
        backward = [self.pipeline.both_passes_s(stage) - each for stage, each in zip(stages, forward, strict=True)]
        return PassSeconds(forward, backward)

    @cached_property
    def send_s(self) -> Array:
        """Seconds of the send after a pass of a chunk."""
        return ZERO if self.pipeline.sends_s is ZERO else self.pipeline.sends_s / self.per_stage

    @cached_property
    def with_sends(self) -> tuple[list[Array], list[Array], tuple[Array, ...]]:
        """Passes with the sends that follow, and how many stages are in each run: of stages with one chunk."""
        forward, backward = ([add_up((each, self.send_s)) for each in passes] for passes in self.passes)
        return forward, backward, self.runs.counts

    @cached_property
    def sends_overlap(self) -> Mask:
        """Where sends run beside compute."""
        return Switch.ON.where(self.layout.overlap_pp)

    @cached_property
    def lag(self) -> Array:
        """Seconds from the end of a pass until its output is on the next stage, while the stage goes on."""
        if self.send_s is ZERO or not self.sends_overlap.any():
            return ZERO
        return np.where(self.sends_overlap, self.send_s, 0.0)

    @cached_property
    def busy(self) -> PassSeconds:
        """Seconds that a pass keeps a stage busy, with the send where it waits for that."""
        waits = ZERO if self.send_s is ZERO else self.send_s - self.lag
        return PassSeconds(*([add_up((each, waits)) for each in passes] for passes in self.passes))

    @cached_property
    def weights(self) -> list[Array]:
        """Seconds of the gradients of weights of a chunk of each run."""
        return [self.pipeline.weights_s(stage) for stage in self.runs.stages]

    @cached_property
    def pace_s(self) -> Array:
        """Seconds that both passes of a micro-batch keep the slowest stage busy."""
        if self.send_s is ZERO:
            return self.pipeline.pace_s
        return self.pipeline.pace_s + 2 * self.per_stage * (self.send_s - self.lag)
