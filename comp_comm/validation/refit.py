"""Every group judged by constants that never saw it: those chosen on runs, chosen again on the other groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from comp_comm.formulas.arrays import Array
from comp_comm.records import Records
from comp_comm.validation.constants import CONSTANTS, Constant, attributes, with_values
from comp_comm.validation.held_out import GROUP_POWER, log_ratio
from comp_comm.validation.machine_fit import LAMBDA
from comp_comm.validation.predict import Prediction, predict_points
from comp_comm.validation.summary import arch_of, error_record, is_complete

GRID = 7  # values of a constant at which all runs are predicted
FINE = 81  # values between these, that are tried
ROUNDS = 6
TOLD = 0.005  # a constant that moves no step by more of itself than this is not told by a run


class Refit:
    """Runs, and how their steps answer to each constant: evaluated once, at `GRID` values of each.

    Constants are chosen one after the other, in rounds, so that the sum of |ln(measured / predicted)| is least; a group
    counts as the root of its runs. What machines keep is chosen on the ratios as they are, all else on those within a
    machine. While choosing, a step is taken to answer to each constant by itself; the judged
    runs are then predicted anew, with all of them.
    """

    def __init__(self, predictions: Sequence[Prediction]) -> None:
        self.predictions = [one for one in predictions if one.counted and one.point is not None]
        self.points = [one.point for one in self.predictions if one.point is not None]
        self.groups = np.asarray([one.run["group"] for one in self.predictions])
        sizes = Counter(self.groups)
        self.weights = np.asarray([sizes[group] ** (GROUP_POWER - 1) for group in self.groups])
        self.ratios = np.asarray([log_ratio(one) for one in self.predictions])
        self.machines = self._machines()
        self.grids: dict[str, Array] = {}
        self.answers: dict[str, Array] = {}
        for constant in CONSTANTS:
            if not constant.outside:
                self._answer(constant)

    def _machines(self) -> list[tuple[NDArray[np.intp], float]]:
        """Return the runs of each machine, one group on one device, and by how many runs its level is shrunk."""
        names = np.asarray([f"{one.run['group']} {one.run['gpu']}" for one in self.predictions])
        places = [np.flatnonzero(names == name) for name in dict.fromkeys(names)]
        return [(members, max(LAMBDA[arch_of(self.predictions[place])] for place in members)) for members in places]

    def _answer(self, constant: Constant) -> None:
        """Predict the runs that have a constant at values of it: changes of their steps' logarithms, a column a value.

        One that is a word of a field has but the values that words have: it is never between them.
        """
        members = np.asarray([constant.applies(point) for point in self.points])
        grid = np.linspace(constant.lowest, constant.highest, GRID)
        grid = np.unique([*grid, constant.value])
        if constant.name.startswith("gained"):
            grid = np.unique([constant.lowest, constant.value, constant.highest])
        table = np.zeros((len(self.points), grid.size))
        for column, value in enumerate(grid):
            table[members, column] = self._steps(np.flatnonzero(members), {constant.name: float(value)})
        table -= table[:, [int(np.flatnonzero(grid == constant.value)[0])]]
        self.grids[constant.name], self.answers[constant.name] = grid, table

    def _steps(self, places: NDArray[np.intp], values: Mapping[str, float]) -> Array:
        with attributes(values):
            made = predict_points([with_values(self.points[place], values) for place in places])
        return np.log([one.predicted_s or np.nan for one in made])

    def values_without(self, group: str) -> dict[str, float]:
        """Return the constants that the runs of all other groups ask for; ``""`` is without none."""
        kept = self.groups != group
        told = [one for one in CONSTANTS if not one.outside and self._tells(one, kept)]
        values = {one.name: one.untold for one in CONSTANTS if not one.outside}
        for _ in range(ROUNDS):
            before = dict(values)
            for constant in told:
                values[constant.name] = self._best(constant, values, kept)
            if before == values:
                break
        return values

    def _tells(self, constant: Constant, kept: Array) -> bool:
        return bool(np.any(np.ptp(self.answers[constant.name][kept], axis=1) > TOLD))

    def _moved(self, name: str, value: float) -> Array:
        grid, table = self.grids[name], self.answers[name]
        at = int(np.clip(np.searchsorted(grid, value) - 1, 0, grid.size - 2))
        share = (value - grid[at]) / (grid[at + 1] - grid[at])
        return np.asarray((1 - share) * table[:, at] + share * table[:, at + 1])

    def _best(self, constant: Constant, values: Mapping[str, float], kept: Array) -> float:
        others = self.ratios - sum(self._moved(name, value) for name, value in values.items() if name != constant.name)
        few = self.grids[constant.name].size < GRID
        tried = self.grids[constant.name] if few else np.linspace(constant.lowest, constant.highest, FINE)
        left = np.stack([others - self._moved(constant.name, value) for value in tried])
        if not constant.level:
            left = self._within_machines(left, kept)
        return float(tried[int(np.argmin(np.abs(left[:, kept]) @ self.weights[kept]))])

    def _within_machines(self, left: Array, kept: Array) -> Array:
        """Return what is left of ratios without what a machine's have in common, shrunk as calibration does.

        A machine that is slower than others is no reason to launch kernels, or to send, more slowly on all.
        """
        within: Array = left.copy()
        for members, strength in self.machines:
            if kept[members].all():
                share = members.size / (members.size + strength)
                within[:, members] -= share * np.median(left[:, members], axis=1, keepdims=True)
        return within

    def judged(self) -> tuple[list[Prediction], dict[str, dict[str, float]]]:
        """Return every run predicted by constants of other groups, and these constants by group that was left out."""
        judged: list[Prediction] = list(self.predictions)
        chosen: dict[str, dict[str, float]] = {}
        for group in dict.fromkeys(self.groups):
            chosen[group] = self.values_without(group)
            places = np.flatnonzero(self.groups == group)
            for place, step in zip(places, np.exp(self._steps(places, chosen[group])), strict=True):
                judged[place] = replace(self.predictions[place], predicted_s=float(step))
        return judged, chosen


def held_out_records(seen: Sequence[Prediction], judged: Sequence[Prediction]) -> Records:
    """Return errors of dense models and mixtures, complete configurations and all: as shipped, and held out."""
    records: Records = []
    for arch in ("dense", "moe"):
        for complete in (True, False):
            for words, runs in (("constants of all groups", seen), ("held out", judged)):
                errors = [one.error for one in runs if one.error is not None and arch_of(one) == arch
                          and (is_complete(one) or not complete)]  # fmt: skip
                if errors:
                    records.append(error_record(f"{arch}, {'complete' if complete else 'all'}", words, errors))
    return records
