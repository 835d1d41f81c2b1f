"""The manifest of work that can be gone on with: lines of JSON beside an answer, locked by the run that makes it.

Its first line is what decides the answer; what follows counts as far as it is whole and makes sense. It is replaced as
a whole, or a line is appended. A file that is no manifest, or a link, is left alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from comp_comm import durable
from comp_comm.errors import ConfigError
from comp_comm.records import Record, Records

Write = Callable[[BinaryIO, bytes], None]
FIRST = b'{"identity"'
MOST_BYTES = 2**28
MOST_SHOWN = 60
WORDS = {
    "version": "version of compcomm",
    "study_sha256": "the study's digest",
    "form": "form of what is kept",
    "heading_crc32": "the title, or a note, above the rows",
}


def manifest_path(target: Path) -> Path:
    """Return where the manifest of an answer is while it is being made.

    >>> manifest_path(Path("rows.csv")).name
    'rows.csv.manifest'
    """
    return target.with_name(target.name + ".manifest")


class Manifest:
    """The manifest of a target: ``lines`` are those that were there, without the first.

    Raises ``ConfigError`` where it is of another run, of a run that is still going on, or no manifest.
    """

    def __init__(self, target: Path, first: Record, write: Write) -> None:
        self.path, self._target, self._first, self._write = manifest_path(target), target, first, write
        self._made = not os.path.lexists(self.path)
        self._file = open_own(self.path, target)
        try:
            records = _lines(self.path, _content(self.path, self._file))
            if records:
                refuse_another(self.path, records[0], first)
        except BaseException:
            self.close()
            raise
        self.lines = records[1:]

    def replace(self, records: Records) -> None:
        """Put other lines below the first one; the file is there as it was, or whole, whenever the power goes."""
        made, file = durable.make_beside(self._target)
        try:
            durable.give_rights(made, self.path)
            self._write(file, "".join(map(line_of, [self._first, *records])).encode())
            os.fsync(file.fileno())
            os.replace(made, self.path)
        except BaseException:
            file.close()
            with contextlib.suppress(OSError):
                made.unlink()
            raise
        before, self._file, self._made = self._file, file, False
        before.close()
        durable.sync_folder(self.path)

    def append(self, record: Record) -> None:
        """Add a line: it counts once it is on the disk."""
        self._file.seek(0, os.SEEK_END)
        self._write(self._file, line_of(record).encode())
        os.fsync(self._file.fileno())

    def remove(self) -> None:
        """Remove it: the answer is in its place, or there is none."""
        self.path.unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        """Let others have it; what this run made and never wrote to is removed."""
        if self._file.closed:
            return
        if self._made:
            with contextlib.suppress(OSError):
                if os.path.samestat(os.fstat(self._file.fileno()), os.lstat(self.path)):
                    self.path.unlink(missing_ok=True)
        self._file.close()


def open_own(path: Path, like: Path | None = None) -> BinaryIO:
    """Return a file beside an answer that only this run has open. Raises ``ConfigError`` where another has."""
    try:
        return durable.open_locked(path, like)
    except durable.TakenError:
        raise ConfigError(f"{path}: another run is writing to it") from None


def line_of(record: Record) -> str:
    """Return a record as a line."""
    return json.dumps(record, sort_keys=True) + "\n"


def checked(state: Record) -> Record:
    """Return a state with its checksum, as a line has it.

    >>> unchecked(checked({"boxes": 3})), unchecked({"state": {"boxes": 4}, "crc32": 1})
    ({'boxes': 3}, None)
    """
    return {"state": state, "crc32": zlib.crc32(line_of(state).encode())}


def unchecked(record: Record) -> Record | None:
    """Return the state that a line has, None where it is not as it was written."""
    state = record.get("state")
    return state if isinstance(state, dict) and record.get("crc32") == zlib.crc32(line_of(state).encode()) else None


def _content(path: Path, file: BinaryIO) -> bytes:
    size = os.fstat(file.fileno()).st_size
    if size > MOST_BYTES:
        raise ConfigError(f"{path}: is larger than any manifest; give another -o FILE, or move it away")
    file.seek(0)
    parts = []
    while part := file.read(2**20):
        parts.append(part)
    return b"".join(parts)


def _lines(path: Path, content: bytes) -> Records:
    """Return the lines of a manifest up to the first that is torn or no line of one; none where there is nothing."""
    if content[: len(FIRST)] != FIRST[: len(content)]:
        raise ConfigError(f"{path}: is no manifest of an interrupted run; give another -o FILE, or move it away")
    records: Records = []
    for line in content.split(b"\n")[:-1]:
        with contextlib.suppress(ValueError, RecursionError):
            record = json.loads(line)
            if isinstance(record, dict) and (records or isinstance(record.get("identity"), dict)):
                records.append(record)
                continue
        break
    return records


def refuse_another(manifest: Path, old_line: Record, new_line: Record) -> None:
    """Raise ``ConfigError`` where the first line of a manifest is of another run, with what differs."""
    old, new = old_line["identity"], new_line["identity"]
    differing = [name for name in (*new, *(name for name in old if name not in new)) if old.get(name) != new.get(name)]
    if not differing:
        return
    otherwise = "give another -o FILE, or delete it to begin again"
    if {"version", "form"} & set(differing) and not set(differing) - {"version", "form", "heading_crc32"}:
        versions = [str(each.get("version")) for each in (old, new)]
        begun = f"version {versions[0]}" if versions[0] != versions[1] else "another build"
        raise ConfigError(f"{manifest}: was begun by {begun} of compcomm, and this is {versions[1]}, which may count "
                          f"otherwise: go on with that one, {otherwise}")  # fmt: skip
    said = "; ".join(f"{WORDS.get(name, _short(name))} is {_short(new.get(name))}, was {_short(old.get(name))}"
                     for name in differing[:8])  # fmt: skip
    raise ConfigError(f"{manifest}: is of another run ({said}); {otherwise}")


def _short(value: object) -> str:
    text = ",".join(str(one)[:MOST_SHOWN] for one in value[:MOST_SHOWN]) if isinstance(value, list) else str(value)
    return text if len(text) <= MOST_SHOWN else text[: MOST_SHOWN - 3] + "..."
