"""Seconds of communication, and what of them compute hides."""

from __future__ import annotations

from typing import NamedTuple

from comp_comm.formulas.arrays import ZERO, Array, Mask, Numeric, add_up, everywhere, where


class CommSeconds(NamedTuple):
    """Seconds of a group's communication, disjoint.

    ``serialized`` cannot overlap by dependency, ``hidden`` ran under compute, ``exposed`` could overlap but did not
    fit.
    """

    serialized: Array
    hidden: Array
    exposed: Array

    @property
    def visible(self) -> Array:
        """Seconds on the critical path."""
        return add_up((self.serialized, self.exposed))

    def times(self, count: Numeric) -> CommSeconds:
        """Return the seconds of so many."""
        return CommSeconds(*(part if part is ZERO else count * part for part in self))

    def plus(self, other: CommSeconds) -> CommSeconds:
        """Return the seconds of both."""
        return CommSeconds(add_up((self.serialized, other.serialized)), add_up((self.hidden, other.hidden)),
                           add_up((self.exposed, other.exposed)))  # fmt: skip


NO_COMM = CommSeconds(ZERO, ZERO, ZERO)


def overlapped(total: Array, hidden: Array, overlaps: Mask) -> CommSeconds:
    """Return what is spent where ``overlaps`` says that it may run beside compute, and ``hidden`` of it does.

    >>> from comp_comm.formulas.arrays import to_float
    >>> float(overlapped(to_float(3.0), to_float(2.0), to_float(1.0) > 0).exposed)
    1.0
    """
    if everywhere(overlaps):
        return CommSeconds(ZERO, hidden, total - hidden)
    under = where(overlaps, hidden, 0.0)
    return CommSeconds(where(overlaps, 0.0, total), under, where(overlaps, total - under, 0.0))


def visible(spent: dict[str, CommSeconds]) -> Array:
    """Return the seconds of communication on the critical path, over all groups."""
    return add_up(item.visible for item in spent.values())
