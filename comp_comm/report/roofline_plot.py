"""A roofline: every operation of a step under what its device can do, at the intensity that its shape gives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from comp_comm.errors import ConfigError
from comp_comm.records import Record, Records
from comp_comm.report import picture
from comp_comm.report.picture import GREY, PALETTE
from comp_comm.report.table import setup_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKS = {"forward": "o", "backward": "s", "recompute": "^"}


def roofline_points(operations: Sequence[Record]) -> Records:
    """Return what a roofline draws of a step: intensity (FLOP/byte), FLOP/s and share of each operation with FLOP.

    >>> op = {"operation": "FFN up", "phase": "forward", "group": None, "flops": 4e9, "hbm_bytes": 2e6, "calls": 10.0,
    ...       "seconds": 0.1, "share": 0.5}
    >>> roofline_points([op])[0]["intensity"], roofline_points([op])[0]["flops_per_s"]
    (2000.0, 400000000000.0)
    """
    return [
        {"operation": op["operation"], "phase": op["phase"], "intensity": op["flops"] / op["hbm_bytes"],
         "flops_per_s": op["flops"] * op["calls"] / op["seconds"], "share": op["share"]}
        for op in operations if op["flops"] and op["hbm_bytes"] and op["seconds"]
    ]  # fmt: skip


def draw_roofline(step: Record) -> Figure:
    """Return the figure of an explained step. Raises ``ConfigError`` where no operation has FLOP."""
    from matplotlib.figure import Figure

    points, roofs = roofline_points(step["operations"]), step["roofs"]
    if not points:
        raise ConfigError("there is nothing to draw: no operation of the step has FLOP")
    with picture.picture_style():
        figure = Figure(figsize=(9.0, 5.2), dpi=picture.DPI, layout="constrained")
        axes = figure.add_subplot()
        axes.grid(True)
        _roof(axes, points, roofs)
        names = list(dict.fromkeys(point["operation"] for point in points))
        for point in points:
            axes.scatter(point["intensity"], point["flops_per_s"] / 1e12, s=30 + 900 * point["share"], alpha=0.75,
                         color=PALETTE[names.index(point["operation"]) % len(PALETTE)], linewidths=0.5,
                         edgecolors="white", marker=MARKS.get(point["phase"], "D"))  # fmt: skip
        _legend(axes, names, points)
        rest = 1 - sum(point["share"] for point in points)
        undrawn = "what does no matrix FLOP (element-wise work, the optimizer), communication and waiting"
        notes = ["The area of a mark is the operation's share of the step.",
                 f"Not drawn: {undrawn}, {100 * rest:.0f} % of the step."]  # fmt: skip
        meta = {**step["meta"], "title": f"Roofline: {step['meta']['title']}"}
        picture.frame(figure, meta, setup_line(step["meta"]), notes)
    return figure


def _roof(axes: Axes, points: Records, roofs: Record) -> None:
    peak, bandwidth = roofs["flops"], roofs["memory_bytes_per_s"]
    ridge = peak / bandwidth
    low = min([ridge / 8, *(point["intensity"] / 2 for point in points)])
    high = max([ridge * 8, *(point["intensity"] * 2 for point in points)])
    axes.plot([low, ridge, high], [low * bandwidth / 1e12, peak / 1e12, peak / 1e12], color="black", lw=1.5)
    axes.annotate(f"peak {peak / 1e12:,.4g} TFLOP/s", (high, peak / 1e12), ha="right", va="bottom", xytext=(0, 3),
                  textcoords="offset points", size=8.5)  # fmt: skip
    axes.axvline(ridge, color=GREY, lw=0.8, ls=":")
    axes.annotate(f"{ridge:,.0f} FLOP/byte: below, memory's {bandwidth / 1e12:.3g} TB/s binds", (ridge, 0),
                  xycoords=("data", "axes fraction"), xytext=(4, 6), textcoords="offset points", size=8.5,
                  color=GREY)  # fmt: skip
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(low, high)
    bottom = min([peak / 30, *(point["flops_per_s"] / 2 for point in points)]) / 1e12
    axes.set_ylim(bottom, 10 ** (math.log10(peak / 1e12) + 0.2))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(picture.plain_numbers())
    axes.set_xlabel("FLOP per byte of memory traffic")
    axes.set_ylabel("TFLOP/s reached")


def _legend(axes: Axes, names: Sequence[str], points: Records) -> None:
    from matplotlib.lines import Line2D

    dots = [Line2D([], [], ls="none", marker="o", color=PALETTE[i % len(PALETTE)]) for i in range(len(names))]
    phases = [phase for phase in MARKS if any(point["phase"] == phase for point in points)]
    marks = [Line2D([], [], ls="none", marker=MARKS[phase], color=GREY) for phase in phases]
    axes.legend([*dots, *marks], [*names, *phases], loc="upper left", bbox_to_anchor=(1.01, 1.0))
