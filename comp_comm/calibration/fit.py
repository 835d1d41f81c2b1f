"""The fit of a profile's timing numbers to measured rows, and what the rows cannot tell.

Operator by operator: the numbers of GEMMs from GEMMs, those of the network from collectives. A number that no row
depends on, or that the rows do not tell apart from the others, stays as the profile has it, and is named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from comp_comm.calibration.least_squares import ENOUGH, Solution, minimise, spreads
from comp_comm.calibration.parameters import (
    Parameter,
    collective_parameters,
    kernel_parameters,
    start_of,
    usual_value,
    with_numbers,
)
from comp_comm.calibration.samples import Sample
from comp_comm.calibration.task import Task, task_of
from comp_comm.formulas.arrays import Array, to_float
from comp_comm.hardware.profile import Profile

FOLDS = 5
ROWS_PER_PARAMETER = 3
TOO_WIDE = 0.5  # standard error of a logarithm from which a number is not known: a factor of 1.6
UNKNOWN = float(np.log(100))  # from which it says nothing: the number only matters together with others
ROUGHLY = 1e-3  # of the cost: a step that gains less ends a fit that only ranks
LIKELY = 3  # sizes of a switch that are fitted to all rows
SWITCHES = tuple(2.0**power for power in np.arange(16, 24.5, 0.5))


@dataclass(frozen=True)
class Fitted:
    """A number found: its value, the factor it is known within (one standard error), and the operator that told it.

    The factor is infinite where it would be above 100: the fit needs the number, but hardly minds which it is.
    """

    value: float
    within: float
    operator: str


@dataclass
class Fit:
    """A profile with fitted numbers, what they are, and what was left as it was, with the reason."""

    profile: Profile
    values: dict[str, Fitted] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)
    used: list[Parameter] = field(default_factory=list)


def fit_profile(profile: Profile, precision: str, samples: Sequence[Sample], masks: Sequence[NDArray[np.bool_]]) -> Fit:
    """Return a profile fitted to the rows that ``masks`` select, of those that a fit may use.

    Examples
    --------
    >>> from comp_comm.calibration.measurements import ElementwiseRow
    >>> from comp_comm.calibration.samples import make_samples
    >>> from comp_comm.configs.hardware_file import load_profile
    >>> rows = [ElementwiseRow(5e-6 + 4.0 * n * 4096 / 1e12, "bf16", 0, "gelu", n, 4096) for n in range(1, 4000, 50)]
    >>> samples, _ = make_samples(rows, "bf16", domain=8)
    >>> found = fit_profile(load_profile("a100-sxm-80gb"), "bf16", samples, [samples[0].fitted])
    >>> {key: float(f"{number.value:.3g}") for key, number in found.values.items()}
    {'timing.stream_efficiency': 0.49, 'timing.stream_latency': 5e-06}
    """
    result = Fit(with_numbers(profile, {}))
    for operator in dict.fromkeys(sample.operator for sample in samples):
        task = task_of(result.profile, precision, operator, samples, masks)
        candidates = _candidates(result.profile, operator, task)
        if not len(task.measured):
            result.left |= dict.fromkeys((p.key for p in candidates), "no row is fit for it")
            continue
        _fit_operator(result, task, candidates)
        if operator == "collective":
            inside = collective_parameters(result.profile, True, False)
            keys = (p.key for p in inside if not p.extra and p not in candidates)
            result.left |= dict.fromkeys(keys, "no row is in a domain")
    return result


def _candidates(profile: Profile, operator: str, task: Task) -> tuple[Parameter, ...]:
    if operator != "collective":
        return kernel_parameters(profile, operator)
    hit = {name: any(bool(s.sizes[f"{size} {name}"].any()) for s in task.samples for size in (">= 1 MiB", "< 1 MiB"))
           for name in ("in a domain", "across domains")}  # fmt: skip
    return collective_parameters(profile, hit["in a domain"], hit["across domains"])


def _fit_operator(result: Fit, task: Task, candidates: Sequence[Parameter]) -> None:
    """Fit what the rows identify, and then what else they ask for."""
    plain = [p for p in candidates if not p.extra or task.profile.value(p.key, 0.0) > 0]
    solution, used, reasons = _identified(task, plain, {})
    fixed: dict[str, float] = {}
    extras = [p for p in candidates if p not in plain]
    more = _with_extras(task, used, solution, extras)
    if more is not None:
        solution, used, fixed = more
    if not used:
        result.left |= reasons
        return
    widths = spreads(solution)
    result.used += used
    result.values |= {
        p.key: Fitted(float(np.exp(x)), float(np.exp(width)) if width < UNKNOWN else np.inf, task.samples[0].operator)
        for p, x, width in zip(used, solution.x, widths, strict=True)
    }
    result.values |= {key: Fitted(value, 2**0.25, "collective") for key, value in fixed.items()}
    result.left |= {key: why for key, why in reasons.items() if key not in result.values}
    result.left |= {p.key: "the rows are no better with it" for p in extras if p.key not in result.values}
    result.profile = with_numbers(result.profile, {key: fitted.value for key, fitted in result.values.items()})


def _solve(
    task: Task, used: Sequence[Parameter], fixed: dict[str, float], start: Array | None = None, enough: float = ENOUGH
) -> Solution:
    """Return the best fit from the profile's numbers, and from the usual ones; or from ``start`` alone."""
    low, high = (np.log([getattr(p, side) for p in used]) for side in ("low", "high"))

    def predict(x: Array) -> Array:
        return task.predict({**fixed, **{p.key: np.exp(value) for p, value in zip(used, x, strict=True)}})

    firsts = [start] if start is not None else [
        np.log([start_of(task.profile, p) for p in used]), np.log([p.start for p in used])
    ]  # fmt: skip
    return min((minimise(predict, task.measured, to_float(first), low, high, enough) for first in firsts),
               key=lambda solution: solution.cost)  # fmt: skip


