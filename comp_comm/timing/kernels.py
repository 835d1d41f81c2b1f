"""Seconds of one device's kernels from their shapes: GEMMs, attention, element-wise work.

They are of a kernel in the middle of training: a machine that runs for hours does not keep the speed of a kernel timed
alone (``sustained``).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from comp_comm.formulas.arrays import Array, Numeric, everywhere, isnan, somewhere, to_codes, to_float, where
from comp_comm.formulas.block_scaled import block_scaled_flops
from comp_comm.formulas.kernels import gemm_seconds, reread_bytes, stream_seconds
from comp_comm.hardware.numbers import Hardware
from comp_comm.kernel_choices import AttentionKernel, Recipe
from comp_comm.lazy import cached_property
from comp_comm.operations.products import FusedProducts
from comp_comm.operations.shapes import Attention, Elementwise, Gemm
from comp_comm.structs import struct
from comp_comm.timing.fused_attention import HALF, FusedAttention
from comp_comm.timing.passes import Passes
from comp_comm.timing.quantising import Quantising

# Bytes of one score, unfused, forward and backward, beside those that the products read and write: softmax in and out,
# dropout in and out with its mask; gradients of both, from what the softmax made.
SCORE_BYTES = (9.0, 11.0)
NARROWEST = 64.0  # columns of the narrowest tile of a GEMM
# Numbers in 16 bytes, and how many times longer products of heads take that do not begin at multiples of it: pairs of
# BLOOM's trials on A100 (BigScience, chronicles-prequel.md): 128 heads of 108 or 96 of 144, 156.8 and 118.1 s (TP 8),
# 153.9 and 110.3 (TP 4); 96 heads of 150 or 144, 221.2 and 160.3 (hidden 14,400 and 13,824). They ask 13.1 to 14.6.
ALIGNED, UNALIGNED = 8.0, 13.5
# Gradients of experts' weights in fewer than 16 bits take this much longer: MXFP8 on B200 .51 of its peak forward, .41
# here (pytorch/ao); blockwise on H100 far longer still (.62, .23).
GROUPED_WEIGHTS = 1.25


class Run(NamedTuple):
    """How a GEMM runs: seconds of a FLOP, bytes of an operand's element, 1 where operands are quantised, and ramps.

    What a tile takes to start and to end does not shrink with its format, so that ramps in fewer bits are longer.
    """

    per_flop: Array
    operand: Numeric
    quantised: Array
    ramp_k: Numeric
    ramp_tiles: Numeric


@struct
class Kernels:
    """What times kernels on one machine, in number formats of so many bytes.

    ``recipe`` is the code of what GEMMs run in, ``fp8_attention`` 1 where attention runs in fp8. ``isolated`` says that
    kernels are timed by themselves, in a burst. ``serving`` says that only forward passes are asked for: that
    of fused attention is then its only one.
    """

    hardware: Hardware
    operand: Numeric = 2
    activation: Numeric = 2
    gradient: Numeric = 4
    sustained: Numeric = np.nan
    recipe: Numeric | NDArray[np.intp] = Recipe.NONE
    fp8_attention: Numeric = 0
    isolated: bool = False
    serving: bool = False

    @cached_property
    def derate(self) -> Array:
        """The share of its isolated speed a GEMM keeps: the user's, or the profile's."""
        if self.isolated:
            return to_float(1.0)
        given = to_float(self.sustained)
        return where(isnan(given), self.hardware.timing.sustained, given)

    @cached_property
    def per_flop(self) -> Array:
        """Seconds of one FLOP in a large GEMM of the precision of compute, in 16 bits or more."""
        return 1 / (to_float(self.hardware.peak_flops) * self.hardware.timing.gemm_efficiency * self.derate)

    @cached_property
    def quantising(self) -> Quantising:
        """How GEMMs run in fewer than 16 bits."""
        return Quantising(self.hardware, to_codes(self.recipe))

    @cached_property
    def _per_flop_by_recipe(self) -> tuple[Array, Array]:
        """Seconds of one FLOP in a large GEMM that runs by the recipe, and in one that stays in 16 bits."""
        timing, quantised = self.hardware.timing, self.quantising.mask
        by_recipe = 1 / (to_float(self.hardware.peak_flops) * self.quantising.efficiency * self.derate)
        half = 1 / (to_float(self.hardware.attention_peak_flops) * timing.gemm_efficiency * self.derate)
        return where(quantised, by_recipe, self.per_flop), where(quantised, half, self.per_flop)

    def per_attention_flop(self, code: Numeric) -> Array:
        """Return the seconds of one FLOP in fused attention over a long sequence."""
        return 1 / (to_float(self.hardware.attention_peak_flops) * self.fused.kernel(code).efficiency)

    @cached_property
    def per_byte(self) -> Array:
        """Seconds a GEMM's byte of memory takes."""
        return 1 / (to_float(self.hardware.memory_bandwidth) * self.hardware.timing.memory_efficiency)

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
        >>> round(float(kernels.gemm(Gemm("up", "2 m k n", count=1, m=1024, k=1000, n=1000)).forward), 6)
        0.004096
        """
        run = self.run(op)
        m, k, n = op.m, op.k, op.n
        moved = op.moved(run.operand, self.activation)
        flops = op.flops * self.few_rows(op) if op.grouped else op.padded_flops
        forward = self.product(flops, (m, n, k), moved, op.groups, run)
        for_input = self.product(flops, (m, k, n), moved, op.groups, run)
        share = self._of_weights
        of_weights = run if share is None else self.run(op, share)
        stored = op.moved_for_weights(of_weights.operand, self.gradient)
        for_weights = self.product(flops if op.grouped else op.flops, (n, k, m), stored, op.groups, of_weights)
        if self.serving or not somewhere(self.quantising.mask):
            return Passes(forward, for_input + for_weights, for_weights)
        if op.grouped:
            for_weights = for_weights * where(of_weights.quantised > 0, GROUPED_WEIGHTS, 1.0)
        rows = to_float(op.groups) * m
        both = 2.0 if share is None else 1.0 + share
        inputs, gradients = (run.quantised * self.quantising.seconds(rows * size, both, op.casts, apart)
                             for size, apart in ((k, True), (n, False)))  # fmt: skip
        if not op.grouped:  # experts' own kernels scale what they write
            for_input = for_input + run.quantised * self.quantising.rescaling(rows * k * op.matrices)
            for_weights = for_weights + of_weights.quantised * self.quantising.rescaling(op.weights)
        return Passes(forward + inputs, for_input + for_weights + gradients, for_weights)

    def run(self, op: Gemm, share: Numeric = 1.0) -> Run:
        """Return how a GEMM runs: by the recipe where there is one and it does not stay in 16 bits.

        ``share`` is 0 for products of it that the recipe leaves in 16 bits.
        """
        mask, plain = self.quantising.mask, self._plain
        if not somewhere(mask):
            return plain
        quantised = mask * (1 - to_float(op.sixteen_bit)) * share
        by_recipe, half = self._per_flop_by_recipe
        ramp_k, ramp_tiles = self.quantising.ramps
        if not somewhere(op.sixteen_bit) and everywhere(to_float(share) > 0):
            return Run(by_recipe, self.operand, quantised, ramp_k, ramp_tiles)
        there = quantised > 0
        wide = where(mask, HALF, self.operand)
        return Run(where(there, by_recipe, half), where(there, self.operand, wide), quantised,
                   where(there, ramp_k, plain.ramp_k), where(there, ramp_tiles, plain.ramp_tiles))  # fmt: skip

    @cached_property
    def _of_weights(self) -> Array | None:
        """1 where gradients of weights run by the recipe, 0 where in 16 bits; None where all do that others do."""
        share = Recipe.look_up("weight_gradients", self.quantising.recipe)
        return None if everywhere(share > 0) else share

    @cached_property
    def _plain(self) -> Run:
        """How a GEMM runs in 16 bits or more."""
        timing = self.hardware.timing
        return Run(self.per_flop, self.operand, to_float(0.0), timing.gemm_ramp_k, timing.gemm_ramp_tiles)

    def few_rows(self, op: Gemm) -> Array:
        """Return how many times longer experts' GEMMs take for having few tokens each, :math:`1 + m_0 / m`.

        What else slows them, the weights that few tokens are read for, is in the bytes they move: with both, layers of
        experts of 64 tokens each and more are within 7 to 11 % of the AIConfigurator database's (GB200: 23 %), m_0 0
        (Blackwell) to 110 (Hopper).
        """
        rows = to_float(op.m)
        return 1 + self.hardware.timing.grouped_ramp_rows / where(rows > 0, rows, np.inf)

    @cached_property
    def cache(self) -> Array | None:
        """Bytes of an operand that the cache keeps, infinite where a profile does not say; None if none says."""
        kept = to_float(self.hardware.timing.gemm_cache)
        return where(kept > 0, kept, np.inf) if somewhere(kept > 0) else None

    def product(
        self, flops: Array, shape: tuple[Numeric, Numeric, Numeric], moved: Array, groups: Numeric = 1,
        run: Run | None = None,
    ) -> Array:  # fmt: skip
        """Return the seconds of products: FLOP, rows, columns and inner dimension, bytes moved if each is read once."""
        timing, (rows, columns, inner) = self.hardware.timing, shape
        run = run or self._plain
        wave = self.quantising.block_wave
        if wave is not None:
            flops = self._in_waves(flops, shape, groups, where(run.quantised > 0, wave, 0.0))
        if self.cache is not None:
            moved = moved + groups * reread_bytes(rows, columns, inner, run.operand, self.cache)
        warm = timing.power_ratio if self.isolated else 1.0  # in training ``sustained`` says it
        return gemm_seconds(
            flops, inner, moved, run.per_flop, self.per_byte, timing.kernel_latency,
            run.ramp_k, run.ramp_tiles, timing.gemm_split_k, timing.gemm_wave, warm,
        )  # fmt: skip

    @staticmethod
    def _in_waves(flops: Array, shape: tuple[Numeric, Numeric, Numeric], groups: Numeric, wave: Array) -> Array:
        """Return the FLOP of a product whose operands have scales for blocks, in whole waves of the tiles chosen."""
        _, columns, inner = shape
        each = 2.0 * to_float(columns) * inner
        rows = to_float(flops) / where(each > 0, each, np.inf)
        there = (wave > 0) & (each > 0)
        made = block_scaled_flops(rows, columns, inner, where(there, wave, 1.0), to_float(to_float(groups) <= 1))
        return where(there, made, flops)

    @cached_property
    def fused(self) -> FusedAttention:
        """How attention in one kernel runs."""
        return FusedAttention(self.hardware, self.activation, self.fp8_attention, self.isolated, self.serving)

    def attention(self, op: Attention, kernel: Numeric) -> Passes:
        """Return the seconds of attention; ``kernel`` is a code: flash over what a mask leaves, over all, unfused.

        Examples
        --------
        >>> from comp_comm.hardware.numbers import Timing
        >>> timing = Timing(flash_efficiency=0.5, flash_ramp_blocks=0.0, flash_latency=0.0)
        >>> kernels = Kernels(Hardware(1e12, 1e9, 1e15, (), timing, attention_peak_flops=1e12))
        >>> op = Attention("attention", "", count=1, sequences=1, heads=1, queries=1000, keys=1000, seen=500,
        ...                key_dim=128, value_dim=128)
        >>> [round(float(kernels.attention(op, kernel).forward * 1e6), 1) for kernel in list(AttentionKernel)[:2]]
        [512.0, 1024.0]
        """
        code, unfused = to_codes(kernel), AttentionKernel.UNFUSED.where(kernel)
        fused = ~unfused
        if not somewhere(unfused):
            return self.fused.passes(op, code)
        if not somewhere(fused):
            return self._unfused(op)
        pairs = zip(self.fused.passes(op, code), self._unfused(op), strict=True)
        return Passes(*(where(fused, flash, plain) for flash, plain in pairs))

    def _unfused(self, op: Attention) -> Passes:
        """Batched GEMMs with softmax and dropout between: the scores go through memory.

        Forward the scores are made, and the values summed; backward the gradients of either operand of both.
        """
        between = [2 * to_float(self.hardware.timing.stream_latency) + op.scores * moved * self.per_streamed_byte
                   for moved in SCORE_BYTES]  # fmt: skip
        (scores, summed_keys), (back, summed_values) = (self._of_heads(op, dim) for dim in (op.key_dim, op.value_dim))
        forward = scores + summed_values + between[0]
        return Passes(forward, back + summed_values + 2 * summed_keys + between[1], to_float(0.0))

    def _of_heads(self, op: Attention, dim: Numeric) -> tuple[Array, Array]:
        """Return the seconds of one product a head with an inner dimension of ``dim``, and of one with so many columns.

        The first makes a score of every pair, the second sums over keys or queries.
        """
        timing, d = self.hardware.timing, to_float(dim)
        groups = to_float(op.sequences) * op.heads
        per_flop = 1 / (to_float(self.hardware.attention_peak_flops) * timing.gemm_efficiency * self.derate)
        run = Run(per_flop, self.activation, to_float(0.0), timing.gemm_ramp_k, timing.gemm_ramp_tiles)
        flops = 2.0 * op.scores * d * where(d % ALIGNED > 0, UNALIGNED, 1.0)
        moved = to_float(self.activation) * (op.scores + groups * d * (to_float(op.queries) + op.keys))
        padded = flops * np.ceil(d / NARROWEST) * NARROWEST / where(d > 0, d, 1.0)
        return (self.product(flops, (op.queries, op.keys, dim), moved, groups, run),
                self.product(padded, (op.queries, dim, op.keys), moved, groups, run))  # fmt: skip

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
