"""Kernels measured by several processes that are at work at once, as the devices of a node are in training."""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any

from comp_comm.calibration.measuring.backends import NumpyBackend, TorchBackend, import_torch
from comp_comm.calibration.measuring.run import Row, measure_kernels
from comp_comm.errors import ConfigError

PATIENCE = 600.0  # seconds a process waits for the others at a shape
_meeting: list[Any] = []  # in a process that was started to measure: where it meets the others


def measure_together(
    processes: int, backend: str, device: str, dtype: str, kind: str, count: int, largest: int, budget: float,
    cold: float = 0.0,
) -> list[Row]:  # fmt: skip
    """Return what `measure_kernels` does, each time the mean of so many processes that do the same at the same time.

    On a CPU the cores are shared out between them; of GPUs each has its own.
    """
    if device == "cuda" and (devices := import_torch().cuda.device_count()) < processes:
        raise ConfigError(f"--processes {processes}: PyTorch finds {devices} GPUs here, and each process has its own")
    context = get_context("spawn")
    with _threads(max(1, (os.cpu_count() or 1) // processes)):
        barrier = context.Barrier(processes)
        with ProcessPoolExecutor(processes, context, _arrive, (barrier,)) as pool:
            given = [(_name(device, rank), dtype) if backend == "torch" else () for rank in range(processes)]
            started = [pool.submit(_measure, each, kind, count, largest, budget, cold) for each in given]
            return combined([one.result() for one in started])


def combined(tables: Sequence[Sequence[Row]]) -> list[Row]:
    """Return the rows of one table, their seconds means over the tables of all processes.

    >>> combined([[(1, 2, 3, "fp32", "0.5")], [(1, 2, 3, "fp32", "1.5")]])
    [(1, 2, 3, 'fp32', '1')]
    """
    means = (statistics.fmean(float(row[-1]) for row in rows) for rows in zip(*tables, strict=True))
    return [(*row[:-1], f"{mean:.9g}") for row, mean in zip(tables[0], means, strict=True)]


def _name(device: str, rank: int) -> str:
    return f"cuda:{rank}" if device == "cuda" else device


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """Let processes that start have so many threads, unless the user says otherwise."""
    if "OMP_NUM_THREADS" in os.environ:
        yield
        return
    os.environ["OMP_NUM_THREADS"] = str(count)
    try:
        yield
    finally:
        del os.environ["OMP_NUM_THREADS"]


def _arrive(barrier: Any) -> None:
    _meeting.append(barrier)


def _measure(
    torch: tuple[str, str] | tuple[()], kind: str, count: int, largest: int, budget: float, cold: float
) -> list[Row]:
    barrier = _meeting[0]
    try:
        barrier.wait(PATIENCE)  # no process takes the work of two
        backend = TorchBackend(*torch) if torch else NumpyBackend()
        return measure_kernels(backend, kind, count, largest, budget, str, cold, lambda: barrier.wait(PATIENCE))
    except BaseException:
        barrier.abort()  # the others need not wait
        raise
