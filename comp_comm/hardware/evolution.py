"""Hardware to come: today's device with some of its rates scaled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from comp_comm.formulas.arrays import Numeric, to_float
from comp_comm.hardware.numbers import Hardware, Tier

LATENCIES = (
    "latency", "entry_latency", "tree_latency", "reduction_latency", "bulk_latency", "bulk_tree_latency",
    "exchange_latency", "chunk_latency",
)  # fmt: skip


def evolve(
    hardware: Hardware,
    flop_vs_bw: Numeric = 1,
    flops: Numeric = 1,
    network: Numeric = 1,
    memory_bandwidth: Numeric = 1,
    memory_capacity: Numeric = 1,
    latency: Numeric = 1,
    tiers: Sequence[Numeric] = (),
) -> Hardware:
    r"""Return ``hardware`` with its rates multiplied by the given factors (numbers or arrays).

    ``flop_vs_bw`` is the paper's: FLOP/s grow by it relative to the network, which stays as it is. So FLOP/s are
    multiplied by ``flop_vs_bw * flops``, every tier's bandwidth by ``network`` (and by its own of ``tiers``, from the
    inside out). What is bound by memory speeds up only by ``memory_bandwidth``; ``latency`` multiplies that of every
    hop and start of a collective.

    References
    ----------
    .. [1] arXiv:2302.02825, section 4.3.6.

    Examples
    --------
    >>> from comp_comm.hardware.numbers import Timing
    >>> float(evolve(Hardware(100.0, 1.0, 1.0, (), Timing()), flop_vs_bw=4, flops=2).peak_flops)
    800.0
    """
    each = [*tiers, *(1.0 for _ in hardware.tiers[len(tiers) :])]
    timing = hardware.timing
    if np.any(to_float(latency) != 1):
        timing = replace(timing, collective_latency=to_float(timing.collective_latency) * latency)
    if not np.isnan(to_float(timing.vector_flops)).all():
        timing = replace(timing, vector_flops=to_float(timing.vector_flops) * (to_float(flop_vs_bw) * flops))
    return replace(
        hardware,
        peak_flops=to_float(hardware.peak_flops) * (to_float(flop_vs_bw) * flops),
        attention_peak_flops=to_float(hardware.attention_peak_flops) * (to_float(flop_vs_bw) * flops),
        memory_capacity=to_float(hardware.memory_capacity) * memory_capacity,
        memory_bandwidth=to_float(hardware.memory_bandwidth) * memory_bandwidth,
        tiers=tuple(_evolved(*pair, network, latency) for pair in zip(hardware.tiers, each, strict=True)),
        timing=timing,
    )


def _evolved(tier: Tier, own: Numeric, network: Numeric, latency: Numeric) -> Tier:
    tier = replace(tier, bandwidth=to_float(tier.bandwidth) * own * network)
    if np.all(to_float(latency) == 1):
        return tier
    slower: dict[str, Any] = {name: to_float(getattr(tier, name)) * latency for name in LATENCIES}
    return replace(tier, **slower)
