"""What runs of other groups say of a run: intervals of predictions, and what calibration on one or three runs gains.

Groups are kept apart as wholes (a group is one source, which is one machine and one software as a rule): rows of one
group resemble each other, and a split by row would flatter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from comp_comm.formulas.arrays import Array
from comp_comm.records import Record, Records
from comp_comm.sweeps.interval import has_device
from comp_comm.validation.machine_fit import LAMBDA, LAMBDA_OF_MODEL
from comp_comm.validation.predict import Prediction, predict_points
from comp_comm.validation.summary import arch_of

SHARE = 0.8  # of the runs that an interval is to hold
# Runs of one group resemble each other: a group counts as many as the root of its runs.
GROUP_POWER = 0.5
MOST_RUNS = 3  # that a machine is calibrated on: one with more is judged
FACTORS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.12, 1.25, 1.45)  # of what a machine sustains
MOST_DRAWS = 60  # of runs to calibrate on, of one machine


@dataclass(frozen=True)
class Interval:
    """Factors on a predicted step that hold it at `SHARE`: what they are for, of how many runs, and what they held.

    ``later_held`` of ``later`` runs that were found when it had been made, on such devices, were within.
    """

    arch: str
    machine: str
    low: float
    high: float
    rows: int
    groups: int
    held: float
    devices: tuple[str, ...] = ()
    later: int = 0
    later_held: int = 0

    def record(self) -> Record:
        """Return it as a row of the shipped table."""
        numbers = {name: round(getattr(self, name), 4) for name in ("low", "high", "held")}
        return {"arch": self.arch, "machine": self.machine, **numbers, "rows": self.rows, "groups": self.groups,
                "devices": " ".join(self.devices), "later": self.later, "later_held": self.later_held}  # fmt: skip


def log_ratio(one: Prediction) -> float:
    """Return the logarithm of measured over predicted seconds."""
    return -float(np.log1p(one.error or 0.0))


def weighted_quantiles(values: Array, weights: Array, at: Sequence[float]) -> Array:
    """Return quantiles of weighted values: between the values' middles, as Hazen's.

    >>> weighted_quantiles(np.array([3.0, 1.0, 2.0]), np.ones(3), [0.5])
    array([2.])
    """
    order = np.argsort(values)
    share = np.cumsum(weights[order])
    middles = (share - weights[order] / 2) / share[-1]
    return np.asarray(np.interp(at, middles, values[order]))


def interval(ratios: Array, owners: Sequence[str], share: float = SHARE) -> tuple[float, float]:
    """Return the logarithms between which the middle ``share`` of the ratios lie; ``owners`` are their groups."""
    sizes = Counter(owners)
    weights = np.asarray([sizes[owner] ** (GROUP_POWER - 1) for owner in owners])
    ends = weighted_quantiles(ratios, weights, ((1 - share) / 2, (1 + share) / 2))
    return float(ends[0]), float(ends[1])


def held_out_interval(
    arch: str, machine: str, predictions: Sequence[Prediction], owner: Callable[[Prediction], str]
) -> Interval:
    """Return the interval of all runs, with the share of them that the intervals of other owners' runs held.

    The middle share is widened until that of the held-out runs is `SHARE`: a new group differs more than a new run.
    """
    ratios = np.asarray([log_ratio(one) for one in predictions])
    owners = [owner(one) for one in predictions]
    share, held = _widened(ratios, owners)
    low, high = interval(ratios, owners, share)
    return Interval(arch, machine, float(np.exp(low)), float(np.exp(high)), len(owners), len(set(owners)), held)


def _widened(ratios: Array, owners: list[str]) -> tuple[float, float]:
    collected = [(share, _held(ratios, owners, share)) for share in np.arange(SHARE, 0.981, 0.02)]
    return min(collected, key=lambda each: abs(each[1] - SHARE))


def _held(ratios: Array, owners: list[str], share: float) -> float:
    """Return the share of runs within the interval of other owners' runs: the mean of all runs and of all owners."""
    names = np.asarray(owners)
    inside = np.zeros(len(owners))
    for name in set(owners):
        members = names == name
        if members.all():
            return float("nan")
        low, high = interval(ratios[~members], list(names[~members]), share)
        inside[members] = (ratios[members] >= low) & (ratios[members] <= high)
    return float(inside.mean())


