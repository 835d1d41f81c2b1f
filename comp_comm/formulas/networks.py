"""Terms of collective times on tiered networks: half-pipelined legs, tree levels, what leaves a domain.

Seconds and bytes, float64, broadcastable. How many bytes a device sends is in `comp_comm.formulas.collectives`; here is
how they become time.
"""

from __future__ import annotations

import numpy as np

from comp_comm.formulas.arrays import Array, Numeric, maximum, minimum, sqrt, to_float

# Of a direct exchange: hops of a doubling of its members, and how many of them a device works on at once.
EXCHANGE_HOP, PEERS_AT_ONCE = 1.13, 24.0


def half_pipelined_seconds(start: Numeric, latency: Numeric, transfer: Numeric) -> Array:
    r"""Return the seconds of one leg whose latency and transfer overlap by half.

    .. math:: t = s + L + X + \sqrt{L X}

    Parameters
    ----------
    start : array_like
        s, seconds before anything moves.
    latency : array_like
        L, seconds of the hops of an empty message, not negative.
    transfer : array_like
        X, seconds of the bytes at full speed, not negative.

    Returns
    -------
    ndarray of float64
        Seconds.

    Notes
    -----
    Over h hops, k chunks take h + k steps of L / h + X / k; the best k gives :math:`(\sqrt L + \sqrt X)^2`, a ramp
    of :math:`2 \sqrt{L X}`. Without a ramp it is L + X (alpha-beta). Half of the ramp fits measured collectives best:
    8.1 % mean error from 1 MiB up over 28 systems, against 12.1 % without any.

    References
    ----------
    .. [1] R. W. Hockney, "The communication challenge for MPP", Parallel Computing 20(3), 1994 (L + X).
    .. [2] J. Pjesivac-Grbovic et al., "Performance Analysis of MPI Collective Operations", Cluster Computing 10(2),
       2007 (optimal segments of a pipeline).

    Examples
    --------
    >>> float(half_pipelined_seconds(1.0, 4.0, 9.0))
    20.0
    """
    hops, moving = to_float(latency), to_float(transfer)
    return sqrt(hops * moving) + hops + moving + start


def overlapped_seconds(hops: Numeric, transfer: Numeric) -> Array:
    r"""Return the seconds in which the hops of a ring and the transfer of a large message hide each other.

    .. math:: o = \frac{L X}{L + X}

    Parameters
    ----------
    hops : array_like
        L, seconds of those hops of an empty message that can hide (`hiding_share`).
    transfer : array_like
        X, seconds of the bytes at full speed, more than 0.

    Returns
    -------
    ndarray of float64
        Seconds, less than either; the two together take L + X - o.

    Notes
    -----
    A large message moves in chunks, and while a late one hops the next is sent: a share X / (L + X) of the hops. With
    it, and `hiding_share`, gathers and scatters of 1 MiB and more are 4.9 % off on 2 to 256 nodes of Perlmutter; 7 %
    without.

    Examples
    --------
    >>> overlapped_seconds([2.0, 6.0, 60.0], 3.0).round(2)
    array([1.2 , 2.  , 2.86])
    """
    moving = to_float(transfer)
    return moving / (1 + moving / maximum(to_float(hops), 1e-30))


def hiding_share(domains: Numeric) -> Array:
    r"""Return the share of a ring's hops that a transfer can hide, :math:`(N - 2) / (N - 1)`.

    Parameters
    ----------
    domains : array_like
        N, domains the ring runs over, at least 1.

    Returns
    -------
    ndarray of float64
        Dimensionless: all but the first of the N - 1 hops between domains, for which the transfer waits. 0 in one
        domain, where no hop of large messages was seen to hide, and in two.

    Examples
    --------
    >>> hiding_share([1, 2, 3, 5])
    array([0.  , 0.  , 0.5 , 0.75])
    """
    between = maximum(to_float(domains) - 1, 1.0)
    return (between - 1) / between


