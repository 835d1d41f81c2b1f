"""The one array contract of the formulas: float64, broadcastable; and blocks of an open grid."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array: TypeAlias = NDArray[np.float64]
# What formulas are declared to take; at run time anything NumPy turns into numbers is taken.
Numeric: TypeAlias = float | Array
# A block of a grid: for each axis a slice, or the indices wanted.
Index: TypeAlias = tuple["slice | NDArray[np.intp]", ...]
AnyArray: TypeAlias = NDArray[Any]  # numbers, words or switches: a column of an answer
Mask: TypeAlias = NDArray[np.bool_]
WholeArray: TypeAlias = NDArray[np.integer[Any]]
Scalar = TypeVar("Scalar", bound=np.generic)
WHOLE = slice(None)
_FLOAT, _GENERIC, _BOOL = np.float64, np.generic, np.bool_  # looked up often
_SINGLE = frozenset((float, int, np.bool_, np.int64))  # types that become one number at once
_NUMBERS = frozenset((float, int, np.float64))  # types of single numbers
ZERO = cast(Array, np.float64(0.0))  # nothing at all: told by identity, so that adding it costs nothing


def to_float(value: ArrayLike) -> Array:
    """Return ``value`` as float64 of its own shape (no copy where it is float64 already).

    A single number becomes NumPy's scalar, which has all that an array has, and with which NumPy computes ten times
    faster than with an array of no axes.

    >>> to_float([1, 2]) / 2, to_float(1)
    (array([0.5, 1. ]), np.float64(1.0))
    """
    kind = type(value)
    if kind is _FLOAT:
        return value  # type: ignore[return-value]
    if kind in _SINGLE:
        return _FLOAT(value)  # type: ignore[arg-type, no-any-return]
    array = np.asarray(value, dtype=np.float64)
    return array if array.ndim else array[()]


def to_codes(value: ArrayLike) -> NDArray[np.intp]:
    """Return codes of a choice as whole numbers of their own shape, a single one as NumPy's scalar.

    >>> to_codes([1.0, 2.0]), to_codes(1.0)
    (array([1, 2]), np.int64(1))
    """
    if type(value) is np.intp:
        return value  # type: ignore[return-value]
    array = np.asarray(value, dtype=np.intp)
    return array if array.ndim else array[()]


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
    if isinstance(mask, _GENERIC):
        return bool(mask)
    array = np.asarray(mask)
    return bool(array.any()) if array.ndim else bool(array)


def everywhere(mask: ArrayLike) -> bool:
    """Return whether all of a mask is true, of a single number at once.

    >>> everywhere(np.array([False, True])), everywhere(to_float(1.0) < 2)
    (False, True)
    """
    if isinstance(mask, _GENERIC):
        return bool(mask)
    array = np.asarray(mask)
    return bool(array.all()) if array.ndim else bool(array)


def where(mask: Mask, yes: Numeric, no: Numeric) -> Array:
    """Return ``yes`` where the mask is true, else ``no``, as NumPy does; of single numbers ten times as fast.

    >>> where(to_float(1.0) > 0, 2.0, 3.0), where(np.array([True, False]), 2.0, 3.0)
    (np.float64(2.0), array([2., 3.]))
    """
    if type(mask) is _BOOL and type(yes) in _NUMBERS and type(no) in _NUMBERS:
        return to_float(yes if mask else no)
    return np.where(mask, yes, no)[()]


def maximum(one: Numeric, other: Numeric) -> Array:
    """Return the larger number at each point, NaN where either is, as NumPy does; of single numbers much faster.

    >>> maximum(to_float(1.0), 2.0), maximum(float("nan"), 2.0), maximum([1.0, 3.0], 2.0)
    (np.float64(2.0), np.float64(nan), array([2., 3.]))
    """
    if type(one) in _NUMBERS and type(other) in _NUMBERS:
        return to_float(one if one >= other or one != one else other)
    return np.maximum(one, other)


def minimum(one: Numeric, other: Numeric) -> Array:
    """Return the smaller number at each point, NaN where either is, as NumPy does; of single numbers much faster.

    >>> minimum(to_float(1.0), 2.0), minimum(2.0, float("nan")), minimum([1.0, 3.0], 2.0)
    (np.float64(1.0), np.float64(nan), array([1., 2.]))
    """
    if type(one) in _NUMBERS and type(other) in _NUMBERS:
        return to_float(one if one <= other or one != one else other)
    return np.minimum(one, other)


def sqrt(value: Numeric) -> Array:
    """Return the square root, as NumPy does; of a single number faster.

    >>> sqrt(to_float(4.0)), sqrt(to_float([4.0, 9.0]))
    (np.float64(2.0), array([2., 3.]))
    """
    if type(value) in _NUMBERS and 0 <= value < np.inf:
        return to_float(math.sqrt(value))
    return np.sqrt(value)


def isnan(value: Numeric) -> Mask:
    """Return where a number is not given, or not known.

    >>> isnan(to_float(float("nan"))), isnan(to_float([4.0]))
    (np.True_, array([False]))
    """
    return np.bool_(value != value) if type(value) in _NUMBERS else np.isnan(value)  # type: ignore[return-value]


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


def largest(parts: Iterable[Array]) -> Array:
    """Return the largest of arrays that are not negative at each point; `ZERO` of none.

    >>> largest([]) is ZERO, largest([ZERO, to_float([1.0, 3.0]), to_float(2.0)])
    (True, array([2., 3.]))
    """
    most = ZERO
    for part in parts:
        most = part if most is ZERO else maximum(most, part)
    return most


def distinct(values: NDArray[Scalar]) -> NDArray[Scalar]:
    """Return the different values of an array, in order: `numpy.unique` without numpy.ma, which that loads.

    >>> distinct(np.array([[3, 1], [3, 2]])), distinct(np.array([]))
    (array([1, 2, 3]), array([], dtype=float64))
    """
    ordered = np.sort(values, axis=None)
    new = np.ones(ordered.size, bool)
    new[1:] = ordered[1:] != ordered[:-1]
    return ordered[new]


def distinct_codes(codes: ArrayLike) -> list[int]:
    """Return the codes that occur, each once, in order.

    >>> distinct_codes([2, 0, 2]), distinct_codes(np.intp(1))
    ([0, 2], [1])
    """
    if isinstance(codes, _GENERIC):
        return [int(codes)]
    array = np.asarray(codes)
    return [int(code) for code in (distinct(array) if array.size > 1 else array.reshape(-1))]


def by_code(codes: AnyArray, option: Callable[[int], Array]) -> Array:
    """Return at each point what ``option`` makes of its code; each code that occurs is evaluated once.

    >>> by_code(np.array([0, 2, 0]), lambda code: to_float(10.0 * code)).tolist()
    [0.0, 20.0, 0.0]
    >>> by_code(np.array([3, 1] * 6), lambda code: to_float([[code], [-code]])).sum(axis=1).tolist()  # many points
    [24.0, -24.0]
    """
    if isinstance(codes, np.generic):
        return to_float(option(int(codes)))
    codes = np.asarray(codes)
    if codes.size == 1:
        return to_float(option(int(codes.item())))
    first, *others = distinct_codes(codes)
    made = to_float(option(first))
    if not others:
        return made
    options = {first: made, **{code: to_float(option(code)) for code in others}}
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
