"""Readers of logs: the kind of a file is told from its content, wherever in it that begins."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from comp_comm.calibration.measurements import CollectiveRow, Log
from comp_comm.calibration.readers import (
    comms_logger,
    gemm_bench,
    kernel_sums,
    kernel_tables,
    nccl_json,
    nccl_tests,
    pytorch_trace,
    tables,
    torch_bench,
)
from comp_comm.calibration.readers.others import other_kind
from comp_comm.calibration.readers.text import KINDS, LogSource, open_source, refuse
from comp_comm.errors import ConfigError

# Tools write what they do before a table: so many lines of it.
MOST_BEFORE = 10_000
JSON = re.compile(r"\s*(?:\{|\[\s*(?:[\[{]|\]\s*$))")  # a rank in brackets begins a line of a log, [] one of Markdown
MOST_SHOWN = 8


@dataclass(frozen=True)
class Kind:
    """What a file is, and the line that says so; ``header`` are the columns of a table."""

    name: str
    line: int
    header: tuple[str, ...] = ()


def read_logs(
    paths: Sequence[str],
    only: Mapping[str, Sequence[str]] | None = None,
    collective: str = "",
    devices: int = 0,
    per_node: int = 0,
) -> list[Log]:
    """Return the measurements of several files, each as `read_log` does.

    Raises ``ConfigError`` also where one is named twice (its rows would count twice), and where every log says itself
    which collective it is of, and none is of the one that is said of them.
    """
    seen: dict[str, str] = {}
    for path in paths:
        place = os.path.realpath(path)
        if place in seen:
            what = "is given twice" if seen[place] == path else f"is the same file as {seen[place]}"
            raise refuse(path, f"{what}: its rows would count twice")
        seen[place] = path
    logs = [read_log(path, only, collective, devices, per_node) for path in paths]
    kinds = sorted({row.kind for log in logs for row in log.rows if isinstance(row, CollectiveRow)})
    if collective and collective not in kinds:
        what = f"the logs say themselves that they are of {', '.join(kinds)}" if kinds else "no log has collectives"
        raise ConfigError(f"--collective {collective}: {what}; leave it out")
    return logs


def read_log(
    path: str,
    only: Mapping[str, Sequence[str]] | None = None,
    collective: str = "",
    devices: int = 0,
    per_node: int = 0,
) -> Log:
    """Return the measurements of a file. Raises ``ConfigError`` for one that cannot be read, with what to do.

    ``only`` keeps the rows of a table with one of some values in a column; ``collective``, ``devices`` and ``per_node``
    are what a log of nccl-tests does not say.
    """
    source = open_source(path)
    if is_json(source):
        kind = Kind("nccl-tests" if nccl_json.looks_like(source.head()) else "trace", 1)
    else:
        kind = kind_of(source)
    if only and not kind.header:
        raise refuse(path, "has no columns to choose by (--only)")
    if kind.name == "trace":
        return pytorch_trace.read(source)
    if kind.name == "nccl-tests":
        return nccl_tests.read(source, collective, devices, per_node)
    if kind.name == "torch_bench":
        return torch_bench.read(source, devices, per_node)
    if kind.name == "rccl-tests":
        table = tables.parse(source.file, lines_from(source, kind.line))
        return nccl_tests.read(source, collective, devices, per_node, table)
    if kind.name == "gemm_bench":
        return gemm_bench.read(source)
    return _table(source, kind, only or {})


def is_json(source: LogSource) -> bool:
    """Return whether a file begins as JSON does."""
    return JSON.match(source.head()) is not None


def kind_of(source: LogSource) -> Kind:
    """Return what a log is by its lines. Raises ``ConfigError`` for one of no known kind."""
    summary, other = 0, (0, "")
    shown: list[tuple[int, str]] = []
    for number, line in source.lines():
        kind = _kind_by_line(number, line)
        if kind is not None:
            return kind
        if not summary and "Message Size" in line and comms_logger.looks_like(line):
            summary = number
        if number > MOST_BEFORE:
            continue
        if len(shown) < 2 and line.strip():
            shown.append((number, line))
        if not other[0] and (what := other_kind(line)):
            other = (number, what)
    if summary:
        what = "is a summary of DeepSpeed's comms_logger, which has no layout to fit: compcomm volume --log reads it"
        raise refuse(source.file, what, summary)
    if other[0]:
        raise refuse(source.file, other[1], other[0])
    raise _unknown(source.file, shown)


def _kind_by_line(number: int, line: str) -> Kind | None:
    """Return what a log is of which a line is the header, None where it is none."""
    if "busbw" in line and nccl_tests.recognise(line):
        return Kind("nccl-tests", number)
    if torch_bench.recognise(line):
        return Kind("torch_bench", number)
    if number > MOST_BEFORE or not any(mark in line for mark in tables.MARKS):
        return None
    header = tables.header_of(line)
    if nccl_json.is_table(header):
        return Kind("rccl-tests", number)
    if gemm_bench.recognise(header):
        return Kind("gemm_bench", number)
    if len(header) > 1 and (kernel_sums.layout_of(header) or kernel_tables.recognise(header)):
        return Kind("table", number, header)
    return None


def _table(source: LogSource, kind: Kind, only: Mapping[str, Sequence[str]]) -> Log:
    layout = kernel_sums.layout_of(kind.header)
    if layout is None:
        table = tables.parse(source.file, lines_from(source, kind.line))
        return kernel_tables.read(table, str(kernel_tables.recognise(table.header)), only)
    if only:
        raise refuse(source.file, "has no devices to choose by (--only)")
    return kernel_sums.read(
        tables.parse(source.file, kernel_sums.first_of_several(lines_from(source, kind.line))), layout
    )


def lines_from(source: LogSource, first: int) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file from one on."""
    return ((number, line) for number, line in source.lines() if number >= first)


def _unknown(path: str, shown: Sequence[tuple[int, str]]) -> ConfigError:
    """Return why a text without any header we know is refused: its columns if it is a table at all."""
    headers = [tables.header_of(line) for _, line in shown]
    if len(headers) == 2 and len(headers[0]) == len(headers[1]) > 1 and headers[0][0][:1].isalpha():
        names = ", ".join(name[:40] for name in headers[0][:MOST_SHOWN])
        return refuse(path, f"is a table whose columns say nothing to us ({names}); {KINDS}", shown[0][0])
    return refuse(path, f"is of no known kind; {KINDS}")


__all__ = ["is_json", "kind_of", "lines_from", "read_log", "read_logs"]
