"""Bytes of training states: what is kept of each parameter, and what the optimizer moves."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from comp_comm.formulas.arrays import Array, Numeric, to_float, where


class StateBytes(NamedTuple):
    """Bytes of weights, of gradients, and of the optimizer's states."""

    weights: Array
    gradients: Array
    optimizer: Array


def state_bytes(parameters: Numeric, shards: Numeric, zero: Numeric, weight: Numeric, gradient: Numeric,
                optimizer: Numeric) -> StateBytes:  # fmt: skip
    r"""Return the bytes of the states of so many parameters on one device.

    .. math:: V_s = \frac{P\, p_s}{n} \;(\text{ZeRO stage} \ge z_s), \qquad V_s = P\, p_s \;(\text{below})

    with :math:`z_s` 1 for the optimizer's states, 2 for gradients, 3 for weights.

    Parameters
    ----------
    parameters, shards : array_like
        P parameters of a device's model, whose states are sharded over n devices.
    zero : array_like
        The stage of ZeRO, 0 to 3.
    weight, gradient, optimizer : array_like
        Bytes of each parameter's states, p.

    Returns
    -------
    StateBytes
        Bytes.

    References
    ----------
    .. [1] S. Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models",
       arXiv:1910.02054, section 3.1.

    Examples
    --------
    13 billion parameters in 16 bit with Adam, over 8 devices: 48.75 GB with gradients sharded.

    >>> round(sum(map(float, state_bytes(13e9, 8, 2, 2, 2, 12))) / 1e9, 2)
    48.75
    """
    count, stage = to_float(parameters), to_float(zero)

    def of(size: Numeric, first: int) -> Array:
        return count * to_float(size) / where(stage >= first, shards, 1.0)

    return StateBytes(of(weight, 3), of(gradient, 2), of(optimizer, 1))


def accumulation_traffic(weight: Numeric, gradient: Numeric, casts: Numeric = 0.0) -> Array:
    r"""Return the bytes moved for a parameter where the gradient of a micro-batch is added to the sum by itself.

    .. math:: V = \begin{cases} p_w + 2 p_g & p_g \le p_w \text{ or not cast first} \\ p_w + 4 p_g & p_g > p_w
        \text{ and cast first} \end{cases}

    The two are read and the sum is written, whatever their formats (Megatron-LM). DeepSpeed casts a gradient first that
    has fewer bits than the sum: read and written, and then added as before.

    Parameters
    ----------
    weight, gradient : array_like
        Bytes of a gradient as it is made, which has the format of its weight, and as it is summed.
    casts : array_like
        1 where a gradient is cast to the format of the sum by itself, 0 (default) where the addition does it.

    Returns
    -------
    ndarray of float64
        Bytes of a parameter and micro-batch.

    References
    ----------
    .. [1] DeepSpeed, `BF16_Optimizer.update_hp_grads` (deepspeed/runtime/bf16_optimizer.py); PyTorch, `AccumulateGrad`.
       BLOOM's trials [2]_ took 5.0 and 5.4 % longer with that optimizer than with sums in 16 bit (195B, TP 4, PP 12,
       micro-batch 2).
    .. [2] BigScience, "Prequel" (train/tr11-176B-ml/chronicles-prequel.md), 2022.
    .. [3] Megatron-LM, `main_grad.add_(grad)` of megatron/model/distributed.py, what GEMMs do since 83b1e42f30
       (February 2022, sums in 32 bit) and 07916bf245 (September 2022, in 16).

    Examples
    --------
    >>> accumulation_traffic(2, [2, 4]).tolist(), accumulation_traffic(2, [2, 4], casts=1).tolist()
    ([6.0, 10.0], [6.0, 18.0])
    """
    made, summed = to_float(weight), to_float(gradient)
    return made + np.where((summed > made) & (to_float(casts) > 0), 4.0, 2.0) * summed


def optimizer_traffic(gradient: Numeric, master: Numeric, moment: Numeric, weight: Numeric) -> Array:
    r"""Return the bytes Adam moves for a parameter: gradient in, states in and out, weight out.

    .. math:: V = p_g + 2 (p_m + 2 p_v) + p_w

    Parameters
    ----------
    gradient, master, moment, weight : array_like
        Bytes of a gradient, of the master copy of a weight (0 for none), of each of the two moments, of a weight.

    Returns
    -------
    ndarray of float64
        Bytes of a parameter.

    References
    ----------
    .. [1] D. P. Kingma, J. Ba, "Adam: A Method for Stochastic Optimization", arXiv:1412.6980, Algorithm 1.

    Examples
    --------
    >>> float(optimizer_traffic(4, 4, 4, 2))
    30.0
    """
    return to_float(gradient) + 2 * (to_float(master) + 2 * to_float(moment)) + weight
