"""Tables a person reads: long ones, and pivots of one value over two sets of axes."""

from __future__ import annotations

import math
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

from comp_comm.costmodels import COST_MODELS, all_columns
from comp_comm.errors import so_many
from comp_comm.fields import FIELDS
from comp_comm.records import Record
from comp_comm.report.fitting import blocks, fit
from comp_comm.report.machine import Batches, as_records
from comp_comm.report.output import LEFT_OUT, WIDTH, is_piped, may_leave_out

STYLES = {"table": "simple", "markdown": "pipe"}  # as tabulate names them
BINARY_FIELDS = ("hidden", "seq_len")
SCALES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))
NOTHING = "-"
SHARES = ("mfu", "hfu")
ALWAYS_SAID = ("global_batch", "micro_batch", "seq_len", "precision")
CONVENTIONS_SAID = ("count", "timing", "memory_scaling")
HEADER_WIDTH, LINE_WIDTH = 13, 118
MAX_REASONS = 5  # below a pivot


def write_table(out: IO[str], batches: Batches, columns: Sequence[str], meta: Record, style: str = "table") -> None:
    """Write a long table: title, what is the same in every row, and the columns that differ."""
    rows = as_records(batches)
    all_feasible = all(row.get("feasible", True) for row in rows)
    shown = [name for name in columns if not (all_feasible and name in ("feasible", "reason"))]
    shown = shown or list(columns)
    moving = {name for axis in meta.get("axes", ()) for name in axis}
    same = [name for name in shown if name in FIELDS and name not in moving and len({row[name] for row in rows}) < 2]
    write_heading(out, meta, {name: rows[0][name] for name in same} if rows else {}, style)
    write_records(out, rows, [name for name in shown if name not in same] or shown, style)


def write_records(
    out: IO[str], rows: Sequence[Mapping[str, object]], columns: Sequence[str], style: str = "table"
) -> None:
    """Write records as a table, each column in a unit its header names."""
    formats = [column_format(name, [row[name] for row in rows]) for name in columns]
    cells = [[show(row[name]) for name, (_, show) in zip(columns, formats, strict=True)] for row in rows]
    _write_cells(out, cells, [header for header, _ in formats], columns, style)


def write_texts(out: IO[str], rows: Sequence[Mapping[str, str]], style: str = "table") -> None:
    """Write records of texts as a table: they are shown as they are, under their names."""
    columns = list(rows[0])
    _write_cells(out, [[row[name] for name in columns] for row in rows], columns, columns, style)


def _write_cells(
    out: IO[str], cells: Sequence[Sequence[str]], headers: Sequence[str], columns: Sequence[str], style: str
) -> None:
    """Write cells under their headers; what does not fit is told by the names of its ``columns``."""
    if style != "table":
        out.write(_lines(cells, headers, style))
        return
    shown, headers, left_out = fit(cells, [_folded(h) for h in headers], columns, WIDTH.get(),
                                   [*FIELDS, "hardware"], may_leave_out())  # fmt: skip
    out.write(_lines(shown, headers, style))
    if left_out:
        names = ", ".join(left_out)
        more = f"{len(left_out)} more column{'s' * (len(left_out) > 1)} (wider terminal, or --format csv): {names}"
        write_line(out, more, style)
        if is_piped():
            LEFT_OUT.set(tuple(dict.fromkeys((*LEFT_OUT.get(), *left_out))))


def write_pivot(out: IO[str], batches: Batches, view: Record, meta: Record, style: str = "table") -> None:
    """Write one value over rows and a column axis, one block of the table for each value of ``per``."""
    rows = as_records(batches)
    value, across, down, per = view["value"], view["columns"], view["rows"], view["per"]
    header, show = column_format(value, [row[value] for row in rows])
    write_heading(out, meta, {}, style)
    meaning = all_columns()[value].help if value in all_columns() else ""
    write_line(out, f"{header}{': ' + meaning if meaning else ''}", style)
    wide = list(dict.fromkeys(row[across] for row in rows))
    for key in dict.fromkeys(tuple(row[name] for name in per) for row in rows):
        part = [row for row in rows if tuple(row[name] for name in per) == key]
        if per:
            out.write("\n" + ", ".join(f"{n} = {_short(v)}" for n, v in zip(per, key, strict=True)) + "\n")
        cells: dict[tuple[Any, ...], dict[Any, str]] = {}
        for row in part:
            cells.setdefault(tuple(row[name] for name in down), {})[row[across]] = show(row[value])
        formats = [column_format(name, [row[name] for row in rows])[1] for name in down]
        lines = [
            [*(f(v) for f, v in zip(formats, left, strict=True)), *(line.get(x, NOTHING) for x in wide)]
            for left, line in cells.items()
        ]
        _write_blocks(out, lines, down, [f"{across} {_short(x)}" for x in wide], style)
    _write_blanks(out, [row for row in rows if row[value] is None], style)


