"""``compcomm memory``: what a device has to hold."""

from __future__ import annotations

from typing import IO

import click

from comp_comm.cli import help_text, options
from comp_comm.report import output
from comp_comm.report.stacks import memory_stacks
from comp_comm.sweeps.point import memory


@click.command(cls=help_text.Grouped,
               epilog="Examples: compcomm memory llama-step | compcomm memory llama-step --recompute full | "
               "compcomm memory --hardware h100-sxm --model llama-3-8b --gpus 64 --micro-batch 2")  # fmt: skip
@options.point_options
@options.plot_option("it beside what the device has")
@options.quiet_option
@options.format_options
def command(path: str | None, form: str | None, picture: str | None, **given: object) -> int:
    """Memory of a training step by part, on a device of the pipeline stage that needs most.

    The point is a STUDY (a YAML file or a name of the catalogue), flags, or both.
    """
    from comp_comm.report import explain_table, machine

    form = options.prepare(form, path)
    in_file = options.check_picture(picture, form)
    record = memory(options.point_study(given))
    options.note(record["meta"]["notes"])
    if not record["feasible"]:
        options.note([record["reason"]])
    output.check_not_read(path)
    output.check_not_read(picture)

    def write(out: IO[str]) -> None:
        if form == "json":
            machine.write_record(out, record)
        elif form in machine.WRITERS:
            rows = [{"memory": name, "bytes": size} for name, size in record.items() if name.endswith("_bytes")]
            machine.write_rows(out, rows, form)
        else:
            explain_table.write_memory_answer(out, record, form)
        if picture == "-":
            from comp_comm.report.terminal_plot import write_stacks

            write_stacks(out, [memory_stacks(["the device"], [record])])

    code = options.write(path, write)
    if in_file:
        from comp_comm.report.stacks_plot import draw_stacks

        options.draw(
            str(picture), draw_stacks([memory_stacks(["the device"], [record])], record["meta"]), record["meta"]
        )
    return code
