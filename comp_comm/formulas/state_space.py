"""FLOP of mixers that carry a state along the sequence: state-space duality, the delta rule, a selective scan."""

from __future__ import annotations

from comp_comm.formulas.arrays import Array, Numeric, to_float


def ssd_flops(
    tokens: Numeric, heads: Numeric, head_dim: Numeric, groups: Numeric, state: Numeric, chunk: Numeric
) -> Array:
    r"""Return the FLOP of a state-space mixer in chunks, forward.

    .. math:: F = 2 T \left( Q N g + Q p n_h + 2 N p n_h \right)

    In a chunk of Q tokens, scores C B^T of each group and their product with the inputs; between chunks, states B^T X
    and what C reads of them. Linear (lightning) attention is the same with scores of every head: g = n_h.

    Parameters
    ----------
    tokens : array_like
        T, tokens.
    heads, head_dim : array_like
        n_h and p, heads of values and their dimension.
    groups, state : array_like
        g and N, heads of keys (groups of B and C) and their dimension (the state size).
    chunk : array_like
        Q, tokens of a chunk.

    Returns
    -------
    ndarray of float64
        FLOP; a whole chunk's scores are computed, those that a causal mask hides among them.

    References
    ----------
    .. [1] T. Dao, A. Gu, "Transformers are SSMs", arXiv:2405.21060, section 6.
    .. [2] Z. Qin et al., "Lightning Attention-2", arXiv:2401.04658.

    Examples
    --------
    >>> float(ssd_flops(1024, heads=128, head_dim=64, groups=8, state=128, chunk=128))
    6710886400.0
    """
    inner = to_float(heads) * to_float(head_dim)
    scores = to_float(chunk) * (to_float(state) * to_float(groups) + inner)
    return 2 * to_float(tokens) * (scores + 2 * to_float(state) * inner)


def delta_rule_flops(tokens: Numeric, heads: Numeric, key_dim: Numeric, value_dim: Numeric, chunk: Numeric) -> Array:
    r"""Return the FLOP of the gated delta rule in chunks, forward.

    .. math:: F = T n_h \left( 2 Q (3 d_k + 2 d_v) + 6 d_k d_v + Q^2 / 3 \right)

    In a chunk K K^T, its triangular inverse, that times K and V, Q K^T and its product with new values; between chunks
    what of the values the state knows already, the state's update, and what queries read of it.

    Parameters
    ----------
    tokens : array_like
        T, tokens.
    heads, key_dim, value_dim : array_like
        n_h, d_k and d_v, heads of values, and the dimensions of a key and of a value.
    chunk : array_like
        Q, tokens of a chunk.

    Returns
    -------
    ndarray of float64
        FLOP.

    References
    ----------
    .. [1] S. Yang et al., "Gated Delta Networks", arXiv:2412.06464, section 3.3.
    .. [2] Kimi Team, "Kimi Linear", arXiv:2510.26692 (a decay of each channel: as many products).

    Examples
    --------
    >>> float(delta_rule_flops(64, heads=1, key_dim=128, value_dim=128, chunk=64)) == 64 * (640 * 128 + 6 * 128**2
    ...     + 64**2 / 3)
    True
    """
    q, k, v = to_float(chunk), to_float(key_dim), to_float(value_dim)
    return to_float(tokens) * to_float(heads) * (2 * q * (3 * k + 2 * v) + 6 * k * v + q * q / 3)


def selective_scan_flops(tokens: Numeric, channels: Numeric, state: Numeric) -> Array:
    r"""Return the FLOP of a selective scan (Mamba-1), forward: :math:`F = 9\, T\, d\, N`.

    They are element by element, not products of matrices.

    Parameters
    ----------
    tokens, channels, state : array_like
        T, d and N: tokens, channels, and numbers of the state of a channel.

    Returns
    -------
    ndarray of float64
        FLOP.

    References
    ----------
    .. [1] A. Gu, T. Dao, "Mamba", arXiv:2312.00752, appendix D (O(B L D N)); nine operations of an element as counted
       by its implementations.

    Examples
    --------
    >>> float(selective_scan_flops(10, 100, 16))
    144000.0
    """
    return 9 * to_float(tokens) * to_float(channels) * to_float(state)
