"""Several sets of a device's numbers as one, with an axis of their own: what is predicted from it is of each set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import TypeVar

import numpy as np

from comp_comm.hardware.numbers import FlashKernel, Hardware, Tier, Timing

Part = TypeVar("Part", Tier, Timing, FlashKernel)


def stacked(hardwares: Sequence[Hardware], axes: int = 1) -> Hardware:
    """Return hardware whose numbers have those of each of ``hardwares`` along a first axis, where they differ.

    They may differ in timing, tiers and attention kernels. ``axes`` of length 1 follow the first one, which is as many
    as arrays have that the numbers meet.

    >>> import numpy as np
    >>> one, other = (Hardware(1, 1, 1, (Tier(8, bandwidth, 1e-6, 1.0),), Timing()) for bandwidth in (450e9, 900e9))
    >>> both = stacked([one, other])
    >>> both.tiers[0].bandwidth.tolist(), both.tiers[0].latency
    ([[450000000000.0], [900000000000.0]], 1e-06)
    """
    made: dict[tuple[int, ...], FlashKernel] = {}

    def kernel(parts: Sequence[FlashKernel]) -> FlashKernel:
        """Return the stack of one kernel, the same where it is the same one: then there is nothing to choose."""
        return made.setdefault(tuple(id(part) for part in parts), _stacked(parts, axes))

    return replace(
        hardwares[0],
        tiers=tuple(_stacked(parts, axes) for parts in zip(*(each.tiers for each in hardwares), strict=True)),
        timing=_stacked([each.timing for each in hardwares], axes),
        attention=tuple(map(kernel, zip(*(each.attention for each in hardwares), strict=True))),
        fp8_attention=tuple(map(kernel, zip(*(each.fp8_attention for each in hardwares), strict=True))),
    )


def _stacked(parts: Sequence[Part], axes: int) -> Part:
    first = parts[0]
    if all(part is first for part in parts):
        return first
    numbers = {}
    for item in fields(first):
        value = getattr(first, item.name)
        values = [getattr(part, item.name) for part in parts]
        if any(other is not value and other != value for other in values):
            numbers[item.name] = np.array(values, np.float64).reshape(-1, *(1,) * axes)
    return replace(first, **numbers)  # type: ignore[arg-type]
