"""What a group of devices crosses on a network of tiers: found once, for every collective on that group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from typing import TypeVar, cast

import numpy as np

from comp_comm.formulas.arrays import Array, Mask, Numeric, maximum, minimum, somewhere, to_float, where
from comp_comm.group import Group
from comp_comm.hardware.numbers import Hardware, Tier, Timing
from comp_comm.lazy import cached_property
from comp_comm.structs import struct
from comp_comm.timing.members import closes_to_rings, filled_axes, members_in
from comp_comm.timing.tier_crossing import TierCrossing, or_never

# Of a collective's start, what overlaps with its transfer as hops do: the protocol's part, not the software's.
RAMPING_START = 5e-6
# What connects devices that no tier of the profile connects: nothing is known of it.
NOWHERE = Tier(domain=np.inf, bandwidth=np.nan, latency=0.0, efficiency=1.0)

Made = TypeVar("Made")


@struct
class NetworkPath:
    """The tiers a group crosses, from the inside out, and what its collectives need of them.

    ``local`` members share a domain of the ``inner`` tier, which is the first crossing where some group is ``inside``.
    """

    size: Array
    timing: Timing
    inner: Tier
    inside: bool
    local: Array
    crossings: tuple[TierCrossing, ...]
    _made: dict[Callable[..., object], object] = field(default_factory=dict)

    def memoised(self, make: Callable[[NetworkPath], Made]) -> Made:
        """Return what ``make`` makes of this path, made at the first call."""
        if make not in self._made:
            self._made[make] = make(self)
        return cast(Made, self._made[make])

    @property
    def outer(self) -> tuple[TierCrossing, ...]:
        """The crossings beyond the innermost tier."""
        return self.crossings[1:] if self.inside else self.crossings

    @cached_property
    def start(self) -> Numeric:
        """Seconds of a collective's start that overlap with nothing."""
        return self.timing.collective_latency - self.protocol

    @cached_property
    def protocol(self) -> Numeric:
        """Seconds of a collective's start that overlap with its transfer, as hops do."""
        return minimum(self.timing.collective_latency, RAMPING_START)

    @cached_property
    def entry(self) -> Numeric:
        """Seconds that entering the tiers adds to a collective: the largest of those it crosses. They overlap too."""
        entry: Numeric = 0.0
        for crossing in self.crossings:
            if crossing.enters:
                entry = maximum(entry, crossing.entry)
        return entry

    @cached_property
    def exchanges(self) -> bool:
        """Whether members of an innermost domain take any time to agree on what they send each other."""
        return self.inside and somewhere(self.inner.exchange_latency != 0)

    @cached_property
    def exchange(self) -> Array:
        """Seconds that they take before they send each other large messages."""
        return self.crossings[0].where_crossed(self.inner.exchange_latency)

    @cached_property
    def domains(self) -> Array:
        """Domains of the innermost tier that the group is spread over."""
        return self.crossings[0].domains if self.inside else self.size

    @cached_property
    def intra_domain_hops(self) -> Numeric:
        """Seconds of the hops through the members of one innermost domain, one way."""
        return self.crossings[0].hops_inside if self.inside else 0.0

    @cached_property
    def self_share(self) -> Numeric:
        """What a device passes on to itself, as a share of the message; nothing where the group leaves its domain."""
        if not self.inside:
            return 0.0
        own = self.timing.own_shard / self.size
        return own * (self.local == self.size) if self.outer else own

    @cached_property
    def two_protocols(self) -> bool:
        """Whether any tier of these has a protocol of its own for large messages, or a limit for small ones."""
        return any(
            somewhere(to_float(n) > 0)
            for crossing in self.crossings
            for n in (crossing.tier.bulk_latency, crossing.tier.eager)
        )

    @cached_property
    def protocol_switch_bytes(self) -> Numeric:
        """The message from which a group takes the other protocol whether it is faster or not; infinity: never."""
        inner = self.inner
        if not (self.inside and somewhere(to_float(inner.switch_size) > 0)):
            return np.inf
        ruled = (to_float(inner.switch_size) > 0) & (to_float(inner.bulk_latency) > 0) & (self.local == self.size)
        return where(ruled, inner.switch_size * self.size, np.inf)

    @cached_property
    def bulk_intra_domain_hops(self) -> Numeric:
        """Seconds of the hops through one innermost domain, one way, by the protocol of large messages."""
        if not self.inside:
            return 0.0
        many = self.local > 1
        return where(many, where(many, self.local - 1, 1.0) * or_never(self.inner.bulk_latency), 0.0)

    @cached_property
    def bulk_ring_hops(self) -> Numeric:
        """Seconds of the hops of one turn of a ring by the protocol of large messages."""
        hops: Numeric = 0.0
        for crossing in self.crossings:
            hops = hops + crossing.bulk_hops
        return hops

    @cached_property
    def eager_seconds_per_byte(self) -> Numeric:
        """Seconds that the protocol of small messages adds to each byte a device sends, over all tiers."""
        slowest: Numeric = 0.0
        for crossing in self.crossings:
            slowest = maximum(slowest, crossing.eager_seconds_per_byte)
        return slowest

    @cached_property
    def ring(self) -> tuple[Numeric, Numeric]:
        """Seconds of one turn of a ring over all crossings, and of a byte sent around it."""
        return ring_over(self.crossings)