def _write_blocks(
    out: IO[str], lines: Sequence[Sequence[str]], down: Sequence[str], wide: Sequence[str], style: str
) -> None:
    """Write one block of a pivot, in several tables below each other where one would be too wide."""
    many = len(down)
    headed = [max(_folded(header).split("\n"), key=len) for header in (*down, *wide)]
    sizes = [max(len(text) for text in texts) for texts in zip(headed, *lines, strict=True)]
    left = sum(sizes[:many]) + 2 * max(many - 1, 0)
    for part in blocks(sizes[many:], left, WIDTH.get() if style == "table" else 0):
        places = [*range(many), *range(many, many + len(wide))[part]]
        headers = [_folded(h) if style == "table" else h for h in (*down, *wide[part])]
        out.write("\n" + _lines([[line[i] for i in places] for line in lines], headers, style))


def _write_blanks(out: IO[str], blank: Sequence[Record], style: str) -> None:
    """Say below a pivot why points in it have no value."""
    reasons = Counter(reason for row in blank if row.get("reason") for reason in row["reason"].split("; "))
    if not reasons:
        return
    mark, begin = ("- ", "") if style == "markdown" else ("  ", "-: ")
    out.write(f"\n{begin}infeasible: {so_many(len(blank), 'point')}, by reason (a point may have several)\n")
    out.write("\n" if style == "markdown" else "")
    for reason, count in reasons.most_common(MAX_REASONS):
        write_line(out, f"{mark}{count:,}: {reason}", style)
    if len(reasons) > MAX_REASONS:
        write_line(out, f"{mark}and {len(reasons) - MAX_REASONS} other reasons", style)


def write_heading(out: IO[str], meta: Record, same: Record, style: str) -> None:
    """Write the title and the conventions the numbers were made under."""
    title = meta.get("title", "")
    out.write(f"## {title}\n\n" if style == "markdown" else f"{title}\n")
    write_line(out, setup_line(meta, same, _short), style)
    out.write("\n" if style == "markdown" else "")


def setup_line(meta: Record, same: Record | None = None, show: Callable[[object], str] | None = None) -> str:
    """Return model, devices, batch, sequence length and precision, then the cost model and other fixed values.

    What a model of the catalogue brings is said by its name, and what is left at its default says nothing; of what is
    always said, only what moves along an axis is not.
    """
    show = show or _short
    given = {**_by_default(meta), **meta.get("derived", {}), **meta.get("fixed", {}), **(same or {})}
    brought = meta.get("model_fields", {})
    devices = ", ".join(meta.get("hardware", {})) or ("devices" if "hardware_assumed" in meta else "")
    if "gpus" in given:
        devices = f"{given['gpus']} {devices}" if len(meta.get("hardware", {})) < 2 else f"{given['gpus']} of {devices}"
    said = [" on ".join(text for text in (meta.get("model") or "", devices) if text)]
    said += [f"{name} {_amount(name, given[name], show)}" for name in ALWAYS_SAID if name in given]
    told = {name: value for name, value in given.items()
            if name in meta.get("fixed", {}) or name in (same or {})
            if name in CONVENTIONS_SAID or (value != FIELDS[name].default and brought.get(name) != value)}  # fmt: skip
    said.append(meta.get("cost_model", ""))
    said += [
        f"{name} {_amount(name, value, show)}" for name, value in told.items() if name not in (*ALWAYS_SAID, "gpus")
    ]
    return "; ".join(text for text in said if text)


def _by_default(meta: Record) -> Record:
    """Return the precision of an answer whose meta block does not say it: the cost model's own."""
    model = COST_MODELS.get(meta.get("cost_model", ""))
    moving = {name for axis in meta.get("axes", ()) for name in axis}
    word = model.default("precision") if model and "precision" not in moving else None
    return {} if word is None else {"precision": word}


