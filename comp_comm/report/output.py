"""Where an answer goes: standard output, or a file written whole or not at all."""

from __future__ import annotations

import codecs
import io
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import IO, BinaryIO, cast

from comp_comm import durable
from comp_comm.configs.catalogue import FILES_READ
from comp_comm.errors import ConfigError, one_of
from comp_comm.printable import visible_bytes

FORMATS = ("table", "csv", "json", "jsonl", "markdown")
BY_SUFFIX = {".csv": "csv", ".json": "json", ".jsonl": "jsonl", ".ndjson": "jsonl", ".md": "markdown", ".txt": "table"}
# How wide a table may be: as the terminal, where it goes to one; 0 says that it may be as wide as it is.
WIDTH: ContextVar[int] = ContextVar("width", default=0)
# Columns that a table had no room for, where it went to no terminal: whoever reads that may not read the table's end.
LEFT_OUT: ContextVar[tuple[str, ...]] = ContextVar("left_out", default=())
NARROWEST, WIDEST, NO_TERMINAL = 80, 300, 132
IN_MEMORY = 64 * 2**20
PART = 2**20


def terminal_width() -> int:
    """Return the characters of a line of the terminal (the variable COLUMNS first), 132 where there is none."""
    said = os.environ.get("COLUMNS", "")
    if said.isdigit() and int(said):
        columns = int(said)
    elif sys.stdout is not None and sys.stdout.isatty():
        columns = shutil.get_terminal_size((NO_TERMINAL, 24)).columns
    else:
        columns = NO_TERMINAL
    return min(max(columns, NARROWEST), WIDEST)


def is_piped() -> bool:
    """Return whether standard output is no terminal: a table there has every column, unless COLUMNS says a width.

    >>> is_piped()
    True
    """
    return sys.stdout is None or not sys.stdout.isatty()


def may_leave_out() -> bool:
    """Return whether columns that a line has no room for are left out."""
    return not is_piped() or os.environ.get("COLUMNS", "").isdigit()


def never() -> bool:
    """Return that nobody interrupted."""
    return False


def choose_format(asked: str | None, path: str | None, more: Sequence[str] = ()) -> str:
    """Return the format asked for, else what the file's extension says, else a table.

    ``more`` are formats of this command alone, each with the extension of its name. Raises ``ConfigError`` for an
    extension that says none, or another one than what is asked for; ``.txt`` may hold any.

    >>> choose_format(None, "out.csv"), choose_format("markdown", "out.txt"), choose_format("csv", "rows")
    ('csv', 'markdown', 'csv')
    """
    if path is None or path == "-" or (asked and is_special(path)):
        return asked or "table"
    if Path(path).is_dir():
        raise ConfigError(f"-o {path}: is a directory; give the name of a file in it")
    known = {**BY_SUFFIX, **{f".{name}": name for name in more}}
    suffix = Path(path).suffix.lower()
    if asked:
        if known.get(suffix, asked) != asked and suffix != ".txt":
            raise ConfigError(f"-o {path}: the extension says {known[suffix]}, and --format {asked}: leave --format "
                              "out, or give the file another name")  # fmt: skip
        return asked
    if suffix not in known:
        raise ConfigError(f"-o {path}: the extension says no format ({one_of(list(known))}); or give --format")
    return known[suffix]


def check_writable(path: str | None) -> None:
    """Raise ``ConfigError`` where a file cannot be written, before any work is done."""
    if path is None or path == "-":
        return
    if "\0" in path:
        raise ConfigError("-o: a file's name has no NUL character")
    target = durable.resolved(path)
    if target.is_dir() or path.endswith(os.sep):
        raise ConfigError(f"{path}: is a directory; give the name of a file in it")
    if is_special(path):
        return
    if target.exists() and not os.access(target, os.W_OK):
        raise ConfigError(f"{path}: cannot be written to")
    folder = target.parent
    if not folder.is_dir():
        raise ConfigError(f"{path}: there is no folder '{folder}'")
    if not os.access(folder, os.W_OK):
        raise ConfigError(f"{path}: the folder '{folder}' cannot be written to")


def check_ending(flag: str, path: str | None, what: str, endings: Sequence[str]) -> None:
    """Raise ``ConfigError`` where a file cannot be written, or its name says that it is something else than it is.

    ``endings`` are the extensions that it may have, ``what`` is said where it has another one.

    >>> check_ending("-o", "run.yaml", "a study is YAML", (".yaml", ".yml"))
    """
    check_writable(path)
    if path is None or path == "-" or is_special(path) or Path(path).suffix.lower() in endings:
        return
    allowed = " or ".join(ending for ending in endings if ending)
    raise ConfigError(f"{flag} {path}: {what}; the name must end in {allowed}".strip())


def check_folder(path: str) -> None:
    """Raise ``ConfigError`` where a folder is none, and cannot be made, before any work is done."""
    if "\0" in path:
        raise ConfigError("-o: a folder's name has no NUL character")
    folder = durable.resolved(path)
    there = next(each for each in (folder, *folder.parents) if each.exists())
    if not there.is_dir():
        raise ConfigError(f"-o {path}: {'' if there == folder else f'{there} '}is a file; give a folder")
    if not os.access(there, os.W_OK):
        raise ConfigError(f"-o {path}: the folder '{there}' cannot be written to")


