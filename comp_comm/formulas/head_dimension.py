"""How much longer a FLOP of fused attention takes for the dimension of its heads."""

from __future__ import annotations

from comp_comm.formulas.arrays import Array, Numeric, sqrt, to_float, where


def slowdown_by_power(width: Numeric, below: Numeric, above: Numeric) -> Array:
    r"""Return how many times longer a FLOP takes than at the head dimension that a rate is of.

    .. math:: f = w^{-a} \;(w < 1), \qquad f = w^{-b} \;(w \ge 1)

    Parameters
    ----------
    width : array_like
        w, the head dimension over that of the rate.
    below, above : array_like
        a and b, powers that the rate grows with.

    Returns
    -------
    ndarray of float64
        A factor, 1 at a width of 1.

    References
    ----------
    .. [1] T. Dao, "FlashAttention-2", arXiv:2307.08691 (rates by head dimension); the power is a description of them.

    Examples
    --------
    >>> slowdown_by_power([0.5, 1.0, 4.0], 1.0, 0.5)
    array([2. , 1. , 0.5])
    """
    wide = to_float(width)
    return where(wide < 1, wide ** -to_float(below), wide ** -to_float(above))


def slowdown_by_softmax(head_dim: Numeric, softmax_dim: Numeric, stated_at: Numeric) -> Array:
    r"""Return how many times longer a FLOP takes than at the head dimension that a rate is stated at.

    .. math:: f = \frac{\sqrt{d^2 + d_s^2}}{d} \cdot \frac{d_r}{\sqrt{d_r^2 + d_s^2}}

    A score is 4 d FLOP of products and one exponential, and units of their own do either: at the head dimension d_s
    they take the same time, below it exponentials prevail; two that are equal take 1.4 of each. An SM of an H100 does
    4096 FLOP of bf16 products and 16 exponentials a cycle, one of a B200 8192 and 16, one of a B300 8192 and 32: with
    nothing lost d_s is 64, 128 and 64.

    Parameters
    ----------
    head_dim : array_like
        d, mean dimension of a key and a value.
    softmax_dim : array_like
        d_s, above 0.
    stated_at : array_like
        d_r, the head dimension that the rate is of.

    Returns
    -------
    ndarray of float64
        A factor, 1 at ``stated_at``.

    References
    ----------
    .. [1] J. Shah et al., "FlashAttention-3", arXiv:2407.08608 (the exponential's throughput beside that of products).

    Examples
    --------
    >>> slowdown_by_softmax([64, 128, 1e9], 128, 128).round(3)
    array([1.581, 1.   , 0.707])
    """
    dim, softmax, stated = to_float(head_dim), to_float(softmax_dim), to_float(stated_at)
    slower = sqrt(dim * dim + softmax * softmax) / dim
    return slower * (stated / sqrt(stated * stated + softmax * softmax))
