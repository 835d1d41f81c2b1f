"""Pictures of a sweep, as PNG or SVG: lines over one axis or a heatmap over two, in panels."""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from comp_comm.costmodels import ALL_COLUMNS as COLUMNS
from comp_comm.errors import ConfigError, MissingExtraError, one_of
from comp_comm.fields import FIELDS
from comp_comm.records import Record, Records
from comp_comm.report import picture
from comp_comm.report.case_study_plot import draw_case_study
from comp_comm.report.output import check_writable
from comp_comm.report.picture import label, number, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Key = tuple[Any, ...]
Look = Record
Order = dict[str, dict[Any, int]]  # the place of each value of each axis
Panels = dict[Key, dict[Key, dict[Any, float]]]  # panel, line (or row of a heatmap), x; NaN is left blank

MARKERS = "os^DvPX*"
DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1.2)), (0, (6, 1.5, 1, 1.5)))
COLOURS = "viridis"
MAX_PANELS, MAX_LINES, MAX_ANNOTATED, MAX_VECTOR_CELLS = 9, 80, 200, 5000
MAX_MARKERS, MAX_COLOURS_LISTED, MAX_POINTS_MARKED = 6, 8, 20


def check_plot(path: str) -> None:
    """Raise ``ConfigError`` where a picture cannot be written, ``MissingExtraError`` without matplotlib."""
    if Path(path).suffix.lower() not in picture.METADATA:
        raise ConfigError(f"{path}: the extension says no picture format ({one_of(list(picture.METADATA))})")
    check_writable(path)
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise MissingExtraError("a plot", "plot") from None


def save_plot(path: str, rows: Sequence[Record], view: Record, meta: Record) -> None:
    """Draw rows (records; None where infeasible) as a resolved ``plot`` block says, into a file."""
    check_plot(path)
    picture.write_figure(path, draw_plot(rows, view, meta), meta)


def save_case_study(path: str, rows: Sequence[Record], meta: Record) -> None:
    """Draw where the step of each scenario goes as stacked bars (the paper's Fig 12), into a file."""
    check_plot(path)
    picture.write_figure(path, draw_case_study(rows, meta), meta)


def draw_plot(rows: Sequence[Record], view: Record, meta: Record) -> Figure:
    """Return the figure of a plot. Raises ``ConfigError`` for what cannot be drawn readably."""
    heatmap = view["kind"] == "heatmap"
    value, lines = (view["value"], [view["y"]]) if heatmap else (view["y"], view["lines"])
    values = [found for row in rows if (found := number(row[value])) is not None]
    if not values:
        why = "the plot has no feasible row" if rows else "no row matches 'plot: only'"
        raise ConfigError(f"there is nothing to draw: {why}")
    names = (*view["per"], *lines, view["x"])
    order = {name: _order(rows, name, meta) for name in names}
    scale, words = picture.quantity(value, values)
    points = _points(rows, value, scale, names)
    panels: Panels = {}
    for point in sorted(points, key=lambda point: _place(names, point, order)):
        panel, line = point[: len(view["per"])], point[len(view["per"]) : -1]
        panels.setdefault(panel, {}).setdefault(line, {})[point[-1]] = points[point]
    _check_size(len(panels), MAX_PANELS, "panels", view["per"])
    with picture.picture_style():
        draw = _draw_heatmap if heatmap else _draw_lines
        figure = draw(panels, view, order, words)
        titled = {**meta, "title": meta.get("title") or (words[0].upper() + words[1:]).partition(" (")[0]}
        notes = _notes(value, rows, panels, () if heatmap else lines)
        if heatmap and (missing := len(panels) * len(order[view["x"]]) * len(order[view["y"]]) - len(rows)):
            notes.append(f"Left blank: {missing} cells that are no point of the study.")
        picture.frame(figure, titled, picture.conventions(meta, rows, names), notes)
    return figure


def _order(rows: Sequence[Record], name: str, meta: Record) -> dict[Any, int]:
    """Return the place of each value of an axis that rows have: as the study gives them, then as rows come."""
    found = dict.fromkeys(row[name] for row in rows)
    given = [value for axis in meta.get("axes", []) for value in axis.get(name, [])]
    return {value: place for place, value in enumerate(dict.fromkeys([*(v for v in given if v in found), *found]))}


def _place(names: Sequence[str], key: Key, order: Order) -> list[int]:
    return [order[name][value] for name, value in zip(names, key, strict=True)]


def _points(rows: Sequence[Record], value: str, scale: float, names: Sequence[str]) -> dict[Key, float]:
    """Return each row's value (NaN where it has none) by the axes it is placed on; no two rows may meet."""
    points: dict[Key, Records] = {}
    for row in rows:
        points.setdefault(tuple(row[name] for name in names), []).append(row)
    if len(points) < len(rows):
        inputs = [name for name in rows[0] if name in FIELDS or name == "hardware"]
        varying = [name for name in inputs if any(len({row[name] for row in same}) > 1 for same in points.values())]
        what = f"they differ in {', '.join(varying)}; fix them, or put them under 'per'" if varying else "they repeat"
        raise ConfigError(f"several rows fall on one point of the plot: {what}")
    found = {key: number(row[value]) for key, (row,) in points.items()}
    return {key: math.nan if one is None else one / scale for key, one in found.items()}


