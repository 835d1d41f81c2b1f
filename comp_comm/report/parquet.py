"""Rows as Parquet: a row group for each block of the sweep, the meta block in the file's own meta data.

While rows are being made they are record batches in Arrow's stream format, which can be cut and appended to; Parquet
is what they are put together as in the end.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from comp_comm.errors import CompcommError, MissingExtraError
from comp_comm.fields import FIELDS
from comp_comm.records import Record
from comp_comm.sweeps.engine import Rows
from comp_comm.sweeps.plan import FEASIBLE, REASON
from comp_comm.sweeps.result import plain_columns
from comp_comm.sweeps.where import WORDS

KEY = b"compcomm"


def library() -> ModuleType:
    """Return pyarrow. Raises ``MissingExtraError`` where it is not installed."""
    try:
        importlib.import_module("pyarrow.parquet")
        return importlib.import_module("pyarrow")
    except ImportError:
        raise MissingExtraError("Parquet", "parquet") from None


def heading(columns: Sequence[str], meta: Record) -> bytes:
    """Return the schema of some columns, as a stream of record batches begins."""
    schema: bytes = _schema(columns).with_metadata({KEY: json.dumps(meta, allow_nan=False).encode()}).serialize()
    return schema


def encode(columns: Sequence[str], rows: Rows) -> bytes:
    """Return rows as a record batch."""
    pyarrow, plain, schema = library(), plain_columns(rows), _schema(columns)
    try:
        arrays = [pyarrow.array(plain[name], schema.field(name).type) for name in columns]
    except pyarrow.ArrowInvalid as error:
        raise CompcommError(f"a column cannot be written as Parquet: {error}") from None
    return bytes(pyarrow.record_batch(arrays, schema=schema).serialize())


def _schema(columns: Sequence[str]) -> Any:
    pyarrow = library()

    def kind(name: str) -> Any:
        field = FIELDS.get(name)
        if name == FEASIBLE:
            return pyarrow.bool_()
        if name in (REASON, *WORDS) or (field and field.kind == "choice"):
            return pyarrow.string()
        return pyarrow.int64() if field and field.kind == "int" else pyarrow.float64()

    return pyarrow.schema([(name, kind(name)) for name in columns])


def assemble(stream: Path, target: Path) -> None:
    """Make the Parquet file of a stream of record batches."""
    pyarrow = library()
    with pyarrow.OSFile(str(stream)) as source:
        batches = pyarrow.ipc.open_stream(source)
        with pyarrow.parquet.ParquetWriter(str(target), batches.schema) as writer:
            for batch in batches:
                if batch.num_rows:
                    writer.write_batch(batch)


def write_blocks(target: str, begin: bytes, contents: Iterable[bytes]) -> None:
    """Write a Parquet file of a heading and encoded blocks, as they come."""
    pyarrow = library()
    schema = pyarrow.ipc.read_schema(pyarrow.py_buffer(begin))
    with pyarrow.parquet.ParquetWriter(target, schema) as writer:
        for content in contents:
            batch = pyarrow.ipc.read_record_batch(pyarrow.py_buffer(content), schema)
            if batch.num_rows:
                writer.write_batch(batch)
