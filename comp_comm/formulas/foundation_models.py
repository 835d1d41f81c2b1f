"""What each operation of a layer does in the foundation-models paper: FLOP, bytes of HBM, bytes kept, weights.

Shapes are those of one device, numbers are of 2 bytes, masks of 1. How long that takes is in
`comp_comm.formulas.foundation_models_time`.
"""

from __future__ import annotations

from typing import NamedTuple

from comp_comm.formulas.arrays import Array, Numeric, to_float

NUMBER_BYTES = 2.0
# FLOP the paper counts for one element: forward and backward of GELU, forward of a norm's.
GELU_FORWARD, GELU_BACKWARD = 8.0, 13.0
NORM_FORWARD, NORM_BACKWARD, NORM_SUMS = 9.0, 8.0, 4.0
SOFTMAX_FORWARD, SOFTMAX_BACKWARD = 3.0, 7.0
STATE_COPIES = 6.0  # single-precision weight and Adam's two moments, in units of a 16-bit weight


class Counts(NamedTuple):
    """One operation of a micro-batch on one device: FLOP and HBM bytes by pass, bytes kept for the backward pass,
    weights."""

    forward_flops: Array
    backward_flops: Array
    forward_bytes: Array
    backward_bytes: Array
    kept_bytes: Array
    weights: Array


def _counts(*numbers: Numeric) -> Counts:
    return Counts(*map(to_float, numbers))


def gemm(rows: Numeric, inner: Numeric, columns: Numeric) -> Counts:
    r"""Return the counts of a GEMM of a (T, K) by a (K, N) matrix, the second one weights.

    .. math::
        F_f = T N (2 K - 1), \quad F_b = T K (2 N - 1) + K N (2 T - 1), \quad
        B_f = B_b / 2 = 2 (T K + T N + K N), \quad A = 2 T K

    Parameters
    ----------
    rows, inner, columns : array_like
        T, K and N on this device.

    Returns
    -------
    Counts
        FLOP, bytes, weights.

    References
    ----------
    .. [1] S. Subramanian et al., "Comprehensive Performance Modeling and System Design Insights for Foundation
       Models", arXiv:2410.00273, and the code published with it (2024-10-02): for every function here.

    Examples
    --------
    >>> [float(number) for number in gemm(2, 3, 4)]
    [40.0, 78.0, 52.0, 104.0, 12.0, 12.0]
    """
    t, k, n = to_float(rows), to_float(inner), to_float(columns)
    moved = NUMBER_BYTES * (t * k + t * n + k * n)
    return _counts(
        t * n * (2 * k - 1), t * k * (2 * n - 1) + k * n * (2 * t - 1), moved, 2 * moved, NUMBER_BYTES * t * k, k * n
    )


def summa_gemm(rows: Numeric, inner: Numeric, columns: Numeric, panels: Numeric, grid: tuple[Numeric, Numeric]
               ) -> Counts:  # fmt: skip
    r"""Return the counts of a GEMM by SUMMA: a grid of devices, the inner dimension in panels.

    .. math::
        F_f = 2 T K N, \quad F_b = T K (2 N - 1) + K N (2 T - 1), \quad
        B_f = B_b / 2 = 2 (T K + K N + p T N), \quad A = 2 T K / m_1, \quad W = K N / m_2

    Each of the p panels reads and writes the result again.

    Parameters
    ----------
    rows, inner, columns : array_like
        T and N of this device's part of the result, and the whole inner dimension K.
    panels : array_like
        p.
    grid : tuple of array_like
        m_1 devices share the input's inner dimension, m_2 that of the weights.

    Returns
    -------
    Counts
        FLOP, bytes, weights.

    References
    ----------
    .. [1] arXiv:2410.00273.
    .. [2] R. van de Geijn, J. Watts, "SUMMA: scalable universal matrix multiplication algorithm", 1997.

    Examples
    --------
    >>> [float(number) for number in summa_gemm(2, 4, 3, 2, (2, 1))]
    [48.0, 76.0, 64.0, 128.0, 8.0, 12.0]
    """
    t, k, n = to_float(rows), to_float(inner), to_float(columns)
    moved = NUMBER_BYTES * (t * k + k * n + panels * t * n)
    backward = t * k * (2 * n - 1) + k * n * (2 * t - 1)
    return _counts(2 * t * k * n, backward, moved, 2 * moved, NUMBER_BYTES * t * k / grid[0], k / grid[1] * n)


def bias(rows: Numeric, columns: Numeric) -> Counts:
    """Return the counts of adding a bias of ``columns`` numbers to each row: one FLOP a number, forward and backward.

    >>> [float(number) for number in bias(2, 3)]  # arXiv:2410.00273
    [6.0, 6.0, 18.0, 18.0, 0.0, 3.0]
    """
    t, n = to_float(rows), to_float(columns)
    return _counts(t * n, t * n, NUMBER_BYTES * (t * n + n), NUMBER_BYTES * (t * n + n), 0.0, n)


def gelu(elements: Numeric) -> Counts:
    """Return the counts of GELU: 8 FLOP an element forward, 13 backward; the input is kept.

    >>> [float(number) for number in gelu(1)]  # arXiv:2410.00273
    [8.0, 13.0, 4.0, 6.0, 2.0, 0.0]
    """
    n = to_float(elements)
    return _counts(GELU_FORWARD * n, GELU_BACKWARD * n, 2 * NUMBER_BYTES * n, 3 * NUMBER_BYTES * n, NUMBER_BYTES * n, 0)