def _check_size(count: int, most: int, what: str, names: Sequence[str]) -> None:
    if count > most:
        raise ConfigError(f"the plot would have {count} {what}, one for each {' and '.join(names)}; at most {most} can "
                          "be read: restrict it with 'where' or 'plot: only'")  # fmt: skip


def _notes(value: str, rows: Sequence[Record], panels: Panels, names: Sequence[str]) -> list[str]:
    """Return the small print: what the value means, which lines coincide, what is blank and why."""
    said = [f"{value}: {COLUMNS[value].help}."] if value in COLUMNS else []
    if same := _without_effect(panels, list(chain.from_iterable(panels.values())), names):
        said.append(f"Lines that differ only in {' and '.join(same)} coincide.")
    blank = [row for row in rows if number(row[value]) is None]
    if blank:
        reasons = Counter(row["reason"] for row in blank if row.get("reason")).most_common()
        why = f" ({'mostly: ' if len(reasons) > 1 else ''}{reasons[0][0]})" if reasons else ""
        said.append(f"Left blank: {len(blank)} of {len(rows)} points, which are infeasible{why}.")
    return said


def _panel_grid(panels: Panels, per: Sequence[str], x: str, y: str, width: float, height: float, beside: float
                ) -> tuple[Figure, list[Axes]]:  # fmt: skip
    """Return a figure with axes for each panel, labelled at the outer edges, and room for a legend at the right."""
    from matplotlib.figure import Figure

    columns = _columns(panels)
    rows = math.ceil(len(panels) / columns)
    figure = Figure((max(5.5, columns * width + beside), rows * height), picture.DPI, layout="constrained")
    every = list(figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel())
    for spare in every[len(panels) :]:
        spare.remove()
    for index, (axes, panel) in enumerate(zip(every, panels, strict=False)):
        lowest = index + columns >= len(panels)
        axes.set_title(textwrap.fill(label(per, panel), int(13 * width)), loc="left")
        axes.tick_params(labelbottom=lowest)
        axes.set_xlabel(_words(x) if lowest else "")
        axes.set_ylabel(textwrap.fill(y, 38) if index % columns == 0 else "")
    return figure, every[: len(panels)]


def _words(name: str) -> str:
    return picture.WORDS.get(name, name.replace("_", " "))


def _columns(panels: Panels) -> int:
    return len(panels) if len(panels) <= 3 else math.ceil(math.sqrt(len(panels)))


def _drawn(panels: Panels) -> list[float]:
    return [v for lines in panels.values() for points in lines.values() for v in points.values() if v == v]


def _draw_lines(panels: Panels, view: Record, order: Order, words: str) -> Figure:
    x, names = view["x"], view["lines"]
    keys = sorted(set(chain.from_iterable(panels.values())), key=lambda key: _place(names, key, order))
    _check_size(len(keys), MAX_LINES, "lines", names)
    looks, legend = _few_looks(keys, names) if len(keys) <= len(picture.PALETTE) else _many_looks(keys, names)
    beside = 0.6 + 0.075 * max((len(text) for text, _ in legend), default=0)
    width = 4.8 if len(panels) == 1 else 3.3
    figure, every = _panel_grid(panels, view["per"], x, words, width, 3.7, beside)
    numeric = picture.is_numeric(order[x])
    for axes, lines in zip(every, panels.values(), strict=True):
        axes.grid(True)
        for key, points in lines.items():
            at = sorted((v if numeric else order[x][v], y) for v, y in points.items() if v is not None)
            marked = _marked([y for _, y in at])
            axes.plot(*zip(*at, strict=True), label=label(names, key), clip_on=False, markevery=marked, **looks[key])
    picture.scale_x(every, x, order[x], width - 0.7)
    picture.scale_y(every, view["y"], _drawn(panels))
    _draw_legend(every[_columns(panels) - 1], legend)
    return figure


def _marked(values: Sequence[float]) -> list[int]:
    """Return which points get a marker: some of many, and any that no line reaches."""
    step = math.ceil(len(values) / MAX_POINTS_MARKED)
    gaps = [math.nan, *values, math.nan]
    alone = [before != before and after != after for before, after in zip(gaps, gaps[2:], strict=False)]
    return [place for place, single in enumerate(alone) if single or place % step == 0]


def _few_looks(keys: Sequence[Key], names: Sequence[str]) -> tuple[dict[Key, Look], list[tuple[str, Look]]]:
    """Return a colour and marker for each line, and a legend with an entry for each."""
    styles = zip(keys, picture.PALETTE, MARKERS, strict=False)
    looks: dict[Key, Look] = {key: {"color": colour, "marker": marker} for key, colour, marker in styles}
    return looks, [(label(names, key), look) for key, look in looks.items() if names]


