"""The summary that DeepSpeed's ``comms_logger`` prints (``deepspeed.comm.log_summary()``).

An operation's name stands on a line of its own; below it, a line for each message size: size, count, latencies, rates.
Sizes are of the tensor handed in: of a gather that is a device's own part, of a scatter the whole. A summary is of all
calls since the beginning: where several are printed, the last one counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from comp_comm.calibration.readers.text import LogSource, refuse
from comp_comm.records import Records

HEADING = re.compile(r"Comm\.? ?Op {1,60}Message Size {1,60}Count {1,60}(Total \w{1,20})", re.IGNORECASE)
NAME = re.compile(r"[a-z][a-z0-9_]{1,60}$")
CALLER = " | [Caller Func"  # follows a name where more is logged
SIZE = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)([KMGTPEZY]?)B$")
FACTORS = {"": 1.0, "K": 2.0**10, "M": 2.0**20, "G": 2.0**30, "T": 2.0**40, "P": 2.0**50, "E": 2.0**60}
COUNT, NUMBER = re.compile(r"[0-9]{1,15}$"), re.compile(r"-?[0-9]{1,20}(?:\.[0-9]{1,6})?$")
MOST_ROWS = 200_000
LEAST_CELLS = 4  # of a row: size, count, two latencies
# What operations are called there, by the collective they are; some send nothing of a step.
COLLECTIVES = {
    "all_reduce": "all_reduce", "all_reduce_coalesced": "all_reduce", "inference_all_reduce": "all_reduce",
    "all_gather": "all_gather", "all_gather_base": "all_gather", "all_gather_into_tensor": "all_gather",
    "allgather_fn": "all_gather", "all_gather_coalesced": "all_gather", "all_gather_object": "all_gather",
    "reduce_scatter": "reduce_scatter", "reduce_scatter_base": "reduce_scatter", "reduce_scatter_fn": "reduce_scatter",
    "reduce_scatter_tensor": "reduce_scatter", "reduce_scatter_coalesced": "reduce_scatter",
    "all_to_all": "all_to_all", "all_to_all_single": "all_to_all",
    "send": "send", "isend": "send", "recv": "receive", "irecv": "receive", "broadcast": "broadcast",
    "broadcast_object_list": "broadcast", "reduce": "reduce",
    "barrier": "barrier", "monitored_barrier": "barrier", "log_summary_barrier": "barrier",
    "gather": "gather", "scatter": "scatter",
}  # fmt: skip
PARTS = ("all_gather",)  # their sizes are of one device's part


@dataclass
class Summary:
    """One table: the line of its heading, and calls and milliseconds of each operation and size (in bytes)."""

    line: int
    straggler: bool
    rows: dict[tuple[str, float], tuple[float, float]] = field(default_factory=dict)


def looks_like(text: str) -> bool:
    """Return whether a text holds such a summary.

    >>> looks_like("Comm. Op            Message Size        Count               Total Latency(ms)")
    True
    """
    return HEADING.search(text) is not None


def read_summary(source: LogSource | str, file: str, devices: int, notes: list[str] | None = None) -> Records:
    """Return rows of ``collective``, ``message_bytes`` (as nccl-tests counts), ``calls`` and ``seconds`` of all calls.

    ``devices`` take part in the gathers; what a reader should know is added to ``notes``. Raises ``ConfigError`` naming
    file and line for what is no such summary.

    >>> text = '''Comm. Op            Message Size        Count     Total Latency(ms)   Avg Latency(ms)
    ... all_reduce
    ...                     80.0 MB             160       400.0               2.5
    ... '''
    >>> read_summary(text, "log", 8)
    [{'collective': 'all_reduce', 'message_bytes': 83886080.0, 'calls': 160.0, 'seconds': 0.4}]
    """
    lines = enumerate(source.splitlines(), 1) if isinstance(source, str) else source.lines()
    summaries = _summaries(file, lines)
    if not summaries:
        raise refuse(file, "no summary of comms_logger is in it: no line 'Comm. Op ... Message Size'")
    plain = [one for one in summaries if not one.straggler] or summaries
    last, notes = plain[-1], [] if notes is None else notes
    if not last.rows:
        raise refuse(file, "the summary has no row of a message size and a count", last.line)
    if len(plain) > 1:
        notes.append(f"{file}: {len(plain)} summaries, each of all calls up to it: the last one counts")
        _check_grown(file, plain)
    if any(milliseconds < 0 for _, milliseconds in last.rows.values()):
        notes.append(f"{file}:{last.line}: some latencies are below 0, as a clock that was set back makes them")
    rows = []
    for (name, size), (calls, milliseconds) in last.rows.items():
        collective = COLLECTIVES[name]
        shares = devices if collective in PARTS else 1
        rows.append({"collective": collective, "message_bytes": size * shares, "calls": calls,
                     "seconds": milliseconds / 1e3})  # fmt: skip
    return rows


def _check_grown(file: str, summaries: list[Summary]) -> None:
    """Refuse a last summary that counts less than one before it: what it is of is not known."""
    last = summaries[-1]
    for earlier in summaries[:-1]:
        for key, (calls, _) in earlier.rows.items():
            if last.rows.get(key, (0.0, 0.0))[0] < calls:
                what = (f"the last summary has fewer calls of {key[0]} than the one of line {earlier.line}: it is cut "
                        "off, or of another run; keep the lines of one run")  # fmt: skip
                raise refuse(file, what, last.line)


def _summaries(file: str, lines: Iterable[tuple[int, str]]) -> list[Summary]:
    summaries: list[Summary] = []
    name, before, count = "", "", 0  # the operation, and a word that may be one, if a row follows
    for number, line in lines:
        heading = HEADING.search(line) if "Message Size" in line else None
        if heading:
            summaries.append(Summary(number, "comm" in heading.group(1).lower()))
            name = before = ""
            continue
        if not summaries:
            continue
        row = _row(line)
        if row is None:
            before = _name(line) or before
            continue
        if before:
            if before not in COLLECTIVES:
                known = ", ".join(sorted(COLLECTIVES))
                raise refuse(file, f"no operation '{before}' is known here ({known})", number)
            name, before = before, ""
        if not name:
            raise refuse(file, "a size stands before any operation", number)
        size, calls, milliseconds = row
        count += 1
        if count > MOST_ROWS:
            raise refuse(file, f"has more than {MOST_ROWS:,} rows; keep the last summary", number)
        earlier = summaries[-1].rows.get((name, size), (0.0, 0.0))
        summaries[-1].rows[name, size] = (earlier[0] + calls, earlier[1] + milliseconds)
    return summaries


def _name(line: str) -> str:
    """Return the operation's name that a line is, whatever prefix it has; nothing where it is none.

    >>> _name("[2026-03-01] [INFO] all_reduce"), _name("0: broadcast | [Caller Func: f]"), _name("now all_reduce")
    ('all_reduce', 'broadcast', '')
    """
    words = line.split(CALLER, 1)[0].split() if len(line) < 400 else []
    if not words or (len(words) > 1 and words[-2][-1] not in ":]>|"):
        return ""
    word = words[-1][max(words[-1].rfind(mark) for mark in ":]>|") + 1 :]
    return word if NAME.match(word) and (word in COLLECTIVES or "_" in word) else ""


def _row(line: str) -> tuple[float, float, float] | None:
    """Return bytes, calls and milliseconds of a row, None where a line is none.

    >>> _row("                    80.0 MB             160                 400.0               2.5"), _row("all_reduce")
    ((83886080.0, 160.0, 400.0), None)
    """
    if len(line) > 1000:
        return None
    words = line.split()
    for at in range(len(words) - LEAST_CELLS + 1):
        joined = words[at] + words[at + 1] if words[at + 1][-1:] == "B" else words[at]
        size = SIZE.match(joined)
        if size is None or size.group(2) not in FACTORS:
            continue
        rest = words[at + (2 if joined != words[at] else 1) :]
        if len(rest) >= LEAST_CELLS - 1 and COUNT.match(rest[0]) and all(NUMBER.match(cell) for cell in rest[1:3]):
            return float(size.group(1)) * FACTORS[size.group(2)], float(rest[0]), float(rest[1])
    return None
