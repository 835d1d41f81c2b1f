"""Readers of logs: the kind of a file is told from its content."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from comp_comm.calibrate.measurements import Log
from comp_comm.calibrate.readers import kernel_sums, kernel_tables, nccl_tests, pytorch_trace, tables, torch_bench
from comp_comm.calibrate.readers.text import KINDS, read_text, refuse
from comp_comm.errors import ConfigError

# What a table's header has: at least two names with a comma between.
HEADER = re.compile(r'^\s*"?[A-Za-z][\w ()%-]*"?\s*,')


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
    text = read_text(path)
    if only and (text.lstrip()[:1] in "{[" or nccl_tests.recognise(text)):
        raise refuse(path, "has no columns to choose by (--only)")
    if text.lstrip()[:1] in ("{", "[") and not text.lstrip().startswith("[1,"):  # that is mpirun's prefix of a rank
        return pytorch_trace.read(path, text)
    if nccl_tests.recognise(text):
        return nccl_tests.read(path, text, collective, devices, per_node)
    if torch_bench.recognise(text):
        return torch_bench.read(path, text, devices, per_node)
    return _table(path, text, only or {})


def _table(path: str, text: str, only: Mapping[str, Sequence[str]]) -> Log:
    lines = text.splitlines()
    # Tools write what they do before the table.
    start = next((n for n, line in enumerate(lines) if _is_known(line)), None)
    if start is None:
        raise _unknown(path, lines)
    table = tables.parse(path, "\n".join(lines[start:]) + "\n", start + 1)
    layout = kernel_sums.layout_of(table.header)
    if layout is None:
        return kernel_tables.read(table, str(kernel_tables.recognise(table.header)), only)
    if only:
        raise refuse(path, "has no devices to choose by (--only)")
    return kernel_sums.read(table, layout)


def _is_known(line: str) -> bool:
    if not HEADER.match(line):
        return False
    header = tables.header_of(line)
    return kernel_sums.layout_of(header) is not None or kernel_tables.recognise(header) is not None


def _unknown(path: str, lines: list[str]) -> ConfigError:
    """Return why a text without any header we know is refused: its columns if it is a table at all."""
    first = next((line for line in lines if line.strip()), "")
    second = next((line for line in lines[lines.index(first) + 1 :] if line.strip()), "")
    if HEADER.match(first) and len(tables.header_of(first)) == len(tables.header_of(second)) > 1:
        shown = ", ".join(tables.header_of(first)[:8])
        return refuse(path, f"is a table whose columns say nothing to us ({shown}); {KINDS}", 1)
    return refuse(path, f"is of no known kind; {KINDS}")


__all__ = ["read_log"]