def _many_looks(keys: Sequence[Key], names: Sequence[str]) -> tuple[dict[Key, Look], list[tuple[str, Look]]]:
    """Return a colour for each value of the first axis, a marker for the second, dashes for the third; and a legend."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    looks: dict[Key, Look] = {key: {"markersize": 3.5, "linewidth": 1.1} for key in keys}
    legend: list[tuple[str, Look]] = []
    for what, place in zip_longest(("color", "marker", "linestyle"), _varying(keys, names)):
        if place is None:
            break
        values = list(dict.fromkeys(key[place] for key in keys))
        colours: Sequence[str] = picture.PALETTE
        if picture.is_numeric(values) or len(values) > len(colours):
            colours = [to_hex(colour) for colour in colormaps[COLOURS](np.linspace(0, 0.9, len(values)))]
        styles = {"color": colours, "marker": MARKERS[:MAX_MARKERS], "linestyle": DASHES}.get(what or "", ())
        legend += [("", {"linestyle": "none"})] if legend else []
        if what is None or len(values) > len(styles):
            legend.append((f"{names[place]}: {len(values)} values,\nnot told apart", {"linestyle": "none"}))
            continue
        style = dict(zip(values, styles, strict=False))
        for key in keys:
            looks[key][what] = style[key[place]]
        grey = {} if what == "color" else {"color": picture.GREY}
        most = min(len(values), MAX_COLOURS_LISTED)
        shown = [values[round(place)] for place in np.linspace(0, len(values) - 1, most)]
        legend += [(label([names[place]], [value]), {**grey, what: style[value]}) for value in shown]
    return looks, legend


def _varying(keys: Sequence[Key], names: Sequence[str]) -> list[int]:
    return [place for place in range(len(names)) if len({key[place] for key in keys}) > 1]


def _without_effect(panels: Panels, keys: Sequence[Key], names: Sequence[str]) -> list[str]:
    """Return those axes of the lines that move no point, so that lines lie on one another."""
    found = []
    for place in _varying(keys, names):
        groups: dict[Key, list[str]] = {}
        for panel, lines in panels.items():
            for key, points in lines.items():
                drawn = repr([(x, f"{value:.9g}") for x, value in points.items()])
                groups.setdefault((panel, key[:place], key[place + 1 :]), []).append(drawn)
        if all(len(same) > 1 and len(set(same)) == 1 for same in groups.values()):
            found.append(names[place])
    return found


def _draw_legend(axes: Axes, legend: Sequence[tuple[str, Look]]) -> None:
    from matplotlib.lines import Line2D

    if legend:
        handles = [Line2D([], [], **look) for _, look in legend]
        axes.legend(handles, [text for text, _ in legend], loc="upper left", bbox_to_anchor=(1.02, 1.02))


def _draw_heatmap(panels: Panels, view: Record, order: Order, words: str) -> Figure:
    from matplotlib.colors import LogNorm, Normalize

    x, y, values = view["x"], view["y"], _drawn(panels)
    across, up = order[x], order[y]
    annotated = len(across) * len(up) <= MAX_ANNOTATED
    texts = {value: _cell_text(value, words) for value in values} if annotated else {}
    cell = 0.16 + 0.075 * max(map(len, texts.values()), default=0)
    width, height = (max(2.8, len(across) * cell), max(2.2, len(up) * 0.32)) if annotated else (4.5, 4.0)
    figure, every = _panel_grid(panels, view["per"], x, _words(y), width + 0.4, height + 0.9, 1.4)
    norm = (LogNorm if picture.is_wide(values) else Normalize)(min(values), max(values))
    for axes, lines in zip(every, panels.values(), strict=True):
        axes.set_facecolor("#f0f0f0")
        grid = np.array([[lines.get((up_value,), {}).get(value, math.nan) for value in across] for up_value in up])
        mesh = axes.pcolormesh(grid, cmap=COLOURS, norm=norm, edgecolors="white",
                               linewidth=0.4 if annotated else 0, rasterized=grid.size > MAX_VECTOR_CELLS)  # fmt: skip
        _annotate(axes, grid, texts, mesh)
        for axis, name, room in ((axes.xaxis, x, width), (axes.yaxis, y, height)):
            labels = [short(name, value) for value in order[name]]
            picture.name_ticks(axis, [place + 0.5 for place in range(len(labels))], labels, room,
                               not picture.is_numeric(order[name]))  # fmt: skip
            axis.set_tick_params(length=0)
    if not picture.is_numeric(up):
        every[0].invert_yaxis()
    bar = figure.colorbar(mesh, ax=every, pad=0.02, label=textwrap.fill(words, int(13 * height)))
    bar.ax.yaxis.set_major_formatter(picture.plain_numbers())
    bar.ax.minorticks_off()
    return figure


def _cell_text(value: float, words: str) -> str:
    if words.endswith("(%)"):
        return f"{value:.1f}"
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e6 else f"{value:.3g}"


def _annotate(axes: Axes, grid: Any, texts: dict[float, str], mesh: Any) -> None:
    """Write each value that has a text on its cell, dark on light and light on dark."""
    for (row, column), value in np.ndenumerate(grid) if texts else ():
        if value == value:
            red, green, blue, _ = mesh.to_rgba(value)
            colour = "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else "white"
            axes.text(column + 0.5, row + 0.5, texts[value], ha="center", va="center", size=8, color=colour)