def _identified(
    task: Task, candidates: Sequence[Parameter], fixed: dict[str, float]
) -> tuple[Solution, list[Parameter], dict[str, str]]:
    """Return the fit of those candidates that the rows identify, and why the others are left.

    One that is known badly is left as the profile has it, unless the fit is clearly worse for it.
    """
    used, rows = list(candidates), len(task.measured)
    reasons: dict[str, str] = {}
    kept = {p.key: usual_value(task.profile, p) for p in used}
    needed: set[str] = set()
    solution = _solve(task, used, fixed)
    while used:
        widths = np.where([p.key in needed for p in used], 0.0, spreads(solution))
        worst = int(np.argmax(widths))
        fewer, why = used[:worst] + used[worst + 1 :], _reason(widths[worst], len(used), rows)
        if why is None:
            break
        there = {key: kept[key] for key in (*reasons, used[worst].key)}
        trial = _solve(task, fewer, {**fixed, **there})
        if len(used) * ROWS_PER_PARAMETER <= rows and np.isfinite(widths[worst]) and _better(solution, trial, 1):
            needed.add(used[worst].key)
            continue
        reasons[used[worst].key] = why
        used, solution = fewer, trial
    return solution, used, reasons


def _reason(width: float, numbers: int, rows: int) -> str | None:
    """Return why the number that is known worst should be left, None where it need not be."""
    if numbers * ROWS_PER_PARAMETER > rows:
        return f"{rows} rows are too few to fit {numbers} numbers"
    if not np.isfinite(width):
        return "no row depends on it"
    return "the rows do not tell it apart from the other numbers" if width > TOO_WIDE else None


def _better(one: Solution, other: Solution, numbers: int) -> bool:
    """Return whether a fit is better than another with fewer numbers, by more than chance (Schwarz's criterion)."""
    rows = len(one.residuals)
    return one.cost > 0 and rows * float(np.log(other.cost / one.cost)) > numbers * float(np.log(rows))


