"""What every picture shares: style, title and caption, words and units, axes, files."""

from __future__ import annotations

import io
import math
import textwrap
import threading
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from comp_comm.costmodels import all_columns
from comp_comm.fields import FIELDS
from comp_comm.printable import visible, visible_bytes
from comp_comm.records import Record
from comp_comm.report.output import save_bytes
from comp_comm.report.table import BINARY_FIELDS, SCALES, in_seconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# What would make two pictures of the same numbers differ (a date, a version) is left out of the files.
METADATA: dict[str, dict[str, str | None]] = {
    ".png": {"Software": None}, ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}  # fmt: skip
DPI = 150
STYLE: Record = {
    "font.family": "DejaVu Sans", "font.size": 9, "axes.titlesize": 10, "axes.labelsize": 9.5, "legend.fontsize": 9,
    "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": "#888888", "axes.axisbelow": True,
    "grid.color": "#e4e4e4", "grid.linewidth": 0.7, "xtick.color": "#888888", "ytick.color": "#888888",
    "xtick.labelcolor": "#222222", "ytick.labelcolor": "#222222", "lines.linewidth": 1.5, "lines.markersize": 4.5,
    "legend.frameon": False, "text.parse_math": False, "svg.hashsalt": "compcomm", "hatch.linewidth": 1.2,
}  # fmt: skip
BLUE, RED, GREEN, PURPLE, ORANGE, SKY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"  # Okabe-Ito
PALETTE = (BLUE, RED, GREEN, PURPLE, ORANGE, SKY, "#000000", "#8A8A8A")
GREY = "#666666"
SYMBOLS = {"hidden": "H", "seq_len": "SL", "micro_batch": "B", "tp": "TP", "dp": "DP"}
WORDS = {"hidden": "hidden dimension, H", "seq_len": "sequence length, SL (tokens)", "micro_batch": "micro-batch, B",
         "tp": "tensor-parallel degree, TP", "dp": "data-parallel degree, DP",
         "flop_vs_bw": "FLOP/s scaling relative to the network", "flops": "factor on FLOP/s",
         "network": "factor on network bandwidth", "scale_up": "factor on bandwidth of the innermost tier",
         "scale_out": "factor on bandwidth beyond the innermost tier", "memory_bandwidth": "factor on memory bandwidth",
         "memory_capacity": "factor on memory capacity", "latency": "factor on network latency",
         "nvs": "devices of the innermost domain"}  # fmt: skip
WIDE = 100  # a span this wide is shown on a log scale
_LOCK = threading.RLock()  # matplotlib's settings are global; ours are set while a picture is made


