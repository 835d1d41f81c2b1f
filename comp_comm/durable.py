"""Files that are whole or as they were, whenever the process is killed or the power goes.

A file is made beside the one it replaces, with its rights, is synced, and takes its place; then the folder is synced.
While it is made it is locked, so that what a killed run left there can be told from what another run is making. Links
are never followed to a file that we name ourselves.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from comp_comm.errors import ConfigError

try:
    import fcntl
except ImportError:  # no POSIX: two runs at once on one file are not noticed
    fcntl = None  # type: ignore[assignment]

LOCKS = fcntl is not None
SUFFIX = ".tmp"
MOST_NAME = 60  # characters of a file's name that the name of the one beside it begins with
NO_LINKS = getattr(os, "O_NOFOLLOW", 0)
BINARY = getattr(os, "O_BINARY", 0)


class TakenError(OSError):
    """Another process has the file."""


def resolved(path: str | Path) -> Path:
    """Return the file that a path leads to. Raises ``ConfigError`` for a link that leads to itself."""
    with contextlib.suppress(OSError, RuntimeError):  # raised for such a link before Python 3.13
        target = Path(path).resolve()
        if not target.is_symlink():
            return target
    raise ConfigError(f"{path}: is a symbolic link that leads nowhere but to itself")


def write_all(file: BinaryIO, content: bytes) -> None:
    """Write every byte: an unbuffered file may take only some of them at a time; it has nothing left when closed."""
    view = memoryview(content)
    while view:
        view = view[file.write(view) :]


def sync_folder(path: Path) -> None:
    """See to it that what a folder says of a file is on the disk, where a folder can be opened."""
    folder = _opened_folder(path.resolve().parent)
    if folder is not None:
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _opened_folder(folder: Path) -> int | None:
    if os.name != "posix":
        return None
    with contextlib.suppress(PermissionError):  # one may write into a folder that one may not list
        return os.open(folder, os.O_RDONLY)
    return None


def sync_file(path: Path) -> None:
    """See to it that a file's bytes are on the disk."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def lock(file: BinaryIO) -> None:
    """Lock a file for this process until it is closed. Raises `TakenError` where another has it."""
    if fcntl is None:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):  # else: a file system without locks
            raise TakenError from None


def open_locked(path: Path, like: Path | None = None) -> BinaryIO:
    """Return a file to read and write, made if need be, that no other process has open; it has the rights of ``like``.

    Raises `TakenError` where another has it, and ``ConfigError`` where the name is a link's: nothing is written
    through it.
    """
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | NO_LINKS | BINARY, 0o666)
    except OSError:
        if path.is_symlink():
            raise ConfigError(f"{path}: is a symbolic link, which is not followed; remove it") from None
        raise
    file: BinaryIO = open(handle, "r+b", buffering=0)  # noqa: SIM115 - who asked closes it
    try:
        lock(file)
        there = os.stat(path, follow_symlinks=False)
        if not stat.S_ISREG(there.st_mode):
            raise ConfigError(f"{path}: is no file; remove it")
        if LOCKS and not os.path.samestat(os.fstat(file.fileno()), there):  # it has just taken its place
            raise TakenError
        if like is not None:
            give_rights(path, like)
    except FileNotFoundError:
        file.close()
        raise TakenError from None
    except BaseException:
        file.close()
        raise
    return file


def give_rights(path: str | Path, like: Path) -> None:
    """Give a file the rights of the one it will replace, of a new file where there is none."""
    try:
        old = like.stat()
    except OSError:
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(path, 0o666 & ~mask)
        return
    if hasattr(os, "chown"):
        with contextlib.suppress(OSError):
            os.chown(path, old.st_uid, old.st_gid)
    os.chmod(path, stat.S_IMODE(old.st_mode))


def make_beside(target: Path) -> tuple[Path, BinaryIO]:
    """Return a new file beside ``target`` (links resolved), locked; what killed runs left there is removed."""
    with _folder_locked(target):
        _remove_stale(target)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=_prefix(target), suffix=SUFFIX)
        file: BinaryIO = open(handle, "r+b", buffering=0)  # noqa: SIM115 - who asked closes it
        with contextlib.suppress(TakenError):
            lock(file)
    return Path(name), file


@contextmanager
def replacement(target: Path) -> Iterator[Path]:
    """Give a file beside ``target`` (links resolved); it is removed where it is still there."""
    made, file = make_beside(target)
    try:
        yield made
    finally:
        try:
            made.unlink(missing_ok=True)
        finally:
            file.close()


def put(made: Path, target: Path, like: Path | None = None) -> None:
    """Put a finished file in its place, for good; it gets the rights of what is there, or of ``like``."""
    give_rights(made, like or target)
    sync_file(made)
    os.replace(made, target)
    sync_folder(target)


def _prefix(target: Path) -> str:
    return f".{target.name[:MOST_NAME]}."


@contextmanager
def _folder_locked(target: Path) -> Iterator[None]:
    """Keep other processes from making, or clearing away, files beside a target."""
    folder = None if fcntl is None else _opened_folder(target.parent)
    if folder is None:
        yield
        return
    try:
        with contextlib.suppress(OSError):  # a file system without locks: nothing is cleared away there
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _remove_stale(target: Path) -> None:
    """Remove what killed runs left beside a target: those files of ours that nobody has locked."""
    names: list[str] = []
    with contextlib.suppress(OSError):
        names = os.listdir(target.parent) if fcntl is not None else []
    prefix = _prefix(target)
    for name in names:
        if not (name.startswith(prefix) and name.endswith(SUFFIX)):
            continue
        with contextlib.suppress(OSError):
            handle = os.open(target.parent / name, os.O_RDWR | NO_LINKS)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                (target.parent / name).unlink()
            finally:
                os.close(handle)
