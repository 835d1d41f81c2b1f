"""``compcomm reproduce``: other papers' published values beside ours, made with their own models."""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from pathlib import Path

import click

from comp_comm.cli import help_text, options, values
from comp_comm.cli.reproduce_options import TABLE, cell_options, figure_argument, listed, set_option, tolerance_option
from comp_comm.cli.speech import tell
from comp_comm.errors import CheckFailedError, ConfigError
from comp_comm.report import output
from comp_comm.report.answer import basic_meta, write_answer
from comp_comm.reproduce import amped, foundation_models
from comp_comm.reproduce.figure import NOT_AVAILABLE, Figure, Statement, total
from comp_comm.reproduce.papers import PAPERS, TITLES, figures_of

UNCHECKED = "note: --set changes what was published, so that nothing is checked (--tolerance checks it)"
PEOPLE = ("table", "markdown")
SHOWN = ("strategy", "model", "gpu", "nvs", "n_gpus", "published_iter_time_s", "ours_iter_time_s", "published_mem_gb",
         "ours_mem_gb", "dp", "tp1", "tp2", "pp", "mbs", "nv_tp1", "nv_tp2", "nv_dp", "nv_pp",
         "same_layout")  # fmt: skip


@click.group(
    cls=help_text.Commands,
    epilog="Examples: compcomm reproduce comp-vs-comm fig-10a --plot fig10a.png | compcomm reproduce comp-vs-comm | "
    "compcomm reproduce foundation-models | compcomm reproduce amped --format json | compcomm reproduce all -o papers",
)
def command() -> None:
    """What four papers state beside ours, made by their models as we wrote them: nothing is looked up.

    A figure's statements end with how many were met, missed, and are not available to us; a miss has its reason. The
    tables of foundation-models and amped end with 1 where ours is further off than the tolerance.
    """


def _only_figure(figure: str, given: dict[str, object]) -> None:
    for flag, value in given.items():
        if value not in (None, (), False):
            raise ConfigError(f"{flag} is for the table, not for {figure}")


def _no_picture(picture: str | None) -> None:
    if picture:
        raise ConfigError("--plot draws a figure: name one")


def _check_tolerance(tolerance: float | None) -> None:
    if tolerance is not None and not (math.isfinite(tolerance) and tolerance >= 0):
        raise ConfigError(f"--tolerance: must be a number of at least 0, not {tolerance}")


@command.command("foundation-models", epilog="Examples: compcomm reproduce foundation-models | "
                 "compcomm reproduce foundation-models --set formulas=corrected --set network=2 -o out.csv | "
                 "compcomm reproduce foundation-models --strategy 1d --gpu A100 --nvs 8 --long")  # fmt: skip
@set_option("the systems or the formulas", foundation_models.SETTABLE)
@figure_argument("foundation-models", TABLE)
@click.option("--plot", "picture", metavar="FILE", help="With a figure: also draw it (.png, .svg or .pdf).")
@cell_options
@tolerance_option("of a cell's time and memory. "
                   f"[default: {foundation_models.TOLERANCE:g}; with --set nothing is checked]")  # fmt: skip
@click.option("--long", "long_form", is_flag=True, help="A table with one row a cell, not a summary.")
@click.option("--timing", "timed", is_flag=True, help="Put the seconds it took into the meta block.")
@options.format_options
def foundation(
    figure: str,
    picture: str | None,
    overrides: tuple[str, ...],
    tolerance: float | None,
    long_form: bool,
    timed: bool,
    path: str | None,
    form: str | None,
    **only: tuple[str, ...],
) -> int:
    """The best layouts of arXiv:2410.00273: all 360 published cells, each found again by searching every layout.

    A cell is a strategy (1D TP, 2D SUMMA, 2D with the sequence split), a model, a GPU, an NVLink domain and a number of
    GPUs; its row has the published and our time and memory, and our layout and placement. A FIGURE by name gives what
    the paper states of it instead.
    """
    if figure != TABLE:
        _only_figure(figure, {"--set": overrides, "--tolerance": tolerance, "--long": long_form, "--timing": timed,
                              **{f"--{name.replace('_', '-')}": value for name, value in only.items()}})  # fmt: skip
        return _figures("foundation-models", figure, False, picture, path, form)
    _no_picture(picture)
    form = options.prepare(form, path)
    _check_tolerance(tolerance)
    rows, meta = foundation_models.reproduce(overrides, only, timed)
    checks = tolerance is not None or not meta["given"]
    limit = foundation_models.TOLERANCE if tolerance is None else tolerance
    wrong = [row for row in rows if foundation_models.missed(row, limit)]
    meta |= {"tolerance": limit if checks else None, "missed": len(wrong) if checks else None}
    changed = ", ".join(f"{name} {value}" for name, value in meta["given"].items())
    verdict = (f"{len(rows) - len(wrong)} of {len(rows)} cells as published within {limit:g} (time, memory, layout and "
               "placement)" if checks else f"{len(rows)} cells with {changed}, not checked")  # fmt: skip
    heading = [meta["title"], f"{verdict}; {meta['candidates']:,} layouts searched"]
    if timed:
        heading.append(f"{meta['seconds']:.2f} s, {meta['candidates_per_s'] / 1e6:.1f} M layouts/s")
    brief = form in PEOPLE and not long_form
    records = foundation_models.summary(rows) if brief else rows
    code = options.write(path, lambda out: write_answer(out, form, records, meta, () if brief else SHOWN, heading))
    if not checks:
        tell(UNCHECKED)
    elif wrong:
        first = ", ".join(str(wrong[0][name]) for name in foundation_models.CELL)
        raise CheckFailedError(f"{len(wrong)} of {len(rows)} cells are not as published within {limit:g}: {first}, ...")
    return code


