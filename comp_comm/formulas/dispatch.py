"""Tokens on their way to experts: how many copies are sent where, and how uneven the load is.

A token goes to ``k`` experts. A plain all-to-all sends it ``k`` times; a library that knows the network (DeepEP,
HybridEP) sends it once to each node that has any of them, and passes copies on inside.
"""

from __future__ import annotations

import numpy as np

from comp_comm.formulas.arrays import Array, Numeric, maximum, minimum, sqrt, to_float, where


def distinct_places(places: Numeric, copies: Numeric) -> Array:
    r"""Return how many of ``places`` get at least one of ``copies`` that fall on them at random.

    .. math:: D = n \left( 1 - (1 - 1/n)^k \right)

    Parameters
    ----------
    places : array_like
        n, nodes or devices that experts are on, each with as many of them.
    copies : array_like
        k, experts of a token.

    Returns
    -------
    ndarray of float64
        Places; at most the smaller of both numbers.

    Notes
    -----
    Each copy falls on any place, whatever the others do. Experts of a token are k different ones, so that it is
    a little more where a place has few of them: 2 % with 8 of 128 experts on 16 devices.

    References
    ----------
    .. [1] W. Feller, An Introduction to Probability Theory and Its Applications I, section IV.2 (occupancy).

    Examples
    --------
    >>> [round(float(distinct_places(n, 8)), 3) for n in (1, 2, 8)]
    [1.0, 1.992, 5.251]
    """
    n = maximum(to_float(places), 1.0)
    return n * (1 - (1 - 1 / n) ** to_float(copies))


def remote_copies(places: Numeric, copies: Numeric, limit: Numeric = np.inf) -> Array:
    r"""Return how often a token is sent to other places, once to each of those that it needs.

    .. math:: C = \frac{n - 1}{n}\, m \left( 1 - (1 - 1/m)^k \right), \quad m = \min(n, M)

    Without a limit that is :math:`(n - 1) (1 - (1 - 1/n)^k)`, instead of the :math:`k (n - 1) / n` of an all-to-all.

    Parameters
    ----------
    places : array_like
        n, nodes that experts are on.
    copies : array_like
        k, experts of a token.
    limit : array_like
        M, nodes that the experts of a token are chosen from: 4 in DeepSeek-V3. The sender's own is among them as
        often as any other.

    Returns
    -------
    ndarray of float64
        Copies that leave the sender's node, of one token.

    References
    ----------
    .. [1] DeepSeek-V3, arXiv:2412.19437, section 2.1.2 (node-limited routing) and 3.2.2.

    Examples
    --------
    >>> round(float(remote_copies(8, 8)), 3), round(float(remote_copies(8, 8, 4)), 3)
    (4.595, 3.15)
    """
    n = maximum(to_float(places), 1.0)
    return to_float(distinct_places(minimum(n, limit), copies) * (n - 1) / n)


def group_limit(places: Numeric, groups: Numeric, chosen: Numeric) -> Array:
    r"""Return the places that the experts of a token are on at most, where they are chosen from some groups of experts.

    .. math:: M = \begin{cases} m n / G & G \mid n \\ \min(m, n) & n \mid G \\ \infty & \text{else} \end{cases}

    Experts are on places in their order, so that a group is on n / G places, or G / n groups are on one.

    Parameters
    ----------
    places : array_like
        n, nodes that experts are on.
    groups : array_like
        G, groups of experts, one after the other.
    chosen : array_like
        m, groups that the experts of a token are chosen from.

    Returns
    -------
    ndarray of float64
        Places; infinite where all groups are chosen from, and where groups begin or end within a node.

    References
    ----------
    .. [1] DeepSeek-V2, arXiv:2405.04434, section 2.2.2 (device-limited routing); DeepSeek-V3, arXiv:2412.19437,
       section 2.1.2 (node-limited routing), ``n_group`` 8 and ``topk_group`` 4 of its config.json.

    Examples
    --------
    >>> [float(group_limit(n, 8, 4)) for n in (2, 4, 8, 16, 12)]
    [2.0, 4.0, 4.0, 8.0, inf]
    """
    n, total, most = np.maximum(to_float(places), 1.0), to_float(groups), to_float(chosen)
    within = np.where(total % n == 0, np.minimum(most, n), np.inf)
    limit = np.where(n % total == 0, most * n / total, within)
    return to_float(np.where(most < total, limit, np.inf))


def dispatch_seconds(inside_s: Numeric, across_s: Numeric, start_s: Numeric) -> Array:
    r"""Return the seconds of an exchange whose two tiers work on one chunk after the other, side by side.

    .. math:: t = s + \left( t_{in}^3 + t_{out}^3 \right)^{1/3}

    The slower tier sets the pace; where both take as long, chunks wait for one another, which costs a quarter.

    Parameters
    ----------
    inside_s : array_like
        Seconds of the copies that kernels pass on inside a node.
    across_s : array_like
        Seconds of those between nodes.
    start_s : array_like
        Seconds of the smallest exchange.

    Returns
    -------
    ndarray of float64
        Seconds.

    Notes
    -----
    The exponent is ours. With it one share of each tier's bandwidth gives DeepEP's published seconds on 8 to 64 H800
    within 9 %; with the larger of both times 16 devices are 11 % too fast, with their sum 30 % too slow.

    References
    ----------
    .. [1] deepseek-ai/DeepEP, docs/legacy.md (normal kernels, 4096 tokens of 7168 numbers, top 8).

    Examples
    --------
    >>> round(float(dispatch_seconds(3.0, 0.0, 1.0)), 6), round(float(dispatch_seconds(1.0, 1.0, 0.0)), 3)
    (4.0, 1.26)
    """
    return to_float(start_s) + np.cbrt(to_float(inside_s) ** 3 + to_float(across_s) ** 3)


def expected_imbalance(load: Numeric, places: Numeric) -> Array:
    r"""Return the load of the fullest place over the mean, where tokens fall on places at random.

    .. math:: \frac{E[\max]}{\mu} \approx 1 + \frac{z}{\sqrt{\mu}}, \quad z = \Phi^{-1}(0.5264^{1/n})

    Parameters
    ----------
    load : array_like
        mu, tokens of a place in the mean.
    places : array_like
        n, places.

    Returns
    -------
    ndarray of float64
        At least 1.

    Notes
    -----
    Loads are multinomial: like independent normal numbers of variance mu, less their mean, whose largest is z standard
    deviations above it. The quantile is by Tukey's lambda.

    References
    ----------
    .. [1] C.-C. Chen, C. W. Tyler, "Accurate approximation to the extreme order statistics of Gaussian samples",
       Communications in Statistics: Simulation and Computation 28(1), 1999.
    .. [2] J. W. Tukey, Annals of Mathematical Statistics 33(1), 1962 (the lambda distribution).

    Examples
    --------
    >>> round(float(expected_imbalance(1024, 16)), 4), float(expected_imbalance(1024, 1))
    (1.0551, 1.0)
    """
    n, mean = maximum(to_float(places), 1.0), maximum(to_float(load), 1.0)
    below = 0.5264 ** (1 / n)
    z = (below**0.1349 - (1 - below) ** 0.1349) / 0.1975
    return to_float(1 + where(n > 1, maximum(z, 0.0) * sqrt(1 / mean), 0.0))
