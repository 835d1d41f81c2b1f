"""Pipelines: the time stages wait, the micro-batches whose activations they hold, and the layers they get."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from comp_comm.formulas.arrays import Array, Numeric, to_float


def bubble_seconds(pp: Numeric, vpp: Numeric, forward: Numeric, backward: Numeric) -> Array:
    r"""Return how long a stage waits in a step of a GPipe, 1F1B or interleaved pipeline.

    .. math:: t = \frac{p - 1}{v} (t_f + t_b)

    Parameters
    ----------
    pp, vpp : array_like
        p stages, each of v chunks of the model (1: not interleaved).
    forward, backward : array_like
        Seconds of a stage's passes of one micro-batch.

    Returns
    -------
    ndarray of float64
        Seconds.

    References
    ----------
    .. [1] D. Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM",
       SC21, section 2.2.

    Examples
    --------
    >>> float(bubble_seconds(8, 2, 1.0, 2.0))
    10.5
    """
    return (to_float(pp) - 1) / vpp * (to_float(forward) + backward)


def zero_bubble_seconds(pp: Numeric, forward: Numeric, backward: Numeric, for_weights: Numeric) -> Array:
    r"""Return how long a stage waits under the zero-bubble schedule ZB-H1.

    .. math:: t = (p - 1)(t_f + t_b - 2 t_w)

    with t_b the whole backward pass, of which t_w are gradients of weights, put where the stage would wait. It holds as
    many activations as 1F1B. It never waits less than not at all.

    Parameters
    ----------
    pp, forward, backward, for_weights : array_like
        p stages; seconds of a stage's passes of one micro-batch.

    Returns
    -------
    ndarray of float64
        Seconds; a third of 1F1B's where the three parts take equally long.

    References
    ----------
    .. [1] P. Qi et al., "Zero Bubble Pipeline Parallelism", arXiv:2401.10241, Table 1 (T_F + T_B - T_W there, with T_B
       the gradient of the input alone).

    Examples
    --------
    >>> float(zero_bubble_seconds(8, 1.0, 2.0, 1.0))
    7.0
    """
    waits = to_float(forward) + backward - 2 * to_float(for_weights)
    return (to_float(pp) - 1) * np.maximum(waits, 0.0)


def in_flight(pp: Numeric, vpp: Numeric, stage: Numeric, steps: Numeric) -> Array:
    r"""Return how many micro-batches' activations a stage holds at most under 1F1B, interleaved or not.

    .. math:: \min\left(m, \frac{2 (p - i - 1) + (v - 1) p + 1}{v}\right) \;(v > 1), \qquad \min(m, p - i) \;(v = 1)

    in units of all layers of the stage: of v chunks each is a part.

    Parameters
    ----------
    pp, vpp, stage, steps : array_like
        p stages of v chunks, the stage's place i from 0, and m micro-batches.

    Returns
    -------
    ndarray of float64
        Micro-batches.

    References
    ----------
    .. [1] V. Korthikanti et al., arXiv:2205.05198, section 4.2.3: the first stage holds p (1 + (p - 1) / (p v)).

    Examples
    --------
    >>> float(in_flight(8, 1, 0, 64)), float(in_flight(8, 3, 0, 64) / (8 * (1 + 7 / (8 * 3))))
    (8.0, 1.0)
    """
    behind = to_float(pp) - stage - 1
    plain, interleaved = behind + 1, (2 * behind + (to_float(vpp) - 1) * pp + 1) / vpp
    return np.minimum(steps, np.where(to_float(vpp) > 1, interleaved, plain))


class StageLayers(NamedTuple):
    """Layers of the first stage, of those between, and of the last."""

    first: Array
    between: Array
    last: Array


def stage_layers(layers: Numeric, pp: Numeric, vpp: Numeric) -> StageLayers:
    r"""Return how layers are spread over stages.

    Evenly where p v divides them. Where it divides L + 2, the embedding and the loss take the place of a layer each
    (the first and the last stage have one less). Else, as evenly as it goes: the last stage has the fewest, the first
    one more of the rest only where every other has.

    Parameters
    ----------
    layers, pp, vpp : array_like
        L layers, p stages, v chunks a stage.

    Returns
    -------
    StageLayers
        Whole numbers; ``between`` is 0 where there are only two stages or one.

    References
    ----------
    .. [1] Megatron-LM, ``--account-for-embedding-in-pipeline-split`` and ``--account-for-loss-in-pipeline-split``.

    Examples
    --------
    >>> [float(n) for n in stage_layers(126, 16, 1)]
    [7.0, 8.0, 7.0]
    """
    count, stages = to_float(layers), to_float(pp)
    slots = (count % (stages * vpp) != 0) & ((count + 2) % (stages * vpp) == 0) & (stages > 1)
    few, rest = np.floor(count / stages), count % stages
    each = (count + 2) / stages
    first = np.where(slots, each - 1, few + (rest > stages - 2) * (rest > 0))
    last = np.where(slots, each - 1, few)
    between = np.where(stages > 2, np.where(slots, each, few + (rest > 0)), 0.0)
    return StageLayers(first, between, last)
