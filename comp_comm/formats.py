"""Number formats of a training run, as bytes: what is computed with, kept, sent and accumulated."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from comp_comm.choices import Precision
from comp_comm.formulas.arrays import Array, Numeric
from comp_comm.violation import Mask

Code = int | NDArray[np.intp]
NONE = -1  # the code of a format that is not given


@dataclass(frozen=True)
class Formats:
    """Bytes an element takes: as a GEMM's operand, as activation, on the wire, as weight, gradient and Adam moment.

    ``dispatch`` and ``combine`` are those on the wire to experts and back (NaN: as others). ``accumulate`` is a second
    gradient buffer (0 for none), ``master`` the optimizer's copy of the weights.
    """

    operand: Numeric = 2
    activation: Numeric = 2
    comm: Numeric = 2
    weight: Numeric = 2
    grad: Numeric = 2
    accumulate: Numeric = 0
    moment: Numeric = 4
    master: Numeric = 4
    dispatch: Numeric = np.nan
    combine: Numeric = np.nan

    def on_the_way(self, direction: str) -> Numeric:
        """Return the bytes of a number on its way to an expert (``dispatch``) or back (``combine``).

        >>> float(BF16.on_the_way("dispatch")), float(replace(BF16, dispatch=1).on_the_way("dispatch"))
        (2.0, 1.0)
        """
        given = np.asarray(getattr(self, direction), np.float64)
        blank = np.isnan(given)
        return self.comm if blank.all() else np.where(blank, self.comm, given)

    def held(self, shards: Mask) -> Formats:
        """Return the formats of what a device holds, where the shards of weights are the optimizer's copy.

        >>> held = BF16.held(np.asarray(True))
        >>> float(held.weight), float(held.grad), float(held.master)
        (4.0, 4.0, 0.0)
        """
        if not shards.any():
            return self
        full = np.maximum(self.weight, self.master)
        return replace(
            self,
            weight=np.where(shards, full, self.weight),
            grad=np.where(shards, np.maximum(self.grad, full), self.grad),
            master=np.where(shards, 0.0, self.master),
        )


BF16 = Formats()


def make_formats(
    precision: Code,
    comm: Code,
    grad: Code,
    accumulate: Code,
    optimizer: Code,
    dispatch: Code = NONE,
    combine: Code = NONE,
) -> Formats:
    """Return the bytes of a run in these formats, codes of `comp_comm.choices.Precision` (-1: not given).

    FP8 is a format of GEMM operands: what is kept and sent has 16 bits. 32-bit weights need no master copy.

    >>> fp8 = make_formats(Precision.FP8, NONE, Precision.FP32, NONE, Precision.FP32)
    >>> float(fp8.weight), float(fp8.grad)
    (2.0, 4.0)
    """
    operand = Precision.look_up("size", precision)
    kept = np.maximum(operand, 2.0)
    return Formats(
        operand=operand,
        activation=kept,
        comm=_given(comm, kept),
        weight=kept,
        grad=_given(grad, kept),
        accumulate=_given(accumulate, 0.0),
        moment=_given(optimizer, 4.0),
        master=np.where(kept < 4, 4.0, 0.0),
        dispatch=_given(dispatch, np.nan),
        combine=_given(combine, np.nan),
    )


def _given(code: Code, otherwise: Numeric) -> Array:
    number = np.asarray(code, np.intp)
    return np.asarray(np.where(number == NONE, otherwise, Precision.look_up("size", np.maximum(number, 0))))
