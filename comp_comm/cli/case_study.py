"""``compcomm case-study``: Fig 12 of the paper."""

from __future__ import annotations

import click

from comp_comm.cli import completion, help_text, options
from comp_comm.cli.speech import tell
from comp_comm.configs.overrides import Overrides
from comp_comm.errors import ConfigError
from comp_comm.report.answer import write_answer
from comp_comm.report.table import setup_line
from comp_comm.sweeps.case_study import INTERFERENCE, SETTABLE, SLOWDOWN, case_study
from comp_comm.sweeps.what_if import TECHNIQUES, what_if

SHOWN = (
    "scenario", "step_s", "compute_s", "serialized_comm_s", "overlappable_comm_s", "hidden_comm_s", "exposed_comm_s",
    "serialized_comm_fraction", "hidden_comm_fraction", "visible_comm_fraction",
)  # fmt: skip


@click.command(cls=help_text.Grouped,
               epilog="Examples: compcomm case-study | compcomm case-study --interference 1.5 --plot fig12.png | "
               "compcomm case-study --what-if all")  # fmt: skip
@click.option("--hardware", metavar="NAME|FILE", help="Hardware profile. [default: mi210]",
              shell_complete=completion.names("hardware"))  # fmt: skip
@options.field_options(SETTABLE)
@click.option("--inter-node-slowdown", type=float, default=SLOWDOWN, show_default=True,
              help="How much slower the inter-node links are that data parallelism uses.")  # fmt: skip
@click.option("--interference", type=float, default=INTERFERENCE, show_default=True,
              help="Slowdown of data-parallel communication by running beside compute.")  # fmt: skip
@click.option(
    "--what-if",
    "techniques",
    multiple=True,
    metavar="NAME",
    help=f"Before and after a technique to come: {', '.join(TECHNIQUES)}, all. May be repeated.",
)
@click.option("--plot", "picture", metavar="FILE", help="Also draw it (.png or .svg).")
@options.format_options
def command(
    hardware: str | None,
    inter_node_slowdown: float,
    interference: float,
    techniques: tuple[str, ...],
    picture: str | None,
    path: str | None,
    form: str | None,
    **fields: object,
) -> int:
    """Serialized and overlapped communication together, in three scenarios.

    All links intra-node; data parallelism over slower inter-node links; the same with interference. The default
    set-up is inferred from the two shares the paper gives (48 % serialized, 9 % overlapped); every field can be
    changed.
    """
    form = options.prepare(form, path)
    if picture:
        from comp_comm.report.plot import check_plot

        check_plot(picture)
    overrides = options.given_flags(**fields, hardware=hardware)
    if techniques:
        if picture:
            raise ConfigError("--plot draws the case study, not what-ifs; give one of the two")
        return _what_if(path, form, techniques, overrides, inter_node_slowdown, interference)
    rows, meta = case_study(overrides, inter_node_slowdown, interference)
    heading = [meta["title"], setup_line(meta), f"set-up {meta['setup']}"]
    heading.append("fractions are of each scenario's own step; visible_comm_fraction is serialized + exposed")
    notes = [f"note: {text}" for text in meta["notes"]]
    code = options.write(path, lambda out: write_answer(out, form, rows, meta, SHOWN, heading, notes))
    if picture:
        from comp_comm.report.plot import save_case_study

        save_case_study(picture, rows, meta)
        tell(f"wrote {picture}")
    return code


def _what_if(
    path: str | None, form: str, techniques: tuple[str, ...], overrides: Overrides, slowdown: float, slower: float
) -> int:
    rows, meta = what_if(techniques, overrides, slowdown, slower)
    heading = [meta["title"], setup_line(meta), f"set-up {meta['setup']}", "fractions are of each step: serialized and "
               "exposed communication over all of it"]  # fmt: skip
    shown = ["what_if", "scenario", "step_before_s", "step_after_s", "visible_before_fraction",
             "visible_after_fraction", "speedup"]  # fmt: skip
    notes = [f"note: {text}" for text in meta["notes"]]
    return options.write(path, lambda out: write_answer(out, form, rows, meta, shown, heading, notes))