@command.command("amped", epilog="Examples: compcomm reproduce amped | compcomm reproduce amped --set "
                 "timing=micro-batch | compcomm sweep papers/amped-mappings")  # fmt: skip
@figure_argument("amped", TABLE)
@click.option("--plot", "picture", metavar="FILE", help="With a figure: also draw it (.png, .svg or .pdf).")
@set_option("the systems or the model", amped.SETTABLE)
@tolerance_option(f"of the runs the paper validates with. [default: {amped.TOLERANCE:g}, the paper's; with --set "
                   "nothing is checked]")  # fmt: skip
@options.format_options
def amped_command(
    figure: str, picture: str | None, overrides: tuple[str, ...], tolerance: float | None, path: str | None,
    form: str | None,
) -> int:  # fmt: skip
    """AMPeD (ISPASS 2023): published runs of Megatron-LM beside ours, and what its three case studies conclude.

    The model is put together again from its abstract, its inputs and outputs, and memory; what is from memory says so.
    A FIGURE by name gives what the paper states of it instead.
    """
    if figure != TABLE:
        _only_figure(figure, {"--set": overrides, "--tolerance": tolerance})
        return _figures("amped", figure, False, picture, path, form)
    _no_picture(picture)
    form = options.prepare(form, path)
    _check_tolerance(tolerance)
    rows, meta = amped.reproduce(overrides)
    claims = amped.case_studies(overrides)
    limit = amped.TOLERANCE if tolerance is None else tolerance
    wrong = [row for row in rows if row["checked"] and abs(row["error"]) > limit]
    checks = tolerance is not None or not meta["given"]
    meta |= {"tolerance": limit if checks else None, "missed": len(wrong) if checks else None, "case_studies": claims}
    heading = [meta["title"], f"TFLOP/s of a GPU; runs: {amped.SOURCE}"]
    said = [f"{one['claim']} ({one['source']}): {one['ours']} ({one['study']})" for one in claims]
    notes = [*("note: " + text for text in amped.NOTES), "", "case studies, as published and ours:", *said]
    code = options.write(path, lambda out: write_answer(out, form, rows, meta, amped.SHOWN, heading, notes))
    if not checks:
        tell(UNCHECKED)
    elif wrong or any(one["holds"] is False for one in claims):
        failed = [*(row["model"] for row in wrong), *(one["claim"] for one in claims if one["holds"] is False)]
        raise CheckFailedError(f"not as published within {limit:g}: {'; '.join(failed)}")
    return code


STATEMENTS = ("figure", "quantity", "stated", "ours", "unit", "verdict", "note")


def _write_figures(paper: str, figures: Sequence[Figure], form: str, path: str | None, rows_wanted: bool) -> int:
    """Write statements of figures, or the rows of one; a table ends with the counts."""
    counts = total(figures)
    ending = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    title = figures[0].title if len(figures) == 1 else TITLES[paper]
    notes = [f"note: {note}" for made in figures for note in made.notes if len(figures) == 1]
    meta = basic_meta(f"reproduce {paper}", title=title, counts=counts, studies=[made.study for made in figures])
    if rows_wanted:
        (made,) = figures
        return options.write(path, lambda out: write_answer(out, form, made.rows, meta, made.shown, [title], notes))
    records = [{"figure": made.name, **one.record()} for made in figures for one in made.statements]
    shown = STATEMENTS[len(figures) == 1 :]
    heading = [title, *([f"study: {figures[0].study}"] if len(figures) == 1 and figures[0].study else [])]
    return options.write(path, lambda out: write_answer(out, form, records, meta, shown, heading,
                                                        [ending, *notes]))  # fmt: skip


