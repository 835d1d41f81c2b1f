"""What a cost model needs of a device: broadcastable numbers, SI units."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from comp_comm.formulas.arrays import Numeric, to_float


@dataclass(frozen=True)
class Tier:
    """One network tier, innermost first. Bandwidth is per device and direction; NaN is not known (blank).

    ``domain`` devices it connects (infinity for the outermost); ``bandwidth`` bytes/s; ``latency`` seconds of one
    hop; ``efficiency`` achieved share of the bandwidth; ``mesh`` 1 where each pair of devices has its own link, so
    that a group of n in a domain of g has (n - 1) / (g - 1) of the bandwidth; ``axes`` of a torus, of which a ring
    uses one; ``key`` what the profile calls the tier, for messages.
    """

    domain: Numeric
    bandwidth: Numeric
    latency: Numeric
    efficiency: Numeric
    mesh: Numeric = 0.0
    axes: Numeric = 1.0
    key: str = ""


@dataclass(frozen=True)
class Timing:
    """How work becomes time on a device; every number may be an array.

    The names are the keys of a profile's ``timing`` block. ``network_efficiency`` and ``all_reduce_latency`` replace
    the tiers' own numbers where ``use_tiers`` is 0: then the innermost tier's bandwidth serves every group.
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

    @property
    def memory_bound(self) -> bool:
        """Whether any work is bound by memory bandwidth here."""
        return bool(np.any(to_float(self.activation_passes) != 0) or np.any(to_float(self.score_passes) != 0))


@dataclass(frozen=True)
class Hardware:
    """A device and its network as numbers: FLOP/s (dense, of one precision), bytes, bytes/s, tiers, timing."""

    peak_flops: Numeric
    memory_capacity: Numeric
    memory_bandwidth: Numeric
    tiers: tuple[Tier, ...]
    timing: Timing
