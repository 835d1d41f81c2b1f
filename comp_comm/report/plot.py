"""Pictures of a sweep, as PNG or SVG: lines over one axis or a heatmap over two, in panels."""

from __future__ import annotations

import io
import textwrap
import threading
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from comp_comm.errors import ConfigError, MissingExtraError, one_of
from comp_comm.fields import FIELDS
from comp_comm.report.output import check_writable, save_bytes
from comp_comm.report.table import BINARY_FIELDS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Record = dict[str, Any]
Key = tuple[Any, ...]
Panels = dict[Key, dict[Key, dict[Any, float | None]]]

# What would make two pictures of the same numbers differ (a date, a version) is left out of the files.
METADATA: dict[str, dict[str, str | None]] = {".png": {"Software": None}, ".svg": {"Date": None, "Creator": None}}
STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans", "font.size": 9, "axes.titlesize": 10, "axes.labelsize": 9.5, "legend.fontsize": 9,
    "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": "#888888", "axes.axisbelow": True,
    "grid.color": "#e4e4e4", "grid.linewidth": 0.7, "xtick.color": "#555555", "ytick.color": "#555555",
    "xtick.labelcolor": "#222222", "ytick.labelcolor": "#222222", "lines.linewidth": 1.5, "lines.markersize": 4.5,
    "legend.frameon": False, "text.parse_math": False, "svg.hashsalt": "compcomm", "hatch.linewidth": 0.8,
}  # fmt: skip
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8A8A8A")  # Okabe-Ito
MARKERS = "os^DvPX*"
DASHES = ("-", (0, (4, 1.5)), (0, (1, 1.2)), (0, (5, 1.5, 1, 1.5)))
GREY = "#666666"
MAX_PANELS, MAX_LINES, MAX_ANNOTATED = 9, 80, 200
SYMBOLS = {"hidden": "H", "seq_len": "SL", "micro_batch": "B", "tp": "TP", "dp": "DP"}
AXES = {"hidden": "hidden dimension, H", "seq_len": "sequence length, SL (tokens)", "micro_batch": "micro-batch, B",
        "tp": "tensor-parallel degree, TP", "dp": "data-parallel degree, DP"}  # fmt: skip
_LOCK = threading.RLock()  # matplotlib's settings are global; ours are set while a picture is made


def check_plot(path: str) -> None:
    """Raise, before any computing, where a picture cannot be made.

    ``ConfigError`` for an extension other than .png or .svg or a place that cannot be written to, and
    ``MissingExtraError`` without matplotlib.
    """
    if Path(path).suffix.lower() not in METADATA:
        raise ConfigError(f"{path}: a plot is a .png or .svg file ({one_of(list(METADATA))})")
    check_writable(path)
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise MissingExtraError("a plot", "plot") from None


def save_plot(path: str, rows: Sequence[Record], view: Record, meta: Record) -> None:
    """Draw rows (records; None where infeasible) as a resolved ``plot`` block says, into a file."""
    check_plot(path)
    write_figure(path, draw_plot(rows, view, meta), meta)


def save_case_study(path: str, rows: Sequence[Record], meta: Record) -> None:
    """Draw the shares of each scenario's step as stacked bars (the paper's Fig 12), into a file."""
    from comp_comm.report.case_study_plot import draw_case_study

    check_plot(path)
    write_figure(path, draw_case_study(rows, meta), meta)


def draw_plot(rows: Sequence[Record], view: Record, meta: Record) -> Figure:
    """Return the figure of a plot, not yet written anywhere."""
    if not any(_number(row[view.get("value") or view["y"]]) is not None for row in rows):
        raise ConfigError("there is nothing to draw: no feasible row is left for the plot")
    with picture_style():
        return _draw_heatmap(rows, view, meta) if view["kind"] == "heatmap" else _draw_lines(rows, view, meta)


