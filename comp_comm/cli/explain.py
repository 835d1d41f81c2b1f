"""``compcomm explain``: one training step, operation by operation."""

from __future__ import annotations

import click

from comp_comm.cli import help_text, options
from comp_comm.configs.study import Study
from comp_comm.report import output
from comp_comm.report.answer import write_answer
from comp_comm.sweeps.point import explain


@click.command(cls=help_text.Command,
               epilog="Examples: compcomm explain llama-step | compcomm explain --model llama-3-8b "
               "--hardware h100 --gpus 64 --tp 4 --global-batch 256 | compcomm explain llama-step --tp 2,4,8 | "
               "compcomm explain llama-step --tp 4 --format json")  # fmt: skip
@options.point_options
@options.format_options
def command(path: str | None, form: str | None, **given: object) -> int:
    """Explain one training step: every operation with its formula, FLOP, bytes, seconds and share; then the step.

    The point is a STUDY (a YAML file or a name of the catalogue), flags, or both. csv and jsonl give the operations.
    A flag with several values (--tp 2,4,8) puts the parts of each step side by side.
    """
    from comp_comm.report import explain_table, machine

    form = options.prepare(form, path)
    study = options.point_study(given)
    if study.axes or study.hardware_axis:
        return _several(study, path, form)
    explanation = explain(study)
    options.note(explanation["meta"]["notes"])
    if not explanation["feasible"]:
        options.note([explanation["reason"]])
    output.check_not_read(path)
    if form == "json":
        return options.write(path, lambda out: machine.write_record(out, explanation))
    if form in machine.WRITERS:
        return options.write(path, lambda out: machine.write_rows(out, explanation["operations"], form))
    return options.write(path, lambda out: explain_table.write_explanation(out, explanation, form))


def _several(study: Study, path: str | None, form: str) -> int:
    from comp_comm.report.table import setup_line
    from comp_comm.sweeps.several import explain_over

    rows, meta = explain_over(study)
    options.note(meta["notes"])
    shown = [name for name in rows[0] if name != "feasible" and any(row[name] is not None for row in rows)]
    heading = [meta["title"], setup_line(meta)]
    return options.write(path, lambda out: write_answer(out, form, rows, meta, shown, heading))
