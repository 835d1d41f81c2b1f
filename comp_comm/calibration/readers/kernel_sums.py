"""CSV of kernels by name: rocprof, rocprof-compute, rocprofv3, and summaries and traces of Nsight Systems."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from comp_comm.calibration.measurements import KernelTime, Log, Row, operator_of
from comp_comm.calibration.readers.kernel_names import MOST_READ, operator_of_kernel
from comp_comm.calibration.readers.tables import LogTable
from comp_comm.calibration.readers.text import MOST_SECONDS, positive, refuse, whole_number

MOST_NAMES = 20_000
# What a host called, or a sum over all of one kind of record, stands in tables with the columns of kernels.
HOST_CALL = re.compile(
    r"(?:(?:hip|cuda)[A-Z]|hsa_|roctx[A-Z]|nvtx[A-Z]|MPI_|ompt_|nccl(?!\w*Kernel)[A-Z]|__hip|"
    r"cu(?:Launch|Mem|Stream|Event|Ctx|Module|Device|Init|Func|Graph|Library|Kernel|Link|Occupancy|Pointer)[A-Z_]?)\w*$",
    re.ASCII,
)
DOMAINS = re.compile(r"(?:HIP|HSA|MARKER|RCCL|ROCDECODE|ROCJPEG|KOKKOS|MEMORY|KERNEL|SCRATCH|OMPT)[A-Z_]*(?:API|COPY|"
                     r"DISPATCH|ALLOCATION|EXT|MEMORY)$")  # fmt: skip
TIMESTAMP = re.compile(r"[0-9]{1,20}$")
HOST, DOMAIN = "calls of the host, no kernels", "sums over a kind of record, no kernels"
BETWEEN = ("Processing [", "Generating ", " ** ", "[")  # what nsys stats says between its tables
UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


class KernelColumns(NamedTuple):
    """The columns of one tool: a kernel's name, its calls, and its time in all (or its begin and end).

    ``unit`` is seconds of one of the times; ``also`` is a column that tells the table from others with these columns.
    """

    tool: str
    name: str
    calls: str
    total: str
    begin: str = ""
    unit: float = 1e-9
    also: str = ""


LAYOUTS = (
    KernelColumns("rocprof results", "kernelname", "", "durationns"),
    KernelColumns("rocprof statistics", "name", "calls", "totaldurationns"),
    KernelColumns("rocprof-compute top kernels", "kernel_name", "count", "sum(ns)"),
    KernelColumns("rocprofv3 kernel trace", "kernel_name", "", "end_timestamp", "start_timestamp"),
    *(KernelColumns("Nsight Systems summary", name, calls, f"total time ({unit})", unit=seconds)
      for unit, seconds in UNITS.items()
      for name, calls in (("name", "instances"), ("operation", "count"), ("operation", "instances"))),
    KernelColumns("Nsight Systems summary", "name", "instances", "total time", also="time(%)"),  # before 2021: in ns
    *(KernelColumns("Nsight Systems trace", "name", "", f"duration ({unit})", unit=seconds, also="grdx")
      for unit, seconds in UNITS.items()),
)  # fmt: skip


def layout_of(header: Sequence[str]) -> KernelColumns | None:
    """Return the layout that a table's columns are of, None if it is none of them."""
    needed = ((one, {one.name, one.calls, one.total, one.begin, one.also} - {""}) for one in LAYOUTS)
    return next((one for one, names in needed if names <= set(header)), None)


def first_of_several(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Yield the lines of the first table: ``nsys stats`` writes several into one file, blank lines between them.

    >>> list(first_of_several([(1, "Name"), (2, "a"), (3, ""), (4, "Processing [b]"), (5, "Operation")]))
    [(1, 'Name'), (2, 'a')]
    """
    seen = 0
    for number, line in lines:
        if seen > 1 and (not line.strip() or line.startswith(BETWEEN)):
            return
        seen += bool(line.strip())
        yield number, line


def read(table: LogTable, layout: KernelColumns) -> Log:
    """Return one row a kernel, its calls together."""
    log = Log(table.file, layout.tool)
    totals: dict[str, tuple[float, int, int]] = {}
    for line, row in table.rows:
        name = row[layout.name].strip()[:MOST_READ]
        other = _no_kernel(name)
        if other:
            log.skipped[other] += 1
            continue
        seconds = _seconds(table, line, layout, row)
        calls = whole_number(table.file, line, layout.calls, row[layout.calls].replace(",", "")) if layout.calls else 1
        if seconds <= 0 or calls < 1 or not name:
            log.skipped["no name, no calls or no time"] += 1
            continue
        before, times, first = totals.get(name, (0.0, 0, line))
        totals[name] = (before + seconds, times + calls, first)
        if len(totals) > MOST_NAMES:
            raise refuse(table.file, f"has more than {MOST_NAMES:,} kernels of different names", line)
    log.rows = kernel_rows(totals)
    for kernel in log.rows:
        log.totals[operator_of(kernel)] = log.totals.get(operator_of(kernel), 0.0) + kernel.seconds
    if not log.rows:
        only = next((why for why in (HOST, DOMAIN) if log.skipped[why]), "")
        hint = "; give the table of kernels (kernel_stats.csv, or results.stats.csv)" if only else ""
        raise refuse(table.file, f"has {only or 'no kernel with a time'}{hint}")
    if log.skipped[HOST] or log.skipped[DOMAIN]:
        count = log.skipped[HOST] + log.skipped[DOMAIN]
        log.notes.append(f"{table.file}: {count} rows are of the host, or sums of them: they are no kernels")
    return log


def _no_kernel(name: str) -> str:
    """Return what a row is that is of no kernel, nothing for one that is.

    >>> _no_kernel("hipMemcpyWithStream"), _no_kernel("hsa_queue_create"), _no_kernel("HIP_API"), _no_kernel("Cijk_A")
    ('calls of the host, no kernels', 'calls of the host, no kernels', 'sums over a kind of record, no kernels', '')
    """
    if len(name) > 100:
        return ""
    return DOMAIN if DOMAINS.match(name) else HOST if HOST_CALL.match(name) else ""


def _seconds(table: LogTable, line: int, layout: KernelColumns, row: dict[str, str]) -> float:
    text = row[layout.total].replace(",", "").strip()
    if not layout.begin:
        return layout.unit * positive(table.file, line, layout.total, text, MOST_SECONDS / layout.unit)
    begin = row[layout.begin].replace(",", "").strip()
    if not (TIMESTAMP.match(text) and TIMESTAMP.match(begin)):
        what = f"'{layout.begin}' and '{layout.total}' must be whole nanoseconds, not '{begin[:40]}' and '{text[:40]}'"
        raise refuse(table.file, what, line)
    lasted = int(text) - int(begin)  # as whole numbers: since 1970, they have more digits than a float
    if not 0 <= lasted * layout.unit <= MOST_SECONDS:
        raise refuse(table.file, f"a kernel that takes {lasted} ns is none", line)
    return layout.unit * lasted


def kernel_rows(totals: dict[str, tuple[float, int, int]]) -> list[Row]:
    """Return a row for each kernel's seconds in all, calls and line."""
    return [KernelTime(seconds, "", line, operator_of_kernel(name), name, calls)
            for name, (seconds, calls, line) in totals.items()]  # fmt: skip
