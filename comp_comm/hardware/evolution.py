"""Hardware to come: today's device with some of its rates scaled."""

from __future__ import annotations

from dataclasses import replace

from comp_comm.formulas.arrays import Numeric, to_float
from comp_comm.hardware.numbers import Hardware


def evolve(
    hardware: Hardware,
    flop_vs_bw: Numeric = 1,
    flops: Numeric = 1,
    network: Numeric = 1,
    memory_bandwidth: Numeric = 1,
    memory_capacity: Numeric = 1,
) -> Hardware:
    r"""Return ``hardware`` with its rates multiplied by the given factors (numbers or arrays).

    ``flop_vs_bw`` is the paper's: FLOP/s grow by it relative to the network, which stays as it is. So FLOP/s are
    multiplied by ``flop_vs_bw * flops``, every tier's bandwidth by ``network``. What is bound by memory speeds
    up only by ``memory_bandwidth``; latencies stay.

    References
    ----------
    .. [1] arXiv:2302.02825, section 4.3.6.

    Examples
    --------
    >>> from comp_comm.hardware.numbers import Timing
    >>> float(evolve(Hardware(100.0, 1.0, 1.0, (), Timing()), flop_vs_bw=4, flops=2).peak_flops)
    800.0
    """
    return replace(
        hardware,
        peak_flops=to_float(hardware.peak_flops) * (to_float(flop_vs_bw) * flops),
        memory_capacity=to_float(hardware.memory_capacity) * memory_capacity,
        memory_bandwidth=to_float(hardware.memory_bandwidth) * memory_bandwidth,
        tiers=tuple(replace(tier, bandwidth=to_float(tier.bandwidth) * network) for tier in hardware.tiers),
    )
