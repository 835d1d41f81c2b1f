"""A heatmap over two axes of a sweep, in panels."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from comp_comm.records import Record
from comp_comm.report import picture
from comp_comm.report.picture import short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


from comp_comm.report.panels import Order, Panels, drawn_values, panel_grid, words_of

COLOURS = "viridis"
MANY, FAR = 20, 3  # of so many values, those beyond so many times the others' end do not set the scale
MAX_ANNOTATED, MAX_VECTOR_CELLS = 200, 5000


def draw_heatmap(panels: Panels, view: Record, order: Order, words: str) -> Figure:
    """Return a figure with a cell for each point of two axes, and what it is in the cell where there is room."""
    from matplotlib.colors import LogNorm, Normalize

    x, y, values = view["x"], view["y"], drawn_values(panels)
    across, up = order[x], order[y]
    annotated = len(across) * len(up) <= MAX_ANNOTATED
    texts = {value: _cell_text(value, words) for value in values} if annotated else {}
    cell = 0.16 + 0.075 * max(map(len, texts.values()), default=0)
    width, height = (max(2.8, len(across) * cell), max(2.2, len(up) * 0.32)) if annotated else (4.5, 4.0)
    figure, axes_of_panels = panel_grid(panels, view["per"], x, words_of(y), width + 0.4, height + 0.9, 1.4)
    high, cut = scale_end(values)
    norm = (LogNorm if picture.is_wide(values) and not cut else Normalize)(min(values), high)
    for axes, lines in zip(axes_of_panels, panels.values(), strict=True):
        axes.set_facecolor("#f0f0f0")
        grid = np.array([[lines.get((up_value,), {}).get(value, math.nan) for value in across] for up_value in up])
        mesh = axes.pcolormesh(grid, cmap=COLOURS, norm=norm, edgecolors="white",
                               linewidth=0.4 if annotated else 0, rasterized=grid.size > MAX_VECTOR_CELLS)  # fmt: skip
        _annotate(axes, grid, texts, mesh)
        for axis, name, room in ((axes.xaxis, x, width), (axes.yaxis, y, height)):
            labels = [short(name, value) for value in order[name]]
            picture.name_ticks(axis, [place + 0.5 for place in range(len(labels))], labels, room,
                               not picture.is_numeric(order[name]))  # fmt: skip
            axis.set_tick_params(length=0)
    if not picture.is_numeric(up):
        axes_of_panels[0].invert_yaxis()
    bar = figure.colorbar(
        mesh,
        ax=axes_of_panels,
        pad=0.02,
        extend="max" if cut else "neither",
        label=textwrap.fill(words, int(13 * height)),
    )
    bar.ax.yaxis.set_major_formatter(picture.plain_numbers())
    bar.ax.minorticks_off()
    return figure


def scale_end(values: list[float]) -> tuple[float, bool]:
    """Return where a scale of colours ends, and whether values lie beyond: a few far ones do not take it from the rest.

    >>> scale_end([1.0, 2.0, 3.0]), scale_end([1.0] * 10 + [2.0] * 9 + [90.0])
    ((3.0, False), (2.0, True))
    """
    ordered = sorted(values)
    usual = ordered[math.ceil(0.95 * len(ordered)) - 1]
    apart = len(ordered) >= MANY and usual > ordered[0] >= 0 and ordered[-1] > FAR * usual
    return (usual, True) if apart else (ordered[-1], False)


def _cell_text(value: float, words: str) -> str:
    """Return a value of three digits, as many in every cell.

    >>> [_cell_text(value, "step time (s)") for value in (21.98, 8, 1234.5, 0.25)]
    ['22.0', '8', '1,234', '0.250']
    """
    if words.endswith("(%)"):
        return f"{value:.1f}"
    if 1000 <= abs(value) < 1e6:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value == round(value) else f"{value:#.3g}".rstrip(".")


def _annotate(axes: Axes, grid: Any, texts: dict[float, str], mesh: Any) -> None:
    """Write each value that has a text on its cell, dark on light and light on dark."""
    for (row, column), value in np.ndenumerate(grid) if texts else ():
        if value == value:
            red, green, blue, _ = mesh.to_rgba(value)
            colour = "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else "white"
            axes.text(column + 0.5, row + 0.5, texts[value], ha="center", va="center", size=8, color=colour)
