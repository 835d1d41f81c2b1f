"""Work that survives being killed: rows in a file beside a manifest of them, or a small state, kept now and then.

What is on the disk can always be gone on with, whatever moment the end came at:

* a block of rows is written to the partial file and synced; only then its line is appended to the manifest and synced.
  Rows without a line are cut off again, and so is a line that was torn;
* a state is written to a file of its own, synced, and put in the place of the last one.

The manifest begins with what decides the answer (the study's digest, columns, format, version): that of another run is
refused. Each line has the checksum of its block: rows that did not reach the disk, or were changed, are made again.
Whoever makes an answer has its manifest locked: a second run on the same file is refused.
"""

from __future__ import annotations

import base64
import os
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO

import numpy as np

from comp_comm import durable
from comp_comm.formulas.arrays import AnyArray
from comp_comm.records import Record, Records
from comp_comm.structs import struct
from comp_comm.sweeps.manifest import Manifest, checked, manifest_path, open_own, unchecked
from comp_comm.sweeps.stream import Piece

KEEP_SECONDS = 1.0  # how much work a kill may cost, where a state is kept
PART = 2**20


@struct
class BlocksDone:
    """What a line of the manifest says is done, and the checksum of the last block."""

    blocks: int
    rows: int
    feasible: int
    bytes: int
    crc32: int

    def after(self, piece: Piece) -> BlocksDone:
        """Return what is done when one more block is."""
        return BlocksDone(self.blocks + 1, self.rows + piece.rows, self.feasible + piece.feasible,
                    self.bytes + len(piece.content), zlib.crc32(piece.content))  # fmt: skip


class RowFile:
    """Rows in a partial file beside their manifest: gone on with, or begun.

    ``done`` is what was there; ``finished`` says that the whole answer was. Raises ``ConfigError`` where the manifest
    is of another run, or a run that is still going on writes to it.
    """

    def __init__(self, target: Path, partial: Path, identity: Record, heading: bytes) -> None:
        self.target, self.partial, self.manifest = target, partial, manifest_path(target)
        first = {"identity": {**identity, "heading_crc32": zlib.crc32(heading)}}
        self._entries = Manifest(target, first, _write)
        lines = self._entries.lines
        # Killed between the last two steps: the answer has taken its place, only the manifest is left.
        self.finished = bool(lines) and not os.path.lexists(partial) and _is_finished(target, lines[-1])
        if self.finished:
            return
        try:
            self._rows = _open_locked(partial, target)
        except BaseException:
            self._entries.close()
            raise
        try:
            self.done = self._begin(lines, heading)
        except BaseException:
            self.close()
            raise

    def _begin(self, lines: Records, heading: bytes) -> BlocksDone:
        """Return what is done, all else cut off."""
        kept = _verified(self._rows, lines)
        if not kept:
            self._rows.truncate(0)
            self._rows.seek(0)
            _write_all(self._rows, heading)
            kept = [BlocksDone(0, 0, 0, len(heading), zlib.crc32(heading))]
        self._rows.truncate(kept[-1].bytes)
        self._rows.seek(kept[-1].bytes)
        os.fsync(self._rows.fileno())
        self._entries.replace(list(map(asdict, kept)))
        return kept[-1]

    def append(self, piece: Piece) -> None:
        """Add a block: it counts once its line is on the disk."""
        self._add(piece.content)
        self.done = self.done.after(piece)
        self._entries.append(asdict(self.done))

    def finish(self, ending: bytes, assemble: Callable[[Path, Path], None] | None = None) -> None:
        """Put the answer in its place, as it is or as ``assemble`` makes it of the partial file."""
        self._add(ending)
        if assemble is None:
            self._put(self.partial)
        else:
            with durable.replacement(self.target) as made:
                assemble(self.partial, made)
                self._put(made)
            self.partial.unlink()
        self._entries.remove()
        self.close()

    def _put(self, made: Path) -> None:
        durable.give_rights(made, self.target)
        durable.sync_file(made)
        self._entries.append({"finished": True, **_digest(made)})
        if not durable.LOCKS:  # where an open file cannot be moved; elsewhere it stays locked until it is
            self._rows.close()
        os.replace(made, self.target)
        durable.sync_folder(self.target)

    def discard(self) -> None:
        """Remove what leads to the answer: there is none, or it is in its place."""
        self.partial.unlink(missing_ok=True)
        self._entries.remove()
        self.close()

    def close(self) -> None:
        """Close both files as they are."""
        if not self.finished:
            self._rows.close()
        self._entries.close()

    def _add(self, content: bytes) -> None:
        _write_all(self._rows, content)
        os.fsync(self._rows.fileno())


