"""A file as text, a piece at a time, or why it is not: missing, empty, binary, cut off, too large.

No reader holds a file: it gets lines, or blocks of text, unpacked as they are asked for. Bytes, lines and the length of
a line are bounded, and so is what a packed file may grow to.
"""

from __future__ import annotations

import codecs
import gzip
import io
import math
import os
import re
import stat
import zlib
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from comp_comm.calibration.readers.others import SQLITE
from comp_comm.configs.catalogue import FILES_READ
from comp_comm.errors import ConfigError, Problem

MAX_BYTES = 2**30  # of a trace, unpacked
MAX_TEXT = 2**28  # of what is read by lines
MAX_PIPED = 2**27  # of what cannot be read twice
MAX_LINES = 2_000_000
MAX_LINE = 2**20
MOST_UNPACKED = 100  # times its packed size: logs and traces reach some dozens
ALWAYS_UNPACKED = 2**26
CHUNK = 2**18
UNREADABLE, READABLE = "\ufffd", 100  # what stands for a byte that is no text, and how many others each must have
MAX_DIGITS = 40
COLOURS = re.compile(r"\x1b\[[0-9;]{0,40}[A-Za-z]")  # of a terminal, where a log was one's
# Above what any log counts: sizes as bytes, seconds of everything that ran.
MOST = 2.0**53
MOST_SECONDS = 1e6
NUMBER = re.compile(r"-?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:[eE][-+]?[0-9]{1,4})?$")

KINDS = (
    "readable are: nccl-tests and rccl-tests output (and their JSON), rocblas-bench and hipblaslt-bench output, tables "
    "(CSV) of GEMMs, attention, element-wise kernels or collectives, rocprof and rocprof-compute CSV, PyTorch profiler "
    "traces, and CSV of 'nsys stats'"
)


def refuse(file: str, why: str, line: int | None = None) -> ConfigError:
    """Return the error that refuses a file, at a line where there is one."""
    return ConfigError([Problem(why, file=file, line=line or None)])


