"""Marks, scales and legends that the pictures of trends share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from comp_comm.formulas.arrays import Array
from comp_comm.records import Record, Records
from comp_comm.report import picture
from comp_comm.report.picture import BLUE, DPI, RED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter

ARCHES = {"dense": ("o", BLUE), "moe": ("s", RED)}
Place = Literal["best", "upper left"]
FORESEEN = (40, 75)  # per cent, of the step


def figure_of(
    width: float, height: float, rows: int = 1, columns: int = 1, same_x: bool = False, same_y: bool = False
) -> tuple[Figure, list[Axes]]:
    """Return a figure of so many inches with a grid of panels, which may share their axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=DPI, layout="constrained")
    panels = np.ravel(figure.subplots(rows, columns, sharex=same_x, sharey=same_y)).tolist()
    for axes in panels:
        axes.grid(True)
    return figure, panels


def numbers(rows: Records, name: str) -> Array:
    """Return a column of rows, NaN where there is no number."""
    return np.asarray([math.nan if row[name] is None else row[name] for row in rows], np.float64)


def legend(axes: Axes, entries: Sequence[tuple[str, Record]]) -> None:
    """Put a legend of texts and how they look to the right of a panel."""
    from matplotlib.lines import Line2D

    axes.legend([Line2D([], [], **look) for _, look in entries], [text for text, _ in entries], loc="upper left",
                bbox_to_anchor=(1.01, 1.02), fontsize=8.5)  # fmt: skip


def binary() -> FuncFormatter:
    """Return a formatter of ticks that counts in 1,024."""
    from matplotlib.ticker import FuncFormatter

    return FuncFormatter(lambda value, _: picture.short("hidden", value) if value >= 1024 else f"{value:g}")


def decimal() -> FuncFormatter:
    """Return a formatter of ticks that counts in thousands, millions (M), billions (B) and more (T)."""
    from matplotlib.ticker import FuncFormatter

    ends = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "K"), (1.0, ""))

    def words(value: float, _: object) -> str:
        size, letter = next((end for end in ends if value >= end[0]), ends[-1])
        return f"{value / size:g}{letter}"

    return FuncFormatter(words)


def scatter(axes: Axes, rows: Records, name: str) -> None:
    """Draw a column of models over their dates, dense ones and mixtures apart."""
    for arch, (marker, colour) in ARCHES.items():
        mine = [row for row in rows if row["arch"] == arch]
        axes.scatter(numbers(mine, "year"), numbers(mine, name), marker=marker, s=18, color=colour, alpha=0.75,
                     linewidths=0)  # fmt: skip
    axes.set_xticks(range(2018, 2028, 2))
    axes.set_xlim(2018, 2027)


def arch_legend(axes: Axes, place: Place = "best") -> None:
    """Say which mark is a mixture of experts."""
    from matplotlib.lines import Line2D

    marks = [Line2D([], [], marker=marker, color=colour, linestyle="none") for marker, colour in ARCHES.values()]
    axes.legend(marks, ["dense", "mixture of experts"], loc=place, fontsize=8)
