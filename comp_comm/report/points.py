"""What a point of several is called."""

from __future__ import annotations

from comp_comm.records import Record


def point_name(meta: Record, row: Record) -> str:
    """Return the name of a row of a study: what moves there.

    >>> point_name({"axes": [{"tp": [4, 8]}, {"hardware": ["mi210"]}]}, {"tp": 4, "hardware": "mi210"})
    'tp=4, mi210'
    """
    names = [name for axis in meta.get("axes", ()) for name in axis]
    return ", ".join(str(row[name]) if name == "hardware" else f"{name}={row[name]}" for name in names)
