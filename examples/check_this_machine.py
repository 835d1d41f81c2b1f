"""Measure this machine, calibrate a profile, predict transformer layers with tensor parallelism, run them, compare.

Two processes, one core each, PyTorch and gloo: python examples/check_this_machine.py (pip install 'compcomm[measure]').
Close what else runs; at the end it says how much of the cores others used meanwhile.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROCESSES = 2
PASSES, WARM_UP = 25, 5
# For what is measured and for the layers alike: one core a process; freed memory is kept rather than given back to the
# system and asked for again (of glibc), as PyTorch's allocator keeps a GPU's.
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "MALLOC_MMAP_MAX_": "0",
               "MALLOC_TRIM_THRESHOLD_": str(2**33)}  # fmt: skip
MODEL = {"layers": 2, "heads": 8, "vocab": 1024, "micro_batch": 2, "global_batch": 2}
SIZES = [{"hidden": h, "seq_len": s, "ffn_hidden": 4 * h} for h, s in ((256, 256), (512, 256), (512, 512), (1024, 256))]
BASE = """\
name: this-machine
title: One core of this machine
vendor: unknown
year: 2020
peak: {fp32: 200 GFLOP/s}
memory: {capacity: 4 GiB, bandwidth: 50 GB/s}
network: {host: {domain: 2, bandwidth: 10 GB/s, latency: 20 us, efficiency: 0.5}}
timing:
  {gemm_efficiency: 0.5, memory_efficiency: 0.5, kernel_latency: 5 us, collective_latency: 200 us, gemm_ramp_tiles: 1}
"""


def compcomm(*arguments: str) -> str:
    """Run a command of the tool on one core and return what it prints."""
    command = [sys.executable, "-c", "from comp_comm.cli.main import main; main()", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **ENVIRONMENT})
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout


def calibrated(folder: Path) -> Path:
    """Measure kernels and collectives; return a profile fitted to them.

    They are measured as training runs them: both processes at work, operands not in the cache, computing between
    collectives.
    """
    base, profile = folder / "base.yaml", folder / "this-machine.yaml"
    base.write_text(BASE)
    both = ("--processes", str(PROCESSES), "-o", str(folder))
    for kernel in ("gemm", "elementwise"):
        compcomm("measure", "--backend", "torch", "--kernel", kernel, "--quiet", "--shapes", "80", "--seconds", "0.15",
                 "--cold", "16", *both)  # fmt: skip
    compcomm("measure", "--collectives", "--busy", "0.01", "--seconds", "1", *both)
    logs = [str(folder / name) for name in ("gemms.csv", "elementwise.csv", "collectives.csv")]
    answer = json.loads(compcomm("calibrate", *logs, "--extends", str(base), "-o", str(profile), "--format", "json"))
    for row in answer["rows"]:
        print(f"  {row['collective'] or row['operator']:14} {row['n']:4} rows, "
              f"held-out error {100 * row['mean_abs_error']:5.1f} %")  # fmt: skip
    return profile


def predicted(profile: Path, sizes: dict[str, int]) -> tuple[float, float]:
    """Return the seconds of the layers' forward and backward passes, one device of two."""
    point = {**MODEL, **sizes, "gpus": PROCESSES, "tp": PROCESSES, "precision": "fp32", "attention_kernel": "unfused",
             "kernels": "eager", "sp": "off", "position": "learned", "sustained": 1}  # fmt: skip
    flags = [part for name, value in point.items() for part in ("--" + name.replace("_", "-"), str(value))]
    rows = json.loads(compcomm("explain", "--hardware", str(profile), *flags, "--format", "json"))["operations"]
    layers = [row for row in rows if row["part"] == "layer"]
    return tuple(sum(row["seconds"] for row in layers if row["phase"] == phase) for phase in ("forward", "backward"))


