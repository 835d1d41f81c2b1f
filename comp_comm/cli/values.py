"""Kinds of values that flags take: a share as people write it, and one of some words with the nearest one named."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from comp_comm.errors import ConfigError, nearest, one_of
from comp_comm.records import Records

if TYPE_CHECKING:
    ShareType = click.ParamType[float]
    WordType = click.Choice[str]
else:  # generic from click 8.2 on
    ShareType, WordType = click.ParamType, click.Choice

LISTED = 12  # of more words than this, the nearest and the first are told


class Share(ShareType):
    """A share: ``20%`` and ``0.2`` are the same. More than ``most`` has to be said in percent: of 5 it is asked.

    >>> Share().convert("20 %", None, None), Share().convert("0.2", None, None)
    (0.2, 0.2)
    """

    name = "share"

    def __init__(self, most: float = math.inf) -> None:
        """Hold the largest share that a plain number may be."""
        self.most = most

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the share, whose bounds its command knows; fail for what is no number."""
        text = str(value).strip()
        try:
            share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            self.fail(f"'{value}' is no share; write it as 0.2 or 20%", param, ctx)
        if share > self.most and not text.endswith("%"):
            self.fail(f"{text} is {100 * share:g} %: write {text}%, or {100 * share:g}% if that is meant", param, ctx)
        return share


class Word(WordType):
    """One of some words; of a wrong one the nearest is named."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the word; raise ``click.UsageError`` for another one."""
        known = [str(word) for word in self.choices]
        if str(value) not in known:
            option = isinstance(param, click.Option)
            name = "" if param is None else param.opts[0] if option else param.human_readable_name.strip("[]")
            raise click.UsageError(f"{name}: there is no '{value}'{nearest(str(value), known)} "
                                   f"({one_of(known, LISTED)})", ctx)  # fmt: skip
        return str(value)


def with_word(rows: Records, word: str | None, names: Sequence[str]) -> Records:
    """Return the rows in which one of some columns has a word; raise ``ConfigError`` where none has.

    >>> with_word([{"name": "gpt2"}, {"name": "llama-7b"}], "LLaMA", ["name"])
    [{'name': 'llama-7b'}]
    """
    if word is None:
        return rows
    chosen = [row for row in rows if any(word.lower() in str(row[name]).lower() for name in names)]
    if not chosen:
        known = list(dict.fromkeys(str(row["name"]) for row in rows))
        raise ConfigError(f"nothing has '{word}' in its {' or '.join(names)}{nearest(word, known)}")
    return chosen
