"""Quantities with units, as a person writes them: ``450 GB/s``, ``400 Gb/s``, ``5 us``, ``80 GiB``.

Case matters (``b`` is a bit, ``B`` a byte); decimal prefixes are powers of 1000, binary ones (``Ki``) of 1024.
Inside the package every number is SI: bytes, bytes/s, seconds, FLOP/s.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal

MIB = 2.0**20
GIB = 2.0**30
DAY_S, HOUR_S = 86400.0, 3600.0

_DECIMAL = {"": 1, "K": 10**3, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_BYTES = {**_DECIMAL, **_BINARY}

# Decimal, so that 5 us is exactly the float 5e-6.
_SCALES: dict[str, dict[str, int | str]] = {
    "FLOP/s": {f"{p}FLOP/s": s for p, s in _DECIMAL.items()},
    "bytes": {f"{p}B": s for p, s in _BYTES.items()},
    "bytes/s": {
        **{f"{p}B/s": s for p, s in _BYTES.items()},
        **{f"{p}b/s": str(Decimal(s) / 8) for p, s in _BYTES.items()},
    },
    "seconds": {
        "s": 1,
        "ms": "1e-3",
        "us": "1e-6",
        "\N{MICRO SIGN}s": "1e-6",
        "\N{GREEK SMALL LETTER MU}s": "1e-6",
        "ns": "1e-9",
    },
}
UNITS: dict[str, dict[str, Decimal]] = {
    kind: {unit: Decimal(scale) for unit, scale in units.items()} for kind, units in _SCALES.items()
}
EXAMPLES = {"FLOP/s": "181 TFLOP/s", "bytes": "80 GiB", "bytes/s": "450 GB/s", "seconds": "5 us"}

# The unit each kind of quantity is shown in.
DISPLAY = {"FLOP/s": "TFLOP/s", "bytes": "GiB", "bytes/s": "GB/s", "seconds": "us"}

_QUANTITY = re.compile(r"\s*([-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)\s*([^\s\d].*?)?\s*$")


def parse_quantity(text: object, kind: str) -> float:
    """Return the SI value of ``text``, a number with a unit of the given kind.

    Parameters: ``text`` as read from a file; ``kind`` one of ``FLOP/s``, ``bytes``, ``bytes/s``, ``seconds``.
    Raises ``ValueError`` with what is wrong and what is allowed.

    >>> parse_quantity("450 GB/s", "bytes/s")
    450000000000.0
    >>> parse_quantity("400 Gb/s", "bytes/s")
    50000000000.0
    >>> parse_quantity("5 us", "seconds")
    5e-06
    """
    units, example = UNITS[kind], EXAMPLES[kind]
    if isinstance(text, bool) or not isinstance(text, (str, int, float)):
        raise ValueError(f"must be a quantity in {kind}, such as '{example}'")
    match = _QUANTITY.match(text) if isinstance(text, str) else None
    if match is None or match.group(2) is None:
        problem = "has no unit" if not isinstance(text, str) or match else "is not a number with a unit"
        raise ValueError(f"'{text}' {problem}; write it as '{example}'")
    unit = match.group(2).strip()
    if unit not in units:
        lower = {name.lower(): name for name in units}
        hint = f"; did you mean '{lower[unit.lower()]}'? (case matters)" if unit.lower() in lower else ""
        raise ValueError(f"'{unit}' is not a unit of {kind}{hint}; write it as '{example}'")
    try:
        value = float(Decimal(match.group(1)) * units[unit])
    except ArithmeticError:
        value = math.inf
    if not math.isfinite(value):
        raise ValueError(f"'{text}' is too large; write it as '{example}'")
    return value


def format_quantity(value: float, kind: str) -> str:
    """Return ``value`` (SI) in the unit tables use for its kind; ``parse_quantity`` reads it back.

    >>> format_quantity(181e12, "FLOP/s")
    '181 TFLOP/s'
    >>> format_quantity(0.8e-6, "seconds")
    '0.8 us'
    """
    unit = DISPLAY[kind]
    number = float(Decimal(repr(float(value))) / UNITS[kind][unit])
    short = f"{number:.12g} {unit}"
    return short if parse_quantity(short, kind) == value else f"{number!r} {unit}"
