"""Stacked bars as pictures: where the seconds of steps go, and what devices hold."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from comp_comm.errors import ConfigError
from comp_comm.records import Record
from comp_comm.report import picture
from comp_comm.report.picture import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY
from comp_comm.report.stacks import Stacks
from comp_comm.report.table import setup_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

MOST_BARS = 40
COLOURS = {
    "forward compute": BLUE, "backward compute": SKY, "recomputation": PURPLE, "optimizer": GREEN,
    "serialized communication": RED, "exposed communication": ORANGE, "waiting for the host": "#8C6D31",
    "pipeline bubble": "#BBBBBB",
    "weights": BLUE, "gradients": SKY, "activations": ORANGE, "logits": "#8C6D31", "buffers": PURPLE,
    "framework": "#BBBBBB",
}  # fmt: skip
DARK = (BLUE, RED, GREEN, "#8C6D31")  # what is written on these is white


def draw_stacks(panels: Sequence[Stacks], meta: Record, notes: Sequence[str] = ()) -> Figure:
    """Return the figure: a panel for each of ``panels``, its bars below each other. Raises ``ConfigError`` for none."""
    from matplotlib.figure import Figure

    bars = len(panels[0].bars)
    if not any(panel.total(bar) for panel in panels for bar in range(bars)):
        raise ConfigError("there is nothing to draw: no point is feasible")
    if bars > MOST_BARS:
        raise ConfigError(f"{bars} points are too many for one picture of bars; at most {MOST_BARS}")
    with picture.picture_style():
        height = len(panels) * (1.5 + 0.5 * bars)
        figure = Figure(figsize=(9.5, height), dpi=picture.DPI, layout="constrained")
        grid = figure.subplots(len(panels), 1, squeeze=False).ravel()
        drawn = [_draw_panel(axes, panel) for axes, panel in zip(grid, panels, strict=True)]
        picture.frame(figure, meta, setup_line(meta) if "fixed" in meta else "", notes)
        figure.draw_without_rendering()  # the layout decides how wide a segment is, and so whether its label fits
        for axes, panel, segments in zip(grid, panels, drawn, strict=True):
            _label(axes, panel, segments)
    return figure


def _draw_panel(axes: Axes, panel: Stacks) -> list[tuple[str, int, Rectangle]]:
    axes.grid(axis="x")
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    segments = []
    left = [0.0] * len(panel.bars)
    for name, values in panel.parts.items():
        for bar, value in enumerate(values):
            drawn = axes.barh(bar, value or 0.0, left=left[bar], height=0.6, color=COLOURS[name],
                              label=name if bar == 0 else "_")[0]  # fmt: skip
            segments.append((name, bar, drawn))
            left[bar] += value or 0.0
    longest = max([*left, panel.limit[0] if panel.limit else 0.0])
    for bar, total in enumerate(left):
        text = f" {total:.4g} {panel.unit}" if total else " infeasible"
        axes.text(total, bar, text, va="center", weight="bold" if total else "normal", color="black" if total else GREY)
    if panel.limit:
        axes.axvline(panel.limit[0], color="black", lw=1.2, ls=(0, (4, 2)))
        axes.text(panel.limit[0], len(panel.bars) - 0.4, f"{panel.limit[1]} ", ha="right", va="bottom", size=8.5)
    axes.set_yticks(range(len(panel.bars)), [textwrap.fill(name, 30) for name in panel.bars])
    axes.set_ylim(len(panel.bars) - (0.1 if panel.limit else 0.4), -0.6)
    axes.set_xlim(0, 1.12 * longest)
    axes.set_xlabel(f"{panel.what} ({panel.unit})")
    columns = min(4, len(panel.parts))
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=columns, borderaxespad=0.2, borderpad=0,
                columnspacing=1.4, handlelength=1.2)  # fmt: skip
    return segments


def _label(axes: Axes, panel: Stacks, segments: Sequence[tuple[str, int, Rectangle]]) -> None:
    """Write a part's share of its bar on it, where there is room."""
    figure: Any = axes.figure
    for name, bar, segment in segments:
        total = panel.total(bar)
        text = f"{100 * segment.get_width() / total:.0f} %" if total else ""
        room = segment.get_window_extent().width / figure.dpi
        if text and picture.text_width(figure, text, 8.5) + 0.05 < room:
            x = segment.get_x() + segment.get_width() / 2
            colour = "white" if COLOURS[name] in DARK else "black"
            axes.text(x, bar, text, ha="center", va="center", size=8.5, color=colour)
