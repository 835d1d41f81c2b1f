"""The feed-forward block of a layer, dense or a mixture of experts, and the element-wise work around both blocks."""

from __future__ import annotations

import numpy as np

from comp_comm.formulas.arrays import Array, Numeric, to_float
from comp_comm.operations.context import Context, any_of
from comp_comm.operations.shapes import Elementwise, Gemm, Operation

# Elements of H a token moves: a norm reads and writes; a residual sum with dropout reads two and writes one, of both
# blocks' outputs at once where they are side by side.
NORM_PASSES, SUM_PASSES, ONE_SUM_PASSES = 2.0, 6.0, 4.0
PERMUTE_BYTES = 16  # a token and expert: tokens sorted by expert and back, read and written as 16-bit and indices


def feed_forward_block(c: Context) -> list[Operation]:
    """Return the forward operations of an average layer's feed-forward network, on one device."""
    moe = c.expert_share if c.t.has_experts else to_float(0.0)
    dense = 1.0 - moe
    tokens = c.tokens
    if c.t.has_encoder:
        tokens = c.tokens * (1 - c.encoder_share) + c.encoder_tokens * c.encoder_share
    found = [*_dense(c, dense, tokens, to_float(c.t.ffn_hidden), "FFN")] if any_of(dense) else []
    if any_of(moe):
        found += _experts(c, moe)
        shared = moe * (to_float(c.t.shared_ffn_hidden) > 0)
        if any_of(shared):
            found += _dense(c, shared, tokens, to_float(c.t.shared_ffn_hidden), "shared expert")
    return found


def _dense(c: Context, share: Numeric, tokens: Array, width: Array, name: str) -> list[Operation]:
    """Return up, activation and down: the width is split over TP."""
    h, here = c.t.hidden, width / c.layout.tp
    return [
        Gemm(f"{name} up", "2 T H (1 or 2) F / tp", share, tokens, h, c.gates * here),
        _activation(c, f"{name} activation", share, tokens * here),
        Gemm(f"{name} down", "2 T F H / tp", share, tokens, here, h),
    ]


def _activation(c: Context, name: str, share: Numeric, elements: Array) -> Operation:
    """Return the nonlinearity: reads one or two inputs, writes one."""
    moved = c.formats.activation * (1.0 + c.gates) * elements
    return Elementwise(name, "(2, gated 3) T F / tp elements", share, moved, 1.5 * moved, c.kernel_cost)


def expert_tokens(c: Context) -> Array:
    """Return the tokens, one for each expert they are sent to, that a device's experts take in a micro-batch."""
    return to_float(c.layout.etp) * c.split_tokens * c.t.top_k * c.t.capacity_factor


def _experts(c: Context, share: Numeric) -> list[Operation]:
    """Return router, sorting, and the experts of this device as one grouped GEMM."""
    h, taken = c.t.hidden, expert_tokens(c)
    here = to_float(c.t.experts) / c.layout.ep
    width = to_float(c.t.moe_ffn_hidden) / c.layout.etp
    each = taken / np.maximum(here, 1.0)
    sent = PERMUTE_BYTES * c.split_tokens * c.t.top_k * h
    return [
        Gemm("router", "2 T_s H E", share, c.split_tokens, h, c.t.experts),
        Elementwise("permute tokens", "16 B T_s k H", share, sent, sent),
        Gemm("experts up", "2 T k H (1 or 2) F_e", share, each, h, c.gates * width, here),
        _activation(c, "experts activation", share, taken * width),
        Gemm("experts down", "2 T k F_e H", share, each, width, h, here),
    ]


def norms_and_residuals(c: Context) -> Operation:
    """Return the norms, residual sums and dropouts around the two blocks of a layer."""
    tokens = c.split_tokens
    if c.t.has_encoder:  # a third block in the decoder's layers
        encoder = c.encoder_tokens / c.sequence_split
        tokens = 1.5 * tokens * (1 - c.encoder_share) + encoder * c.encoder_share
    sums = np.where(np.asarray(c.t.parallel_blocks) > 0, ONE_SUM_PASSES, SUM_PASSES)
    moved = c.formats.activation * (NORM_PASSES * to_float(c.t.norms) + sums) * tokens * c.t.hidden
    formula = "(2 norms + 6) T_s H elements"
    return Elementwise("norms, residuals, dropout", formula, 1.0, moved, 1.5 * moved, c.kernel_cost)
