"""``compcomm measure``: kernels and collectives of this machine, into tables."""

from __future__ import annotations

from typing import Any

import click
from click.core import ParameterSource

from comp_comm.calibration.measuring.backends import NumpyBackend, TorchBackend
from comp_comm.calibration.measuring.run import FILES, collective_rows, measure_kernels, table_text
from comp_comm.calibration.measuring.together import measure_together
from comp_comm.cli import help_text, options, values
from comp_comm.cli.given_twice import flag_of
from comp_comm.cli.speech import tell
from comp_comm.errors import ConfigError
from comp_comm.report import output

COMMAND_LINE = ParameterSource.COMMANDLINE
KERNELS = ("gemm", "elementwise", "attention")
OF_KERNELS = ("device", "dtype", "kinds", "cold", "shapes")
OF_COLLECTIVES = ("library", "busy")


@click.command(cls=help_text.Grouped,
               epilog="Examples: compcomm measure -o here | compcomm measure --backend torch --device cuda "
               "-o here | compcomm measure --collectives --processes 2 -o here")  # fmt: skip
@click.option("-o", "--output", "path", metavar="FOLDER", required=True, help="Where the tables go; made if missing.")
@click.option("--backend", type=values.Word(("numpy", "torch")), default="numpy", show_default=True,
              help="What runs the kernels. PyTorch is an extra: pip install 'compcomm[measure]'.")  # fmt: skip
@click.option("--device", type=values.Word(("cpu", "cuda")), help="Of PyTorch; cuda is AMD's GPUs too. [default: cpu]")
@click.option("--dtype", type=values.Word(("fp32", "fp16", "bf16")), help="Of PyTorch. [default: fp32, on a GPU bf16]")
@click.option("--kernel", "kinds", multiple=True, type=values.Word(KERNELS),
              help="Only these; may be repeated. [default: all that the backend has]")  # fmt: skip
@click.option("--collectives", is_flag=True, help="Collectives (of torch.distributed) instead of kernels.")
@click.option("--processes", type=click.IntRange(min=1, max=1024),
              help="Between which collectives run, unless torchrun started this one (RANK and WORLD_SIZE are set); "
              "kernels: so many measure at once, as devices that share memory work in training. [default: 2, of "
              "kernels 1]")  # fmt: skip
@click.option("--busy", type=click.FloatRange(min=0.0, max=10.0), default=0.0, show_default=True,
              help="Seconds that the processes compute before each collective, as between those of a training "
              "step.")  # fmt: skip
@click.option("--cold", type=click.IntRange(min=0, max=65_536), default=0, show_default=True,
              help="MiB of other memory to overwrite before each call of a kernel, so that its operands are not in "
              "the cache, as in training.")  # fmt: skip
@click.option("--library", type=values.Word(("gloo", "nccl")),
              help="What sends collectives; nccl is AMD's RCCL too. [default: nccl with a GPU, else gloo]")  # fmt: skip
@click.option("--shapes", type=click.IntRange(min=5, max=10_000), default=60, show_default=True,
              help="How many shapes of each kernel, where there are so many.")  # fmt: skip
@click.option("--largest", type=click.IntRange(min=64, max=16_384), default=2048, show_default=True,
              help="The longest side of a matrix (8192 is the longest there is); of collectives the square of it in "
              "bytes.")  # fmt: skip
@click.option("--seconds", type=click.FloatRange(min=0.0, max=60.0), default=0.1, show_default=True,
              help="For each shape, beyond five calls.")  # fmt: skip
@click.option("--quiet", "-q", is_flag=True, help="Say nothing of single shapes.")
def command(path: str, collectives: bool, quiet: bool, **given: Any) -> int:
    """Time GEMMs, element-wise kernels, attention or collectives here, and write the tables that calibrate reads.

    NumPy times the CPU out of the box, in fp32, without attention (it has no fused kernel). Close what else runs.
    """
    ctx = click.get_current_context()
    said = [each for each in ctx.command.params if ctx.get_parameter_source(str(each.name)) is COMMAND_LINE]
    for flag in ("seconds", "busy"):  # a range of click holds NaN
        options.check_finite(f"--{flag}", [given[flag]])
    _check({str(each.name): flag_of(each) for each in said}, collectives, given)
    output.check_folder(path)
    if collectives:
        among = given["library"] or "", given["seconds"], given["largest"] ** 2, given["busy"]
        rows = collective_rows(given["processes"] or 2, *among)
        if rows:  # one of a launcher's processes has them
            _save(path, "collective", rows)
        return 0
    device = given["device"] or "cpu"
    dtype = given["dtype"] or ("fp32" if device == "cpu" else "bf16")
    backend = TorchBackend(device, dtype) if given["backend"] == "torch" else NumpyBackend()
    processes, cold = given["processes"] or 1, given["cold"] * 2.0**20
    for kind in dict.fromkeys(given["kinds"] or KERNELS):
        sizes = kind, given["shapes"], given["largest"], given["seconds"]
        if processes > 1:
            measured = measure_together(processes, backend.name, device, dtype, *sizes, cold=cold)
        else:
            measured = measure_kernels(backend, *sizes, say=str if quiet else tell, cold=cold)
        if measured:
            _save(path, kind, measured)
        else:
            tell(f"note: no table of {kind}: {backend.name} has no kernel of it up to --largest {given['largest']}")
    return 0


def _check(said: dict[str, str], collectives: bool, given: dict[str, Any]) -> None:
    """Raise ``ConfigError`` for a flag that means nothing beside the others; ``said`` are those of the command line."""
    wrong = [said[name] for name in (OF_KERNELS if collectives else OF_COLLECTIVES) if name in said]
    numpy = given["backend"] == "numpy"
    if collectives and wrong:
        raise ConfigError(f"{' and '.join(wrong)}: of kernels, and --collectives measures none; leave it out")
    if wrong:
        raise ConfigError(f"{' and '.join(wrong)}: of collectives; give --collectives, or leave it out")
    if collectives and "backend" in said and numpy:
        raise ConfigError("--backend numpy: collectives are PyTorch's; leave it out")
    if collectives and given["processes"] == 1:
        raise ConfigError("--processes 1: a collective is between two and more")
    of_torch = [said[name] for name in ("device", "dtype") if name in said]
    if numpy and of_torch:
        raise ConfigError(f"{' and '.join(of_torch)}: of --backend torch; NumPy computes in fp32 on the CPU")
    if numpy and "attention" in given["kinds"]:
        raise ConfigError("--kernel attention: NumPy has no fused kernel of it; --backend torch has")


def _save(folder: str, kind: str, rows: Any) -> None:
    target = str(output.made_folder(folder) / FILES[kind])
    with output.open_output(target) as out:
        out.write(table_text(kind, rows))
    tell(f"wrote {target}: {len(rows)} rows")
