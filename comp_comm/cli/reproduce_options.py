"""Options that the papers of ``reproduce`` share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import click

from comp_comm.cli import values
from comp_comm.cli.options import Command
from comp_comm.reproduce.papers import PAPERS

ALL = "all"  # figures of a paper
TABLE = "table"  # of the published values, not a figure


def set_option(what: str, names: Sequence[str]) -> Callable[[Command], Command]:
    """Add ``--set``, which changes some names of what was published."""
    text = f"Change {what}: {', '.join(names)}. May be repeated."
    return click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help=text)


def figure_argument(paper: str, *more: str) -> Callable[[Command], Command]:
    """Add the argument FIGURE: a figure of a paper, all of them, or first one of ``more``."""
    words = [*more, *PAPERS[paper], ALL]
    return click.argument("figure", type=values.Word(words), default=words[0] if more else ALL, metavar="[FIGURE]")


def listed(paper: str) -> str:
    """Return what FIGURE may be, for help."""
    return f"FIGURE is one of: {', '.join(PAPERS[paper])}, or all."


def tolerance_option(what: str) -> Callable[[Command], Command]:
    """Add ``--tolerance``, an error of ``what``."""
    return click.option("--tolerance", type=values.Share(), metavar="SHARE", help=f"Largest relative error {what}")


def cell_options(given: Command) -> Command:
    """Add what keeps some of the published cells."""
    for name, text in (("n_gpus", "number of GPUs"), ("nvs", "NVLink domain size"), ("gpu", "GPU"),
                       ("model", "model"), ("strategy", "strategy")):  # fmt: skip
        given = click.option(f"--{name.replace('_', '-')}", name, multiple=True, metavar="VALUE",
                             help=f"Only cells of this {text}; may be repeated.")(given)  # fmt: skip
    return given
