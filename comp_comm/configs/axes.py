"""Axes of a study: lists and ranges of one field's values."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comp_comm.configs.strict_yaml import Document, Path, resolve_scalar
from comp_comm.errors import Problems, nearest, one_of
from comp_comm.fields import FIELDS, Field, Value
from comp_comm.formulas.arrays import WholeArray
from comp_comm.records import Record
from comp_comm.structs import struct

MAX_AXIS = 1_000_000
RANGE_KEYS = ("from", "to", "steps", "step", "scale", "round_to")
SCALES = ("linear", "log")
SPAN = r"\s*([^.].*?)\.\.([^*+]+?)(?:([*+])(.+))?"  # 1..64*2, 1..9+2, 1..8


class AxisColumn(Sequence[Value]):
    """Values of a field along a long axis, made when asked for: each point names a row of a shorter table.

    ``table`` are whole numbers; where there are ``words``, their places in those. ``straight`` says that point i names
    row i.

    >>> column = AxisColumn(np.array([8.0, 4.0]), np.array([1, 1, 0]))
    >>> len(column), column[2], column.numbers(slice(0, 2))
    (3, 8, array([4., 4.]))
    """

    def __init__(
        self, table: NDArray[np.float64], rows: WholeArray, words: tuple[str, ...] = (), straight: bool = False
    ) -> None:
        self.table, self.rows, self.words, self.straight = table, rows, words, straight

    def __len__(self) -> int:
        """Return how many points the axis has."""
        return self.rows.size

    def __getitem__(self, i: Any) -> Any:
        """Return the value of one point."""
        value = int(self.table[self.rows[i]])
        return self.words[value] if self.words else value

    def numbers(self, part: slice | NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the numbers (places, for words) of some points."""
        return self.table[part] if self.straight else self.table.take(self.rows[part])

    def part(self, points: NDArray[np.intp]) -> AxisColumn:
        """Return the column of some points alone."""
        return AxisColumn(self.table, self.rows[points], self.words)


@struct
class Axis:
    """One axis of the grid: the fields that move along it, and a tuple of values for each of them.

    More than one field makes a ``zip``: they move together.
    """

    values: Mapping[str, tuple[Value, ...] | AxisColumn]

    def __len__(self) -> int:
        """Return how many points the axis has."""
        return len(next(iter(self.values.values())))


def without(axes: Sequence[Axis], name: str) -> list[Axis]:
    """Return axes along which a field moves no more.

    >>> without([Axis({"tp": (1, 2), "pp": (2, 1)}), Axis({"dp": (1, 2)})], "tp")
    [Axis(values={'pp': (2, 1)}), Axis(values={'dp': (1, 2)})]
    """
    kept = [{other: points for other, points in axis.values.items() if other != name} for axis in axes]
    return [Axis(values) for values in kept if values]


def read_axis(document: Document, path: Path, raw: object, field: Field, problems: Problems) -> tuple[Value, ...]:
    """Return the values a list or a range means; on a problem note it and return none."""
    if isinstance(raw, dict):
        return _read_range(document, path, raw, field, problems)
    if is_range(raw, field):
        return _span(document, path, str(raw), field, problems)
    if not isinstance(raw, list):
        problems.add(document.problem(path, "must be a list or a range {from, to, steps}; one value goes under 'set'"))
        return ()
    if not raw:
        problems.add(document.problem(path, "is empty: an axis needs at least one value"))
    values: list[Value] = []
    for index, item in enumerate(raw):
        place: Path = (*path, index)
        if is_range(item, field):
            values += _span(document, place, str(item), field, problems)
            continue
        value = read_value(document, place, item, field, problems)
        if value == "required":
            problems.add(document.problem(place, "'required' derives tp from the other fields; put it under 'set'"))
        elif value is not None:
            values.append(value)
    repeated = {value for value in values if values.count(value) > 1} if len(values) < 1000 else set()
    if repeated:
        problems.add(document.problem(path, f"lists {', '.join(map(str, sorted(repeated, key=str)))} twice"))
    return tuple(values)


