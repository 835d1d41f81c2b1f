"""Robust least squares on the error of a logarithm: Levenberg and Marquardt's steps with Huber's weights, in bounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from comp_comm.formulas.arrays import Array

CORNER = 0.1  # relative error from which a row counts by its error, not by the square of it
STEP = 1e-4
ROUNDS = 60
Predict = Callable[[Array], Array]


class Solution(NamedTuple):
    """The logarithms of the parameters, the cost, the slopes of log seconds by them, and the residuals."""

    x: Array
    cost: float
    slopes: Array
    residuals: Array


def cost_of(residuals: Array) -> float:
    """Return Huber's cost of residuals: squares of small ones, multiples of large ones.

    >>> cost_of(np.array([0.1, 1.1])) == 0.5 * 0.1**2 + 0.1 * (1.1 - 0.05)
    True
    """
    size = np.abs(residuals)
    return float(np.sum(np.where(size < CORNER, 0.5 * size**2, CORNER * (size - 0.5 * CORNER))))


def minimise(predict: Predict, measured: Array, start: Array, low: Array, high: Array) -> Solution:
    """Return the parameters whose predictions are nearest to ``measured`` seconds, all of them as logarithms.

    ``predict`` gives the seconds of the rows for the logarithms of the parameters.

    Examples
    --------
    >>> sizes = np.array([1.0, 10.0, 100.0])
    >>> found = minimise(lambda x: np.exp(x[0]) + sizes * np.exp(x[1]), 3 + 0.5 * sizes, np.zeros(2), -np.full(2, 9),
    ...                  np.full(2, 9.0))
    >>> [round(float(value), 3) for value in np.exp(found.x)]
    [3.0, 0.5]
    """
    target = np.log(measured)
    x = np.clip(start, low, high)
    residuals = _residuals(predict, x, target)
    cost, damping = cost_of(residuals), 1e-2
    slopes = _slopes(predict, x, target, residuals, high)
    for _ in range(ROUNDS):
        step = _step(predict, target, x, residuals, slopes, cost, damping, low, high)
        if step is None:
            break
        gained = cost - step[2]
        x, residuals, cost, damping = step
        slopes = _slopes(predict, x, target, residuals, high)
        if gained < 1e-7 * cost:
            break
    return Solution(x, cost, slopes, residuals)


def _residuals(predict: Predict, x: Array, target: Array) -> Array:
    seconds = predict(x)
    if not np.all(np.isfinite(seconds) & (seconds > 0)):
        return np.full(target.shape, 1e3)  # as bad as can be: not a step to take
    return np.log(seconds) - target


def _slopes(predict: Predict, x: Array, target: Array, residuals: Array, high: Array) -> Array:
    columns = np.empty((len(target), len(x)))
    for number in range(len(x)):
        step = STEP if x[number] + STEP <= high[number] else -STEP
        moved = x.copy()
        moved[number] += step
        columns[:, number] = (_residuals(predict, moved, target) - residuals) / step
    return columns


def _step(
    predict: Predict, target: Array, x: Array, residuals: Array, slopes: Array, cost: float, damping: float,
    low: Array, high: Array,
) -> tuple[Array, Array, float, float] | None:  # fmt: skip
    """Return where a step that lessens the cost leads, its residuals, cost and damping; None if there is none."""
    weights = 1 / np.maximum(1.0, np.abs(residuals) / CORNER)
    weighted = slopes * weights[:, None]
    matrix, gradient = weighted.T @ slopes, weighted.T @ residuals
    for _ in range(8):
        damped = matrix + damping * np.diag(np.diag(matrix) + 1e-9)
        there = np.clip(x - np.linalg.solve(damped, gradient), low, high)
        new = _residuals(predict, there, target)
        reached = cost_of(new)
        if reached < cost:
            return there, new, reached, max(damping / 5, 1e-9)
        damping *= 4
    return None


def spreads(solution: Solution) -> Array:
    """Return the standard error of the logarithm of each parameter; infinity where no row depends on it.

    >>> flat = Solution(np.zeros(2), 1.0, np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([0.1, -0.1]))
    >>> [bool(np.isfinite(value)) for value in spreads(flat)]
    [True, False]
    """
    slopes, residuals = solution.slopes, solution.residuals
    freedom = max(len(residuals) - slopes.shape[1], 1)
    variance = float(np.sum(np.minimum(np.abs(residuals), 3 * CORNER) ** 2)) / freedom
    known = np.sqrt(np.mean(slopes**2, axis=0)) > 1e-6
    errors = np.full(slopes.shape[1], np.inf)
    if known.any():
        matrix = slopes[:, known].T @ slopes[:, known]
        inverse = np.linalg.pinv(matrix + 1e-12 * np.eye(len(matrix)) * np.trace(matrix))
        errors[known] = np.sqrt(np.maximum(np.diag(inverse), 0) * variance)
    return errors
