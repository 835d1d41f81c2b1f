"""Pictures of trained models: shapes, TP, edge and slack, shares, errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from comp_comm.report import picture
from comp_comm.report.picture import BLUE, GREY, ORANGE, RED
from comp_comm.report.trends_marks import (
    ARCHES,
    FORESEEN,
    arch_legend,
    binary,
    decimal,
    figure_of,
    legend,
    numbers,
    scatter,
)
from comp_comm.trends.part import Part

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_models(part: Part) -> tuple[Figure, str]:
    """Draw dimensions of models over the years; return the picture and its subtitle."""
    names = {"hidden": "hidden dimension, H", "seq_len": "sequence length, SL", "published_parameters": "parameters",
             "published_active": "parameters a token uses", "batch_tokens": "batch (tokens)", "tp": "TP"}  # fmt: skip
    figure, panels = figure_of(11, 6.2, 2, 3, same_x=True)
    for axes, (name, words) in zip(panels, names.items(), strict=True):
        scatter(axes, part.rows, name)
        axes.set_title(words, loc="left")
        if np.isnan(numbers(part.rows, name)).all():  # nothing that a logarithmic scale could span
            axes.set_yticks([])
            axes.text(0.5, 0.5, "published of none of these", transform=axes.transAxes, ha="center", fontsize=8)
            continue
        axes.set_yscale("log", base=2 if name in ("hidden", "seq_len", "tp") else 10)
        axes.yaxis.set_major_formatter(binary() if name in ("hidden", "seq_len", "tp") else decimal())
    arch_legend(panels[0])
    return figure, "a point a model, at the month it was published"


def draw_required_tp(part: Part) -> tuple[Figure, str]:
    """Draw the TP that Eq 10 asks for, and what was used; return the picture and its subtitle."""
    figure, panels = figure_of(11, 4.6, 1, 2)
    left, right = panels
    split = "devices weights are split over"
    for name, marker, colour, words in (("required_tp", "x", "#000000", "asked for by Eq 10"),
                                        ("tp", "o", BLUE, "TP"), ("sharding_degree", "^", ORANGE, split)):  # fmt: skip
        left.scatter(
            numbers(part.rows, "year"), numbers(part.rows, name), s=20, label=words, marker=marker, color=colour
        )
    left.set_yscale("log", base=2)
    left.set_ylabel("degree")
    left.legend(loc="upper left", fontsize=8)
    left.set_xticks(range(2018, 2028, 2))
    ends = [0.5, 2048]
    right.plot(ends, ends, color=GREY, lw=1)
    for name, colour, words in (("tp", BLUE, "TP used"), ("sharding_degree", ORANGE, split)):
        right.scatter(numbers(part.rows, "required_tp"), numbers(part.rows, name), s=20, color=colour, label=words)
    right.set_xscale("log", base=2)
    right.set_yscale("log", base=2)
    right.set_xlabel("TP asked for by Eq 10")
    right.set_ylabel("used")
    for axis in (left.yaxis, right.xaxis, right.yaxis):
        axis.set_major_formatter(picture.plain_numbers())
    return figure, "Eq 10: base TP of 8 x parameters over 3.9 billion / memory over 32 GiB; on the line they are equal"


def draw_edges(part: Part) -> tuple[Figure, str]:
    """Draw edge, slack and margin over the years; return the picture and its subtitle."""
    figure, panels = figure_of(11, 6.2, 2, 2, same_x=True)
    names = {"edge": "edge, (H + SL) / TP", "edge_over_flop_vs_bw": "edge over flop-vs-bw",
             "slack": "slack, SL x B (tokens)", "margin": "tokens between reductions / needed"}  # fmt: skip
    for axes, (name, words) in zip(panels, names.items(), strict=True):
        scatter(axes, part.rows, name)
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(picture.plain_numbers())
        fit = part.extra[name]
        axes.set_title(f"{words}: {fit['factor']:.2f} a year ({fit['low']:.2f} to {fit['high']:.2f})", loc="left",
                       fontsize=8.5)  # fmt: skip
    panels[3].axhline(1, color=RED, lw=1)
    panels[3].text(2018.1, 0.8, "gradients show below this line", color=RED, fontsize=7.5, va="top")
    arch_legend(panels[0], "upper left")
    return figure, "with the layouts and devices that models were trained on; growth a year with its 95 % interval"


def draw_shares(part: Part) -> tuple[Figure, str]:
    """Draw the share of each model with its bounds, and the paper's; return the picture and its subtitle."""
    rows = part.rows
    figure, (axes,) = figure_of(11, 0.9 + 0.2 * len(rows))
    y = np.arange(len(rows))
    low, high = (100 * numbers(rows, name) for name in ("all_overlapped_fraction", "none_overlapped_fraction"))
    axes.axvspan(*FORESEEN, color=GREY, alpha=0.15, lw=0)
    axes.hlines(y, low, high, color="#bbbbbb", lw=4)
    for arch, (marker, colour) in ARCHES.items():
        mask = np.asarray([row["arch"] == arch for row in rows])
        axes.scatter(
            100 * numbers(rows, "visible_fraction")[mask], y[mask], marker=marker, color=colour, s=26, zorder=3
        )
    for name, marker, colour in (("paper_tp_fraction", "|", "#000000"), ("paper_eq10_fraction", "x", ORANGE)):
        values = 100 * numbers(rows, name)
        axes.scatter(np.where(values > 0, values, np.nan), y, marker=marker, color=colour, s=34, zorder=3)
    axes.set_yticks(y, [f"{row['model']}  {row['date'][:4]}" for row in rows], fontsize=7.5)
    axes.set_ylim(len(rows) - 0.3, -0.7)
    axes.set_xlim(0, 100)
    axes.set_xlabel("share of the step (%)")
    axes.grid(axis="y", visible=False)
    legend(axes, [("visible, dense", {"marker": "o", "color": BLUE, "linestyle": "none"}),
                   ("visible, mixture", {"marker": "s", "color": RED, "linestyle": "none"}),
                   ("all to none overlapped", {"color": "#bbbbbb", "linewidth": 4}),
                   ("paper's layer, TP used", {"marker": "|", "color": "#000000", "linestyle": "none"}),
                   ("paper's layer, TP of Eq 10", {"marker": "x", "color": ORANGE, "linestyle": "none"}),
                   ("foreseen: 40 to 75 %", {"color": GREY, "alpha": 0.3, "linewidth": 8})])  # fmt: skip
    return figure, "visible communication of each model on its own machine, modelled; and the paper's serialized share"