def is_range(raw: object, field: Field) -> bool:
    """Return whether a text is a short range of numbers: ``1..64*2``, ``1..9+2``, ``1..8``.

    >>> is_range("1..64*2", FIELDS["tp"]), is_range("1.5", FIELDS["tp"]), is_range("7|...|6", FIELDS["pp_layout"])
    (True, False, False)
    """
    return isinstance(raw, str) and field.kind in ("int", "float") and ".." in raw


def _span(document: Document, path: Path, text: str, field: Field, problems: Problems) -> tuple[Value, ...]:
    try:
        return span(text, field)
    except ValueError as error:
        problems.add(document.problem(path, str(error)))
        return ()


def span(text: str, field: Field) -> tuple[Value, ...]:
    """Return the values of a short range: from, to, and what one value is multiplied by, or is added to it.

    Raises ``ValueError`` for anything else. The last value does not exceed what is after the dots.

    >>> span("1..64*2", FIELDS["tp"]), span("1K..4K+1K", FIELDS["seq_len"]), span("1..3", FIELDS["pp"])
    ((1, 2, 4, 8, 16, 32, 64), (1024, 2048, 3072, 4096), (1, 2, 3))
    """
    match = re.fullmatch(SPAN, text)
    if match is None:
        raise ValueError(f"'{text}' is no range; write it as 1..64*2 (times 2), 1..9+2 (2 more) or 1..8")
    low, high = (float(field.check(field.number(resolve_scalar(match[i].strip())))) for i in (1, 2))
    if low > high:
        raise ValueError(f"goes from {low:g} down to {high:g}; write the smaller one first")
    if match[3] is None and field.kind != "int":
        raise ValueError(f"'{text}' says not how far apart its values are: write it as {text}*2 or {text}+0.5")
    step = field.number(resolve_scalar((match[4] or "1").strip()))
    if match[3] == "*":
        if not (low > 0 and step > 1):
            raise ValueError(f"'{text}': the first value must be above 0, and what it is multiplied by above 1")
        count = math.floor(math.log(high / low) / math.log(step) * (1 + 1e-12) + 1e-12) + 1
    elif step > 0:
        count = math.floor((high - low) / step * (1 + 1e-12)) + 1
    else:
        raise ValueError(f"'{text}': its values must be more than 0 apart")
    if count > MAX_AXIS:
        raise ValueError(f"has {count:,} points; at most {MAX_AXIS:,}")
    points = [low * step**i if match[3] == "*" else low + i * step for i in range(count)]
    return tuple(field.check(min(point, high)) for point in points)


def read_value(document: Document, path: Path, raw: object, field: Field, problems: Problems) -> Value | None:
    """Return one value of a field; on a problem note it and return None."""
    try:
        return field.parse(raw)
    except ValueError as error:
        problems.add(document.problem(path, str(error)))
        return None


def _read_range(document: Document, path: Path, raw: Record, field: Field, problems: Problems
                ) -> tuple[Value, ...]:  # fmt: skip
    for key in raw:
        if key not in RANGE_KEYS:
            message = f"unknown key{nearest(key, RANGE_KEYS)} ({one_of(RANGE_KEYS)})"
            problems.add(document.problem((*path, key), message))
            return ()
    try:
        return _range(raw, field)
    except ValueError as error:
        problems.add(document.problem(path, str(error)))
        return ()


def _range(raw: Record, field: Field) -> tuple[Value, ...]:
    if field.kind == "choice":
        raise ValueError(f"has no range: {field.allowed()}; give a list")
    if "from" not in raw or "to" not in raw or ("steps" in raw) == ("step" in raw):
        raise ValueError("a range needs 'from', 'to', and either 'steps' (how many points) or 'step' (how far apart)")
    ends = [field.parse(raw[key]) for key in ("from", "to")]
    if any(isinstance(end, str) for end in ends):
        raise ValueError("a range goes from a number to a number")
    low, high = (float(end) for end in ends)
    if low > high:
        raise ValueError(f"goes from {low:g} down to {high:g}; 'from' must not exceed 'to'")
    points = _by_step(raw, field, low, high) if "step" in raw else _by_steps(raw, low, high)
    points = _round(raw, field, points, low, high)
    return tuple(field.check(float(point)) for point in points)


