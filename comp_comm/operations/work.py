"""Work of a whole step, however it is laid out: the FLOP of a model, and those recomputation and padding add.

They are the FLOP of the very operations that are timed, done on one device alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from comp_comm.formats import Formats
from comp_comm.formulas.arrays import Array, Numeric, to_float
from comp_comm.operations.attention import attention_block
from comp_comm.operations.context import Context
from comp_comm.operations.ends import embedding, logits
from comp_comm.operations.feed_forward import feed_forward_block
from comp_comm.operations.parameters import ALONE
from comp_comm.operations.shapes import Attention, Gemm, Operation
from comp_comm.transformer import Transformer

PASSES = 3.0  # forward, and twice that backward


class Work(NamedTuple):
    """FLOP of the forward pass of one sequence: an average layer's GEMMs and attention, and what ends the model."""

    gemms: Array
    attention: Array
    ends: Array


def forward_work(t: Transformer, vocab: Numeric, causal: Numeric | NDArray[np.intp] = 0) -> Work:
    """Return the FLOP of one sequence's forward pass; ``causal`` is 1 to leave out scores that a mask hides.

    >>> from comp_comm.transformer import resolved
    >>> gpt3 = resolved(Transformer(12288, 2048, layers=96, heads=96, vocab=51200))
    >>> work = forward_work(gpt3, 51200)
    >>> int(3 * (96 * (work.gemms + work.attention) + work.ends))
    2204555173429248
    """
    even = to_float(1.0)  # what an uneven load adds is no work of the model
    c = Context(replace(t, capacity_factor=even), ALONE, Formats())
    blocks = [*attention_block(c), *feed_forward_block(c)]
    ends = [*embedding(c), *logits(c, to_float(vocab))]
    scores = [(op.count, np.where(np.asarray(causal) > 0, op.seen_flops, op.flops))
              for op in blocks if isinstance(op, Attention)]  # fmt: skip
    attention = sum((to_float(count) * flops for count, flops in scores), to_float(0.0))
    return Work(_gemm_flops(blocks), to_float(attention), _gemm_flops(ends))


def _gemm_flops(operations: Sequence[Operation]) -> Array:
    gemms = (op for op in operations if isinstance(op, Gemm))
    return to_float(sum((to_float(op.count) * op.flops for op in gemms), to_float(0.0)))


def layers_run(t: Transformer) -> Array:
    """Return how many layers a sequence goes through: those of MTP modules too."""
    return to_float(t.all_layers) + t.mtp_layers
