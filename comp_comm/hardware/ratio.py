"""How many times a newer device has of an older one: the flop-vs-bw of a step between two products."""

from __future__ import annotations

import math
from typing import Literal

from comp_comm.errors import ConfigError
from comp_comm.hardware.profile import Profile

SIXTEEN_BIT = ("fp16", "bf16")


def ratio(
    old: Profile,
    new: Profile,
    per: Literal["package", "device"] = "package",
    precision: str | None = None,
) -> dict[str, float | str | None]:
    r"""Return how many times ``new`` has of ``old``, in FLOP/s, in every bandwidth, and in FLOP per byte of each.

    .. math:: r_x = x_{new} / x_{old}, \qquad r_{flop/x} = r_{flop} / r_x

    Parameters
    ----------
    old, new : Profile
        Two devices. The innermost network tier is the scale-up one, the outermost (if another) the scale-out one.
    per : "package" or "device"
        A package counts all its devices: an MI250X is two GCDs.
    precision : str, optional
        Number format of both peaks. Without one: the first of fp16, bf16 that both have, else each one's own
        (a TPU has bf16 only, a V100 fp16 only).

    Returns
    -------
    dict
        ``old`` and ``new`` (names), ``flops``, ``memory_bandwidth``, ``scale_up``, ``scale_out``,
        ``flop_per_scale_up``, ``flop_per_scale_out``, ``flop_per_memory_byte``. None where a number is blank.

    Raises
    ------
    ConfigError
        For a precision one of them has no peak for, or no 16-bit peak at all.

    References
    ----------
    .. [1] arXiv:2302.02825, section 4.3.6: FLOP/s grew 2 to 4 times as much as bandwidth from one product to the next.

    Examples
    --------
    >>> from comp_comm.configs.hardware_file import load_profile
    >>> step = ratio(load_profile("mi50"), load_profile("mi100"))
    >>> round(step["flops"], 2), round(step["scale_up"], 2), round(step["flop_per_scale_up"], 2)
    (6.97, 1.5, 4.64)
    >>> step["scale_out"] is None
    True
    """
    if per not in ("package", "device"):
        raise ConfigError(f"'{per}' is not what a ratio is per; allowed: package, device")
    old_precision, new_precision = _precisions(old, new, precision)
    packages = new.devices_per_package / old.devices_per_package if per == "package" else 1.0
    flops = _times(old, new, f"peak.{old_precision}", f"peak.{new_precision}", packages)
    memory = _times(old, new, "memory.bandwidth", "memory.bandwidth", packages)
    scale_up = _times(old, new, scale_up_key(old), scale_up_key(new), packages)
    scale_out = _times(old, new, scale_out_key(old), scale_out_key(new), packages)
    return {
        "old": old.name,
        "new": new.name,
        "flops": _known(flops),
        "memory_bandwidth": _known(memory),
        "scale_up": _known(scale_up),
        "scale_out": _known(scale_out),
        "flop_per_scale_up": _known(flops / scale_up),
        "flop_per_scale_out": _known(flops / scale_out),
        "flop_per_memory_byte": _known(flops / memory),
    }


def sixteen_bit_peak(profile: Profile) -> float:
    """Return the larger of a profile's fp16 and bf16 peaks in FLOP/s; NaN where it has neither."""
    return max((profile.value(f"peak.{p}") for p in SIXTEEN_BIT if p in profile.precisions), default=math.nan)


def scale_up_key(profile: Profile) -> str:
    """Return the key of the innermost network tier's bandwidth."""
    return f"network.{profile.tiers[0]}.bandwidth"


def scale_out_key(profile: Profile) -> str:
    """Return the key of the outermost network tier's bandwidth; of none where the profile has one tier only."""
    return f"network.{profile.tiers[-1]}.bandwidth" if len(profile.tiers) > 1 else "network.none.bandwidth"


def _precisions(old: Profile, new: Profile, asked: str | None) -> tuple[str, str]:
    """Return the number format to take each device's peak in."""
    if asked is not None:
        for profile in (old, new):
            if asked not in profile.precisions:
                raise ConfigError(f"{profile.name} has no {asked} peak; it has: {', '.join(profile.precisions)}")
        return asked, asked
    for name in SIXTEEN_BIT:
        if name in old.precisions and name in new.precisions:
            return name, name
    return _own(old), _own(new)


def _own(profile: Profile) -> str:
    for name in SIXTEEN_BIT:
        if name in profile.precisions:
            return name
    raise ConfigError(f"{profile.name} has no 16-bit peak; name a precision, it has: {', '.join(profile.precisions)}")


def _times(old: Profile, new: Profile, old_key: str, new_key: str, packages: float) -> float:
    """Return the ratio of one number, NaN where either is blank."""
    return packages * new.value(new_key) / old.value(old_key)


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
