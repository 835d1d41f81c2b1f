"""``compcomm trends``: what became of the forecasts of Comp-vs-Comm."""

from __future__ import annotations

from collections.abc import Sequence

import click

from comp_comm.cli import help_text, options, values
from comp_comm.cli.speech import tell
from comp_comm.errors import ConfigError
from comp_comm.records import Record
from comp_comm.report import machine
from comp_comm.report.answer import basic_meta, write_answer
from comp_comm.report.output import check_folder, made_folder, open_output
from comp_comm.trends.forecast import DRAWS, GROWING, SEED, STUDIES, YEAR, Assumptions
from comp_comm.trends.part import Part, PartSettings
from comp_comm.trends.parts import PARTS

ALL = "all"
FORECAST, CLAIMS = "forecast", "claims"
OF_MODELS = ("models", "required-tp", "edges", "shares", "errors")


@click.command(
    cls=help_text.Grouped,
    epilog="Examples: compcomm trends | compcomm trends shares --since 2023 --plot shares.png | "
    "compcomm trends forecast --year 2032 --growth scale_up=1.5 | compcomm trends all -o trends",
)
@click.argument("part", type=values.Word([*PARTS, ALL]), default=CLAIMS)
@click.option("--since", type=float, metavar="YEAR", help=f"Only models since then ({', '.join(OF_MODELS)}).")
@click.option("--year", type=int, help=f"The year of the forecast. [default: {YEAR}]")
@click.option("--draws", type=int, help=f"Devices drawn for the forecast. [default: {DRAWS}]")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), help=f"Where its random numbers begin. [default: {SEED}]")
@click.option("--growth", "growth", multiple=True, metavar="QUANTITY=FACTOR",
              help=f"Growth a year in the forecast, not drawn: {', '.join(GROWING)}. May be repeated.")  # fmt: skip
@click.option("--study", "studies", multiple=True, metavar="NAME|FILE",
              help=f"A study of layouts to forecast; may be repeated. [default: {', '.join(STUDIES)}]")  # fmt: skip
@click.option("--plot", "picture", metavar="FILE", help="Also draw it (.png, .svg or .pdf).")
@options.format_options
def command(
    part: str, since: float | None, year: int | None, draws: int | None, seed: int | None, growth: tuple[str, ...],
    studies: tuple[str, ...], picture: str | None, path: str | None, form: str | None,
) -> int:  # fmt: skip
    """Comp-vs-Comm, almost four years on: what it foresaw, and what devices and models became.

    claims: what it foresaw, what came, and whether it held. Every other part is a table that these rest on, and a
    picture. forecast draws devices from the trends, with an interval; its layouts are studies that you can change. all
    writes every table, picture and one page into a folder: -o FOLDER.

    The models are our compilation of what was published, with its sources (configs/trends); shares are modelled.
    """
    given = {"--year": year, "--draws": draws, "--seed": seed, "--growth": growth or None, "--study": studies or None}
    _refuse(part, (FORECAST, ALL), [name for name, value in given.items() if value is not None])
    _refuse(part, (*OF_MODELS,), ["--since"] if since is not None else [])
    options.check_finite("--since", () if since is None else (since,))
    assumed = Assumptions(YEAR if year is None else year, DRAWS if draws is None else draws,
                          SEED if seed is None else seed, _growth(growth))  # fmt: skip
    asked = PartSettings(since or 0.0, studies=studies or STUDIES, assumed=assumed)
    if part == ALL:
        return _all(asked, path, form, picture)
    form = options.prepare(form, path)
    if picture:
        from comp_comm.report.plot import check_plot
        from comp_comm.report.trends_plot import check_drawn

        check_drawn(part)
        check_plot(picture)
    made = PARTS[part][0](asked)
    meta = basic_meta(f"trends {part}", title=made.title, notes=list(made.notes))
    notes = [f"note: {text}" for text in made.notes]
    code = options.write(path, lambda out: write_answer(out, form, made.rows, meta, made.shown, [made.title], notes))
    if picture:
        _draw(made, picture)
        tell(f"wrote {picture}")
    return code


def _refuse(part: str, parts: Sequence[str], given: Sequence[str]) -> None:
    if part not in parts and given:
        raise ConfigError(f"{given[0]} means nothing for {part}; it is for {', '.join(parts)}")


def _growth(texts: Sequence[str]) -> tuple[tuple[str, float], ...]:
    growth: dict[str, float] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(f"--growth {text}: write it as quantity=factor, flops=1.5 for instance")
        with options.naming("--growth"):
            growth[name.strip().replace("-", "_")] = options.parse_number(value)
    return tuple(growth.items())


def _draw(part: Part, picture: str) -> None:
    from comp_comm.report.picture import write_figure
    from comp_comm.report.trends_plot import draw_part

    write_figure(picture, draw_part(part), {"title": part.title})


def _all(asked: PartSettings, path: str | None, form: str | None, picture: str | None) -> int:
    """Write every part into a folder, and one page that shows it."""
    if not path or form or picture:
        raise ConfigError("all writes a folder of tables, pictures and a page: give it by -o FOLDER, without "
                          "--format and --plot")  # fmt: skip
    from comp_comm.report.plot import check_library
    from comp_comm.report.trends_page import write_folder

    check_library()
    check_folder(path)
    made = [make(asked) for make, _ in PARTS.values()]
    folder = made_folder(path)
    for part in made:
        with open_output(str(folder / f"{part.name}.csv")) as out:
            meta: Record = basic_meta(f"trends {part.name}", title=part.title, notes=list(part.notes))
            machine.WRITERS["csv"](out, [machine.as_columns(part.rows)], list(part.rows[0]), meta)
    write_folder(folder, made)
    tell(f"wrote {folder / 'index.html'}: {len(made)} parts")
    return 0
