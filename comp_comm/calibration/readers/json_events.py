"""The events of a trace in JSON, one at a time: the file is never held, nor nested deeper than a trace is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from comp_comm.calibration.readers.others import JSON_MEMBERS
from comp_comm.calibration.readers.text import LogSource, refuse
from comp_comm.records import Record

MAX_VALUE = 2**24  # characters of one event, or of another member of the file
BLANKS = re.compile(r"[ \t\n\r]*")
NO_LIST = "is JSON, but not a profiler trace: it has no list 'traceEvents'"
TOO_LONG = f"is JSON, but not a profiler trace: one value of it is longer than {MAX_VALUE // 2**20} MiB"
CUT = "; it ends early: the profiler was stopped, or the copy was cut off"
EVENTS = "traceEvents"


def events(source: LogSource) -> Iterator[Record]:
    """Yield the events of a trace: of the member ``traceEvents``, or of a file that is one list of them.

    Raises ``ConfigError`` where it is not whole JSON, or no trace.
    """
    reader = _Reader(source)
    first = reader.peek()
    if first == "[":
        yield from _list(reader)
    elif first == "{":
        yield from _members(reader)
    else:
        raise reader.wrong("Expecting a list or an object")
    if reader.peek():
        raise reader.wrong("Extra data")


def _members(reader: _Reader) -> Iterator[Record]:
    """Yield the events among the members of an object."""
    reader.take("{")
    listed = False
    if reader.peek() != "}":
        while True:
            key = reader.value()
            if not isinstance(key, str):
                raise reader.wrong("Expecting a name in double quotes")
            reader.take(":")
            if key in JSON_MEMBERS and not listed:
                raise refuse(reader.source.file, JSON_MEMBERS[key])
            if key == EVENTS and reader.peek() == "[":
                listed = True
                yield from _list(reader)
            else:
                reader.value()
            if not reader.goes_on("}"):
                break
    reader.take("}")
    if not listed:
        raise refuse(reader.source.file, NO_LIST)


def _list(reader: _Reader) -> Iterator[Record]:
    reader.take("[")
    if reader.peek() != "]":
        while True:
            value = reader.value()
            if not isinstance(value, dict):
                raise refuse(reader.source.file, f"{NO_LIST} of events", reader.line())
            yield value
            if not reader.goes_on("]"):
                break
    reader.take("]")


class _Reader:
    """A text that is read on as values of JSON are asked for."""

    def __init__(self, source: LogSource) -> None:
        self.source = source
        self._blocks = source.blocks()
        self._text, self._at, self._lines, self._ended = "", 0, 1, False
        self._decoder = json.JSONDecoder(strict=False)  # names of kernels have tabs and line ends in them

    def peek(self) -> str:
        """Return the next character that is no blank, nothing at the end."""
        while True:
            match = BLANKS.match(self._text, self._at)
            self._at = match.end() if match else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def take(self, mark: str) -> None:
        """Go past a mark that must come next."""
        if self.peek() != mark:
            raise self.wrong(f"Expecting '{mark}'")
        self._at += 1

    def goes_on(self, end: str) -> bool:
        """Go past a comma; return whether another follows it: some writers put one after the last, too."""
        if self.peek() != ",":
            return False
        self.take(",")
        return self.peek() != end

    def value(self) -> Any:
        """Return the next value, whatever it is."""
        self.peek()
        while True:
            held = len(self._text) - self._at
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                # What is wrong may be only that the rest has not been read: but not in what is read already.
                open_end = error.pos >= len(self._text) - 16 or _is_open(error.msg)
                if open_end and held > MAX_VALUE:
                    raise refuse(self.source.file, TOO_LONG, self.line()) from None
                if not open_end or not self._more(held):  # as much again: a long value is not begun for every block
                    raise self.wrong(error.msg, error.pos - self._at) from None
            except RecursionError:
                raise refuse(self.source.file, "is JSON nested too deeply to be a trace", self.line()) from None
            except ValueError:  # a number of thousands of digits
                raise refuse(self.source.file, "is JSON with a number that none can be", self.line()) from None
            else:
                if end == len(self._text) and self._more():  # a number may go on
                    continue
                self._at = end
                return value

    def line(self) -> int:
        """Return the line that is read."""
        return self._lines + self._text.count("\n", 0, self._at)

    def wrong(self, message: str, further: int = 0) -> Exception:
        """Return the error that says what is wrong here."""
        line = self._lines + self._text.count("\n", 0, min(self._at + further, len(self._text)))
        ended = self._ended and self._at + further >= len(self._text.rstrip()) - 2
        opened = self._ended and _is_open(message)
        return refuse(self.source.file, f"is not whole JSON: {message}{CUT if ended or opened else ''}", line)

    def _more(self, least: int = 1) -> bool:
        """Read on, ``least`` characters if there are so many; return whether there was something."""
        blocks: list[str] = []
        while sum(map(len, blocks)) < least and (block := next(self._blocks, None)) is not None:
            blocks.append(block)
        if not any(blocks):
            self._ended = True
            return False
        self._lines += self._text.count("\n", 0, self._at)
        self._text, self._at = "".join([self._text[self._at :], *blocks]), 0
        return True


def _is_open(message: str) -> bool:
    """Return whether an error is of a text in quotes without its end, which begins far before what is missing."""
    return message.startswith("Unterminated string")
