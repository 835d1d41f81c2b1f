"""Pipelines that split the backward pass: gradients of inputs first, those of weights where a stage would wait.

F, B and W are the seconds of one micro-batch's forward pass, of the gradients of its inputs, and of those of weights;
F and B with the send that follows them. An activation is held until its weights have their gradients.
"""

from __future__ import annotations

from comp_comm.formulas.arrays import Array, Numeric, maximum, minimum, to_float


def zero_bubble_seconds(
    pp: Numeric, micro_batches: Numeric, forward: Numeric, backward: Numeric, for_weights: Numeric
) -> Array:
    r"""Return how long a stage waits in a step under the zero-bubble schedule ZB-H1.

    .. math:: t = (p - 1)(F + B) - (\min(m, p) - 1) \min(F, W)

    which is :math:`(p - 1)(F + B - W)` where W takes no longer than F and there are enough micro-batches.

    Parameters
    ----------
    pp, micro_batches : array_like
        p equal stages, m micro-batches.
    forward, backward, for_weights : array_like
        F, B and W of a stage, seconds; B at least as long as F and as W.

    Returns
    -------
    ndarray of float64
        Seconds; a third of 1F1B's where F, B and W take equally long.

    References
    ----------
    .. [1] P. Qi et al., "Zero Bubble Pipeline Parallelism", arXiv:2401.10241, Table 2.

    Examples
    --------
    >>> float(zero_bubble_seconds(8, 32, 1.0, 1.0, 1.0))
    7.0
    """
    filled = minimum(to_float(forward), for_weights)
    return to_float((to_float(pp) - 1) * (to_float(forward) + backward) - (minimum(micro_batches, pp) - 1) * filled)


def zb_h2_seconds(pp: Numeric, forward: Numeric, backward: Numeric, for_weights: Numeric) -> Array:
    r"""Return how long a stage waits in a step under the zero-bubble schedule ZB-H2.

    .. math:: t = (p - 1) \max(F + B - 2 \min(F, W), 0)

    which is :math:`(p - 1)(F + B - 2 W)` where W takes no longer than F. A stage begins its next step when it is done
    with this one, however far the others are: the optimizer does not wait for the norm of all gradients, but checks
    afterwards whether it had to be clipped. It takes at least 2 p - 1 micro-batches.

    Parameters
    ----------
    pp : array_like
        p equal stages.
    forward, backward, for_weights : array_like
        F, B and W of a stage, seconds.

    Returns
    -------
    ndarray of float64
        Seconds; 0 where F, B and W take equally long.

    References
    ----------
    .. [1] P. Qi et al., "Zero Bubble Pipeline Parallelism", arXiv:2401.10241, Table 2, and section 4 on the optimizer.

    Examples
    --------
    >>> float(zb_h2_seconds(8, 1.0, 1.0, 1.0)), float(zb_h2_seconds(8, 1.0, 1.5, 1.0))
    (0.0, 3.5)
    """
    waits = to_float(forward) + backward - 2 * minimum(to_float(forward), for_weights)
    return to_float((to_float(pp) - 1) * maximum(waits, 0.0))


def zb_v_seconds(pp: Numeric, forward: Numeric, backward: Numeric, for_weights: Numeric) -> Array:
    r"""Return how long a stage waits in a step under the V-shaped zero-bubble schedule ZB-V.

    .. math:: t = (p - 1) \max(2 (B - W), B - F)

    Each stage has two chunks: a micro-batch goes down the stages through the first ones and up again through the
    others. The passes are in the order that is without a bubble where F, B and W take equally long; steps follow each
    other as under ZB-H2. It takes at least 2 p - 1 micro-batches.

    Parameters
    ----------
    pp : array_like
        p equal stages.
    forward, backward, for_weights : array_like
        F, B and W of one chunk, seconds; B at least as long as F and as W.

    Returns
    -------
    ndarray of float64
        Seconds. No paper prints this: it is the longest path through the passes in that order.

    References
    ----------
    .. [1] P. Qi et al., "Pipeline Parallelism with Controllable Memory", arXiv:2405.15362, V-ZB.
    .. [2] P. Qi et al., "Zero Bubble Pipeline Parallelism", arXiv:2401.10241, section 6.

    Examples
    --------
    >>> float(zb_v_seconds(8, 1.0, 1.0, 1.0)), float(zb_v_seconds(8, 1.0, 1.5, 1.0))
    (0.0, 7.0)
    """
    waits = maximum(2 * (to_float(backward) - for_weights), to_float(backward) - forward)
    return (to_float(pp) - 1) * maximum(waits, 0.0)