def ring_over(crossings: tuple[TierCrossing, ...]) -> tuple[Numeric, Numeric]:
    """Return the seconds of one turn of a ring over ``crossings``, and of a byte sent around it: the slowest tier's."""
    hops: Numeric = 0.0
    slowest: Numeric = 0.0
    for number, crossing in enumerate(crossings):
        hops = hops + crossing.hops if number else crossing.hops
        slowest = maximum(slowest, crossing.seconds_per_byte) if number else crossing.seconds_per_byte
    return hops, slowest


def path_of(hardware: Hardware, group: Group) -> NetworkPath:
    """Return what ``group`` crosses, its sizes and strides numbers or arrays.

    >>> tiers = (Tier(8, 450e9, 1e-6, 1.0), Tier(np.inf, 50e9, 5e-6, 1.0))
    >>> hops, seconds_per_byte = path_of(Hardware(1, 1, 1, tiers, Timing()), Group(32)).ring
    >>> round(float(hops) * 1e6, 3), round(1e-9 / float(seconds_per_byte), 3)
    (43.0, 400.0)
    """
    size, inner = to_float(group.size), hardware.tiers[0]
    crossings = _crossings(hardware.tiers, replace(group, size=size))
    inside = bool(crossings) and crossings[0].tier is inner
    return NetworkPath(
        size,
        timing=hardware.timing,
        inner=inner,
        inside=inside,
        local=crossings[0].members if inside else to_float(1.0),
        crossings=crossings,
    )


def _crossings(tiers: tuple[Tier, ...], group: Group) -> tuple[TierCrossing, ...]:
    """Return the tiers that some group crosses, the last one nowhere if there is none that connects it."""
    size, one = to_float(group.size), to_float(1.0)
    crossed_by: list[tuple[Tier, Mask, Array, Array, Array, Array, Array | None]] = []
    below, domains_below = one, size
    for tier in (*tiers, NOWHERE):
        domain = to_float(tier.domain)
        unlimited = not domain.ndim and bool(domain == np.inf)
        members = size if unlimited else members_in(tier, group)
        crossed = members > below
        if somewhere(crossed):
            domains = one if unlimited else size / members
            axes = filled_axes(tier, group) if closes_to_rings(tier) else None
            crossed_by.append((tier, crossed, below, members, domains_below, domains, axes))
            below, domains_below = members, domains
        if unlimited:
            break
    return tuple(TierCrossing(*crossing, only_tier=len(crossed_by) == 1) for crossing in crossed_by)
