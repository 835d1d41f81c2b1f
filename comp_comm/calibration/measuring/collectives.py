"""Collectives of torch.distributed between processes of this machine, or of a launcher (torchrun, srun)."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from comp_comm.calibration.measuring.backends import import_torch
from comp_comm.calibration.measuring.shapes import MESSAGE_SIZES
from comp_comm.calibration.measuring.timer import nothing, trimmed_mean
from comp_comm.errors import ConfigError

KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
# What gloo, the library for CPUs, does not have.
NOT_IN_GLOO = ("reduce_scatter", "all_to_all")
Row = tuple[str, int, int, int, str, float]
LEAST, MOST = 5, 200  # calls of each size
BUSY_SIDE = 256  # of the products that are computed between collectives


def measure_collectives(processes: int, library: str, budget: float, largest: int, busy: float = 0.0) -> list[Row]:
    """Return collective, devices, devices a node, bytes, number format and seconds, measured between processes.

    Before each collective every process computes for about ``busy`` seconds. Of the processes of a launcher the first
    one has the rows, the others none.

    Raises ``ConfigError`` where NCCL is asked for and there are fewer GPUs than processes.
    """
    torch = import_torch()
    if "WORLD_SIZE" in os.environ and "RANK" in os.environ:  # started by a launcher: this process is one of them
        rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        rows = _rank(rank, size, "env://", library, budget, largest, busy)
        return [] if rank else rows
    devices = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if processes > devices and (library == "nccl" or (devices and not library)):
        raise ConfigError(f"--processes {processes}: PyTorch finds {devices} GPUs here, and of NCCL each process has "
                          "its own; --library gloo runs on the CPU")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        meeting, answer = Path(folder, "meeting"), Path(folder, "rows")
        given = (processes, f"file://{meeting}", library, budget, largest, busy, str(answer))
        torch.multiprocessing.spawn(_spawned, args=given, nprocs=processes, join=True)
        lines = answer.read_text().splitlines()
    return [_parsed(line) for line in lines]


def _spawned(
    rank: int, size: int, meeting: str, library: str, budget: float, largest: int, busy: float, answer: str
) -> None:
    import_torch().set_num_threads(1)
    rows = _rank(rank, size, meeting, library, budget, largest, busy)
    if rank == 0:
        Path(answer).write_text("".join(" ".join(map(str, row)) + "\n" for row in rows))


def _parsed(line: str) -> Row:
    kind, devices, per_node, size, dtype, seconds = line.split()
    return kind, int(devices), int(per_node), int(size), dtype, float(seconds)


def _rank(rank: int, size: int, meeting: str, library: str, budget: float, largest: int, busy: float) -> list[Row]:
    torch = import_torch()
    library = library or ("nccl" if torch.cuda.is_available() else "gloo")
    torch.distributed.init_process_group(library, init_method=meeting, rank=rank, world_size=size)
    local = int(os.environ.get("LOCAL_WORLD_SIZE", size))
    device = f"cuda:{rank % local}" if library == "nccl" else "cpu"
    try:
        rows: list[Row] = []
        settle = (lambda: torch.cuda.synchronize(device)) if device != "cpu" else nothing
        work = _work(torch, device, settle, busy)
        for kind in KINDS:
            if library == "gloo" and kind in NOT_IN_GLOO:
                continue
            for message in MESSAGE_SIZES:
                if message <= largest:
                    seconds = _seconds(torch, _call(torch, kind, message, size, device), device, settle, budget, work)
                    rows.append((kind, size, local, message, "fp32", seconds))
        return rows
    finally:
        torch.distributed.destroy_process_group()


def _call(torch: ModuleType, kind: str, message: int, size: int, device: str) -> Callable[[], object]:
    count = max(message // 4 // size, 1)
    tensor = torch.ones(count * size, device=device)
    shard = torch.ones(count, device=device)
    shards = list(tensor.chunk(size))
    group = torch.distributed
    calls: dict[str, Callable[[], object]] = {
        "all_reduce": lambda: group.all_reduce(tensor),
        "all_gather": lambda: group.all_gather(shards, shard),
        "reduce_scatter": lambda: group.reduce_scatter(shard, shards),
        "all_to_all": lambda: group.all_to_all_single(torch.empty_like(tensor), tensor),
    }
    return calls[kind]


def _work(torch: ModuleType, device: str, settle: Callable[[], object], busy: float) -> Callable[[], object]:
    """Return what computes for about ``busy`` seconds: the same products in every process, not the same time."""
    if not busy:
        return nothing
    left, right = (torch.rand((BUSY_SIDE, BUSY_SIDE), device=device) for _ in range(2))

    def products(count: int) -> None:
        for _ in range(count):
            torch.matmul(left, right)
        settle()

    products(3)
    start = time.perf_counter()
    products(LEAST)
    each = _over_ranks(torch, (time.perf_counter() - start) / LEAST, device, "MAX")
    count = max(1, round(busy / each))
    return lambda: products(count)


def _seconds(
    torch: ModuleType, call: Callable[[], object], device: str, settle: Callable[[], object], budget: float,
    work: Callable[[], object],
) -> float:  # fmt: skip
    """Return the mean over calls and processes: a step waits for all its collectives, the slow ones too.

    Every process must make as many calls: those that fit into the time by the first few.
    """
    torch.distributed.barrier()
    times: list[float] = []
    start, count = time.perf_counter(), LEAST + 1
    while len(times) < count:
        work()
        began = time.perf_counter()
        call()
        settle()
        times.append(time.perf_counter() - began)
        if len(times) == LEAST:
            each = _over_ranks(torch, (time.perf_counter() - start) / LEAST, device, "MAX")
            count = max(count, min(MOST, int(budget / each)))
    return _over_ranks(torch, trimmed_mean(times[1:]), device, "SUM") / float(torch.distributed.get_world_size())


def _over_ranks(torch: ModuleType, value: float, device: str, how: str) -> float:
    """Return the sum or the greatest of a number that each process has."""
    shared = torch.tensor([value], device=device)
    torch.distributed.all_reduce(shared, op=getattr(torch.distributed.ReduceOp, how))
    return float(shared.item())
