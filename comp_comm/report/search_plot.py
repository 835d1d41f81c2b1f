"""Pictures of a search: time against memory of the layouts no other beats; the best over devices, or over hardware."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from comp_comm.configs.axes import Axis
from comp_comm.errors import ConfigError
from comp_comm.records import Record, Records
from comp_comm.report import picture
from comp_comm.report.plot import MAX_PANELS, check_plot, draw_plot
from comp_comm.searches.design import FACTORS, WORK
from comp_comm.searches.objectives import OBJECTIVES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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


def save_search(path: str, answer: Record) -> None:
    """Draw what was found into a file."""
    check_plot(path)
    picture.write_figure(path, draw_search(answer), answer["meta"])


def draw_search(answer: Record) -> Figure:
    """Return the figure: the front of one search; the best over hardware factors; or tokens a second over devices."""
    meta = {**answer["meta"], "title": _title(answer["meta"])}
    view = design_view(list(meta.get("axes", ())), OBJECTIVES[meta["objective"]].column)
    if view is not None:
        brought = meta["model_fields"]
        own = {name: value for name, value in meta["fixed"].items() if brought.get(name) != value}
        placed = [name for axis in meta["axes"] for name in axis]
        shown = (*placed, "reason", view.get("value", view["y"]))
        rows = [{name: row[name] for name in shown} for row in answer["rows"]]
        return draw_plot(rows, view, {**meta, "fixed": own})
    from matplotlib.figure import Figure

    with picture.picture_style():
        figure = Figure(figsize=(7.5, 5.0), layout="constrained")
        plot = figure.add_subplot()
        said = _front(plot, answer["front"], meta) if "front" in answer else _lines(plot, answer["rows"])
        picture.frame(figure, meta, said, [])
    return figure


def _title(meta: Record) -> str:
    if meta["title"] != COMMAND_LINE:
        return str(meta["title"])
    named = " on ".join(filter(None, [meta.get("model"), ", ".join(meta["hardware"])]))
    what = "The best layout" if "searches" in meta else "Layouts"
    return f"{what} of {named}" if meta.get("model") else named


def design_view(axes: Sequence[Iterable[str]], column: str) -> Record | None:
    """Return how a design space is drawn: a heat map over two factors (or batches), lines over one; None without.

    >>> design_view([["gpus"], ["network"], ["nvs"]], "step_s")
    {'kind': 'heatmap', 'x': 'network', 'y': 'nvs', 'value': 'step_s', 'per': ['gpus']}
    """
    names = [next(iter(axis)) for axis in axes]
    factors = [name for name in names if name in (*FACTORS, *WORK)]
    if not factors:
        return None
    others = [name for name in names if name not in factors[:2]]
    if len(factors) == 1:
        return {"kind": "lines", "x": factors[0], "y": column, "lines": others, "per": []}
    return {"kind": "heatmap", "x": factors[0], "y": factors[1], "value": column, "per": others}


def check_design(axes: Sequence[Axis]) -> None:
    """Raise ``ConfigError``, before the work, where a design space has too many panels to be read."""
    view = design_view([axis.values for axis in axes], "")
    per = view["per"] if view else []
    panels = math.prod(len(axis) for axis in axes if next(iter(axis.values)) in per)
    if panels > MAX_PANELS:
        raise ConfigError(f"--plot: a heat map over {view['x']} and {view['y']} would need {panels} panels, one for "  # type: ignore[index]
                          f"each {' and '.join(per)}; at most {MAX_PANELS} can be read")  # fmt: skip


def _front(plot: Any, front: Records, meta: Record) -> str:
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


def _lines(plot: Any, rows: Records) -> str:
    from matplotlib.ticker import LogLocator, NullFormatter

    rows = [row for row in rows if row["tokens_per_s"] is not None]
    names = list(dict.fromkeys(row["hardware"] for row in rows))
    for name in names:
        mine = sorted((row["gpus"], row["tokens_per_s"]) for row in rows if row["hardware"] == name)
        colour = picture.PALETTE[names.index(name) % len(picture.PALETTE)]
        plot.plot([gpus for gpus, _ in mine], [rate for _, rate in mine], marker="o", label=name, color=colour)
        first, rate = mine[0]
        ideal = [rate * gpus / first for gpus, _ in mine]
        plot.plot([gpus for gpus, _ in mine], ideal, linestyle=":", color=colour)
    plot.set_xscale("log", base=2)
    plot.set_yscale("log")
    plot.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    plot.yaxis.set_minor_formatter(NullFormatter())
    ticks = sorted({row["gpus"] for row in rows})
    plot.set_xticks(ticks, [f"{gpus:,}" for gpus in ticks])
    plot.yaxis.set_major_formatter(picture.plain_numbers())
    plot.set_xlabel("devices")
    plot.set_ylabel("tokens a second")
    plot.legend(frameon=False)
    return "the best layout on each; dotted: in proportion to the first"
