"""The parts of the study of trends as a folder: pictures, and one page of tables and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from comp_comm.report import page_parts, picture
from comp_comm.report.output import save_bytes
from comp_comm.report.page_parts import Section
from comp_comm.report.trends_plot import PICTURES, draw_part
from comp_comm.trends.part import Part

TITLE = "Comp-vs-Comm, almost four years on"
SETUP = ("What arXiv:2302.02825 foresaw, beside the devices and trained models of 2017 to 2027; shares are modelled by "
         "compcomm")  # fmt: skip


def write_folder(folder: Path, parts: Sequence[Part]) -> None:
    """Write a picture of each part that has one, as PNG, and ``index.html`` with all of them."""
    sections = []
    for part in parts:
        drawn = ""
        if part.name in PICTURES:
            figure = draw_part(part)
            picture.write_figure(str(folder / f"{part.name}.png"), figure, {"title": part.title})
            drawn = page_parts.figure(picture.svg_of(figure))
        body = page_parts.paragraphs([f"{note[:1].upper()}{note[1:]}." for note in part.notes])
        sections.append(Section(part.name, part.title, drawn + body + page_parts.table(part.rows, part.shown)))
    page = page_parts.page(TITLE, SETUP, sections)
    save_bytes(str(folder / "index.html"), page.encode("utf-8"))