def ring_crossings(domains_below: Numeric, domains: Numeric) -> Array:
    r"""Return how many of the n - 1 hops of one turn of a ring cross a tier, :math:`N_{i-1} - N_i`.

    Parameters
    ----------
    domains_below : array_like
        N_{i-1}, domains of the tier below that the ring's devices are spread over; the n devices below the innermost.
    domains : array_like
        N_i, domains of this tier that they are spread over; 1 for the outermost.

    Returns
    -------
    ndarray of float64
        Hops; over all tiers they add up to n - 1.

    References
    ----------
    .. [1] R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations in MPICH", IJHPCA
       19(1), 2005 (n - 1 steps of a ring).

    Examples
    --------
    32 devices, 8 to a node: 28 hops in nodes, 3 between them.

    >>> float(ring_crossings(32, 4)), float(ring_crossings(4, 1))
    (28.0, 3.0)
    """
    return to_float(domains_below) - domains


def tree_levels(domains: Numeric) -> Array:
    r"""Return the levels of a binary tree over N domains, :math:`\log_2 N`.

    Parameters
    ----------
    domains : array_like
        N, domains the tree connects, at least 1.

    Returns
    -------
    ndarray of float64
        Levels that a message climbs, and later descends; not rounded, so that it is continuous.

    References
    ----------
    .. [1] P. Sanders, J. Speck, J. L. Traff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan",
       Parallel Computing 35(12), 2009.

    Examples
    --------
    >>> tree_levels([1, 2, 16])
    array([0., 1., 4.])
    """
    return np.log2(to_float(domains))


def tree_passes(domains: Numeric) -> Array:
    r"""Return how many times a domain sends its message in a double binary tree: 1 of two domains, 2 of more.

    .. math:: p = \min(\max(N - 1, 1), 2)

    Parameters
    ----------
    domains : array_like
        N, domains the tree connects.

    Returns
    -------
    ndarray of float64
        Messages sent up and down together. In each of the two trees, of half a message, a domain sends once up and
        twice down where it is inside, once up where it is a leaf; two domains are root and leaf in turn.

    References
    ----------
    .. [1] P. Sanders, J. Speck, J. L. Traff, Parallel Computing 35(12), 2009.
    .. [2] S. Jeaugey, "Massively Scale Your Deep Learning Training with NCCL 2.4", NVIDIA Developer Blog, 2019.

    Examples
    --------
    >>> tree_passes([2, 3, 64])
    array([1., 2., 2.])
    """
    return minimum(maximum(to_float(domains) - 1, 1.0), 2.0)


def exchange_hops(n: Numeric) -> Array:
    r"""Return how many hops n devices wait that all send to one another, directly.

    .. math:: h = 1.13 \log_2 n + \max(n - 24, 0)

    Parameters
    ----------
    n : array_like
        Devices, at least 1.

    Returns
    -------
    ndarray of float64
        Hops of a small message.

    Notes
    -----
    A device works on many peers at once; those beyond about 24 wait for one to finish. Fitted: the first term on 2, 4
    and 8 GPUs of A100, H100, B200 and GB200, the second on 8 to 72 GPUs of one NVL72 (XLA's table: 11 us of 8 and of
    18, 20 us of 32 and 36, 64 us of 72).

    References
    ----------
    .. [1] J. Bruck et al., "Efficient Algorithms for All-to-All Communications in Multiport Message-Passing Systems",
       IEEE TPDS 8(11), 1997 (log2 n rounds at least).

    Examples
    --------
    >>> exchange_hops([1, 2, 8, 64]).round(2)
    array([ 0.  ,  1.13,  3.39, 46.78])
    """
    members = to_float(n)
    return EXCHANGE_HOP * np.log2(members) + maximum(members - PEERS_AT_ONCE, 0.0)


def leaving_share(n: Numeric, members: Numeric) -> Array:
    r"""Return the share of an all-to-all's message that leaves a domain, :math:`(n - g) / n`.

    Parameters
    ----------
    n : array_like
        Devices of the group.
    members : array_like
        g, those of them in the sender's domain (itself alone: 1).

    Returns
    -------
    ndarray of float64
        Dimensionless; every device sends this share of its message through its own link to the next tier.

    References
    ----------
    .. [1] S. Rajbhandari et al., "DeepSpeed-MoE", arXiv:2201.05596 (all-to-all across nodes).

    Examples
    --------
    16 devices, 8 to a node: half of the message goes to the other node.

    >>> float(leaving_share(16, 8))
    0.5
    """
    return 1 - to_float(members) / n
