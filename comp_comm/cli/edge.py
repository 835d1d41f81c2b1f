"""``compcomm edge``: compute's edge over communication, hardware aside."""

from __future__ import annotations

from typing import Any

import click

from comp_comm.choices import CountedGemms, Precision
from comp_comm.cli import completion, help_text, options, values
from comp_comm.errors import ConfigError
from comp_comm.fields import FIELDS
from comp_comm.report.answer import basic_meta, write_answer
from comp_comm.sweeps.algorithmic import TABLE_4, edge_table

UNITS = {"edge_at_tp1_flop_per_byte": "FLOP/B", "amdahl_edge_flop_per_byte": "FLOP/B", "slack_flop_per_byte": "FLOP/B"}


@click.command(cls=help_text.Grouped, epilog="Examples: compcomm edge | compcomm edge --tp 8 --count paper_exact | "
               "compcomm edge --model bert-large --model palm-540b --format json")  # fmt: skip
@click.option("--model", "models", multiple=True, metavar="NAME|FILE", default=TABLE_4,
              help="A model; may be repeated. [default: the eight of the paper's Table 4]",
              shell_complete=completion.names("model"))  # fmt: skip
@click.option("--tp", metavar="N|required", default="required", show_default=True,
              help="Tensor-parallel degree of every model, or each model's own by Eq 10.")  # fmt: skip
@click.option("--memory-scaling", metavar="VALUE",
              help="With the required TP: device memory over the base model's device. [default: 2]")  # fmt: skip
@click.option("--micro-batch", metavar="VALUE", default="1", show_default=True, help=FIELDS["micro_batch"].help + ".")
@click.option(
    "--count", type=values.Word(CountedGemms.words()), default="complete", show_default=True, help=FIELDS["count"].help
)
@click.option("--precision", type=values.Word(Precision.words()), default="fp16", show_default=True,
              help="Number format of what is communicated.")  # fmt: skip
@options.format_options
def command(
    models: tuple[str, ...], path: str | None, form: str | None, count: str, precision: str, **given: Any
) -> int:
    """Amdahl's law edge and slack of published models (sections 3.3-3.5): FLOP per byte communicated, no hardware.

    The edge is a layer's training FLOP over its serialized all-reduce bytes; the slack is the backward FLOP of one FC
    matrix over its gradient's bytes. Ratios are to the first model.
    """
    form = options.prepare(form, path)
    if given["memory_scaling"] is not None and given["tp"] != "required":
        raise ConfigError(f"--memory-scaling goes with '--tp required', not with --tp {given['tp']}")
    given["memory_scaling"] = given["memory_scaling"] or "2"
    numbers = {name: options.parse_field(name, given[name]) for name in ("tp", "memory_scaling", "micro_batch")}
    tp = None if numbers["tp"] == "required" else int(numbers["tp"])
    scaling, batch = float(numbers["memory_scaling"]), int(numbers["micro_batch"])
    rows = edge_table(models, tp, batch, scaling, count, precision)
    conventions = {"tp": given["tp"], "memory_scaling": scaling, "micro_batch": batch, "count": count,
                   "precision": precision}  # fmt: skip
    meta = basic_meta("edge", conventions=conventions, units=UNITS)
    required = f"tp required by Eq 10 at memory scaling {scaling:g}, rounded up to a divisor of hidden"
    degree = f"tp {tp}" if tp else required
    heading = ["Compute's edge over communication, hardware aside (FLOP per byte)",
               f"training; count {count}; precision {precision}; micro_batch {batch}; {degree}"]  # fmt: skip
    shown = [name for name in rows[0] if name not in ("title", "micro_batch", "layers")]
    return options.write(path, lambda out: write_answer(out, form, rows, meta, shown, heading))
