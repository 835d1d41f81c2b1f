"""Machine formats: JSON with its meta block, JSON lines, CSV. Full precision, one row at a time."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from typing import IO, Any

Record = dict[str, Any]
Batches = Iterable[Sequence[Record]]


def write_json(out: IO[str], batches: Batches, columns: Sequence[str], meta: Record) -> None:
    """Write ``{"meta": ..., "rows": [...]}``, a row a line. Rows come in batches, so that none need be kept."""
    out.write('{"meta": ' + json.dumps(meta, allow_nan=False) + ',\n"rows": [')
    separator = "\n"
    for batch in batches:
        for record in batch:
            out.write(separator + json.dumps(record, allow_nan=False))
            separator = ",\n"
    out.write("\n]}\n")


def write_jsonl(out: IO[str], batches: Batches, columns: Sequence[str], meta: Record) -> None:
    """Write one JSON object a line, without meta."""
    for batch in batches:
        for record in batch:
            out.write(json.dumps(record, allow_nan=False) + "\n")


def write_csv(out: IO[str], batches: Batches, columns: Sequence[str], meta: Record) -> None:
    """Write a header and rows; what has no number is empty, truth is true or false."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    for batch in batches:
        for record in batch:
            writer.writerow(_cell(record[name]) for name in columns)


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else value


WRITERS = {"json": write_json, "jsonl": write_jsonl, "csv": write_csv}
