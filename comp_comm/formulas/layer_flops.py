"""FLOP of one transformer layer under tensor parallelism: the paper's Eqs 1-4 and 7 with their constants kept.

The paper ([1]_ below is S. Pati et al., arXiv:2302.02825) counts one of the two FC GEMMs, one of the two attention
GEMMs and three of the four linear ones. So each formula takes *how many GEMMs of a kind are counted*: 2, 2, 4 is
the complete layer (the default here), 1, 1, 3 the paper's own count.

Symbols: H hidden, SL sequence length, B micro-batch, T = SL B tokens, TP tensor-parallel degree, p bytes of an
element. Everything is per device, and the FC dimension is 4 H.
"""

from __future__ import annotations

from comp_comm.formulas.arrays import Array, Numeric, to_float


def tokens(seq_len: Numeric, micro_batch: Numeric) -> Array:
    r"""Return the tokens of a micro-batch, :math:`T = SL \cdot B`.

    Parameters
    ----------
    seq_len, micro_batch : array_like
        Sequence length (tokens) and sequences in a micro-batch, broadcastable.

    Returns
    -------
    ndarray of float64
        Tokens.

    References
    ----------
    .. [1] arXiv:2302.02825, Table 1.

    Examples
    --------
    >>> float(tokens(4096, 4))
    16384.0
    """
    return to_float(seq_len) * to_float(micro_batch)


def fc_forward_flops(hidden: Numeric, seq_len: Numeric, micro_batch: Numeric, tp: Numeric, gemms: Numeric = 2) -> Array:
    r"""Return the forward FLOP of the fully connected sub-layer (Eq 1 times ``gemms``).

    .. math:: F = g \cdot 2 \cdot 4 H \cdot \frac{H}{TP} \cdot SL \cdot B

    Parameters
    ----------
    hidden, seq_len, micro_batch, tp : array_like
        H, SL, B, TP, dimensionless, broadcastable.
    gemms : array_like
        How many of the two FC GEMMs are counted (2 complete, 1 in the paper's Eq 1).

    Returns
    -------
    ndarray of float64
        FLOP per device.

    References
    ----------
    .. [1] arXiv:2302.02825, Eq 1.

    Examples
    --------
    Eq 1 as printed, for H = 1024, SL = 512, B = 1 on one device:

    >>> float(fc_forward_flops(1024, 512, 1, 1, gemms=1))
    4294967296.0
    """
    hidden = to_float(hidden)
    return 8 * to_float(gemms) * hidden * hidden / to_float(tp) * tokens(seq_len, micro_batch)


def attention_forward_flops(
    hidden: Numeric, seq_len: Numeric, micro_batch: Numeric, tp: Numeric, gemms: Numeric = 2
) -> Array:
    r"""Return the forward FLOP of the attention GEMMs, QK^T and PV (Eq 2 times ``gemms``).

    .. math:: F = g \cdot 2 \cdot \frac{H}{TP} \cdot SL \cdot SL \cdot B

    Parameters
    ----------
    hidden, seq_len, micro_batch, tp : array_like
        H, SL, B, TP, dimensionless, broadcastable.
    gemms : array_like
        How many of the two attention GEMMs are counted (2 complete, 1 in the paper's Eq 2).

    Returns
    -------
    ndarray of float64
        FLOP per device, full (not causal) attention.

    References
    ----------
    .. [1] arXiv:2302.02825, Eq 2.

    Examples
    --------
    >>> float(attention_forward_flops(1024, 512, 1, 1, gemms=1))
    536870912.0
    """
    return 2 * to_float(gemms) * to_float(hidden) * to_float(seq_len) / to_float(tp) * tokens(seq_len, micro_batch)


def linear_forward_flops(
    hidden: Numeric, seq_len: Numeric, micro_batch: Numeric, tp: Numeric, gemms: Numeric = 4
) -> Array:
    r"""Return the forward FLOP of the linear projections, Q, K, V and output (Eq 3 with 3 replaced by ``gemms``).

    .. math:: F = g \cdot 2 \cdot \frac{H}{TP} \cdot H \cdot SL \cdot B

    Parameters
    ----------
    hidden, seq_len, micro_batch, tp : array_like
        H, SL, B, TP, dimensionless, broadcastable.
    gemms : array_like
        How many of the four projections are counted (4 complete, 3 in the paper's Eq 3).

    Returns
    -------
    ndarray of float64
        FLOP per device.

    References
    ----------
    .. [1] arXiv:2302.02825, Eq 3.

    Examples
    --------
    >>> float(linear_forward_flops(1024, 512, 1, 1, gemms=3))
    3221225472.0
    """
    hidden = to_float(hidden)
    return 2 * to_float(gemms) * hidden * hidden / to_float(tp) * tokens(seq_len, micro_batch)


