"""Output of the all-reduce benchmark in PyTorch that many clusters are checked with (all_reduce_bench.py)."""

from __future__ import annotations

import re
import statistics

from comp_comm.calibrate.measurements import CollectiveRow, Log
from comp_comm.calibrate.readers.text import positive, refuse

SIZE = re.compile(r"data size:\s*([\d.]+)\s*GB")
DURATION = re.compile(r"duration:\s*([\d.]+)\s*sec")
ALGORITHM = re.compile(r"algo throughput:\s*([\d.]+)\s*bps")
BUS = re.compile(r"busbw:\s*([\d.]+)\s*Gbps")


def recognise(text: str) -> bool:
    """Return whether a text is of this benchmark."""
    return bool(SIZE.search(text) and DURATION.search(text))


def read(file: str, text: str, devices: int = 0, per_node: int = 0) -> Log:
    """Return one row: the median of all ranks and trials, the first trial of each rank left out as a warm-up."""
    log = Log(file, "all_reduce_bench.py output")
    size = positive(file, 0, "data size", SIZE.findall(text)[0]) * 1e9
    times = [positive(file, 0, "duration", value) for value in DURATION.findall(text)]
    algorithm, bus = ALGORITHM.findall(text), BUS.findall(text)
    if not algorithm or not bus:
        raise refuse(file, "has durations and no bandwidths: the file is cut off")
    share = float(bus[-1]) * 1e9 / float(algorithm[-1])  # (n - 1) / n: this benchmark counts the message twice
    n = devices or (round(1 / (1 - share)) if share < 0.999 else 0)
    if n < 2:
        raise refuse(file, "does not say how many devices took part; give --devices")
    warm = times[n:] or times
    log.skipped["first trials (warm-up)"] = len(times) - len(warm)
    log.skipped = +log.skipped
    log.rows.append(CollectiveRow(statistics.median(warm), "fp32", 0, "all_reduce", int(size), n, per_node))
    log.notes.append(f"{file}: all_reduce on {n} devices, the median of {len(warm)} times")
    return log
