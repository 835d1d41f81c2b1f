"""What the paper calls flop-vs-bw: how much more than its links a device's FLOP/s grew over its predecessor's."""

from __future__ import annotations

import numpy as np

from comp_comm.records import Record, Records
from comp_comm.trends.growth import VENDORS
from comp_comm.trends.tables import Device, devices

STATED = (2.0, 4.0)  # a generation: arXiv:2302.02825, section 4.3.6
LINKS = {"scale_up": "scale-up", "scale_out": "scale-out"}
FORMATS = {"flops_16_bit": "16 bit", "flops_best": "fastest format"}


def generations() -> Records:
    """Return flop-vs-bw of each device over its predecessor: a row a pair, None where a number is blank.

    >>> rows = {(row["old"], row["new"]): row for row in generations()}
    >>> round(rows["a100-sxm-80gb", "h100-sxm"]["scale_up_16_bit"], 2)
    2.11
    """
    listed = {each.reference: each for each in devices()}
    return [_pair(listed[each.after], each) for each in listed.values() if each.after]


def _pair(old: Device, new: Device) -> Record:
    row: Record = {"vendor": VENDORS[new.profile.vendor], "year": new.profile.year, "old": old.profile.name,
                   "new": new.profile.name, "announced": _announced(new)}  # fmt: skip
    times = {name: new.quantities[name] / old.quantities[name] for name in (*FORMATS, *LINKS)}
    for link in LINKS:
        for peak, words in FORMATS.items():
            value = times[peak] / times[link]
            row[f"{link}_{words.replace(' ', '_')}"] = None if value != value else float(value)
    return row


def _announced(device: Device) -> bool:
    """Return whether its numbers are those of an announcement: none of its links is better than low in certainty."""
    key = f"network.{device.profile.tiers[0]}.bandwidth"
    return device.profile.numbers[key].certainty in ("low", "assumed") and device.profile.year >= 2026


def band(rows: Records, column: str, since: int = 0, until: int = 9999) -> tuple[int, int, float]:
    """Return how many pairs are in the paper's band of 2 to 4, of how many, and their median.

    >>> count, of, _ = band(generations(), "scale_up_16_bit")
    >>> 0 < count < of
    True
    """
    values = np.asarray([row[column] for row in rows if row[column] is not None and since <= row["year"] <= until])
    low, high = STATED
    return int(((values >= low) & (values <= high)).sum()), int(values.size), float(np.median(values))


__all__ = ["FORMATS", "LINKS", "STATED", "band", "generations"]
