"""The one array contract of the formulas: float64, broadcastable; and blocks of an open grid."""

from __future__ import annotations

from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array: TypeAlias = NDArray[np.float64]
# What formulas are declared to take; at run time anything NumPy turns into numbers is taken.
Numeric: TypeAlias = float | Array
# A block of a grid: for each axis a slice, or the indices wanted.
Index: TypeAlias = tuple["slice | NDArray[np.intp]", ...]
Scalar = TypeVar("Scalar", bound=np.generic)
WHOLE = slice(None)


def to_float(value: ArrayLike) -> Array:
    """Return ``value`` as float64 of its own shape (no copy where it is float64 already).

    >>> to_float([1, 2]) / 2
    array([0.5, 1. ])
    """
    return np.asarray(value, dtype=np.float64)


def take(array: NDArray[Scalar], index: Index) -> NDArray[Scalar]:
    """Return a block of an open-grid array: axes of length 1 stay whole, since they stand for every index.

    >>> take(np.zeros((5, 1)), (slice(0, 2), slice(3, 4))).shape
    (2, 1)
    >>> take(np.arange(5), (np.array([0, 4]),))
    array([0, 4])
    """
    array = np.asarray(array)
    if not array.ndim:
        return array
    parts: Any = tuple(WHOLE if n == 1 else part for n, part in zip(array.shape, index, strict=True))
    if all(isinstance(part, slice) for part in parts):
        cut: NDArray[Scalar] = array[parts]
        return cut
    for axis, part in enumerate(parts):  # lists of indices, one axis after the other: together they would be zipped
        array = array[(WHOLE,) * axis + (part,)]
    return array
