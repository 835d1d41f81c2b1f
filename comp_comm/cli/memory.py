"""``compcomm memory``: what a device has to hold."""

from __future__ import annotations

import click

from comp_comm.cli import help_text, options
from comp_comm.sweeps.point import memory


@click.command(cls=help_text.Command,
               epilog="Examples: compcomm memory llama-step | compcomm memory llama-step --recompute full | "
               "compcomm memory --hardware h100-sxm --model llama-3-8b --gpus 64 --micro-batch 2")  # fmt: skip
@options.point_options
@options.format_options
def command(path: str | None, form: str | None, **given: object) -> int:
    """Memory of a training step by part, on a device of the pipeline stage that needs most.

    The point is a STUDY (a YAML file or a name of the catalogue), flags, or both.
    """
    from comp_comm.report import explain_table, machine

    form = options.prepare(form, path)
    record = memory(options.point_study(given))
    options.note(record["meta"]["notes"])
    if not record["feasible"]:
        options.note([record["reason"]])
    if form == "json":
        return options.write(path, lambda out: machine.write_record(out, record))
    if form in machine.WRITERS:
        rows = [{"memory": name, "bytes": size} for name, size in record.items() if name.endswith("_bytes")]
        return options.write(path, lambda out: machine.write_rows(out, rows, form))
    return options.write(path, lambda out: explain_table.write_memory_answer(out, record, form))
