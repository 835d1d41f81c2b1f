"""Panels of a picture of a sweep: the grid of axes, and what is drawn in them."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from comp_comm.report import picture
from comp_comm.report.picture import label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


Key = tuple[Any, ...]
Order = dict[str, dict[Any, int]]  # the place of each value of each axis
Panels = dict[Key, dict[Key, dict[Any, float]]]  # panel, line (or row of a heatmap), x; NaN is left blank


def panel_grid(panels: Panels, per: Sequence[str], x: str, y: str, width: float, height: float, beside: float
                ) -> tuple[Figure, list[Axes]]:  # fmt: skip
    """Return a figure with axes for each panel, labelled at the outer edges, and room for a legend at the right."""
    from matplotlib.figure import Figure

    columns = columns_of(panels)
    rows = math.ceil(len(panels) / columns)
    figure = Figure((max(5.5, columns * width + beside), rows * height), picture.DPI, layout="constrained")
    grid = list(figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel())
    for spare in grid[len(panels) :]:
        spare.remove()
    for index, (axes, panel) in enumerate(zip(grid, panels, strict=False)):
        lowest = index + columns >= len(panels)
        axes.set_title(textwrap.fill(label(per, panel), int(13 * width)), loc="left")
        axes.tick_params(labelbottom=lowest)
        axes.set_xlabel(words_of(x) if lowest else "")
        axes.set_ylabel(textwrap.fill(y, 38) if index % columns == 0 else "")
    return figure, grid[: len(panels)]


def words_of(name: str) -> str:
    """Return a field in words."""
    return picture.WORDS.get(name, name.replace("_", " "))


def columns_of(panels: Panels) -> int:
    """Return how many panels stand side by side."""
    return len(panels) if len(panels) <= 3 else math.ceil(math.sqrt(len(panels)))


def drawn_values(panels: Panels) -> list[float]:
    """Return the values of all points that have one."""
    return [v for lines in panels.values() for points in lines.values() for v in points.values() if v == v]
