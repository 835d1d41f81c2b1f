"""What ``$X`` and ``${X...}`` stand for: defaults, parts of a text, lengths, elements of arrays."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from fnmatch import translate
from typing import TYPE_CHECKING

from comp_comm.configs.importers.shell_arithmetic import UnknownNumberError, evaluated
from comp_comm.configs.importers.shell_scope import (
    MARK,
    Scope,
    is_undecided,
    is_unset,
    names_in,
    undecided,
    unset,
    without_unset,
)  # fmt: skip
from comp_comm.configs.importers.shell_tree import text_of

if TYPE_CHECKING:
    from tree_sitter import Node

Text = Callable[["Node"], str]
ALL = ("@", "*")
LONGEST = 4096  # characters of a text that patterns are cut off, so that a pattern's time is bounded


def expansion(node: Node, scope: Scope, text: Text) -> str | list[str]:
    """Return the text a parameter stands for; for an array taken whole, its words."""
    parts = [child for child in node.children[1:] if child.type != "}"]
    sign = ""
    if parts and parts[0].type in ("#", "!") and len(parts) > 1:
        sign, parts = parts[0].type, parts[1:]
    if not parts:
        return "$"
    name, key = _named(parts[0], text)
    if sign == "!":
        return _indirect(name, key, parts[1:], scope)
    if sign == "#":
        return _length(name, key, scope)
    if name in ALL or key in ALL:
        words = scope.list_of(name)
        value_found = words if len(parts) == 1 else _of_array(words, parts[1:], scope, text)
        return value_found if isinstance(value_found, str) or "*" not in (name, key) else " ".join(value_found)
    value = scope.value(name) if key is None else scope.element(name, key)
    if name in ("?", "$", "!", "-"):
        return unset(name)
    return value if len(parts) == 1 else _changed(name, value, parts[1:], scope, text)


def _named(node: Node, text: Text) -> tuple[str, str | None]:
    """Return the name of a parameter, and the key of an element of it."""
    if node.type != "subscript":
        return text_of(node).strip(), None
    inside = node.children[2] if len(node.children) > 3 else None
    key = "" if inside is None else text_of(inside) if inside.type in ("unary_expression", "word") else text(inside)
    return text_of(node.children[0]), key


def _indirect(name: str, key: str | None, rest: Sequence[Node], scope: Scope) -> str | list[str]:
    """Return what the variable that a variable names has, or the keys of an array."""
    if key in ALL:
        value_found = scope.values.get(name)
        return (
            list(value_found)
            if isinstance(value_found, dict)
            else [str(place) for place, _ in enumerate(scope.list_of(name))]
        )
    named = scope.value(name)
    return unset(name) if rest or names_in(named) else scope.value(named)


def _length(name: str, key: str | None, scope: Scope) -> str:
    """Return how many words an array has, or characters a text."""
    if key in ALL or name in ALL:
        words = scope.list_of(name)
        return unset(words[0]) if words and MARK.fullmatch(words[0]) else str(len(words))
    value = scope.value(name) if key is None else scope.element(name, key)
    return unset(name) if names_in(value) else str(len(value))


def _of_array(words: list[str], rest: Sequence[Node], scope: Scope, text: Text) -> str | list[str]:
    """Return a part of an array (``${A[@]:1}``), or its words with something done to each."""
    sign = rest[0].type
    known = [word for word in words if not MARK.fullmatch(word)]
    if sign == ":":
        first, length = _bounds(rest, scope, text)
        if first is None:
            return undecided("array", *words)
        return words[first:][: length if length is not None else None]
    if sign in (":-", "-"):
        return words if known else text(rest[1]) if len(rest) > 1 else ""
    if sign in (":+", "+"):
        return (text(rest[1]) if len(rest) > 1 else "") if known else []
    return [_cut(word, rest, text) for word in words]


def _bounds(rest: Sequence[Node], scope: Scope, text: Text) -> tuple[int | None, int | None]:
    """Return where a part begins, and how long it is; None for what is not known."""
    numbers = [node for node in rest if node.type != ":"]
    try:
        value_found = [evaluated(node, scope, text) for node in numbers]
    except UnknownNumberError:
        return None, None
    return (value_found[0] if value_found else 0), (value_found[1] if len(value_found) > 1 else None)


def _changed(name: str, value: str, rest: Sequence[Node], scope: Scope, text: Text) -> str | list[str]:
    """Return a text with a default, or cut, or replaced in."""
    sign = rest[0].type.strip()
    if sign in (":-", "-", ":=", "=", ":+", "+", ":?", "?"):
        given = not is_unset(value) and (value != "" or not sign.startswith(":"))
        other = text(rest[1]) if len(rest) > 1 else ""
        if sign.endswith("+"):
            return other if given else ""
        if given or sign.endswith("?"):
            return value
        if sign.endswith("="):
            scope.set(name, other)
        return other
    if names := names_in(value):
        return undecided(names[0], value) if is_undecided(value) else unset(names[0])
    if sign == ":":
        first, length = _bounds(rest, scope, text)
        if first is None:
            return unset(name)
        cut = value[first:] if first >= 0 else value[max(len(value) + first, 0) :]
        return cut if length is None else cut[:length]
    return _cut(value, rest, text)


def _cut(value: str, rest: Sequence[Node], text: Text) -> str:
    """Return a text without a beginning or an end that fits a pattern, with one replaced, or in other letters."""
    sign = text_of(rest[0])
    if sign in ("^^", ",,", "^", ","):
        other = value.upper() if "^" in sign else value.lower()
        return other if len(sign) == 2 else other[:1] + value[1:]
    given = [text(node) for node in rest[1:] if node.type not in ("/", "//")]
    if sign in ("#", "##", "%", "%%", "/", "//") and len(value) <= LONGEST and given:
        pattern = without_unset(given[0])
        if sign in ("/", "//"):
            other = given[1] if len(given) > 1 else ""
            if not re.search(r"[*?\[]", pattern):
                return value.replace(pattern, other, -1 if sign == "//" else 1) if pattern else value
            return unset(value)
        return _without(value, pattern, sign)
    return unset(value)


def _without(value: str, pattern: str, sign: str) -> str:
    """Return a text without the shortest (``#``, ``%``) or longest beginning or end that fits a pattern."""
    fits = re.compile(translate(pattern)) if pattern.count("*") < 3 else None
    if fits is None:
        return unset(value)
    lengths = range(len(value) + 1) if len(sign) == 1 else range(len(value), -1, -1)
    for length in lengths:
        if "#" in sign and fits.match(value[:length]):
            return value[length:]
        if "%" in sign and fits.match(value[len(value) - length :]):
            return value[: len(value) - length]
    return value
