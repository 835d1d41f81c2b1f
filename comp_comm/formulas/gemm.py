"""Matrix multiplication (GEMM): operations and bytes."""

from __future__ import annotations

from comp_comm.formulas.arrays import Array, Numeric, to_float


def gemm_flops(m: Numeric, n: Numeric, k: Numeric, batch: Numeric = 1) -> Array:
    r"""Return the FLOP of ``batch`` products of an m x k by a k x n matrix.

    .. math:: F = 2\, b\, m\, n\, k

    A multiply-add is 2 FLOP.

    Parameters
    ----------
    m, n, k, batch : array_like
        Dimensions of the product and how many of them, dimensionless, broadcastable.

    Returns
    -------
    ndarray of float64
        FLOP.

    References
    ----------
    .. [1] S. Pati et al., "Computation vs. Communication Scaling for Future Transformers on Future
       Hardware", arXiv:2302.02825, section 3.3.

    Examples
    --------
    >>> float(gemm_flops(8192, 4096, 4096))
    274877906944.0
    """
    return 2 * to_float(batch) * to_float(m) * to_float(n) * to_float(k)


def gemm_bytes(m: Numeric, n: Numeric, k: Numeric, batch: Numeric = 1, element_bytes: Numeric = 2) -> Array:
    r"""Return the least bytes ``batch`` products move: both operands read once, the result written once.

    .. math:: V = b\, p\, (m k + k n + m n)

    Parameters
    ----------
    m, n, k, batch : array_like
        Dimensions of the product and how many of them, dimensionless, broadcastable.
    element_bytes : array_like
        Bytes of one element, p.

    Returns
    -------
    ndarray of float64
        Bytes.

    Notes
    -----
    A lower bound: a GEMM larger than the caches reads operands more than once.

    References
    ----------
    .. [1] S. Williams, A. Waterman, D. Patterson, "Roofline", CACM 52(4), 2009 (compulsory traffic).

    Examples
    --------
    >>> float(gemm_bytes(2, 3, 4))
    52.0
    """
    m, n, k = to_float(m), to_float(n), to_float(k)
    return to_float(batch) * to_float(element_bytes) * (m * k + k * n + m * n)


def arithmetic_intensity(m: Numeric, n: Numeric, k: Numeric, element_bytes: Numeric = 2) -> Array:
    r"""Return FLOP per byte of one m x k by k x n product (see `gemm_flops`, `gemm_bytes`).

    .. math:: I = \frac{2 m n k}{p (m k + k n + m n)}

    Parameters
    ----------
    m, n, k : array_like
        Dimensions, dimensionless, broadcastable.
    element_bytes : array_like
        Bytes of one element, p.

    Returns
    -------
    ndarray of float64
        FLOP per byte; a cube of side s at 2 bytes has s / 3.

    References
    ----------
    .. [1] S. Williams, A. Waterman, D. Patterson, "Roofline", CACM 52(4), 2009.

    Examples
    --------
    >>> float(arithmetic_intensity(3072, 3072, 3072))
    1024.0
    """
    return gemm_flops(m, n, k) / gemm_bytes(m, n, k, element_bytes=element_bytes)
