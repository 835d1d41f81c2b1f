"""How far predictions are from what was measured, by operator and by size."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from comp_comm.calibration.samples import Sample
from comp_comm.errors import ConfigError
from comp_comm.formulas.arrays import Array
from comp_comm.hardware.profile import Profile
from comp_comm.records import Record, Records

PLACES = 6


def relative_errors(sample: Sample, predicted: Array) -> Array:
    """Return predicted over measured seconds, less 1."""
    return predicted / sample.seconds - 1


def predictions(profile: Profile, precision: str, samples: Sequence[Sample], timing: str | None = None) -> list[Array]:
    """Return what a profile predicts for each sample. Raises ``ConfigError`` where a number it needs is blank."""
    hardware = profile.hardware(precision, timing)
    predicted = [sample.predict(hardware) for sample in samples]
    for sample, seconds in zip(samples, predicted, strict=True):
        if not np.all(np.isfinite(seconds)):
            name = sample.collective or sample.operator
            raise ConfigError(
                f"{profile.name} cannot time {name}: a number of its timing or network that some row needs is blank or "
                "missing (compcomm hardware show)"
            )
    return predicted


def error_rows(samples: Sequence[Sample], errors: Sequence[Array]) -> Records:
    """Return a record for each operator and collective, all sizes together."""
    return [_record({"operator": s.operator, "collective": s.collective or None}, e)
            for s, e in zip(samples, errors, strict=True) if len(e)]  # fmt: skip


def errors_by_size(samples: Sequence[Sample], errors: Sequence[Array], kept: Sequence[NDArray[np.bool_]]) -> Records:
    """Return a record for each operator, collective and group of sizes that has rows."""
    records = []
    for sample, error, rows in zip(samples, errors, kept, strict=True):
        for name, mask in sample.sizes.items():
            chosen = mask[rows]
            if chosen.any():
                first = {"operator": sample.operator, "collective": sample.collective or None, "size": name}
                records.append(_record(first, error[chosen]))
    return records


def _record(first: Record, errors: Array) -> Record:
    size = np.abs(errors)
    numbers = {"mean_abs_error": size.mean(), "median_abs_error": np.median(size),
               "p90_abs_error": np.percentile(size, 90), "bias": np.median(errors)}  # fmt: skip
    return {**first, "n": len(errors), **{name: round(float(value), PLACES) for name, value in numbers.items()}}
