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
    pp: Numeric, vpp: Numeric, steps: Numeric, forward: Chunks, backward: Chunks, lag: Numeric = 0.0
) -> Array:
    r"""Return how long a step of interleaved 1F1B takes, where chunks between the first and the last are alike.

    .. math::

        T = \max\left( m\, t_p + (p - 1)(F + B + 2 \ell),\;
            m v (F + B) + (p - 2)(F + B + 2 \ell) + \max(0, x + 2 \ell - 2 F) + \max(0, x + 2 \ell - 2 B) \right)
            + e_F + e_B \\
        e_F = (F_0 - F) + (v - 2)\, p\, \ell + \max(p\, \ell, (p - 1)(F_0 - F)), \qquad
        t_p = (v - 1)(F + B) + x, \qquad x = F_l + B_l

    with :math:`F_0, F, F_l` the passes of the first chunk, of one between, and of the last, and :math:`e_B`
    likewise. The first path stays on the last stage, the second on the one before it (where p > 2), and goes by the
    last stage when it begins and when it ends, where that takes longer. Before, micro-batches either go round all
    stages, each time with a lag, or wait for each other in the first chunk. Equal chunks without a lag: :math:`(m v
    + p - 1)(F + B)`. Other paths are longer where `interleaved_is_known` says no.

    Parameters
    ----------
    pp, vpp, steps : array_like
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
    p, v, m, wait = (to_float(number) for number in (pp, vpp, steps, lag))
    both, last = to_float(forward.inner) + backward.inner, to_float(forward.last) + backward.last
    hop = both + 2 * wait
    by = [np.maximum(last + 2 * wait - 2 * to_float(each.inner), 0.0) for each in (forward, backward)]
    at_last = m * ((v - 1) * both + last) + (p - 1) * hop
    before = m * v * both + (p - 2) * hop + by[0] + by[1]
    longest = np.where(p > 2, np.maximum(at_last, before), at_last)
    ends = [more + np.maximum(p * wait, (p - 1) * more) for more in (forward.more, backward.more)]
    return to_float(longest + ends[0] + ends[1] + 2 * (v - 2) * p * wait)


def interleaved_is_known(pp: Numeric, forward: Chunks, backward: Chunks, lag: Numeric = 0.0) -> NDArray[np.bool_]:
    r"""Return where `interleaved_seconds` is the longest path.

    .. math:: F \le B, \quad 8 \ell \le F, \quad
        \left( F_l + B_l - F - B \ge d, \; p\, d \le F \right) \;\text{or}\; \left( d = 0, \; p > 2 \right), \qquad
        d = \max(F_0 - F, 0) + \max(B_0 - B, 0)

    Else it may be longer to change between the first stage and the last one while each of them has its longer chunk.

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
    p, f, b = (to_float(number) for number in (pp, forward.inner, backward.inner))
    none = 1e-12 * f
    more = np.maximum(forward.more, 0.0) + np.maximum(backward.more, 0.0)
    longer = to_float(forward.last) + backward.last - f - b
    known = ((longer >= more - none) & (p * more <= f)) | ((more <= none) & (p > 2))
    return np.asarray(known & (f <= b) & (8 * to_float(lag) <= f))
