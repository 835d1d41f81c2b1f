"""Bars and heat maps of characters, for a terminal: no library, no colour, and as wide as the terminal is."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import IO

from comp_comm.errors import ConfigError
from comp_comm.records import Record
from comp_comm.report import picture
from comp_comm.report.output import WIDTH, terminal_width
from comp_comm.report.stacks import Stacks

EIGHTHS = ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")  # ends of a bar
SHADES = (" ", "░", "▒", "▓", "█")
PLAIN_SHADES = (" ", ".", ":", "+", "#")  # where the terminal has no such letters
GB = 1e9
MOST = 200  # bars, or rows of a heat map


def write_stacks(out: IO[str], panels: Sequence[Stacks]) -> None:
    """Write the parts of each bar as bars of their own, below the bar's name and total."""
    for panel in panels:
        longest = max(panel.total(bar) for bar in range(len(panel.bars)))
        for bar, name in enumerate(panel.bars):
            out.write(f"\n{name}: {panel.what} {panel.total(bar):.4g} {panel.unit}\n")
            pairs = [(part, values[bar] or 0.0) for part, values in panel.parts.items()]
            _write_bars(out, pairs, longest, panel.unit)
        if panel.limit:
            out.write(f"{panel.limit[1]}\n")


def write_plot(out: IO[str], rows: Sequence[Record], view: Record) -> None:
    """Write a resolved ``plot`` block of a study: a heat map, or of lines a bar for each point.

    Raises ``ConfigError`` where there is nothing to draw, or too much to be read.
    """
    value: str = view["value"] if "value" in view else view["y"]
    numbers = [number for row in rows if (number := picture.number(row[value])) is not None]
    if not numbers:
        raise ConfigError("there is nothing to draw: no row is feasible")
    scale, words = picture.quantity(value, numbers)
    groups: dict[str, list[Record]] = {}
    for row in rows:
        groups.setdefault(picture.label(view["per"], [row[name] for name in view["per"]]), []).append(row)
    unit = words[words.rindex("(") + 1 : -1] if words.endswith(")") else ""
    out.write(f"\n{words}\n")
    for title, part in groups.items():
        out.write(f"\n{title}\n" if title else "\n")
        if view["kind"] == "heatmap":
            _write_heat(out, part, view, scale, (min(numbers) / scale, max(numbers) / scale))
        else:
            names = (*view["lines"], view["x"])
            pairs = [(picture.label(names, [row[name] for name in names]), picture.number(row[value])) for row in part]
            known = [(name, None if number is None else number / scale) for name, number in pairs]
            _write_bars(out, known, max(numbers) / scale, unit)


def write_volume(out: IO[str], rows: Sequence[Record], meta: Record) -> None:
    """Write the volume of messages (of one point), or of groups at each point of a study, as bars."""
    sent = [row for row in rows if row["group"]]
    if not sent:
        raise ConfigError("there is nothing to draw: nothing is sent")
    names = [name for axis in meta.get("axes", ()) for name in axis]
    pairs = [(f"{picture.label(names, [row[name] for name in names])} {row.get('message', row['group'])}".strip(),
              row["volume_bytes"] / GB) for row in sent]  # fmt: skip
    out.write("\nvolume in a step and device (an all-reduce counts twice)\n\n")
    _write_bars(out, pairs, max(size for _, size in pairs), "GB")


def _write_bars(out: IO[str], pairs: Sequence[tuple[str, float | None]], longest: float, unit: str) -> None:
    if len(pairs) > MOST:
        raise ConfigError(f"{len(pairs):,} bars are more than the {MOST} that can be read; give fewer values")
    left = max(len(name) for name, _ in pairs)
    room = max((WIDTH.get() or terminal_width()) - left - 4 - len("12.345 ") - len(unit), 8)
    for name, number in pairs:
        shown = "-" if number is None else f"{number:.4g} {unit}"
        out.write(f"{name:<{left}}  {bar((number or 0.0) / longest if longest else 0.0, room)} {shown}".rstrip() + "\n")


def _write_heat(out: IO[str], rows: Sequence[Record], view: Record, scale: float, span: tuple[float, float]) -> None:
    x, y, value = view["x"], view["y"], view["value"]
    cells = {(row[x], row[y]): picture.number(row[value]) for row in rows}
    across, down = (list(dict.fromkeys(row[name] for row in rows)) for name in (x, y))
    heads = [picture.short(x, each) for each in across]
    wide = max(6, *(len(head) for head in heads))
    left = max(len(y), *(len(picture.short(y, each)) for each in down))
    fit = max(((WIDTH.get() or terminal_width()) - left - 2) // (wide + 3), 1)
    shades = SHADES if _has_blocks() else PLAIN_SHADES
    low, high = span
    for start in range(0, len(across), fit):
        out.write(f"{y:<{left}}  " + "".join(f"{head:>{wide + 2}} " for head in heads[start : start + fit]) + f" {x}\n")
        for each in down[:MOST]:
            line = f"{picture.short(y, each):<{left}}  "
            for place in across[start : start + fit]:
                number = cells.get((place, each))
                step = 0 if number is None else round((len(shades) - 1) * (number / scale - low) / ((high - low) or 1))
                line += shades[step] * 2 + (f"{'-':>{wide}} " if number is None else f"{number / scale:>{wide}.3g} ")
            out.write(line.rstrip() + "\n")


def bar(share: float, room: int) -> str:
    """Return a bar that is a share of ``room`` characters long, to an eighth of one.

    >>> bar(0.5, 5), bar(0.0, 5)
    ('██▌', '')
    """
    eighths = round(8 * room * min(max(share, 0.0), 1.0))
    if not _has_blocks():
        return "#" * round(eighths / 8)
    return "█" * (eighths // 8) + EIGHTHS[eighths % 8]


def _has_blocks() -> bool:
    """Return whether standard output has letters for blocks."""
    try:
        "█▏░".encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
