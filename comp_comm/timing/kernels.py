"""Seconds of one device's kernels from their shapes: GEMMs, attention, element-wise work.

They are of a kernel in the middle of training: a machine that runs for hours does not keep the speed of a kernel timed
alone (``sustained``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from comp_comm.choices import AttentionKernel
from comp_comm.formulas.arrays import Array, Numeric, to_float
from comp_comm.formulas.kernels import TILE, fused_attention_seconds, gemm_seconds, reread_bytes, stream_seconds
from comp_comm.hardware.numbers import Hardware
from comp_comm.operations.products import FusedProducts
from comp_comm.operations.shapes import Attention, Elementwise, Gemm

BACKWARD_ATTENTION = 2.5 / 0.8  # flash attention: 2.5 times the FLOP (it makes the scores again), at 0.8 of the rate
FLASH_HEAD_DIM = 128.0  # the head dimension the efficiency is stated at
SCORE_BYTES = (11.0, 19.0)  # of one score, unfused, forward and backward: scores, softmax, dropout and its mask
UNFUSED_SHARE = 0.75  # of a GEMM's rate that the two small GEMMs of unfused attention reach at head dimension 128


class Passes(NamedTuple):
    """Seconds of an operation's forward pass, of its backward pass, and of the part of that for weights alone."""

    forward: Array
    backward: Array
    for_weights: Array


