"""Output of the all-reduce benchmark in PyTorch that many clusters are checked with (all_reduce_bench.py)."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field

from comp_comm.calibration.measurements import CollectiveRow, Log
from comp_comm.calibration.readers.text import LogSource, positive, refuse

NUMBER = r"\s{0,20}([0-9.]{1,30})\s{0,20}"
SIZE = re.compile(r"data size:" + NUMBER + "GB")
DURATION = re.compile(r"duration:" + NUMBER + "sec")
ALGORITHM = re.compile(r"algo throughput:" + NUMBER + "bps")
BUS = re.compile(r"busbw:" + NUMBER + "Gbps")
MOST_SECONDS = 1e5
MOST_DEVICES = 1_000_000


@dataclass
class BenchRun:
    """What was printed between one size and the next: GB, and seconds and bandwidths of every rank and trial."""

    line: int
    size: float
    times: list[float] = field(default_factory=list)
    algorithm: list[float] = field(default_factory=list)
    bus: list[float] = field(default_factory=list)


def recognise(line: str) -> bool:
    """Return whether a line is of this benchmark.

    >>> recognise("0 data size: 4.0 GB")
    True
    """
    return "data size:" in line and SIZE.search(line) is not None


def read(source: LogSource, devices: int = 0, per_node: int = 0) -> Log:
    """Return a row for each run: the median of all ranks and trials, the first trial of each rank left out."""
    log = Log(source.file, "all_reduce_bench.py output")
    for run in _runs(source.file, source.lines()):
        if run.times:
            _add(log, run, devices, per_node)
        else:
            log.skipped["sizes without a duration"] += 1
    log.skipped = +log.skipped
    if not log.rows:
        raise refuse(source.file, "has sizes of all_reduce_bench.py and no durations: the run stopped, or is cut off")
    return log


def _runs(file: str, lines: Iterable[tuple[int, str]]) -> list[BenchRun]:
    """Return the runs: every rank prints its size before it begins."""
    runs: list[BenchRun] = []
    for number, line in lines:
        if (size_said := SIZE.search(line)) and "data size:" in line:
            size = positive(file, number, "data size", size_said.group(1))
            if not runs or runs[-1].times or runs[-1].size != size:
                runs.append(BenchRun(number, size))
        for pattern, name in ((DURATION, "times"), (ALGORITHM, "algorithm"), (BUS, "bus")):
            for text in pattern.findall(line) if runs and ":" in line else ():
                getattr(runs[-1], name).append(positive(file, number, name, text))
    return runs


def _add(log: Log, run: BenchRun, devices: int, per_node: int) -> None:
    if not run.algorithm or not run.bus:
        raise refuse(log.file, "has durations and no bandwidths: the file is cut off", run.line)
    if run.algorithm[-1] <= 0 or max(run.times) > MOST_SECONDS or min(run.times) <= 0:
        raise refuse(log.file, "has a bandwidth of 0, or a time that none can be", run.line)
    share = run.bus[-1] * 1e9 / run.algorithm[-1]  # (n - 1) / n: this benchmark counts the message twice
    told = round(1 / (1 - share)) if 0 < share < 0.999 else 0
    if devices and told and abs(told - devices) > 0.01 * devices:
        raise refuse(log.file, f"--devices {devices}: its bandwidths are of {told} devices", run.line)
    number = devices or told
    if not 2 <= number <= MOST_DEVICES:
        raise refuse(log.file, "does not say how many devices took part; give --devices", run.line)
    warm = run.times[number:] or run.times
    log.skipped["first trials (warm-up)"] += len(run.times) - len(warm)
    log.rows.append(CollectiveRow(statistics.median(warm), "fp32", 0, "all_reduce", int(run.size * 1e9), number,
                                  per_node))  # fmt: skip
    log.notes.append(f"{log.file}:{run.line}: all_reduce on {number} devices, the median of {len(warm)} times")
