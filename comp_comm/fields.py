"""The one field table: every quantity a study may set or sweep.

YAML validation, command-line flags, ``--set``, column help and "did you mean" all read it. A cost model says
which of these fields it models; what it does not model it refuses.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Real
from typing import Literal

Value = int | float | str

PRECISION_BYTES = {"fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "fp8": 1}
COUNTS = ("complete", "paper_exact")

_SUFFIX = re.compile(r"([-+]?[0-9]+(?:\.[0-9]+)?)\s*([KM])$")
_BINARY_SUFFIX = {"K": 1024, "M": 1024**2}


@dataclass(frozen=True)
class Field:
    """One field: its name, type, bounds and meaning.

    ``low`` and ``high`` are inclusive; ``words`` are values that are not numbers (all of them, for a choice); ``solve``
    is the span `compcomm solve` searches.
    """

    name: str
    group: Literal["transformer", "layout", "evolution", "convention"]
    kind: Literal["int", "float", "choice"]
    help: str
    unit: str = ""
    low: float = 1
    high: float = 1e9
    words: tuple[str, ...] = ()
    default: Value | None = None
    solve: tuple[float, float] | None = None

    @property
    def flag(self) -> str:
        """The command-line flag of this field."""
        return "--" + self.name.replace("_", "-")

    def allowed(self) -> str:
        """Return what a value may be, in words."""
        if self.kind == "choice":
            return "one of: " + ", ".join(self.words) if self.words else "a name"
        number = "a whole number" if self.kind == "int" else "a number"
        extra = f", or '{self.words[0]}'" if self.words else ""
        suffix = " (1K = 1024)" if self.kind == "int" else ""
        return f"{number} from {_short(self.low)} to {_short(self.high)}{suffix}{extra}"

    def parse(self, raw: object) -> Value:
        """Return ``raw`` (as YAML or a flag gives it) as a value of this field.

        Raises ``ValueError`` saying what is wrong and what is allowed.

        >>> FIELDS["hidden"].parse("64K")
        65536
        """
        if self.kind == "choice":
            if isinstance(raw, str) and (raw in self.words or not self.words):
                return raw
            raise ValueError(f"{_show(raw)} is not allowed; must be {self.allowed()}")
        if isinstance(raw, str) and raw in self.words:
            return raw
        return self.check(self.number(raw))

    def check(self, number: float) -> int | float:
        """Return ``number`` if it is within this field's bounds, as int for a whole-number field."""
        if not math.isfinite(number):
            raise ValueError(f"must be a finite number, not {number}")
        if self.kind == "int" and number != int(number):
            raise ValueError(f"{_short(number)} is not a whole number; must be {self.allowed()}")
        if not self.low <= number <= self.high:
            raise ValueError(f"{_short(number)} is out of range; must be {self.allowed()}")
        return int(number) if self.kind == "int" else float(number)

    def number(self, raw: object) -> float:
        """Return ``raw`` as a number, its suffix counted, its bounds not checked; ``ValueError`` where it is none."""
        if isinstance(raw, str):
            match = _SUFFIX.match(raw.strip())
            if match and self.kind == "int":
                return float(match.group(1)) * _BINARY_SUFFIX[match.group(2)]
        elif isinstance(raw, Real) and not isinstance(raw, bool):
            try:
                return float(raw)
            except OverflowError:
                raise ValueError(f"is out of range; must be {self.allowed()}") from None
        raise ValueError(f"{_show(raw)} is not a number; must be {self.allowed()}")


def _short(number: float) -> str:
    return f"{int(number):,}" if number == int(number) and abs(number) < 1e12 else f"{number:g}"


def _show(raw: object) -> str:
    if raw is None:
        return "an empty value"
    if isinstance(raw, (list, dict)):
        return "a list" if isinstance(raw, list) else "a mapping"
    return f"'{str(raw).lower() if isinstance(raw, bool) else str(raw)[:60]}'"


def _factor(name: str, help_text: str) -> Field:
    return Field(name, "evolution", "float", help_text, low=1e-9, high=1e9, default=1.0, solve=(1e-4, 1e4))


_TABLE = (
    Field("hidden", "transformer", "int", "hidden (model) dimension, H", high=2**24, solve=(64, 2**24)),
    Field("seq_len", "transformer", "int", "sequence length, SL", "tokens", high=2**30, solve=(16, 2**27)),
    Field("layers", "transformer", "int", "layers of the model (only 'tp: required' needs them here)", high=1e5),
    Field("parameters", "transformer", "float", "parameters of the model, for 'tp: required'; 12 L H^2 if not given",
          low=1, high=1e16),
    Field("micro_batch", "layout", "int", "sequences in a micro-batch, B", high=2**20, solve=(1, 2**20)),
    Field("tp", "layout", "int", "tensor-parallel degree, TP; 'required' takes Eq 10 and the next divisor of hidden",
          high=2**24, words=("required",), solve=(1, 2**20)),
    Field("dp", "layout", "int",
          "data-parallel degree; not given: many replicas on intra-node links, as the paper estimates", high=2**24),
    _factor("flop_vs_bw", "FLOP/s relative to the network: compute is this much faster, the network unchanged"),
    _factor("flops", "factor on the FLOP/s of a device"),
    _factor("network", "factor on the bandwidth of every network tier"),
    _factor("memory_bandwidth", "factor on the HBM bandwidth (memory-bound work only)"),
    _factor("memory_capacity", "factor on the HBM capacity (for 'tp: required')"),
    Field("precision", "convention", "choice", "number format of compute and messages", words=tuple(PRECISION_BYTES),
          default="fp16"),
    Field("count", "convention", "choice", "GEMMs counted: the whole layer, or as the paper's Eqs 1-3 print them",
          words=COUNTS, default="complete"),
    Field("timing", "convention", "choice", "a named timing preset of the hardware profile; its default if not given"),
    Field("memory_scaling", "convention", "float", "device memory over the base model's device, s of Eq 10; "
          "device memory over 32 GiB if not given", low=1e-6, high=1e6),
    Field("inter_node_slowdown", "convention", "float", "how many times less bandwidth the data-parallel links have",
          low=1, high=1e6, default=1.0, solve=(1, 1e4)),
    Field("interference", "convention", "float", "slowdown of overlapped communication by running beside compute",
          low=1, high=1e6, default=1.0, solve=(1, 1e4)),
)  # fmt: skip

FIELDS: dict[str, Field] = {field.name: field for field in _TABLE}


def solvable(names: Iterable[str]) -> list[str]:
    """Return those of ``names`` that have a span to be solved over.

    >>> solvable(["tp", "count"])
    ['tp']
    """
    return [name for name in names if FIELDS[name].solve is not None]