def _figure_command(paper: str, text: str) -> click.Command:
    """Return the command of a paper's figures."""

    examples = f"Examples: compcomm reproduce {paper} | compcomm reproduce {paper} {next(iter(PAPERS[paper]))} --rows"

    @click.command(paper, cls=help_text.Grouped, help=f"{text}\n\n{listed(paper)}", epilog=examples)
    @figure_argument(paper)
    @click.option("--rows", "rows_wanted", is_flag=True, help="The figure's points, not what the paper states of it.")
    @click.option("--plot", "picture", metavar="FILE", help="Also draw the figure (.png, .svg or .pdf).")
    @options.format_options
    def figures(figure: str, rows_wanted: bool, picture: str | None, path: str | None, form: str | None) -> int:
        return _figures(paper, figure, rows_wanted, picture, path, form)

    return figures


def _figures(
    paper: str, figure: str, rows_wanted: bool, picture: str | None, path: str | None, form: str | None
) -> int:
    form = options.prepare(form, path)
    if figure == "all" and (rows_wanted or picture):
        given = "--rows" if rows_wanted else "--plot"
        raise ConfigError(f"{given} is for one figure: name it ({', '.join(PAPERS[paper])})")
    if picture:
        from comp_comm.report.plot import check_plot

        check_plot(picture)
    made = figures_of(paper, figure)
    if picture and not made[0].charts:
        raise ConfigError(f"--plot: there is nothing to draw of {figure}: it is a table")
    code = _write_figures(paper, made, form, path, rows_wanted)
    if picture:
        from comp_comm.report.picture import write_figure
        from comp_comm.report.reproduce_plot import draw_figure

        write_figure(picture, draw_figure(made[0]), {"title": made[0].title})
        tell(f"wrote {picture}")
    return code


@command.command("all", epilog="Example: compcomm reproduce all -o papers")
@click.option("-o", "--output", "folder", metavar="FOLDER", help="Write tables, pictures and one page there.")
@click.option(
    "--format", "form", type=values.Word(["table", "markdown", "csv", "json", "jsonl"]), help="[default: table]"
)
def everything(folder: str | None, form: str | None) -> int:
    """Every figure of the four papers: how many statements were met, missed, and are not available.

    With -o FOLDER also tables, pictures and one page (index.html) that shows all of them; about half a minute.
    """
    from comp_comm.report.reproduce_page import summary

    if folder:
        from comp_comm.report.plot import check_library

        check_library()
        output.check_folder(folder)
    papers = {paper: figures_of(paper) for paper in PAPERS}
    counts = total([made for figures in papers.values() for made in figures])
    rows = summary(papers)
    ending = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    missed = [f"missed: {paper} {made.name}, {one.quantity}: {one.stated} stated, {_ours(one)}: {one.note}"
              for paper, figures in papers.items() for made in figures for one in made.statements
              if one.verdict == "missed"]  # fmt: skip
    meta = basic_meta("reproduce all", title="Four papers, made again", counts=counts, missed=missed)
    code = options.write(None, lambda out: write_answer(out, form or "table", rows, meta, (), [meta["title"]],
                                                        [*missed, ending]))  # fmt: skip
    if folder:
        from comp_comm.report.reproduce_page import write_folder

        write_folder(output.made_folder(folder), papers)
        tell(f"wrote {Path(folder) / 'index.html'}")
    return code


def _ours(one: Statement) -> str:
    if one.ours is None:
        return NOT_AVAILABLE
    return ("yes" if one.ours else "no") if isinstance(one.ours, bool) else f"{one.ours:.4g} {one.unit}".strip()


for _command, _paper in ((foundation, "foundation-models"), (amped_command, "amped")):
    _command.help = f"{inspect.cleandoc(_command.help or '')}\n\n{listed(_paper)}"
for _paper, _text in (
    ("comp-vs-comm", "Figures, tables and sections of Comp-vs-Comm: what they state, and ours."),
    ("demystifying", "What is known of Demystifying the Communication Characteristics: volumes, messages, throughput."),
):
    command.add_command(_figure_command(_paper, _text))
