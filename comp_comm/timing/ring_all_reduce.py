"""Seconds of a ring all-reduce on the network tiers of a device, as arXiv:2302.02825 has them.

A ring over n devices crosses the tiers its members are spread over. Inside the innermost domain it runs at that
tier's bandwidth; where it leaves a domain of which g devices are members, each of them brings its own share of the
next tier, so it runs there at g shares. The slowest tier it crosses sets the pace.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from comp_comm.formulas import collectives
from comp_comm.formulas.arrays import Array, Numeric, maximum, minimum, somewhere, to_float, where
from comp_comm.group import Group
from comp_comm.hardware.numbers import Hardware
from comp_comm.timing.members import members_in, tier_bandwidth


def group_bandwidth(hardware: Hardware, group: Group) -> Array:
    r"""Return the bytes per second each device of a ring over ``group`` sends.

    .. math:: B = \min_i \left( g_{i-1}\, e_i B_i \right)

    over the tiers i the group crosses, with g_{i-1} its members in a domain of the tier below (1 below the innermost).

    Parameters
    ----------
    hardware : Hardware
        Tiers, innermost first.
    group : Group
        The devices.

    Returns
    -------
    ndarray of float64
        Bytes per second and device; infinity for a group of one, NaN where a needed number is blank.

    References
    ----------
    .. [1] nccl-tests issue 196: each device of a node brings its own network interface to a ring across nodes.

    Examples
    --------
    Eight devices of a node each have 50 GB/s to other nodes: together less than NVLink's 450 GB/s.

    >>> from comp_comm.hardware.numbers import Tier, Timing
    >>> device = Hardware(1, 1, 1, (Tier(8, 450e9, 0, 1.0), Tier(np.inf, 50e9, 0, 1.0)), Timing())
    >>> float(group_bandwidth(device, Group(16))) / 1e9
    400.0
    """
    slowest, below = to_float(np.inf), to_float(1.0)
    for tier in hardware.tiers:
        members = members_in(tier, group)
        pace = below * tier_bandwidth(tier, members)
        slowest = where(members > below, minimum(slowest, pace), slowest)
        below = members
    inner = hardware.tiers[0]
    return where(np.isinf(group.size), tier_bandwidth(inner, inner.domain), slowest)


def bandwidth_needed(hardware: Hardware, group: Group) -> list[NDArray[np.bool_]]:
    """Return for each tier whether an all-reduce over ``group`` depends on its bandwidth.

    With tiers it is every tier the group crosses; without, or for infinitely many devices, the innermost one. A group
    of one needs none.
    """
    placed = (np.asarray(hardware.timing.use_tiers) > 0) & ~np.isinf(group.size)
    needed, below = [], to_float(1.0)
    for number, tier in enumerate(hardware.tiers):
        members = members_in(tier, group)
        needed.append(np.where(placed, members > below, (to_float(group.size) > 1) & (number == 0)))
        below = members
    return needed


def ring_hop_seconds(hardware: Hardware, group: Group) -> Array:
    """Return the seconds of the 2 (n - 1) hops of an all-reduce ring, each hop at its own tier's latency.

    Of the n - 1 hops of one turn, n / g_{i-1} - n / g_i cross tier i (g_i the members in one of its domains, g_{-1} is
    1). A group of infinitely many has none: see `Group`.
    """
    finite = where(np.isinf(group.size), 1.0, group.size)
    seconds, below = to_float(0.0), to_float(1.0)
    for tier in hardware.tiers:
        members = members_in(tier, replace(group, size=finite))
        crossing = finite / below - finite / members
        seconds = seconds + 2 * where(crossing > 0, crossing * tier.latency, 0.0)
        below = members
    return seconds


def all_reduce_seconds(hardware: Hardware, message_bytes: Numeric, group: Group, in_network: Numeric = 0) -> Array:
    r"""Return the seconds of a ring all-reduce of ``message_bytes`` over ``group``.

    .. math:: t = \alpha_0 + h + \frac{2 m (n - 1) / n}{B}

    The profile's timing says how: with ``use_tiers`` B and the hops h are those of the tiers the group spans; without,
    the innermost bandwidth times ``network_efficiency`` serves every group, without hops. ``ring_limit`` puts 1 for
    (n - 1) / n. ``all_reduce_latency`` is alpha_0. Where switches reduce (``in_network`` 1) each device sends m once,
    and there are two hops, in and out.

    Parameters
    ----------
    hardware : Hardware
        Tiers and timing numbers.
    message_bytes : array_like
        m, bytes each device contributes.
    group : Group
        The devices.
    in_network : array_like
        1 where switches reduce.

    Returns
    -------
    ndarray of float64
        Seconds; 0 for a group of one; NaN where a needed number of the profile is blank.

    References
    ----------
    .. [1] arXiv:2302.02825, section 4.3.1.

    Examples
    --------
    >>> from comp_comm.hardware.numbers import Tier, Timing
    >>> device = Hardware(1, 1, 1, (Tier(8, 450e9, 0.0, 210 / 450),), Timing())
    >>> round(float(all_reduce_seconds(device, 1e9, Group(8))) * 1e3, 3)
    8.333
    """
    timing = hardware.timing
    with_tiers = np.asarray(timing.use_tiers) > 0
    plain = to_float(hardware.tiers[0].bandwidth) * timing.network_efficiency
    bandwidth, hops = plain, to_float(0.0)
    if somewhere(with_tiers):
        bandwidth = where(with_tiers, group_bandwidth(hardware, group), plain)
        hops = where(with_tiers, ring_hop_seconds(hardware, group), 0.0)
    many = where(to_float(group.size) > 1, np.inf, 1.0)
    spread = where(np.asarray(timing.ring_limit) > 0, many, group.size)
    # Seconds per byte first: it has fewer axes than the message.
    sent = collectives.all_reduce_wire_bytes(1.0, spread)
    switched = to_float(in_network) > 0
    if somewhere(switched):
        sent = where(switched, collectives.in_network_all_reduce_wire_bytes(1.0, spread), sent)
        turns = where(np.isinf(group.size), 1.0, maximum(to_float(group.size) - 1, 1))
        hops = where(switched, hops / turns, hops)
    per_byte = sent / bandwidth
    start = where(spread > 1, hops + timing.all_reduce_latency, 0.0)
    return to_float(message_bytes) * where(spread > 1, per_byte, 0.0) + start
