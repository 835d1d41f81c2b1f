"""Pipelines: the micro-batches whose activations stages hold, and how layers are dealt out to them."""

from __future__ import annotations

import numpy as np

from comp_comm.formulas.arrays import Array, Numeric, minimum, to_float, where


def in_flight(pp: Numeric, vpp: Numeric, stage: Numeric, micro_batches: Numeric) -> Array:
    r"""Return how many micro-batches' activations a stage holds at most under 1F1B, interleaved or not.

    .. math:: \min\left(m, \frac{2 (p - i - 1) + (v - 1) p + 1}{v}\right) \;(v > 1), \qquad \min(m, p - i) \;(v = 1)

    in units of all layers of the stage: of v chunks each is a part.

    Parameters
    ----------
    pp, vpp, stage, micro_batches : array_like
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
    plain, interleaved = behind + 1, (2 * behind + (to_float(vpp) - 1) * to_float(pp) + 1) / vpp
    return minimum(micro_batches, where(to_float(vpp) > 1, interleaved, plain))


def chunk_boundaries(layers: Numeric, chunks: Numeric, place: Numeric, ends: bool = False) -> Array:
    r"""Return how many layers come before a chunk of a pipeline, as frameworks deal them out.

    .. math:: b_c = \frac{c L}{n} \;(n \mid L), \qquad b_c = c q + \min(c, r) - 1, \; q n + r = L + 2 \;(\text{else})

    for 0 < c < n, with :math:`b_0 = 0` and :math:`b_n = L`. Where n chunks do not divide L layers evenly, the embedding
    and the head take the place of a layer each: Megatron-LM deals out so where n divides L + 2, torchtitan always.

    Parameters
    ----------
    layers, chunks, place : array_like
        L layers, n chunks, and c, the number of a chunk from 0 to n.
    ends : bool
        Whether embedding and head count as layers where n divides L, too: torchtitan's rule.

    Returns
    -------
    ndarray of float64
        Whole numbers from 0 to L.

    References
    ----------
    .. [1] Megatron-LM, ``--account-for-embedding-in-pipeline-split`` and ``--account-for-loss-in-pipeline-split``.
    .. [2] torchtitan, ``pipeline_parallel.first_stage_less_layers`` and ``last_stage_less_layers``, 1 each by default.

    Examples
    --------
    >>> np.diff(chunk_boundaries(126, 16, np.arange(17))).astype(int).tolist()
    [7, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 7]
    >>> np.diff(chunk_boundaries(61, 16, np.arange(17))).astype(int).tolist()
    [3, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 2]
    """
    count, number, c = to_float(layers), to_float(chunks), to_float(place)
    share, rest = np.floor((count + 2) / number), (count + 2) % number
    uneven = c * share + minimum(c, rest) - 1
    even = (count % number == 0) & (not ends)
    bounds = where(even, c * np.floor(count / number), np.clip(uneven, 0, count))
    return where(c <= 0, 0.0, where(c >= number, count, bounds))
