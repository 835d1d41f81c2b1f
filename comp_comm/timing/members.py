"""Of a group's devices those in one domain of a network tier, and the bandwidth that they reach there."""

from __future__ import annotations

import numpy as np

from comp_comm.formulas.arrays import Array, Numeric, maximum, minimum, somewhere, to_float, where
from comp_comm.formulas.torus import torus_axes
from comp_comm.group import Group
from comp_comm.hardware.numbers import Tier


def members_in(tier: Tier, group: Group) -> Array:
    """Return how many devices of ``group`` share one domain of ``tier``.

    >>> float(members_in(Tier(8, 1e9, 0, 1), Group(32, stride=4)))
    2.0
    >>> float(members_in(Tier(8, 1e9, 0, 1), Group(8, parts=((2, 1), (4, 16)))))  # pairs of neighbours, 16 apart
    2.0
    """
    members = to_float(1.0)
    for size, stride in group.progressions:
        members = members * minimum(size, maximum(1, np.floor(to_float(tier.domain) / stride)))
    return members


def closes_to_rings(tier: Tier) -> bool:
    """Return whether the tier is a torus of which it is known from where on its axes are rings."""
    return somewhere(to_float(tier.side) < np.inf)


def filled_axes(tier: Tier, group: Group) -> Array:
    """Return along how many axes of ``tier`` at once ``group`` runs its rings: one, where nothing is known of a torus.

    >>> pod = Tier(4096, 270e9, 0, 1, axes=3, side=4)
    >>> [float(filled_axes(pod, group)) for group in (Group(8), Group(256), Group(4, stride=4), Group(1024, stride=16))]
    [1.0, 3.0, 1.0, 1.0]
    """
    filled = to_float(0.0)
    for size, stride in group.progressions:
        inside = members_in(tier, Group(size, stride))
        filled = filled + torus_axes(inside, stride, tier.side, tier.axes)
    return maximum(minimum(filled, tier.axes), 1.0)


def tier_bandwidth(tier: Tier, members: Numeric) -> Array:
    r"""Return what ``members`` neighbours of a tier's domain reach per device, bytes/s.

    .. math:: B = e\, B_{tier} \cdot \frac{1}{axes} \cdot \frac{n - 1}{g - 1} \;\text{(mesh only)}

    Parameters
    ----------
    tier : Tier
        Bandwidth per device and direction, efficiency e, domain g, mesh, axes of a torus (of which this is one).
    members : array_like
        n, devices of the group inside the domain.

    Returns
    -------
    ndarray of float64
        Bytes per second and device; NaN where the profile leaves the bandwidth blank.

    Notes
    -----
    A mesh needs its links to every device for the full bandwidth; MI210: 3 links of 50 GB/s.

    Examples
    --------
    >>> float(tier_bandwidth(Tier(4, 150e9, 0, 1.0, mesh=1.0), 2)) / 1e9
    50.0
    """
    meshed = (to_float(tier.mesh) > 0) & (to_float(tier.domain) != np.inf)
    others = where(meshed, maximum(to_float(tier.domain) - 1, 1), 1.0)
    share = where(meshed, minimum((to_float(members) - 1) / others, 1), 1.0)
    return to_float(tier.bandwidth) * tier.efficiency / tier.axes * share
