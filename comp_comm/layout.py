"""How a model is laid out on devices, and the rules a layout must keep."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class Layout:
    """Parallel degrees and micro-batch, numbers or arrays.

    ``tp`` tensor-parallel degree; ``micro_batch`` sequences in a micro-batch; ``dp`` data-parallel degree,
    infinity where it is not given (many replicas).
    """

    micro_batch: ArrayLike
    tp: ArrayLike
    dp: ArrayLike = np.inf


@dataclass(frozen=True)
class Violation:
    """A rule that some points break: where (True is broken) and why."""

    broken: NDArray[np.bool_]
    reason: str


def divides(divisor: ArrayLike, number: ArrayLike, reason: str) -> Violation:
    """Return the violation of ``divisor`` dividing ``number``.

    >>> divides([2, 3], 8, "tp does not divide hidden").broken
    array([False,  True])
    """
    return Violation(np.asarray(np.mod(number, divisor) != 0), reason)