def flops_per_activation(
    hidden: Numeric,
    seq_len: Numeric,
    fc_gemms: Numeric = 2,
    attention_gemms: Numeric = 2,
    linear_gemms: Numeric = 4,
) -> Array:
    r"""Return the forward FLOP of a layer per element of its activation (H x T elements), before TP divides it.

    .. math:: (8 g_{fc} + 2 g_{lin}) H + 2 g_{att} SL

    Parameters
    ----------
    hidden, seq_len : array_like
        H and SL, dimensionless, broadcastable.
    fc_gemms, attention_gemms, linear_gemms : array_like
        GEMMs counted of each kind (2, 2, 4 complete; 1, 1, 3 as in the paper).

    Returns
    -------
    ndarray of float64
        FLOP per element: 4 (6 H + SL) complete, 14 H + 2 SL in the paper's count.

    References
    ----------
    .. [1] arXiv:2302.02825, Eqs 1-4.

    Examples
    --------
    >>> float(flops_per_activation(1024, 512)) == 4 * (6 * 1024 + 512)
    True
    """
    weights = (8 * to_float(fc_gemms) + 2 * to_float(linear_gemms)) * to_float(hidden)
    return weights + 2 * to_float(attention_gemms) * to_float(seq_len)


def layer_forward_flops(
    hidden: Numeric,
    seq_len: Numeric,
    micro_batch: Numeric,
    tp: Numeric,
    fc_gemms: Numeric = 2,
    attention_gemms: Numeric = 2,
    linear_gemms: Numeric = 4,
) -> Array:
    r"""Return the forward FLOP of one layer (Eq 4 with its constants: the sum of Eqs 1-3).

    .. math:: F = \frac{H\,SL\,B}{TP} \left( (8 g_{fc} + 2 g_{lin}) H + 2 g_{att} SL \right)

    which is 4 H T (6 H + SL) / TP in the complete count and (14 H^2 + 2 H SL) T / TP in the paper's.

    Parameters
    ----------
    hidden, seq_len, micro_batch, tp : array_like
        H, SL, B, TP, dimensionless, broadcastable.
    fc_gemms, attention_gemms, linear_gemms : array_like
        GEMMs counted of each kind (2, 2, 4 complete; 1, 1, 3 as in the paper).

    Returns
    -------
    ndarray of float64
        FLOP per device.

    References
    ----------
    .. [1] arXiv:2302.02825, Eqs 1-4.

    Examples
    --------
    >>> float(layer_forward_flops(1024, 512, 1, 1)) == 4 * 1024 * 512 * (6 * 1024 + 512)
    True
    """
    per_element = flops_per_activation(hidden, seq_len, fc_gemms, attention_gemms, linear_gemms)
    return per_element * to_float(hidden) / to_float(tp) * tokens(seq_len, micro_batch)


def training_flops(forward_flops: Numeric, recomputed: Numeric = 0) -> Array:
    r"""Return forward and backward FLOP, :math:`(3 + r) F`.

    The backward pass computes two GEMMs (input gradient and weight gradient) for each forward one.

    Parameters
    ----------
    forward_flops : array_like
        F, FLOP of the forward pass.
    recomputed : array_like
        r, share of the forward pass computed again in the backward pass (1: full recomputation).

    Returns
    -------
    ndarray of float64
        FLOP.

    References
    ----------
    .. [1] arXiv:2302.02825, section 3.4 (Eq 7 is twice one forward GEMM).
    .. [2] D. Narayanan et al., arXiv:2104.04473, appendix (the 3x, and 4x with recomputation).

    Examples
    --------
    >>> float(training_flops(10.0)), float(training_flops(10.0, recomputed=1))
    (30.0, 40.0)
    """
    return (3 + to_float(recomputed)) * to_float(forward_flops)


def fc_backward_flops(
    hidden: Numeric, seq_len: Numeric, micro_batch: Numeric, tp: Numeric, gemms: Numeric = 1
) -> Array:
    r"""Return the backward FLOP of ``gemms`` FC GEMMs: weight gradient and input gradient (Eq 7).

    .. math:: F = g \cdot 4 \cdot 4 H \cdot \frac{H}{TP} \cdot SL \cdot B

    Parameters
    ----------
    hidden, seq_len, micro_batch, tp : array_like
        H, SL, B, TP, dimensionless, broadcastable.
    gemms : array_like
        FC GEMMs counted: 1 as in Eq 7.

    Returns
    -------
    ndarray of float64
        FLOP per device.

    References
    ----------
    .. [1] arXiv:2302.02825, Eq 7.

    Examples
    --------
    >>> float(fc_backward_flops(1024, 512, 1, 1))
    8589934592.0
    """
    return 2 * fc_forward_flops(hidden, seq_len, micro_batch, tp, gemms)
