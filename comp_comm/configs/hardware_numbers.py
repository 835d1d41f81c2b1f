"""What a number of a hardware profile may be, and how it is written."""

from __future__ import annotations

from typing import Any

from comp_comm.units import UNITS, format_quantity, parse_quantity

# Numbers that are words in a file: what each of its words means is its place.
SWITCHES = {"use_tiers": ("ignored", "used"), "ring_limit": ("exact", "limit")}
WHOLE_NUMBERS = ("domain", "axes", "score_head_dim", "reduction_members")
# What a number of a kind may be: far wider than any device, narrow enough that no time overflows.
PLAUSIBLE = {
    "FLOP/s": (1e6, 1e24), "bytes": (1e6, 1e18), "bytes/s": (1e3, 1e21), "seconds": (0.0, 1e3), "share": (1e-6, 1.0),
    "count": (0.0, 1e12), "switch_size": (1.0, 1e12), "chunk_size": (1.0, 1e12),
}  # fmt: skip


def parse_number(raw: Any, name: str, kind: str) -> float | None:
    """Return a number of a profile in SI; None where it is blank."""
    if raw is None:
        return None
    if kind == "switch":
        if raw not in SWITCHES[name]:
            raise ValueError(f"must be one of: {', '.join(SWITCHES[name])}")
        return float(SWITCHES[name].index(raw))
    if kind in ("share", "count"):
        if isinstance(raw, bool) or not isinstance(raw, (int, float)):
            raise ValueError("must be a plain number")
        value = float(raw)
    else:
        value = parse_quantity(raw, kind)
    low, high = PLAUSIBLE[name if name in PLAUSIBLE else kind]
    if kind == "share" and not low <= value <= high:
        raise ValueError(f"is a share: must be above 0 and at most 1, not {raw}")
    if not low <= value <= high:
        ends = [format_quantity(end, kind) if kind in UNITS else f"{end:g}" for end in (low, high)]
        raise ValueError(f"'{raw}' is out of range: from {ends[0]} to {ends[1]}")
    if name in WHOLE_NUMBERS and (value != int(value) or value < 1):
        raise ValueError(f"must be a whole number of at least 1, not {raw}")
    return value