def worker(rank: int, meeting: str, answer: str) -> None:
    """Run the layers of one process and write how long the passes take."""
    import torch

    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=PROCESSES)

    class Entering(torch.autograd.Function):
        """Nothing forward, an all-reduce backward: where a column-parallel product begins."""

        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, gradient):
            gradient = gradient.contiguous()
            torch.distributed.all_reduce(gradient)
            return gradient

    class Leaving(torch.autograd.Function):
        """An all-reduce forward, nothing backward: where a row-parallel product ends."""

        @staticmethod
        def forward(ctx, x):
            x = x.contiguous().clone()
            torch.distributed.all_reduce(x)
            return x

        @staticmethod
        def backward(ctx, gradient):
            return gradient

    def layer(x, weights, heads):
        batch, tokens, hidden = x.shape
        normal = torch.nn.functional.layer_norm
        y = Entering.apply(normal(x, (hidden,)))
        q, k, v = (y @ weights["qkv"]).view(batch, tokens, heads, -1).transpose(1, 2).chunk(3, dim=-1)
        scores = (q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5
        seen = torch.softmax(scores, dim=-1) @ v
        x = x + Leaving.apply(seen.transpose(1, 2).reshape(batch, tokens, -1) @ weights["out"])
        y = Entering.apply(normal(x, (hidden,)))
        return x + Leaving.apply(torch.nn.functional.gelu(y @ weights["up"]) @ weights["down"])

    found = []
    for sizes in SIZES:
        h, f, heads = sizes["hidden"], sizes["ffn_hidden"] // PROCESSES, MODEL["heads"] // PROCESSES
        shapes = {"qkv": (h, 3 * h // PROCESSES), "out": (h // PROCESSES, h), "up": (h, f), "down": (f, h)}
        layers = [{name: (torch.randn(shape) * 0.02).requires_grad_() for name, shape in shapes.items()}
                  for _ in range(MODEL["layers"])]  # fmt: skip
        forward, backward = [], []
        for _ in range(PASSES):
            x = torch.randn(MODEL["micro_batch"], sizes["seq_len"], h, requires_grad=True)
            torch.distributed.barrier()
            start = time.perf_counter()
            y = x
            for weights in layers:
                y = layer(y, weights, heads)
            middle = time.perf_counter()
            y.backward(torch.ones_like(y))
            forward.append(middle - start)
            backward.append(time.perf_counter() - middle)
        found.append([statistics.median(times[WARM_UP:]) for times in (forward, backward)])
    if rank == 0:
        Path(answer).write_text(json.dumps(found))
    torch.distributed.destroy_process_group()


def measured(folder: Path) -> list[tuple[float, float]]:
    """Return the seconds of the passes for each of the sizes, run by two processes."""
    import torch

    os.environ.update(ENVIRONMENT)
    meeting, answer = folder / "meeting", folder / "answer.json"
    torch.multiprocessing.spawn(worker, args=(f"file://{meeting}", str(answer)), nprocs=PROCESSES, join=True)
    return [tuple(times) for times in json.loads(answer.read_text())]


def used() -> tuple[float, float] | None:
    """Return the seconds that the cores have worked, and those of this program; None where the system does not say."""
    try:
        user, nice, system, _, _, *others = Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    except OSError:
        return None
    total = sum(map(int, (user, nice, system, *others))) / os.sysconf("SC_CLK_TCK")
    return total, sum(os.times()[:4])


def main() -> None:
    """Print the prediction of every size beside its measurement."""
    with tempfile.TemporaryDirectory() as name:
        folder, start, before = Path(name), time.perf_counter(), used()
        print("calibrated on this machine:")
        profile = calibrated(folder)
        errors = []
        print("hidden seq_len  pass      predicted   measured   error")
        for sizes, times in zip(SIZES, measured(folder), strict=True):
            for what, guess, time_ in zip(("forward", "backward"), predicted(profile, sizes), times, strict=True):
                errors.append(guess / time_ - 1)
                print(f"{sizes['hidden']:6} {sizes['seq_len']:7}  {what:8} {1e3 * guess:7.2f} ms {1e3 * time_:7.2f} ms "
                      f"{100 * errors[-1]:+6.1f} %")  # fmt: skip
        print(f"mean error {100 * statistics.fmean(map(abs, errors)):.1f} %")
        after = used()
        if before and after:
            others = (after[0] - before[0]) - (after[1] - before[1])
            print(f"others used {others / (time.perf_counter() - start):.2f} cores meanwhile")


if __name__ == "__main__":
    main()
