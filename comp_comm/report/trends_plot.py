"""Pictures of the study of trends: one a part."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from comp_comm.errors import ConfigError, one_of
from comp_comm.records import Record, Records
from comp_comm.report import picture
from comp_comm.report.picture import BLUE, GREEN, GREY, ORANGE, PALETTE, RED, SKY
from comp_comm.report.trends_marks import FORESEEN, figure_of, legend, numbers
from comp_comm.report.trends_model_plot import draw_edges, draw_errors, draw_models, draw_required_tp, draw_shares
from comp_comm.trends.forecast import HIGH
from comp_comm.trends.generations import STATED
from comp_comm.trends.part import Part

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

VENDOR_COLOURS = {"NVIDIA": GREEN, "AMD": RED, "Google": BLUE, "AWS": ORANGE, "Intel": SKY, "all vendors": "#000000"}


def check_drawn(name: str) -> None:
    """Raise ``ConfigError`` for a part that has no picture."""
    if name not in PICTURES:
        raise ConfigError(f"--plot: there is no picture of {name} ({one_of(list(PICTURES))})")


def draw_part(part: Part) -> Figure:
    """Return the picture of a part. Raises ``ConfigError`` for one that has none."""
    check_drawn(part.name)
    with picture.picture_style():
        figure, subtitle = PICTURES[part.name](part)
        picture.frame(figure, {"title": part.title}, subtitle, ())
    return figure


def _growth(part: Part) -> tuple[Figure, str]:
    """Draw factors a year with their intervals: devices by vendor, models by era."""
    devices = [row for row in part.rows if row["of"] in VENDOR_COLOURS and row["n"] > 3]
    models = [row for row in part.rows if row["of"] not in VENDOR_COLOURS]
    figure, (left, right) = figure_of(11, 4.6, 1, 2)
    _intervals(left, devices, VENDOR_COLOURS)
    _intervals(right, models, dict(zip(dict.fromkeys(row["of"] for row in models), (SKY, BLUE), strict=False)))
    left.set_title("devices", loc="left")
    right.set_title("trained models", loc="left")
    return figure, "a factor a year with its 95 % interval; 1 is no growth"


def _intervals(axes: Axes, rows: Records, colours: Record) -> None:
    names = list(dict.fromkeys(row["quantity"] for row in rows))
    kinds = [kind for kind in colours if any(row["of"] == kind for row in rows)]
    for place, kind in enumerate(kinds):
        mine = [row for row in rows if row["of"] == kind and row["low"] is not None]
        y = [names.index(row["quantity"]) + 0.8 * ((place + 0.5) / len(kinds) - 0.5) for row in mine]
        x, low, high = (numbers(mine, name) for name in ("a_year", "low", "high"))
        axes.errorbar(x, y, xerr=[x - low, high - x], fmt="o", ms=4, capsize=2, color=colours[kind], label=kind, lw=1.2)
    axes.axvline(1, color=GREY, lw=1)
    axes.set_xscale("log")
    ticks = [0.5, 0.7, 1, 1.5, 2, 3, 5, 8]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlim(0.45, min(9, 1.1 * max(row["high"] or 1 for row in rows)))
    axes.set_yticks(range(len(names)), [textwrap.fill(name, 20) for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlabel("growth a year")
    axes.legend(loc="upper center", bbox_to_anchor=(0.45, -0.13), ncols=min(len(kinds), 5), fontsize=8,
                columnspacing=1, handletextpad=0.3)  # fmt: skip


def _generations(part: Part) -> tuple[Figure, str]:
    figure, panels = figure_of(11, 4.8, 1, 2, same_y=True)
    low, high = STATED
    kinds = (("16 bit against 16 bit", "16_bit"), ("the fastest format of each", "fastest_format"))
    for axes, (words, ending) in zip(panels, kinds, strict=True):
        axes.axhspan(low, high, color=GREY, alpha=0.15, lw=0, label="foreseen: 2 to 4")
        axes.axhline(1, color=GREY, lw=1)
        for vendor, colour in VENDOR_COLOURS.items():
            mine = [row for row in part.rows if row["vendor"] == vendor]
            for place, (link, marker) in enumerate((("scale_up", "o"), ("scale_out", "^"))):
                y = numbers(mine, f"{link}_{ending}")
                x = [row["year"] + (place - 0.5) * 0.16 for row in mine]
                faces = ["none" if row["announced"] else colour for row in mine]
                for one in zip(x, y, faces, strict=True):
                    axes.scatter(one[0], one[1], marker=marker, s=26, facecolors=one[2], edgecolors=colour, zorder=3)
        values = {row["new"]: row[f"scale_up_{ending}"] for row in part.rows}
        named = [row for row in part.rows if (value := values[row["new"]]) is not None and (value >= 3 or value < 0.72)]
        for row in named:
            value, new = values[row["new"]], row["new"].removesuffix("-32gb").removesuffix("-sxm")
            crowded = any(0 < other["year"] - row["year"] < 2 and abs(values[other["new"]] / value - 1) < 0.1
                          for other in named)  # fmt: skip
            at = {"ha": "right", "xytext": (-4, 4)} if crowded else {"ha": "left", "xytext": (4, 4)}
            axes.annotate(new, (row["year"] - 0.08, value), textcoords="offset points", fontsize=7.5, **at)
        axes.set_yscale("log")
        axes.set_yticks([0.5, 0.7, 1, 1.5, 2, 3, 4, 6, 10], ["0.5", "0.7", "1", "1.5", "2", "3", "4", "6", "10"])
        axes.minorticks_off()
        axes.set_title(words, loc="left")
        axes.set_xlabel("year of the newer device")
    panels[0].set_ylabel("flop-vs-bw of a generation")
    legend(panels[1], [(vendor, {"marker": "o", "color": colour, "linestyle": "none"})
                        for vendor, colour in VENDOR_COLOURS.items() if vendor != "all vendors"]
            + [("over scale-up", {"marker": "o", "color": GREY, "linestyle": "none"}),
               ("over scale-out", {"marker": "^", "color": GREY, "linestyle": "none"}),
               ("announced", {"marker": "o", "color": GREY, "markerfacecolor": "none", "linestyle": "none"}),
               ("foreseen: 2 to 4", {"color": GREY, "alpha": 0.3, "linewidth": 8})])  # fmt: skip
    return figure, (
        "how many times more FLOP/s grew than bandwidth, from a device to its successor; devices below 0.72 and "
        "from 3 on have names"
    )


def _fixed_layout(part: Part) -> tuple[Figure, str]:
    names = list(dict.fromkeys(row["hardware"] for row in part.rows))
    figure, (axes,) = figure_of(9, 3.9)
    for place, (precision, colour) in enumerate((("bf16", BLUE), ("fp8", RED))):
        mine = [row for row in part.rows if row["precision"] == precision and row["visible_comm_fraction"] is not None]
        x = np.asarray([names.index(row["hardware"]) for row in mine]) + (place - 0.5) * 0.36
        y = 100 * numbers(mine, "visible_comm_fraction")
        axes.bar(x, y, width=0.34, color=colour, label=precision)
        for one in zip(x, y, strict=True):
            axes.text(one[0], one[1] + 0.4, f"{one[1]:.0f}", ha="center", fontsize=8)
    axes.set_xticks(range(len(names)), names)
    axes.grid(axis="x", visible=False)
    axes.set_ylabel("communication (% of the step)")
    axes.legend(loc="upper left")
    return figure, picture.conventions(part.extra["meta"], part.rows, ("hardware", "precision"))


def _wide_tp(part: Part) -> tuple[Figure, str]:
    figure, (axes,) = figure_of(8, 4.4)
    axes.axhspan(*FORESEEN, color=GREY, alpha=0.15, lw=0)
    axes.text(4, FORESEEN[1] - 1.5, "foreseen: 40 to 75 %", va="top", fontsize=8, color=GREY)
    for place, name in enumerate(dict.fromkeys(row["hardware"] for row in part.rows)):
        mine = [row for row in part.rows if row["hardware"] == name and row["visible_comm_fraction"] is not None]
        axes.plot([row["tp"] for row in mine], 100 * numbers(mine, "visible_comm_fraction"), marker="osD"[place],
                  color=PALETTE[place], label=name)  # fmt: skip
    axes.set_xscale("log", base=2)
    axes.set_xticks([4, 8, 16, 32, 64, 128], ["4", "8", "16", "32", "64", "128"])
    axes.minorticks_off()
    axes.set_ylim(0, 100)
    axes.set_xlabel("TP (TP x PP is 128)")
    axes.set_ylabel("visible communication (%)")
    axes.legend(loc="lower right")
    return figure, picture.conventions(part.extra["meta"], part.rows, ("hardware", "tp", "pp"))


def _forecast(part: Part) -> tuple[Figure, str]:
    rows = part.rows
    figure, (axes,) = figure_of(9, 1.2 + 0.55 * len(rows))
    for y, (row, draws) in enumerate(zip(rows, part.extra["draws"].values(), strict=True)):
        known = 100 * draws[~np.isnan(draws)]
        colour = BLUE if y % 2 else RED
        axes.scatter(known, y + np.linspace(-0.22, 0.22, known.size), s=3, color=colour, alpha=0.25, linewidths=0)
        axes.hlines(y, 100 * row["low_fraction"], 100 * row["high_fraction"], color=colour, lw=3)
        axes.plot(100 * row["median_fraction"], y, "o", color=colour, ms=7)
        axes.plot(100 * row["today_fraction"], y, "|", color="#000000", ms=14, mew=1.5)
    axes.axvline(100 * HIGH, color=GREY, lw=1, ls="--")
    short = [row["study"].split(":")[0] for row in rows]
    axes.set_yticks(range(len(rows)), [f"{name}\n{row['overlap']}" for name, row in zip(short, rows, strict=True)],
                    fontsize=8)  # fmt: skip
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(0, 100)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("visible communication (% of the step)")
    return figure, part.notes[0] + "; a dot a drawn device, the bar its 80 %, the tick today's"


PICTURES: dict[str, Callable[[Part], tuple[Figure, str]]] = {
    "growth": _growth, "generations": _generations, "models": draw_models, "required-tp": draw_required_tp,
    "edges": draw_edges, "shares": draw_shares, "errors": draw_errors, "fixed-layout": _fixed_layout,
    "wide-tp": _wide_tp, "forecast": _forecast,
}  # fmt: skip

__all__ = ["PICTURES", "check_drawn", "draw_part"]