@contextmanager
def picture_style() -> Iterator[None]:
    """Set matplotlib's defaults and our style, whatever the user's own settings are, one thread at a time."""
    import matplotlib.style

    with _LOCK, matplotlib.style.context(["default", STYLE]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # a title in a script the font lacks
        yield


def write_figure(path: str, figure: Figure, meta: Record) -> None:
    """Write a figure into a file, whole or not at all; the same figure gives the same bytes."""
    suffix, content = Path(path).suffix.lower(), io.BytesIO()
    with picture_style():
        figure.savefig(content, format=suffix[1:], metadata={**METADATA[suffix], "Title": meta.get("title") or None})
    save_bytes(path, content.getvalue())


def frame(figure: Figure, meta: Record, subtitle: str, notes: Iterable[str]) -> None:
    """Put the title and subtitle above the axes and notes below, in room added to the figure."""
    width, body = figure.get_size_inches()
    head = [*_text_lines(figure, meta.get("title", ""), 13, "bold"), *_text_lines(figure, subtitle, 9, "normal")]
    foot = [line for note in notes for line in _text_lines(figure, note, 8, "normal")]
    above, below = (sum(1.4 * size / 72 for _, size, _ in lines) + 0.2 for lines in (head, foot))
    height = body + above + below
    figure.set_size_inches(width, height)
    for lines, y in ((head, height - 0.15), (foot, below - 0.05)):
        for text, size, weight in lines:
            colour = "black" if weight == "bold" else GREY
            figure.text(0.15 / width, y / height, text, va="top", size=size, weight=weight, color=colour)
            y -= 1.4 * size / 72
    layout: Any = figure.get_layout_engine()
    layout.set(rect=(0.1 / width, below / height, 1 - 0.2 / width, body / height), w_pad=0.08, h_pad=0.08)


def _text_lines(figure: Figure, text: str, size: float, weight: str) -> list[tuple[str, float, str]]:
    """Break a text into lines no wider than the figure."""
    most = int(figure.get_figwidth() * 72 / size / 0.4)
    while True:
        lines = textwrap.wrap(text, most, max_lines=4, placeholder=" ...")
        if most < 20 or all(text_width(figure, line, size, weight) < figure.get_figwidth() - 0.3 for line in lines):
            return [(line, size, weight) for line in lines]
        most -= 2


def text_width(figure: Figure, text: str, size: float, weight: str = "normal") -> float:
    """Return the width of one line of text, in inches."""
    drawn = figure.text(0, 0, text, size=size, weight=weight)
    width = float(drawn.get_window_extent().width) / figure.dpi
    drawn.remove()
    return width


def conventions(meta: Record, rows: Sequence[Record], shown: Iterable[str]) -> str:
    """Return what holds for the whole picture: hardware, cost model, conventions and whatever does not vary."""
    inputs = [name for name in rows[0] if name in FIELDS]
    same = {name: rows[0][name] for name in inputs if len({row[name] for row in rows}) == 1}
    stated = {name: v for name, v in {**meta.get("fixed", {}), **same}.items() if name not in shown}
    words = [f"{name} {stated.pop(name)}" for name in ("timing", "count", "precision") if stated.get(name)]
    numbers = {name: stated[name] for name in FIELDS if name in stated and stated[name] != FIELDS[name].default}
    devices = list(meta.get("hardware", {}))
    hardware = ", ".join(devices[:5]) + (f" and {len(devices) - 5} more" if len(devices) > 5 else "")
    return " | ".join(filter(None, (hardware, meta.get("cost_model"), *words, label(numbers, numbers.values()))))


def label(names: Iterable[str], values: Iterable[Any]) -> str:
    """Return names and values as a legend shows them.

    >>> label(["hidden", "micro_batch", "flop_vs_bw"], [65536, 1, 2.0])
    'H=64K, B=1, flop_vs_bw=2'
    """
    pairs = zip(names, values, strict=True)
    return ", ".join(f"{SYMBOLS.get(name, name)}={short(name, value)}" for name, value in pairs)


def short(name: str, value: Any) -> str:
    """Return one value of an axis as a person writes it."""
    if name in BINARY_FIELDS and isinstance(value, int) and value > 0 and value % 1024 == 0:
        return f"{value // 2**20}M" if value % 2**20 == 0 else f"{value // 1024}K"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def quantity(name: str, values: Iterable[float | None]) -> tuple[float, str]:
    """Return what to divide a column's values by, and its name in words with the unit they then have."""
    words = name.removesuffix("_s").removesuffix("_flop_per_byte").replace("comm_", "communication_")
    words = words.removesuffix("_comm").replace("_", " ") if not words.endswith("_comm") else words[:-5].replace("_", " ") + " communication"
    return 1, words