def dropout(elements: Numeric) -> Counts:
    """Return the counts of dropout: one FLOP an element; a mask of a byte each is moved and kept.

    >>> [float(number) for number in dropout(1)]  # arXiv:2410.00273
    [1.0, 1.0, 5.0, 5.0, 1.0, 0.0]
    """
    n = to_float(elements)
    moved = (2 * NUMBER_BYTES + 1) * n
    return _counts(n, n, moved, moved, n, 0)


def norm(rows: Numeric, width: Numeric) -> Counts:
    r"""Return the counts of a layer norm over rows of ``width`` numbers.

    .. math:: F_f = 9 T E, \quad F_b = 8 T E + 4 T (E - 1), \quad B_f = 4 (T E + T + E), \quad B_b = 10 T E + 4 E

    Parameters
    ----------
    rows, width : array_like
        T and E.

    Returns
    -------
    Counts
        FLOP, bytes; the input is kept, and there are 2 E weights.

    References
    ----------
    .. [1] arXiv:2410.00273.

    Examples
    --------
    >>> [float(number) for number in norm(2, 3)]
    [54.0, 64.0, 44.0, 72.0, 12.0, 6.0]
    """
    t, e = to_float(rows), to_float(width)
    backward = NORM_BACKWARD * t * e + NORM_SUMS * t * (e - 1)
    return _counts(NORM_FORWARD * t * e, backward, 4 * (t * e + t + e), 10 * t * e + 4 * e, NUMBER_BYTES * t * e, 2 * e)


def flash_attention(heads: Numeric, queries: Numeric, keys: Numeric, head_dim: Numeric, vector_cost: Numeric) -> Counts:
    r"""Return the counts of flash attention, whose backward pass makes the scores again; there is no causal mask.

    .. math::
        P &= H l_q l_k, \quad S = H l_q (l_k - 1) \\
        F_f &= P (2 q - 1) + H l_q q (2 l_k - 1) + \kappa (3 P + S) \\
        F_b &= 2 P (2 q - 1) + H l_q q (2 l_k - 1) + 2 H l_k q (2 l_q - 1) + \kappa (7 P + 2 S) \\
        B_f &= 2 H (2 l_q q + 2 l_k q + l_q), \quad A = 2 (4 H l_q q + 2 H l_q), \quad
        B_b = 4 H q (l_k + l_q) + A

    Parameters
    ----------
    heads : array_like
        H, heads of this device times sequences.
    queries, keys : array_like
        l_q and l_k tokens.
    head_dim : array_like
        q.
    vector_cost : array_like
        kappa, FLOP/s of GEMMs over those of softmax and dropout: their FLOP are counted as GEMM FLOP that take as long.

    Returns
    -------
    Counts
        FLOP, bytes; no weights.

    References
    ----------
    .. [1] arXiv:2410.00273.

    Examples
    --------
    >>> [float(number) for number in flash_attention(1, 2, 2, 2, 1)]
    [38.0, 92.0, 36.0, 72.0, 40.0, 0.0]
    """
    h, queries, keys, q = to_float(heads), to_float(queries), to_float(keys), to_float(head_dim)
    vector_cost = to_float(vector_cost)
    scores, sums = h * queries * keys, h * queries * (keys - 1)
    values = h * queries * q * (2 * keys - 1)
    kept = NUMBER_BYTES * (4 * h * queries * q + 2 * h * queries)
    return _counts(
        scores * (2 * q - 1) + values + vector_cost * (SOFTMAX_FORWARD * scores + sums),
        2 * scores * (2 * q - 1) + values + 2 * h * keys * q * (2 * queries - 1)
        + vector_cost * (SOFTMAX_BACKWARD * scores + 2 * sums),
        NUMBER_BYTES * h * (2 * queries * q + 2 * keys * q + queries),
        2 * NUMBER_BYTES * h * q * (keys + queries) + kept,
        kept,
        0,
    )  # fmt: skip


def memory_bytes(weights: Numeric, kept: Numeric, layers: Numeric, replicas: Numeric, in_flight: Numeric
                 ) -> tuple[Array, Array, Array, Array]:  # fmt: skip
    r"""Return the bytes of a device: weights, their gradients, optimizer states, activations.

    .. math:: W = 2 w L, \quad G = W, \quad O = 6 W / d, \quad A = a L m

    Parameters
    ----------
    weights, kept : array_like
        w parameters and a bytes kept of a layer and micro-batch.
    layers : array_like
        L of a stage.
    replicas : array_like
        d devices that share the optimizer states.
    in_flight : array_like
        m micro-batches whose activations are held: of p stages, the first holds p of them.

    Returns
    -------
    tuple of ndarray of float64
        Bytes.

    References
    ----------
    .. [1] arXiv:2410.00273.

    Examples
    --------
    >>> [float(part) for part in memory_bytes(10, 7, 2, 4, 3)]
    [40.0, 40.0, 60.0, 42.0]
    """
    layers = to_float(layers)
    held = NUMBER_BYTES * to_float(weights) * layers
    return held, held, STATE_COPIES * held / replicas, to_float(kept) * layers * to_float(in_flight)
