"""How sure the seconds of collectives are: fitted on runs of the device itself, or predicted from its data sheet."""

from __future__ import annotations

from typing import NamedTuple

from comp_comm.hardware.profile import Profile

# From this size on, in bytes, the bandwidth of the data sheet decides; below it latencies that no sheet gives.
LARGE = 2.0**20
MEASURED = ("high", "medium", "calibrated")


class Band(NamedTuple):
    """How far measured collectives are from what the data sheets of their systems predict.

    ``low`` and ``high`` times the prediction hold 8 of 10 of those below `LARGE`: the 10th and the 90th percentile of
    measured over predicted seconds, every system with the same weight; ``rows`` and ``systems`` say of how many.
    ``error`` is the mean absolute error from `LARGE` on, the mean over systems.
    """

    low: float
    high: float
    error: float
    rows: int
    systems: int


# All-reduce, all-gather and reduce-scatter of nccl-tests, rccl-tests and Vidur, from 1 KiB up, predicted from the
# domain, the bandwidths and what else is left out of a profile. In a domain: A100 (four sources), H100, H200 and B200
# (two each), B300, GB200, GB300, MI300X. Across: Perlmutter, AWS p4de, p5 and P6-B200, GCP A3 Ultra and A3 Mega, two
# nodes of MI355X; the errors also A3 High, Nebius, and Oracle's H100 and MI300X, which have no small rows.
IN_A_DOMAIN = Band(0.65, 2.0, 0.12, 584, 14)
ACROSS_DOMAINS = Band(0.99, 4.0, 0.2, 285, 7)


class Certainty(NamedTuple):
    """What is known of collectives in a domain, or across domains: the source of a measurement, or a band."""

    where: str
    source: str
    band: Band | None

    @property
    def words(self) -> str:
        """Say where the seconds are from, and how far off they may be."""
        band = self.band
        if band is None:
            return self.source
        return (
            f"from the data sheet, {100 * band.error:.0f} % off in the mean from 1 MiB up; below, 8 of 10 took "
            f"{band.low:g} to {band.high:g} times as long ({band.rows} measured on {band.systems} systems)"
        )


def collective_certainty(profile: Profile) -> tuple[Certainty, Certainty]:
    """Return how sure a profile's collectives are, in one innermost domain and across several.

    Measured are those whose start is: ``timing.collective_latency`` in a domain, and the ``entry_latency`` of the next
    tier across. These numbers are on no data sheet, and decide small messages.

    Examples
    --------
    >>> from comp_comm.configs.hardware_file import load_profile
    >>> inside, across = collective_certainty(load_profile("h100-sxm"))
    >>> inside.source[:28], across.band.high
    ('fitted by compcomm calibrate', 4.0)
    >>> [known.band is None for known in collective_certainty(load_profile("perlmutter"))]
    [True, True]
    """
    beyond = f"network.{profile.tiers[1]}.entry_latency" if len(profile.tiers) > 1 else ""
    return (
        _certainty(profile, "timing.collective_latency", f"in a {profile.tiers[0]} domain", IN_A_DOMAIN),
        _certainty(profile, beyond, f"across {profile.tiers[0]} domains", ACROSS_DOMAINS),
    )


def _certainty(profile: Profile, key: str, where: str, band: Band) -> Certainty:
    number = profile.numbers.get(key)
    if number is None or number.value is None or number.certainty not in MEASURED:
        return Certainty(where, "data sheet", band)
    return Certainty(where, number.source, None)
