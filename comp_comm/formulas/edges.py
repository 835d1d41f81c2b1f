"""Compute's edge over communication, independent of hardware, and what hardware makes of it.

The paper ([1]_ below is arXiv:2302.02825) gives Eqs 6 and 9 as orders of growth; here they are FLOP per byte with
the constants kept. X, the *FLOP per reduced byte* of a machine, is its achieved FLOP/s over the message bytes an
all-reduce completes per second. Edge and X meet in two ratios: the serialized fraction and the overlap ratio.
"""

from __future__ import annotations

import numpy as np

from comp_comm.formulas.arrays import Array, Numeric, to_float
from comp_comm.formulas.transformer import flops_per_activation


def amdahl_edge(
    hidden: Numeric,
    seq_len: Numeric,
    tp: Numeric,
    element_bytes: Numeric = 2,
    fc_gemms: Numeric = 2,
    attention_gemms: Numeric = 2,
    linear_gemms: Numeric = 4,
    passes: Numeric = 3,
    all_reduces: Numeric = 4,
) -> Array:
    r"""Return Amdahl's law edge: FLOP of a layer per byte of its serialized all-reduces (Eq 6).

    .. math:: E = \frac{r \left( (8 g_{fc} + 2 g_{lin}) H + 2 g_{att} SL \right)}{a\, p\, TP}

    In training at p = 2: 1.5 (6 H + SL) / TP complete, 0.75 (7 H + SL) / TP in the paper's count. It does not
    depend on the batch.

    Parameters
    ----------
    hidden, seq_len, tp : array_like
        H, SL, TP, dimensionless, broadcastable.
    element_bytes : array_like
        p, bytes of an element.
    fc_gemms, attention_gemms, linear_gemms : array_like
        GEMMs counted of each kind (2, 2, 4 complete; 1, 1, 3 as in the paper).
    passes, all_reduces : array_like
        r and a: forward passes' worth of FLOP, and all-reduces; 3 and 4 for training, 1 and 2 for the forward pass.

    Returns
    -------
    ndarray of float64
        FLOP per message byte.

    References
    ----------
    .. [1] arXiv:2302.02825, Eqs 4-6.

    Examples
    --------
    >>> float(amdahl_edge(65536, 4096, 256)) == 1.5 * (6 * 65536 + 4096) / 256
    True
    >>> float(amdahl_edge(65536, 4096, 256, passes=1, all_reduces=2)) == (6 * 65536 + 4096) / 256
    True
    """
    flops = flops_per_activation(hidden, seq_len, fc_gemms, attention_gemms, linear_gemms)
    return flops * to_float(passes) / (to_float(all_reduces) * to_float(element_bytes) * to_float(tp))


def slack_advantage(seq_len: Numeric, micro_batch: Numeric, element_bytes: Numeric = 2) -> Array:
    r"""Return the slack of one FC matrix: backward FLOP per byte of its weight gradient (Eqs 7-9).

    .. math:: S = \frac{16 H^2 T / TP}{4 p H^2 / TP} = \frac{4}{p} SL \cdot B

    which is 2 SL B at 2 bytes, whatever H and TP, in either count.

    Parameters
    ----------
    seq_len, micro_batch : array_like
        SL and B, dimensionless, broadcastable.
    element_bytes : array_like
        p, bytes of a gradient.

    Returns
    -------
    ndarray of float64
        FLOP per message byte.

    References
    ----------
    .. [1] arXiv:2302.02825, Eqs 7-9.

    Examples
    --------
    >>> float(slack_advantage(4096, 1))
    8192.0
    """
    return 4 / to_float(element_bytes) * to_float(seq_len) * to_float(micro_batch)


