"""Parameters that a device of a pipeline stage has, of all replicas and of experts, and which of them are trained."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from comp_comm.formulas.arrays import Array, to_float
from comp_comm.layers.block import LayerParameters


class StageParameters(NamedTuple):
    """Parameters of a stage on a device: layers of each kind, those of a layer of each, and those of its ends.

    Of the ``ends``, ``head`` are final norm and output layer. ``frozen`` says that only adapters of layers are trained.
    """

    counts: Sequence[Array]
    layers: Sequence[LayerParameters]
    ends: Array
    head: Array
    frozen: bool = False

    @property
    def trained(self) -> StageParameters:
        """What of it is trained: all, or adapters of layers."""
        if not self.frozen:
            return self
        none = to_float(0.0)
        return StageParameters(self.counts, [each.trained for each in self.layers], none, none)

    @property
    def dense(self) -> Array:
        """Parameters that all replicas hold."""
        layers = zip(self.counts, self.layers, strict=True)
        return to_float(sum((count * layer.dense for count, layer in layers), self.ends))

    @property
    def experts(self) -> Array:
        """Parameters of experts."""
        layers = zip(self.counts, self.layers, strict=True)
        return to_float(sum((count * layer.experts for count, layer in layers), to_float(0.0)))
