"""Work that survives being killed: rows in a file beside a manifest of them, or a small state, kept now and then.

What is on the disk can always be gone on with, whatever moment the end came at:

* a block of rows is written to the partial file and synced; only then its line is appended to the manifest and synced.
  Rows without a line are cut off again, and so is a line that was torn;
* a state is written to a file of its own, synced, and put in the place of the last one.

The manifest begins with what decides the answer (the study's digest, columns, format, version): that of another run is
refused. Each line has the checksum of its block: rows that did not reach the disk, or were changed, are made again.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from comp_comm.errors import ConfigError
from comp_comm.sweep.parallel import Piece

try:
    import fcntl
except ImportError:  # no POSIX: two runs at once on one file are not noticed
    fcntl = None  # type: ignore[assignment]

KEEP_SECONDS = 1.0  # how much work a kill may cost, where a state is kept
Record = dict[str, Any]


def manifest_path(target: Path) -> Path:
    """Return where the manifest of an answer is while it is being made.

    >>> manifest_path(Path("rows.csv")).name
    'rows.csv.manifest'
    """
    return target.with_name(target.name + ".manifest")


@dataclass(frozen=True)
class Done:
    """What a line of the manifest says is done, and the checksum of the last block."""

    blocks: int
    rows: int
    feasible: int
    bytes: int
    crc32: int

    def after(self, piece: Piece) -> Done:
        """Return what is done when one more block is."""
        return Done(self.blocks + 1, self.rows + piece.rows, self.feasible + piece.feasible,
                    self.bytes + len(piece.content), zlib.crc32(piece.content))  # fmt: skip


class RowFile:
    """Rows in a partial file beside their manifest: gone on with, or begun.

    ``done`` is what was there; ``finished`` says that the whole answer was. Raises ``ConfigError`` where the manifest
    is of another run, or a run that is still going on writes to it.
    """

    def __init__(self, target: Path, partial: Path, identity: Record, heading: bytes) -> None:
        self.target, self.partial, self.manifest = target, partial, manifest_path(target)
        first = {"identity": {**identity, "heading_crc32": zlib.crc32(heading)}}
        lines = _lines(self.manifest)
        if lines:
            _refuse_another(self.manifest, lines[0], first)
        # Killed between the last two steps: the answer has taken its place, only the manifest is left.
        self.finished = bool(lines) and "finished" in lines[-1] and target.exists() and not partial.exists()
        if self.finished:
            return
        self._rows = _open_locked(partial)
        try:
            kept = _verified(self._rows, lines[1:])
            if not kept:
                self._rows.truncate(0)
                _write_all(self._rows, heading)
                kept = [Done(0, 0, 0, len(heading), zlib.crc32(heading))]
            self.done = kept[-1]
            self._rows.truncate(self.done.bytes)
            self._rows.seek(self.done.bytes)
            os.fsync(self._rows.fileno())
            write_whole(self.manifest, "".join(map(_line, [first, *map(asdict, kept)])))
            self._entries = open(self.manifest, "ab", buffering=0)  # noqa: SIM115 - closed with the rows
        except BaseException:
            self._rows.close()
            raise

    def append(self, piece: Piece) -> None:
        """Add a block: it counts once its line is on the disk."""
        self._write(piece.content)
        self.done = self.done.after(piece)
        self._note(asdict(self.done))

    def finish(self, ending: bytes, assemble: Callable[[Path, Path], None] | None = None) -> None:
        """Put the answer in its place, as it is or as ``assemble`` makes it of the partial file."""
        self._write(ending)
        made = self.partial
        if assemble:
            made = self.partial.with_name(self.partial.name + ".new")
            assemble(self.partial, made)
            _sync(made)
        self._note({"finished": True})
        if fcntl is None:  # where an open file cannot be moved; elsewhere it stays locked until it is
            self.close()
        os.replace(made, self.target)
        self.close()
        _sync_folder(self.target)
        if assemble:
            self.partial.unlink()
        self.manifest.unlink()

    def discard(self) -> None:
        """Remove what leads to the answer: there is none, or it is in its place."""
        self.close()
        self.partial.unlink(missing_ok=True)
        self.manifest.unlink(missing_ok=True)

    def close(self) -> None:
        """Close both files as they are."""
        if not self.finished:
            self._rows.close()
            self._entries.close()

    def _write(self, content: bytes) -> None:
        _write_all(self._rows, content)
        os.fsync(self._rows.fileno())

    def _note(self, record: Record) -> None:
        _write_all(self._entries, _line(record).encode())
        os.fsync(self._entries.fileno())


class Checkpoint:
    """A small state beside the answer it leads to; ``state`` is what was kept, None at the beginning.

    Raises ``ConfigError`` where it is of another run.
    """

    def __init__(self, target: Path, identity: Record) -> None:
        self.path, self._identity = manifest_path(target), {"identity": identity}
        lines = _lines(self.path)
        if lines:
            _refuse_another(self.path, lines[0], self._identity)
        self.state: Record | None = lines[1] if len(lines) > 1 else None
        self._last = time.monotonic()

    def keep(self, make: Callable[[], Record], now: bool = False) -> None:
        """Keep the state that ``make`` returns, if the last one is old enough, or ``now``."""
        if now or time.monotonic() - self._last >= KEEP_SECONDS:
            write_whole(self.path, _line(self._identity) + _line(make()))
            self._last = time.monotonic()

    def part(self, name: str) -> Part:
        """Return a checkpoint of one of several pieces of work, within this one."""
        return Part(self, name)

    def remove(self) -> None:
        """Remove it: the answer is in its place."""
        self.path.unlink(missing_ok=True)


class Part:
    """The state of one of several pieces of work: all of them are kept together."""

    def __init__(self, whole: Checkpoint, name: str) -> None:
        self._whole, self._name = whole, name

    @property
    def state(self) -> Record | None:
        """What was kept of this piece of work."""
        found: Record | None = (self._whole.state or {}).get(self._name)
        return found

    def keep(self, make: Callable[[], Record], now: bool = False) -> None:
        """Keep the state that ``make`` returns (see `Checkpoint.keep`)."""

        def every() -> Record:
            self._whole.state = {**(self._whole.state or {}), self._name: make()}
            return self._whole.state

        self._whole.keep(every, now)


def packed(array: NDArray[Any]) -> str:
    """Return an array of numbers as text, to the last bit.

    >>> unpacked(packed(np.array([0.1, 2.0])), "f8").tolist()
    [0.1, 2.0]
    """
    return base64.b64encode(array.astype(array.dtype.newbyteorder("<")).tobytes()).decode()


def unpacked(text: str, kind: str) -> NDArray[Any]:
    """Return the array that `packed` made, of numbers of a ``kind`` ("f8", "i8")."""
    return np.frombuffer(base64.b64decode(text), f"<{kind}").astype(kind)


def write_whole(path: Path, text: str) -> None:
    """Write a file that is there whole, or as it was before, whenever the power goes."""
    new = path.with_name(path.name + ".new")
    with open(new, "wb", buffering=0) as out:
        _write_all(out, text.encode())
        os.fsync(out.fileno())
    os.replace(new, path)
    _sync_folder(path)


def _line(record: Record) -> str:
    return json.dumps(record, sort_keys=True) + "\n"


def _lines(path: Path) -> list[Record]:
    """Return the lines of a manifest up to the first that is torn or no line of one; none where there is no file."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return []
    found: list[Record] = []
    for line in text.split(b"\n")[:-1]:
        with contextlib.suppress(ValueError):
            record = json.loads(line)
            if isinstance(record, dict) and (found or "identity" in record):
                found.append(record)
                continue
        break
    return found


