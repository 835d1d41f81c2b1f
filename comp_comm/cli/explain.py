"""``compcomm explain``: one training step, operation by operation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO

import click

from comp_comm.cli import help_text, options, prices
from comp_comm.configs.study import Study
from comp_comm.errors import ConfigError
from comp_comm.records import Record, Records
from comp_comm.report import output
from comp_comm.sweeps.point import explain
from comp_comm.sweeps.prices import NO_PRICES, Prices


@click.command(cls=help_text.Grouped,
               epilog="Examples: compcomm explain llama-step | compcomm explain --model llama-3-8b "
               "--hardware h100 --gpus 64 --tp 4 --global-batch 256 | compcomm explain llama-step --tp 2,4,8 | "
               "compcomm explain llama-step --plot step.png --roofline roofline.png")  # fmt: skip
@options.point_options
@prices.price_options
@options.plot_option("where the step goes, as stacked bars,")
@click.option("--roofline", metavar="FILE", help="Also draw every operation under the device's roofline (.png, .svg, "
              ".pdf).")  # fmt: skip
@options.quiet_option
@options.format_options
def command(path: str | None, form: str | None, picture: str | None, roofline: str | None, **given: object) -> int:
    """Explain one training step: every operation with its formula, FLOP, bytes, seconds and share; then the step.

    The point is a STUDY (a YAML file or a name of the catalogue), flags, or both. csv and jsonl give the operations.
    A flag with several values (--tp 2,4,8) puts the parts of each step side by side.
    """
    from comp_comm.report import machine

    form = options.prepare(form, path)
    options.check_picture(picture, form)
    if roofline == "-":
        raise ConfigError("--roofline goes to a file (.png, .svg or .pdf)")
    options.check_picture(roofline, form)
    rates = [given.pop(name) for name in prices.FLAGS]
    study = options.point_study(given)
    each = prices.read_prices(rates, [profile.name for profile in study.profiles])
    if study.axes or study.hardware_axis:
        if roofline:
            raise ConfigError("--roofline is of one step, and this has several: give each flag one value")
        return _several(study, each, path, form, picture)
    if form in ("csv", "jsonl") and any(rates):
        raise ConfigError(f"--format {form} of one step gives its operations, which have no price: take --format json, "
                          "or leave --price-per-gpu-hour and --watts out")  # fmt: skip
    explanation = explain(study, each.get(study.profiles[0].name, NO_PRICES) if study.profiles else NO_PRICES)
    options.note(explanation["meta"]["notes"])
    if not explanation["feasible"]:
        options.note([explanation["reason"]])
    for target in (path, picture, roofline):
        output.check_not_read(target)
    if form == "json":
        code = options.write(path, lambda out: machine.write_record(out, explanation))
    elif form in machine.WRITERS:
        code = options.write(path, lambda out: machine.write_rows(out, explanation["operations"], form))
    else:
        code = options.write(path, lambda out: _write(out, explanation, form, picture))
    _draw(picture, ["the step"], [explanation], explanation["meta"])
    if roofline:
        from comp_comm.report.roofline_plot import draw_roofline

        options.draw(roofline, draw_roofline(explanation), explanation["meta"])
    return code


def _write(out: IO[str], explanation: Record, form: str, picture: str | None) -> None:
    from comp_comm.report import explain_table

    explain_table.write_explanation(out, explanation, form)
    if picture == "-":
        _write_bars(out, ["the step"], [explanation])


def _write_bars(out: IO[str], names: Sequence[str], rows: Records) -> None:
    from comp_comm.report.stacks import step_stacks
    from comp_comm.report.terminal_plot import write_stacks

    write_stacks(out, [step_stacks(names, rows)])


def _draw(picture: str | None, names: Sequence[str], rows: Records, meta: Record) -> None:
    if picture and picture != "-":
        from comp_comm.report.stacks import step_stacks
        from comp_comm.report.stacks_plot import draw_stacks

        options.draw(picture, draw_stacks([step_stacks(names, rows)], meta), meta)


def _several(study: Study, each: dict[object, Prices], path: str | None, form: str, picture: str | None) -> int:
    from comp_comm.report.answer import write_answer
    from comp_comm.report.points import point_name
    from comp_comm.report.table import setup_line
    from comp_comm.sweeps.explain_over import explain_over

    rows, meta = explain_over(study, each)
    options.note(meta["notes"])
    for target in (path, picture):
        output.check_not_read(target)
    if picture and not any(row["feasible"] for row in rows):
        raise ConfigError(f"--plot {picture}: there is nothing to draw: no point is feasible ({rows[0]['reason']})")
    shown = [name for name in rows[0] if name != "feasible" and any(row[name] is not None for row in rows)]
    heading = [meta["title"], setup_line(meta)]
    names = [point_name(meta, row) for row in rows]

    def write(out: IO[str]) -> None:
        write_answer(out, form, rows, meta, shown, heading)
        if picture == "-":
            _write_bars(out, names, rows)

    code = options.write(path, write)
    _draw(picture, names, rows, meta)
    return code
