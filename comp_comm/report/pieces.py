"""Blocks of rows as bytes, each made where its rows are: what a file of all of them is put together from.

Together with the heading and the ending they are what `comp_comm.report.machine` writes, byte for byte.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from comp_comm.printable import SPREADSHEET, visible_bytes
from comp_comm.records import Record
from comp_comm.report import machine, text_columns
from comp_comm.sweeps.engine import Rows
from comp_comm.sweeps.result import plain_columns
from comp_comm.sweeps.stream import Piece

Encode = Callable[[Rows], bytes]


@dataclass(frozen=True)
class Form:
    """A format in pieces: what comes first, what makes bytes of a block, what stands before rows, and what comes last.

    ``encode`` can be sent to another process.
    """

    heading: bytes
    encode: Encode
    first: bytes = b""
    between: bytes = b""
    ending: Callable[[Record], bytes] = lambda record: b""

    def joined(self, made: Iterable[Piece], rows: int = 0) -> Iterator[Piece]:
        """Yield pieces with what stands before them; ``rows`` are there already."""
        for piece in made:
            before = self.between if rows else self.first
            rows += piece.rows
            yield replace(piece, content=before + piece.content) if piece.rows and before else piece


def form_of(name: str, columns: Sequence[str], meta: Record) -> Form:
    """Return a format by its name, for rows of these columns.

    >>> form_of("csv", ["tp", "step_s"], {}).heading
    b'tp,step_s\\n'
    """
    if name == "parquet":
        from comp_comm.report import parquet

        return Form(parquet.heading(columns, meta), partial(parquet.encode, tuple(columns)))
    if name == "json":
        head = ('{"meta": ' + json.dumps(meta, allow_nan=False) + ',\n"rows": [').encode()
        return Form(head, json_bytes, b"\n", b",\n", _json_ending)
    if name == "jsonl":
        return Form(b"", jsonl_bytes)
    return Form(_csv_text([columns]), partial(csv_bytes, tuple(columns), SPREADSHEET.get()))


def json_bytes(rows: Rows) -> bytes:
    """Return rows as JSON objects, separated as in a list."""
    text = text_columns.json_lines(rows, ",\n")
    return visible_bytes(text[: -len(",\n")] if text else ",\n".join(machine.json_rows(plain_columns(rows))).encode())


def jsonl_bytes(rows: Rows) -> bytes:
    """Return rows as JSON objects, one a line."""
    text = text_columns.json_lines(rows, "\n")
    return visible_bytes(text or "".join(line + "\n" for line in machine.json_rows(plain_columns(rows))).encode())


def csv_bytes(columns: Sequence[str], marked: bool, rows: Rows) -> bytes:
    """Return rows as lines of CSV; ``marked`` are words that a spreadsheet would run."""
    text = text_columns.csv_lines(rows, columns, marked)
    if text:
        return visible_bytes(text)
    plain = plain_columns(rows)
    return _csv_text(zip(*(machine.csv_cells(plain[name], marked) for name in columns), strict=True))


def _csv_text(lines: Iterable[Iterable[object]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(lines)
    return visible_bytes(text.getvalue().encode("utf-8", "backslashreplace"))


def _json_ending(record: Record) -> bytes:
    text = io.StringIO()
    machine.write_ending(text, record)
    return text.getvalue().encode()