def _with_extras(
    task: Task, used: Sequence[Parameter], plain: Solution, extras: Sequence[Parameter]
) -> tuple[Solution, list[Parameter], dict[str, float]] | None:
    """Return the fit with further numbers, where they lessen the cost by more than chance would; else None."""
    rows = len(plain.residuals)
    candidates = [*used, *extras]
    sizes = _switches(task, candidates)
    if not used or (not extras and len(sizes) == 1) or rows < ROWS_PER_PARAMETER * (len(candidates) + 1):
        return None
    start = np.concatenate([plain.x, np.log([p.start for p in extras])])
    likely = _likely(task, candidates, sizes, start)
    tried = [(_solve(task, candidates, fixed, first), fixed) for fixed, first in likely]
    best, fixed = min(tried, key=lambda item: item[0].cost)
    wide = spreads(best)
    kept = [p for p, width in zip(candidates, wide, strict=True) if p in used or width <= TOO_WIDE]
    if len(kept) < len(candidates):
        places = [candidates.index(p) for p in kept]
        best = _solve(task, kept, fixed, best.x[places])
    added = len(kept) - len(used) + len(fixed)
    return (best, kept, fixed) if added and _better(best, plain, added) else None


def _likely(
    task: Task, candidates: Sequence[Parameter], sizes: Sequence[dict[str, float]], start: Array
) -> list[tuple[dict[str, float], Array]]:
    """Return the sizes of a switch that fit a part of the rows best, roughly, and where a fit to all should start."""
    if len(sizes) <= LIKELY:
        return [(fixed, start) for fixed in sizes]
    rough: list[tuple[Solution, dict[str, float]]] = []
    for fixed in sizes:  # from the best so far: sizes beside each other fit alike
        first = min(rough, key=lambda item: item[0].cost)[0].x if rough else start
        rough.append((_solve(task.few, candidates, fixed, first, ROUGHLY), fixed))
    rough.sort(key=lambda item: item[0].cost)
    return [(fixed, solution.x) for solution, fixed in rough[:LIKELY]]


def _switches(task: Task, candidates: Sequence[Parameter]) -> list[dict[str, float]]:
    """Return the sizes to try at which groups in a domain change protocol; the first is the profile's own."""
    inner = f"network.{task.profile.tiers[0]}"
    if not any(p.key == f"{inner}.bulk_latency" for p in candidates):
        return [{}]
    inside = any(bool(sample.sizes[">= 1 MiB in a domain"].any()) for sample in task.samples)
    return [{}, *({f"{inner}.switch_size": size} for size in SWITCHES)] if inside else [{}]


def split(samples: Sequence[Sample], share: float, seed: int) -> list[NDArray[np.bool_]]:
    """Return for each sample which of its rows a fit gets, a share of them drawn by ``seed``."""
    chance = np.random.default_rng(seed)
    return [chance.random(len(sample.seconds)) < share for sample in samples]


def held_out(fit: Fit, precision: str, samples: Sequence[Sample], seed: int, folds: int = FOLDS) -> list[Array]:
    """Return predictions of every row by a fit of the same numbers that did not see it.

    Each fold is left out of one fit. Which numbers are fitted, and the size at which a protocol changes, are those of
    ``fit``; their values are found anew.
    """
    chance = np.random.default_rng(seed)
    places = [chance.permutation(len(sample.seconds)) % folds for sample in samples]
    predicted = [np.full(len(sample.seconds), np.nan) for sample in samples]
    for fold in range(folds):
        again = refitted(fit, precision, samples, [place != fold for place in places]).hardware(precision)
        for sample, place, values in zip(samples, places, predicted, strict=True):
            out = place == fold
            values[out] = sample.predict.of(out)(again)
    return predicted


def refitted(fit: Fit, precision: str, samples: Sequence[Sample], masks: Sequence[NDArray[np.bool_]]) -> Profile:
    """Return the profile with the numbers of a fit found anew, from other rows, each operator's from its own."""
    numbers: dict[str, float] = {}
    for operator in dict.fromkeys(sample.operator for sample in samples):
        task = task_of(fit.profile, precision, operator, samples, masks)
        used = [p for p in fit.used if p.key in fit.values and p in _candidates(fit.profile, operator, task)]
        if used and len(task.measured) > len(used):
            start = np.log([fit.values[p.key].value for p in used])
            solution = _solve(task, used, {}, start)
            numbers |= {p.key: float(np.exp(x)) for p, x in zip(used, solution.x, strict=True)}
    return with_numbers(fit.profile, numbers)
