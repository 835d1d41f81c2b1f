"""``compcomm init``: a study to begin with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import IO

import click

from comp_comm.cli import completion, help_text, options
from comp_comm.cli.speech import tell
from comp_comm.configs import catalogue
from comp_comm.configs.hardware_file import load_profile
from comp_comm.configs.model_file import Model, load_model
from comp_comm.costmodels.model_work import model_parameters
from comp_comm.errors import ConfigError
from comp_comm.hardware.profile import Profile
from comp_comm.report import output

STATES, ROOM = 18, 0.7  # bytes of a parameter in mixed precision with Adam; the share of memory they may take
TEXT = """\
# A study: what is fixed, what is swept, on which hardware. Evaluate it with
#   compcomm sweep {file}          (also: explain, memory, volume, search, solve; --set KEY=VALUE changes a value)
# Every field: 'compcomm columns', or docs/studies.md. A value may be written 64K, 2T or 30%.
title: {title}

cost_model: complete           # a whole training step; others: comp_vs_comm (one layer), foundation_models, amped
hardware: {hardware}           # 'compcomm hardware list', or the path of a profile of your own; [a, b] is an axis
model: {model}                 # 'compcomm models list', or a config.json; any dimension may be given under 'set' too

set:                           # one value each
  precision: bf16              # bf16, fp16, fp8, ...
  gpus: {gpus}                 # devices in all; data parallelism takes what tp x cp x pp leaves
  tp: {tp}                     # tensor-parallel degree
  pp: {pp}                     # pipeline stages
  micro_batch: 1               # sequences in a micro-batch
  global_batch: {batch}        # sequences in a step, over all replicas
  zero: 1                      # ZeRO stage: 1 shards optimizer states, 2 gradients too, 3 (FSDP) weights too
  recompute: none              # none, selective, full

sweep:                         # several values each: every combination is a point
  network: [0.5, 1, 2, 4]      # factor on the bandwidth of every network; or a range: 0.5..4*2
  flops: [1, 2, 4]             # factor on the FLOP/s of a device

table:                         # a pivot: one value over rows and columns
  value: visible_comm_fraction
  rows: flops
  columns: network

plot:                          # compcomm sweep {file} --plot out.png
  kind: lines
  x: network
  y: visible_comm_fraction
  lines: flops
"""


@click.command(cls=help_text.Grouped, context_settings={"allow_extra_args": True},
               epilog="Examples: compcomm init -o study.yaml | compcomm init --model gpt3-175b "
               "--hardware a100 -o study.yaml | compcomm init --like llama-step -o mine.yaml")  # fmt: skip
@click.option("--model", default="llama-3-8b", show_default=True, metavar="NAME|FILE", help="Its model.",
              shell_complete=completion.names("model"))  # fmt: skip
@click.option("--hardware", default="h100-sxm", show_default=True, metavar="NAME|FILE", help="Its hardware.",
              shell_complete=completion.names("hardware"))  # fmt: skip
@click.option("--gpus", type=click.IntRange(1, 2**24), default=64, show_default=True, help="Its devices.")
@click.option("--like", metavar="STUDY", help="A copy of a study of the catalogue instead.",
              shell_complete=completion.names("study"))  # fmt: skip
@click.option("-o", "--output", "path", metavar="FILE", help="Write to FILE, which must not be there yet.")
@click.pass_context
def command(ctx: click.Context, model: str, hardware: str, gpus: int, like: str | None, path: str | None) -> int:
    """Write a study with a comment at every line: a training step over networks and devices to come."""
    if ctx.args:
        raise click.UsageError(f"{ctx.args[0]}: the file to write is given by -o {ctx.args[0]}", ctx)
    output.check_ending("-o", path, "a study is YAML", catalogue.SUFFIXES)
    if path and path != "-" and not output.is_special(path) and Path(path).exists():
        raise ConfigError(f"{path}: is there already; give another name (-o)")
    text = catalogue.content("study", like)[0].decode() if like else _made(model, hardware, gpus, path)

    def write(out: IO[str]) -> None:
        out.write(text)

    code = options.write(path, write)
    if path and path != "-":
        tell(f"wrote {path}: now 'compcomm sweep {path}'")
    return code


def _made(model: str, hardware: str, gpus: int, path: str | None) -> str:
    profile, about = load_profile(hardware), load_model(model)
    tp = next(degree for degree in (8, 4, 2, 1) if gpus % degree == 0)
    pp = _stages(about, profile, gpus, tp)
    title = json.dumps(f"{about.title} on {gpus} {profile.title}")
    text = TEXT.format(file=path or "study.yaml", title=title, hardware=hardware,
                       model=model, gpus=gpus, tp=tp, pp=pp, batch=4 * gpus)  # fmt: skip
    return "".join(f"{_aligned(line)}\n" for line in text.splitlines())


def _stages(model: Model, profile: Profile, gpus: int, tp: int) -> int:
    """Return the fewest pipeline stages whose states leave a device room for activations, 1 where none do."""
    parameters, layers = float(model_parameters(model.transformer())[0]), int(model.fields.get("layers", 1))
    room = ROOM * profile.value("memory.capacity")
    able = (pp for pp in range(1, layers + 1) if layers % pp == 0 and gpus % (tp * pp) == 0)
    return next((pp for pp in able if STATES * parameters / (tp * pp) <= room), 1)


def _aligned(line: str) -> str:
    """Return a line with its comment at the column of the others."""
    value, hash_, comment = line.partition("  # ")
    return f"{value.rstrip():<30} # {comment}" if hash_ and value.strip() else line
