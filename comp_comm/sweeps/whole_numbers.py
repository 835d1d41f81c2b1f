"""Whole numbers beside a solution that a study may have: the largest one below it and the smallest above."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from comp_comm.costmodels.layout_space import divisors
from comp_comm.fields import FIELDS
from comp_comm.formulas.arrays import Array, Mask, WholeArray, to_float, unwarned
from comp_comm.structs import struct
from comp_comm.sweeps.plan import Plan

DEGREES = ("tp", "micro_batch")  # they divide something; sizes are multiples of something
DIVIDED = ("hidden", "heads", "kv_heads", "gpus", "global_batch")
BOUNDING = (*DIVIDED, *DEGREES, "cp")  # fields that say which whole numbers are valid
NEAR = 8  # whole numbers on either side that are tried in any case
AT_ONCE = 2**17  # points
Table = Callable[[WholeArray, Array], Plan]  # of the solutions with these numbers, each with a value of the field


@struct
class Beside:
    """Valid whole numbers below and above solutions, NaN where there is none; whether the device holds those."""

    below: Array
    above: Array
    fits: Array


def beside(field: str, solved: Array, numbers: Mapping[str, Array], table: Table) -> Beside:
    """Return the valid whole numbers next to each solution.

    ``numbers`` are the fields of each solution that bound what is valid, 0 or NaN where they are not given; ``table``
    makes the plan in which every candidate is tried.
    """
    below, above, fits = np.full(solved.shape, np.nan), np.full(solved.shape, np.nan), np.zeros(solved.shape)
    listed = [_candidates(field, float(value), {name: float(given[i]) for name, given in numbers.items()})
              for i, value in enumerate(solved)]  # fmt: skip
    for owners, values in _tables(listed):
        valid, holds = _checked(table(owners, values), len(values))
        lower, upper = (valid & (side >= -1e-9 * values) for side in (solved[owners] - values, values - solved[owners]))
        np.fmax.at(below, owners[lower], values[lower])
        np.fmin.at(above, owners[upper], values[upper])
        chosen = valid & ((values == below[owners]) | (values == above[owners]))
        np.maximum.at(fits, owners[chosen], holds[chosen].astype(float))
    return Beside(below, above, fits)


def _candidates(field: str, solved: float, numbers: Mapping[str, float]) -> list[int]:
    """Return whole numbers around a solution, of which the nearest valid ones are some.

    >>> _candidates("micro_batch", 11.0, {"global_batch": 100})[:4], _candidates("seq_len", 100.0, {"tp": 64})[-1]
    ([1, 2, 3, 4], 128)
    """
    given = {name: int(number) for name, number in numbers.items() if number >= 1}
    found = {math.floor(solved) + i for i in range(-NEAR, NEAR + 2)}
    if field in DEGREES:
        for number in {given[name] for name in DIVIDED if name in given}:
            found |= set(divisors(number).tolist())
    else:
        factors = [given.get("tp", 1), given.get("cp", 1), given.get("heads", 1) if field == "hidden" else 1, 2]
        for parts in itertools.product(*((1, factor) for factor in factors)):
            for step in (math.lcm(*parts), math.prod(parts)):  # of 8 by TP, of what CP leaves: 32 of both
                found |= {math.floor(solved / step) * step + i * step for i in (0, 1)}
    return sorted(number for number in found if 1 <= number <= FIELDS[field].high)


def _tables(listed: Sequence[Sequence[int]]) -> list[tuple[WholeArray, Array]]:
    """Return all candidates with the number of the solution that each is of, in tables that a block has room for.

    >>> [values.tolist() for _, values in _tables([[1, 2], [3]])]
    [[1.0, 2.0, 3.0]]
    """
    tables: list[list[int]] = [[]]
    points = 0
    for owner, values in enumerate(listed):
        if points + len(values) > AT_ONCE:
            tables.append([])
            points = 0
        tables[-1].append(owner)
        points += len(values)
    return [(np.repeat(owners, [len(listed[i]) for i in owners]), to_float([v for i in owners for v in listed[i]]))
            for owners in tables if owners]  # fmt: skip


def _checked(plan: Plan, points: int) -> tuple[Mask, Mask]:
    """Return which points break no rule, and which fit into the memory of their device."""
    valid, fits = np.ones(points, bool), np.ones(points, bool)
    with unwarned():
        violations = plan.evaluate((slice(0, points),)).violations
    for violation in violations:
        if violation.wrong:
            valid &= ~np.broadcast_to(violation.broken, points)
        else:
            fits &= ~np.broadcast_to(violation.broken, points)
    return valid, fits
