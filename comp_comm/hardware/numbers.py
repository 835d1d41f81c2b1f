"""What a cost model needs of a device: broadcastable numbers, SI units."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from comp_comm.formulas.arrays import Numeric, to_float
from comp_comm.hardware.dispatch import DispatchTiming


@dataclass(frozen=True)
class Tier:
    """One network tier, innermost first. Bandwidth is per device and direction; NaN is not known (blank).

    ``domain`` devices it connects (infinity for the outermost); ``bandwidth`` bytes/s; ``latency`` seconds of one
    hop; ``efficiency`` achieved share of the bandwidth; ``mesh`` 1 where each pair of devices has its own link, so
    that a group of n in a domain of g has (n - 1) / (g - 1) of the bandwidth; ``axes`` of a torus, of which a ring
    uses one; ``key`` what the profile calls the tier, for messages.

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


@dataclass(frozen=True)
class Timing(DispatchTiming):
    """How work becomes time on a device; every number may be an array.

    The names are the keys of a profile's ``timing`` block. ``network_efficiency`` and ``all_reduce_latency`` replace
    the tiers' own numbers where ``use_tiers`` is 0: then the innermost tier's bandwidth serves every group.

    From ``sustained`` on they are of whole training steps: what a GEMM keeps of its isolated speed, its ramp in the
    inner dimension and in tiles, the cost of splitting it, the tiles of a wave and the bytes of an operand that the
    cache keeps, the share of HBM bandwidth element-wise kernels stream at, their start and what rows of their own
    take, flash attention's share of the peak, its start, ramp in blocks of queries, share of HBM bandwidth and exponent
    of the head dimension, and what the network beyond the innermost tier keeps of its isolated bandwidth. Their
    defaults are medians over published runs and kernels of several devices.

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
    sustained: Numeric = 0.8
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

    @property
    def memory_bound(self) -> bool:
        """Whether any work is bound by memory bandwidth here."""
        return bool(np.any(to_float(self.activation_passes) != 0) or np.any(to_float(self.score_passes) != 0))


@dataclass(frozen=True)
class Hardware:
    """A device and its network as numbers: FLOP/s (dense, of one precision), bytes, bytes/s, tiers, timing.

    ``attention_peak_flops`` is the peak attention runs at: that of 16 bit where the precision is fp8.
    ``host_bandwidth`` is that of the link to the host, one direction.
    """

    peak_flops: Numeric
    memory_capacity: Numeric
    memory_bandwidth: Numeric
    tiers: tuple[Tier, ...]
    timing: Timing
    attention_peak_flops: Numeric = np.nan
    host_bandwidth: Numeric = np.nan
