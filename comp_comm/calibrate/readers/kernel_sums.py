"""CSV of kernels by name: rocprof, rocprof-compute, rocprofv3, and summaries of Nsight Systems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from comp_comm.calibrate.measurements import KernelTime, Log, Row, operator_of
from comp_comm.calibrate.readers.kernel_names import operator_of_kernel
from comp_comm.calibrate.readers.tables import Table
from comp_comm.calibrate.readers.text import positive, refuse, whole


class Layout(NamedTuple):
    """The columns of one tool: a kernel's name, its calls, and its nanoseconds in all (or their begin and end)."""

    tool: str
    name: str
    calls: str
    total: str
    begin: str = ""


LAYOUTS = (
    Layout("rocprof results", "kernelname", "", "durationns"),
    Layout("rocprof statistics", "name", "calls", "totaldurationns"),
    Layout("rocprof-compute top kernels", "kernel_name", "count", "sum(ns)"),
    Layout("rocprofv3 kernel trace", "kernel_name", "", "end_timestamp", "start_timestamp"),
    Layout("Nsight Systems summary", "name", "instances", "total time (ns)"),
    Layout("Nsight Systems summary", "operation", "count", "total time (ns)"),
)


def layout_of(header: Sequence[str]) -> Layout | None:
    """Return the layout that a table's columns are of, None if it is none of them."""
    needed = ((one, {one.name, one.calls, one.total, one.begin} - {""}) for one in LAYOUTS)
    return next((one for one, names in needed if names <= set(header)), None)


def read(table: Table, layout: Layout) -> Log:
    """Return one row a kernel, its calls together."""
    log = Log(table.file, layout.tool)
    totals: dict[str, tuple[float, int, int]] = {}
    for line, row in table.rows:
        seconds = 1e-9 * positive(table.file, line, layout.total, row[layout.total].replace(",", ""))
        if layout.begin:
            seconds -= 1e-9 * positive(table.file, line, layout.begin, row[layout.begin])
        calls = whole(table.file, line, layout.calls, row[layout.calls].replace(",", "")) if layout.calls else 1
        name = row[layout.name].strip()
        if seconds <= 0 or calls < 1 or not name:
            log.skipped["no name, no calls or no time"] += 1
            continue
        before, times, first = totals.get(name, (0.0, 0, line))
        totals[name] = (before + seconds, times + calls, first)
    log.rows = kernel_rows(totals)
    for found in log.rows:
        log.totals[operator_of(found)] = log.totals.get(operator_of(found), 0.0) + found.seconds
    if not log.rows:
        raise refuse(table.file, "has no kernel with a time")
    return log


def kernel_rows(totals: dict[str, tuple[float, int, int]]) -> list[Row]:
    """Return a row for each kernel's seconds in all, calls and line."""
    return [KernelTime(seconds, "", line, operator_of_kernel(name), name, calls)
            for name, (seconds, calls, line) in totals.items()]  # fmt: skip
