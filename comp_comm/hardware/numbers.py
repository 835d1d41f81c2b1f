"""What a cost model needs of a device: broadcastable numbers, SI units."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import fields, replace

import numpy as np
from numpy.typing import NDArray

from comp_comm.formulas.arrays import Array, Numeric, by_code, distinct_codes, somewhere, to_float
from comp_comm.hardware.dispatch import DispatchTiming
from comp_comm.kernel_choices import AttentionKernel, Recipe
from comp_comm.lazy import cached_property
from comp_comm.structs import struct

# Of its isolated speed a GEMM keeps this in a training step, once power is taken out: one number for all devices,
# the middle of what machines of published runs ask for. By machine it is .75 to .96, with a median of .84.
KEPT = 0.85
# Warm over burst seconds of GEMMs at the power limit: the middle over all sizes of H200, B200 and GB200 (AIConfigurator
# database), for devices whose share of the peak is that of a burst of large products. Profiles that were fitted on
# bursts of all sizes have that of a cold device, 1.17.
POWER_RATIO = 1.08
# Of its forward rate that a fused kernel reaches backward, where a profile says nothing of it.
BACKWARD_RATE = 0.8


@struct
class Tier:
    """One network tier, innermost first. Bandwidth is per device and direction; NaN is not known (blank).

    ``domain`` devices it connects (infinity for the outermost); ``bandwidth`` bytes/s; ``latency`` seconds of one
    hop; ``efficiency`` achieved share of the bandwidth; ``mesh`` 1 where each pair of devices has its own link, so
    that a group of n in a domain of g has (n - 1) / (g - 1) of the bandwidth; ``axes`` of a torus, and ``side``
    the devices along one from which on it closes to a ring (infinity: not known; then rings use one axis, as if it
    did); ``key`` what the profile calls the tier, for messages.

    Of collectives: ``entry_latency`` seconds that crossing the tier adds to each of them, once; ``tree_latency``
    seconds of one level of a tree over domains of the tier below; ``reduction`` share of the bandwidth at which the
    network reduces messages by itself (0: it cannot), ``reduction_latency`` the seconds of that, and
    ``reduction_members`` how many devices of a domain it takes, and ``exchange_latency`` seconds that two of its
    devices take to start sending large messages to each other, in an all-to-all. Here all latencies are 0; a profile
    that leaves one out gets what is usual.

    Of libraries that carry large messages by another protocol: ``bulk_latency`` seconds of one of its hops and
    ``bulk_tree_latency`` of one of its levels (0: there is one protocol), ``switch_size`` bytes per device from which
    groups inside the innermost domain take it (0: wherever it is faster, as between domains), and ``eager`` how many
    times a device's bandwidth the protocol of small messages handles, besides sending (0: it costs nothing). ``alone``
    is the share of its bandwidth left to a device that is the only one of its domain: it sends and receives by one
    link. A tree forwards a message in chunks: ``chunk_latency`` is what a full one adds to a level, and ``chunk_size``
    the bytes of it per device of a domain (0: levels take the same time whatever they forward).
    """

    domain: Numeric
    bandwidth: Numeric
    latency: Numeric
    efficiency: Numeric
    mesh: Numeric = 0.0
    axes: Numeric = 1.0
    key: str = ""
    entry_latency: Numeric = 0.0
    tree_latency: Numeric = 0.0
    reduction: Numeric = 0.0
    reduction_latency: Numeric = 0.0
    reduction_members: Numeric = 2.0
    bulk_latency: Numeric = 0.0
    bulk_tree_latency: Numeric = 0.0
    switch_size: Numeric = 0.0
    eager: Numeric = 0.0
    alone: Numeric = 1.0
    exchange_latency: Numeric = 0.0
    chunk_latency: Numeric = 0.0
    chunk_size: Numeric = 0.0
    side: Numeric = np.inf


@struct
class FlashKernel:
    """A fused attention kernel on a device (see `comp_comm.timing.fused_attention`); every number may be an array.

    ``efficiency`` is the share of the 16-bit peak (also of a kernel in fp8, which may so exceed 1) that it reaches over
    long sequences at head dimension 128, forward, and ``backward_efficiency`` backward; ``latency`` its start,
    ``memory_efficiency`` the share of HBM bandwidth its operands are read at. ``ramp_keys`` are keys a query that its
    own start and the edges of blocks take, beside those it sees, so that it reaches half of its efficiency where it
    sees as many, and ``window_keys`` what a window's edges take beside; ``backward_windows`` is 0 where the backward
    pass computes what a window hides. ``ramp_blocks`` are blocks of 128 queries that wait for the longest. Efficiency
    grows with the head dimension to the power ``head_exponent`` below 128, and ``wide_exponent`` above; backward by its
    own ones. Forward it follows ``softmax_dim`` instead where that is above 0: the head dimension whose products take
    as long as the exponentials of the softmax. ``row_latency`` are the seconds that a row (a head's query of a token)
    takes at least where keys and queries are rotated and written before. Efficiency is divided by ``power_ratio`` from
    128 on where a machine runs for hours.
    """

    efficiency: Numeric = np.nan
    latency: Numeric = 9e-6
    memory_efficiency: Numeric = 0.5
    ramp_keys: Numeric = 0.0
    window_keys: Numeric = 0.0
    backward_windows: Numeric = 1.0
    ramp_blocks: Numeric = 0.0
    head_exponent: Numeric = 0.5
    wide_exponent: Numeric = 0.0
    softmax_dim: Numeric = 0.0
    row_latency: Numeric = 0.0
    backward_efficiency: Numeric = np.nan
    backward_ramp_keys: Numeric = 0.0
    backward_head_exponent: Numeric = 0.5
    backward_wide_exponent: Numeric = 0.0
    power_ratio: Numeric = 1.0


@struct
class Timing(DispatchTiming):
    """How work becomes time on a device; every number may be an array.

    The names are the keys of a profile's ``timing`` block. ``network_efficiency`` and ``all_reduce_latency`` replace
    the tiers' own numbers where ``use_tiers`` is 0: then the innermost tier's bandwidth serves every group.

    From ``sustained`` on they are of whole training steps: what a GEMM keeps of its isolated speed, its ramp in the
    inner dimension and in tiles, the cost of splitting it, the tiles of a wave and the bytes of an operand that the
    cache keeps, the share of HBM bandwidth element-wise kernels stream at, their start and what rows of their own
    take, flash attention's share of the peak, its start, ramp in blocks of queries, share of HBM bandwidth and exponent
    of the head dimension, and what the network beyond the innermost tier keeps of its isolated bandwidth. Their
    defaults are medians over published runs and kernels of several devices. ``launch_latency`` are the seconds in which
    the host launches a kernel, framework included.

    In fp8 and nvfp4 GEMMs have an efficiency of their own, by recipe, relative to the peak of their format; one that is
    not given follows from ``gemm_efficiency`` (`FP8_EFFICIENCY` and so on: medians over six devices). ``fp8_recipe`` is
    the code of the recipe that the device's stacks use, ``fp8_transpose`` 1 where per-tensor recipes write operands in
    both orientations, ``amax_efficiency`` and ``cast_efficiency`` shares of HBM bandwidth at which quantising kernels
    read for the largest number, and cast, ``block_cast_efficiency`` that of casts with scales for 128 numbers.
    ``fp8_block_wave`` are the tiles that GEMMs with such scales make at a time, by a library that chooses their width
    to fill waves of them (0: as other GEMMs).
    ``grouped_ramp_rows`` are the tokens an expert at which its GEMMs reach half of their rate: half a tile, which
    padding takes of random loads.

    ``power_ratio`` is how many times longer a GEMM takes on a machine that is warm than in a short burst; ``sustained``
    is `KEPT` over that unless a profile says otherwise. ``attention_kernel`` is the code of the kernel that the
    device's training stacks use (flash_causal: that of the ``flash`` numbers here).

    ``vector_flops`` are the FLOP/s of element-wise work, which only the models of other papers ask for.

    ``collective_latency`` is the start of any collective on the tiers; ``own_shard`` is the share of its wire time that
    a device's own shard takes inside a domain. Their defaults are fitted on collectives of many systems.
    """

    gemm_efficiency: Numeric = np.nan
    attention_efficiency: Numeric = np.nan
    gemm_ramp_tokens: Numeric = 0.0
    kernel_latency: Numeric = 0.0
    memory_efficiency: Numeric = np.nan
    activation_passes: Numeric = 0.0
    score_passes: Numeric = 0.0
    score_head_dim: Numeric = 64.0
    use_tiers: Numeric = 1.0
    ring_limit: Numeric = 0.0
    network_efficiency: Numeric = np.nan
    all_reduce_latency: Numeric = 0.0
    power_ratio: Numeric = POWER_RATIO
    sustained: Numeric = KEPT / POWER_RATIO
    fp8_efficiency: Numeric = np.nan
    mxfp8_efficiency: Numeric = np.nan
    fp8_block_efficiency: Numeric = np.nan
    fp8_block_wave: Numeric = 0.0
    nvfp4_efficiency: Numeric = np.nan
    nvfp4_ramp_k: Numeric = np.nan
    nvfp4_ramp_tiles: Numeric = np.nan
    fp8_recipe: Numeric = Recipe.TENSORWISE
    fp8_transpose: Numeric = 1.0
    amax_efficiency: Numeric = 0.42
    cast_efficiency: Numeric = 0.84
    block_cast_efficiency: Numeric = 0.74
    grouped_ramp_rows: Numeric = 64.0
    attention_kernel: Numeric = AttentionKernel.FLASH_CAUSAL
    gemm_ramp_k: Numeric = 100.0
    gemm_ramp_tiles: Numeric = 45.0
    gemm_split_k: Numeric = 1000.0
    gemm_wave: Numeric = 0.0
    gemm_cache: Numeric = 0.0
    stream_efficiency: Numeric = 0.8
    stream_latency: Numeric = 0.0
    stream_row_latency: Numeric = 0.0
    stream_reread: Numeric = 0.0
    norm_kernels: Numeric = 1.0
    flash_efficiency: Numeric = 0.5
    flash_latency: Numeric = 9e-6
    flash_ramp_blocks: Numeric = 150.0
    flash_memory_efficiency: Numeric = 0.35
    flash_head_exponent: Numeric = 0.6
    network_sustained: Numeric = 0.67
    collective_latency: Numeric = 9.5e-6
    own_shard: Numeric = 0.4
    vector_flops: Numeric = np.nan
    launch_latency: Numeric = 30e-6

    @property
    def memory_bound(self) -> bool:
        """Whether any work is bound by memory bandwidth here."""
        return bool(somewhere(to_float(self.activation_passes) != 0) or somewhere(to_float(self.score_passes) != 0))


def generic_kernel(timing: Timing) -> FlashKernel:
    """Return the fused kernel that a profile's ``flash`` numbers are of, which says nothing of its backward pass."""
    exponent = to_float(timing.flash_head_exponent)
    return FlashKernel(
        timing.flash_efficiency, timing.flash_latency, timing.flash_memory_efficiency,
        ramp_blocks=timing.flash_ramp_blocks, head_exponent=exponent, wide_exponent=exponent,
        backward_efficiency=BACKWARD_RATE * to_float(timing.flash_efficiency), backward_head_exponent=exponent,
        backward_wide_exponent=exponent,
    )  # fmt: skip


def chosen_kernel(kernels: tuple[FlashKernel, ...], codes: NDArray[np.intp]) -> FlashKernel:
    """Return the fused kernel of each code, as numbers with the codes' shape where they differ."""
    used = distinct_codes(codes)
    if all(kernels[code] is kernels[used[0]] for code in used):
        return kernels[used[0]]

    def at(name: str) -> Array:
        return by_code(codes, lambda code: to_float(getattr(kernels[code], name)))

    return FlashKernel(**{item.name: at(item.name) for item in fields(FlashKernel)})


@struct
class Hardware:
    """A device and its network as numbers: FLOP/s (dense, of one precision), bytes, bytes/s, tiers, timing.

    ``attention_peak_flops`` is the peak of what stays in 16 bits where the precision is fp8 or nvfp4, else that of the
    precision. ``host_bandwidth`` is that of the link to the host, one direction. ``attention`` and ``fp8_attention``
    are fused kernels by the codes of `AttentionKernel`; none: those of ``timing``.
    """

    peak_flops: Numeric
    memory_capacity: Numeric
    memory_bandwidth: Numeric
    tiers: tuple[Tier, ...]
    timing: Timing
    attention_peak_flops: Numeric = np.nan
    host_bandwidth: Numeric = np.nan
    attention: tuple[FlashKernel, ...] = ()
    fp8_attention: tuple[FlashKernel, ...] = ()

    @cached_property
    def in_training(self) -> Hardware:
        """The hardware as a whole step finds it: beyond the innermost tier the network keeps part of its speed."""
        inner, *outer = self.tiers
        kept = self.timing.network_sustained
        slower = (replace(tier, bandwidth=to_float(tier.bandwidth) * kept) for tier in outer)
        return replace(self, tiers=(inner, *slower))

    @cached_property
    def known(self) -> dict[Hashable, object]:
        """What others found out about single numbers on this hardware, to be kept with it."""
        return {}
