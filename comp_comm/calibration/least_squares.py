"""Robust least squares on the error of a logarithm: Levenberg and Marquardt's steps with Huber's weights, in bounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from comp_comm.formulas.arrays import Array

CORNER = 0.1  # relative error from which a row counts by its error, not by the square of it
STEP = 1e-4
STEPS = 400  # at most
TRIES = 8  # dampings of a step
ENOUGH = 1e-7  # of its cost: a step that gains less is the last one
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


def minimise(
    predict: Predict, measured: Array, start: Array, low: Array, high: Array, enough: float = ENOUGH
) -> Solution:
    """Return the parameters whose predictions are nearest to ``measured`` seconds, all of them as logarithms.

    ``predict`` gives the seconds of the rows for the logarithms of the parameters, each a number; or K rows of seconds
    where each is an array (K, 1). Slopes are differences, carried from step to step by Broyden's update, and taken anew
    where a step by them gains nothing. The search ends where all steps since they were gain less than a share
    ``enough`` of the cost.

    References
    ----------
    .. [1] C. G. Broyden, "A Class of Methods for Solving Nonlinear Simultaneous Equations", Mathematics of Computation
       19(92), 1965.
    .. [2] J. J. More, "The Levenberg-Marquardt Algorithm: Implementation and Theory", Numerical Analysis, 1978.

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
    point = _Point(x, residuals, cost_of(residuals))
    slopes, damping, fresh = _slopes(predict, point, target, high), 1e-2, point
    taken = slopes
    for _ in range(STEPS):
        reached, damping = _step(predict, target, point, slopes, damping, low, high, TRIES if point is fresh else 1)
        gained, slopes = point.cost - reached.cost, _updated(slopes, point, reached)
        point = reached
        if gained < enough * point.cost:
            if fresh.cost - point.cost < enough * point.cost:
                break
            taken = slopes = _slopes(predict, point, target, high)
            fresh = point
    return Solution(point.x, point.cost, taken.T, point.residuals)


class _Point(NamedTuple):
    """Logarithms of the parameters, and the residuals and the cost reached."""

    x: Array
    residuals: Array
    cost: float


def _residuals(predict: Predict, x: Array, target: Array) -> Array:
    seconds = predict(x)
    good = np.all(np.isfinite(seconds) & (seconds > 0), axis=-1, keepdims=True)
    if good.all():
        return np.log(seconds) - target
    return np.where(good, np.log(np.where(good, seconds, 1.0)) - target, 1e3)  # as bad as can be: not a step to take


def _slopes(predict: Predict, point: _Point, target: Array, high: Array) -> Array:
    """Return the slopes of the residuals, a row for each parameter, as differences."""
    if not len(point.x):
        return np.empty((0, len(target)))
    steps = np.where(point.x + STEP <= high, STEP, -STEP)
    moved = point.x[:, None] + np.diag(steps)
    return (_residuals(predict, moved[:, :, None], target) - point.residuals) / steps[:, None]


def _updated(slopes: Array, point: _Point, reached: _Point) -> Array:
    """Return slopes that also tell what the last step did (Broyden's update)."""
    moved = reached.x - point.x
    length = float(moved @ moved)
    if not length:
        return slopes
    missed = reached.residuals - point.residuals - moved @ slopes
    return slopes + (moved / length)[:, None] * missed


def _step(
    predict: Predict, target: Array, point: _Point, slopes: Array, damping: float, low: Array, high: Array, tries: int,
) -> tuple[_Point, float]:  # fmt: skip
    """Return where a step that lessens the cost leads, and the damping of the next; the same point if none does."""
    root = np.sqrt(np.maximum(1.0, np.abs(point.residuals) / CORNER))
    weighted = slopes / root
    matrix, gradient = weighted @ weighted.T, weighted @ (point.residuals / root)
    first = damping
    for attempt in range(tries):
        damped = matrix + damping * np.diag(np.diag(matrix) + 1e-9)
        x = _within(point.x, damped, gradient, low, high)
        residuals = _residuals(predict, x, target)
        cost = cost_of(residuals)
        if cost < point.cost:
            return _Point(x, residuals, cost), max(damping / 5, 1e-9)
        damping *= 4.0 ** (attempt + 1)  # in the end a short step down the slope
    return point, first


def _within(x: Array, matrix: Array, gradient: Array, low: Array, high: Array) -> Array:
    """Return where a quadratic form is about least in bounds: a parameter that would leave them ends at its bound.

    The others go on as far as they then should (an active set): a step merely clipped can lead uphill.
    """
    moved = np.zeros(len(x))
    free = ~((x <= low) & (gradient > 0) | (x >= high) & (gradient < 0))
    while free.any():
        pull = gradient[free] + matrix[np.ix_(free, ~free)] @ moved[~free]
        moved[free] = -np.linalg.solve(matrix[np.ix_(free, free)], pull)
        reached = x + moved
        outside = free & ((reached < low) | (reached > high))
        if not outside.any():
            break
        moved[outside] = np.clip(reached, low, high)[outside] - x[outside]
        free &= ~outside
    return np.clip(x + moved, low, high)


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