@contextmanager
def picture_style() -> Iterator[None]:
    """Set matplotlib's defaults and our style, whatever the user's own settings are, one thread at a time."""
    import matplotlib.style
    from cycler import cycler

    style = {**STYLE, "axes.prop_cycle": cycler(color=PALETTE)}
    with _LOCK, matplotlib.style.context(["default", style]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # a title in a script the font lacks
        yield


def write_figure(path: str, figure: Figure, meta: Record) -> None:
    """Write a figure into a file, whole or not at all; the same figure gives the same bytes."""
    suffix, content = Path(path).suffix.lower(), io.BytesIO()
    metadata = {**METADATA[suffix], **({"Title": visible(meta["title"])} if meta.get("title") else {})}
    with picture_style():
        figure.savefig(content, format=suffix[1:], metadata=metadata)
    drawn = content.getvalue()
    save_bytes(path, visible_bytes(drawn) if suffix == ".svg" else drawn)  # whatever a text of it was made of


def svg_of(figure: Figure) -> str:
    """Return a figure as SVG text."""
    content = io.BytesIO()
    with picture_style():
        figure.savefig(content, format="svg", metadata=METADATA[".svg"])
    return content.getvalue().decode()


def frame(figure: Figure, meta: Record, subtitle: str, notes: Iterable[str]) -> None:
    """Put the title and subtitle above the axes and notes below, in room added to the figure."""
    width, body = (float(size) for size in figure.get_size_inches())
    head = [*_text_lines(figure, meta.get("title") or "", 13, "bold"), *_text_lines(figure, subtitle, 9, "normal")]
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
    width = float(figure.get_figwidth())
    most = int(width * 72 / size / 0.4)
    while True:
        lines = textwrap.wrap(text, most, max_lines=4, placeholder=" ...")
        if most < 20 or all(text_width(figure, line, size, weight) < width - 0.3 for line in lines):
            return [(line, size, weight) for line in lines]
        most -= 2


def text_width(figure: Figure, text: str, size: float, weight: str = "normal") -> float:
    """Return the width of one line of text, in inches."""
    drawn = figure.text(0, 0, text, size=size, weight=weight)
    width = float(drawn.get_window_extent().width) / float(figure.dpi)
    drawn.remove()
    return width


def conventions(meta: Record, rows: Sequence[Record], shown: Iterable[str]) -> str:
    """Return what holds for the whole picture: hardware, cost model, conventions and whatever does not vary."""
    placed = set(shown)
    same = {name: rows[0][name] for name in rows[0] if name in FIELDS and len({row[name] for row in rows}) == 1}
    stated = {name: value for name, value in {**meta.get("fixed", {}), **same}.items() if name not in placed}
    words = [f"{name} {stated.pop(name)}" for name in ("timing", "count", "precision") if stated.get(name)]
    brought = meta.get("model_fields", {})
    numbers = {name: stated[name] for name in FIELDS if name in stated and stated[name] != FIELDS[name].default
               and brought.get(name) != stated[name]}  # fmt: skip
    devices = list(meta.get("hardware", {}))
    hardware = ", ".join(devices[:5]) + (f" and {len(devices) - 5} more" if len(devices) > 5 else "")
    said = (meta.get("model"), hardware, meta.get("cost_model"), *words, label(numbers, numbers.values()))
    return " \N{MIDDLE DOT} ".join(text for text in said if text)


def label(names: Iterable[str], values: Iterable[Any]) -> str:
    """Return names and values as a legend shows them.

    >>> label(["hidden", "micro_batch", "flop_vs_bw"], [65536, 1, 2.0])
    'H=64K, B=1, flop_vs_bw=2'
    """
    pairs = zip(names, values, strict=True)
    return ", ".join(f"{SYMBOLS.get(name, name)}={short(name, value)}" for name, value in pairs)


def short(name: str, value: Any) -> str:
    """Return one value of an axis as a person writes it."""
    if name in BINARY_FIELDS and isinstance(value, (int, float)) and value > 0 and value % 1024 == 0:
        return f"{int(value) // 2**20}M" if value % 2**20 == 0 else f"{int(value) // 1024}K"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def number(value: Any) -> float | None:
    """Return a finite number as it is and anything else as None."""
    return value if isinstance(value, (int, float)) and math.isfinite(value) else None


def quantity(name: str, values: Iterable[float]) -> tuple[float, str]:
    """Return what to divide a column's values by, and the column in words with the unit its values then have.

    >>> quantity("serialized_comm_fraction", [0.5])
    (0.01, 'serialized communication fraction (%)')
    >>> quantity("tokens_per_s", [2.5e5])
    (1.0, 'tokens per s (tokens/s)')
    """
    seconds = in_seconds(name)
    words = (name.removesuffix("_s") if seconds else name).removesuffix("_flop_per_byte")
    words = words.replace("_comm", " communication").replace("_", " ").replace("amdahl", "Amdahl")
    if name.endswith("_fraction"):
        return 0.01, f"{words} (%)"
    if seconds:
        positive = sorted(value for value in values if value > 0) or [0.0]
        scale, unit = next((item for item in SCALES if positive[len(positive) // 2] >= item[0]), SCALES[-1])
        return scale, f"{words} time ({unit})"
    unit = all_columns()[name].unit if name in all_columns() else ""
    return 1.0, f"{words} ({unit})" if unit else words


def is_numeric(values: Iterable[Any]) -> bool:
    """Return whether an axis has numbers only, not words."""
    return all(value is None or isinstance(value, (int, float)) for value in values)


def is_wide(values: Sequence[float]) -> bool:
    """Return whether values span so much that a log scale shows them better."""
    return min(values) > 0 and max(values) >= WIDE * min(values)


def plain_numbers() -> Any:
    """Return a formatter of ticks that writes 0.001 and 1,000 as they are."""
    from matplotlib.ticker import FuncFormatter

    return FuncFormatter(lambda value, _: f"{value:,.10g}")


def name_ticks(axis: Any, places: Sequence[float], labels: Sequence[str], room: float, words: bool = False) -> None:
    """Label an axis that is ``room`` inches long; crowded words are slanted, of crowded numbers every n-th is shown."""
    each, turn = (0.2 if axis.axis_name == "y" else 0.12 + 0.075 * max(map(len, labels))), {}
    if words and axis.axis_name == "x" and each * len(labels) > room:
        each, turn = 0.2, {"rotation": 35, "ha": "right", "rotation_mode": "anchor"}
    step = max(1, math.ceil(len(labels) * each / room))
    axis.set_ticks(places[::step], labels[::step], **turn)


def scale_x(panels: Sequence[Axes], x: str, values: dict[Any, int], room: float) -> None:
    """Set a log2 scale with the values as labels for powers of two, else log10 or linear by span; words are places."""
    from matplotlib.ticker import MaxNLocator, NullLocator

    words = not is_numeric(values)
    shown = list(values) if words else sorted(value for value in values if value is not None)
    places = list(range(len(shown))) if words else shown
    if words:
        panels[0].set_xlim(-0.5, len(shown) - 0.5)
    elif all(value > 0 and math.frexp(value)[0] == 0.5 for value in shown):
        panels[0].set_xscale("log", base=2)
        panels[0].xaxis.set_minor_locator(NullLocator())
    elif is_wide(shown):
        panels[0].set_xscale("log")
        panels[0].xaxis.set_major_formatter(plain_numbers())
        return
    else:
        unit = 1024 if x in BINARY_FIELDS and all(value % 1024 == 0 for value in shown) else 1
        ticks = MaxNLocator(6, integer=all(isinstance(value, int) for value in shown))
        nice = [unit * tick for tick in ticks.tick_values(shown[0] / unit, shown[-1] / unit)]
        places = shown = [tick for tick in nice if shown[0] <= tick <= shown[-1]] or shown
    for axes in panels:
        name_ticks(axes.xaxis, places, [short(x, value) for value in shown], room, words)


def scale_y(panels: Sequence[Axes], y: str, values: Sequence[float]) -> None:
    """Set 0 to 100 for a percentage, a log scale for a wide span, else a linear one from 0."""
    axes = panels[0]
    if y.endswith("_fraction"):
        axes.set_ylim(0, 100)
    elif is_wide(values):
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(plain_numbers())
    elif min(values) >= 0:
        axes.set_ylim(bottom=0)