def _by_step(raw: Record, field: Field, low: float, high: float) -> object:
    if "scale" in raw:
        raise ValueError("'scale' goes with 'steps', not with 'step'")
    step = field.number(raw["step"])
    if not 0 < step < float("inf"):
        raise ValueError(f"'step' must be above 0, not {raw['step']}")
    count = np.floor((high - low) / step * (1 + 1e-12)) + 1
    if count > MAX_AXIS:
        raise ValueError(f"has {count:,.6g} points; at most {MAX_AXIS:,}")
    return low + step * np.arange(int(count))


def _by_steps(raw: Record, low: float, high: float) -> object:
    steps, scale = raw["steps"], raw.get("scale", "linear")
    if type(steps) not in (int, float) or not 1 <= steps <= MAX_AXIS or steps != int(steps):
        raise ValueError(f"'steps' must be a whole number from 1 to {MAX_AXIS:,}, not {steps}")
    steps = int(steps)
    if scale not in SCALES:
        raise ValueError(f"'scale': {one_of(SCALES)}")
    if steps == 1 and low != high:
        raise ValueError("'steps: 1' needs 'from' and 'to' to be equal")
    if scale == "linear":
        return np.linspace(low, high, steps)
    if low <= 0:
        raise ValueError("a log range must begin above 0")
    points = np.exp(np.linspace(np.log(low), np.log(high), steps))
    points[0], points[-1] = low, high
    # Powers of two (1, 2, 4) come out exact: what is within rounding of a whole number is that number.
    rounded = np.round(points)
    return np.where(np.abs(points - rounded) < 1e-9 * np.abs(points), rounded, points)


def _round(raw: Record, field: Field, points: Any, low: float, high: float) -> Any:
    if "round_to" in raw:
        unit = raw["round_to"]
        unit = field.number(unit)
        if not 0 < unit < float("inf"):
            raise ValueError(f"'round_to' must be above 0, not {raw['round_to']}")
        rounded = np.unique(np.round(points / unit) * unit)
        rounded = rounded[(rounded >= low) & (rounded <= high)]
        if not rounded.size:
            raise ValueError(f"no multiple of {unit:g} lies in the range")
        return rounded
    if field.kind == "int" and not np.array_equal(points, np.round(points)):
        raise ValueError(f"gives numbers that are not whole, and {field.name} is whole: add 'round_to: N'")
    return points


def read_table(document: Document, known: Callable[[str], bool], problems: Problems) -> dict[str, tuple[Value, ...]]:
    """Return the columns of ``zip``, a list of points that give the same fields; empty where it is none.

    ``known`` says of a name whether it is a field, and notes where it is not.
    """

    def wrong(path: Path, message: str) -> dict[str, tuple[Value, ...]]:
        problems.add(document.problem(path, message))
        return {}

    points = document.data.get("zip", [])
    if not isinstance(points, list) or not all(isinstance(point, dict) and point for point in points):
        return wrong(("zip",), "must be a list of points, each a mapping of fields to values")
    if not points:
        return wrong(("zip",), "is empty: an axis needs at least one value") if "zip" in document.data else {}
    if any(point in points[:index] for index, point in enumerate(points[:1000])):
        wrong(("zip",), "lists a point twice")
    columns: dict[str, list[Value]] = {name: [] for name in points[0] if known(name)}
    for index, point in enumerate(points):
        if set(point) != set(points[0]):
            return wrong(("zip", index), f"every point must give the same fields: {', '.join(points[0])}")
        for name in columns:
            value = read_value(document, ("zip", index, name), point[name], FIELDS[name], problems)
            columns[name].append(0 if value is None else value)
    return {name: tuple(values) for name, values in columns.items()}
