"""A calibration from logs to errors: read, fit or only check, and say what was done with every row."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from comp_comm.calibration.applies import applies_to
from comp_comm.calibration.check import error_rows, errors_by_size, predictions, relative_errors
from comp_comm.calibration.fit import FOLDS, Fit, fit_profile, held_out, split
from comp_comm.calibration.measurements import OPERATORS, Log, operator_of
from comp_comm.calibration.placement import tiers_of
from comp_comm.calibration.profile_file import profile_text, source_texts
from comp_comm.calibration.samples import HALVES, Sample, make_samples
from comp_comm.configs.hardware_file import load_profile
from comp_comm.errors import ConfigError, nearest, one_of
from comp_comm.formulas.arrays import Array
from comp_comm.hardware.profile import NAMED_KERNELS, Profile
from comp_comm.kernel_choices import AttentionKernel
from comp_comm.records import Record, Records
from comp_comm.units import UNITS, format_quantity

AT_BOUND = 1e-3  # as near to its bound, a number ended there


@dataclass
class Calibration:
    """What a calibration or a check found: errors, the fit (none for a check), and what to say of the rows."""

    profile: Profile
    precision: str
    rows: Records
    by_size: Records
    samples: Sequence[Sample]
    predicted: Sequence[Array]
    kept: Sequence[NDArray[np.bool_]]
    how: str
    fit: Fit | None = None
    notes: list[str] = field(default_factory=list)

    def meta(self) -> Record:
        """Return what the answer says of itself: the profile, how errors were found, and the fitted numbers."""
        about: Record = {"hardware": self.profile.name, "precision": self.precision, "errors": self.how}
        if self.fit is not None:
            about["fitted"] = {
                key: {"value": float(f"{number.value:.6g}"), "unit": _unit(self.fit.profile, key),
                      "within_factor": round(number.within, 4) if np.isfinite(number.within) else None,
                      "applies_to": applies_to(key, self.fit.profile, self.precision)}
                for key, number in self.fit.values.items()
            }  # fmt: skip
            about["left"] = dict(self.fit.left)
        return about

    def profile_file(self, path: str, extends: str, logs: Sequence[str], date: str | None) -> str:
        """Return the fitted profile as the YAML of a file at ``path``; ``date`` is that of the logs, today if None.

        Raises ``ConfigError`` where nothing was fitted.
        """
        if self.fit is None:
            raise ConfigError(f"{path}: nothing was fitted")
        sources = source_texts(logs, self.rows, self.how)
        return profile_text(self.fit, extends, path, sources, date or datetime.date.today().isoformat())


def _unit(profile: Profile, key: str) -> str:
    kind = profile.numbers[key].kind
    return {"FLOP/s": "FLOP/s", "bytes/s": "bytes/s", "seconds": "s", "bytes": "bytes"}.get(kind, "")


def choose_precision(profile: Profile, asked: str | None) -> str:
    """Return the number format asked for, else the 16-bit one of a profile, else its first."""
    if asked is not None:
        profile.check_precision(asked)
        return asked
    return next((name for name in (*HALVES, *profile.precisions) if name in profile.precisions), "")


def check_logs(
    logs: Sequence[Log], hardware: str, precision: str | None = None, timing: str | None = None,
    operators: Sequence[str] = (), attention_kernel: str | None = None,
) -> Calibration:  # fmt: skip
    """Return how far a profile's predictions are from logs, nothing fitted; attention is that of the kernel named."""
    profile = _profile(hardware, attention_kernel)
    precision = choose_precision(profile, precision)
    samples, notes = _samples(logs, profile, precision, operators)
    predicted = predictions(profile, precision, samples, timing)
    kept = [np.ones(len(sample.seconds), np.bool_) for sample in samples]
    return _calibration(profile, precision, samples, predicted, kept, "of the profile as it is, nothing fitted", notes)


def calibrate_logs(
    logs: Sequence[Log], extends: str, precision: str | None = None, train: float | None = None, seed: int = 0,
    operators: Sequence[str] = (), attention_kernel: str | None = None,
) -> Calibration:  # fmt: skip
    """Return a profile fitted to logs, with errors on rows it was not fitted to.

    Without ``train`` all rows are fitted, and the errors are of fits that each leave one of five parts out; with it a
    share of the rows is fitted, and the errors are of the others. Where an attention kernel is named, attention fits
    its numbers; else those of the kernel that the device's stacks use.
    """
    profile = _profile(extends, attention_kernel)
    precision = choose_precision(profile, precision)
    samples, notes = _samples(logs, profile, precision, operators)
    all_rows = [np.ones(len(sample.seconds), np.bool_) for sample in samples]
    masks = all_rows if train is None else split(samples, train, seed)
    fit = fit_profile(profile, precision, samples, masks)
    if not fit.values:
        why = "\n".join(f"  {key}: {reason}" for key, reason in fit.left.items())
        raise ConfigError(f"the logs do not say enough to fit anything:\n{why}")
    if train is None:
        predicted, kept = held_out(fit, precision, samples, seed), all_rows
        how = f"held out: each row predicted by a fit without its part, one of {FOLDS}"
    else:
        predicted, kept = predictions(fit.profile, precision, samples), [~mask for mask in masks]
        how = f"held out: fitted on {100 * train:g} % of the rows, errors of the others"
    calibration = _calibration(profile, precision, samples, predicted, kept, how, [*notes, *_at_bounds(fit)])
    calibration.fit = fit
    return calibration


