"""Interleaved 1F1B: the longest path through all passes where all chunks but the first and the last are alike."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from comp_comm.formulas.arrays import Array, Numeric, to_float


class Chunks(NamedTuple):
    """Seconds of a pass of one micro-batch through a chunk of the model: the first one, those between, the last one."""

    first: Numeric
    inner: Numeric
    last: Numeric

    @property
    def more(self) -> Array:
        """How much longer the first chunk takes than those between."""
        return to_float(self.first) - self.inner


def interleaved_seconds(
    pp: Numeric, vpp: Numeric, micro_batches: Numeric, forward: Chunks, backward: Chunks, lag: Numeric = 0.0
) -> Array:
    r"""Return how long a step of interleaved 1F1B takes, where chunks between the first and the last are alike.

    .. math::

        T = \max\left( m\, t_p + (p - 1)(F + B + 2 \ell),\; m v (F + B) + (p - 2)(F + B + 2 \ell)
            + \max(0, x + 2 \ell - 2 F) + \max(0, x + 2 \ell - 2 B) \right) + e_F + e_B \\
        e_F = (F_0 - F) + (v - 2)\, p\, \ell + \max(p\, \ell, (p - 1)(F_0 - F)), \qquad
        t_p = (v - 1)(F + B) + x, \qquad x = F_l + B_l

    with :math:`F_0, F, F_l` the passes of the first chunk, of one between, and of the last, and :math:`e_B`
    likewise. The first path stays on the last stage, the second on the one before it, and goes by the last stage
    when it begins and when it ends, where that takes longer; of two stages that one has the first chunk, too, whose
    passes count for it. Before, micro-batches either go round all stages, each time with a lag, or wait for each
    other in the first chunk. Equal chunks without a lag: :math:`(m v + p - 1)(F + B)`. Other paths may be longer
    where `interleaved_is_known` says no.

    Parameters
    ----------
    pp, vpp, micro_batches : array_like
        p stages of v chunks (2 at least), m micro-batches, a multiple of p.
    forward, backward : Chunks of array_like
        F and B, with gradients of weights, and with the send that follows where a stage waits for it.
    lag : array_like
        :math:`\ell`, seconds from the end of a pass until its output is on the next stage, where the stage goes on.

    Returns
    -------
    ndarray of float64
        Seconds, from the first pass of any stage to the last one of any.

    References
    ----------
    .. [1] D. Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM",
       SC21, section 2.2 (equal chunks).
    .. [2] Derived here: the longest path through the passes in the order of [1].

    Examples
    --------
    Eight stages of two equal chunks, 3 s each, and a head that takes half as long beside the last one.

    >>> float(interleaved_seconds(8, 2, 32, Chunks(1.0, 1.0, 1.0), Chunks(2.0, 2.0, 2.0))) - 32 * 2 * 3.0
    21.0
    >>> float(interleaved_seconds(8, 2, 32, Chunks(1.0, 1.0, 1.5), Chunks(2.0, 2.0, 3.0))) - 32 * (2 * 3.0 + 1.5)
    21.0
    """
    p, v, m, wait = (to_float(number) for number in (pp, vpp, micro_batches, lag))
    both, last = to_float(forward.inner) + backward.inner, to_float(forward.last) + backward.last
    hop, more = both + 2 * wait, (forward.more, backward.more)
    at_last = m * ((v - 1) * both + last) + (p - 1) * hop
    first = np.where(p > 2, 0.0, 1.0)  # whether the stage before the last one has the first chunk
    before = m * v * both + (p - 2) * hop + first * (m - 2) * (more[0] + more[1])
    for chunks in (forward, backward):
        passed = 2 * to_float(chunks.inner) + first * chunks.more
        before = before + np.maximum(last + 2 * wait - passed, 0.0)
    ends = [each + np.maximum(p * wait, (p - 1) * each) for each in more]
    longest = np.where((p > 2) | (m > 2), np.maximum(at_last, before), at_last)
    return to_float(longest + ends[0] + ends[1] + 2 * (v - 2) * p * wait)


def interleaved_is_known(pp: Numeric, forward: Chunks, backward: Chunks, lag: Numeric = 0.0) -> NDArray[np.bool_]:
    r"""Return where `interleaved_seconds` is the longest path.

    .. math:: F \le B, \quad 2 \ell \le F, \quad \left( x - F - B \ge d \right) \;\text{or}\;
        \left( d = 0, \; k \ell \le F \right), \qquad d = \max(F_0 - F, 0) + \max(B_0 - B, 0)

    the second case only with p > 2: of two stages there is none between the first and the last. There k is 4 where
    neither pass of the last chunk is longer than one between, else 8. Elsewhere it may be longer to change between the
    first and the last stage while each of them has its longer chunks.

    Parameters
    ----------
    pp, forward, backward, lag : array_like
        See `interleaved_seconds`.

    Returns
    -------
    ndarray of bool
        Whether it is known to be.

    References
    ----------
    .. [1] The longest path is convex in the seconds of passes and of one degree: it is linear between points that have
       the same path. Found here on drawn points, for up to 8 stages of 5 chunks, against every pass one by one.

    Examples
    --------
    >>> bool(interleaved_is_known(8, Chunks(1.0, 1.0, 1.5), Chunks(2.0, 2.0, 3.0)))
    True
    >>> bool(interleaved_is_known(8, Chunks(2.0, 1.0, 1.5), Chunks(4.0, 2.0, 3.0)))
    False
    """
    f, b, wait = (to_float(number) for number in (forward.inner, backward.inner, lag))
    more = np.maximum(forward.more, 0.0) + np.maximum(backward.more, 0.0)
    last, none = to_float(forward.last) + backward.last, 1e-12 * f
    shorter = (to_float(forward.last) <= f + none) & (to_float(backward.last) <= b + none)
    short_lag = np.where(shorter, 4, 8) * wait <= f
    known = (last - f - b >= more - none) | ((more <= none) & short_lag & (to_float(pp) > 2))
    return np.asarray(known & _each_chunk_adds_as_much(f, b, wait))


def more_chunks_seconds(
    pp: Numeric, more: Numeric, micro_batches: Numeric, forward: Chunks, backward: Chunks, lag: Numeric = 0.0
) -> tuple[Array, NDArray[np.bool_]]:
    r"""Return how much longer a step takes with so many more chunks of a stage, all like those between, and where.

    .. math:: \Delta T = \Delta v \left( m (F + B) + 2 p \ell \right), \quad F \le B, \quad 2 \ell \le F

    Whatever the first and the last chunk take: so a step of two chunks of a stage tells that of any number.

    Parameters
    ----------
    pp, micro_batches, forward, backward, lag : array_like
        See `interleaved_seconds`.
    more : array_like
        :math:`\Delta v`, chunks of a stage beyond two.

    Returns
    -------
    tuple of ndarray
        Seconds (float64), and whether they are known (bool).

    References
    ----------
    .. [1] Not proved: found, and without exception on 24,000 drawn points of up to 8 stages of 12 chunks, each pass
       after the other.

    Examples
    --------
    >>> one, two = Chunks(1.0, 1.0, 1.0), Chunks(2.0, 2.0, 2.0)
    >>> [float(interleaved_seconds(8, chunks, 32, one, two)) for chunks in (2, 5)]
    [213.0, 501.0]
    >>> [each.item() for each in more_chunks_seconds(8, 3, 32, one, two)]
    [288.0, True]
    """
    f, b, wait = (to_float(number) for number in (forward.inner, backward.inner, lag))
    seconds = to_float(more) * (to_float(micro_batches) * (f + b) + 2 * to_float(pp) * wait)
    return to_float(seconds), _each_chunk_adds_as_much(f, b, wait)


def _each_chunk_adds_as_much(forward: Array, backward: Array, lag: Array) -> NDArray[np.bool_]:
    return np.asarray((forward <= backward) & (2 * lag <= forward))
