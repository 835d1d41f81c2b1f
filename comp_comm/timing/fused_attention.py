"""Seconds of attention in one kernel (flash attention), and of what a kernel does before it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from comp_comm.choices import Switch
from comp_comm.formulas.arrays import Array, Numeric, everywhere, minimum, somewhere, to_codes, to_float, where
from comp_comm.formulas.head_dimension import slowdown_by_power, slowdown_by_softmax
from comp_comm.formulas.kernels import TILE, fused_attention_seconds, stream_seconds
from comp_comm.hardware.numbers import FlashKernel, Hardware, chosen_kernel, generic_kernel
from comp_comm.kernel_choices import AttentionKernel
from comp_comm.operations.shapes import Attention
from comp_comm.structs import struct
from comp_comm.timing.passes import Passes

BACKWARD_FLOPS = 2.5  # of flash attention over its forward FLOP: it makes the scores again
FLASH_HEAD_DIM = 128.0  # the head dimension the efficiency is stated at
WIDEST = (
    1.25  # times that: wider heads were measured forward only; backward they are taken to run as these (192 and 128)
)
HALF = 2.0  # bytes of a number in 16 bits


@struct
class FusedAttention:
    """What times fused attention on one machine (`comp_comm.timing.kernels.Kernels` says what the numbers are)."""

    hardware: Hardware
    activation: Numeric
    fp8_attention: Numeric
    isolated: bool
    serving: bool

    def kernel(self, code: Numeric | NDArray[np.intp]) -> FlashKernel:
        """Return the fused kernel of each code, in fp8 where attention is."""
        codes, eight = to_codes(code), Switch.ON.where(self.fp8_attention)
        if not self.hardware.attention:
            return generic_kernel(self.hardware.timing)
        if not somewhere(eight):
            return chosen_kernel(self.hardware.attention, codes)
        by_fp8 = chosen_kernel(self.hardware.fp8_attention, codes)
        if everywhere(eight):
            return by_fp8
        return chosen_kernel((chosen_kernel(self.hardware.attention, codes), by_fp8), eight.astype(np.intp))

    def passes(self, op: Attention, code: Numeric | NDArray[np.intp]) -> Passes:
        """Fused attention: longer sequences and larger heads come nearer to its peak rate.

        t = t_0 + (C (1 + (k_0 + k_w) / s) + F C_b) u + V v, with s the keys that a query sees, k_0 of a start and k_w
        of a window's edges; backward 2.5 times that, at its own rate (see `FlashKernel` and
        `comp_comm.formulas.kernels.fused_attention_seconds`). What a kernel does before it (`_before`) is beside.
        """
        kernel = self.kernel(code)
        skipping = AttentionKernel.skipping(code)
        flops = op.seen_flops if everywhere(skipping) else where(skipping, op.seen_flops, op.flops)
        dims = to_float(op.key_dim) + op.value_dim
        width = dims / (2 * FLASH_HEAD_DIM)
        per_byte = 1 / (to_float(self.hardware.memory_bandwidth) * kernel.memory_efficiency)
        longest = 2.0 * TILE * minimum(2 * to_float(op.seen), op.keys) * dims
        each = where(Switch.ON.where(self.fp8_attention), self.activation / HALF, self.activation)
        moved = op.moved(each)
        seen = where(to_float(op.seen) > 0, op.seen, np.inf)
        power = to_float(1.0) if self.isolated else where(width >= 1, kernel.power_ratio, 1.0)

        def seconds(done: Array, efficiency: Numeric, slower: Array) -> Array:
            rate = to_float(self.hardware.attention_peak_flops) * efficiency / power
            per_flop = slower / rate
            return fused_attention_seconds(done, longest, moved, per_flop, per_byte, kernel.latency, kernel.ramp_blocks)

        edges: Numeric = 0.0 if op.unwindowed is None else kernel.window_keys
        slower = slowdown_by_power(width, kernel.head_exponent, kernel.wide_exponent)
        softmax = to_float(kernel.softmax_dim)
        if somewhere(softmax > 0):
            slower = where(softmax > 0, slowdown_by_softmax(width * FLASH_HEAD_DIM, softmax, FLASH_HEAD_DIM), slower)
        forward = seconds(flops * (1 + (to_float(kernel.ramp_keys) + edges) / seen), kernel.efficiency, slower)
        before = self._before(op, code, kernel, each)
        forward = forward if before is None else forward + before
        if self.serving:
            return Passes(forward, to_float(0.0), to_float(0.0))
        extra = to_float(kernel.backward_ramp_keys) + edges
        if op.unwindowed is not None:
            extra = extra + (1 - to_float(kernel.backward_windows)) * (to_float(op.unwindowed) - op.seen)
        narrow = minimum(width, WIDEST)
        narrower = slowdown_by_power(narrow, kernel.backward_head_exponent, kernel.backward_wide_exponent)
        backward = BACKWARD_FLOPS * seconds(flops * (1 + extra / seen), kernel.backward_efficiency, narrower)
        return Passes(forward, backward, to_float(0.0))

    def _before(
        self, op: Attention, code: Numeric | NDArray[np.intp], kernel: FlashKernel, written: Numeric
    ) -> Array | None:
        """Return the seconds in which a kernel that does so rotates queries and keys, and writes keys and values.

        A stream of memory, and of rows that take some time each; its start is in that of attention. None where none is.
        """
        prepared = AttentionKernel.look_up("prepares", code) * to_float(op.prepared)
        if not somewhere(prepared > 0):
            return None
        moved = op.moved_before(self.activation, written)
        per_byte = 1 / (to_float(self.hardware.memory_bandwidth) * self.hardware.timing.stream_efficiency)
        return prepared * stream_seconds(moved, per_byte, 0.0, op.rows, kernel.row_latency)
