"""Values of the expressions of a Python file: literals and plain arithmetic on them; nothing is called."""

from __future__ import annotations

import ast
import copy
import operator
from collections.abc import Callable
from typing import Any

from comp_comm.configs.importers.python_values import Made, NotLiteral, Reference, is_known

SHOWN = 60  # characters of an expression that a message shows
LONGEST = 100_000  # of a text or list that is made
LARGEST = 10**18  # of a number that is made
BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip
COMPARE: dict[type, Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.Is: lambda a, b: a is b, ast.IsNot: lambda a, b: a is not b,
    ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip
UNARY: dict[type, Callable[[Any], Any]] = {ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Not: operator.not_}
BUILTINS: dict[str, Callable[..., Any]] = {
    "int": int, "float": float, "bool": bool, "str": str, "len": len, "min": min, "max": max, "round": round,
    "abs": abs, "list": list, "tuple": tuple, "dict": dict, "set": list,
}  # fmt: skip
Caller = Callable[[ast.Call], Any]


def shown(node: ast.AST) -> str:
    """Return the text of an expression, a long one by its beginning."""
    text = ast.unparse(node).replace("\n", " ")
    return f"{text[:SHOWN]}..." if len(text) > SHOWN else text


def not_literal(node: ast.AST) -> NotLiteral:
    """Return that an expression is not known."""
    return NotLiteral(shown(node), getattr(node, "lineno", 0))


def evaluate(node: ast.expr, names: dict[str, Any], call: Caller) -> Any:
    """Return the value of an expression; ``call`` says what a call makes.

    >>> plain = ast.parse("[2 * 8192, 'a' if x else None, not True]", mode="eval").body
    >>> evaluate(plain, {"x": 1}, not_literal)
    [16384, 'a', False]
    """
    value = _evaluate(node, names, call)
    too_large = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) > LARGEST
    too_long = isinstance(value, (str, list, tuple)) and len(value) > LONGEST
    return not_literal(node) if too_large or too_long else value


def _evaluate(node: ast.expr, names: dict[str, Any], call: Caller) -> Any:
    match node:
        case ast.Constant():
            return node.value
        case ast.Name():
            return names.get(node.id, Reference(node.id))
        case ast.Attribute():
            return _attribute(evaluate(node.value, names, call), node)
        case ast.Call():
            return call(node)
        case ast.List() | ast.Tuple() | ast.Set():
            return _sequence(node, names, call)
        case ast.Dict():
            return _mapping(node, names, call)
        case ast.IfExp():
            held = truth(evaluate(node.test, names, call))
            return not_literal(node) if held is None else evaluate(node.body if held else node.orelse, names, call)
        case ast.BoolOp():
            return _either(node, names, call)
        case ast.UnaryOp() | ast.BinOp() | ast.Compare() | ast.JoinedStr() | ast.Subscript():
            return _computed(node, names, call)
    return not_literal(node)


def truth(value: Any) -> bool | None:
    """Return whether a value is taken as true, None where that is not known."""
    return None if isinstance(value, (NotLiteral, Made, Reference)) else bool(value)


def _attribute(value: Any, node: ast.Attribute) -> Any:
    if isinstance(value, Made):
        return value.get(node.attr)
    if isinstance(value, Reference):
        return Reference(f"{value.name}.{node.attr}")
    return not_literal(node)


def _sequence(node: ast.List | ast.Tuple | ast.Set, names: dict[str, Any], call: Caller) -> Any:
    values: list[Any] = []
    for each in node.elts:
        if isinstance(each, ast.Starred):
            inner = evaluate(each.value, names, call)
            if not isinstance(inner, (list, tuple)):
                return not_literal(node)
            values += inner
        else:
            values.append(evaluate(each, names, call))
    return tuple(values) if isinstance(node, ast.Tuple) else values


