"""A layout as two papers have it: how tensor parallelism is done, and how many of each group share a domain."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from comp_comm.choices import Formulas, Strategy
from comp_comm.formulas.arrays import Array, Numeric, to_float
from comp_comm.structs import struct

UNKNOWN = float("nan")


class Inside(NamedTuple):
    """How many devices of each group are in one domain."""

    tp1: Array
    tp2: Array
    dp: Array
    pp: Array

    @property
    def product(self) -> Array:
        """Devices of a domain that the groups take."""
        return self.tp1 * self.tp2 * self.dp * self.pp


@struct
class Mesh:
    """What `foundation_models` and `amped` ask beside a layout; names and meanings are those of the field table.

    Choices are codes; a number that is not given is NaN until `placed` fills it in.
    """

    strategy: Numeric = Strategy.ONE_D
    tp1: Numeric = 1
    tp2: Numeric = 1
    summa_panels: Numeric = UNKNOWN
    nvs: Numeric = UNKNOWN
    nv_tp1: Numeric = UNKNOWN
    nv_tp2: Numeric = UNKNOWN
    nv_dp: Numeric = UNKNOWN
    nv_pp: Numeric = UNKNOWN
    formulas: Numeric = Formulas.AS_PUBLISHED
    bubble_ratio: Numeric = UNKNOWN
    zero_overhead: Numeric = 0.0

    @property
    def inside(self) -> Inside | None:
        """How many devices of each group are in one domain, where all four are given."""
        given = Inside(*(to_float(part) for part in (self.nv_tp1, self.nv_tp2, self.nv_dp, self.nv_pp)))
        return None if any(np.isnan(part).any() for part in given) else given


def placed(mesh: Mesh, groups: tuple[Numeric, Numeric, Numeric, Numeric], domain: Numeric) -> Inside:
    """Return the devices of each group that share a domain of ``domain`` devices: as given, else TP first, then DP.

    ``groups`` are the sizes of TP (both of its groups), DP and PP. A group that is not given takes what is left of the
    domain as far as its size has that factor.

    >>> [float(part) for part in placed(Mesh(nv_pp=2), (4, 1, 8, 16), 16)]
    [4.0, 1.0, 2.0, 2.0]
    """
    given = [to_float(part) for part in (mesh.nv_tp1, mesh.nv_tp2, mesh.nv_dp, mesh.nv_pp)]
    left = to_float(domain)
    for part in given:
        left = left / np.where(np.isnan(part), 1.0, part)
    inside = []
    for part, size in zip(given, groups, strict=True):
        blank = np.isnan(part)
        common = to_float(np.gcd(_integer(left), _integer(size))) if blank.any() else to_float(1.0)
        inside.append(np.where(blank, common, part) if blank.any() else part)
        left = left / np.where(blank, common, 1.0)
    return Inside(*inside)


def _integer(value: Numeric) -> NDArray[np.int64]:
    """Return whole numbers as integers, 1 for what is none."""
    number = to_float(value)
    return np.where(np.isfinite(number) & (number >= 1), np.floor(number), 1.0).astype(np.int64)
