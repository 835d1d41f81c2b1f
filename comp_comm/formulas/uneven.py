"""1F1B and GPipe with stages that are not alike: the longest path through all passes of a step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from comp_comm.formulas.arrays import Array, Numeric, everywhere, maximum, somewhere, to_float, where


class _Place(NamedTuple):
    """A stage at an end of a run: F and B of all stages up to it, paths down to it and up from it, how many stages are
    behind it, its own F and B, and whether there is such a stage (None: at every point)."""

    through: Array
    down: Array
    up: Array
    left: Array
    both: Array
    there: NDArray[np.bool_] | None


def uneven_bubble_seconds(
    forward: Sequence[Numeric], backward: Sequence[Numeric], stages: Sequence[Numeric], micro_batches: Numeric
) -> Array:
    r"""Return how long the slowest stage waits in a step of 1F1B, whatever each stage takes.

    .. math::

        T = \max_{s \ge p - m} \left( a_s + (m - p + s)\, t_s + e_s \right), \qquad
        a_s = \max_{q \ge s} \left( \sum_{i \le q} F_i + (p - 1 - q) \max_{i \le q} F_i + \sum_{s < i \le q} B_i \right)

    with :math:`t_s = F_s + B_s`, and :math:`e_s` as :math:`a_s` with F and B exchanged: the bubble is
    :math:`T - m \max_s t_s`. Stage s sets the pace for m - p + s micro-batches; before that, forward passes of p - q
    micro-batches run ahead to stage q, and the first backward pass comes back to s; after it the same the other way
    round. Along stages that are alike the sum is convex in s and q, so that only the first and the last of them are
    looked at, and stage p - m where there is one.

    Parameters
    ----------
    forward, backward : sequence of array_like
        F and B, seconds of the passes of one micro-batch (B with gradients of weights), each with the send that
        follows it, of the stages of each run of stages that are alike, in order.
    stages : sequence of array_like
        How many stages are in each run, perhaps none; p in all.
    micro_batches : array_like
        m micro-batches.

    Returns
    -------
    ndarray of float64
        Seconds.

    References
    ----------
    .. [1] Derived here, for the order of passes of D. Narayanan et al., arXiv:2104.04473, figure 3.

    Examples
    --------
    Eight equal stages wait for seven others; a last one of half the length is waited for less than that.

    >>> float(uneven_bubble_seconds([1.0], [2.0], [8], 32))
    21.0
    >>> float(uneven_bubble_seconds([1.0, 0.5], [2.0, 1.0], [7, 1], 32))
    18.5
    """
    pp = to_float(sum(map(to_float, stages), to_float(0.0)))
    places, first, before = [], to_float(0.0), to_float(0.0)
    slowest = to_float(0.0), to_float(0.0)
    for f, b, count in zip(map(to_float, forward), map(to_float, backward), map(to_float, stages), strict=True):
        there, both = None if everywhere(count > 0) else count > 0, f + b
        slowest = _slower(slowest[0], f, there), _slower(slowest[1], b, there)
        for inside in _looked_at(count, pp - first, to_float(micro_batches)):
            through, left = before + inside * both, pp - first - inside
            down, up = (through + left * each for each in slowest)
            places.append(_Place(through, down, up, left, both, there))
        before, first = before + count * both, first + count
    return _longest(places, to_float(micro_batches))


def gpipe_bubble_seconds(
    forward: Sequence[Numeric], backward: Sequence[Numeric], stages: Sequence[Numeric], micro_batches: Numeric
) -> Array:
    r"""Return how long the slowest stage waits in a step of GPipe, whatever each stage takes.

    .. math:: T = \sum_i (F_i + B_i) + (m - 1) \left( \max_i F_i + \max_i B_i \right)

    All forward passes are done before the first backward one; the bubble is :math:`T - m \max_i (F_i + B_i)`.

    Parameters
    ----------
    forward, backward, stages, micro_batches : sequence of array_like
        See `uneven_bubble_seconds`.

    Returns
    -------
    ndarray of float64
        Seconds.

    References
    ----------
    .. [1] Y. Huang et al., "GPipe", arXiv:1811.06965, section 2.3, for stages that are not alike.

    Examples
    --------
    >>> float(gpipe_bubble_seconds([1.0, 0.5], [2.0, 1.0], [7, 1], 32))
    19.5
    """
    total = f = b = pace = to_float(0.0)
    for each, other, count in zip(map(to_float, forward), map(to_float, backward), map(to_float, stages), strict=True):
        there, both = count > 0, each + other
        total = total + count * both
        f, b, pace = _slower(f, each, there), _slower(b, other, there), _slower(pace, both, there)
    return total - pace + (to_float(micro_batches) - 1) * (f + b - pace)


def _looked_at(count: Array, left: Array, micro_batches: Array) -> list[Array]:
    """Return which stages of a run of so many, counted from 1, the longest path may turn at: the first and the last.

    With fewer micro-batches than stages also the first that has passes in turn, of the ``left`` from the run on.
    """
    one = to_float(1.0)
    if not somewhere(count > 1):
        return [one]
    few = micro_batches < left
    return [one, np.clip(left - micro_batches + 1, 1.0, maximum(count, 1.0)), count] if somewhere(few) else [one, count]


def _slower(seconds: Array, others: Array, there: NDArray[np.bool_] | None) -> Array:
    return maximum(seconds, others if there is None else where(there, others, seconds))


def _longest(places: Sequence[_Place], micro_batches: Array) -> Array:
    """Return by how much the longest path is longer than all micro-batches at the slowest stage."""
    pace = to_float(0.0)
    for place in places:
        pace = _slower(pace, place.both, place.there)
    down = up = bubble = to_float(-np.inf)
    for place in reversed(places):
        down, up = _slower(down, place.down, place.there), _slower(up, place.up, place.there)
        waits = down + up - place.through - (place.left + 1) * place.both - micro_batches * (pace - place.both)
        early = place.left >= micro_batches  # it never has a forward and a backward pass in turn
        there = ~early if place.there is None else place.there & ~early
        bubble = _slower(bubble, waits, None if everywhere(there) else there)
    return bubble
