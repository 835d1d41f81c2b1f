"""Whole-number arithmetic of a shell: ``$(( ))``, ``(( ))``, ``let`` and ``expr``."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from comp_comm.configs.importers.shell_scope import Scope, is_undecided, names_in, undecided, unset
from comp_comm.configs.importers.shell_tree import text_of

if TYPE_CHECKING:
    from tree_sitter import Node

Text = Callable[["Node"], str]
MOST = 2**63
_ASSIGN = ("=", "+=", "-=", "*=", "/=", "%=")
_SYMBOLS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "<": operator.lt, ">": operator.gt, "<=": operator.le,
    ">=": operator.ge, "==": operator.eq, "!=": operator.ne, "&": operator.and_, "|": operator.or_,
    "^": operator.xor, "&&": lambda a, b: a != 0 and b != 0, "||": lambda a, b: a != 0 or b != 0,
}  # fmt: skip


class UnknownNumberError(Exception):
    """A number that the script does not say; ``mark`` stands for it."""

    def __init__(self, mark: str) -> None:
        super().__init__(mark)
        self.mark = mark


def arithmetic(node: Node | None, scope: Scope, text: Text) -> str:
    """Return what whole-number arithmetic comes to; a mark where something in it is not known."""
    try:
        return "0" if node is None else str(evaluated(node, scope, text))
    except UnknownNumberError as unknown:
        return unknown.mark


def evaluated(node: Node, scope: Scope, text: Text) -> int:
    """Return the number that a tree of arithmetic is. Raises ``UnknownNumberError`` where it is none."""
    scope.limits.step()
    kind = node.type
    if kind == "parenthesized_expression":
        return evaluated(node.children[1], scope, text)
    if kind == "binary_expression" and len(node.children) == 3:
        return _binary(node, scope, text)
    if kind == "ternary_expression" and len(node.children) == 5:
        condition, _, first, _, second = node.children
        return evaluated(first if evaluated(condition, scope, text) else second, scope, text)
    if kind == "unary_expression":
        value = evaluated(node.children[-1], scope, text)
        sign = text_of(node.children[0])
        if sign in ("+", "-", "!"):
            return -value if sign == "-" else int(not value) if sign == "!" else value
        raise UnknownNumberError(unset(text_of(node)))
    if kind == "postfix_expression":
        name, change = text_of(node.children[0]), text_of(node.children[-1])
        before = evaluated(node.children[0], scope, text)
        scope.set(name, str(before + (1 if change == "++" else -1)))
        return before
    if kind == "variable_assignment":
        return _assigned(text_of(node.children[0]), "=", evaluated(node.children[-1], scope, text), scope)
    return _number(node, scope, text)


def _number(node: Node, scope: Scope, text: Text) -> int:
    """Return the number that a variable, or a word, has."""
    name = text_of(node)
    if node.type in ("variable_name", "word", "number") and re.fullmatch(r"[A-Za-z_]\w*", name):
        result = scope.value(name)
    elif node.type == "subscript":
        result = scope.element(text_of(node.children[0]), text(node.children[2]))
    else:
        result = text(node)
    return number_of(result, name)


def number_of(result: str, name: str) -> int:
    """Return a text as a whole number. Raises ``UnknownNumberError`` where it is none, or is not known."""
    result = result.strip()
    if names := names_in(result):
        raise UnknownNumberError(undecided(names[0]) if is_undecided(result) else unset(names[0]))
    if re.fullmatch(r"[-+]?[0-9]{1,18}", result):
        return int(result)
    if re.fullmatch(r"0[xX][0-9a-fA-F]{1,15}", result):
        return int(result, 16)
    if result == "":
        return 0
    raise UnknownNumberError(unset(name))


def _binary(node: Node, scope: Scope, text: Text) -> int:
    left, middle, right = node.children
    sign = text_of(middle)
    if sign in _ASSIGN:
        return _assigned(text_of(left), sign, evaluated(right, scope, text), scope)
    one, other = evaluated(left, scope, text), evaluated(right, scope, text)
    return _operated(sign, one, other, text_of(node))


def _operated(sign: str, one: int, other: int, expression: str) -> int:
    if sign in ("/", "%") and other:
        result = abs(one) // abs(other) if sign == "/" else abs(one) % abs(other)
        negative = (one < 0) != (other < 0) if sign == "/" else one < 0
        return -result if negative else result
    if sign == "**" and 0 <= other < 64:
        result = one**other
    elif sign in ("<<", ">>") and 0 <= other < 64:
        result = one << other if sign == "<<" else one >> other
    elif sign in _SYMBOLS:
        result = int(_SYMBOLS[sign](one, other))
    else:
        raise UnknownNumberError(unset(expression))
    if not -MOST <= result < MOST:
        raise UnknownNumberError(unset(expression))
    return result


def _assigned(name: str, sign: str, value: int, scope: Scope) -> int:
    if sign != "=":
        value = _operated(sign[:-1], number_of(scope.value(name), name), value, name)
    scope.set(name, str(value))
    return value
