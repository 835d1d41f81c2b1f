"""A fitted profile as a file: what it extends, the numbers found, and what they are from."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from comp_comm.calibration.fit import Fit
from comp_comm.configs import catalogue
from comp_comm.hardware.profile import Number
from comp_comm.printable import visible
from comp_comm.records import Record
from comp_comm.units import UNITS, format_quantity

DIGITS = 4


def profile_text(fit: Fit, extends: str, path: str, sources: Mapping[str, str], date: str) -> str:
    """Return a YAML profile that extends another with the numbers of a fit, and what each operator's are from."""
    name = Path(path).stem.lower().replace(" ", "-")
    lines = [
        "# Written by compcomm calibrate: every number below was fitted; all others are those of what it extends",
        f"name: {_text(name)}",
        f"title: {_text(f'{fit.profile.title}, calibrated')}",
        f"extends: {_text(_reference(extends, path))}",
        "sources:",
    ]
    lines += [f"  {name}: {{text: {_text(source)}, date: {_text(date)}}}" for name, source in sources.items()]
    nested: dict[str, dict[str, list[str]]] = {"network": {}, "attention": {}}
    timing = []
    for key, fitted in fit.values.items():
        words = f"value: {shown(fit.profile.numbers[key])}, source: {fitted.operator}, certainty: calibrated"
        line = f"{key.rsplit('.', 1)[-1]}: {{{words}}}"
        if key.startswith("timing."):
            timing.append(f"  {line}")
        else:
            block, name, _ = key.split(".")
            nested[block].setdefault(name, []).append(f"    {line}")
    order = {name: place for place, name in enumerate(fit.profile.tiers)}
    for block, parts in nested.items():
        if parts:
            names = sorted(parts, key=lambda name: order.get(name, 0))
            lines += [f"{block}:", *(line for name in names for line in (f"  {name}:", *parts[name]))]
    if timing:
        lines += ["timing:", *timing]
    if fit.profile.presets:
        lines.append("default_timing: null  # the numbers above, not a preset of the profile it extends")
    return "\n".join(lines) + "\n"


def shown(number: Number) -> str:
    """Return a number as a profile writes it, in four digits.

    >>> shown(Number(8.123456e-06, "seconds")), shown(Number(0.123456, "share"))
    ('8.123 us', '0.1235')
    """
    value = float(f"{number.value:.{DIGITS}g}")
    if number.kind == "bytes":
        return f"{value / 2**10:.{DIGITS}g} KiB"
    return format_quantity(value, number.kind) if number.kind in UNITS else f"{value:.{DIGITS}g}"


def source_texts(logs: Sequence[str], rows: Sequence[Record], how: str) -> dict[str, str]:
    """Return what each operator's numbers are from: how many rows, of which files, and how far off the fit is.

    >>> row = {"operator": "gemm", "collective": None, "n": 9, "mean_abs_error": 0.05, "p90_abs_error": 0.1}
    >>> source_texts(["a/b.csv"], [row], "held out")
    {'gemm': 'compcomm calibrate on b.csv: 9 gemm, mean error 5.0 %, 90th percentile 10.0 % (held out)'}
    """
    names = ", ".join(Path(log).name for log in logs)
    texts = {}
    for operator in dict.fromkeys(row["operator"] for row in rows):
        what = "; ".join(
            f"{row['n']:,} {row['collective'] or operator}, mean error {100 * row['mean_abs_error']:.1f} %, "
            f"90th percentile {100 * row['p90_abs_error']:.1f} %"
            for row in rows if row["operator"] == operator
        )  # fmt: skip
        texts[operator] = f"compcomm calibrate on {names}: {what} ({how})"
    return texts


def _text(value: str) -> str:
    return json.dumps(visible(value), ensure_ascii=False)


def _reference(extends: str, path: str) -> str:
    """Return how a file at ``path`` names the profile it extends: by its name, or by a path from its own folder."""
    if extends in catalogue.names("hardware"):
        return extends
    folder = Path(path).resolve().parent
    return os.path.relpath(Path(extends).resolve(), folder).replace(os.sep, "/") if Path(extends).exists() else extends