class Checkpoint:
    """A small state beside the answer it leads to; ``state`` is what was kept, None at the beginning.

    Raises ``ConfigError`` where it is of another run, or of one that is still going on.
    """

    def __init__(self, target: Path, identity: Record) -> None:
        self._manifest = Manifest(target, {"identity": identity}, _write)
        self.path = self._manifest.path
        lines = self._manifest.lines
        self.state: Record | None = unchecked(lines[0]) if lines else None
        self._last = time.monotonic()

    def keep(self, make: Callable[[], Record], now: bool = False) -> None:
        """Keep the state that ``make`` returns, if the last one is old enough, or ``now``."""
        if now or time.monotonic() - self._last >= KEEP_SECONDS:
            self._manifest.replace([checked(make())])
            self._last = time.monotonic()

    def part(self, name: str) -> CheckpointPart:
        """Return a checkpoint of one of several pieces of work, within this one."""
        return CheckpointPart(self, name)

    def remove(self) -> None:
        """Remove it: the answer is in its place."""
        self._manifest.remove()

    def close(self) -> None:
        """Let another run go on with it."""
        self._manifest.close()


class CheckpointPart:
    """The state of one of several pieces of work: all of them are kept together."""

    def __init__(self, together: Checkpoint, name: str) -> None:
        self._together, self._name = together, name

    @property
    def state(self) -> Record | None:
        """What was kept of this piece of work."""
        kept: Record | None = (self._together.state or {}).get(self._name)
        return kept

    def keep(self, make: Callable[[], Record], now: bool = False) -> None:
        """Keep the state that ``make`` returns (see `Checkpoint.keep`)."""

        def all_parts() -> Record:
            self._together.state = {**(self._together.state or {}), self._name: make()}
            return self._together.state

        self._together.keep(all_parts, now)


def packed(array: AnyArray) -> str:
    """Return an array of numbers as text, to the last bit.

    >>> unpacked(packed(np.array([0.1, 2.0])), "f8").tolist()
    [0.1, 2.0]
    """
    return base64.b64encode(array.astype(array.dtype.newbyteorder("<")).tobytes()).decode()


def unpacked(text: str, kind: str) -> AnyArray:
    """Return the array that `packed` made, of numbers of a ``kind`` ("f8", "i8")."""
    return np.frombuffer(base64.b64decode(text), f"<{kind}").astype(kind)


def _is_finished(target: Path, line: Record) -> bool:
    """Return whether an answer is in its place that a line says is whole: this one, and not one from before."""
    if line.get("finished") is not True or not target.is_file():
        return False
    size = line.get("size")
    return target.stat().st_size == size and _digest(target) == {"size": size, "crc32": line.get("crc32")}


def _digest(path: Path) -> Record:
    size = crc = 0
    with open(path, "rb") as file:
        while part := file.read(PART):
            size, crc = size + len(part), zlib.crc32(part, crc)
    return {"size": size, "crc32": crc}


def _verified(rows: BinaryIO, lines: Iterable[Record]) -> list[BlocksDone]:
    """Return the lines whose blocks are in the file as they were written, up to the first that is not."""
    kept: list[BlocksDone] = []
    size = os.fstat(rows.fileno()).st_size
    for done in _entries(lines):
        begin = kept[-1].bytes if kept else 0
        if done.blocks != len(kept) or not begin <= done.bytes <= size:
            break
        rows.seek(begin)
        if zlib.crc32(_read(rows, done.bytes - begin)) != done.crc32:
            break
        kept.append(done)
    return kept


def _entries(lines: Iterable[Record]) -> Iterator[BlocksDone]:
    for line in lines:
        try:
            done = BlocksDone(**line)
        except TypeError:  # that it is finished
            return
        if any(type(number) is not int or number < 0 for number in asdict(done).values()):
            return
        yield done


def _read(file: BinaryIO, size: int) -> bytes:
    parts = []
    while size > 0 and (part := file.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts) if size == 0 else b"too short"


def _open_locked(path: Path, like: Path | None = None) -> BinaryIO:
    """Return a file to read and write, made if need be, that no other run has open."""
    return open_own(path, like)


def _write_all(file: BinaryIO, content: bytes) -> None:
    """Write every byte of rows, or of a line of their manifest."""
    durable.write_all(file, content)


def _write(file: BinaryIO, content: bytes) -> None:
    _write_all(file, content)


__all__ = ["BlocksDone", "Checkpoint", "CheckpointPart", "RowFile", "manifest_path", "packed", "unpacked"]
