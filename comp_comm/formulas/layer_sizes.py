"""Sizes of one transformer layer under tensor parallelism, Eqs 5 and 8 of arXiv:2302.02825: messages and weights.

Which GEMMs are counted, and the symbols, are those of `comp_comm.formulas.layer_flops`.
"""

from __future__ import annotations

from comp_comm.formulas.arrays import Array, Numeric, to_float
from comp_comm.formulas.layer_flops import tokens


def activation_message_bytes(
    hidden: Numeric, seq_len: Numeric, micro_batch: Numeric, element_bytes: Numeric = 2
) -> Array:
    r"""Return the bytes one tensor-parallel all-reduce reduces (Eq 5): the whole activation, not divided by TP.

    .. math:: m = p \cdot H \cdot SL \cdot B

    A layer has four of them in training: two forward, two backward.

    Parameters
    ----------
    hidden, seq_len, micro_batch : array_like
        H, SL, B, dimensionless, broadcastable.
    element_bytes : array_like
        p, bytes of an element.

    Returns
    -------
    ndarray of float64
        Message bytes (the size nccl-tests prints).

    References
    ----------
    .. [1] arXiv:2302.02825, Eq 5.

    Examples
    --------
    Megatron-LM's GPT-3 at micro-batch 1 and sequence 2048:

    >>> float(activation_message_bytes(12288, 2048, 1))
    50331648.0
    """
    return to_float(element_bytes) * to_float(hidden) * tokens(seq_len, micro_batch)


def layer_weights(hidden: Numeric, tp: Numeric = 1, fc_gemms: Numeric = 2, linear_gemms: Numeric = 4) -> Array:
    r"""Return the weights of one layer on one device.

    .. math:: W = (4 g_{fc} + g_{lin}) H^2 / TP

    which is 12 H^2 / TP complete and 7 H^2 / TP as the paper counts; Eq 8 is ``fc_gemms=1, linear_gemms=0``.

    Parameters
    ----------
    hidden, tp : array_like
        H and TP, dimensionless, broadcastable.
    fc_gemms, linear_gemms : array_like
        Weight matrices counted: FC ones of 4 H x H, linear ones of H x H.

    Returns
    -------
    ndarray of float64
        Number of weights (gradients) per device, without biases and norms.

    References
    ----------
    .. [1] arXiv:2302.02825, Eq 8.

    Examples
    --------
    >>> float(layer_weights(12288)) == 12 * 12288**2
    True
    """
    hidden = to_float(hidden)
    return (4 * to_float(fc_gemms) + to_float(linear_gemms)) * hidden * hidden / to_float(tp)


def core_parameters(layers: Numeric, hidden: Numeric) -> Array:
    r"""Return the parameters of a stack of layers without vocabulary, :math:`12\, L\, H^2`.

    Parameters
    ----------
    layers, hidden : array_like
        L and H, dimensionless, broadcastable.

    Returns
    -------
    ndarray of float64
        Number of parameters (biases, norms and embeddings left out; FC dimension 4 H).

    References
    ----------
    .. [1] D. Narayanan et al., arXiv:2104.04473, Eq 2 (its leading term).

    Examples
    --------
    >>> round(float(core_parameters(105, 20480)) / 1e9)
    528
    """
    return to_float(layers) * layer_weights(hidden)
