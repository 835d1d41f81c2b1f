"""How long a call takes: warmed up, repeated, the median or a mean."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

LEAST, MOST = 5, 50  # calls timed of each shape


def nothing() -> None:
    """Do nothing."""


def median_seconds(
    call: Callable[[], object], budget: float, settle: Callable[[], object] = nothing,
    before: Callable[[], object] = nothing,
) -> float:  # fmt: skip
    """Return the median seconds of a call, timed at least 5 times and for at most ``budget`` seconds after that.

    ``settle`` waits until what was called is done, for devices that run behind; ``before`` is done before each call and
    not timed, though it counts against the budget.

    Examples
    --------
    >>> 0.001 <= median_seconds(lambda: time.sleep(0.001), budget=0.0) < 0.5
    True
    """
    call()
    settle()
    times: list[float] = []
    began = time.perf_counter()
    while len(times) < LEAST or (len(times) < MOST and time.perf_counter() - began < budget):
        before()
        settle()
        start = time.perf_counter()
        call()
        settle()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def trimmed_mean(times: Sequence[float], share: float = 0.05) -> float:
    """Return the mean without so large a share of the shortest, and as many of the longest.

    >>> trimmed_mean([9.0, *[1.0] * 10, *[3.0] * 8, 0.0])
    1.8888888888888888
    """
    cut = int(share * len(times))
    return statistics.fmean(sorted(times)[cut : len(times) - cut])
