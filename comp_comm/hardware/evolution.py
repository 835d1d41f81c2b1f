"""Hardware to come: today's device with some of its rates scaled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from comp_comm.formulas.arrays import Array, Numeric, isnan, somewhere, to_float
from comp_comm.hardware.numbers import Hardware, Tier
from comp_comm.records import Record
from comp_comm.violation import Violation

LATENCIES = (
    "latency", "entry_latency", "tree_latency", "reduction_latency", "bulk_latency", "bulk_tree_latency",
    "exchange_latency", "chunk_latency",
)  # fmt: skip
MESHED = "nvs cannot change a domain that is a mesh, where each pair of devices has its own link"

NO_OUTER = "scale_out is of the network beyond the innermost tier, of which the profile knows no bandwidth"


def evolve(
    hardware: Hardware,
    flop_vs_bw: Numeric = 1,
    flops: Numeric = 1,
    network: Numeric = 1,
    memory_bandwidth: Numeric = 1,
    memory_capacity: Numeric = 1,
    latency: Numeric = 1,
    domain: Numeric = np.nan,
    scale_up: Numeric = 1,
    scale_out: Numeric = 1,
    tiers: Sequence[Numeric] = (),
) -> Hardware:
    r"""Return ``hardware`` with its rates multiplied by the given factors (numbers or arrays).

    ``flop_vs_bw`` is the paper's: FLOP/s grow by it relative to the network, which stays as it is. So FLOP/s are
    multiplied by ``flop_vs_bw * flops``, every tier's bandwidth by ``network``, that of the innermost by ``scale_up``
    as well, those of the others by ``scale_out`` (and each by its own of ``tiers``, from the inside out). What is bound
    by memory speeds up only by ``memory_bandwidth``; ``latency`` multiplies that of every hop and start of a
    collective. The innermost tier connects ``domain`` devices (NaN: as many as it did), each with the links that it
    had.

    References
    ----------
    .. [1] arXiv:2302.02825, section 4.3.6.

    Examples
    --------
    >>> from comp_comm.hardware.numbers import Timing
    >>> float(evolve(Hardware(100.0, 1.0, 1.0, (), Timing()), flop_vs_bw=4, flops=2).peak_flops)
    800.0
    >>> two = (Tier(8, 400.0, 0, 1.0), Tier(np.inf, 50.0, 0, 1.0))
    >>> faster = evolve(Hardware(100.0, 1.0, 1.0, two, Timing()), network=2, scale_out=3).tiers
    >>> [float(tier.bandwidth) for tier in faster]
    [800.0, 300.0]
    """
    if not _changes(
        flop_vs_bw, flops, network, scale_up, scale_out, memory_bandwidth, memory_capacity, latency, *tiers
    ):
        return replace(hardware, tiers=_resized(hardware.tiers, to_float(domain)))
    each = [*tiers, *(1.0 for _ in hardware.tiers[len(tiers) :])]
    each = [own * to_float(scale_out if place else scale_up) for place, own in enumerate(each)]
    timing = hardware.timing
    if somewhere(to_float(latency) != 1):
        timing = replace(timing, collective_latency=to_float(timing.collective_latency) * latency)
    if not np.isnan(to_float(timing.vector_flops)).all():
        timing = replace(timing, vector_flops=to_float(timing.vector_flops) * (to_float(flop_vs_bw) * flops))
    evolved = tuple(_evolved(*pair, network, latency) for pair in zip(hardware.tiers, each, strict=True))
    return replace(
        hardware,
        peak_flops=to_float(hardware.peak_flops) * (to_float(flop_vs_bw) * flops),
        attention_peak_flops=to_float(hardware.attention_peak_flops) * (to_float(flop_vs_bw) * flops),
        memory_capacity=to_float(hardware.memory_capacity) * memory_capacity,
        memory_bandwidth=to_float(hardware.memory_bandwidth) * memory_bandwidth,
        tiers=_resized(evolved, to_float(domain)),
        timing=timing,
    )


def _resized(tiers: tuple[Tier, ...], domain: Array) -> tuple[Tier, ...]:
    if np.isnan(domain).all():
        return tiers
    inner, *outer = tiers
    size = np.where(np.isnan(domain), inner.domain, domain) if np.isnan(domain).any() else domain
    return (replace(inner, domain=size), *outer)


def evolution_rules(hardware: Hardware, domain: Numeric, scale_out: Numeric = 1) -> list[Violation]:
    """Return the rules that another size of the innermost domain, and a factor on what is beyond it, must keep.

    >>> from comp_comm.hardware.numbers import Timing
    >>> mesh = Hardware(1.0, 1.0, 1.0, (Tier(4, 150e9, 0, 1.0, mesh=1.0),), Timing())
    >>> [rule.reason for rule in evolution_rules(mesh, 8) if rule.broken]
    ['nvs cannot change a domain that is a mesh, where each pair of devices has its own link']
    >>> [rule.reason for rule in evolution_rules(mesh, np.nan, 2) if rule.broken]
    ['scale_out is of the network beyond the innermost tier, of which the profile knows no bandwidth']
    """
    return [*_domain_rules(hardware, domain), *_outer_rules(hardware, to_float(scale_out))]


def _outer_rules(hardware: Hardware, scale_out: Array) -> list[Violation]:
    scaled = scale_out != 1
    if not somewhere(scaled):
        return []
    known = [~isnan(to_float(tier.bandwidth)) for tier in hardware.tiers[1:]]
    unknown = ~np.any(np.broadcast_arrays(*known), axis=0) if known else True
    return [Violation(np.asarray(scaled & unknown), NO_OUTER, ("scale_out",))]


def _domain_rules(hardware: Hardware, domain: Numeric) -> list[Violation]:
    size = to_float(domain)
    if np.isnan(size).all():
        return []
    inner, *outer = hardware.tiers
    meshed = (to_float(inner.mesh) > 0) & ~np.isnan(size) & (size != inner.domain)
    violations = [Violation(meshed, MESHED, ("nvs",))]
    for tier in outer[:1]:
        reach = to_float(tier.domain)
        uneven = ~np.isinf(reach) & ~np.isnan(size) & (np.where(np.isinf(reach), 0.0, reach) % size != 0)
        reason = f"nvs does not divide the domain of {tier.key or 'the next tier'}"
        violations.append(Violation(uneven, reason, ("nvs",)))
    return violations


def _changes(*factors: Numeric) -> bool:
    """Return whether any factor may be another number than 1."""
    return any(isinstance(factor, np.ndarray) or factor != 1 for factor in factors)


def _evolved(tier: Tier, own: Numeric, network: Numeric, latency: Numeric) -> Tier:
    if _changes(own, network):
        tier = replace(tier, bandwidth=to_float(tier.bandwidth) * own * network)
    if np.all(to_float(latency) == 1):
        return tier
    slower: Record = {name: to_float(getattr(tier, name)) * latency for name in LATENCIES}
    return replace(tier, **slower)
