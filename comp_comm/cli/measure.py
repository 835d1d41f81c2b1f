"""``compcomm measure``: kernels and collectives of this machine, into tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from comp_comm.calibration.measuring.backends import NumpyBackend, TorchBackend
from comp_comm.calibration.measuring.run import FILES, collective_rows, measure_kernels, table_text
from comp_comm.calibration.measuring.together import measure_together
from comp_comm.cli import help_text, values
from comp_comm.cli.speech import tell
from comp_comm.errors import ConfigError
from comp_comm.report import output

KERNELS = ("gemm", "elementwise", "attention")


@click.command(cls=help_text.Grouped,
               epilog="Examples: compcomm measure -o here | compcomm measure --backend torch --device cuda "
               "-o here | compcomm measure --collectives --processes 2 -o here")  # fmt: skip
@click.option("-o", "--output", "path", metavar="FOLDER", required=True, help="Where the tables go; made if missing.")
@click.option("--backend", type=values.Word(("numpy", "torch")), default="numpy", show_default=True,
              help="What runs the kernels. PyTorch is an extra: pip install 'compcomm[measure]'.")  # fmt: skip
@click.option("--device", type=values.Word(("cpu", "cuda")), help="Of PyTorch; cuda is AMD's GPUs too. [default: cpu]")
@click.option("--dtype", type=values.Word(("fp32", "fp16", "bf16")), help="Of PyTorch. [default: fp32, on a GPU bf16]")
@click.option("--kernel", "kernels", multiple=True, type=values.Word(KERNELS), help="May be repeated. [default: all]")
@click.option("--collectives", is_flag=True, help="Collectives (of torch.distributed) instead of kernels.")
@click.option("--processes", type=click.IntRange(min=1, max=1024),
              help="Between which collectives run, unless torchrun or srun started this one; kernels: so many measure "
              "at once, as devices that share memory work in training. [default: 2, of kernels 1]")  # fmt: skip
@click.option(
    "--busy",
    type=click.FloatRange(min=0.0, max=10.0),
    default=0.0,
    show_default=True,
    help="Seconds that the processes compute before each collective, as between those of a training step.",
)
@click.option("--cold", type=click.IntRange(min=0, max=65_536), default=0, show_default=True,
              help="MiB of other memory to overwrite before each call of a kernel, so that its operands are not in "
              "the cache, as in training.")  # fmt: skip
@click.option("--library", type=values.Word(("gloo", "nccl")), help="[default: nccl with a GPU, else gloo]")
@click.option("--shapes", type=click.IntRange(min=5, max=10_000), default=60, show_default=True,
              help="How many shapes of each kernel.")  # fmt: skip
@click.option("--largest", type=click.IntRange(min=64, max=65_536), default=2048, show_default=True,
              help="The longest side of a matrix; of collectives the square of it in bytes.")  # fmt: skip
@click.option("--seconds", type=click.FloatRange(min=0.0, max=60.0), default=0.1, show_default=True,
              help="For each shape, beyond five calls.")  # fmt: skip
@click.option("--quiet", is_flag=True, help="Say nothing of single shapes.")
def command(path: str, collectives: bool, quiet: bool, **given: Any) -> int:
    """Time GEMMs, element-wise kernels, attention or collectives here, and write the tables that calibrate reads.

    NumPy times the CPU out of the box, in fp32, without attention (it has no fused kernel). Close what else runs.
    """
    if not collectives and (given["library"] is not None):
        raise ConfigError("--library goes with --collectives")
    if collectives and given["processes"] == 1:
        raise ConfigError("--processes 1: a collective is between two and more")
    if given["cold" if collectives else "busy"]:
        raise ConfigError("--cold is of kernels, --busy of --collectives")
    if given["backend"] == "numpy" and not collectives and (given["device"] or given["dtype"]):
        raise ConfigError("--device and --dtype go with --backend torch: NumPy computes in fp32 on the CPU")
    folder = _folder(path)
    if collectives:
        among = given["library"] or "", given["seconds"], given["largest"] ** 2, given["busy"]
        _save(folder, "collective", collective_rows(given["processes"] or 2, *among))
        return 0
    device = given["device"] or "cpu"
    dtype = given["dtype"] or ("fp32" if device == "cpu" else "bf16")
    backend = TorchBackend(device, dtype) if given["backend"] == "torch" else NumpyBackend()
    processes, cold = given["processes"] or 1, given["cold"] * 2.0**20
    for kind in given["kernels"] or KERNELS:
        sizes = kind, given["shapes"], given["largest"], given["seconds"]
        if processes > 1:
            measured = measure_together(processes, backend.name, device, dtype, *sizes, cold=cold)
        else:
            measured = measure_kernels(backend, *sizes, say=str if quiet else tell, cold=cold)
        if measured:
            _save(folder, kind, measured)
        else:
            tell(f"note: no table of {kind}: {backend.name} has no kernel of it")
    return 0


def _folder(path: str) -> Path:
    folder = Path(path)
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"-o {path}: is a file; give a folder")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _save(folder: Path, kind: str, rows: Any) -> None:
    target = str(folder / FILES[kind])
    with output.open_output(target) as out:
        out.write(table_text(kind, rows))
    tell(f"wrote {target}: {len(rows)} rows")
