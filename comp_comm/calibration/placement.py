"""Where the devices of a measured collective are in a profile's innermost domain: what a log says of hosts is not it.

A host has at most 16 devices; a domain of more spans hosts (an NVLink rack). There, ranks fill domains in their order,
unless the run was too slow for that: then each host is by itself, as it is in a domain of one host. And a run that was
faster than what leaves a host can be was in one domain.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from comp_comm.calibration.measurements import CollectiveRow, Placement, Row
from comp_comm.errors import ConfigError
from comp_comm.hardware.profile import Profile

MOST_OF_A_HOST = 16
LARGE = 2**26  # bytes from which a run's bandwidth is the network's
SLOW = 0.2  # of the innermost bandwidth: below it, a run did not go over it
# Bus bandwidth is at most twice what the devices of a host send together: an all-reduce counts each byte twice.
FAST = 2.2


@dataclass(frozen=True)
class DomainTiers:
    """A profile's network: devices of the innermost domain, and bytes/s of a device inside and out (NaN unknown)."""

    domain: float
    inside: float = math.nan
    outside: float = math.nan


def tiers_of(profile: Profile) -> DomainTiers:
    """Return what a profile says of its two innermost tiers.

    >>> from comp_comm.configs.hardware_file import load_profile
    >>> tiers_of(load_profile("gb200-nvl72"))
    DomainTiers(domain=72.0, inside=900000000000.0, outside=50000000000.0)
    """
    inner, *outer = profile.tiers
    bandwidths = [profile.value(f"network.{tier}.bandwidth") for tier in (inner, *outer[:1])]
    return DomainTiers(profile.value(f"network.{inner}.domain", math.inf), *bandwidths)


def place_rows(rows: Sequence[Row], tiers: DomainTiers) -> tuple[list[Row], list[str]]:
    """Return rows whose ``per_node`` is of the innermost domain, not of a host, and what to say of that.

    Raises ``ConfigError`` for a run in one domain that is larger than the profile's.
    """
    placed: list[Row] = []
    said: Counter[str] = Counter()
    for row in rows:
        if isinstance(row, CollectiveRow) and 0 < row.per_node < row.devices:
            each, why = in_domain(row.devices, row.per_node, row.place, tiers)
            said[why] += bool(why)
            placed.append(replace(row, per_node=each))
        else:
            placed.append(row)
    return placed, [f"{count:,} rows: {why}" for why, count in (+said).items()]


def in_domain(devices: int, per_host: int, place: Placement, tiers: DomainTiers) -> tuple[int, str]:
    """Return how many devices of a group, of which ``per_host`` are on a host, share an innermost domain, and why.

    >>> rack = DomainTiers(72.0, 900e9, 50e9)
    >>> in_domain(72, 4, Placement(hosts=18), rack), in_domain(144, 4, Placement(hosts=36), rack)[0]
    ((72, ''), 72)
    >>> in_domain(8, 4, Placement(hosts=2, rate=90e9, largest=2**33), rack)[0]
    4
    """
    large = place.largest >= LARGE and place.rate > 0
    if tiers.domain > MOST_OF_A_HOST:
        if large and devices <= tiers.domain and place.rate < SLOW * tiers.inside:
            return per_host, (f"{place.rate / 1e9:.4g} GB/s on the bus are too few for one domain of the profile: "
                              f"taken for hosts of {per_host} devices")  # fmt: skip
        return int(min(devices, max(tiers.domain // max(place.stride, 1), 1))), ""
    if large and place.rate > FAST * per_host * tiers.outside:
        what = (f"{place.rate / 1e9:.4g} GB/s on the bus are more than {per_host} devices of a host can send out "
                f"({tiers.outside / 1e9:.4g} GB/s each): one domain spans hosts")  # fmt: skip
        if devices > tiers.domain:
            raise ConfigError(f"{what}, and the profile's has {tiers.domain:g} devices: extend a profile with "
                              "network.*.domain set right")  # fmt: skip
        return devices, what
    return per_host, ""
