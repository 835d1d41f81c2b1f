"""A tier of the network as a group of devices crosses it: its hops, its seconds of a byte, what it reduces."""

from __future__ import annotations

import numpy as np

from comp_comm.formulas import networks, torus
from comp_comm.formulas.arrays import Array, Mask, Numeric, isnan, maximum, minimum, somewhere, to_float, where
from comp_comm.hardware.numbers import Tier
from comp_comm.lazy import cached_property
from comp_comm.structs import struct
from comp_comm.timing.members import tier_bandwidth


@struct
class TierCrossing:
    """A tier that some group crosses; its times are 0 for those that do not.

    ``below`` and ``members`` share one domain of the tier below, and of this one: each of ``below`` devices brings its
    own link to the tier. ``domains_below`` and ``domains`` are how many of each the group is spread over. ``axes`` of a
    torus are those that its rings run along at once, None where the tier is none or too little is known of it.
    ``only_tier``: no other one is crossed, so that only groups of one do not cross it, whose times do not matter.
    """

    tier: Tier
    crossed: Mask
    below: Array
    members: Array
    domains_below: Array
    domains: Array
    axes: Array | None
    only_tier: bool

    def where_crossed(self, value: Numeric) -> Array:
        """Return ``value``, finite if the tier's numbers are, for the groups that cross the tier, 0 for the others."""
        if self.only_tier:
            return to_float(value)
        return where(self.crossed, value, 0.0) if self.blank else to_float(value) * self._weight

    @cached_property
    def blank(self) -> bool:
        """Whether some number of the tier is blank, for some point."""
        tier = self.tier
        known = tier.bandwidth + tier.efficiency + tier.latency + tier.entry_latency + tier.tree_latency
        return bool(somewhere(isnan(known + tier.exchange_latency)))

    @cached_property
    def _weight(self) -> Array:
        return self.crossed.astype(np.float64)  # many times faster than a choice, where the mask is irregular

    @cached_property
    def link_seconds_per_byte(self) -> Array:
        """Seconds of a byte on one device's links to the tier; in a mesh, on those to the group's members."""
        mesh = somewhere(to_float(self.tier.mesh) > 0)  # elsewhere the bandwidth does not depend on the members
        return 1 / tier_bandwidth(self.tier, maximum(self.members, 2.0) if mesh else 2.0)

    @cached_property
    def seconds_per_byte(self) -> Array:
        """Seconds of a byte that a device sends around a ring, if this tier sets the pace."""
        pace = self.link_seconds_per_byte / (self.below if self.axes is None else self.below * self.axes)
        if somewhere(self.tier.alone != 1):
            pace = where(self.below > 1, pace, pace / self.tier.alone)
        return self.where_crossed(pace)

    @cached_property
    def hops(self) -> Array:
        """Seconds of the hops that one turn of a ring makes here."""
        crossings = networks.ring_crossings(self.domains_below, self.domains)
        if self.axes is not None:
            crossings = where(self._closes, self.domains * torus.torus_hops(self.members, self.axes), crossings)
        return self.where_crossed(crossings * self.tier.latency)

    @cached_property
    def hops_inside(self) -> Array:
        """Seconds of the hops of one turn inside one domain of the innermost tier."""
        turn = self.members - 1
        if self.axes is not None:
            turn = where(self._closes, torus.torus_hops(self.members, self.axes), turn)
        return self.where_crossed(turn * self.tier.latency)

    def leaving_share(self, size: Array) -> Array:
        """Return the share of an all-to-all's message, of ``size`` devices, that leaves a domain of the tier below.

        On a torus it passes the links of others: the share is then what a device's own links to the tier are taken.
        """
        share = networks.leaving_share(size, self.below)
        if self.axes is None:
            return share
        passing = torus.torus_exchange_share(self.members, self.tier.axes, self.tier.side) * self.members / size
        return where(self._closes, maximum(passing, share), share)

    @cached_property
    def _closes(self) -> Mask:
        return to_float(self.tier.side) < np.inf

    @cached_property
    def bulk_hops(self) -> Array:
        """Seconds of those hops by the protocol of large messages; infinity where the tier has none."""
        each = or_never(self.tier.bulk_latency)
        crossings = maximum(networks.ring_crossings(self.domains_below, self.domains), 1e-9)
        return where(self.crossed, crossings * each, 0.0)

    @cached_property
    def chunked(self) -> bool:
        """Whether a level of a tree takes longer for a full chunk than for an empty message."""
        return somewhere(to_float(self.tier.chunk_latency) > 0)

    @cached_property
    def eager_seconds_per_byte(self) -> Numeric:
        """Seconds that the protocol of small messages adds to each byte a device sends."""
        share = to_float(self.tier.eager)
        if not somewhere(share > 0):
            return 0.0
        limit = where(share > 0, share, 1.0) * self.tier.bandwidth
        return where(self.crossed & (share > 0), 1 / limit, 0.0)

    @cached_property
    def reduces(self) -> Mask | None:
        """Which groups the tier itself can reduce for; None where it can for none, whatever its members."""
        able = to_float(self.tier.reduction) > 0
        return able & self.crossed & (self.members >= self.tier.reduction_members) if somewhere(able) else None

    @cached_property
    def reducing_seconds_per_byte(self) -> Array:
        """Seconds of a byte of the message that the tier reduces; any number where it does not.

        Of n members, each receives what the others' sums come to as well as the n-th of all that it sends for: at most
        n / (n + 1) of the bandwidth (nccl-tests issues 212 and 239, on NVLink SHARP).
        """
        members = to_float(self.members) / self.below
        share = minimum(to_float(self.tier.reduction), members / (members + 1))
        return 1 / (where(share > 0, share, 1.0) * self.tier.bandwidth) / self.below

    @cached_property
    def enters(self) -> bool:
        """Whether entering the tier takes any time (or nobody knows)."""
        return somewhere(self.tier.entry_latency != 0)

    @cached_property
    def entry(self) -> Numeric:
        """Seconds that entering the tier adds to a collective."""
        return self.where_crossed(self.tier.entry_latency) if self.enters else 0.0


def or_never(latency: Numeric) -> Array:
    """Return the seconds of a hop of a protocol, infinity for the one that is not there."""
    given = to_float(latency)
    return where(given > 0, given, np.inf)
