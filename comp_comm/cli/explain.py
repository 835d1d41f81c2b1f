"""``compcomm explain``: one training step, operation by operation."""

from __future__ import annotations

import click

from comp_comm.cli import options
from comp_comm.sweeps.point import explain


@click.command(epilog="Examples: compcomm explain llama-step | compcomm explain llama-step --tp 4 --format json | "
               "compcomm explain --hardware h100-sxm --model llama-3-8b --gpus 64 --global-batch 256")  # fmt: skip
@options.point_options
@options.format_options
def command(path: str | None, form: str | None, **given: object) -> int:
    """Explain one training step: every operation with its formula, FLOP, bytes, seconds and share; then the step.

    The point is a STUDY (a YAML file or a name of the catalogue), flags, or both. csv and jsonl give the operations.
    """
    from comp_comm.report import explain_table, machine

    form = options.prepare(form, path)
    explanation = explain(options.point_study(given))
    options.note(explanation["meta"]["notes"])
    if not explanation["feasible"]:
        options.note([explanation["reason"]])
    if form == "json":
        return options.write(path, lambda out: machine.write_record(out, explanation))
    if form in machine.WRITERS:
        return options.write(path, lambda out: machine.write_rows(out, explanation["operations"], form))
    return options.write(path, lambda out: explain_table.write_explanation(out, explanation, form))
