"""The figures of the four papers as a folder: tables, pictures, and one page that shows all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from comp_comm.records import Records
from comp_comm.report import machine, page_parts, picture
from comp_comm.report.answer import basic_meta
from comp_comm.report.output import open_output, save_bytes
from comp_comm.report.page_parts import Section
from comp_comm.report.reproduce_plot import draw_figure
from comp_comm.reproduce.figure import Figure, total
from comp_comm.reproduce.papers import TITLES

TITLE = "Four papers, made again"
MOST_ROWS = 400


def write_folder(folder: Path, papers: Mapping[str, Sequence[Figure]]) -> None:
    """Write each figure's statements and rows as CSV, its picture as PNG, and ``index.html`` with all of them."""
    sections = [Section("summary", "Met, missed, not available", page_parts.table(summary(papers)))]
    for paper, figures in papers.items():
        for made in figures:
            name = f"{paper}-{made.name}"
            for ending, rows in (("statements", [one.record() for one in made.statements]), ("rows", made.rows)):
                _write_rows(folder / f"{name}-{ending}.csv", rows, made)
            drawn = ""
            if made.charts:
                figure = draw_figure(made)
                picture.write_figure(str(folder / f"{name}.png"), figure, {"title": made.title})
                drawn = page_parts.figure(picture.svg_of(figure))
            sections.append(Section(name, f"{TITLES[paper].partition(' (')[0]}: {made.title}", _body(made, drawn)))
    setup = f"{', '.join(TITLES[paper] for paper in papers)}: what each figure and table states, and ours"
    save_bytes(str(folder / "index.html"), page_parts.page(TITLE, setup, sections).encode("utf-8"))


def _body(made: Figure, drawn: str) -> str:
    said = page_parts.table([one.record() for one in made.statements])
    notes = [f"{note[:1].upper()}{note[1:]}." for note in made.notes]
    study = [f"Study: {made.study}."] if made.study else []
    rows = page_parts.table(made.rows[:MOST_ROWS], made.shown) if made.rows else ""
    return said + drawn + page_parts.paragraphs([*study, *notes]) + rows


def _write_rows(path: Path, rows: Records, made: Figure) -> None:
    if rows:
        meta = basic_meta(f"reproduce {made.paper} {made.name}", title=made.title, notes=list(made.notes))
        with open_output(str(path)) as out:
            machine.WRITERS["csv"](out, [machine.as_columns(rows)], list(rows[0]), meta)


def summary(papers: Mapping[str, Sequence[Figure]]) -> Records:
    """Return the counts of each figure, and of each paper."""
    rows: Records = []
    for paper, figures in papers.items():
        rows += [
            {"paper": paper, "figure": made.name, "title": made.title, **_named(made.counts())} for made in figures
        ]
        rows.append({"paper": paper, "figure": "all", "title": "", **_named(total(figures))})
    return rows


def _named(counts: Mapping[str, int]) -> dict[str, int]:
    return {name.replace(" ", "_"): count for name, count in counts.items()}


__all__ = ["summary", "write_folder"]
