"""``compcomm required-tp``: Eq 10, the tensor-parallel degree a model needs."""

from __future__ import annotations

import click

from comp_comm.cli import completion, help_text, options
from comp_comm.formulas.scaling import BASE_PARAMETERS, BASE_TP
from comp_comm.report.answer import basic_meta, write_answer
from comp_comm.sweeps.algorithmic import MEMORY_SCALINGS, SINCE_MEGATRON, required_tp_table

SIZE = click.FloatRange(min=1, max=1e16)
RATIO = click.FloatRange(min=1e-6, max=1e6)


@click.command(
    cls=help_text.Grouped,
    epilog="Examples: compcomm required-tp | compcomm required-tp --parameters 1e12 --memory-scaling 6",
)
@click.option("--model", "models", multiple=True, metavar="NAME|FILE",
              help="A model; may be repeated. [default: those since Megatron-LM in the paper's Table 4]",
              shell_complete=completion.names("model"))  # fmt: skip
@click.option("--parameters", multiple=True, type=SIZE, help="A bare number of parameters; may be repeated.")
@click.option("--memory-scaling", "scalings", multiple=True, type=RATIO, default=MEMORY_SCALINGS, show_default=True,
              help="Device memory over the base model's device; may be repeated.")  # fmt: skip
@click.option("--base-tp", type=RATIO, default=BASE_TP, show_default=True, help="TP of the base model.")
@click.option("--base-parameters", type=SIZE, default=BASE_PARAMETERS, show_default=True,
              help="Parameters of the base model (Megatron-LM BERT).")  # fmt: skip
@options.format_options
def command(
    models: tuple[str, ...],
    parameters: tuple[float, ...],
    scalings: tuple[float, ...],
    base_tp: float,
    base_parameters: float,
    path: str | None,
    form: str | None,
) -> int:
    """The tensor-parallel degree a model needs to fit: base TP x parameter ratio / memory ratio (Eq 10, Fig 9).

    required_tp is rounded to the nearest whole number; tp is the next divisor of the model's hidden dimension.
    """
    for flag, values in (("--parameters", parameters), ("--memory-scaling", scalings), ("--base-tp", (base_tp,)),
                         ("--base-parameters", (base_parameters,))):  # fmt: skip
        options.check_finite(flag, values)
    form = options.prepare(form, path)
    chosen = models or (() if parameters else SINCE_MEGATRON)
    rows = required_tp_table(chosen, parameters, scalings, base_tp, base_parameters)
    meta = basic_meta("required-tp", base_tp=base_tp, base_parameters=base_parameters)
    heading = [f"Required TP = {base_tp:g} x (parameters / {base_parameters:g}) / memory scaling (Eq 10)"]
    shown = [name for name in rows[0] if name not in ("title", "required_tp_exact")]
    return options.write(path, lambda out: write_answer(out, form, rows, meta, shown, heading))