def _refuse_another(manifest: Path, found: Record, mine: Record) -> None:
    old, new = found["identity"], mine["identity"]
    differing = [name for name in (*new, *(name for name in old if name not in new)) if old.get(name) != new.get(name)]
    if differing:
        said = "; ".join(f"{name} is {_short(new.get(name))}, was {_short(old.get(name))}" for name in differing)
        raise ConfigError(f"{manifest}: is of another run ({said}); give another -o FILE, or delete it to begin again")


def _short(value: Any) -> str:
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _verified(rows: BinaryIO, lines: Iterable[Record]) -> list[Done]:
    """Return the lines whose blocks are in the file as they were written, up to the first that is not."""
    found: list[Done] = []
    for done in _entries(lines):
        begin = found[-1].bytes if found else 0
        rows.seek(begin)
        if done.blocks != len(found) or done.bytes < begin or zlib.crc32(_read(rows, done.bytes - begin)) != done.crc32:
            break
        found.append(done)
    return found


def _entries(lines: Iterable[Record]) -> Iterator[Done]:
    for line in lines:
        try:
            yield Done(**line)
        except TypeError:  # that it is finished
            return


def _read(file: BinaryIO, size: int) -> bytes:
    parts = []
    while size > 0 and (part := file.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts) if size == 0 else b"too short"


def _open_locked(path: Path) -> BinaryIO:
    """Return a file to read and write, made if need be, that no other run has open."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
    file: BinaryIO = open(handle, "r+b", buffering=0)  # noqa: SIM115 - who asked closes it
    try:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(file.fileno()).st_ino != path.stat().st_ino:  # it has just taken its place
                raise OSError
    except OSError:
        file.close()
        raise ConfigError(f"{path}: another run is writing to it") from None
    return file


def _write_all(file: BinaryIO, content: bytes) -> None:
    """Write every byte: an unbuffered file may take only some of them at a time; it has nothing left when closed."""
    view = memoryview(content)
    while view:
        view = view[file.write(view) :]


def _sync(path: Path) -> None:
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def _sync_folder(path: Path) -> None:
    if os.name == "posix":  # elsewhere a folder cannot be opened
        folder = os.open(path.resolve().parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
