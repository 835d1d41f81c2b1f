"""``compcomm sweep``: a study, evaluated."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import IO, TYPE_CHECKING, Any

import click

from comp_comm.cli import completion, help_text, options, workers
from comp_comm.cli.speech import tell
from comp_comm.costmodels import COST_MODELS
from comp_comm.durable import resolved
from comp_comm.errors import ConfigError, InfeasibleError
from comp_comm.fields import FIELDS
from comp_comm.records import Record, Records
from comp_comm.report import output
from comp_comm.sweeps.meta import meta
from comp_comm.sweeps.plan import Plan, make_plan
from comp_comm.sweeps.plan_notes import notes
from comp_comm.sweeps.result import check_columns, plain_columns, records, stream_rows
from comp_comm.sweeps.stream import Piece, Stream

if TYPE_CHECKING:
    from comp_comm.sweeps.resume import Checkpoint

READ_BY_PEOPLE = ("table", "markdown")
PARQUET = "parquet"
MAX_SHOWN = 100_000
RANKINGS = ", ".join(f"{model.ranking} in {name}" for name, model in COST_MODELS.items())


@click.command(cls=help_text.Grouped,
               epilog="Examples: compcomm sweep future | compcomm sweep --model llama-3-8b --hardware "
               "h100 --gpus 64 --global-batch 256 --tp 1..8*2 | compcomm sweep llama-step --tp 2,4,8 --columns "
               "tp,step_s,mfu,memory_gib | compcomm sweep future --hardware h100 --format csv -o rows.csv | compcomm "
               "sweep future --top 5 --by overlap_ratio")  # fmt: skip
@partial(options.point_options, fields=FIELDS)
@click.option("--top", type=int, metavar="N", help="Only the N rows with the largest value of --by.")
@click.option("--by", metavar="COLUMN", help=f"What --top ranks by. [default: the cost model's: {RANKINGS}]",
              shell_complete=completion.columns)  # fmt: skip
@click.option("--ascending", is_flag=True, help="With --top: the smallest first.")
@click.option("--columns", metavar="A,B", help="Only these columns (see 'compcomm columns').",
              shell_complete=completion.columns)  # fmt: skip
@click.option("--long", "long_form", is_flag=True, help="A table with one row a point, not a pivot.")
@click.option("--plot", metavar="FILE", help="Also draw the study's plot (.png, .svg or .pdf; - is the terminal).")
@click.option("--elapsed", is_flag=True, help="Put the seconds it took into the meta block of JSON.")
@click.option("--quiet", "-q", is_flag=True, help="No notes and no progress on stderr.")
@workers.options
@partial(options.format_options, more=(PARQUET,))
def command(path: str | None, form: str | None, quiet: bool, **given: Any) -> int:
    """Evaluate a study over every axis it names: a STUDY, flags, or both; a flag with several values is an axis.

    STUDY is a YAML file, a name of the catalogue ('compcomm studies'), or - for standard input. Values are one
    (--tp 8), several (--tp 2,4,8) or a range (1..64*2 doubles, 1..9+2 adds): --seq-len 128K, --tokens 2T.

    The table is a pivot that the study describes; --long and every other format give one row a point. With --jobs or
    --executor the work is shared out; the answer is the same, to the last byte.
    """
    from comp_comm.report import views

    form = options.prepare(form, path, (PARQUET,))
    _check_flags(given, form)
    _check_file(given, path, form)
    in_file = options.check_picture(given["plot"], form)
    loaded = options.point_study({name: given.pop(name) for name in (*FIELDS, *options.STUDY_OPTIONS)})
    for target in (path, given["plot"]):
        output.check_not_read(target)  # before the work, which may be long
    plan = make_plan(loaded)
    wanted = check_columns(plan, _split(given["columns"]))
    pivot = views.table_view(plan)
    views.check_plot_block(plan)
    not_as_said = [] if pivot else views.table_notes(plan)
    if form not in READ_BY_PEOPLE or given["long_form"] or given["top"] or given["columns"]:
        pivot, not_as_said = None, []
    if pivot:
        wanted = tuple(dict.fromkeys((*wanted, pivot["value"])))
    shown = given["top"] or plan.grid.points
    if (shown > MAX_SHOWN and form in READ_BY_PEOPLE) or (plan.grid.points > MAX_SHOWN and given["plot"]):
        raise ConfigError(f"{shown:,} rows of {plan.grid.points:,} points are more than the {MAX_SHOWN:,} that a "
                          "table or plot shows; ask for fewer (--top N) or for another --format")  # fmt: skip
    save = _draw(plan, given["plot"], views.plot_view(plan)) if in_file else None
    unnamed = [] if pivot or form not in READ_BY_PEOPLE else _unnamed(plan, wanted)
    options.note([] if quiet else [*notes(plan), *not_as_said, *unnamed])
    code = _answer(plan, wanted, pivot, path, form, quiet, given)
    if save and code == 0:
        save()
    return code


def _unnamed(plan: Plan, wanted: tuple[str, ...]) -> list[str]:
    """Return a note where a table does not show by what its rows differ."""
    moving = [name for axis in plan.grid.axes if len(axis) > 1 for name in axis.values]
    if all(any(name in wanted for name in axis.values) for axis in plan.grid.axes if len(axis) > 1):
        return []
    missing = [name for name in moving if name not in wanted]
    return [f"rows differ in {', '.join(missing)}, which the table does not show: "
            f"--columns {','.join([*missing, *wanted])} does"]  # fmt: skip


def _check_flags(given: Record, form: str) -> None:
    columns = _split(given["columns"])
    if given["columns"] and not any(columns):
        raise ConfigError(f"--columns: '{given['columns']}' names no column ('compcomm columns' lists them)")
    if not all(columns):
        raise ConfigError(f"--columns: '{given['columns']}' has no name beside a comma: write several as tp,mfu")
    twice = next((name for name in columns if columns.count(name) > 1), None)
    if twice:
        raise ConfigError(f"--columns: names {twice} twice")
    if given["top"] is None and (given["by"] or given["ascending"]):
        raise ConfigError("--by and --ascending go with --top N")
    if given["elapsed"] and form != "json":
        raise ConfigError("--elapsed goes with --format json, whose meta block holds the seconds")


def _check_file(given: Record, path: str | None, form: str) -> None:
    if form == PARQUET:
        from comp_comm.report import parquet

        parquet.library()
        if path is None or path == "-" or output.is_special(path):
            raise ConfigError("Parquet goes to a file: give -o FILE.parquet")
    if given["resume"]:
        workers.check_resume(path)
        if given["top"] is None and form in READ_BY_PEOPLE:
            raise ConfigError(f"--resume goes on with rows, not a {form}; give -o FILE.csv, .jsonl, .json or .parquet")
        if given["elapsed"]:
            raise ConfigError("--elapsed is of one run, and --resume makes an answer of several; give one of them")


def _split(columns: str | None) -> list[str]:
    """Return what is between commas; one at the end is that of a list that is written so.

    >>> _split("tp,mfu,"), _split("tp,,mfu"), _split(None)
    (['tp', 'mfu'], ['tp', '', 'mfu'], [])
    """
    return [name.strip() for name in columns.removesuffix(",").split(",")] if columns is not None else []


def _answer(plan: Plan, wanted: tuple[str, ...], pivot: Record | None, path: str | None, form: str, quiet: bool,
            given: Record) -> int:  # fmt: skip
    kept = _checkpoint(plan, wanted, path, given) if given["resume"] and path and given["top"] else None
    if kept is None:
        return _evaluated(plan, wanted, pivot, path, form, quiet, given)
    try:
        code = _evaluated(plan, wanted, pivot, path, form, quiet, given, kept)
        if code == 0:
            kept.remove()
            options.forget_partial(path)
    except InfeasibleError:
        kept.remove()
        raise
    finally:
        kept.close()
    return code


def _evaluated(plan: Plan, wanted: tuple[str, ...], pivot: Record | None, path: str | None, form: str,
               quiet: bool, given: Record, kept: Checkpoint | None = None) -> int:  # fmt: skip
    progress = options.Progress(plan.grid.points, quiet)
    top, timed = given["top"], given["elapsed"]
    with workers.opened(given["executor"], given["jobs"], quiet) as those:
        executor = those.of(plan.grid.points, workers.ENOUGH_RANKED if top else workers.ENOUGH_ROWS)
        stream = stream_rows(plan, wanted, top, given["by"], given["ascending"], progress, executor, kept)
        if kept:
            with progress:  # before a file is opened that a kill would leave behind
                stream.blocks = list(stream.blocks)
        if path and (form == PARQUET or (given["resume"] and not top)):
            from comp_comm.cli import files

            write = files.write_parquet if top or not given["resume"] else files.resume_rows
            return write(plan, stream, path, form, progress, executor)
        shared = executor is not None and top is None and not timed and form not in READ_BY_PEOPLE

        def writer(out: IO[str]) -> None:
            with progress:
                if shared:
                    from comp_comm.cli import files

                    files.write_pieces(out, plan, stream, form, progress, executor)
                else:
                    _write(out, stream, plan, pivot, form, timed)
            progress.finish()
            if given["plot"] == "-":
                _draw_below(out, plan)
            stream.check()

        return options.write(path, writer, lambda: stream.interrupted)


def _checkpoint(plan: Plan, wanted: tuple[str, ...], path: str, given: Record) -> Checkpoint:
    """Return what keeps how far a ranking has come."""
    from comp_comm.cli import files
    from comp_comm.sweeps.resume import Checkpoint

    asked = {name: given[name] for name in ("top", "by", "ascending")}
    return Checkpoint(resolved(path), {**files.identity(plan, wanted), **asked})


def _write(out: IO[str], stream: Stream, plan: Plan, pivot: Record | None, form: str, timed: bool) -> None:
    from comp_comm.report import machine, table

    about = meta(plan)
    if form in machine.WRITERS and not timed:
        return _write_rows(out, stream, form, about)
    batches: machine.Batches = (plain_columns(block) for block in stream)
    if timed:
        start = time.perf_counter()
        batches = list(batches)
        about["seconds"] = time.perf_counter() - start
    if pivot:
        table.write_pivot(out, batches, pivot, about, form)
    elif form in table.STYLES:
        table.write_table(out, batches, stream.wanted, about, form)
    else:
        machine.WRITERS[form](out, batches, stream.wanted, about, lambda: _ending(stream))
    return None


def _write_rows(out: IO[str], stream: Stream, form: str, about: Record) -> None:
    """Write rows block by block, each encoded as a whole."""
    from comp_comm.report.pieces import form_of

    made = form_of(form, stream.wanted, about)
    out.write(made.heading.decode())
    blocks = (Piece(made.encode(rows), len(rows), 0, 0) for rows in stream if len(rows))
    for piece in made.joined(blocks):
        output.write_shown(out, piece.content)
    out.write(made.ending(_ending(stream)).decode())


def _ending(stream: Stream) -> Record:
    return {"interrupted": True} if stream.interrupted else {}


def _plotted(plan: Plan, view: Record) -> Records:
    from comp_comm.report import views

    wanted = tuple(dict.fromkeys((*plan.columns, view["y"], view.get("value", view["y"]))))
    return views.plotted_rows(plan, [row for block in stream_rows(plan, wanted) for row in records(block)])


def _draw_below(out: IO[str], plan: Plan) -> None:
    from comp_comm.report import views
    from comp_comm.report.terminal_plot import write_plot

    view = views.plot_view(plan)
    write_plot(out, _plotted(plan, view), view)


def _draw(plan: Plan, path: str, view: Record) -> Callable[[], None]:
    """Draw the study's plot; return what saves it. What cannot be drawn is refused before anything is written."""
    from comp_comm.report import picture
    from comp_comm.report.plot import draw_plot

    about = meta(plan)
    figure = draw_plot(_plotted(plan, view), view, about)

    def save() -> None:
        picture.write_figure(path, figure, about)
        tell(f"wrote {path}")

    return save