def _amount(name: str, value: Any, show: Callable[[object], str]) -> str:
    """Return a value, of what is counted in 1024 (a sequence's tokens, say) as people write it."""
    if name in BINARY_FIELDS and isinstance(value, int) and value % 1024 == 0:
        return f"{value // 1024}K"
    return f"{value / 1e12:.4g}T" if name == "tokens" else show(value)


def write_line(out: IO[str], text: str, style: str = "table") -> None:
    """Write a line of prose, folded where a terminal would end."""
    width = min(LINE_WIDTH, (WIDTH.get() or LINE_WIDTH + 2) - 2)
    if style == "table":
        text = textwrap.fill(text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    out.write(text + "\n")


def in_seconds(name: str) -> bool:
    """Return whether a column is seconds: by its unit, or by its name where no cost model has it.

    >>> in_seconds("step_s"), in_seconds("tokens_per_s")
    (True, False)
    """
    column = all_columns().get(name)
    return name.endswith("_s") and (column.unit == "s" if column else not name.endswith("_per_s"))


def column_format(name: str, values: Sequence[Any]) -> tuple[str, Callable[[Any], str]]:
    """Return a column's header, with its unit, and how its values are shown.

    >>> header, show = column_format("compute_s", [0.0012, 0.5e-3])
    >>> header, show(0.0012)
    ('compute (ms)', '1.2')
    >>> column_format("tokens_per_s", [2.5e5])[0]
    'tokens_per_s (tokens/s)'
    """
    numbers = [v for v in values if isinstance(v, (int, float)) and not isinstance(v, bool)]
    if name.endswith("_fraction") or name in SHARES:
        return f"{name} (%)", lambda v: _or_nothing(v, lambda x: f"{100 * x:.1f}")
    if in_seconds(name):
        scale, unit = _seconds_scale(numbers)
        return f"{name[:-2]} ({unit})", lambda v: _or_nothing(v, lambda x: f"{x / scale:.4g}")
    if name == "parameters":
        return "parameters (1e9)", lambda v: _or_nothing(v, lambda x: f"{x / 1e9:.4g}")
    if name in BINARY_FIELDS and numbers and all(v % 1024 == 0 for v in numbers):
        return name, lambda v: _or_nothing(v, lambda x: f"{int(x) // 1024}K")
    unit = all_columns()[name].unit if name in all_columns() and not name.endswith("_per_byte") else ""
    return name if unit in ("", name) else f"{name} ({unit})", lambda v: _or_nothing(v, _short)


def _seconds_scale(numbers: Sequence[float]) -> tuple[float, str]:
    positive = sorted(v for v in numbers if v > 0)
    middle = positive[len(positive) // 2] if positive else 1.0
    return next((item for item in SCALES if middle >= item[0]), SCALES[-1])


def _or_nothing(value: Any, show: Callable[[Any], str]) -> str:
    return NOTHING if value is None else show(value)


def _short(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:.0f}" if 1e3 <= abs(value) < 1e7 else f"{value:.4g}"
    return str(value)


def _lines(cells: Sequence[Sequence[str]], headers: Sequence[str], style: str) -> str:
    import tabulate  # here: a tenth of a command's start, and other formats do without

    words = [any(_is_word(row[i]) for row in cells) for i in range(len(headers))]
    align = ["left" if word else "right" for word in words] if cells else None
    padding, tabulate.MIN_PADDING = tabulate.MIN_PADDING, 0  # two blanks between columns are enough
    try:
        text = tabulate.tabulate(cells, headers, tablefmt=STYLES[style], disable_numparse=True, colalign=align)
    finally:
        tabulate.MIN_PADDING = padding
    return f"{text}\n"


def _folded(header: str) -> str:
    """Return a header in lines of a dozen characters or so, broken after underscores and before its unit.

    >>> _folded("serialized_comm_fraction (%)").split("\\n")
    ['serialized_', 'comm_fraction', '(%)']
    """
    lines: list[str] = [""]
    for part in re.split(r"(?<=_)| (?=\()", header):
        if lines[-1] and len(lines[-1]) + len(part) > HEADER_WIDTH:
            lines.append("")
        joint = " " if part.startswith("(") and lines[-1] else ""
        lines[-1] += joint + part
    return "\n".join(lines)


def _is_word(text: str) -> bool:
    return not (text == NOTHING or text[:1].isdigit() or text[:2].lstrip("-")[:1].isdigit())
