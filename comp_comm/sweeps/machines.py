"""The hardware of a sweep as one table: a row for each profile, precision and timing that occurs.

Points pick rows of it by an integer code, so that a list of devices, precisions or presets is an axis like any other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comp_comm.errors import ConfigError
from comp_comm.field import Value
from comp_comm.hardware.evolution import evolution_rules, evolve
from comp_comm.hardware.numbers import FlashKernel, Hardware, Tier, Timing
from comp_comm.hardware.profile import BLANK, Profile
from comp_comm.records import Record
from comp_comm.structs import struct
from comp_comm.sweeps.nouns import fixed_number
from comp_comm.violation import Violation

BLANK_TIER = Tier(domain=float("inf"), bandwidth=BLANK, latency=0.0, efficiency=1.0)

Codes = NDArray[np.intp]


@struct
class Machines:
    """Rows of hardware numbers; ``missing`` says which field asks for a row that does not exist, and why."""

    rows: tuple[Hardware, ...]
    missing: tuple[tuple[int, str, str], ...]
    shape: tuple[int, int, int]

    def code(
        self, profile: NDArray[np.intp], precision: NDArray[np.intp], timing: NDArray[np.intp]
    ) -> NDArray[np.intp]:
        """Return the row of each combination of codes (arrays broadcast)."""
        _, precisions, timings = self.shape
        combined: NDArray[np.intp] = (np.asarray(profile, np.intp) * precisions + precision) * timings + timing
        return combined

    def pick(self, code: NDArray[np.intp]) -> Hardware:
        """Return the hardware of each code, as numbers with the codes' shape."""
        if len(self.rows) == 1:
            return self.rows[0]
        picked: Hardware = _stack(self.rows, np.asarray(code))
        return picked

    def violations(self, code: NDArray[np.intp]) -> tuple[Violation, ...]:
        """Return where a combination does not exist."""
        return tuple(Violation(np.asarray(code == row), reason, (name,)) for row, name, reason in self.missing)


@lru_cache(maxsize=32)
def build_machines(
    profiles: tuple[Profile, ...], precisions: tuple[str, ...], timings: tuple[str | None, ...]
) -> Machines:
    """Return the table of every combination: made once for the many grids over the same profiles."""
    rows: list[Hardware] = []
    missing: list[tuple[int, str, str]] = []
    tiers = max(len(profile.tiers) for profile in profiles) + 1
    for profile in profiles:
        for precision in precisions:
            for timing in timings:
                wrong = _missing(profile, precision, timing)
                missing += [(len(rows), name, reason) for name, reason in wrong.items()]
                # A refused row keeps numbers that exist, so that it is not refused for blanks as well.
                real = (profile.precisions[0], None) if wrong else (precision, timing)
                rows.append(_padded(profile.hardware(*real), tiers))
    return Machines(tuple(rows), tuple(missing), (len(profiles), len(precisions), len(timings)))


@lru_cache(maxsize=64)
def fixed_hardware(
    machines: Machines, domain: Value | None, factors: tuple[tuple[str, Value | None], ...]
) -> tuple[Hardware, tuple[Violation, ...]]:
    """Return the one machine of a table, evolved, and the rules broken: made once for all grids that do not move it."""
    code, size = np.asarray(0, np.intp), fixed_number(domain)
    (today,) = machines.rows
    scaled: Record = {name: fixed_number(factor) for name, factor in factors}
    broken = (*machines.violations(code), *evolution_rules(today, size, scaled.get("scale_out", 1)))
    return evolve(today, domain=size, **scaled), broken


def _missing(profile: Profile, precision: str, timing: str | None) -> dict[str, str]:
    """Return which of the two fields asks for what the profile does not have, and the reason."""
    wrong = {}
    checks: dict[str, Callable[[], object]] = {
        "precision": lambda: profile.check_precision(precision),
        "timing": lambda: profile.timing_name(timing),
    }
    for name, check in checks.items():
        try:
            check()
        except ConfigError as error:
            wrong[name] = str(error)
    return wrong


def _padded(hardware: Hardware, tiers: int) -> Hardware:
    """Return ``hardware`` with blank tiers beyond its outermost one: what no tier connects is not known."""
    return replace(hardware, tiers=hardware.tiers + (BLANK_TIER,) * (tiers - len(hardware.tiers)))


def _stack(rows: tuple[Any, ...], code: NDArray[np.intp]) -> Any:
    """Return one noun of arrays from many nouns of numbers, row ``code`` at each point."""
    first = rows[0]
    if isinstance(first, tuple):
        return tuple(_stack(tuple(row[i] for row in rows), code) for i in range(len(first)))
    if isinstance(first, (Hardware, Tier, Timing, FlashKernel)):
        return type(first)(**{
            item.name: _stack(tuple(getattr(row, item.name) for row in rows), code) for item in fields(first)
        })  # fmt: skip
    if isinstance(first, str):
        return " or ".join(dict.fromkeys(row for row in rows if row))
    column = np.asarray(rows, dtype=np.float64)
    # A number all rows share needs no axis.
    same = (column == column[0]).all() or np.isnan(column).all()
    return column[0] if same else column[code]