@dataclass(frozen=True)
class LogSource:
    """A log that can be read again and again: a file, or the bytes of a pipe."""

    file: str
    content: bytes | None = None

    def chunks(self, most: int = MAX_BYTES) -> Iterator[bytes]:
        """Yield its bytes, unpacked where it is gzip; raises ``ConfigError`` above ``most`` bytes."""
        with self._open() as packed:
            size = os.fstat(packed.fileno()).st_size if self.content is None else len(self.content)
            begin = packed.read(2)
            packed.seek(0)
            if begin != b"\x1f\x8b":
                yield from self._bounded(packed, most, math.inf)
                return
            try:
                with gzip.open(packed) as unpacked:
                    yield from self._bounded(unpacked, most, max(size * MOST_UNPACKED, ALWAYS_UNPACKED))
            except EOFError:
                raise refuse(self.file, "the gzip file is cut off: its end is missing") from None
            except (OSError, zlib.error) as error:
                raise refuse(self.file, f"is not whole gzip: {error}") from None

    def blocks(self, most: int = MAX_BYTES) -> Iterator[str]:
        """Yield its text in pieces of some size."""
        decode = None
        for chunk in self.chunks(most):
            if decode is None:
                encoding = "utf-16" if chunk[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
                decode = codecs.getincrementaldecoder(encoding)("replace")
            yield self._text(decode, chunk)
        if decode is None:
            return
        yield self._text(decode, b"", final=True)

    def lines(self) -> Iterator[tuple[int, str]]:
        """Yield each line with its number; what a carriage return divides stands on lines of the same number."""
        number, rest = 0, ""
        for block in self.blocks(MAX_TEXT):
            *complete, rest = (rest + block).split("\n")
            if number + len(complete) > MAX_LINES:
                raise refuse(self.file, f"has more than {MAX_LINES:,} lines; keep those of the run")
            for line in complete:
                number += 1
                yield from self._pieces(number, line)
            if len(rest) > MAX_LINE:
                break
        if rest:
            yield from self._pieces(number + 1, rest)

    def head(self) -> str:
        """Return its first block; raises ``ConfigError`` where there is nothing but blanks, or no text."""
        for block in self.blocks():
            if block.strip():
                return block.lstrip()
        raise refuse(self.file, "is empty")

    def _open(self) -> BinaryIO:
        if self.content is not None:
            return io.BytesIO(self.content)
        try:
            return open(self.file, "rb")
        except OSError as error:
            raise refuse(self.file, f"cannot be read: {error.strerror}") from None

    def _bounded(self, stream: gzip.GzipFile | BinaryIO, most: int, grown: float) -> Iterator[bytes]:
        total = 0
        while chunk := stream.read(CHUNK):
            total += len(chunk)
            if total > most:
                raise _too_large(self.file, most)
            if total > grown:
                raise refuse(self.file, f"unpacks to more than {MOST_UNPACKED} times its size: no log does")
            yield chunk

    def _text(self, decode: codecs.IncrementalDecoder, chunk: bytes, final: bool = False) -> str:
        text = decode.decode(chunk, final)
        if text.count(UNREADABLE) * READABLE > len(text):  # a byte gone wrong here and there is no reason to refuse
            raise refuse(self.file, f"is not text (nor gzip of text); {KINDS}")
        if "\0" in text:
            raise refuse(self.file, SQLITE if text.startswith("SQLite format 3") else f"is binary; {KINDS}")
        return text

    def _pieces(self, number: int, line: str) -> Iterator[tuple[int, str]]:
        if len(line) > MAX_LINE:
            raise refuse(self.file, f"has a line of more than {MAX_LINE:,} characters; {KINDS}", number)
        if "\x1b" in line:
            line = COLOURS.sub("", line)
        if "\r" not in line:
            yield number, line
            return
        for piece in line.split("\r"):
            if piece:
                yield number, piece


def open_source(path: str) -> LogSource:
    """Return a log to read; a pipe is read at once. Raises ``ConfigError`` with what a user can act on."""
    try:
        with open(path, "rb") as stream:
            about = os.fstat(stream.fileno())
            if stat.S_ISREG(about.st_mode):
                source = LogSource(path)
                if about.st_size > MAX_BYTES:
                    raise _too_large(path, MAX_BYTES)
            else:
                source = LogSource(path, stream.read(MAX_PIPED + 1))
                if len(source.content or b"") > MAX_PIPED:
                    raise refuse(path, f"is larger than {MAX_PIPED // 2**20} MiB and no file; write it to one")
        FILES_READ.add(Path(path).resolve())
    except IsADirectoryError:
        raise refuse(path, "is a directory; give the logs themselves") from None
    except (OSError, RuntimeError) as error:  # the latter for a link to itself, before Python 3.13
        raise refuse(path, f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
    except ValueError as error:
        raise refuse(path, f"cannot be read: {error}") from None
    source.head()
    return source


def _too_large(file: str, most: int) -> ConfigError:
    size = f"{most // 2**30} GiB" if most >= 2**30 else f"{most // 2**20} MiB"
    return refuse(file, f"is larger than {size}; profile fewer steps, or keep the lines that count")


def whole_number(file: str, line: int, name: str, text: str) -> int:
    """Return a whole number of a log. Raises ``ConfigError`` for anything else.

    >>> whole_number("a.csv", 2, "m", "64")
    64
    """
    number = positive(file, line, name, text)
    if number != int(number):
        raise refuse(file, f"'{name}' must be a whole number, not '{text[:MAX_DIGITS]}'", line)
    return int(number)


def positive(file: str, line: int, name: str, text: str, most: float = MOST) -> float:
    """Return a number of a log that is not negative, and at most ``most``. Raises ``ConfigError`` for anything else."""
    number = number_of(text)
    if number is not None and 0 <= number <= most:
        return number
    shown = text.strip()[:MAX_DIGITS]
    if shown.lower().lstrip("+-") in ("inf", "infinity"):
        raise refuse(file, f"'{name}' must not be negative or infinite: '{shown}'", line)
    if number is None:
        raise refuse(file, f"'{name}' is not a number: '{shown}' (a file cut off, or another kind?)", line)
    if not 0 <= number < math.inf:
        raise refuse(file, f"'{name}' must not be negative or infinite: '{shown}'", line)
    raise refuse(file, f"'{name}' is larger than any can be: '{shown}'", line)


def number_of(text: str) -> float | None:
    """Return the number that a text is in decimal digits, None where it is none.

    >>> number_of(" 1.5e3 "), number_of("0x10"), number_of("1_000")
    (1500.0, None, None)
    """
    plain = text.strip().removeprefix("+")
    return float(plain) if NUMBER.match(plain) else None


def first_of(names: Iterable[str], among: Container[str]) -> str | None:
    """Return the first of ``names`` that is among others, None if none is.

    >>> first_of(["time_s", "time_us"], ["m", "time_us"])
    'time_us'
    """
    return next((name for name in names if name in among), None)
