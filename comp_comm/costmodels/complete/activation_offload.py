"""Activation offload: bytes of activations in the host's memory, and the seconds of the link that compute hides.

A layer's activations go to the host while later layers compute, and come back while those make their gradients: as
Transformer Engine's offloading has it (`--cpu-offloading-num-layers` of Megatron-LM).
"""

from __future__ import annotations

import numpy as np

from comp_comm.choices import Recompute
from comp_comm.costmodels.comm_seconds import CommSeconds
from comp_comm.costmodels.complete.layer_costs import LayerCosts, freed_by
from comp_comm.costmodels.work import Work
from comp_comm.formulas.arrays import (
    ZERO,
    Array,
    Mask,
    add_up,
    by_code,
    isnan,
    largest,
    maximum,
    minimum,
    somewhere,
    to_float,
    where,
)
from comp_comm.group import Group
from comp_comm.layers.stages import Stage
from comp_comm.lazy import cached_property
from comp_comm.operations.shapes import Collective
from comp_comm.structs import struct
from comp_comm.timing.timed_collectives import TimedCollective

MOVING = 2.0  # layers of a micro-batch that are on the device all the same: one is at work, one comes or goes


@struct
class ActivationOffload:
    """Activations that layers save of a micro-batch, on the device or offloaded to the host's memory."""

    work: Work
    layer_costs: LayerCosts

    @cached_property
    def applies(self) -> Mask:
        """Where activations of any layers are offloaded."""
        return ~isnan(to_float(self.work.layout.offload_activations))

    def freed(self, code: int) -> list[list[Array]]:
        """Return what recomputation frees of a layer of each kind, by block."""
        if not Recompute.at(code).modules:
            return [[] for _ in self.work.pattern.kinds]
        return [freed_by(self.layer_costs.recomputable[kind], code) for kind in self.work.pattern.kinds]

    def activations(self, code: int) -> list[Array]:
        """Return the bytes that a layer of each kind saves, whichever of its modules are recomputed."""
        sizes = (self.layer_costs.activations[kind].size for kind in self.work.pattern.kinds)
        return [size - add_up(freed) if freed else size for size, freed in zip(sizes, self.freed(code), strict=True)]

    def offloaded_bytes(self, stage: Stage, micro_batches: Array, code: int) -> Array:
        """Return the bytes that are not on a device of a stage which holds so many micro-batches."""
        if not somewhere(self.applies):
            return ZERO
        layers = list(zip(stage.layer_counts, stage.recomputed_or_offloaded, self.activations(code), strict=True))
        gone = add_up(count * size for _, count, size in layers)
        stays = add_up((count - away) * size for count, away, size in layers)
        of_a_layer = largest((count > 0) * size for _, count, size in layers)
        moving = minimum(add_up(stage.recomputed_or_offloaded), MOVING) * of_a_layer
        return to_float(self.applies * (micro_batches * gone - maximum(moving - stays, 0.0)))

    def transfer_bytes(self, stage: Stage) -> Array:
        """Return the bytes that a micro-batch's layers send to the host, and take back from it."""
        return self.applies * by_code(
            np.asarray(self.work.layout.recompute),
            lambda code: add_up(
                count * size for count, size in zip(stage.recomputed_or_offloaded, self.activations(code), strict=True)
            ),
        )

    def seconds(self, stage: Stage, forward_s: Array, backward_s: Array) -> CommSeconds:
        """Return the seconds of a micro-batch's transfers, out and back, beside so much compute of each pass."""
        seconds = self.transfer_bytes(stage) / to_float(self.work.hardware.host_bandwidth)
        seconds = where(self.applies, seconds, 0.0)
        hidden = minimum(seconds, forward_s) + minimum(seconds, backward_s)
        return CommSeconds(ZERO, hidden, 2.0 * seconds - hidden)

    def transfers(self, stage: Stage) -> list[TimedCollective]:
        """Return the transfer of a micro-batch's activations, once each way."""
        if not somewhere(self.applies):
            return []
        size, one = self.transfer_bytes(stage), to_float(self.applies)
        seconds = size / to_float(self.work.hardware.host_bandwidth)
        name, formula = "activations in host memory", "kept bytes of a layer"
        sent = Collective(
            name,
            formula,
            count=one,
            kind="send",
            parallelism="host",
            message_bytes=size,
            backward_count=one,
            group=Group(1.0),
        )
        return [TimedCollective(sent, seconds)]
