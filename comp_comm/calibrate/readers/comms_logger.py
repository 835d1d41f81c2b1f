"""The summary that DeepSpeed's ``comms_logger`` prints (``deepspeed.comm.log_summary()``).

An operation's name stands on a line of its own; below it, a line for each message size: size, count, latencies, rates.
Sizes are of the tensor handed in: of a gather that is a device's own part, of a scatter the whole.
"""

from __future__ import annotations

import re
from typing import Any

from comp_comm.errors import ConfigError, Problem

Record = dict[str, Any]

HEADING = re.compile(r"Comm\.? ?Op\b.*Message Size", re.IGNORECASE)
NAME = re.compile(r"(?:.*\]\s)?\s*([a-z][a-z0-9_]*)\s*$")
ROW = re.compile(r"(?:.*\]\s)?\s*([0-9.]+) ?([KMGTP]?)B\s+([0-9]+)\s+([0-9.]+)\s+([0-9.]+)")
FACTORS = {"": 1.0, "K": 2.0**10, "M": 2.0**20, "G": 2.0**30, "T": 2.0**40, "P": 2.0**50}
# What operations are called there, by the collective they are; some send nothing of a step.
COLLECTIVES = {
    "all_reduce": "all_reduce", "all_reduce_coalesced": "all_reduce", "inference_all_reduce": "all_reduce",
    "all_gather": "all_gather", "all_gather_base": "all_gather", "all_gather_into_tensor": "all_gather",
    "allgather_fn": "all_gather", "all_gather_coalesced": "all_gather",
    "reduce_scatter": "reduce_scatter", "reduce_scatter_base": "reduce_scatter", "reduce_scatter_fn": "reduce_scatter",
    "reduce_scatter_tensor": "reduce_scatter", "all_to_all": "all_to_all", "all_to_all_single": "all_to_all",
    "send": "send", "isend": "send", "recv": "receive", "irecv": "receive", "broadcast": "broadcast",
    "reduce": "reduce",
    "barrier": "barrier", "monitored_barrier": "barrier", "gather": "gather", "scatter": "scatter",
}  # fmt: skip
PARTS = ("all_gather",)  # their sizes are of one device's part


def looks_like(text: str) -> bool:
    """Return whether a text holds such a summary.

    >>> looks_like("Comm. Op            Message Size        Count")
    True
    """
    return HEADING.search(text) is not None


def read_summary(text: str, file: str, devices: int) -> list[Record]:
    """Return rows of ``collective``, ``message_bytes`` (as nccl-tests counts), ``calls`` and ``seconds`` of all calls.

    ``devices`` take part in the gathers. Raises ``ConfigError`` naming file and line for what is no such summary.

    >>> text = '''Comm. Op            Message Size        Count     Total Latency(ms)   Avg Latency(ms)
    ... all_reduce
    ...                     80.0 MB             160       400.0               2.5
    ... '''
    >>> read_summary(text, "log", 8)
    [{'collective': 'all_reduce', 'message_bytes': 83886080.0, 'calls': 160.0, 'seconds': 0.4}]
    """
    lines = text.splitlines()
    start = next((number for number, line in enumerate(lines) if HEADING.search(line)), None)
    if start is None:
        what = "no summary of comms_logger is in it: no line 'Comm. Op ... Message Size'"
        raise ConfigError([Problem(what, file=file)])
    rows: list[Record] = []
    name = ""
    for number, line in enumerate(lines[start + 1 :], start + 2):
        row, named = ROW.match(line), NAME.match(line)
        if row and name:
            rows.append(_row(name, row, devices))
        elif row:
            raise ConfigError([Problem("a size stands before any operation", file=file, line=number)])
        elif named and named.group(1) in COLLECTIVES:
            name = named.group(1)
        elif named and "_" in named.group(1):
            known = ", ".join(sorted(COLLECTIVES))
            message = f"no operation '{named.group(1)}' is known here ({known})"
            raise ConfigError([Problem(message, file=file, line=number)])
    if not rows:
        raise ConfigError([Problem("the summary has no row of a message size and a count", file=file, line=start + 1)])
    return rows


def _row(name: str, match: re.Match[str], devices: int) -> Record:
    number, unit, count, total, _ = match.groups()
    collective = COLLECTIVES[name]
    whole = devices if collective in PARTS else 1
    return {"collective": collective, "message_bytes": float(number) * FACTORS[unit] * whole, "calls": float(count),
            "seconds": float(total) / 1e3}  # fmt: skip
