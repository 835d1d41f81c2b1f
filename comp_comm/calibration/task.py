"""What one operator's fit is asked: the rows it may use, and what they take with other numbers in a profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from comp_comm.calibration.parameters import with_numbers
from comp_comm.calibration.samples import Sample
from comp_comm.formulas.arrays import Array
from comp_comm.hardware.numbers import Hardware
from comp_comm.hardware.profile import Profile
from comp_comm.lazy import cached_property


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
    def _hardware(self) -> Hardware:
        return with_numbers(self.profile, {}).hardware(self.precision)

    def predict(self, numbers: Mapping[str, float]) -> Array:
        """Return the seconds of the rows, with other numbers in the profile."""
        hardware = with_numbers(self.profile, numbers).renewed(self._hardware, self.precision, numbers)
        return np.concatenate([sample.predict(hardware) for sample in self.samples])


def task_of(
    profile: Profile, precision: str, operator: str, samples: Sequence[Sample], masks: Sequence[NDArray[np.bool_]]
) -> Task:
    """Return the task of an operator: those rows of its samples that may be fitted, and that a mask selects."""
    chosen = [(s, s.fitted & mask) for s, mask in zip(samples, masks, strict=True) if s.operator == operator]
    return Task(profile, precision, [sample.part(mask) for sample, mask in chosen])