class Responses:
    """How the steps of runs answer to what their machines sustain: evaluated once, at `FACTORS` of it."""

    def __init__(self, predictions: Sequence[Prediction]) -> None:
        self.predictions = [one for one in predictions if one.counted and one.point is not None]
        points = []
        for point in (one.point for one in self.predictions if one.point is not None):
            profile = point.machine.profile()
            sustained = float(np.max(profile.hardware(profile.precisions[0]).timing.sustained))
            points += [replace(point, fields={**point.fields, "sustained": min(1.5, factor * sustained)})
                       for factor in FACTORS]  # fmt: skip
        steps = np.asarray([one.predicted_s or np.nan for one in predict_points(points)])
        table = np.log(steps).reshape(len(self.predictions), len(FACTORS))
        middle = FACTORS.index(1.0)
        self.changes = table - table[:, [middle]]
        about = slice(middle - 1, middle + 2, 2)
        self.slopes = -np.diff(self.changes[:, about], axis=1)[:, 0] / float(np.diff(np.log(FACTORS)[about])[0])

    def machines(self, arch: str, model: bool) -> dict[str, list[int]]:
        """Return runs of one group on one device, which is one machine as far as sources say, or of a model there."""
        collected: dict[str, list[int]] = {}
        for place, one in enumerate(self.predictions):
            if arch_of(one) == arch:
                name = f"{one.run['group']} {one.run['gpu']}" + (f" {one.run['model_name']}" if model else "")
                collected.setdefault(name, []).append(place)
        return {name: places for name, places in collected.items() if len(places) > MOST_RUNS}

    def calibrated(self, count: int, arch: str, model: bool = False) -> list[tuple[float, str, int]]:
        """Return log ratios of runs after calibration on ``count`` others of their machine, the machine, and the run.

        With ``model`` the runs to calibrate on are of the same model as those that are judged.
        """
        strength = LAMBDA_OF_MODEL if model else LAMBDA[arch]
        return [
            (ratio, name, place)
            for name, places in self.machines(arch, model).items()
            for drawn in _draws(places, count)
            for place, ratio in self._after(places, drawn, strength)
        ]

    def _after(self, members: list[int], drawn: tuple[int, ...], strength: float) -> Iterator[tuple[int, float]]:
        ratios = {place: log_ratio(self.predictions[place]) for place in members}
        if not drawn:
            yield from ratios.items()
            return
        answer = self.slopes[list(drawn)]
        wanted = np.asarray([ratios[place] for place in drawn])
        # What `machine_fit` has as the maximum a posteriori, by slopes at the profile's own number.
        at = -float(answer @ wanted / (answer @ answer + strength))
        for place in members:
            if place not in drawn:
                yield place, ratios[place] - float(np.interp(at, np.log(FACTORS), self.changes[place]))


def _draws(places: list[int], count: int) -> list[tuple[int, ...]]:
    """Return runs to calibrate on: all choices of so many, or evenly chosen ones of them."""
    if not count:
        return [()]
    step = max(1, len(places) // MOST_DRAWS)
    starts = range(0, len(places), step)
    apart = max(1, len(places) // count)
    return [tuple(places[(start + i * apart) % len(places)] for i in range(count)) for start in starts][:MOST_DRAWS]


def calibration_records(responses: Responses) -> Records:
    """Return errors of the same machines with none of their runs, and calibrated on one and on three of them.

    Every judged run counts once, however many choices of runs to calibrate on it is judged after.
    """
    records = []
    for arch, model in (("dense", False), ("moe", False), ("moe", True)):
        for count in (0, 1, 3):
            collected = responses.calibrated(count, arch, model)
            if collected:
                words = (arch + model * ", of the same model", f"{count} run{'s' * (count != 1)}")
                records.append(_weighted_record(*words, [(ratio, place) for ratio, _, place in collected]))
    return records


def _weighted_record(by: str, value: str, judged: Sequence[tuple[float, int]]) -> Record:
    times = Counter(place for _, place in judged)
    errors = np.expm1([-ratio for ratio, _ in judged])
    weights = np.asarray([1 / times[place] for _, place in judged])
    median, p90 = weighted_quantiles(np.abs(errors), weights, (0.5, 0.9))
    bias = weighted_quantiles(errors, weights, (0.5,))[0]
    mean = np.average(np.abs(errors), weights=weights)
    return {"by": by, "value": value, "n": len(times), "median_abs_error": float(median),
            "mean_abs_error": float(mean), "p90_abs_error": float(p90), "bias": float(bias)}  # fmt: skip


def intervals(predictions: Sequence[Prediction], responses: Responses, later: Sequence[Prediction]) -> list[Interval]:
    """Return the intervals of dense models and mixtures: of devices with published runs, without, and calibrated.

    What is unknown is a device of which no run was seen when the model was made: runs of others, found ``later``, are
    such ones.
    """
    collected = []
    for arch in LAMBDA:
        members = [one for one in predictions if one.counted and arch_of(one) == arch]
        if not members:
            continue
        devices = tuple(sorted({one.point.machine.reference for one in members if one.point}))
        known = held_out_interval(arch, "published", members, lambda one: f"{one.run['group']} {one.run['release']}")
        found = [one for one in later if one.counted and arch_of(one) == arch]
        collected.append(_with_later(replace(known, devices=devices), found))
        collected.append(held_out_interval(arch, "unknown", [*members, *found], lambda one: one.run["gpu"]))
        after = responses.calibrated(1, arch)
        ratios, owners = np.asarray([ratio for ratio, *_ in after]), [owner for _, owner, _ in after]
        share, held = _widened(ratios, owners)
        low, high = interval(ratios, owners, share)
        collected.append(Interval(arch, "calibrated", float(np.exp(low)), float(np.exp(high)), len(after),
                              len(set(owners)), held))  # fmt: skip
    return collected


def _with_later(known: Interval, found: Sequence[Prediction]) -> Interval:
    """Return the interval with how many of the runs found later are on its devices, and how many of them within."""
    there = [one for one in found if one.point
             and any(has_device(one.point.machine.profile(), name) for name in known.devices)]  # fmt: skip
    held = [one for one in there if known.low <= np.exp(log_ratio(one)) <= known.high]
    return replace(known, later=len(there), later_held=len(held))
