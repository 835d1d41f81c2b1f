"""Words of a table of one's own: columns of which each word is known, and a wrong one refused.

What the shipped tables say of software is as loose as their sources; a word there that nothing is known of leaves a
default, and is told. Whoever writes a table for this program means what it says: a slip would be a default unawares.
A copy of rows of a shipped table is no slip: its words are taken as they are there.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from comp_comm.errors import Problems, nearest, one_of
from comp_comm.fields import FIELDS
from comp_comm.validation.model import doubtful_name
from comp_comm.validation.readings import understands
from comp_comm.validation.table import LATER, SOFTWARE, MeasuredRun, read_runs, shipped

YES, FLAG = ("yes", "no"), ("1", "0")
# Columns of plain words that are named after no field, and those; what else their readings know is understood, too.
PLAIN = {
    "sequence_parallel": FLAG, "gated_mlp": FLAG, "zero_stage": ("0", "1", "2", "3", "ddp", "dist-opt", "fsdp", "hsdp"),
    "dp_overlap": YES, "p2p_overlap": YES, "permute_fusion": YES, "force_balance": YES,
}  # fmt: skip
ALLOWED = {name: FIELDS[name].words for name in SOFTWARE if name in FIELDS and FIELDS[name].words} | PLAIN


@cache
def _shipped_words() -> frozenset[tuple[str, str]]:
    """Return what the shipped tables say, by column."""
    runs = (run for path in (None, shipped(LATER)) for run in read_runs(path))
    return frozenset((column, run[column]) for run in runs for column in ALLOWED)


def doubtful_names(runs: Iterable[MeasuredRun]) -> list[str]:
    """Return what to say of names of models, with the line of the first run that has each."""
    firsts: dict[str, MeasuredRun] = {}
    for run in runs:
        said = doubtful_name(run)
        if said:
            firsts.setdefault(said, run)
    return [str(run.problem("model_name", said)) for said, run in firsts.items()]


def check_words(runs: Iterable[MeasuredRun]) -> None:
    """Raise ``ConfigError`` with every word that is not understood: its line, column, and what is allowed."""
    problems = Problems()
    for run in runs:
        for column, allowed in ALLOWED.items():
            text = run[column]
            if (
                text
                and text.lower() not in allowed
                and not understands(column, text)
                and ((column, text) not in _shipped_words())
            ):
                words = (
                    f"'{text}' is not understood{nearest(text, allowed)} ({one_of(allowed, 12)}); empty is the default"
                )
                problems.add(run.problem(column, words))
    problems.raise_if_any()
