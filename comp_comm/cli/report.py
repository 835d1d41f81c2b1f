"""``compcomm report``: a study as one page."""

from __future__ import annotations

from functools import partial

import click

from comp_comm.cli import help_text, options
from comp_comm.cli.speech import tell
from comp_comm.configs import catalogue
from comp_comm.fields import FIELDS
from comp_comm.report import output


@click.command(cls=help_text.Grouped, epilog="Examples: compcomm report llama-step -o report.html | "
               "compcomm report future -o future.html | "
               "compcomm report --model llama-3-8b --hardware h100 --gpus 64 --global-batch 256 "
               "--tp 1..8*2 -o tp.html")  # fmt: skip
@partial(options.point_options, fields=FIELDS)
@options.quiet_option
@click.option("-o", "--output", "path", required=True, metavar="FILE", help="The page, FILE.html. Needed.")
def command(path: str, **given: object) -> int:
    """A study as one HTML page that needs no network: to look at, to keep, to send.

    Tables that sort and filter, plots, assumptions, where every number of the hardware is from and how sure it is, and
    an explorer: H, SL, B, TP and flop-vs-bw by sliders. A study of one point is explained; one with axes is swept.
    """
    catalogue.FILES_READ.clear()
    output.check_ending("-o", path, "a report is a page", (".html", ".htm"))
    study = options.point_study(given)
    output.check_not_read(path)
    from comp_comm.report.plot import check_library

    check_library()
    from comp_comm.report.html_report import html_report

    text = html_report(study)
    options.note(study.notes)
    with output.open_output(path) as out:
        out.write(text)
    if path != "-":
        tell(f"wrote {path}")
    return 0
