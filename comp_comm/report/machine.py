"""Machine formats: JSON with its meta block, JSON lines, CSV. Full precision; rows come in batches of columns."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import IO, Any

from comp_comm.printable import SPREADSHEET, as_data
from comp_comm.records import Record, Records

# Rows as columns of plain values: by name, equally long lists.
Columns = dict[str, list[Any]]
Batches = Iterable[Columns]


def as_columns(records: Sequence[Mapping[str, object]]) -> Columns:
    """Return records, all with the same keys, as columns.

    >>> as_columns([{"tp": 1}, {"tp": 2}])
    {'tp': [1, 2]}
    """
    return {name: [record[name] for record in records] for name in (records[0] if records else ())}


def as_records(batches: Batches) -> Records:
    """Return batches of columns as records."""
    return [dict(zip(batch, row, strict=True)) for batch in batches for row in zip(*batch.values(), strict=True)]


def write_json(
    out: IO[str], batches: Batches, columns: Sequence[str], meta: Record, ending: Callable[[], Record] = dict
) -> None:
    """Write ``{"meta": ..., "rows": [...]}``, a row a line; ``ending`` gives what is only known after the rows."""
    out.write('{"meta": ' + json.dumps(meta, allow_nan=False) + ',\n"rows": [')
    separator = "\n"
    for batch in batches:
        for line in json_rows(batch):
            out.write(separator + line)
            separator = ",\n"
    write_ending(out, ending())


def write_ending(out: IO[str], record: Record) -> None:
    """Write what follows the rows in JSON."""
    out.write("\n]" + "".join(f",\n{json.dumps(key)}: {json.dumps(value)}" for key, value in record.items()) + "}\n")


def write_jsonl(
    out: IO[str], batches: Batches, columns: Sequence[str], meta: Record, ending: Callable[[], Record] = dict
) -> None:
    """Write one JSON object a line, without meta."""
    for batch in batches:
        out.writelines(line + "\n" for line in json_rows(batch))


def write_csv(
    out: IO[str], batches: Batches, columns: Sequence[str], meta: Record, ending: Callable[[], Record] = dict
) -> None:
    """Write a header and rows; what has no number is empty, truth is true or false."""
    writer, marked = csv.writer(out, lineterminator="\n"), SPREADSHEET.get()
    writer.writerow(columns)
    for batch in batches:
        writer.writerows(zip(*(csv_cells(batch[name], marked) for name in columns), strict=True) if batch else [])


def json_rows(batch: Columns) -> Iterator[str]:
    """Yield the rows of a batch as JSON objects: each column is encoded as a whole, which is several times faster."""
    template = "{" + ", ".join(json.dumps(name).replace("%", "%%") + ": %s" for name in batch) + "}"
    for row in zip(*(_json_cells(values) for values in batch.values()), strict=True):
        yield template % row


def _json_cells(values: list[object]) -> list[str]:
    if set(map(type, values)) <= {float, int}:
        return list(map(repr, values))  # finite, as rows are: what json.dumps writes
    words = {value: json.dumps(value, allow_nan=False) for value in values if type(value) not in (float, int, bool)}
    return [json.dumps(value, allow_nan=False) if type(value) in (float, int, bool) else words[value]
            for value in values]  # fmt: skip


def csv_cells(values: list[object], marked: bool = False) -> list[object]:
    """Return a column as the CSV writer takes it; ``marked`` are the words that a spreadsheet would run.

    >>> csv_cells([True, None]), csv_cells(["=1+1", "tp", -1.0], marked=True)
    (['true', None], ["'=1+1", 'tp', -1.0])
    """
    if any(isinstance(value, bool) for value in values):
        return ["true" if value is True else "false" if value is False else value for value in values]
    return [as_data(value) for value in values] if marked else values  # the csv writer leaves None empty


WRITERS = {"json": write_json, "jsonl": write_jsonl, "csv": write_csv}


def write_record(out: IO[str], record: Record) -> None:
    """Write one JSON object for people and programs: indented."""
    json.dump(record, out, indent=1, allow_nan=False)
    out.write("\n")


def write_rows(out: IO[str], rows: Sequence[Record], form: str) -> None:
    """Write records, all with the same keys, as CSV or JSON lines."""
    WRITERS[form](out, [as_columns(rows)], list(rows[0]), {})
