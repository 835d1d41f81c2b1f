"""Conditions on rows: comparisons of columns, numbers and words. Nothing is evaluated as code."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comp_comm.errors import nearest, one_of
from comp_comm.formulas.arrays import AnyArray
from comp_comm.structs import struct

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "<=": operator.le, ">=": operator.ge, "==": operator.eq, "!=": operator.ne, "<": operator.lt, ">": operator.gt
}  # fmt: skip
WORDS = ("hardware", "precision", "count", "timing")
FLAGS = ("feasible",)

_COMPARISON = r"\s*([\w.+-]+)\s*(<=|>=|==|!=|<|>)\s*([\w.+-]+)\s*$"
_FLAG = r"\s*(not\s+)?(\w+)\s*$"
_NUMBER = r"([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)([KM]?)$"
_SUFFIX = {"": 1.0, "K": 1024.0, "M": 1024.0**2}


@struct
class Condition:
    """One condition: an operator and two operands, each a column's name, a number, or a word."""

    text: str
    left: str | float
    compare: Callable[[Any, Any], Any]
    right: str | float
    columns: tuple[str, ...]

    def holds(self, column: Callable[[str], AnyArray]) -> NDArray[np.bool_]:
        """Return where the condition holds; ``column`` gives the values of a column by name."""
        left, right = (column(operand) if operand in self.columns else operand for operand in (self.left, self.right))
        return np.asarray(self.compare(left, right), dtype=bool)


def parse_condition(text: str, columns: Sequence[str], words: Collection[str] = WORDS) -> Condition:
    """Return the condition that ``text`` states about the given columns, of which some are of ``words``.

    Raises ``ValueError`` for what is not a comparison of columns and numbers, or names an unknown column.

    >>> parse_condition("tp <= 4K", ["tp"]).right
    4096.0
    >>> parse_condition("sp == on", ["sp"], ["sp"]).right
    'on'
    """
    flag = re.match(_FLAG, text)
    if flag:
        if flag.group(2) not in FLAGS:
            raise ValueError(f"'{text}' is not a comparison; write a column, an operator and a number: \"tp <= 64\"")
        return Condition(text, flag.group(2), operator.ne if flag.group(1) else operator.eq, 1.0, FLAGS)
    match = re.match(_COMPARISON, text)
    if match is None:
        raise ValueError(f"'{text}' is not a comparison; write a column, an operator "
                         f"({' '.join(OPERATORS)}) and a number: \"tp <= 64\"")  # fmt: skip
    left, sign, right = match.groups()
    operands = [_operand(part, columns) for part in (left, right)]
    used = tuple(part for part in operands if isinstance(part, str) and part in columns)
    if not used:
        raise ValueError(f"'{text}' compares no column{nearest(left, columns)} ({one_of(columns)})")
    for part in operands:
        worded = [name for name in used if name in words]
        if isinstance(part, str) and part not in columns and not worded:
            raise ValueError(f"'{part}' is not a column{nearest(part, columns)} ({one_of(columns)})")
        if isinstance(part, float) and worded:
            raise ValueError(f"'{text}': {worded[0]} is a word, not a number")
    if any(name in words for name in used) and sign not in ("==", "!="):
        raise ValueError(f"'{text}': words can only be compared with == and !=")
    return Condition(text, operands[0], OPERATORS[sign], operands[1], used)


def _operand(text: str, columns: Sequence[str]) -> str | float:
    if text in columns:
        return text
    match = re.match(_NUMBER, text)
    return float(match.group(1)) * _SUFFIX[match.group(2)] if match else text
