"""Pictures of volumes: a bar for each message, or lines over an axis, one a group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from comp_comm.errors import ConfigError
from comp_comm.records import Record
from comp_comm.report import picture
from comp_comm.report.plot import check_plot, draw_plot

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GB = 1e9
SMALL = (
    (2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")
)  # fmt: skip


def save_volume(path: str, rows: Sequence[Record], meta: Record) -> None:
    """Draw the volume of messages (rows of one point) or of groups over the axes of a study, into a file."""
    check_plot(path)
    picture.write_figure(path, draw_volume(rows, meta), meta)


def draw_volume(rows: Sequence[Record], meta: Record) -> Figure:
    """Return the figure. Raises ``ConfigError`` where nothing is sent."""
    if not any(row.get("group") for row in rows):
        raise ConfigError("there is nothing to draw: nothing is sent")
    axes = [list(axis) for axis in meta.get("axes", [])]
    if not axes:
        return _bars(rows, meta)
    known = [row for row in rows if row["group"] and row["group"] != "world"]
    longest = max(axes, key=lambda axis: len({row[axis[0]] for row in known}))
    others = [axis[0] for axis in axes if axis is not longest and len({row[axis[0]] for row in known}) > 1]
    view = {"kind": "lines", "x": longest[0], "y": "volume_bytes", "lines": ["group", *others], "per": []}
    return draw_plot(known, view, meta)


def _bars(rows: Sequence[Record], meta: Record) -> Figure:
    from matplotlib.figure import Figure

    shown = sorted((row for row in rows if row["group"] != "world"), key=lambda row: row["volume_bytes"])
    if not shown:
        raise ConfigError("there is nothing to draw: only the gradients' norm is sent")
    groups = list(dict.fromkeys(row["group"] for row in reversed(shown)))
    with picture.picture_style():
        figure = Figure(figsize=(9.0, 1.6 + 0.34 * len(shown)), dpi=picture.DPI, layout="constrained")
        plot = figure.add_subplot()
        plot.grid(axis="x")
        plot.tick_params(axis="y", length=0)
        plot.spines["left"].set_visible(False)
        for place, row in enumerate(shown):
            plot.barh(place, row["volume_bytes"] / GB, color=f"C{groups.index(row['group'])}", label=row["group"])
            text = f" {row['calls']:,.0f} x {_size(row['message_bytes'])}"
            plot.text(row["volume_bytes"] / GB, place, text, va="center", fontsize=8)
        plot.set_yticks(range(len(shown)), [row["message"] for row in shown])
        plot.set_xlabel("volume in a step and device (GB; an all-reduce counts twice)")
        plot.margins(x=0.22)
        handles, labels = plot.get_legend_handles_labels()
        unique = dict(zip(labels, handles, strict=True))
        plot.legend([unique[group] for group in groups], groups, loc="lower right", frameon=False)
        picture.frame(figure, meta, "calls x size of a message", [])
    return figure


def _size(size: float) -> str:
    """Return bytes as people read them.

    >>> _size(83886080.0)
    '80 MiB'
    """
    for factor, unit in SMALL:
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size:.0f} B"
