"""Pictures of a search: time against memory of the layouts no other beats, or the best on more and more devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from comp_comm.report import picture
from comp_comm.report.plot import check_plot

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Record = dict[str, Any]
COMMAND_LINE = "Command line"
# What a score, smaller where a layout is better, is to a reader.
AXES: dict[str, tuple[str, Callable[[float], float]]] = {
    "step": ("seconds of a step", float),
    "tokens": ("tokens a second", lambda score: 1 / score),
    "mfu": ("MFU (%)", lambda score: -100 * score),
    "days": ("days of the whole run", float),
    "gpu-hours": ("GPU-hours of the whole run", float),
    "memory": ("memory of a device (GiB)", lambda score: score / 2**30),
    "comm": ("visible communication, of the step (%)", lambda score: 100 * score),
}


def save_search(path: str, found: Record) -> None:
    """Draw what was found into a file."""
    check_plot(path)
    picture.write_figure(path, draw_search(found), found["meta"])


def draw_search(found: Record) -> Figure:
    """Return the figure: the front of one search, or tokens a second over devices, one line a hardware."""
    from matplotlib.figure import Figure

    with picture.picture_style():
        figure = Figure(figsize=(7.5, 5.0), layout="constrained")
        plot = figure.add_subplot()
        one = "front" in found
        said = _front(plot, found["front"], found["meta"]) if one else _lines(plot, found["rows"])
        named = " on ".join(filter(None, [found["meta"].get("model"), ", ".join(found["meta"]["hardware"])]))
        title = found["meta"]["title"]
        picture.frame(figure, {**found["meta"], "title": named if title == COMMAND_LINE else title}, said, [])
    return figure


def _front(plot: Any, front: list[Record], meta: Record) -> str:
    from matplotlib.ticker import LogLocator, NullFormatter

    label, of = AXES[meta["objective"]]
    values = [of(point["score"]) for point in front]
    plot.step([point["memory_gib"] for point in front], values, where="pre", marker="o", markersize=4)
    if min(values) > 0 and max(values) > 20 * min(values):
        plot.set_yscale("log")
        plot.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        plot.yaxis.set_major_formatter(picture.plain_numbers())
        plot.yaxis.set_minor_formatter(NullFormatter())
    plot.set_xlabel("memory of a device (GiB)")
    plot.set_ylabel(label)
    return f"{meta['feasible']:,} feasible layouts on {meta['gpus']:,} devices; drawn: those none beats in both"


def _lines(plot: Any, rows: list[Record]) -> str:
    for name in dict.fromkeys(row["hardware"] for row in rows):
        mine = sorted((row["gpus"], row["tokens_per_s"]) for row in rows if row["hardware"] == name)
        (line,) = plot.plot([gpus for gpus, _ in mine], [rate for _, rate in mine], marker="o", label=name)
        first, rate = mine[0]
        ideal = [rate * gpus / first for gpus, _ in mine]
        plot.plot([gpus for gpus, _ in mine], ideal, linestyle=":", color=line.get_color())
    plot.set_xscale("log", base=2)
    plot.set_yscale("log", base=2)
    ticks = sorted({row["gpus"] for row in rows})
    plot.set_xticks(ticks, [f"{gpus:,}" for gpus in ticks])
    plot.yaxis.set_major_formatter(picture.plain_numbers())
    plot.set_xlabel("devices")
    plot.set_ylabel("tokens a second")
    plot.legend(frameon=False)
    return "the best layout on each; dotted: in proportion to the first"
