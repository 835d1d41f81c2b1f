"""The stacked bars of a case study: where the step of each scenario goes."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from comp_comm.errors import ConfigError
from comp_comm.records import Record
from comp_comm.report.picture import (
    BLUE,
    DPI,
    GREY,
    ORANGE,
    RED,
    SKY,
    conventions,
    frame,
    number,
    picture_style,
    text_width,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_SCENARIOS = 40
# Each part of a bar: its name, its look, and the colour of what is written on it.
PARTS: tuple[tuple[str, Record, str], ...] = (
    ("compute", {"color": BLUE}, "white"),
    ("compute that hides communication", {"facecolor": SKY, "edgecolor": BLUE, "hatch": "///", "lw": 0}, "black"),
    ("serialized communication", {"color": RED}, "white"),
    ("exposed communication", {"color": ORANGE}, "black"),
)


def draw_case_study(rows: Sequence[Record], meta: Record) -> Figure:
    """Return the figure of a case study: a bar per scenario, its parts as long as their time in the first's steps."""
    feasible = [row for row in rows if number(row["step_s"])]
    if not feasible:
        raise ConfigError("there is nothing to draw: no scenario is feasible")
    if len(rows) > MAX_SCENARIOS:
        raise ConfigError(f"{len(rows)} scenarios are too many for one picture; at most {MAX_SCENARIOS}")
    with picture_style():
        return _draw_bars(rows, feasible[0], meta)


def _draw_bars(rows: Sequence[Record], first: Record, meta: Record) -> Figure:
    from matplotlib.figure import Figure

    names = [textwrap.fill(str(row["scenario"]), 32) for row in rows]
    pitch = 0.3 + max(0.5, 0.16 * max(name.count("\n") + 1 for name in names))
    figure = Figure(figsize=(10.5, 0.9 + pitch * len(rows)), dpi=DPI, layout="constrained")
    axes = figure.subplots()
    axes.grid(axis="x")
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    bars = [_draw_bar(axes, y, row, float(first["step_s"])) for y, row in enumerate(rows)]
    axes.set_yticks(range(len(rows)), names)
    axes.set_ylim(len(rows) - 0.45, -0.55)
    axes.set_xlim(0, max(float(row["step_s"]) for row in rows if number(row["step_s"])) / float(first["step_s"]))
    which = "first" if first is rows[0] else "first feasible"
    axes.set_xlabel(f"time of a step, relative to the {which} scenario ({1e3 * first['step_s']:.3g} ms)")
    handles = next(bar for bar in bars if bar)
    axes.legend(handles, [name for name, _, _ in PARTS], loc="lower left", bbox_to_anchor=(0, 1), ncols=len(PARTS),
                borderaxespad=0.2, borderpad=0, columnspacing=1.5, handlelength=1.4)  # fmt: skip
    said = [f"Set-up {meta['setup']}."] if "setup" in meta else []
    said += [f"{note[:1].upper()}{note[1:]}." for note in meta.get("notes", ())]
    shares = "Percentages in a bar are shares of that scenario's own step."
    frame(figure, meta, conventions(meta, rows, ()), [shares, *said])
    figure.draw_without_rendering()  # the layout decides how wide a segment is, and so whether its label fits
    for bar in bars:
        _label_segments(axes, bar)
    return figure


def _draw_bar(axes: Axes, y: int, row: Record, unit: float) -> list[Any]:
    """Draw one scenario and what is said at its end; return its segments, none where it is infeasible."""
    at: Record = {"va": "center", "xytext": (6, 0), "textcoords": "offset points", "annotation_clip": False}
    if not number(row["step_s"]):
        why = textwrap.fill(f"infeasible: {row.get('reason') or 'no number'}", 80)
        axes.annotate(why, (0, y), color=GREY, **at)
        return []
    seconds = (row["compute_s"] - row["hidden_comm_s"], row["hidden_comm_s"], row["serialized_comm_s"],
               row["exposed_comm_s"])  # fmt: skip
    left, segments = 0.0, []
    for length, (_, look, _) in zip(seconds, PARTS, strict=True):
        segments.append(axes.barh(y, length / unit, left=left, height=0.56, **look)[0])
        left += length / unit
    for text, up, look in (
        (f"\N{MULTIPLICATION SIGN}{row['step_s'] / unit:.2f}", 7, {"weight": "bold", "size": 11}),
        (f"{100 * row['visible_comm_fraction']:.0f} % communication on the critical path", -7, {"size": 8.5}),
    ):
        axes.annotate(text, (left, y), **{**at, "xytext": (6, up), **look})
    return segments


def _label_segments(axes: Axes, segments: Sequence[Any]) -> None:
    """Write a segment's share of its own step on it, where there is room."""
    figure: Any = axes.figure
    total = sum(segment.get_width() for segment in segments)
    for segment, (_, _, colour) in zip(segments, PARTS, strict=False):
        text = f"{100 * segment.get_width() / total:.0f} %"
        if text_width(figure, text, 9, "bold") + 0.02 > segment.get_window_extent().width / figure.dpi:
            continue
        # A plain ground, so that hatching does not run through the digits.
        box = {"facecolor": segment.get_facecolor(), "edgecolor": "none", "pad": 1}
        x, y = segment.get_x() + segment.get_width() / 2, segment.get_y() + segment.get_height() / 2
        axes.text(x, y, text, ha="center", va="center", size=9, weight="bold", color=colour, bbox=box)