def made_folder(path: str) -> Path:
    """Return a folder, made if it is missing."""
    folder = durable.resolved(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"-o {path}: cannot be made: {error.strerror}") from None
    return folder


def check_not_read(path: str | None) -> None:
    """Raise ``ConfigError`` where a file that this command read would be written over."""
    if path is not None and path != "-" and durable.resolved(path) in FILES_READ:
        raise ConfigError(f"{path}: is an input of this command; write somewhere else")


@contextmanager
def open_output(path: str | None, interrupted: Callable[[], bool] = never) -> Iterator[IO[str]]:
    """Give a text file that becomes ``path`` (or goes to standard output) when the block ends without an error.

    An answer that was ``interrupted`` becomes `partial_path` instead: it never passes for a whole one, and the file
    that was there stays. Control characters are shown as escapes, wherever the text goes.
    """
    check_not_read(path)
    if path is not None and path != "-" and not is_special(path):
        with _replacing(path, interrupted) as made, open(made, "wb") as file, _text(file) as out:
            yield out
        return
    with tempfile.SpooledTemporaryFile(IN_MEMORY) as spool:
        set_before = WIDTH.set(terminal_width() if path is None or path == "-" else 0)
        try:
            with _text(cast(BinaryIO, spool)) as text:
                yield text
        finally:
            WIDTH.reset(set_before)
        spool.seek(0)
        with _sink(path) as out:
            for part in codecs.iterdecode(iter(partial(spool.read, PART), b""), "utf-8"):
                out.write(part)


@contextmanager
def _text(file: BinaryIO) -> Iterator[IO[str]]:
    with io.TextIOWrapper(cast(BinaryIO, _Shown(file)), "utf-8", "backslashreplace", newline="") as out:
        yield out


def write_shown(out: IO[str], content: bytes) -> None:
    """Write UTF-8 bytes, in which control characters are escapes already, into a file of `open_output`."""
    below = getattr(out, "buffer", None)
    if isinstance(below, _Shown):
        out.flush()
        below.put(content)
    else:
        out.write(content.decode())


class _Shown(io.BufferedIOBase):
    """A file that gets its control characters as escapes; the text above it hands it whole characters."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def writable(self) -> bool:
        return True

    def write(self, content: bytes) -> int:  # type: ignore[override]
        self.put(visible_bytes(bytes(content)))
        return len(content)

    def put(self, shown: bytes) -> None:
        """Write what has none."""
        self._file.write(shown)

    def flush(self) -> None:
        if not self._file.closed:
            self._file.flush()


def is_special(path: str) -> bool:
    """Return whether ``path`` is a device or a pipe: written to, never replaced."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return not stat.S_ISREG(mode)


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
def _replacing(path: str, interrupted: Callable[[], bool] = never) -> Iterator[str]:
    """Give a temporary file beside ``path`` that takes its place on success and vanishes on failure.

    A link stays one: what it points to is replaced.
    """
    target = durable.resolved(path)
    with ExitStack() as stack:
        try:
            made = stack.enter_context(durable.replacement(target))
        except OSError as error:  # of the file beside it, whose name nobody asked for
            raise ConfigError(f"{path}: cannot be written to: {error.strerror}") from None
        yield str(made)
        if interrupted():
            durable.put(made, Path(partial_path(str(target))), like=target)
        else:
            durable.put(made, target)


@contextmanager
def open_whole(path: str, interrupted: Callable[[], bool] = never) -> Iterator[str]:
    """Give the name of a file beside ``path`` that takes its place when the block ends without an error.

    Where it was ``interrupted``, it takes that of `partial_path`.
    """
    check_not_read(path)
    with _replacing(path, interrupted) as made:
        yield made


def save_bytes(path: str, content: bytes) -> None:
    """Write a whole file (a picture, say) or nothing."""
    check_not_read(path)
    if is_special(path):
        Path(path).write_bytes(content)
        return
    with _replacing(path) as made:
        Path(made).write_bytes(content)


def partial_path(path: str) -> str:
    """Return where an interrupted answer is kept: it never passes for a whole one.

    >>> partial_path("out/rows.csv")
    'out/rows.partial.csv'
    """
    target = Path(path)
    return str(target.with_name(f"{target.stem}.partial{target.suffix}"))


def kept_at(path: str) -> str:
    """Return where `open_output` keeps an interrupted answer: beside what the path leads to."""
    kept, shown = Path(partial_path(str(durable.resolved(path)))), partial_path(path)
    return shown if durable.resolved(path).parent == durable.resolved(shown).parent and \
        not Path(path).is_symlink() else str(kept)  # fmt: skip


def forget_partial(path: str | None) -> str:
    """Remove what an interrupted run left beside an answer that is whole now; return its name, '' where there is none.

    What ``--resume`` may go on with, beside its manifest, stays.
    """
    if path is None or path == "-" or is_special(path):
        return ""
    target = durable.resolved(path)
    partial = Path(partial_path(str(target)))
    if target.with_name(target.name + ".manifest").exists() or partial.is_symlink() or not partial.is_file():
        return ""
    partial.unlink()
    return str(partial)
