"""Output of nccl-tests and rccl-tests, also behind the prefixes of srun and mpirun."""

from __future__ import annotations

import re
import statistics
from pathlib import Path

from comp_comm.calibrate.measurements import CollectiveRow, Log
from comp_comm.calibrate.readers.kernel_tables import collective_kind, number_format
from comp_comm.calibrate.readers.text import positive, refuse

# A prefix such as "0: ", "[1,0]<stdout>:" or "node-1: " may stand before any line.
PREFIX = r"^(?:\s*(?:\[[^\]]*\](?:<\w+>)?|\S+?)?:\s*)?\s*"
DATA = re.compile(PREFIX + r"(?P<size>\d+)\s+(?P<count>\d+)\s+(?P<type>[a-z]\w*)\s+(?P<rest>\S.*|$)")
HEADER = re.compile(r"#\s+size\s+count\s+type")
RANK = re.compile(r"#\s+Rank\s+(\d+)\b.*?\bon\s+(\S+)\s+device")
PROGRAM = re.compile(r"\b(\w+?)_perf\b")
# What a reduction's name, a root and the bus factor leave open is said by the program's name.
WITHOUT_SUM = ("all_gather", "all_to_all", "send")
BLANK = ("none", "N/A")


def recognise(text: str) -> bool:
    """Return whether a text has the table of nccl-tests."""
    return HEADER.search(text) is not None


def read(file: str, text: str, kind: str = "", devices: int = 0, per_node: int = 0) -> Log:
    """Return the rows of one run; what the log does not say (collective, devices) must be given."""
    log = Log(file, "nccl-tests output")
    found: list[tuple[int, int, str, str, list[float]]] = []
    for line, words in enumerate(text.splitlines(), 1):
        match = DATA.match(words)
        if match and HEADER.search(words) is None:
            found.append((line, int(match["size"]), match["type"], *_times(file, line, match["rest"].split())))
    if not found:
        raise refuse(file, "has the header of nccl-tests and no rows: the run stopped, or the file is cut off")
    busy = [row for row in found if row[1] > 0]
    log.skipped["size 0"] = len(found) - len(busy)
    log.skipped = +log.skipped
    if not busy:
        raise refuse(file, "has only rows of size 0")
    name = kind or _kind(file, text, busy, log)
    ranks = {int(rank): host for rank, host in RANK.findall(text)}
    n = devices or (max(ranks) + 1 if ranks else _devices(file, name, busy))
    hosts = len(set(ranks.values()))
    each = per_node or (n // hosts if hosts and n % hosts == 0 else 0)
    for line, size, dtype, _, times in busy:
        seconds = statistics.fmean(times[0::3]) * 1e-6
        if seconds > 0:
            log.rows.append(CollectiveRow(seconds, number_format(dtype), line, name, size, n, each))
        else:
            log.skipped["a time of 0"] += 1
    log.notes.append(f"{file}: {name} on {n} devices" + (f", {each} a node" if each else ""))
    return log


def _times(file: str, line: int, cells: list[str]) -> tuple[str, list[float]]:
    """Return the reduction of a row, and time, algorithm and bus bandwidth, out of place and in place."""
    words = [cell for cell in cells[:2] if not _is_number(cell)]
    if words and _is_root(cells[len(words) :]):
        cells = [*words, *cells[len(words) + 1 :]]
    numbers = [cell for cell in cells[len(words) :] if cell not in BLANK]
    # time, algorithm bandwidth, bus bandwidth and (where results were checked) errors: once or twice
    wide = 4 if len(numbers) in (4, 8) else 3
    if len(numbers) not in (3, 4, 6, 8):
        if len(numbers) == 7:  # errors counted out of place only
            numbers = [*numbers[:3], *numbers[4:]]
        else:
            raise refuse(file, "is cut off in the middle of a row", line)
    values = [positive(file, line, "a number", number) for number in numbers]
    return (words[0] if words else ""), [v for i, v in enumerate(values) if i % wide < 3]


def _is_number(text: str) -> bool:
    return re.fullmatch(r"-?[\d.]+(?:[eE][-+]?\d+)?", text) is not None


def _is_root(cells: list[str]) -> bool:
    return bool(cells) and re.fullmatch(r"-?\d+", cells[0]) is not None


def _bus_factor(rows: list[tuple[int, int, str, str, list[float]]]) -> float:
    """Return bus over algorithm bandwidth, from the row where it is known best."""
    best = max(rows, key=lambda row: row[4][1])[4]
    return best[2] / best[1] if best[1] > 0 else 0.0


def _kind(file: str, text: str, rows: list[tuple[int, int, str, str, list[float]]], log: Log) -> str:
    named = {kind for name in PROGRAM.findall(text) if (kind := collective_kind(name))}
    if len(named) == 1:
        return named.pop()
    if len(named) > 1:
        raise refuse(file, f"names several collectives ({', '.join(sorted(named))}): one log a run, please")
    if rows[0][3] == "sum" and _bus_factor(rows) > 1.001:
        return "all_reduce"  # a reduce-scatter puts less than its message on the bus
    called = {kind for kind in ("all_reduce", *WITHOUT_SUM, "reduce_scatter") if kind in Path(file).name.lower()}
    if len(called) == 1:
        name = called.pop()
        log.notes.append(f"{file}: taken for {name} by its name; the log does not say (--collective)")
        return name
    raise refuse(file, "does not say which collective it is of; give --collective, for instance all_gather")


def _devices(file: str, kind: str, rows: list[tuple[int, int, str, str, list[float]]]) -> int:
    """Return the devices from the bus factor: 2 (n - 1) / n of an all-reduce, half of it of the others."""
    share = _bus_factor(rows) / (2 if kind == "all_reduce" else 1)
    if kind != "send" and 0.4 < share < 0.9995:
        n = 1 / (1 - share)
        if abs(n - round(n)) < 0.02 * n:
            return round(n)
    raise refuse(file, "does not say how many devices took part; give --devices")
