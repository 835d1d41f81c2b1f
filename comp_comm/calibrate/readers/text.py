"""A file as text, or why it is not: missing, empty, binary, cut off, too large."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable
from pathlib import Path

from comp_comm.configs.catalogue import FILES_READ
from comp_comm.errors import ConfigError, Problem

MAX_BYTES = 2**30


def refuse(file: str, why: str, line: int | None = None) -> ConfigError:
    """Return the error that refuses a file, at a line where there is one."""
    return ConfigError([Problem(why, file=file, line=line or None)])


def read_text(path: str) -> str:
    """Return the text of a file, unpacked where it is gzip. Raises ``ConfigError`` with what a user can act on."""
    target = Path(path)
    if target.is_dir():
        raise refuse(path, "is a directory; give the logs themselves")
    try:
        with target.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise refuse(path, f"cannot be read: {error.strerror}") from None
    FILES_READ.add(target.resolve())
    if content[:2] == b"\x1f\x8b":
        content = _unpack(path)
    if len(content) > MAX_BYTES:
        raise refuse(path, f"is larger than {MAX_BYTES // 2**30} GiB; profile fewer steps")
    if not content.strip():
        raise refuse(path, "is empty")
    encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:
        raise refuse(path, f"is not text (nor gzip of text); {KINDS}") from None
    if "\0" in text:
        raise refuse(path, f"is binary; {KINDS}")
    return text


def _unpack(path: str) -> bytes:
    try:
        with gzip.open(path) as stream:
            return stream.read(MAX_BYTES + 1)
    except EOFError:
        raise refuse(path, "the gzip file is cut off: its end is missing") from None
    except (OSError, zlib.error) as error:
        raise refuse(path, f"is not whole gzip: {error}") from None


KINDS = (
    "readable are: nccl-tests and rccl-tests output, tables (CSV) of GEMMs, attention, element-wise kernels or "
    "collectives, rocprof and rocprof-compute CSV, PyTorch profiler traces, and CSV of 'nsys stats'"
)


def whole(file: str, line: int, name: str, text: str) -> int:
    """Return a whole number of a log. Raises ``ConfigError`` for anything else.

    >>> whole("a.csv", 2, "m", "64")
    64
    """
    number = positive(file, line, name, text)
    if number != int(number):
        raise refuse(file, f"'{name}' must be a whole number, not '{text}'", line)
    return int(number)


def positive(file: str, line: int, name: str, text: str) -> float:
    """Return a number of a log that is not negative. Raises ``ConfigError`` for anything else."""
    try:
        number = float(text)
    except ValueError:
        what = f"'{name}' is not a number: '{text[:40]}' (a file cut off, or another kind?)"
        raise refuse(file, what, line) from None
    if not 0 <= number < float("inf"):
        raise refuse(file, f"'{name}' must not be negative or infinite: '{text}'", line)
    return number


def first_of(names: Iterable[str], among: Iterable[str]) -> str | None:
    """Return the first of ``names`` that is among others, None if none is.

    >>> first_of(["time_s", "time_us"], ["m", "time_us"])
    'time_us'
    """
    known = set(among)
    return next((name for name in names if name in known), None)
