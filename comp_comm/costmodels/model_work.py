"""What a model is whatever the layout: its parameters, and the FLOP of a forward pass."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from comp_comm.choices import AttentionCount
from comp_comm.formats import Formats
from comp_comm.formulas.arrays import (
    ZERO,
    Array,
    Numeric,
    add_up,
    maximum,
    to_float,
    where,
)
from comp_comm.layers.block import LayerParameters
from comp_comm.layers.ends import embedding_operations, end_parameters, head_operations
from comp_comm.layers.pattern import pattern_of
from comp_comm.layout import Layout
from comp_comm.operations.context import Context
from comp_comm.operations.products import FusedProducts
from comp_comm.operations.shapes import Attention, Gemm, Operation
from comp_comm.transformer import Transformer

ONE_DEVICE_LAYOUT = Layout(micro_batch=1, tp=1, dp=1, cp=1, pp=1, ep=1, etp=1, sp=0)


class ModelParameters(NamedTuple):
    """Parameters of a model: all, those a token uses, and apart from them those of its MTP modules.

    Adapters of a frozen model are in none of them.
    """

    all: Array
    active: Array
    mtp: Array


def model_parameters(t: Transformer) -> ModelParameters:
    """Return the parameters of a resolved model: what one device alone would hold, without padding.

    Tied embeddings count once; modules of multi-token prediction are in none of the first two.

    >>> from comp_comm.choices import Position
    >>> from comp_comm.transformer import resolved
    >>> gpt2 = resolved(Transformer(768, 1024, layers=12, heads=12, vocab=50257, position=Position.LEARNED, tied=1))
    >>> int(model_parameters(gpt2).all)
    124439808
    """
    c, pattern = Context(t, ONE_DEVICE_LAYOUT, Formats()), pattern_of(t)
    total = sum(end_parameters(c, to_float(t.vocab)), to_float(0.0))
    active, mtp = total, to_float(0.0)
    experts = to_float(t.experts)
    used = where(experts > 0, to_float(t.top_k) / maximum(experts, 1), 0.0)
    for kind, count in zip(pattern.kinds, pattern.totals, strict=True):
        layer = kind.parameters(kind.context(c))
        if layer.adapters is not None:
            layer = LayerParameters(layer.dense - layer.adapters, layer.experts - layer.expert_adapters)
        if kind.of_prediction:
            mtp = mtp + count * (layer.dense + layer.experts)
        else:
            total = total + count * (layer.dense + layer.experts)
            active = active + count * (layer.dense + layer.experts * used)
    return ModelParameters(np.rint(total), np.rint(active), np.rint(mtp))


class ForwardFlops(NamedTuple):
    """FLOP of the forward pass of one sequence: of a layer of each kind by operation, and of the ends.

    ``frozen`` and ``frozen_ends`` are those of products whose weights are frozen.
    """

    gemms: list[dict[str, Array]]
    attention: list[dict[str, Array]]
    ends: Array
    frozen: list[Array]
    frozen_ends: Array

    def untrained(self, counts: list[Array]) -> Array:
        """Return the FLOP that are not done because weights are frozen: a forward pass of their products."""
        layers = zip(counts, self.frozen, strict=True)
        return to_float(sum((count * flops for count, flops in layers), self.frozen_ends))

    @property
    def layers(self) -> list[dict[str, Array]]:
        """FLOP of a layer of each kind by operation."""
        return [gemms | attention for gemms, attention in zip(self.gemms, self.attention, strict=True)]

    def total(self, counts: list[Array]) -> Array:
        """Return the FLOP of so many layers of each kind, and of the ends."""
        layers = zip(counts, self.layers, strict=True)
        return to_float(sum((count * add_up(flops.values()) for count, flops in layers), self.ends))


def forward_flops(
    t: Transformer, vocab: Numeric, count: Numeric | NDArray[np.intp] = AttentionCount.FULL
) -> ForwardFlops:
    """Return the FLOP of one sequence's forward pass: of the very operations that are timed, on one device alone.

    ``count`` says whether scores that a mask hides are counted.

    >>> from comp_comm.transformer import resolved
    >>> gpt3 = resolved(Transformer(12288, 2048, layers=96, heads=96, vocab=51200))
    >>> flops = forward_flops(gpt3, 51200)
    >>> int(3 * flops.total([96.0]))
    2204555173429248
    """
    even = to_float(1.0)  # what an uneven load adds is no work of the model
    c = Context(replace(t, capacity_factor=even), ONE_DEVICE_LAYOUT, Formats())
    layers = [kind.operations(kind.context(c)) for kind in pattern_of(t).kinds]
    ends = [*embedding_operations(c), *head_operations(c, to_float(vocab))]
    causal = AttentionCount.CAUSAL.where(count)
    attention = [
        {op.name: to_float(op.count) * where(causal, op.seen_flops, op.flops)
         for op in operations if isinstance(op, Attention)} for operations in layers
    ]  # fmt: skip
    frozen = [_frozen_flops(c, operations) for operations in layers]
    return ForwardFlops(list(map(_gemm_flops, layers)), attention, add_up(_gemm_flops(ends).values()), frozen,
                        _frozen_flops(c, ends))  # fmt: skip


def _frozen_flops(c: Context, operations: list[Operation]) -> Array:
    """Return the FLOP of products whose weights are frozen."""
    return ZERO if not c.frozen else add_up(to_float(op.count) * op.flops * (1 - to_float(op.trained))
                  for op in operations if isinstance(op, Gemm))  # fmt: skip


def _gemm_flops(operations: list[Operation]) -> dict[str, Array]:
    """Return the FLOP of matrix products by name, each as often as it is done."""
    return {op.name: to_float(op.count) * op.flops for op in operations if isinstance(op, (Gemm, FusedProducts))}
