"""A machine's own numbers from a few measured runs, shrunk towards what its profile says.

A run's step was measured ``exp(y)`` times as long as predicted. Of the machine, ``sustained`` (what a GEMM keeps of its
isolated speed) may differ, and the network's share beyond a node. A run says little by itself: runs of one machine
scatter by ``sigma`` about its mean, what machines sustain by ``tau`` about the profile, and k runs whose steps answer
to it by a move it by k a / (k a^2 + lambda) of what they ask for, lambda = (sigma / tau)^2: a run that spends half its
step in the network says less of GEMMs than one that does not. lambda is 1 for dense models (tau = sigma = 0.08: the
published machines sustain 0.75 to 0.96 of the isolated speed) and 2 for mixtures of experts, which say less about
other models, but 1/2 where all runs are of one mixture. With these no number of published runs makes the tail of the
errors longer. By the step these are 2, 4 and 1, as steps answer to GEMMs by 0.7 in the middle.

Both numbers are the maximum a posteriori of the linear model y_i = -(a_i x + b_i z) + noise, x and z the logarithms of
their factors, a_i and b_i how a step answers to each, evaluated at the step itself and repeated until it settles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from comp_comm.errors import ConfigError
from comp_comm.formulas.arrays import Array
from comp_comm.hardware.profile import Profile
from comp_comm.records import Record
from comp_comm.validation.machines import RunMachine
from comp_comm.validation.predict import Point, Prediction, predict_points
from comp_comm.validation.refused import nothing_predicted
from comp_comm.validation.summary import arch_of

SUSTAINED, NETWORK = "timing.sustained", "timing.network_sustained"
LAMBDA = {"dense": 1.0, "moe": 2.0}
LAMBDA_OF_MODEL = 0.5  # where all runs are of one mixture: they say much of it, and little of another one
# Standard deviation of runs of one machine about its mean, in the logarithm of a step (dense runs that were seen).
SIGMA = 0.08
# And of what the network keeps, about its default; beyond this many sigma a mixture of shares tells the two apart.
NETWORK_SPREAD = 0.25
TELLS = 1.0
LOW, HIGH = 0.05, 1.5  # of sustained
NUDGE = 0.05
ROUNDS = 4
WITHIN_80 = 1.2816  # standard deviations either way that hold 80 % of a normal distribution


@dataclass(frozen=True)
class FittedNumber:
    """A number of a profile that runs changed: what it was, what it is, and the range that holds it at 80 %."""

    key: str
    before: float
    value: float
    low: float
    high: float

    def record(self) -> Record:
        """Return it as a row of an answer."""
        return {"number": self.key, "before": self.before, "value": self.value, "low": self.low, "high": self.high}


@dataclass(frozen=True)
class MachineFit:
    """Numbers that result, why others were left, runs refused, and the others as predicted before and after."""

    numbers: tuple[FittedNumber, ...]
    left: dict[str, str]
    refused: list[Prediction]
    before: list[Prediction]
    after: list[Prediction]

    @property
    def counts(self) -> dict[str, int]:
        """How many runs of each kind it is from."""
        kinds = [arch_of(one) for one in self.after]
        return {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}


def fit_machine(points: Sequence[Point], profile: Profile) -> MachineFit:
    """Return the numbers of a machine that runs on it ask for.

    ``points`` are on the machine as ``profile`` has it. Raises ``ConfigError`` where no run can be predicted.
    """
    before = predict_points(points)
    usable = [point for point, one in zip(points, before, strict=True) if one.error is not None]
    if not usable:
        raise ConfigError(nothing_predicted(before))
    hardware = profile.hardware(profile.precisions[0])
    start = np.log([float(np.max(hardware.timing.sustained)), float(np.max(hardware.timing.network_sustained))])
    kinds = [arch_of(one) for one in before if one.error is not None]
    own = one_mixture(usable) is not None
    strengths = np.asarray([LAMBDA_OF_MODEL if own else LAMBDA[kind] for kind in kinds])
    weights = np.sqrt(LAMBDA["dense"] / strengths)
    state = _State(usable, start, weights)
    told = state.tells_apart()
    x = state.solve(told)
    numbers = [_number(key, start[i], x[i], state.spread[i]) for i, key in enumerate((SUSTAINED, NETWORK)) if told[i]]
    left = {} if told[1] else {NETWORK: "the runs do not tell the network from the kernels: it takes several, of which "
                                        "some communicate across nodes far more than others"}  # fmt: skip
    refused = [one for one in before if one.error is None]
    return MachineFit(tuple(numbers), left, refused, [one for one in before if one.error is not None],
                      predict_points(state.points_at(x)))  # fmt: skip


def one_mixture(points: Sequence[Point]) -> str | None:
    """Return the model that all runs are of, where it is a mixture of experts; None for several, or a dense one."""
    names = {point.run["model_name"] for point in points}
    mixtures = all(point.fields.get("experts") for point in points)
    return next(iter(names)) if len(names) == 1 and mixtures else None


def _number(key: str, start: float, x: float, spread: float) -> FittedNumber:
    value = float(np.exp(start + x))
    factor = float(np.exp(WITHIN_80 * spread))
    return FittedNumber(key, float(np.exp(start)), value, value / factor, value * factor)


class _State:
    """Runs, and how their steps answer to the two numbers: ``x`` are the logarithms of their factors."""

    def __init__(self, points: Sequence[Point], start: Array, weights: Array) -> None:
        self.points, self.start, self.weights = points, start, weights
        self.measured = np.log([one.measured_s or np.nan for one in predict_points(points)])
        self.spread = np.zeros(2)

    def points_at(self, x: Array) -> list[Point]:
        """Return the runs with other numbers."""
        sustained, network = np.exp(self.start + x)
        return [
            replace(point, fields={**point.fields, "sustained": float(np.clip(sustained, LOW, HIGH))},
                    machine=_with_network(point, float(network)) if x[1] else point.machine)
            for point in self.points
        ]  # fmt: skip

    def log_steps(self, at: Sequence[Array]) -> list[Array]:
        """Return the logarithm of every run's step at each of some numbers."""
        result = predict_points([point for x in at for point in self.points_at(x)])
        steps = np.log([one.predicted_s or np.nan for one in result])
        return list(steps.reshape(len(at), len(self.points)))

    def slopes(self, x: Array) -> tuple[Array, Array]:
        """Return the logarithms of the steps, and by how much they fall with each number, a column a number."""
        nudges = [x + NUDGE * np.eye(2)[i] for i in range(2)]
        members, *moved = self.log_steps([x, *nudges])
        return members, np.stack([(members - steps) / NUDGE for steps in moved], axis=1)

    def tells_apart(self) -> tuple[bool, bool]:
        """Return which numbers the runs tell: the network where its share differs among them unlike that of GEMMs."""
        _, slopes = self.slopes(np.zeros(2))
        gemm, network = (self.weights * slopes[:, i] for i in range(2))
        left = network - gemm * (gemm @ network) / max(float(gemm @ gemm), 1e-12)
        information = float(left @ left) * (NETWORK_SPREAD / SIGMA) ** 2
        return True, len(self.points) > 2 and information > TELLS

    def solve(self, told: tuple[bool, bool]) -> Array:
        """Return the two logarithms, of those that the runs tell."""
        x = np.zeros(2)
        for _ in range(ROUNDS):
            members, slopes = self.slopes(x)
            prior = np.asarray([SIGMA / np.sqrt(LAMBDA["dense"]), NETWORK_SPREAD])
            a = slopes * self.weights[:, None] / SIGMA * np.asarray(told)
            y = self.weights * (members - self.measured + slopes @ x) / SIGMA
            precision = a.T @ a + np.diag(prior**-2)
            x = np.linalg.solve(precision, a.T @ y) * np.asarray(told)
            x[0] = np.clip(x[0], np.log(LOW) - self.start[0], np.log(HIGH) - self.start[0])
            self.spread = np.sqrt(np.diag(np.linalg.inv(precision)))
        return x


def _with_network(point: Point, value: float) -> RunMachine:
    return replace(point.machine, numbers=(*point.machine.numbers, (NETWORK, value)))
