"""One way to write the answer of any command that gives records: table, markdown, CSV, JSON, JSON lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import IO

from comp_comm.records import Record
from comp_comm.report import machine, table
from comp_comm.sweeps.meta import identity


def write_answer(
    out: IO[str],
    form: str,
    rows: Sequence[Mapping[str, object]],
    meta: Record,
    columns: Sequence[str] = (),
    heading: Sequence[str] = (),
    footnotes: Sequence[str] = (),
) -> None:
    """Write records in a format. A table shows ``columns`` (all if none are named), between heading and footnotes."""
    columns_written = list(rows[0]) if rows else list(columns)
    if form in machine.WRITERS:
        machine.WRITERS[form](out, [machine.as_columns(rows)], columns_written, meta)
        return
    for line in heading:
        table.write_line(out, line, form)
    out.write("\n" if heading else "")
    table.write_records(out, rows, columns or columns_written, form)
    if footnotes:
        out.write("\n")
        for line in footnotes:
            table.write_line(out, line, form)


def basic_meta(command: str, **more: object) -> Record:
    """Return the meta block of a command that evaluates no study."""
    return {**identity(), "command": command, **more}
