"""Attention residuals over blocks of layers (Kimi K3, arXiv:2607.24653, section 2.2).

The input of every block of a layer is a weighted sum of what the blocks of layers before have made, one number of
hidden each, and of the running sum of its own; weights are a softmax of a learned query with the normed sources. So it
is before attention and before the network, and before the last norm. A fused kernel is taken to read each source once,
and to make scores and norms again backward: of each the running sum alone is kept.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from comp_comm.formulas.arrays import Array, to_float, where
from comp_comm.operations.context import Context, any_of
from comp_comm.operations.shapes import Elementwise
from comp_comm.transformer import Transformer

# Parameters of hidden of a weighted sum: its query, and the norm of its sources.
PARAMETERS = 2.0
# Numbers moved backward for each source: read, and the sum of its gradients read and written.
BACKWARD = 3.0


class Sources(NamedTuple):
    """Sources of a model's weighted sums: in the mean of those of a layer, and of a boundary between two; and at last.

    ``there`` is 1 where a model has attention residuals.
    """

    there: Array
    of_layer: Array
    before: Array
    at_end: Array


def sources(t: Transformer) -> Sources:
    """Return how many sources are summed: n blocks made before, and the running sum, n growing by 1 each B layers.

    The first layer of a block adds what came before to the blocks; the very first one has its input alone.

    >>> found = sources(Transformer(64, 64, layers=6, heads=4, attn_res_block=3))
    >>> [float(each) for each in (found.of_layer, found.at_end)]  # 0 + 2, 2 + 2, 2 + 2, 2 + 3, 3 + 3, 3 + 3
    [4.5, 3.0]
    """
    given, layers = to_float(t.attn_res_block), to_float(t.layers)
    there = to_float(given > 0)
    block = where(given > 0, given, 1.0)
    whole = np.floor(layers / block)
    before = block * whole * (whole - 1) / 2 + whole * (layers - block * whole)  # blocks that are whole, of all layers
    blocks = np.ceil(layers / block)
    started = before + layers - blocks  # those that had begun when a layer came
    of_attention, of_network = started + layers - 1, before + 2 * layers
    return Sources(there, (of_attention + of_network) / layers, started / layers, blocks + 1)


def residual_operations(c: Context, sums: float) -> list[Elementwise]:
    """Return the weighted sums before a layer's ``sums`` blocks, of the mean number of sources."""
    if not any_of(c.t.attn_res_block):
        return []
    found = sources(c.t)
    return [_summed(c, found.there, found.of_layer * sums / 2, sums)]


def final_residual(c: Context) -> list[Elementwise]:
    """Return the weighted sum before the last norm."""
    if not any_of(c.t.attn_res_block):
        return []
    found = sources(c.t)
    return [_summed(c, found.there, found.at_end, 1.0)]


def _summed(c: Context, there: Array, read: Array, written: float) -> Elementwise:
    numbers = c.formats.activation * c.split_tokens * c.t.hidden
    return Elementwise(
        "attention residuals",
        "(sources + 1) T_s H elements",
        count=there,
        forward_bytes=numbers * (read + written),
        backward_bytes=numbers * (BACKWARD * read + written),
        factor=c.kernel_cost,
    )


def residual_parameters(c: Context, sums: float) -> Array:
    """Return the parameters of so many weighted sums: on every device of TP."""
    return residual_tensors(c, sums) * to_float(c.t.hidden)


def residual_tensors(c: Context, sums: float) -> Array:
    """Return how many tensors of hidden numbers those are."""
    return to_float(PARAMETERS * sums * (to_float(c.t.attn_res_block) > 0))


def residual_bytes(c: Context, sums: float) -> Array:
    """Return the bytes of the running sums that a layer keeps beside what it makes of them, the inputs of its norms."""
    return c.formats.activation * sums * c.split_tokens * c.t.hidden * (to_float(c.t.attn_res_block) > 0)


def sent_with(c: Context) -> Array:
    """Return how many numbers of hidden a stage sends for each token: the running sum, and blocks that the next lacks.

    Of several chunks a stage keeps what it has had, so that those of the last round are sent, half as many in the
    first: with v chunks L / (v B) (1 - 1 / 2 v).
    """
    found, chunks = sources(c.t), to_float(c.layout.vpp)
    return 1.0 + found.there * found.before * (2.0 - 1.0 / chunks) / chunks
