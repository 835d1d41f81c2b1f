"""How long a call takes: warmed up, repeated, the median."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

LEAST, MOST = 5, 50  # calls timed of each shape


def median_seconds(call: Callable[[], object], budget: float, settle: Callable[[], object] = lambda: None) -> float:
    """Return the median seconds of a call, timed at least 5 times and for at most ``budget`` seconds after that.

    ``settle`` waits until what was called is done, for devices that run behind.

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
        start = time.perf_counter()
        call()
        settle()
        times.append(time.perf_counter() - start)
    return statistics.median(times)
