"""What one operator's fit is asked: the rows it may use, and what they take with other numbers in a profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from comp_comm.calibration.parameters import with_numbers
from comp_comm.calibration.samples import Sample
from comp_comm.formulas.arrays import Array, Numeric
from comp_comm.hardware.numbers import Hardware
from comp_comm.hardware.profile import Profile
from comp_comm.hardware.stacked import stacked
from comp_comm.lazy import cached_property

FEW_ROWS = 2000  # as many say well enough which of several fits is likely the best
AT_ONCE = 2**16  # seconds that are predicted together: what stays in a cache


@dataclass(frozen=True)
class Task:
    """The rows of one operator that a fit may use, as samples, and a profile in one precision."""

    profile: Profile
    precision: str
    samples: Sequence[Sample]

    @cached_property
    def measured(self) -> Array:
        """Seconds of the rows."""
        return np.concatenate([sample.seconds for sample in self.samples])

    @cached_property
    def few(self) -> Task:
        """The task with few of its rows, drawn by chance, where it has many."""
        share = FEW_ROWS / max(len(self.measured), 1)
        if share > 0.5:
            return self
        chance = np.random.default_rng(0)
        drawn = [sample.part(chance.random(len(sample.seconds)) < share) for sample in self.samples]
        return replace(self, samples=drawn)

    @cached_property
    def _own(self) -> tuple[Profile, Hardware]:
        profile = with_numbers(self.profile, {})
        return profile, profile.hardware(self.precision)

    def predict(self, numbers: Mapping[str, Numeric]) -> Array:
        """Return the seconds of the rows, with other numbers in the profile; of arrays (K, 1), K rows of seconds."""
        count = max((np.size(value) for value in numbers.values() if np.ndim(value)), default=0)
        if not count:
            other = {key: float(value) for key, value in numbers.items()}
            seconds: Array = self._seconds(self._with(self._own, other)[1])[0]
            return seconds
        columns = {key: np.broadcast_to(np.ravel(value), count).tolist() for key, value in numbers.items()}
        sets = [{key: column[place] for key, column in columns.items()} for place in range(count)]
        first = self._with(self._own, sets[0])
        each = [self._with(first, {key: value for key, value in numbers.items() if value != sets[0][key]})[1]
                for numbers in sets]  # fmt: skip
        together = max(AT_ONCE // max(len(self.measured), 1), 1)
        parts = [each[place : place + together] for place in range(0, count, together)]
        return np.concatenate([self._seconds(stacked(part, axes=2), len(part)) for part in parts])

    def _with(self, base: tuple[Profile, Hardware], numbers: Mapping[str, float]) -> tuple[Profile, Hardware]:
        """Return a profile and its hardware, ``base`` with other numbers."""
        if not numbers:
            return base
        profile = with_numbers(base[0], numbers)
        return profile, profile.renewed(base[1], self.precision, numbers)

    def _seconds(self, hardware: Hardware, sets: int = 1) -> Array:
        parts = [np.broadcast_to(sample.predict(hardware), (sets, len(sample.seconds))) for sample in self.samples]
        return np.concatenate(parts, axis=1)


def task_of(
    profile: Profile, precision: str, operator: str, samples: Sequence[Sample], masks: Sequence[NDArray[np.bool_]]
) -> Task:
    """Return the task of an operator: those rows of its samples that may be fitted, and that a mask selects."""
    chosen = [(s, s.fitted & mask) for s, mask in zip(samples, masks, strict=True) if s.operator == operator]
    return Task(profile, precision, [sample.part(mask) for sample, mask in chosen])
