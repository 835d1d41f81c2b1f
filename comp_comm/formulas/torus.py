"""Collectives on a torus: the axes that a group fills, their hops, and what crosses the middle of one.

Dimensionless, float64, broadcastable. A torus of several axes runs a ring along each of those that a group fills, all
at once: a gather over three axes has three times the bandwidth of one.
"""

from __future__ import annotations

import numpy as np

from comp_comm.formulas.arrays import Array, Numeric, maximum, minimum, to_float, where

# Floating-point logarithms of whole powers miss them by less than this.
_NEARLY = 1e-9


def torus_axes(members: Numeric, stride: Numeric, side: Numeric, axes: Numeric) -> Array:
    r"""Return the axes of a torus that a group fills from end to end.

    .. math:: a = \min(\lfloor \log_l (n s) \rfloor, D) - \min(\lceil \log_l s \rceil, D)

    Parameters
    ----------
    members : array_like
        n, devices of the group on the torus, at least 1.
    stride : array_like
        s, every how-many-th device is one of them, at least 1.
    side : array_like
        l, devices along an axis from which on it closes to a ring, at least 2; infinity: that is not known.
    axes : array_like
        D, axes of the torus.

    Returns
    -------
    ndarray of float64
        Whole, from 0 to D.

    Notes
    -----
    Slices are taken to be as near to cubes as they can be: sixteen neighbours lie on 4 x 4 chips where axes close at 4.

    References
    ----------
    .. [1] J. Austin et al., "How to Scale Your Model", Google DeepMind, 2025: TPUs ("training chips" close an axis of
       a multiple of 4 chips, "inference chips" one of 16), Sharding (collectives over several axes).

    Examples
    --------
    >>> torus_axes([4, 16, 32, 64, 256], 1, 4, 3)
    array([1., 2., 2., 3., 3.])
    >>> float(torus_axes(256, 16, 4, 3)), float(torus_axes(128, 1, 16, 2)), float(torus_axes(64, 1, np.inf, 3))
    (1.0, 1.0, 0.0)
    """
    log_side = np.log(to_float(side))
    apart, most = to_float(stride), to_float(axes)
    last = np.floor(np.log(to_float(members) * apart) / log_side + _NEARLY)
    first = np.ceil(np.log(apart) / log_side - _NEARLY)
    return maximum(minimum(last, most) - minimum(first, most), 0.0)


def torus_hops(members: Numeric, axes: Numeric) -> Array:
    r"""Return the hops of one turn of the rings along all axes that a group fills, both ways at once.

    .. math:: h = \frac{a}{2} n^{1 / a}

    Parameters
    ----------
    members : array_like
        n, devices of the group.
    axes : array_like
        a, axes it fills, at least 1.

    Returns
    -------
    ndarray of float64
        Hops; along an axis of n devices half of them, since each half of a message goes one way.

    References
    ----------
    .. [1] J. Austin et al., "How to Scale Your Model", Google DeepMind, 2025: Sharding, AllGather over several axes.

    Examples
    --------
    >>> torus_hops([16, 64], [1, 3])
    array([8., 6.])
    """
    return to_float(axes) * np.power(to_float(members), 1 / to_float(axes)) / 2


def torus_exchange_share(members: Numeric, axes: Numeric, side: Numeric) -> Array:
    r"""Return what an all-to-all sends over one axis of a torus, as a share of a device's message.

    .. math:: \max \left( \frac{n - 1}{n}, \frac{n^{1 / D}}{4} \right)

    Parameters
    ----------
    members : array_like
        n, devices of the group, which lie as near to a cube as they can.
    axes : array_like
        D, axes of the torus.
    side : array_like
        l, devices along an axis from which on it closes to a ring; where it does not, the 4 is a 2.

    Returns
    -------
    ndarray of float64
        Dimensionless, of the bandwidth of one axis in both directions.

    Notes
    -----
    Half of what n / 2 devices hold crosses the middle of an axis, over 2 n / :math:`n^{1 / D}` links where the axis is
    a ring, half as many where it is not.

    References
    ----------
    .. [1] W. J. Dally, "Performance Analysis of k-ary n-cube Interconnection Networks", IEEE Transactions on Computers
       39(6), 1990.
    .. [2] J. Austin et al., "How to Scale Your Model", Google DeepMind, 2025: Sharding (an AllToAll on a ring takes a
       quarter of an AllGather of the whole array).

    Examples
    --------
    >>> torus_exchange_share([4, 64, 4096], 3, 4), float(torus_exchange_share(64, 2, 16))
    (array([0.79370053, 1.        , 4.        ]), 4.0)
    """
    number, dimensions = to_float(members), to_float(axes)
    long = np.power(number, 1 / dimensions)
    closes = number >= np.power(to_float(side), dimensions) * (1 - _NEARLY)
    return maximum(1 - 1 / number, where(closes, long / 4, long / 2))