def _profile(name: str, attention_kernel: str | None) -> Profile:
    """Return a profile whose attention is that of a kernel; refused where the profile has no numbers of it."""
    profile = load_profile(name)
    if attention_kernel is None:
        return profile
    has = [kernel.word for kernel in NAMED_KERNELS if f"attention.{kernel.word}.efficiency" in profile.numbers]
    if attention_kernel not in has:
        raise ConfigError(f"--attention-kernel: {profile.name} has no numbers of '{attention_kernel}'"
                          f"{nearest(attention_kernel, has)}; it has: {', '.join(has) or 'none'}")  # fmt: skip
    code = replace(profile.numbers["timing.attention_kernel"], value=float(AttentionKernel.of(attention_kernel)))
    return replace(profile, numbers={**profile.numbers, "timing.attention_kernel": code})


def _at_bounds(fit: Fit) -> list[str]:
    """Return what to say of numbers that the fit would have taken further."""
    said = []
    for parameter in fit.used:
        value = fit.values[parameter.key].value
        bounds = [bound for bound in (parameter.low, parameter.high) if abs(value / bound - 1) < AT_BOUND]
        if bounds:
            kind = fit.profile.numbers[parameter.key].kind
            hint = "; is what it is a share of too low in the profile?" if bounds[0] == 1 else ""
            said.append(f"{parameter.key} ended at its bound, {_shown(bounds[0], kind)}: these rows ask for more{hint}")
    return said


def _samples(
    logs: Sequence[Log], profile: Profile, precision: str, operators: Sequence[str]
) -> tuple[list[Sample], list[str]]:
    unknown = sorted(set(operators) - set(OPERATORS))
    if unknown:
        raise ConfigError(f"--operator: there is no '{unknown[0]}' ({one_of(OPERATORS)})")
    rows = [row for log in logs for row in log.rows]
    chosen = [row for row in rows if not operators or operator_of(row) in operators]
    notes: list[str] = []
    tiers = tiers_of(profile)
    samples, left = make_samples(chosen, precision, tiers.domain, tiers, notes)
    left += Counter({"rows of other operators (--operator)": len(rows) - len(chosen)})
    notes += [f"left out {count:,}: {reason}" for reason, count in (+left).items()]
    if not samples:
        raise ConfigError("no row of the logs can be predicted: " + ("; ".join(notes) or "there are none"))
    return samples, notes


def _calibration(
    profile: Profile, precision: str, samples: Sequence[Sample], predicted: Sequence[Array],
    kept: Sequence[NDArray[np.bool_]], how: str, notes: list[str],
) -> Calibration:  # fmt: skip
    errors = [relative_errors(s, p)[mask] for s, p, mask in zip(samples, predicted, kept, strict=True)]
    rows, by_size = error_rows(samples, errors), errors_by_size(samples, errors, kept)
    return Calibration(profile, precision, rows, by_size, samples, predicted, kept, how, notes=notes)


def number_rows(calibration: Calibration) -> Records:
    """Return the fitted numbers for people: what it was, what it is, how well it is known, and of what it is."""
    if calibration.fit is None:
        return []
    rows = []
    for key, number in calibration.fit.values.items():
        kind = calibration.fit.profile.numbers[key].kind
        before = calibration.profile.value(key)
        rows.append({"number": key, "before": _shown(before, kind), "fitted": _shown(number.value, kind),
                     "within": f"x{number.within:.2f}" if np.isfinite(number.within) else None,
                     "applies to": applies_to(key, calibration.fit.profile, calibration.precision)})  # fmt: skip
    return rows


def _shown(value: float, kind: str) -> str | None:
    if not np.isfinite(value):
        return None
    short = float(f"{value:.4g}")
    return format_quantity(short, kind) if kind in UNITS and kind != "bytes" else f"{short:.4g}"


def select(text: Sequence[str]) -> dict[str, list[str]]:
    """Return the columns and values of ``--only COLUMN=VALUE``; several values of one column are alternatives.

    >>> select(["gpu=MI210", "op=softmax", "op=layernorm"])
    {'gpu': ['MI210'], 'op': ['softmax', 'layernorm']}
    """
    values_of: dict[str, list[str]] = {}
    for item in text:
        name, sign, value = item.partition("=")
        if not sign or not name.strip():
            raise ConfigError(f"--only {item}: write COLUMN=VALUE, for instance gpu=MI210")
        values_of.setdefault(name.strip().lower(), []).append(value)
    return values_of
