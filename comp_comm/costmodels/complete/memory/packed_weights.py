"""Frozen weights of 4 bits in memory: what they are gathered as, and the 16 bits that are made of a matrix."""

from __future__ import annotations

from collections.abc import Sequence

from comp_comm.costmodels.work import Work
from comp_comm.formulas.arrays import Array, largest, somewhere, to_float
from comp_comm.layers.block import LayerParameters


def whole_weights(work: Work, layer: LayerParameters) -> Array:
    """Return the weights of a layer as numbers in the format of others: those of 4 bits are gathered in 4 bits."""
    f, numbers = work.scenario.formats, layer.dense + layer.experts
    if not somewhere(f.packs):
        return to_float(numbers)
    packed = layer.packed + layer.expert_packed
    return to_float(numbers - packed * (1 - f.packed("size") / to_float(f.weight)))


def unpacked_bytes(work: Work, layers: Sequence[tuple[Array, LayerParameters]]) -> Array:
    """Return the bytes of the largest matrix in 16 bits, as it is made for a product, of layers with their counts."""
    f = work.scenario.formats
    if not somewhere(f.packs):
        return to_float(0.0)
    return to_float(f.activation) * largest((to_float(count) > 0) * layer.widest for count, layer in layers)
