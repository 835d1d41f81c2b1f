"""What a shell completes: names of the catalogue, words of a field, columns, and both sides of ``--set``."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import click

from comp_comm.configs import catalogue
from comp_comm.fields import FIELDS

Complete = Callable[[click.Context, click.Parameter, str], list[str]]


def names(kind: str) -> Complete:
    """Return a completion of the catalogue's names of a kind, the last of several with commas between them."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        known = catalogue.names(kind)
        return last(incomplete, [*known, *catalogue.short_names()] if kind == "hardware" else known)

    return complete


def words(name: str) -> Complete:
    """Return a completion of the words of a field."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        return last(incomplete, FIELDS[name].words)

    return complete


def columns(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete a column of any cost model; before the ``=`` of a target."""
    from comp_comm.costmodels import COST_MODELS

    end = "=" if param.name == "target" else ""
    known = dict.fromkeys(name for model in COST_MODELS.values() for name in model.columns)
    fields = [] if end else FIELDS
    return last(incomplete, [f"{name}{end}" for name in (*known, *fields)])


def settings(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete ``KEY=VALUE``: keys, then the words of that key.

    >>> settings(click.Context(click.Command("x")), click.Option(["--set"]), "zero")
    ['zero=', 'zero_implementation=', 'zero_overhead=']
    >>> settings(click.Context(click.Command("x")), click.Option(["--set"]), "sp=o")
    ['sp=off', 'sp=on']
    """
    key, equals, value = incomplete.partition("=")
    if not equals:
        return [f"{name}=" for name in ("hardware", "model", "batch_tokens", *FIELDS) if name.startswith(key)]
    if key in ("hardware", "model"):
        known: Iterable[str] = catalogue.names(key)
    else:
        known = FIELDS[key].words if key in FIELDS else ()
    return [f"{key}={word}" for word in known if word.startswith(value)]


def last(incomplete: str, known: Iterable[str]) -> list[str]:
    """Return what completes the last of some values with commas between them.

    >>> last("a,h10", ["h100", "h200"])
    ['a,h100']
    """
    begin, comma, end = incomplete.rpartition(",")
    return [f"{begin}{comma}{word}" for word in known if word.startswith(end)]
