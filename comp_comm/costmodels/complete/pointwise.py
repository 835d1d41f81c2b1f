"""The stage that has the most of something, point by point: the slowest one, or the one that needs most memory.

Which stage that is may differ from point to point of a sweep, so what is chosen is put together, array by array, from
all candidates.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from comp_comm.formulas.arrays import Array, Mask, maximum, somewhere, where
from comp_comm.layers.stages import Stage

Chosen = TypeVar("Chosen")


def pick(mask: Mask, one: Chosen, other: Chosen) -> Chosen:
    """Return ``one`` where the mask says so, ``other`` elsewhere: arrays, or tuples of them.

    >>> pick(np.array([True, False]), (np.array([1.0, 2.0]), 5.0), (np.array([3.0, 4.0]), 6.0))
    (array([1., 4.]), array([5., 6.]))
    """
    if one is other:
        return one
    if isinstance(one, tuple):
        parts = [pick(mask, *pair) for pair in zip(one, cast("tuple[object, ...]", other), strict=True)]
        return cast(Chosen, type(one)(*parts) if hasattr(one, "_fields") else tuple(parts))
    return cast(Chosen, where(mask, cast(Array, one), cast(Array, other)))


def pointwise_max(candidates: Iterable[tuple[Chosen, Array]]) -> tuple[Chosen, Array]:
    """Return at each point the candidate with the largest number, and that number; of equal ones the first.

    Parameters
    ----------
    candidates : iterable of (object, array)
        What may be chosen (an array or a tuple of arrays), and its number at each point: seconds, or bytes.

    Returns
    -------
    (object, array)
        The candidate chosen, and its number.

    Examples
    --------
    >>> seconds = (np.array([1.0, 4.0]), np.array([2.0, 3.0]))
    >>> pointwise_max((number, each) for number, each in zip((np.asarray(0), np.asarray(1)), seconds))
    (array([1, 0]), array([2., 4.]))
    """
    left = iter(candidates)
    chosen, most = next(left)
    for candidate, size in left:
        more = size > most
        if somewhere(more):
            chosen, most = pick(more, candidate, chosen), maximum(most, size)
    return chosen, most


def stage_at(stages: Sequence[Stage], number: NDArray[np.intp]) -> Stage:
    """Return at each point the stage of a number, an index into ``stages``."""
    chosen = stages[0]
    for index, stage in enumerate(stages[1:], 1):
        here = number == index
        if somewhere(here):
            chosen = pick(here, stage, chosen)
    return chosen