def _mapping(node: ast.Dict, names: dict[str, Any], call: Caller) -> Any:
    values: dict[Any, Any] = {}
    for key, each in zip(node.keys, node.values, strict=True):
        inner = evaluate(each, names, call)
        if key is None:
            values |= inner if isinstance(inner, dict) else {}
            continue
        name = evaluate(key, names, call)
        if isinstance(name, (str, int)):
            values[name] = inner
    return values


def _either(node: ast.BoolOp, names: dict[str, Any], call: Caller) -> Any:
    is_and = isinstance(node.op, ast.And)
    value: Any = is_and
    for each in node.values:
        value = evaluate(each, names, call)
        held = truth(value)
        if held is None:
            return not_literal(node)
        if held != is_and:
            return value
    return value


def _computed(node: ast.expr, names: dict[str, Any], call: Caller) -> Any:
    """Return what an operator makes of its operands, where all of them are known."""
    try:
        return _operated(node, names, call)
    except (TypeError, ValueError, ZeroDivisionError, KeyError, IndexError, AttributeError, OverflowError):
        return not_literal(node)


def _operated(node: ast.expr, names: dict[str, Any], call: Caller) -> Any:
    if isinstance(node, ast.UnaryOp) and type(node.op) in UNARY:
        value = evaluate(node.operand, names, call)
        held = truth(value)
        if isinstance(node.op, ast.Not):
            return not_literal(node) if held is None else not held
        return UNARY[type(node.op)](value) if is_known(value) else not_literal(node)
    if isinstance(node, ast.BinOp):
        return _binary(node, evaluate(node.left, names, call), evaluate(node.right, names, call))
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return _compared(node, evaluate(node.left, names, call), evaluate(node.comparators[0], names, call))
    if isinstance(node, ast.JoinedStr):
        parts = [evaluate(part.value, names, call) if isinstance(part, ast.FormattedValue) else
                 evaluate(part, names, call) for part in node.values]  # fmt: skip
        return "".join(map(str, parts)) if all(is_known(part) for part in parts) else not_literal(node)
    if isinstance(node, ast.Subscript):
        held, key = evaluate(node.value, names, call), evaluate(node.slice, names, call)
        return held[key] if isinstance(held, (list, tuple, dict)) and is_known(key) else not_literal(node)
    return not_literal(node)


def _binary(node: ast.BinOp, left: Any, right: Any) -> Any:
    if not is_known(left) or not is_known(right):
        return not_literal(node)
    if isinstance(node.op, ast.Pow):
        small = isinstance(left, (int, float)) and isinstance(right, int) and abs(left) <= 10**6 and 0 <= right <= 16
        return left**right if small else not_literal(node)
    if isinstance(node.op, ast.Mod) and isinstance(left, str):
        return not_literal(node)
    repeated = isinstance(node.op, ast.Mult) and not all(isinstance(each, (int, float)) for each in (left, right))
    if repeated:
        times, held = (left, right) if isinstance(left, int) else (right, left)
        if not isinstance(times, int) or not isinstance(held, (str, list, tuple)) or times * len(held) > LONGEST:
            return not_literal(node)
    return BINARY[type(node.op)](left, right) if type(node.op) in BINARY else not_literal(node)


def _compared(node: ast.Compare, left: Any, right: Any) -> Any:
    kind = type(node.ops[0])
    if kind in (ast.Is, ast.IsNot) and (left is None or right is None):
        other = right if left is None else left
        is_object = isinstance(other, Made) and not other.is_implied and other.last[:1].isupper()  # of a class
        if isinstance(other, (NotLiteral, Reference)) or (isinstance(other, Made) and not is_object):
            return not_literal(node)
        return (other is None) == (kind is ast.Is)
    both_named = isinstance(left, Reference) and isinstance(right, Reference)
    if not both_named and (not is_known(left) or not is_known(right)):
        return not_literal(node)
    return COMPARE[kind](left, right) if kind in COMPARE else not_literal(node)


def copied(value: Any) -> Any:
    """Return a value that may be changed without changing this one."""
    return copy.deepcopy(value)
