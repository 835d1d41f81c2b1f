"""Plain functions of Python on literals, for a file that is only read."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from comp_comm.configs.importers.python_expressions import BUILTINS, not_literal
from comp_comm.configs.importers.python_values import Made, NotLiteral, Reference, is_known

TYPES = {"str": str, "int": int, "float": float, "bool": bool, "list": list, "dict": dict, "tuple": tuple}


def is_instance(value: Any, kind: Any, node: ast.Call) -> Any:
    """Return whether a literal is of a plain kind; an object that a class makes is of none of them."""
    plain = TYPES.get(kind.name) if isinstance(kind, Reference) else None
    if plain is None or isinstance(value, (NotLiteral, Reference)) or (isinstance(value, Made) and value.is_implied):
        return not_literal(node)
    return False if isinstance(value, Made) else isinstance(value, plain)


def built(name: str, args: list[Any], values: dict[str, Any], node: ast.Call) -> Any:
    """Return what a plain function of Python makes of literals."""
    if not all(map(is_known, [*args, *values.values()])):
        return not_literal(node)
    try:
        return BUILTINS[name](*args, **values)
    except (TypeError, ValueError, OverflowError):
        return not_literal(node)


def loaded(node: ast.expr) -> ast.expr:
    """Return the target of an assignment as an expression that is read."""
    return ast.parse(ast.unparse(node), mode="eval").body


def bound(function: ast.FunctionDef, args: Sequence[Any], values: dict[str, Any],
          value_of: Callable[[ast.expr], Any]) -> dict[str, Any]:  # fmt: skip
    """Return the names of a function's arguments, with what they are given, their defaults, or nothing known."""
    listed = [*function.args.posonlyargs, *function.args.args]
    names: dict[str, Any] = {}
    for each in (*listed, *function.args.kwonlyargs):
        names[each.arg] = NotLiteral(f"the argument {each.arg}", function.lineno)
    for each, default in zip(reversed(listed), reversed(function.args.defaults), strict=False):
        names[each.arg] = value_of(default)
    for each, held in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True):
        if held is not None:
            names[each.arg] = value_of(held)
    names |= {each.arg: value for each, value in zip(listed, args, strict=False)}
    names |= {name: value for name, value in values.items() if name in names}
    if function.args.kwarg is not None:
        names[function.args.kwarg.arg] = {name: value for name, value in values.items() if name not in names}
    return names
