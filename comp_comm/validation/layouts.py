"""Layouts of one model on the same devices: whether the model puts them in the right order, and tells them apart.

A set is runs of one source, model, device, number of devices, batch, sequence, format, release and other software that
differ in their layout. What is common to them (the machine, its software) cancels: the error of a ratio is less than
that of a step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from comp_comm.formulas.arrays import Array
from comp_comm.records import Records
from comp_comm.validation.held_out import GROUP_POWER, SHARE, Interval, weighted_quantiles
from comp_comm.validation.predict import Prediction
from comp_comm.validation.summary import arch_of

SAME = ("group", "model_name", "gpu", "n_gpus", "global_batch", "seq_len", "precision", "release", "layers", "hidden",
        "heads", "software_other")  # fmt: skip
LAYOUT = ("tp", "pp", "vpp", "cp", "ep", "micro_batch", "recompute", "zero_stage", "sequence_parallel")
RANKED = 3  # layouts of a set that an order is told of
DRAWS = 1000  # of measurements made once more


@dataclass(frozen=True)
class LayoutSet:
    """Layouts of one model on the same devices: what they are of, and seconds as measured and as predicted.

    Repeats of a layout are one, with the mean of their seconds.
    """

    group: str
    model: str
    device: str
    devices: int
    measured: Array
    predicted: Array

    @property
    def spearman(self) -> float:
        """The correlation of the two orders; equal seconds have the mean of their places."""
        return _correlation(self.measured, self.predicted)

    def attainable(self, noise: float) -> float:
        """Return the correlation that a model without any error would have, in the mean.

        Of what was measured with itself measured once more, ``noise`` being the standard deviation of the logarithm of
        a measurement's seconds. The same draws are taken each time.
        """
        drawn = np.random.default_rng(0).normal(0.0, noise, (DRAWS, self.measured.size))
        return float(np.mean([_correlation(self.measured, each) for each in self.measured * np.exp(drawn)]))

    @property
    def cost(self) -> float:
        """By what share the layout that is predicted best takes longer than the best one."""
        return float(self.measured[int(np.argmin(self.predicted))] / self.measured.min() - 1)

    @property
    def apart(self) -> Array:
        """Errors of the ratios of two layouts, the size of their logarithms."""
        errors = np.log(self.predicted / self.measured)
        first, second = np.triu_indices(errors.size, 1)
        return np.asarray(np.abs(errors[first] - errors[second]))


def _correlation(first: Array, second: Array) -> float:
    return float(np.corrcoef(_places(first), _places(second))[0, 1])


def _places(values: Array) -> Array:
    return np.asarray([(values < value).sum() + ((values == value).sum() - 1) / 2 for value in values])


def layout_sets(predictions: Sequence[Prediction], least: int = 2) -> list[LayoutSet]:
    """Return the sets of at least so many layouts."""
    sets: dict[tuple[str, ...], dict[tuple[str, ...], list[Prediction]]] = {}
    for one in predictions:
        if one.counted:
            layouts = sets.setdefault(tuple(one.run[name] for name in SAME), {})
            layouts.setdefault(tuple(one.run[name] for name in LAYOUT), []).append(one)
    return [_set(list(layouts.values())) for layouts in sets.values() if len(layouts) >= least]


def _set(layouts: list[list[Prediction]]) -> LayoutSet:
    run = layouts[0][0].run
    measured, predicted = (np.asarray([np.mean([getattr(one, name) for one in repeats]) for repeats in layouts])
                           for name in ("measured_s", "predicted_s"))  # fmt: skip
    return LayoutSet(run["group"], run["model_name"], run["gpu"], int(float(run["n_gpus"])), measured, predicted)


def repeat_noise(predictions: Sequence[Prediction], arch: str = "dense") -> float:
    """Return the standard deviation of the logarithm of seconds of runs that nothing known tells apart.

    Those of a group that are predicted from the same fields on the same machine, of any release; about the mean of each
    configuration, pooled over them. NaN where none ran twice.
    """
    repeats: dict[tuple[object, ...], list[float]] = {}
    for one in predictions:
        if one.counted and one.point and one.measured_s and arch_of(one) == arch:
            fields = tuple(sorted((name, str(value)) for name, value in one.point.fields.items()))
            repeats.setdefault((one.run["group"], one.point.machine, fields), []).append(float(np.log(one.measured_s)))
    several = [np.asarray(each) for each in repeats.values() if len(each) > 1]
    squares = sum(float(((each - each.mean()) ** 2).sum()) for each in several)
    return float(np.sqrt(squares / sum(each.size - 1 for each in several))) if several else float("nan")


def layout_records(predictions: Sequence[Prediction]) -> Records:
    """Return a record a set of `RANKED` layouts and more; ``attainable`` is with the noise of repeated runs."""
    noise = repeat_noise(predictions)
    return [
        {"group": one.group, "model": one.model, "device": one.device, "devices": one.devices,
         "layouts": one.measured.size, "slowest": float(one.measured.max() / one.measured.min()),
         "spearman": one.spearman, "attainable": one.attainable(noise), "cost": one.cost}
        for one in layout_sets(predictions, RANKED)
    ]  # fmt: skip


def apart_interval(predictions: Sequence[Prediction]) -> Interval:
    """Return the factor between the predicted steps of two layouts below which they are not told apart.

    Four of five pairs of measured layouts were within it of their predicted ratio; a set counts as the root of its
    pairs. ``held`` is the share of pairs within that of the sets of other groups.
    """
    sets = layout_sets(predictions)
    sizes = np.concatenate([one.apart for one in sets])
    owners = [place for place, one in enumerate(sets) for _ in one.apart]
    groups = np.asarray([one.group for one in sets for _ in one.apart])
    counts = Counter(owners)
    weights = np.asarray([counts[owner] ** (GROUP_POWER - 1) for owner in owners])
    inside = np.zeros(sizes.size)
    for group in set(groups):
        members = groups == group
        inside[members] = sizes[members] <= weighted_quantiles(sizes[~members], weights[~members], (SHARE,))[0]
    most = float(np.exp(weighted_quantiles(sizes, weights, (SHARE,))[0]))
    held = float(np.average(inside, weights=weights))
    return Interval("dense", "layouts", 1 / most, most, sizes.size, len(sets), held)
