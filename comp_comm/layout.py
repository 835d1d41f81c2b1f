"""How a model is laid out on devices, and the rules a layout must keep."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from comp_comm.formulas.arrays import Numeric


@dataclass(frozen=True)
class Layout:
    """Parallel degrees and micro-batch, numbers or arrays.

    ``tp`` tensor-parallel degree; ``micro_batch`` sequences in a micro-batch; ``dp`` data-parallel degree,
    infinity where it is not given (many replicas on the innermost tier).
    """

    micro_batch: Numeric
    tp: Numeric
    dp: Numeric = np.inf


@dataclass(frozen=True)
class Violation:
    """A rule that some points break: where (True is broken), why, and which fields it is about."""

    broken: NDArray[np.bool_]
    reason: str
    fields: tuple[str, ...] = ()


def divides(divisor: Numeric, number: Numeric, names: tuple[str, str]) -> Violation:
    """Return the violation of ``divisor`` dividing ``number``; ``names`` are the two fields'.

    >>> divides([2, 3], 8, ("tp", "hidden")).broken
    array([False,  True])
    """
    broken = np.asarray(np.mod(number, divisor) != 0)
    return Violation(broken, f"{names[0]} does not divide {names[1]}", names)