@dataclass(frozen=True)
class Kernels:
    """What times kernels on one machine, in number formats of so many bytes."""

    hardware: Hardware
    operand: Numeric = 2
    activation: Numeric = 2
    gradient: Numeric = 4
    sustained: Numeric = np.nan

    @cached_property
    def derate(self) -> Array:
        """The share of its isolated speed a GEMM keeps: the user's, or the profile's."""
        given = to_float(self.sustained)
        return np.where(np.isnan(given), self.hardware.timing.sustained, given)

    @cached_property
    def per_flop(self) -> Array:
        """Seconds of one FLOP in a large GEMM."""
        return 1 / (to_float(self.hardware.peak_flops) * self.hardware.timing.gemm_efficiency * self.derate)

    @cached_property
    def per_attention_flop(self) -> Array:
        """Seconds of one FLOP in flash attention over a long sequence."""
        peak = to_float(self.hardware.attention_peak_flops)
        return 1 / (peak * self.hardware.timing.flash_efficiency)

    @cached_property
    def per_byte(self) -> Array:
        """Seconds a GEMM's byte of memory takes."""
        return 1 / (to_float(self.hardware.memory_bandwidth) * self.hardware.timing.memory_efficiency)

    @cached_property
    def per_flash_byte(self) -> Array:
        """Seconds a byte of memory takes in flash attention."""
        return 1 / (to_float(self.hardware.memory_bandwidth) * self.hardware.timing.flash_memory_efficiency)

    @cached_property
    def per_streamed_byte(self) -> Array:
        """Seconds an element-wise kernel's byte of memory takes."""
        return 1 / (to_float(self.hardware.memory_bandwidth) * self.hardware.timing.stream_efficiency)

    def gemm(self, op: Gemm) -> Passes:
        """Return the seconds of a GEMM in tiles (`comp_comm.formulas.kernels.gemm_seconds`).

        Backward there are two: the gradient of the input (inner dimension n) and that of the weight (inner dimension
        m, added to what is there).

        Examples
        --------
        >>> from comp_comm.hardware.numbers import Timing
        >>> timing = Timing(gemm_efficiency=0.5, memory_efficiency=1.0, sustained=1.0, gemm_ramp_k=0, gemm_ramp_tiles=0)
        >>> kernels = Kernels(Hardware(1e12, 1e12, 1e12, (), timing))
        >>> round(float(kernels.gemm(Gemm("up", "2 m k n", 1, 1000, 1000, 1000)).forward), 6)
        0.004
        """
        flops = op.flops
        moved = op.moved(self.operand, self.activation)
        stored = op.moved_for_weights(self.operand, self.gradient)
        m, k, n = op.m, op.k, op.n
        forward = self.product(flops, (m, n, k), moved, op.groups)
        for_input = self.product(flops, (m, k, n), moved, op.groups)
        for_weights = self.product(flops, (n, k, m), stored, op.groups)
        return Passes(forward, for_input + for_weights, for_weights)

    @cached_property
    def cache(self) -> Array | None:
        """Bytes of an operand that the cache keeps, infinite where a profile does not say; None if none says."""
        kept = to_float(self.hardware.timing.gemm_cache)
        return np.where(kept > 0, kept, np.inf) if np.any(kept > 0) else None

    def product(
        self, flops: Array, shape: tuple[Numeric, Numeric, Numeric], moved: Array, groups: Numeric = 1
    ) -> Array:
        """Return the seconds of products: FLOP, rows, columns and inner dimension, bytes moved if each is read once."""
        timing, (rows, columns, inner) = self.hardware.timing, shape
        if self.cache is not None:
            moved = moved + groups * reread_bytes(rows, columns, inner, self.operand, self.cache)
        return gemm_seconds(
            flops, inner, moved, self.per_flop, self.per_byte, timing.kernel_latency,
            timing.gemm_ramp_k, timing.gemm_ramp_tiles, timing.gemm_split_k, timing.gemm_wave,
        )  # fmt: skip

    def attention(self, op: Attention, kernel: Numeric) -> Passes:
        """Return the seconds of attention; ``kernel`` is a code: flash over what a mask leaves, over all, unfused.

        Examples
        --------
        >>> from comp_comm.hardware.numbers import Timing
        >>> timing = Timing(flash_efficiency=0.5, flash_ramp_blocks=0.0, flash_latency=0.0)
        >>> kernels = Kernels(Hardware(1e12, 1e9, 1e15, (), timing, attention_peak_flops=1e12))
        >>> op = Attention("attention", "", 1, 1, 1, 1000, 1000, 500, 128, 128)
        >>> [round(float(kernels.attention(op, kernel).forward * 1e6), 1) for kernel in list(AttentionKernel)[:2]]
        [512.0, 1024.0]
        """
        code, unfused = np.asarray(kernel), AttentionKernel.UNFUSED.where(kernel)
        fused = ~unfused
        if not unfused.any():
            return self._flash(op, code)
        if not fused.any():
            return self._unfused(op)
        pairs = zip(self._flash(op, code), self._unfused(op), strict=True)
        return Passes(*(np.where(fused, flash, plain) for flash, plain in pairs))

    def _flash(self, op: Attention, code: Numeric) -> Passes:
        """Flash attention: longer sequences and larger heads come nearer to its peak rate."""
        skipping = AttentionKernel.FLASH_CAUSAL.where(code)
        flops = op.seen_flops if skipping.all() else np.where(skipping, op.seen_flops, op.flops)
        dims = to_float(op.key_dim) + op.value_dim
        timing = self.hardware.timing
        per_flop = self.per_attention_flop * (2 * FLASH_HEAD_DIM / dims) ** timing.flash_head_exponent
        longest = 2.0 * TILE * np.minimum(2 * to_float(op.seen), op.keys) * dims
        moved = op.moved(self.activation)
        forward = fused_attention_seconds(
            flops, longest, moved, per_flop, self.per_flash_byte, timing.flash_latency, timing.flash_ramp_blocks
        )
        return Passes(forward, BACKWARD_ATTENTION * forward, to_float(0.0))

    def _unfused(self, op: Attention) -> Passes:
        """Two batched GEMMs with softmax and dropout between: the scores go through memory."""
        scores, latency = op.scores, to_float(self.hardware.timing.kernel_latency)
        timing, dims = self.hardware.timing, (to_float(op.key_dim) + op.value_dim) / 2
        rate = UNFUSED_SHARE * np.minimum(dims / FLASH_HEAD_DIM, 1.0) * timing.gemm_efficiency
        computed = op.flops / (to_float(self.hardware.attention_peak_flops) * rate)
        # A head dimension that does not fill the matrix units' tiles costs more.
        uneven = np.where(dims % 8 > 0, 1.9, np.where(dims % 64 > 0, 1.1, 1.0))
        forward, backward = (4 * latency + computed * passes * uneven + scores * moved * self.per_streamed_byte
                             for moved, passes in zip(SCORE_BYTES, (1.0, 2.0), strict=True))  # fmt: skip
        return Passes(forward, backward, to_float(0.0))

    def elementwise(self, op: Elementwise) -> Passes:
        """Return the seconds of work bound by memory bandwidth."""
        each, start = self.per_streamed_byte * op.factor, self.hardware.timing.stream_latency
        forward = stream_seconds(op.forward_bytes, each, start)
        return Passes(forward, stream_seconds(op.backward_bytes, each, start), to_float(0.0))

    def fused_products(self, op: FusedProducts) -> Passes:
        r"""Return the seconds of small products in fused kernels, :math:`t = t_0 + F u / e + V v`.

        u are the seconds of a FLOP of a large GEMM in 16 bit, e the share of that rate the kernels reach, v those of a
        byte; as in attention, products and traffic add up.

        Examples
        --------
        >>> from comp_comm.hardware.numbers import Timing
        >>> timing = Timing(gemm_efficiency=0.5, stream_efficiency=1.0, sustained=1.0)
        >>> kernels = Kernels(Hardware(1e12, 1e9, 1e9, (), timing, attention_peak_flops=1e12))
        >>> op = FusedProducts("scan", "", 1, flops=1e9, backward_flops=2e9, forward_bytes=1e6, backward_bytes=2e6,
        ...     share=0.5)
        >>> [round(float(seconds), 6) for seconds in kernels.fused_products(op)[:2]]
        [0.005, 0.01]
        """
        rate = to_float(self.hardware.attention_peak_flops) * self.hardware.timing.gemm_efficiency * self.derate
        start, each = to_float(self.hardware.timing.kernel_latency), self.per_streamed_byte
        forward, backward = (start + to_float(flops) / (rate * op.share) + to_float(moved) * each for flops, moved in
                             ((op.flops, op.forward_bytes), (op.backward_flops, op.backward_bytes)))  # fmt: skip
        return Passes(forward, backward, to_float(0.0))

    def rowwise(self, moved: Numeric, again: Numeric, rows: Numeric, kernels: Numeric = 1.0) -> Array:
        """Return the seconds of work on whole rows, in so many kernels: bytes moved, and bytes read a further time.

        Examples
        --------
        >>> from comp_comm.hardware.numbers import Timing
        >>> timing = Timing(stream_efficiency=1.0, stream_latency=1e-6, stream_reread=0.5)
        >>> round(float(Kernels(Hardware(1e12, 1e9, 1e12, (), timing)).rowwise(2e6, 1e6, 1000, 2)), 9)
        4.5e-06
        """
        timing = self.hardware.timing
        total = to_float(moved) + to_float(again) * timing.stream_reread
        start, row = (to_float(kernels) * each for each in (timing.stream_latency, timing.stream_row_latency))
        return stream_seconds(total, self.per_streamed_byte, start, rows, row)
