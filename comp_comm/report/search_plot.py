"""Pictures of a search: time against memory of the layouts no other beats, or the best on more and more devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from comp_comm.report import picture
from comp_comm.report.plot import check_plot

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Record = dict[str, Any]


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
        if "front" in found:
            steps = [point["score"] for point in found["front"]]
            plot.step([point["memory_gib"] for point in found["front"]], steps, where="post", marker="o")
            plot.set_xlabel("memory of a device (GiB)")
            plot.set_ylabel(f"best {found['meta']['objective']} (s, or the objective's own unit)")
            said = f"{found['meta']['feasible']:,} feasible layouts on {found['meta']['gpus']:,} devices"
        else:
            said = _lines(plot, found["rows"])
        picture.frame(figure, found["meta"], said, [])
    return figure


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