def layer_slack_advantage(
    hidden: Numeric,
    seq_len: Numeric,
    micro_batch: Numeric,
    element_bytes: Numeric = 2,
    fc_gemms: Numeric = 2,
    attention_gemms: Numeric = 2,
    linear_gemms: Numeric = 4,
) -> Array:
    r"""Return the slack of a whole layer: all backward FLOP per byte of all its weight gradients.

    .. math:: S = \frac{2 T \left( (8 g_{fc} + 2 g_{lin}) H + 2 g_{att} SL \right)}{p\,(4 g_{fc} + g_{lin})\, H}

    At p = 2: 2 T (1 + SL / 6 H) complete, 2 T (1 + SL / 7 H) in the paper's count.

    Parameters
    ----------
    hidden, seq_len, micro_batch : array_like
        H, SL, B, dimensionless, broadcastable.
    element_bytes : array_like
        p, bytes of a gradient.
    fc_gemms, attention_gemms, linear_gemms : array_like
        GEMMs counted of each kind (2, 2, 4 complete; 1, 1, 3 as in the paper).

    Returns
    -------
    ndarray of float64
        FLOP per message byte.

    References
    ----------
    .. [1] arXiv:2302.02825, section 3.4 ("holds true for all Transformer backprop sub-layers").

    Examples
    --------
    >>> float(layer_slack_advantage(1024, 6144, 1)) == 2 * 6144 * 2
    True
    """
    weights = (4 * to_float(fc_gemms) + to_float(linear_gemms)) * to_float(hidden)
    flops = flops_per_activation(hidden, seq_len, fc_gemms, attention_gemms, linear_gemms)
    return 2 * flops / (weights * to_float(element_bytes)) * to_float(seq_len) * to_float(micro_batch)


def flop_per_reduced_byte(flops_per_second: Numeric, reduced_bytes_per_second: Numeric) -> Array:
    r"""Return a machine's X: FLOP done while an all-reduce completes one byte of its message.

    .. math:: X = P_{achieved} / A, \qquad A = B \frac{n}{2 (n - 1)}

    Parameters
    ----------
    flops_per_second : array_like
        Achieved FLOP/s of a device.
    reduced_bytes_per_second : array_like
        A, the all-reduce's *algorithm* bandwidth: message bytes per second.

    Returns
    -------
    ndarray of float64
        FLOP per message byte.

    References
    ----------
    .. [1] Derived from arXiv:2302.02825, sections 3.3 and 4.3.

    Examples
    --------
    MI210 as preset A has it: 0.66 of 181 TFLOP/s, a ring of many devices at 0.748 of 150 GB/s.

    >>> round(float(flop_per_reduced_byte(0.66 * 181e12, 0.748 * 150e9 / 2)))
    2129
    """
    return to_float(flops_per_second) / reduced_bytes_per_second


def serialized_fraction(compute: Numeric, serialized: Numeric) -> Array:
    r"""Return serialized communication's share of compute plus itself.

    .. math:: f = \frac{s}{c + s}

    With an edge E and a machine's X it is 1 / (1 + E / X): pass E and X.

    Parameters
    ----------
    compute, serialized : array_like
        c and s: seconds (or anything proportional to seconds), broadcastable, c > 0.

    Returns
    -------
    ndarray of float64
        Between 0 and 1.

    References
    ----------
    .. [1] arXiv:2302.02825, Figs 10(a) and 11(a).

    Examples
    --------
    >>> float(serialized_fraction(3.0, 1.0))
    0.25
    """
    total = np.add(compute, serialized, dtype=np.float64)
    # The sum is ours: writing the quotient into it saves a full-grid array.
    out = total if isinstance(total, np.ndarray) else None
    return np.divide(serialized, total, out=out)


def overlap_ratio(communication: Numeric, compute: Numeric) -> Array:
    r"""Return overlappable communication over the compute that may hide it.

    .. math:: q = o / c

    Above 1 some of it is exposed. With a slack S and a machine's X it is X / S: pass X and S.

    Parameters
    ----------
    communication, compute : array_like
        o and c: seconds (or anything proportional), broadcastable, c > 0.

    Returns
    -------
    ndarray of float64
        0 or more.

    References
    ----------
    .. [1] arXiv:2302.02825, Figs 10(b) and 11(b).

    Examples
    --------
    >>> float(overlap_ratio(1.0, 4.0))
    0.25
    """
    return to_float(communication) / compute
