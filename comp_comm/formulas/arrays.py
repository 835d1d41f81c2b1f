"""The one array contract of the formulas: float64, broadcastable."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def to_float(value: ArrayLike) -> Array:
    """Return ``value`` as float64 of its own shape (no copy where it is float64 already).

    >>> to_float([1, 2]) / 2
    array([0.5, 1. ])
    """
    return np.asarray(value, dtype=np.float64)
