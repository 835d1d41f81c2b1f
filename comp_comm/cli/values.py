"""Kinds of values that flags take: a share as people write it, and one of some words with the nearest one named."""

from __future__ import annotations

import math
from typing import Any

import click

from comp_comm.errors import nearest, one_of

LISTED = 12  # of more words than this, the nearest and the first are told


class Share(click.ParamType):
    """A share: ``20%`` and ``0.2`` are the same.

    >>> Share().convert("20 %", None, None), Share().convert("0.2", None, None)
    (0.2, 0.2)
    """

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the share; fail for what is no finite number."""
        text = str(value).strip()
        try:
            share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            share = math.nan
        if not math.isfinite(share):
            self.fail(f"'{value}' is no share; write it as 0.2 or 20%", param, ctx)
        return share


class Word(click.Choice):
    """One of some words; of a wrong one the nearest is named."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the word; fail for another one."""
        known = [str(word) for word in self.choices]
        if str(value) not in known:
            option = isinstance(param, click.Option)
            name = "" if param is None else param.opts[0] if option else param.human_readable_name
            raise click.UsageError(f"{name}: there is no '{value}'{nearest(str(value), known)} "
                                   f"({one_of(known, LISTED)})", ctx)  # fmt: skip
        return super().convert(value, param, ctx)
