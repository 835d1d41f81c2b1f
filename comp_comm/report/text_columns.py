"""Long blocks of rows as text by columns, through Arrow: the bytes that Python would write, several times faster.

A column of few values is encoded once a value. Of others Arrow writes the same shortest decimals as Python, but for
whole numbers, and for very small and very large ones, which Python writes.
"""

from __future__ import annotations

import csv
import importlib
import io
import json
from collections.abc import Callable, Sequence
from functools import cache
from types import ModuleType
from typing import Protocol, cast

import numpy as np

from comp_comm.fields import FIELDS
from comp_comm.formulas.arrays import AnyArray, Array
from comp_comm.printable import as_data
from comp_comm.sweeps.engine import Rows

LONG = 2**14  # rows for which importing Arrow pays
FEW = 8  # so many rows a value at least: then values are encoded, not rows
SAMPLE = 2**9  # values that are looked at first, to see whether any come again: to count all takes half of writing them
SMALL, LARGE = 1e-4, 1e10  # between them both write a number without an exponent
Word = Callable[[object], str]


class Buffer(Protocol):
    """Bytes that Arrow holds."""

    def slice(self, offset: int, length: int) -> Buffer:
        """Return a part of them."""

    def to_pybytes(self) -> bytes:
        """Return a copy of them."""


class Strings(Protocol):
    """An array of strings of Arrow's."""

    offset: int

    def __len__(self) -> int: ...

    def buffers(self) -> list[Buffer]:
        """Return what it is made of: where nothing is, where each string begins, and all of them together."""


@cache
def arrow() -> tuple[ModuleType, ModuleType] | None:
    """Return Arrow and its functions; None where it is not installed."""
    try:
        return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.compute")
    except ImportError:
        return None


def json_lines(rows: Rows, end: str) -> bytes | None:
    """Return rows as JSON objects with ``end`` after each; None where they are few, or Arrow is not there."""
    keys = [json.dumps(name) + ": " for name in rows.columns]
    before = ["{" + keys[0], *(", " + key for key in keys[1:])] if keys else []
    return _joined(rows, list(rows.columns), before, "}" + end, "null", lambda word: json.dumps(word, allow_nan=False))


def csv_lines(rows: Rows, columns: Sequence[str], marked: bool) -> bytes | None:
    """Return rows as lines of CSV, as `json_lines` does; ``marked`` are words that a spreadsheet would run."""
    if len(columns) < 2:  # an empty cell alone is quoted
        return None
    before = ["", *(["," for _ in columns[1:]])]
    return _joined(rows, columns, before, "\n", "", lambda word: _quoted(as_data(word) if marked else word))


def _joined(rows: Rows, columns: Sequence[str], before: list[str], end: str, nothing: str, word: Word) -> bytes | None:
    library = arrow() if len(rows) >= LONG else None
    if library is None:
        return None
    pa, compute = library
    parts: list[object] = []
    for name, text in zip(columns, before, strict=True):
        cells = _cells(library, name, rows.columns[name], word)
        if cells is None:
            return None
        parts += [pa.scalar(text), cells] if text else [cells]
    lines = compute.binary_join_element_wise(*parts, pa.scalar(end), "", null_handling="replace",
                                             null_replacement=nothing)  # fmt: skip
    chunks = lines.chunks if hasattr(lines, "chunks") else [lines]
    return b"".join(_bytes(chunk) for chunk in chunks)


def _bytes(strings: Strings) -> bytes:
    """Return all strings of an array one after the other: that is how Arrow holds them."""
    offsets = np.frombuffer(strings.buffers()[1].to_pybytes(), np.int32)[
        strings.offset : strings.offset + len(strings) + 1
    ]
    return strings.buffers()[2].slice(int(offsets[0]), int(offsets[-1] - offsets[0])).to_pybytes()


def _cells(library: tuple[ModuleType, ModuleType], name: str, values: AnyArray, word: Word) -> Strings | None:
    """Return a column as strings, null where nothing is; None where it holds neither numbers, truths nor words."""
    pa, compute = library
    if values.dtype == object:
        return _words(library, values, word)
    if values.dtype == bool:
        return cast(Strings, compute.if_else(pa.array(values), "true", "false"))
    if name in FIELDS and FIELDS[name].kind == "int":
        if not (values == np.round(values)).all():
            return None
        values = values.astype(np.int64)
    if values.dtype.kind in "iu":
        return cast(Strings, pa.array(values).cast(pa.string()))
    return _floats(library, np.ascontiguousarray(values, np.float64))


def _words(library: tuple[ModuleType, ModuleType], values: AnyArray, word: Word) -> Strings | None:
    pa, _ = library
    plain = [value or None for value in values.tolist()]
    if not all(value is None or type(value) is str for value in dict.fromkeys(plain)):
        return None
    coded = pa.array(plain, pa.string()).dictionary_encode()
    words = pa.array([word(value) for value in coded.dictionary.to_pylist()], pa.string())
    return cast(Strings, words.take(coded.indices))


def _floats(library: tuple[ModuleType, ModuleType], values: Array) -> Strings:
    pa, compute = library
    if _repeats(values[:: max(1, values.size // SAMPLE)]):
        coded = pa.array(values.view(np.int64)).dictionary_encode()  # by their bits: 0.0 and -0.0 are written apart
        if FEW * len(coded.dictionary) <= values.size:
            written = pa.array(_written(coded.dictionary.to_numpy().view(np.float64)), pa.string())
            return cast(Strings, written.take(coded.indices))
    cells = pa.array(values, from_pandas=True).cast(pa.string())  # NaN is null
    size = np.abs(values)
    other = (size < SMALL) | (size >= LARGE) | (values == np.round(values))
    if not other.any():
        return cast(Strings, cells)
    return cast(
        Strings, compute.replace_with_mask(cells, pa.array(other), pa.array(_written(values[other]), pa.string()))
    )


def _repeats(some: Array) -> bool:
    return 2 * len(set(some.tolist())) <= some.size


def _written(values: Array) -> list[str | None]:
    return [None if value != value else repr(value) for value in values.tolist()]


def _quoted(word: object) -> str:
    """Return a word as a cell of CSV.

    >>> _quoted("tp"), _quoted("a, b")
    ('tp', '"a, b"')
    """
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerow([word, ""])
    return text.getvalue()[: -len(",\n")]
