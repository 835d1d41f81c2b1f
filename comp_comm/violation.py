"""A rule that some points break."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from comp_comm.formulas.arrays import Mask, Numeric, somewhere
from comp_comm.structs import struct

NO_ROOM = "does not fit: memory exceeds that of the device"


@struct
class Violation:
    """A rule that some points break: where (True is broken), why, and which fields it is about.

    ``wrong`` says whether fixed values that break it are a mistake of the study; that something does not fit into
    memory is none, only infeasible.
    """

    broken: Mask
    reason: str
    fields: tuple[str, ...] = ()
    wrong: bool = True


def rule(broken: Mask | bool, reason: str, *fields: str) -> Violation:
    """Return the violation of a rule about some fields.

    >>> rule(True, "tp is too large", "tp").fields
    ('tp',)
    """
    return Violation(np.asarray(broken), reason, fields)


def divides(divisor: Numeric, number: Numeric, names: tuple[str, str]) -> Violation:
    """Return the violation of ``divisor`` dividing ``number``; ``names`` are the two fields'.

    >>> divides([2, 3], 8, ("tp", "hidden")).broken
    array([False,  True])
    """
    broken = np.asarray(np.mod(number, divisor) != 0)
    return Violation(broken, f"{names[0]} does not divide {names[1]}", names)


def no_room(needed: Numeric, capacity: Numeric) -> Violation:
    """Return the violation of the memory of a device holding what is needed."""
    return Violation(np.asarray(np.greater(needed, capacity)), NO_ROOM, ("memory_capacity",), wrong=False)


def blank_number(key: str, where: Mask, name: str, needs: str = "") -> Violation:
    """Return the rule that a number of the profile is known, which the field or group ``name`` needs.

    ``key`` is empty where no tier connects the group; ``needs`` says who needs it, where that is not ``name``.

    >>> blank_number("memory.bandwidth", np.asarray(True), "hardware", "this step").reason
    'memory.bandwidth is blank in the hardware profile, and this step needs it'
    """
    reason = f"{key} is blank in the hardware profile, and {needs or name} needs it"
    return Violation(np.asarray(where), reason if key else f"no network tier reaches as far as {name}", (name,))


def broken_rules(rules: Iterable[Violation]) -> list[Violation]:
    """Return the rules that some points break."""
    return [rule for rule in rules if somewhere(rule.broken)]


def one_a_reason(rules: Iterable[Violation]) -> list[Violation]:
    """Return rules that some points break, those of the same reason as one, broken wherever any of them is.

    >>> one, = one_a_reason([rule(True, "no way", "ep"), rule(False, "no way", "ep"), rule(False, "other")])
    >>> one.reason, bool(one.broken)
    ('no way', True)
    """
    first: dict[str, Violation] = {}
    for each in broken_rules(rules):
        known = first.get(each.reason)
        first[each.reason] = each if known is None else replace(known, broken=known.broken | each.broken)
    return list(first.values())
