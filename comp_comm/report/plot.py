"""Pictures of a sweep, as PNG or SVG: lines over one axis or a heatmap over two, in panels."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from comp_comm.costmodels import all_columns
from comp_comm.errors import ConfigError, MissingExtraError, one_of
from comp_comm.fields import FIELDS
from comp_comm.records import Record, Records
from comp_comm.report import picture
from comp_comm.report.case_study_plot import draw_case_study
from comp_comm.report.heatmap import COLOURS, draw_heatmap
from comp_comm.report.output import check_writable
from comp_comm.report.panels import Key, Order, Panels, columns_of, drawn_values, panel_grid
from comp_comm.report.picture import label, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Look = Record

MARKERS = "os^DvPX*"
DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1.2)), (0, (6, 1.5, 1, 1.5)))
MAX_PANELS, MAX_LINES = 9, 80
MAX_MARKERS, MAX_COLOURS_LISTED, MAX_POINTS_MARKED = 6, 8, 20


def check_plot(path: str) -> None:
    """Raise ``ConfigError`` where a picture cannot be written, ``MissingExtraError`` without matplotlib."""
    check_writable(path)
    if Path(path).suffix.lower() not in picture.METADATA:
        raise ConfigError(f"{path}: the extension says no picture format ({one_of(list(picture.METADATA))})")
    check_library()


def check_library() -> None:
    """Raise ``MissingExtraError`` without matplotlib."""
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
    values = [shown for row in rows if (shown := number(row[value])) is not None]
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
        draw = draw_heatmap if heatmap else _draw_lines
        figure = draw(panels, view, order, words)
        titled = {**meta, "title": meta.get("title") or (words[0].upper() + words[1:]).partition(" (")[0]}
        notes = _notes(value, rows, panels, () if heatmap else lines)
        if heatmap and (missing := len(panels) * len(order[view["x"]]) * len(order[view["y"]]) - len(rows)):
            notes.append(f"Left blank: {missing} cells that are no point of the study.")
        picture.frame(figure, titled, picture.conventions(meta, rows, names), notes)
    return figure


def _order(rows: Sequence[Record], name: str, meta: Record) -> dict[Any, int]:
    """Return the place of each value of an axis that rows have: as the study gives them, then as rows come."""
    values = dict.fromkeys(row[name] for row in rows)
    given = [value for axis in meta.get("axes", []) for value in axis.get(name, [])]
    return {value: place for place, value in enumerate(dict.fromkeys([*(v for v in given if v in values), *values]))}


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
    numbers = {key: number(row[value]) for key, (row,) in points.items()}
    return {key: math.nan if one is None else one / scale for key, one in numbers.items()}


def _check_size(count: int, most: int, what: str, names: Sequence[str]) -> None:
    if count > most:
        raise ConfigError(f"the plot would have {count} {what}, one for each {' and '.join(names)}; at most {most} can "
                          "be read: restrict it with 'where' or 'plot: only'")  # fmt: skip


def _notes(value: str, rows: Sequence[Record], panels: Panels, names: Sequence[str]) -> list[str]:
    """Return the small print: what the value means, which lines coincide, what is blank and why."""
    said = [f"{value}: {all_columns()[value].help}."] if value in all_columns() else []
    if same := _without_effect(panels, list(chain.from_iterable(panels.values())), names):
        said.append(f"Lines that differ only in {' and '.join(same)} coincide.")
    blank = [row for row in rows if number(row[value]) is None]
    if blank:
        reasons = Counter(row["reason"] for row in blank if row.get("reason")).most_common()
        why = f" ({'mostly: ' if len(reasons) > 1 else ''}{reasons[0][0]})" if reasons else ""
        said.append(f"Left blank: {len(blank)} of {len(rows)} points, which are infeasible{why}.")
    return said


def _draw_lines(panels: Panels, view: Record, order: Order, words: str) -> Figure:
    x, names = view["x"], view["lines"]
    keys = sorted(set(chain.from_iterable(panels.values())), key=lambda key: _place(names, key, order))
    _check_size(len(keys), MAX_LINES, "lines", names)
    looks, legend = _few_looks(keys, names) if len(keys) <= len(picture.PALETTE) else _many_looks(keys, names)
    beside = 0.6 + 0.075 * max((len(text) for text, _ in legend), default=0)
    width = 4.8 if len(panels) == 1 else 3.3
    figure, axes_of_panels = panel_grid(panels, view["per"], x, words, width, 3.7, beside)
    numeric = picture.is_numeric(order[x])
    for axes, lines in zip(axes_of_panels, panels.values(), strict=True):
        axes.grid(True)
        for key, points in lines.items():
            at = sorted((v if numeric else order[x][v], y) for v, y in points.items() if v is not None)
            marked = _marked([y for _, y in at])
            axes.plot(*zip(*at, strict=True), label=label(names, key), clip_on=False, markevery=marked, **looks[key])
    picture.scale_x(axes_of_panels, x, order[x], width - 0.7)
    picture.scale_y(axes_of_panels, view["y"], drawn_values(panels))
    _draw_legend(axes_of_panels[columns_of(panels) - 1], legend)
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
    idle = []
    for place in _varying(keys, names):
        groups: dict[Key, list[str]] = {}
        for panel, lines in panels.items():
            for key, points in lines.items():
                drawn = repr([(x, f"{value:.9g}") for x, value in points.items()])
                groups.setdefault((panel, key[:place], key[place + 1 :]), []).append(drawn)
        if all(len(same) > 1 and len(set(same)) == 1 for same in groups.values()):
            idle.append(names[place])
    return idle


def _draw_legend(axes: Axes, legend: Sequence[tuple[str, Look]]) -> None:
    from matplotlib.lines import Line2D

    if legend:
        handles = [Line2D([], [], **look) for _, look in legend]
        axes.legend(handles, [text for text, _ in legend], loc="upper left", bbox_to_anchor=(1.02, 1.02))
