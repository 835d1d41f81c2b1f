"""What a cost model needs of a device: broadcastable numbers, SI units."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True)
class Tier:
    """One network tier, innermost first. Bandwidth is per device and direction; NaN is not known (blank).

    ``domain`` devices it connects (infinity for the outermost); ``bandwidth`` bytes/s; ``latency`` seconds of one
    hop; ``efficiency`` achieved share of the bandwidth; ``mesh`` 1 where each pair of devices has its own link, so
    that a group of n in a domain of g has (n - 1) / (g - 1) of the bandwidth; ``axes`` of a torus, of which a ring
    uses one.
    """

    domain: ArrayLike
    bandwidth: ArrayLike
    latency: ArrayLike
    efficiency: ArrayLike
    mesh: ArrayLike = 0.0
    axes: ArrayLike = 1.0


@dataclass(frozen=True)
class Timing:
    """How work becomes time on a device; every number may be an array.

    The names are the keys of a profile's ``timing`` block. ``network_efficiency`` and ``all_reduce_latency`` replace
    the tiers' own numbers where ``use_tiers`` is 0: then the innermost tier's bandwidth serves every group.
    """

    gemm_efficiency: ArrayLike = np.nan
    attention_efficiency: ArrayLike = np.nan
    gemm_ramp_tokens: ArrayLike = 0.0
    kernel_latency: ArrayLike = 0.0
    memory_efficiency: ArrayLike = np.nan
    activation_passes: ArrayLike = 0.0
    score_passes: ArrayLike = 0.0
    score_head_dim: ArrayLike = 64.0
    use_tiers: ArrayLike = 1.0
    ring_limit: ArrayLike = 0.0
    network_efficiency: ArrayLike = np.nan
    all_reduce_latency: ArrayLike = 0.0


@dataclass(frozen=True)
class Hardware:
    """A device and its network as numbers: FLOP/s (dense, of one precision), bytes, bytes/s, tiers, timing."""

    peak_flops: ArrayLike
    memory_capacity: ArrayLike
    memory_bandwidth: ArrayLike
    tiers: tuple[Tier, ...]
    timing: Timing
