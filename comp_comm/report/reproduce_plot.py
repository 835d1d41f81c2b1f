"""Charts of a paper's figure, made again: lines, points, bars and stacks in panels."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from comp_comm.report import picture
from comp_comm.report.picture import DPI, GREY, PALETTE
from comp_comm.reproduce.figure import Chart, Series
from comp_comm.reproduce.figure import Figure as PaperFigure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKERS = "osD^vPX*"
ACROSS = 3
MANY = 6  # so many series have their legend beside the panel
BAR = 0.8


def draw_figure(made: PaperFigure) -> Figure:
    """Return the picture of a paper's figure, which has charts."""
    from matplotlib.figure import Figure

    count = len(made.charts)
    across = min(count, ACROSS if count != 4 else 2)
    down = math.ceil(count / across)
    width = 4.6 if max(len(chart.series) for chart in made.charts) < MANY else 6.0
    with picture.picture_style():
        figure = Figure(figsize=(max(7.0, width * across), 3.6 * down), dpi=DPI, layout="constrained")
        same = len({(chart.x, chart.y, chart.log_x, chart.log_y) for chart in made.charts}) == 1 and bool(
            made.charts[0].x
        )
        panels = np.ravel(figure.subplots(down, across, squeeze=False, sharex=same, sharey=same)).tolist()
        for axes, chart in zip(panels, made.charts, strict=False):
            _draw(axes, chart, made.charts if same else (chart,))
        for axes in panels[count:]:
            axes.set_visible(False)
        counts = made.counts()
        said = ", ".join(f"{number} {verdict}" for verdict, number in counts.items())
        picture.frame(figure, {"title": made.title}, f"of what it states: {said}", ())
    return figure


def _draw(axes: Axes, chart: Chart, sharing: Sequence[Chart]) -> None:
    axes.grid(True)
    if chart.band:
        low, high, stated = chart.band
        axes.axhspan(low, high, color=GREY, alpha=0.15, lw=0, label=stated)
    words = list(dict.fromkeys(str(x) for series in chart.series if series.style in ("bar", "stack") for x in series.x))
    if words:
        _bars(axes, chart, words)
    drawn = [each for each in chart.series if each.style in ("line", "points", "measured") and len(each.x)]
    measured = 0
    for number, series in enumerate(drawn):
        _points(axes, series, number - measured)
        measured += series.style == "measured"  # it has the colour of the line after it
    _scales(axes, chart, sharing, bool(words))
    axes.set_title(textwrap.fill(chart.title, 46), loc="left", fontsize=9.5)
    axes.set_ylabel(chart.y)
    axes.set_xlabel(chart.x)
    if any(series.label for series in chart.series):
        if len(chart.series) >= MANY:
            axes.legend(fontsize=7.5, loc="upper left", bbox_to_anchor=(1.01, 1.0))
        else:
            axes.legend(fontsize=7.5, loc="best")


def _points(axes: Axes, series: Series, place: int) -> None:
    y = np.asarray([math.nan if value is None else value for value in series.y], np.float64)
    line = series.style == "line"
    colour = PALETTE[place % len(PALETTE)]
    if line:
        axes.plot(series.x, y, marker=MARKERS[place % len(MARKERS)], ms=3.5, color=colour, label=series.label)
    else:
        axes.plot(series.x, y, marker=MARKERS[place % len(MARKERS)], ms=6, ls="none", markerfacecolor="none",
                  color=colour, label=series.label)  # fmt: skip


def _bars(axes: Axes, chart: Chart, words: list[str]) -> None:
    series = [each for each in chart.series if each.style in ("bar", "stack")]
    below = np.zeros(len(words))
    for place, each in enumerate(series):
        x = np.asarray([words.index(str(value)) for value in each.x], np.float64)
        y = np.asarray([0.0 if value is None else value for value in each.y])
        stacked = each.style == "stack"
        width = 0.6 if stacked else BAR / len(series)
        at = x if stacked else x + (place - (len(series) - 1) / 2) * width
        axes.bar(at, y, width=width, bottom=below[x.astype(int)] if stacked else 0, color=PALETTE[place % len(PALETTE)],
                 label=each.label)  # fmt: skip
        if stacked:
            below[x.astype(int)] += y
    axes.grid(axis="x", visible=False)
    slanted = sum(map(len, words)) > 40
    labels = [textwrap.fill(word, 22) for word in words]
    axes.set_xticks(
        range(len(words)), labels, fontsize=8, rotation=25 if slanted else 0, ha="right" if slanted else "center"
    )


def _scales(axes: Axes, chart: Chart, sharing: Sequence[Chart], words: bool) -> None:
    if chart.log_y:
        from matplotlib.ticker import LogLocator, NullFormatter

        axes.set_yscale("log", base=10)
        low, high = axes.get_ylim()
        axes.yaxis.set_major_locator(LogLocator(10, subs=(1, 2, 5) if high < 300 * low else (1,)))
        axes.yaxis.set_major_formatter(picture.plain_numbers())
        axes.yaxis.set_minor_formatter(NullFormatter())
    elif all(value is None or value >= 0 for series in chart.series for value in series.y):
        axes.set_ylim(bottom=0)
    if chart.log_x and not words:
        axes.set_xscale("log", base=chart.log_x)
        ticks = sorted({float(x) for each in sharing for series in each.series for x in series.x})
        shown = _apart(ticks)
        axes.set_xticks(shown, [_short(tick) for tick in shown], fontsize=8)
        axes.minorticks_off()
    elif not words:
        from matplotlib.ticker import MaxNLocator

        axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _apart(ticks: Sequence[float]) -> list[float]:
    """Return ticks that are a seventh of their logarithmic span apart at least, the first among them.

    >>> _apart([1.0, 2.0, 4.0, 1024.0])
    [1.0, 4.0, 1024.0]
    """
    shown: list[float] = []
    least = math.log2(ticks[-1] / ticks[0]) / 7
    for tick in ticks:
        if not shown or math.log2(tick / shown[-1]) >= least - 1e-9:
            shown.append(tick)
    return shown


def _short(value: float) -> str:
    """Return a tick in powers of 1,024, as sizes are written.

    >>> _short(4096.0), _short(16.0), _short(2.0**30)
    ('4K', '16', '1G')
    """
    for size, letter in ((2**30, "G"), (2**20, "M"), (2**10, "K")):
        if value >= size and value % size == 0:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


__all__ = ["draw_figure"]