def dualpipe_seconds(pp: Numeric, forward: Numeric, backward: Numeric, for_weights: Numeric) -> Array:
    r"""Return how long a stage waits in a step under DualPipe, which takes micro-batches from both ends.

    .. math:: t = \left( \frac{p}{2} - 1 \right) (F + 2 B - W)

    The paper has :math:`(p / 2 - 1)(F\&B + B' - 3 W)`, with :math:`B' = B + W` the whole backward pass and
    :math:`F\&B` a forward pass beside a backward one: here one after the other, F + B'. It takes an even number of
    micro-batches, at least 2 p.

    Parameters
    ----------
    pp : array_like
        p equal stages, an even number, each with a chunk of either of two copies of the model.
    forward, backward, for_weights : array_like
        F, B and W of one chunk, seconds; B at least as long as F.

    Returns
    -------
    ndarray of float64
        Seconds.

    References
    ----------
    .. [1] DeepSeek-AI, "DeepSeek-V3 Technical Report", arXiv:2412.19437, Table 2.

    Examples
    --------
    >>> float(dualpipe_seconds(8, 1.0, 1.0, 1.0))
    6.0
    """
    waits = to_float(forward) + 2 * to_float(backward) - for_weights
    return maximum(to_float(pp) / 2 - 1, 0.0) * maximum(waits, 0.0)


def zero_bubble_in_flight(pp: Numeric, micro_batches: Numeric, ahead: Numeric = 1.0) -> Array:
    r"""Return how many micro-batches' activations a stage holds at most under ZB-H1 and ZB-V, or ahead of ZB-H2.

    .. math:: \min(m, a (p - 1) + 1)

    on every stage: early ones are more micro-batches ahead, late ones put more gradients of weights off.

    Parameters
    ----------
    pp, micro_batches : array_like
        p stages, m micro-batches.
    ahead : array_like
        a: 1 for ZB-H1 and ZB-V, 2 for ZB-H2.

    Returns
    -------
    ndarray of float64
        Micro-batches, in units of all layers of the stage.

    References
    ----------
    .. [1] P. Qi et al., "Zero Bubble Pipeline Parallelism", arXiv:2401.10241, Table 2, where what W needs is as much
       as what B does; arXiv:2405.15362, V-ZB.

    Examples
    --------
    >>> float(zero_bubble_in_flight(8, 64)), float(zero_bubble_in_flight(8, 64, 2))
    (8.0, 15.0)
    """
    return minimum(micro_batches, to_float(ahead) * (to_float(pp) - 1) + 1)


def dualpipe_in_flight(pp: Numeric) -> Array:
    r"""Return how many micro-batches' activations a stage holds at most under DualPipe.

    .. math:: \frac{p + 1}{2}

    Parameters
    ----------
    pp : array_like
        p stages.

    Returns
    -------
    ndarray of float64
        Micro-batches, in units of all layers of the stage: p + 1 of the chunk that it has of each copy.

    References
    ----------
    .. [1] DeepSeek-AI, "DeepSeek-V3 Technical Report", arXiv:2412.19437, Table 2.

    Examples
    --------
    >>> float(dualpipe_in_flight(8))
    4.5
    """
    return (to_float(pp) + 1) / 2
