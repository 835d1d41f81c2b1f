"""What a command line gives twice where one is wanted: a flag's value, and a file that answers go to. Refused."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import click

from comp_comm.configs.overrides import LISTS
from comp_comm.errors import ConfigError

Parse = Callable[[list[str]], tuple[dict[str, Any], list[str], list[click.Parameter]]]
AXES = (*LISTS, "hardware")  # flags of a study that take several values with commas, where a command takes a study
OUTPUTS = ("path", "picture", "plot", "roofline", "svg")  # options that name a file to write


def flag_of(option: click.Parameter) -> str:
    """Return an option's name as people write it: its long one, ``-o`` for ``--output``.

    >>> flag_of(click.Option(["-o", "--output", "path"])), flag_of(click.Option(["--quiet", "-q"]))
    ('-o', '--quiet')
    """
    return option.opts[0]


def refusing_twice(command: click.Command, ctx: click.Context, parse: Parse) -> Parse:
    """Return a parser's ``parse_args`` that raises ``click.UsageError`` where a flag of one value is given twice."""

    def once(args: list[str]) -> tuple[dict[str, Any], list[str], list[click.Parameter]]:
        given = list(args)
        values, left, order = parse(args)
        options = [each for each in order if isinstance(each, click.Option) and _has_one_value(each)]
        twice = next((each for each in options if options.count(each) > 1), None)
        if twice is not None and not ctx.resilient_parsing:
            raise click.UsageError(_said(command, twice, _values(command, ctx, twice, given)), ctx)
        return values, left, order

    return once


def _has_one_value(option: click.Option) -> bool:
    return not (option.multiple or option.is_flag or option.count)


def _values(command: click.Command, ctx: click.Context, option: click.Option, args: list[str]) -> list[str]:
    """Return all values that an option was given, the command line read once more."""
    every = copy.copy(option)
    every.multiple = True
    parser = click.Command.make_parser(command, ctx)
    every.add_to_parser(parser, ctx)  # takes the place of the one that keeps its last value
    found = parser.parse_args(args)[0][str(option.name)]
    return [" ".join(each) if isinstance(each, tuple) else str(each) for each in found]


def _said(command: click.Command, option: click.Option, values: Sequence[str]) -> str:
    """Return what to say of a flag's values, with how to give several where it takes them."""
    distinct = list(dict.fromkeys(values))
    times = "twice" if len(values) == 2 else f"{len(values)} times"
    said = f"{flag_of(option)} is given {times}: {', '.join(values[:-1])} and {values[-1]}"
    if len(distinct) < 2:
        return f"{said}; once is enough"
    takes_study = any(each.name == "overrides" for each in command.params)
    if not ("," in (option.metavar or "") or (takes_study and option.name in AXES)):
        return f"{said}; it takes one"
    plain = not any(".." in value or "[" in value for value in values)  # ranges and lists do not go on with a comma
    return f"{said}; several values" + (f": {flag_of(option)} {','.join(distinct)}" if plain else " are one list")


def refuse_one_file(command: click.Command, given: dict[str, Any]) -> None:
    """Raise ``ConfigError`` where two options would write into one file."""
    files = [(each, given[each.name]) for each in command.params if each.name in OUTPUTS and given.get(each.name)]
    if len(files) < 2:
        return
    from comp_comm.durable import resolved
    from comp_comm.report.output import is_special

    taken: dict[object, str] = {}
    for option, path in files:
        if path == "-" or "\0" in path or is_special(path):
            continue
        said = f"{flag_of(option)} {path}"
        if resolved(path) in taken:
            raise ConfigError(f"{taken[resolved(path)]} and {said} are one file: give each a name of its own")
        taken[resolved(path)] = said
