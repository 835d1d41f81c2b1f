"""A figure or table of a paper: what it states, beside what we get, as rows and as charts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from comp_comm.formulas.arrays import Array
from comp_comm.records import Record, Records

MET, MISSED, NOT_AVAILABLE = "met", "missed", "not available"
SLACK = 1e-9


@dataclass(frozen=True)
class Statement:
    """What a paper states of one quantity, and ours.

    ``low`` and ``high`` are the ends within which ours meets it, with the paper's rounding in them; None where the
    paper's number is not available to us. ``note`` is the reason of a miss, or where a number is from.
    """

    quantity: str
    stated: str
    ours: float | bool | None
    low: float | None = None
    high: float | None = None
    unit: str = ""
    note: str = ""

    @property
    def verdict(self) -> str:
        """Whether ours is what is stated."""
        if self.low is None or self.high is None:
            return NOT_AVAILABLE
        if self.ours is None or math.isnan(float(self.ours)):
            return MISSED
        return MET if self.low - SLACK <= float(self.ours) <= self.high + SLACK else MISSED

    def record(self) -> Record:
        """Return the row of the statement; ``ours`` is yes or no where a trend is stated."""
        ours = self.ours if self.ours is None or isinstance(self.ours, bool) else float(self.ours)
        return {"quantity": self.quantity, "stated": self.stated, "ours": ours, "unit": self.unit,
                "verdict": self.verdict, "note": self.note}  # fmt: skip


def about(quantity: str, stated: float, ours: float, within: float, unit: str = "", note: str = "") -> Statement:
    """Return a statement of one number, which ours may be ``within`` of (the paper's rounding, say).

    >>> about("share", 50, 47.8, 2.5, "%").verdict, about("share", 20, 47, 2.5, "%").verdict
    ('met', 'missed')
    """
    return Statement(quantity, f"{stated:g}", ours, stated - within, stated + within, unit, note)


def between(quantity: str, low: float, high: float, ours: float, unit: str = "", note: str = "") -> Statement:
    """Return a statement of a range in which ours should be."""
    return Statement(quantity, f"{low:g} to {high:g}", ours, low, high, unit, note)


def trend(quantity: str, holds: object, note: str = "", stated: str = "yes") -> Statement:
    """Return a statement in words that ours has or has not.

    >>> trend("grows with TP", True).verdict, trend("grows with TP", False).verdict
    ('met', 'missed')
    """
    return Statement(quantity, stated, bool(holds), 1, 1, "", note)


def unknown(quantity: str, ours: float | None, unit: str = "", note: str = "") -> Statement:
    """Return ours where the paper's number is not available to us."""
    return Statement(quantity, NOT_AVAILABLE, ours, None, None, unit, note)


@dataclass(frozen=True)
class Series:
    """Points of a chart: a line, points, bars, a stack, or what is measured, with the colour of the line after it."""

    label: str
    x: Sequence[float | str]
    y: Sequence[float | None]
    style: str = "line"


@dataclass(frozen=True)
class Chart:
    """A panel: its words, series, scales (0 linear, else the base of a logarithm), and a band of what is stated."""

    title: str
    x: str
    y: str
    series: tuple[Series, ...]
    log_x: int = 0
    log_y: int = 0
    band: tuple[float, float, str] | None = None


@dataclass(frozen=True)
class Figure:
    """A figure, table or section of a paper, made again."""

    paper: str
    name: str
    title: str
    statements: tuple[Statement, ...]
    rows: Records
    charts: tuple[Chart, ...] = ()
    study: str = ""
    notes: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()

    def counts(self) -> dict[str, int]:
        """Return how many statements were met, missed, and are not available."""
        verdicts = [each.verdict for each in self.statements]
        return {verdict: verdicts.count(verdict) for verdict in (MET, MISSED, NOT_AVAILABLE)}


Maker = Callable[[], Figure]


def total(figures: Sequence[Figure]) -> dict[str, int]:
    """Return the counts of several figures together."""
    counts = [figure.counts() for figure in figures]
    return {verdict: sum(each[verdict] for each in counts) for verdict in (MET, MISSED, NOT_AVAILABLE)}


def lines_of(
    columns: Mapping[str, Array], x: str, y: str, by: Sequence[str], label: Callable[..., str], scale: float = 1.0
) -> tuple[Series, ...]:
    """Return a line for each value of ``by`` of a sweep's columns, ``y`` over ``x``."""
    keys = list(dict.fromkeys(zip(*(columns[name].tolist() for name in by), strict=True)))
    lines = []
    for key in keys:
        mask = True
        for name, value in zip(by, key, strict=True):
            mask = mask & (columns[name] == value)
        lines.append(Series(label(*key), columns[x][mask].tolist(), (scale * columns[y][mask]).tolist()))
    return tuple(lines)


__all__ = ["MET", "MISSED", "NOT_AVAILABLE", "Chart", "Figure", "Maker", "Series", "Statement", "about", "between",
           "lines_of", "total", "trend", "unknown"]  # fmt: skip
