"""Where an answer goes: standard output, or a file written whole or not at all."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from comp_comm.configs.catalogue import FILES_READ
from comp_comm.errors import ConfigError, one_of

FORMATS = ("table", "csv", "json", "jsonl", "markdown")
BY_SUFFIX = {".csv": "csv", ".json": "json", ".jsonl": "jsonl", ".ndjson": "jsonl", ".md": "markdown", ".txt": "table"}
IN_MEMORY = 64 * 2**20


def choose_format(asked: str | None, path: str | None, more: Sequence[str] = ()) -> str:
    """Return the format asked for, else what the file's extension says, else a table.

    ``more`` are formats of this command alone, each with the extension of its name.

    >>> choose_format(None, "out.csv")
    'csv'
    """
    if asked:
        return asked
    if path is None or path == "-":
        return "table"
    known = {**BY_SUFFIX, **{f".{name}": name for name in more}}
    suffix = Path(path).suffix.lower()
    if suffix not in known:
        raise ConfigError(f"-o {path}: the extension says no format ({one_of(list(known))}); or give --format")
    return known[suffix]


def check_writable(path: str | None) -> None:
    """Raise ``ConfigError`` where a file cannot be written, before any work is done."""
    if path is None or path == "-":
        return
    target = Path(path)
    if target.is_dir() or path.endswith(os.sep):
        raise ConfigError(f"{path}: is a directory")
    if is_special(path):
        return
    if target.exists() and not os.access(target, os.W_OK):
        raise ConfigError(f"{path}: cannot be written to")
    folder = target.resolve().parent
    if not folder.is_dir():
        raise ConfigError(f"{path}: there is no folder '{folder}'")
    if not os.access(folder, os.W_OK):
        raise ConfigError(f"{path}: the folder '{folder}' cannot be written to")


def check_not_read(path: str | None) -> None:
    """Raise ``ConfigError`` where a file that this command read would be written over."""
    if path is not None and path != "-" and Path(path).resolve() in FILES_READ:
        raise ConfigError(f"{path}: is an input of this command; write somewhere else")


@contextmanager
def open_output(path: str | None) -> Iterator[IO[str]]:
    """Give a text file that becomes ``path`` (or goes to standard output) when the block ends without an error."""
    check_not_read(path)
    if path is not None and path != "-" and not is_special(path):
        with _replacing(Path(path)) as temporary, open(temporary, "w", encoding="utf-8", newline="") as out:
            yield out
        return
    with tempfile.SpooledTemporaryFile(IN_MEMORY, mode="w+", encoding="utf-8", newline="") as spool:
        yield spool
        spool.seek(0)
        with _sink(path) as out:
            shutil.copyfileobj(spool, out, 2**20)


def is_special(path: str) -> bool:
    """Return whether ``path`` is a device or a pipe: written to, never replaced."""
    return Path(path).exists() and not Path(path).is_file()


@contextmanager
def _sink(path: str | None) -> Iterator[IO[str]]:
    """Give standard output, or a device or pipe."""
    if path is not None and path != "-":
        with open(path, "w", encoding="utf-8", newline="") as out:
            yield out
        return
    if sys.stdout is None:
        raise ConfigError("standard output is closed; give -o FILE")
    yield sys.stdout
    sys.stdout.flush()


@contextmanager
def _replacing(target: Path) -> Iterator[str]:
    """Give a temporary file beside ``target`` that takes its place on success and vanishes on failure."""
    target = target.resolve()  # a link stays one: what it points to is replaced
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    os.close(handle)
    try:
        yield temporary
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


@contextmanager
def open_whole(path: str) -> Iterator[str]:
    """Give the name of a file beside ``path`` that takes its place when the block ends without an error."""
    check_not_read(path)
    with _replacing(Path(path)) as temporary:
        yield temporary


def save_bytes(path: str, content: bytes) -> None:
    """Write a whole file (a picture, say) or nothing."""
    check_not_read(path)
    if is_special(path):
        Path(path).write_bytes(content)
        return
    with _replacing(Path(path)) as temporary:
        Path(temporary).write_bytes(content)


def partial_path(path: str) -> str:
    """Return where an interrupted answer is kept: it never passes for a whole one.

    >>> partial_path("out/rows.csv")
    'out/rows.partial.csv'
    """
    target = Path(path)
    return str(target.with_name(f"{target.stem}.partial{target.suffix}"))
