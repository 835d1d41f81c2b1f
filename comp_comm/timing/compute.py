"""Seconds of arithmetic and of memory traffic on one device."""

from __future__ import annotations

from comp_comm.formulas.arrays import Array, Numeric, to_float
from comp_comm.hardware.numbers import Hardware


def gemm_seconds_per_flop(hardware: Hardware, tokens: Numeric, attention: bool = False) -> Array:
    r"""Return the seconds one FLOP of a large GEMM takes.

    .. math:: t = \frac{1}{P\, e} \cdot \frac{T + T_0}{T}

    with e the profile's ``gemm_efficiency`` (``attention_efficiency`` for attention GEMMs) and T_0 its
    ``gemm_ramp_tokens``: the efficiency is half of e at T_0 tokens. It is per FLOP, so that the arrays it is computed
    on stay small: FLOP join it last.

    Parameters
    ----------
    hardware : Hardware
        Peak P in FLOP/s and its timing numbers.
    tokens : array_like
        T, tokens of the micro-batch.
    attention : bool
        Whether the attention GEMMs' efficiency is meant.

    Returns
    -------
    ndarray of float64
        Seconds per FLOP.

    References
    ----------
    .. [1] The form of the ramp: T / (T + T_0), fitted to Fig 10(b) of arXiv:2302.02825.

    Examples
    --------
    >>> from comp_comm.hardware.numbers import Timing
    >>> device = Hardware(100.0, 1.0, 1.0, (), Timing(gemm_efficiency=0.5, gemm_ramp_tokens=1000.0))
    >>> float(gemm_seconds_per_flop(device, 1000))
    0.04
    """
    timing = hardware.timing
    efficiency = timing.attention_efficiency if attention else timing.gemm_efficiency
    ramp = 1 + timing.gemm_ramp_tokens / to_float(tokens)
    return ramp / (to_float(hardware.peak_flops) * efficiency)


def memory_seconds(hardware: Hardware, moved_bytes: Numeric) -> Array:
    r"""Return the seconds of memory-bound work, :math:`t = V / (e_m B_m)`.

    Parameters
    ----------
    hardware : Hardware
        HBM bandwidth B_m in bytes/s, and the share e_m of it that is achieved (``memory_efficiency``).
    moved_bytes : array_like
        V, bytes read and written.

    Returns
    -------
    ndarray of float64
        Seconds.

    References
    ----------
    .. [1] S. Williams, A. Waterman, D. Patterson, "Roofline", CACM 52(4), 2009.

    Examples
    --------
    >>> from comp_comm.hardware.numbers import Timing
    >>> float(memory_seconds(Hardware(1.0, 1.0, 100.0, (), Timing(memory_efficiency=0.5)), 100))
    2.0
    """
    return to_float(moved_bytes) / (to_float(hardware.memory_bandwidth) * hardware.timing.memory_efficiency)
