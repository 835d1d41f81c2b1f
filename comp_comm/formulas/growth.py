"""Exponential growth fitted to numbers of many years, and how sure its rate is."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from comp_comm.formulas.arrays import Array, Numeric, to_float

NORMAL_975 = 1.959963984540054


class Growth(NamedTuple):
    """A factor a year with the ends of its 95 % interval, of how many numbers, and what a fit leaves.

    ``error`` is the standard error of the factor's logarithm, ``scatter`` the standard deviation of the logarithms of
    the numbers around the trend. All are NaN where two numbers or fewer, or one year only, leave them open.
    """

    factor: float
    low: float
    high: float
    members: int
    error: float
    scatter: float


def student_975(freedom: float) -> float:
    r"""Return the 0.975 quantile of Student's t.

    Exact for 1 and 2 degrees of freedom; else the expansion in 1/f, within 0.3 % from 3 on.

    Parameters
    ----------
    freedom : float
        f, degrees of freedom, at least 1.

    References
    ----------
    .. [1] M. Abramowitz, I. Stegun, Handbook of Mathematical Functions, 26.7.5.

    Examples
    --------
    >>> [round(student_975(f), 2) for f in (1, 2, 5, 10, 30)]
    [12.71, 4.3, 2.57, 2.23, 2.04]
    """
    if freedom == 1:
        return math.tan(math.pi * 0.475)
    if freedom == 2:
        return 0.95 * math.sqrt(2 / (1 - 0.95**2))
    z, f = NORMAL_975, freedom
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / f ** (order + 1) for order, term in enumerate(terms))


def yearly_growth(years: Numeric, numbers: Numeric) -> Growth:
    r"""Return the growth a year of numbers, by least squares of their logarithms.

    .. math:: \ln x_i = a + g\, t_i + \epsilon_i, \qquad e^{g \pm t_{0.975}(n - 2)\, s_g}

    Parameters
    ----------
    years, numbers : array_like
        t in years, and x > 0, of one length; pairs with a NaN are left out.

    Returns
    -------
    Growth
        NaN where fewer than two years have a number; no interval where only two numbers do.

    References
    ----------
    .. [1] Simple linear regression: N. Draper, H. Smith, Applied Regression Analysis, chapter 1.

    Examples
    --------
    >>> fit = yearly_growth([2020, 2022, 2024], [1.0, 4.0, 16.0])
    >>> round(fit.factor, 6), round(fit.low, 6), fit.members
    (2.0, 2.0, 3)
    """
    t, x = np.broadcast_arrays(to_float(years), to_float(numbers))
    known = ~(np.isnan(t) | np.isnan(x))
    t, y = t[known], np.log(x[known])
    count = int(t.size)
    spread = float(((t - t.mean()) ** 2).sum()) if count else 0.0
    if count < 2 or spread == 0:
        return Growth(math.nan, math.nan, math.nan, count, math.nan, math.nan)
    rate = float(((t - t.mean()) * (y - y.mean())).sum()) / spread
    if count == 2:
        return Growth(math.exp(rate), math.nan, math.nan, count, math.nan, math.nan)
    left = y - y.mean() - rate * (t - t.mean())
    scatter = math.sqrt(float((left**2).sum()) / (count - 2))
    error = scatter / math.sqrt(spread)
    reach = student_975(count - 2) * error
    return Growth(math.exp(rate), math.exp(rate - reach), math.exp(rate + reach), count, error, scatter)


def rank_correlation(first: Numeric, second: Numeric) -> float:
    r"""Return Spearman's correlation of two lists: that of their ranks, ties at their mean rank.

    Parameters
    ----------
    first, second : array_like
        Numbers of one length; pairs with a NaN are left out.

    References
    ----------
    .. [1] C. Spearman, The proof and measurement of association between two things, 1904.

    Examples
    --------
    >>> rank_correlation([1, 2, 3, 4], [10, 100, 1000, 500])
    0.8
    """
    a, b = np.broadcast_arrays(to_float(first), to_float(second))
    known = ~(np.isnan(a) | np.isnan(b))
    return float(np.round(np.corrcoef(_ranks(a[known]), _ranks(b[known]))[0, 1], 12))


def _ranks(values: Numeric) -> Array:
    _, place, counts = np.unique(to_float(values), return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return to_float((ends - (counts - 1) / 2)[place])
