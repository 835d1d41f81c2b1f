"""Where, between two numbers of devices, the best layout passes a value, or one kind of layouts overtakes another."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from itertools import pairwise

from comp_comm.errors import ConfigError, one_of
from comp_comm.field import Value
from comp_comm.fields import FIELDS
from comp_comm.other_names import nearest_name
from comp_comm.records import Record, Records
from comp_comm.searches.answer_rows import number_columns
from comp_comm.searches.objectives import OBJECTIVES
from comp_comm.searches.per_value import check_per
from comp_comm.searches.result import SearchAnswer
from comp_comm.searches.space import SearchSpace
from comp_comm.structs import struct
from comp_comm.sweeps.prices import Prices
from comp_comm.sweeps.where import FLAGS, Condition, parse_condition

FORM = "--crossover: COLUMN=VALUE (visible_comm_fraction=30%) or KIND:KIND, each conditions on fields of a layout " \
       "joined by commas (zero==3,tp==1:tp>1)"  # fmt: skip
SHARES = ("mfu", "hfu", "_fraction")  # how columns end that are shares
OF_LAYOUT = [name for name, field in FIELDS.items() if field.group == "layout"]
WORDED = [name for name in OF_LAYOUT if FIELDS[name].kind not in ("int", "float")]
# Columns that only some searches have, and what gives them.
NEEDS = {
    **dict.fromkeys(("days", "gpu_hours"), ", as the tokens of the run are not given: --tokens"),
    **dict.fromkeys(("cost", "cost_per_million_tokens"),
                    ", but cost_per_million_tokens is one with --price-per-gpu-hour"),
    **dict.fromkeys(("energy", "energy_kwh_per_million_tokens"),
                    ", but energy_kwh_per_million_tokens is one with --watts"),
    "cost_of_run": ": it takes --tokens and --price-per-gpu-hour",
    "energy_kwh_of_run": ": it takes --tokens and --watts",
}  # fmt: skip
Kind = tuple[Condition, ...]


@struct
class Crossover:
    """What is asked: where the best layout's ``column`` is ``value``; or, of two ``kinds``, where the first is as good
    as the second."""

    text: str
    column: str = ""
    value: float = 0.0
    kinds: tuple[Kind, ...] = ()

    @property
    def fields(self) -> tuple[str, ...]:
        """Fields of a layout that tell kinds apart."""
        return tuple(dict.fromkeys(name for kind in self.kinds for part in kind for name in part.columns))

    def side(self, result: SearchAnswer) -> float | None:
        """Return how far a search is above the value, or by how many percent its second kind is behind the first.

        None where nothing fits.
        """
        if self.kinds:
            first, second = (_behind(kind, result) for kind in self.kinds)
            return None if first is None or second is None else second - first
        if not result["rows"]:
            return None
        return float(result["rows"][0][self.column]) - self.value

    def check(self, space: SearchSpace, prices: Prices) -> None:
        """Raise ``ConfigError`` for a column that rows of a search will not have, or a field that it does not try."""
        if self.kinds:
            check_per(space, self.fields, "--crossover")
            return
        numbers = number_columns(space, prices)
        if self.column not in numbers:
            words = [name for name, each in OBJECTIVES.items() if each.column in numbers and not each.needs]
            hint = NEEDS.get(self.column) or nearest_name(self.column, [*words, *numbers])
            raise ConfigError(f"--crossover: '{self.column}' is no number of a row{hint} ({one_of(numbers)})")


def crossover_of(text: str) -> Crossover:
    """Return what a text asks for. Raises ``ConfigError`` for what is no such question.

    >>> crossover_of("visible_comm_fraction=30%").value, crossover_of("zero==3,tp==1:tp>1").fields
    (0.3, ('zero', 'tp'))
    >>> crossover_of("comm=30%").column  # objectives go by their names
    'visible_comm_fraction'
    """
    kinds = text.split(":")
    if len(kinds) == 2:
        return Crossover(text, kinds=tuple(_kind(kind) for kind in kinds))
    column, equals, number = (part.strip() for part in text.partition("="))
    share = 100.0 if number.endswith("%") else 1.0
    try:
        value = float(number.removesuffix("%")) / share
    except ValueError:
        value = float("inf")
    column = OBJECTIVES[column].column if column in OBJECTIVES and not OBJECTIVES[column].needs else column
    if len(kinds) > 2 or not column or not equals or not abs(value) < float("inf"):
        raise ConfigError(f"{FORM}, not '{text}'")
    if value > 1 and column.endswith(SHARES):
        raise ConfigError(f"--crossover: {column} is a share, at most 1, not {value:g}: write 30% or 0.3")
    if value < 0 and column.endswith(SHARES):
        raise ConfigError(f"--crossover: {column} is a share, at least 0, not {value:g}")
    return Crossover(text, column, value)


def _kind(text: str) -> Kind:
    try:
        return tuple(_condition(part) for part in text.split(","))
    except ValueError as error:
        raise ConfigError(f"--crossover: {error}") from None


def _condition(text: str) -> Condition:
    """Return a condition on fields of a layout. Raises ``ValueError`` for a value that its field cannot have."""
    condition = parse_condition(text, OF_LAYOUT, WORDED)
    if condition.columns == FLAGS:
        raise ValueError(f"'{text.strip()}' is no field of a layout: those that are compared all are")
    for name in condition.columns:
        for operand in (condition.left, condition.right):
            if operand in condition.columns or condition.compare not in (operator.eq, operator.ne):
                continue
            try:
                FIELDS[name].parse(operand)
            except ValueError as error:
                raise ValueError(f"{text.strip()}: {name} {error}") from None
    return condition


def _behind(kind: Kind, result: SearchAnswer) -> float | None:
    """Return by how many percent the best layout of a kind is behind the best of all."""
    per = result["per"] or {"rows": []}
    behind = [row["behind_percent"] for row in per["rows"] if row["behind_percent"] is not None
              and all(part.holds(row.__getitem__) for part in kind)]  # fmt: skip
    return min(behind, default=None)


def crossings(asked: Crossover, places: Sequence[Mapping[str, Value]], results: Sequence[SearchAnswer]) -> Records:
    """Return where searches of rising numbers of devices cross what is asked for, with what was found on both sides.

    One record a crossing: what else the searches are of, ``after`` and ``at`` (numbers of devices), and at each of
    them the column, or by how many percent the second kind is behind the first (less than 0 where it is ahead). Where
    nothing is crossed, one record says so in its ``reason``.
    """
    lines: dict[tuple[tuple[str, Value], ...], list[tuple[int, float | None]]] = {}
    for place, result in zip(places, results, strict=True):
        others = tuple((name, value) for name, value in place.items() if name != "gpus")
        lines.setdefault(others, []).append((int(result["meta"]["gpus"]), asked.side(result)))
    return [record for others, sides in lines.items() for record in _of_line(asked, dict(others), sorted(sides))]


def _of_line(asked: Crossover, others: Record, line: Sequence[tuple[int, float | None]]) -> Records:
    name = "second_behind_percent" if asked.kinds else asked.column

    def told(side: float) -> float:
        return side if asked.kinds else side + asked.value

    sides = [(gpus, side) for gpus, side in line if side is not None]
    records = [
        {**others, "after": before, "at": gpus, f"{name}_after": told(low), f"{name}_at": told(high), "reason": None}
        for (before, low), (gpus, high) in pairwise(sides) if (low < 0) != (high < 0)
    ]  # fmt: skip
    if records:
        return records
    blank = dict.fromkeys(("after", "at", f"{name}_after", f"{name}_at"))
    if not sides:
        return [{**others, **blank, "reason": "nothing fits, or not of both kinds"}]
    (first, low), (last, high) = sides[0], sides[-1]
    stays = f"not crossed: {name} is {told(low):.4g} on {first:,} devices, {told(high):.4g} on {last:,}"
    return [{**others, **blank, "reason": stays}]
