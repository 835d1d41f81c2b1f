"""Predicted against measured seconds of a step, a point a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from comp_comm.records import Record
from comp_comm.report.picture import DPI, GREY, PALETTE, frame, picture_style, plain_numbers, write_figure
from comp_comm.validation.run import Validation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BAND = 0.2  # either way, drawn beside the line of equal seconds
MOST_GROUPS = 20  # in the legend: those with most runs


def draw_validation(result: Validation, meta: Record) -> Figure:
    """Return a figure: predicted over measured seconds of every run that counts, by group; mixtures are crosses."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullFormatter

    groups: dict[str, list[tuple[float, float, str]]] = {}
    for row in result.rows:
        if row["counted"]:
            point = (row["measured_step_s"], row["predicted_step_s"], row["arch"])
            groups.setdefault(row["group"] or "runs", []).append(point)
    ordered = sorted(groups, key=lambda name: -len(groups[name]))
    with picture_style():
        figure = Figure(figsize=(8.5, 7.0), dpi=DPI, layout="constrained")
        axes = figure.subplots()
        seconds = np.asarray([point[:2] for points in groups.values() for point in points])
        ends = np.asarray([seconds.min() / 1.3, seconds.max() * 1.3])
        axes.plot(ends, ends, color=GREY, lw=1)
        axes.fill_between(ends, ends * (1 - BAND), ends * (1 + BAND), color=GREY, alpha=0.15, lw=0)
        for number, name in enumerate(ordered):
            for arch, marker in (("dense", "o"), ("moe", "x")):
                members = [point for point in groups[name] if point[2] == arch]
                if members:
                    label = f"{name}, {arch} ({len(members)})" if number < MOST_GROUPS else None
                    axes.scatter([p[0] for p in members], [p[1] for p in members], s=14, marker=marker, label=label,
                                 color=PALETTE[number % len(PALETTE)], alpha=0.8, linewidths=0.9)  # fmt: skip
        axes.set_xscale("log")
        axes.set_yscale("log")
        steps = (1, 2, 5) if ends[1] > 10 * ends[0] else (1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(LogLocator(subs=steps, numticks=30))
            axis.set_major_formatter(plain_numbers())
            axis.set_minor_formatter(NullFormatter())
        axes.set_xlabel("measured step (s)")
        axes.set_ylabel("predicted step (s)")
        axes.legend(loc="upper left", fontsize=7)
        words = f"{len(result.counted)} runs; the band is {100 * BAND:.0f} % either way"
        frame(figure, {**meta, "title": "Training steps: prediction and measurement"}, words, ())
    return figure


def save_validation(path: str, result: Validation, meta: Record) -> None:
    """Draw the figure into a file."""
    write_figure(path, draw_validation(result, meta), {**meta, "title": "Training steps: prediction and measurement"})
