"""Pictures of a search: time against memory of the layouts no other beats; the best over devices, or over hardware."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from comp_comm.configs import catalogue
from comp_comm.configs.axes import Axis
from comp_comm.configs.hardware_file import load_profile
from comp_comm.errors import ConfigError, so_many
from comp_comm.records import Record, Records
from comp_comm.report import picture
from comp_comm.report.plot import MAX_PANELS, check_plot, draw_plot
from comp_comm.searches.design import FACTORS, WORK
from comp_comm.searches.objectives import OBJECTIVES
from comp_comm.units import GIB

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TAIL = 4  # layouts that are so many times slower than the best are told of, not drawn
DEGREES = ("tp", "tp1", "tp2", "cp", "pp", "vpp", "ep", "dp")
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
        figure = Figure(figsize=(8.5, 5.0), dpi=picture.DPI, layout="constrained")
        plot = figure.add_subplot()
        said, notes = _front(plot, answer, meta) if "front" in answer else (_lines(plot, answer["rows"]), [])
        picture.frame(figure, meta, said, notes)
    return figure


def _title(meta: Record) -> str:
    title = str(meta["title"])
    if len(meta["hardware"]) > 1 and meta.get("model"):
        title = f"{meta['model']} on {', '.join(meta['hardware'])}"
    return title if "layout" in title.lower() else f"Layouts: {title}"


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


def _front(plot: Axes, answer: Record, meta: Record) -> tuple[str, list[str]]:
    """Draw the layouts that none beats in both; return what is said above and below."""
    label, of = AXES[meta["objective"]]
    points = [(point["memory_gib"], of(point["score"])) for point in answer["front"]]
    best = points[0][1]
    drawn = [point for point in points if best <= 0 or abs(point[1] - best) <= (TAIL - 1) * abs(best)]
    beyond = points[len(drawn) :]
    plot.grid(True)
    plot.step(*zip(*drawn, strict=True), where="pre", marker="o", markersize=4)
    plot.margins(y=0.12)
    capacity = _capacity(meta)
    if capacity:
        plot.axvline(capacity, color="black", lw=1.2, ls=(0, (4, 2)))
        plot.annotate(f"the device has {capacity:.4g} GiB ", (capacity, 0.98), xycoords=("data", "axes fraction"),
                      ha="right", va="top", size=8.5)  # fmt: skip
    _name_layouts(plot, answer["rows"], drawn, meta)
    plot.set_xlabel("memory of a device (GiB)")
    plot.set_ylabel(label)
    worst = f"{beyond[-1][1]:,.4g} with {beyond[-1][0]:.3g} GiB" if beyond else ""
    notes = [f"Not drawn: {len(beyond)} layouts that need less memory, and whose {label} are more than {TAIL} times "
             f"those of the best: up to {worst}."] if beyond else []  # fmt: skip
    found, devices = so_many(meta["feasible"], "feasible layout"), so_many(meta["gpus"], "device")
    said = f"{found} on {devices}; drawn: those none beats in both"
    return said, notes


def _name_layouts(plot: Axes, rows: Records, drawn: Sequence[tuple[float, float]], meta: Record) -> None:
    """Write the layout beside the best point, and beside that of the best rows which needs the least memory."""
    best = rows[0]
    lean = min(rows, key=lambda row: row["memory_gib"])
    places = {point[0]: point for point in drawn}
    for row, words, up in ((best, "best", -14), (lean, "lean", 24)):
        place = places.get(row["memory_gib"])
        if place is None or (row is lean and lean is best):
            continue
        plot.plot(*place, marker="*", markersize=13, color=picture.RED, zorder=3)
        right = place[0] > sum(plot.get_xlim()) / 2
        plot.annotate(f"{words}: {layout_words(row)}", place, xytext=(-8 if right else 8, up), size=8.5,
                      textcoords="offset points", ha="right" if right else "left", va="center")  # fmt: skip


def layout_words(row: Record) -> str:
    """Return a layout in a few words: its degrees above 1, and how it saves memory.

    >>> layout_words({"tp": 8, "pp": 1, "dp": 4, "micro_batch": 2, "zero": 3, "recompute": "full"})
    'tp 8, dp 4, mb 2, zero 3, recompute full'
    """
    said = [f"{name} {row[name]}" for name in DEGREES if row.get(name) not in (None, 1)]
    said += [f"mb {row['micro_batch']}"] if row.get("micro_batch") else []
    said += [f"zero {row['zero']}"] if row.get("zero") else []
    said += [f"recompute {row['recompute']}"] if row.get("recompute", "none") != "none" else []
    return ", ".join(said)


def _capacity(meta: Record) -> float | None:
    """Return the GiB of the one device of a search, None where it is no profile of the catalogue."""
    (name, about), *others = meta["hardware"].items()
    if others or name not in catalogue.names("hardware"):
        return None
    profile = load_profile(name)
    factor = meta["fixed"].get("memory_capacity", 1.0)
    return profile.value("memory.capacity") * factor / GIB if profile.sha256 == about["sha256"] else None


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
    plot.grid(True)
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
