"""Measure this machine, calibrate a profile, predict transformer layers with tensor parallelism, run them, compare.

Two processes, one core each, PyTorch and gloo: python examples/check_this_machine.py (pip install 'compcomm[measure]').
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
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout


def calibrated(folder: Path) -> Path:
    """Measure kernels and collectives, and return a profile fitted to them."""
    base, profile = folder / "base.yaml", folder / "this-machine.yaml"
    base.write_text(BASE)
    compcomm("measure", "--backend", "torch", "--quiet", "--shapes", "80", "--seconds", "0.1", "-o", str(folder))
    compcomm("measure", "--collectives", "--processes", str(PROCESSES), "-o", str(folder))
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
        for _ in range(12):
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
        found.append((statistics.median(forward[2:]), statistics.median(backward[2:])))
    if rank == 0:
        Path(answer).write_text(json.dumps(found))
    torch.distributed.destroy_process_group()


def measured(folder: Path) -> list[tuple[float, float]]:
    """Return the seconds of the passes for each of the sizes, run by two processes."""
    import torch

    meeting, answer = folder / "meeting", folder / "answer.json"
    torch.multiprocessing.spawn(worker, args=(f"file://{meeting}", str(answer)), nprocs=PROCESSES, join=True)
    return [tuple(pair) for pair in json.loads(answer.read_text())]


def main() -> None:
    """Print the prediction of every size beside its measurement."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
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


if __name__ == "__main__":
    main()