def draw_errors(part: Part) -> tuple[Figure, str]:
    """Draw predicted over reported steps; return the picture and its subtitle."""
    figure, (axes,) = figure_of(7, 5.6)
    x, y = (numbers(part.rows, name) for name in ("reported_s", "predicted_s"))
    ends = np.asarray([min(x.min(), y.min()) / 1.4, max(x.max(), y.max()) * 1.4])
    axes.plot(ends, ends, color=GREY, lw=1)
    axes.fill_between(ends, 0.8 * ends, 1.2 * ends, color=GREY, alpha=0.15, lw=0)
    for arch, (marker, colour) in ARCHES.items():
        mask = np.asarray([row["arch"] == arch for row in part.rows])
        axes.scatter(x[mask], y[mask], marker=marker, color=colour, s=24, zorder=3)
    for row in part.rows:
        if abs(row["error"]) > 0.25:
            axes.annotate(row["model"], (row["reported_s"], row["predicted_s"]), (5, -8), textcoords="offset points",
                          fontsize=7.5)  # fmt: skip
    for axis, words in ((axes.set_xlabel, "reported step (s)"), (axes.set_ylabel, "predicted step (s)")):
        axis(words)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(picture.plain_numbers())
    axes.yaxis.set_major_formatter(picture.plain_numbers())
    arch_legend(axes, "upper left")
    return figure, part.notes[0] + "; the band is 20 % either way"


__all__ = ["draw_edges", "draw_errors", "draw_models", "draw_required_tp", "draw_shares"]
