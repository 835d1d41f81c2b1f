"""The one array contract of the formulas: float64, broadcastable; and blocks of an open grid."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array: TypeAlias = NDArray[np.float64]
# What formulas are declared to take; at run time anything NumPy turns into numbers is taken.
Numeric: TypeAlias = float | Array
# A block of a grid: for each axis a slice, or the indices wanted.
Index: TypeAlias = tuple["slice | NDArray[np.intp]", ...]
AnyArray: TypeAlias = NDArray[Any]  # numbers, words or switches: a column of an answer
WholeArray: TypeAlias = NDArray[np.integer[Any]]
Scalar = TypeVar("Scalar", bound=np.generic)
WHOLE = slice(None)
ZERO = np.asarray(0.0)  # nothing at all: told by identity, so that adding it costs nothing


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


def somewhere(mask: ArrayLike) -> bool:
    """Return whether anything of a mask is true. Of a single number NumPy takes twenty times as long.

    >>> somewhere(np.array([False, True])), somewhere(to_float(1.0) > 2)
    (True, False)
    """
    array = np.asarray(mask)
    return bool(array.any()) if array.ndim else bool(array)


def unwarned() -> AbstractContextManager[None]:
    """Return a context in which NumPy does not warn: points that break a rule may be worked out to no number.

    >>> with unwarned():
    ...     to_float(1.0) / 0.0
    np.float64(inf)
    """
    return np.errstate(invalid="ignore", divide="ignore", over="ignore")


def add_up(parts: Iterable[Array]) -> Array:
    """Return the sum of arrays; those that are `ZERO` cost nothing.

    >>> add_up([]) is ZERO, float(add_up([ZERO, to_float(2.0)]))
    (True, 2.0)
    """
    total = ZERO
    for part in parts:
        if part is not ZERO:
            total = part if total is ZERO else total + part
    return total


def by_code(codes: AnyArray, option: Callable[[int], Array]) -> Array:
    """Return at each point what ``option`` makes of its code; each code that occurs is evaluated once.

    >>> by_code(np.array([0, 2, 0]), lambda code: to_float(10.0 * code)).tolist()
    [0.0, 20.0, 0.0]
    >>> by_code(np.array([3, 1] * 6), lambda code: to_float([[code], [-code]])).sum(axis=1).tolist()  # many points
    [24.0, -24.0]
    """
    codes = np.asarray(codes)
    if codes.size == 1:
        return to_float(option(int(codes.item())))
    first, *others = np.unique(codes).tolist()
    made = to_float(option(int(first)))
    if not others:
        return made
    options = {int(first): made, **{int(code): to_float(option(int(code))) for code in others}}
    axes = [axis for axis, size in enumerate(codes.shape) if size > 1]
    rank = max(codes.ndim, *(each.ndim for each in options.values()))
    axis = rank - codes.ndim + axes[0]
    wide = {code: each.reshape((1,) * (rank - each.ndim) + each.shape) for code, each in options.items()}
    if len(axes) > 1 or any(each.shape[axis] > 1 for each in wide.values()):
        return np.select([codes == code for code in options], list(options.values()))
    shape = np.broadcast_shapes(*(each.shape for each in wide.values()))
    # Codes along an axis that the options do not have: each is copied to its place, and nothing is chosen.
    full = {code: each if each.shape == shape else np.broadcast_to(each, shape) for code, each in wide.items()}
    if codes.size > 4 * len(full):  # many points: taken from one of each
        return np.concatenate(list(full.values()), axis=axis).take(np.searchsorted(list(full), codes.reshape(-1)), axis)
    return np.concatenate([full[int(code)] for code in codes.reshape(-1)], axis=axis)
