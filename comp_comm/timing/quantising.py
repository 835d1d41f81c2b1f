"""GEMMs in fewer than 16 bits: how fast they are, and the seconds of quantising their operands."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from comp_comm.formulas.arrays import Array, Numeric, by_code, isnan, somewhere, to_float, where
from comp_comm.hardware.numbers import Hardware
from comp_comm.kernel_choices import Recipe
from comp_comm.lazy import cached_property
from comp_comm.structs import struct

# GEMMs with a scale for each row, over those with one for the tensor: most shapes reach 90 to 100 % (pytorch/pytorch
# issue 147971, torch._scaled_mm on H100 with fast accumulation); the middle of that.
ROWWISE_EFFICIENCY = 0.95
# What kernels that transpose keep of the rate of others that torch.compile makes: 1.4 of 2.2 TB/s on H100
# (pytorch/pytorch issue 133242). Bytes of a result that is read, scaled and written.
TRANSPOSED_RATE, RESCALED_BYTES = 1.4 / 2.2, 4.0


@struct
class Quantising:
    """GEMMs in fewer than 16 bits on one machine: how fast they are, and what it takes to quantise their operands.

    ``recipe`` are codes of `Recipe`.
    """

    hardware: Hardware
    recipe: NDArray[np.intp]

    @cached_property
    def mask(self) -> NDArray[np.bool_]:
        """Where there is a recipe."""
        return np.not_equal(self.recipe, int(Recipe.NONE))

    @cached_property
    def efficiency(self) -> Array:
        """The share of its format's peak that a large GEMM reaches."""
        t = self.hardware.timing
        efficiencies = {
            Recipe.NONE: t.gemm_efficiency, Recipe.DELAYED: t.fp8_efficiency, Recipe.TENSORWISE: t.fp8_efficiency,
            Recipe.BLOCKWISE: t.fp8_block_efficiency, Recipe.MXFP8: t.mxfp8_efficiency,
            Recipe.NVFP4: t.nvfp4_efficiency, Recipe.ROWWISE: t.fp8_efficiency * ROWWISE_EFFICIENCY,
            Recipe.ROWWISE_WITH_GW_HP: t.fp8_efficiency * ROWWISE_EFFICIENCY,
        }  # fmt: skip
        return by_code(self.recipe, lambda code: to_float(efficiencies[Recipe.at(code)]))

    @cached_property
    def block_wave(self) -> Array | None:
        """Tiles that run at a time of products with scales for blocks, 0 where they are as others; None if all are."""
        wave = to_float(self.hardware.timing.fp8_block_wave)
        if not somewhere(wave > 0):
            return None
        blockwise = Recipe.BLOCKWISE.where(self.recipe)
        return where(blockwise, wave, 0.0) if somewhere(blockwise) else None

    @cached_property
    def ramps(self) -> tuple[Array, Array]:
        """Steps in K that starting and ending a tile take, and tiles below which a product takes no less time."""
        timing, fp4 = self.hardware.timing, Recipe.NVFP4.where(self.recipe)
        k, tiles = to_float(timing.gemm_ramp_k), to_float(timing.gemm_ramp_tiles)
        faster = where(self.mask, to_float(self.hardware.peak_flops) / self.hardware.attention_peak_flops, 1.0)
        k, tiles = k * faster, tiles * faster
        if self.block_wave is not None:
            tiles = where(self.block_wave > 0, 0.0, tiles)  # whole waves of tiles say what is idle
        if not somewhere(fp4):
            return k, tiles
        own_k, own = to_float(timing.nvfp4_ramp_k), to_float(timing.nvfp4_ramp_tiles)
        return where(fp4 & ~isnan(own_k), own_k, k), where(fp4 & ~isnan(own), own, tiles)

    @cached_property
    def _per_element(self) -> tuple[Array, Array, Array]:
        """Seconds an element takes in one orientation (its largest number found, read, and written), and in the second
        one; and those of reading it anew where that one is made in another pass.
        """
        timing, bandwidth = self.hardware.timing, to_float(self.hardware.memory_bandwidth)
        amax, read, again, written, share, stored = (
            Recipe.look_up(name, self.recipe) for name in ("amax", "read", "again", "written", "cast_share", "stored")
        )
        share = where(Recipe.BLOCKWISE.where(self.recipe), timing.block_cast_efficiency, share)
        single = Recipe.look_up("per_tensor", self.recipe) * (1 - to_float(timing.fp8_transpose))
        largest = amax / (bandwidth * timing.amax_efficiency)
        per_byte = 1 / (bandwidth * where(share > 0, share, timing.cast_efficiency))
        turned = again / where(stored > 0, 1.0, TRANSPOSED_RATE)
        return (largest + (read + written) * per_byte, (turned + written * (1 - single)) * per_byte,
                (1 - stored) * read * per_byte)  # fmt: skip

    def seconds(
        self, elements: Numeric, orientations: Numeric = 2.0, starts: Numeric = 1, apart: bool = False
    ) -> Array:  # fmt: skip
        r"""Return the seconds of quantising so many numbers, for GEMMs of one orientation or of both.

        .. math:: t = s t_0 + N \left( \frac{b_a}{e_a B_m} + \frac{b_r + o\, b_w}{e_c B_m} \right)

        with the bytes b of `Recipe` (b_r those of all reads), o orientations, s starts of the kernels, and of the
        profile ``amax_efficiency`` e_a and ``cast_efficiency`` e_c (or that of the recipe). ``apart`` says that the
        second orientation is of another pass than the first: a recipe that stores nothing reads the number anew.

        >>> from comp_comm.hardware.numbers import Timing
        >>> timing = Timing(cast_efficiency=0.5, fp8_transpose=1.0)
        >>> quantising = Quantising(Hardware(1.0, 1.0, 1e12, (), timing), np.asarray(Recipe.DELAYED))
        >>> round(float(quantising.seconds(1e9)), 6)
        0.008003
        """
        once, second, anew = self._per_element
        start = to_float(starts) * Recipe.look_up("start_s", self.recipe)
        return start + to_float(elements) * (once + (to_float(orientations) - 1) * (second + anew * apart))

    def rescaling(self, elements: Numeric) -> Array:
        """Return the seconds of scaling so many results of a backward product in a pass of their own.

        torchao has gradients made with accumulation in 32 bits, for which its kernel with a scale for each row is slow:
        one without scales makes them, and another multiplies them, 16 bits read and written (pytorch/ao,
        torchao/float8/float8_ops.py).

        >>> from comp_comm.hardware.numbers import Timing
        >>> quantising = Quantising(Hardware(1.0, 1.0, 1e12, (), Timing()), np.asarray(Recipe.ROWWISE))
        >>> round(float(quantising.rescaling(0.84e9)), 6)
        0.004
        """
        each = RESCALED_BYTES / (to_float(self.hardware.memory_bandwidth) * self.hardware.timing.cast_efficiency)
        return (1 - Recipe.look_up("stored", self.recipe)) * to_float(elements) * each
