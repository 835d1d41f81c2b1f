"""Predicted against measured seconds of kernels and collectives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from comp_comm.calibration.run import Calibration
from comp_comm.records import Record
from comp_comm.report.picture import DPI, GREY, PALETTE, frame, picture_style, plain_numbers, write_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LIMITS = (-80, 120)  # per cent; what lies beyond is at the edge
MOST = 20_000  # points of one operator; more are thinned out


def draw_calibration(calibration: Calibration, meta: Record) -> Figure:
    """Return a figure with one panel: every row that was not fitted, predicted over measured, by operator."""
    from matplotlib.figure import Figure

    with picture_style():
        figure = Figure(figsize=(8.5, 5.0), dpi=DPI, layout="constrained")
        axes = figure.subplots()
        axes.grid(True)
        axes.axhline(0, color=GREY, lw=1)
        for number, (sample, predicted, kept) in enumerate(
            zip(calibration.samples, calibration.predicted, calibration.kept, strict=True)
        ):
            places = np.flatnonzero(kept)[:: max(1, int(kept.sum()) // MOST)]
            error = np.clip(100 * (predicted[places] / sample.seconds[places] - 1), *LIMITS)
            row = next((r for r in calibration.rows if (r["operator"], r["collective"] or "") == (sample.operator,
                       sample.collective)), None)  # fmt: skip
            words = sample.collective or sample.operator
            label = f"{words}: {row['n']:,} rows, mean {100 * row['mean_abs_error']:.1f} %" if row else words
            axes.scatter(sample.seconds[places] * 1e6, error, s=6, alpha=0.5, linewidths=0, label=label,
                         color=PALETTE[number % len(PALETTE)])  # fmt: skip
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(plain_numbers())
        axes.set_ylim(*LIMITS)
        axes.set_xlabel("measured (us)")
        axes.set_ylabel("predicted over measured, less 1 (%)")
        axes.legend(loc="upper right", markerscale=3)
        frame(
            figure, {**meta, "title": f"{calibration.profile.title}: prediction and measurement"}, calibration.how, ()
        )
    return figure


def save_calibration(path: str, calibration: Calibration, meta: Record) -> None:
    """Draw the figure into a file."""
    title = {"title": f"{calibration.profile.title}: prediction and measurement"}
    write_figure(path, draw_calibration(calibration, meta), {**meta, **title})
