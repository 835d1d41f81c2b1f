"""``compcomm volume``: what is on the wire."""

from __future__ import annotations

from typing import IO

import click

from comp_comm.cli import help_text, options
from comp_comm.cli.speech import tell
from comp_comm.errors import ConfigError
from comp_comm.records import Record, Records
from comp_comm.report.answer import write_answer
from comp_comm.report.table import setup_line
from comp_comm.sweeps.volume import beside_measured, volume, volume_over

ANY_HARDWARE = "h100-sxm"  # bytes do not depend on it, but for which pipeline stage is the slowest
SHOWN = ("group", "message", "collective", "devices", "calls", "message_bytes", "volume_bytes", "wire_bytes",
         "inside_bytes", "across_bytes")  # fmt: skip


@click.command(cls=help_text.Grouped, epilog="Examples: compcomm volume llama-step | compcomm volume demystifying | "
               "compcomm volume demystifying --set zero=[1,3] --plot volume.png")  # fmt: skip
@options.point_options
@click.option("--log", metavar="FILE", help="A summary of DeepSpeed's comms_logger, shown beside what is predicted.")
@click.option("--steps", type=click.IntRange(max=10**12), metavar="N", help="With --log: the steps that it counts. "
              "[default: 1]")  # fmt: skip
@options.plot_option("it, over the axes if there are any,")
@options.quiet_option
@options.format_options
def command(
    path: str | None, form: str | None, log: str | None, steps: int | None, picture: str | None, **given: object
) -> int:
    """Bytes that a device sends in a training step: by group, message and size.

    message_bytes is the size nccl-tests prints; volume_bytes counts an all-reduce twice, as papers do; wire_bytes is
    what leaves the device. A study with axes gives a row a point and group. Hardware may be left out.
    """
    form = options.prepare(form, path)
    options.check_picture(picture, form)
    if steps is not None and steps < 1:
        raise ConfigError(f"--steps must be at least 1, not {steps}")
    if steps is not None and log is None:
        raise ConfigError("--steps is of a --log, and none is given")
    study = options.point_study(given, ANY_HARDWARE)
    options.note(study.notes)
    if study.axes or study.hardware_axis:
        if log:
            raise ConfigError("--log goes with one point; the study has axes")
        rows, meta = volume_over(study)
        heading = [meta["title"], setup_line(meta)]

        def write(out: IO[str]) -> None:
            write_answer(out, form, rows, meta, heading=heading)
            _draw_below(out, picture, rows, meta)

        return _drawn(options.write(path, write), picture, rows, meta)
    moved = volume(study)
    if log:
        meta = moved["meta"]
        most = max((row["devices"] for row in moved["messages"]), default=1)
        devices = int({**meta["fixed"], **meta.get("derived", {})}.get("gpus") or most)
        moved["measured"] = beside_measured(moved["messages"], _read(log, devices), steps or 1)

    def write_one(out: IO[str]) -> None:
        _write(out, moved, form)
        _draw_below(out, picture, moved["messages"], moved["meta"])

    return _drawn(options.write(path, write_one), picture, moved["messages"], moved["meta"])


def _draw_below(out: IO[str], picture: str | None, rows: Records, meta: Record) -> None:
    if picture == "-":
        from comp_comm.report.terminal_plot import write_volume

        write_volume(out, rows, meta)


def _read(file: str, devices: int) -> Records:
    from comp_comm.calibration.readers.comms_logger import read_summary
    from comp_comm.calibration.readers.text import open_source

    notes: list[str] = []
    rows = read_summary(open_source(file), file, devices, notes)
    options.note(notes)
    return rows


def _write(out: IO[str], moved: Record, form: str) -> None:
    from comp_comm.report import machine, table

    if form == "json":
        return machine.write_record(out, moved)
    rows = moved.get("measured", moved["messages"])
    if form in machine.WRITERS:
        return machine.write_rows(out, rows, form) if rows else None
    table.write_heading(out, moved["meta"], {}, form)
    groups = [{"group": name, **{key: row[key] for key in row if not key.endswith("_s")}}
              for name, row in moved["groups"].items()]  # fmt: skip
    for title, part in (("By group, in a step", groups), ("By message", [{n: r[n] for n in SHOWN} for r in
                        moved["messages"]]), ("By size of the message", moved["distribution"]),
                        ("Measured and predicted, in a step", moved.get("measured", []))):  # fmt: skip
        if part:
            table.write_line(out, "", form)
            table.write_line(out, title, form)
            table.write_line(out, "", form)
            table.write_records(out, part, list(part[0]), form)
    if not groups:
        table.write_line(out, "", form)
        table.write_line(out, "Nothing is sent: there is one device.", form)
    return None


def _drawn(code: int, picture: str | None, rows: Records, meta: Record) -> int:
    if picture and picture != "-" and code == 0:
        from comp_comm.report.volume_plot import save_volume

        save_volume(picture, rows, meta)
        tell(f"wrote {picture}")
    return code
