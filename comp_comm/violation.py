"""A rule that some points break."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from comp_comm.formulas.arrays import Numeric


@dataclass(frozen=True)
class Violation:
    """A rule that some points break: where (True is broken), why, and which fields it is about.

    ``wrong`` says whether fixed values that break it are a mistake of the study; that something does not fit into
    memory is none, only infeasible.
    """

    broken: NDArray[np.bool_]
    reason: str
    fields: tuple[str, ...] = ()
    wrong: bool = True


def divides(divisor: Numeric, number: Numeric, names: tuple[str, str]) -> Violation:
    """Return the violation of ``divisor`` dividing ``number``; ``names`` are the two fields'.

    >>> divides([2, 3], 8, ("tp", "hidden")).broken
    array([False,  True])
    """
    broken = np.asarray(np.mod(number, divisor) != 0)
    return Violation(broken, f"{names[0]} does not divide {names[1]}", names)
