"""How tensor parallelism and memory demand scale with the model."""

from __future__ import annotations

import numpy as np

from comp_comm.formulas.arrays import Array, Numeric, to_float

# Megatron-LM BERT 3.9B, the first published model trained with tensor parallelism, ran at TP = 8.
BASE_TP = 8
BASE_PARAMETERS = 3.9e9


def required_tp(
    parameters: Numeric,
    memory_scaling: Numeric,
    base_tp: Numeric = BASE_TP,
    base_parameters: Numeric = BASE_PARAMETERS,
) -> Array:
    r"""Return the tensor-parallel degree a model needs to fit (Eq 10).

    .. math:: TP = TP_{base} \frac{p}{s}, \qquad p = P / P_{base}

    Parameters
    ----------
    parameters : array_like
        P, parameters of the model.
    memory_scaling : array_like
        s, device memory over that of the base model's device.
    base_tp, base_parameters : array_like
        Degree and size of the base model (Megatron-LM BERT 3.9B at TP = 8).

    Returns
    -------
    ndarray of float64
        The degree, not rounded; below 1 where the model fits on one device.

    References
    ----------
    .. [1] arXiv:2302.02825, Eq 10 and Fig 9.

    Examples
    --------
    MT-NLG with twice the memory of the base model's device:

    >>> round(float(required_tp(530e9, 2)))
    544
    """
    return to_float(base_tp) * to_float(parameters) / to_float(base_parameters) / to_float(memory_scaling)


def next_divisor(of: Numeric, at_least: Numeric) -> Array:
    r"""Return the smallest divisor of ``of`` that is at least ``at_least``; NaN where there is none.

    Parameters
    ----------
    of : array_like
        Positive whole numbers to divide.
    at_least : array_like
        Lower bounds, broadcastable with ``of``.

    Returns
    -------
    ndarray of float64
        Divisors; NaN where ``at_least`` exceeds ``of``.

    References
    ----------
    .. [1] Tensor parallelism splits a hidden dimension evenly: M. Shoeybi et al., arXiv:1909.08053, section 3.

    Examples
    --------
    >>> next_divisor(20480, [544, 1, 20480.5])
    array([640.,   1.,  nan])
    """
    numbers, bounds = np.broadcast_arrays(to_float(of), to_float(at_least))
    result = np.full(numbers.shape, np.nan)
    for number in np.unique(numbers):  # over distinct dimensions, never over points
        small = np.arange(1, int(number**0.5) + 1)
        small = small[number % small == 0]
        divisors = np.unique(np.concatenate([small, number / small]))
        same = numbers == number
        place = np.searchsorted(divisors, bounds[same] * (1 - 1e-12))
        result[same] = np.append(divisors, np.nan)[place]
    return result[()]


def memory_demand(hidden: Numeric, seq_len: Numeric) -> Array:
    r"""Return the paper's proxy for a model's memory demand, :math:`H \cdot SL`.

    Parameters
    ----------
    hidden, seq_len : array_like
        H and SL, dimensionless, broadcastable.

    Returns
    -------
    ndarray of float64
        Only ratios of it mean something.

    References
    ----------
    .. [1] arXiv:2302.02825, section 3.5 and Fig 6.

    Examples
    --------
    >>> float(memory_demand(18432, 2048) / memory_demand(1024, 512))
    72.0
    """
    return to_float(hidden) * to_float(seq_len)
