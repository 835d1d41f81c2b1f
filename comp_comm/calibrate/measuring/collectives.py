"""Collectives of torch.distributed between processes of this machine, or of a launcher (torchrun, srun)."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from comp_comm.calibrate.measuring.backends import import_torch
from comp_comm.calibrate.measuring.shapes import MESSAGE_SIZES
from comp_comm.calibrate.measuring.timer import median_seconds

KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
# What gloo, the library for CPUs, does not have.
NOT_IN_GLOO = ("reduce_scatter", "all_to_all")
Row = tuple[str, int, int, int, str, float]


def measure_collectives(processes: int, library: str, budget: float, largest: int) -> list[Row]:
    """Return collective, devices, devices a node, bytes, number format and seconds, measured between processes."""
    torch = import_torch()
    if "WORLD_SIZE" in os.environ and "RANK" in os.environ:  # started by a launcher: this process is one of them
        return _rank(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), "env://", library, budget, largest)
    with tempfile.TemporaryDirectory() as folder:
        meeting, answer = Path(folder, "meeting"), Path(folder, "rows")
        given = (processes, f"file://{meeting}", library, budget, largest, str(answer))
        torch.multiprocessing.spawn(_spawned, args=given, nprocs=processes, join=True)
        lines = answer.read_text().splitlines()
    return [_parsed(line) for line in lines]


def _spawned(rank: int, size: int, meeting: str, library: str, budget: float, largest: int, answer: str) -> None:
    import_torch().set_num_threads(1)
    rows = _rank(rank, size, meeting, library, budget, largest)
    if rank == 0:
        Path(answer).write_text("".join(" ".join(map(str, row)) + "\n" for row in rows))


def _parsed(line: str) -> Row:
    kind, devices, per_node, size, dtype, seconds = line.split()
    return kind, int(devices), int(per_node), int(size), dtype, float(seconds)


def _rank(rank: int, size: int, meeting: str, library: str, budget: float, largest: int) -> list[Row]:
    torch = import_torch()
    library = library or ("nccl" if torch.cuda.is_available() else "gloo")
    torch.distributed.init_process_group(library, init_method=meeting, rank=rank, world_size=size)
    local = int(os.environ.get("LOCAL_WORLD_SIZE", size))
    device = f"cuda:{rank % local}" if library == "nccl" else "cpu"
    try:
        rows: list[Row] = []
        for kind in KINDS:
            if library == "gloo" and kind in NOT_IN_GLOO:
                continue
            for message in MESSAGE_SIZES:
                if message <= largest:
                    seconds = _seconds(torch, kind, message, size, device, budget)
                    rows.append((kind, size, local, message, "fp32", seconds))
        return rows
    finally:
        torch.distributed.destroy_process_group()


def _seconds(torch: Any, kind: str, message: int, size: int, device: str, budget: float) -> float:
    count = max(message // 4 // size, 1)
    whole = torch.ones(count * size, device=device)
    shard = torch.ones(count, device=device)
    shards = list(whole.chunk(size))
    group = torch.distributed
    calls: dict[str, Callable[[], object]] = {
        "all_reduce": lambda: group.all_reduce(whole),
        "all_gather": lambda: group.all_gather(shards, shard),
        "reduce_scatter": lambda: group.reduce_scatter(shard, shards),
        "all_to_all": lambda: group.all_to_all_single(torch.empty_like(whole), whole),
    }
    settle = torch.cuda.synchronize if device != "cpu" else (lambda: None)
    # Every process must make as many calls: the number is fixed, not what fits into a time.
    repeats = max(5, min(50, int(budget * 2**22 / max(message, 2**12))))
    group.barrier()
    times = sorted(median_seconds(calls[kind], 0.0, settle) for _ in range(max(1, repeats // 5)))
    return float(times[len(times) // 2])
