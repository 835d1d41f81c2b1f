"""What ``$X`` and ``${X...}`` stand for: defaults, parts of a text, lengths, elements of arrays."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from comp_comm.configs.importers.shell_arithmetic import UnknownNumberError, arithmetic_of, evaluated
from comp_comm.configs.importers.shell_patterns import changed_by_pattern
from comp_comm.configs.importers.shell_scope import (
    MARK,
    Scope,
    is_undecided,
    is_unset,
    is_written,
    names_in,
    undecided,
    unset,
)  # fmt: skip
from comp_comm.configs.importers.shell_tree import text_of

if TYPE_CHECKING:
    from tree_sitter import Node

Text = Callable[["Node"], str]
ALL = ("@", "*")
_PLAIN = ("unary_expression", "binary_expression", "postfix_expression", "parenthesized_expression", "word")
_EXPANDED = ("simple_expansion", "expansion", "arithmetic_expansion", "command_substitution", "string")


class DefaultWords(NamedTuple):
    """What stands for a parameter that has no value, as the script writes it."""

    nodes: Sequence[Node]


Expanded = str | list[str] | DefaultWords


def expansion(node: Node, scope: Scope, text: Text) -> Expanded:
    """Return the text a parameter stands for; for an array taken whole, its words."""
    parts = [child for child in node.children[1:] if child.type != "}"]
    sign = ""
    if parts and parts[0].type in ("#", "!") and len(parts) > 1:
        sign, parts = parts[0].type, parts[1:]
    if not parts:
        return "$"
    name, key = _named(parts[0], scope, text)
    if node.type == "simple_expansion" and re.fullmatch(r"[0-9]\w+", name):
        return scope.value(name[0]) + name[1:]  # $10 is $1 and a 0
    if sign == "!":
        return _indirect(name, key, parts[1:], scope)
    if sign == "#":
        return _length(name, key, scope)
    if name in ALL or key in ALL:
        words = scope.list_of(name)
        taken = words if len(parts) == 1 else _of_array(name, words, parts[1:], scope, text)
        return scope.joiner().join(taken) if isinstance(taken, list) and "*" in (name, key) else taken
    value = scope.value(name) if key is None else scope.element(name, key)
    if name in ("?", "$", "!", "-"):
        return unset(name)
    return value if len(parts) == 1 else _changed(name, value, parts[1:], scope, text)


def place_of(name: str, key: str, scope: Scope) -> str:
    """Return the key of an element: of an array, the number that it comes to."""
    return key if name in scope.mappings else arithmetic_of(key, scope)


def _named(node: Node, scope: Scope, text: Text) -> tuple[str, str | None]:
    """Return the name of a parameter, and the key of an element of it."""
    if node.type != "subscript":
        return text_of(node).strip(), None
    inside = node.children[2] if len(node.children) > 3 else None
    name = text_of(node.children[0])
    key = "" if inside is None else text_of(inside) if inside.type in _PLAIN else text(inside)
    return name, key if key in ALL else place_of(name, key, scope)


def _indirect(name: str, key: str | None, rest: Sequence[Node], scope: Scope) -> str | list[str]:
    """Return what the variable that a variable names has, or the keys of an array."""
    if key in ALL:
        stored = scope.values.get(name)
        return list(stored) if isinstance(stored, dict) else [str(i) for i, _ in enumerate(scope.list_of(name))]
    named = scope.value(name)
    return undecided(name) if rest or names_in(named) else scope.value(named)


def _length(name: str, key: str | None, scope: Scope) -> str:
    """Return how many words an array has, or characters a text."""
    if key in ALL or name in ALL:
        words = scope.list_of(name)
        return unset(words[0]) if words and MARK.fullmatch(words[0]) else str(len(words))
    value = scope.value(name) if key is None else scope.element(name, key)
    return unset(name) if names_in(value) else str(len(value))


def _of_array(name: str, words: list[str], rest: Sequence[Node], scope: Scope, text: Text) -> Expanded:
    """Return a part of an array (``${A[@]:1}``), or its words with something done to each."""
    sign, first = rest[0].type, int(name in ALL)
    known = [word for word in words if not MARK.fullmatch(word)]
    if sign == ":":
        start, length = _bounds(rest, scope, text)
        stored = scope.values.get(name)
        if isinstance(stored, dict) and start is not None and start >= 0:  # places, in an array with gaps
            words, start = [each for place, each in stored.items() if place.isdigit() and int(place) >= start], 0
        if start is None or (first and start == 0) or name in scope.mappings:
            return undecided(name, *words)  # from 0 on, it would begin with the name of the script
        return words[start - first if start > 0 else start :][: length if length is not None else None]
    if sign in (":-", "-"):
        return words if known else DefaultWords(rest[1:])
    if sign in (":+", "+"):
        return DefaultWords(rest[1:]) if known else []
    return [changed_by_pattern(word, rest, scope, text) for word in words]


def _bounds(rest: Sequence[Node], scope: Scope, text: Text) -> tuple[int | None, int | None]:
    """Return where a part begins, and how long it is; None for what is not known."""
    parts = "".join(text(node) if node.type in _EXPANDED else text_of(node) for node in rest[1:]).split(":")
    try:
        bounds = [evaluated(part, scope) for part in parts]
    except UnknownNumberError:
        return None, None
    return (bounds[0] if bounds else 0), (bounds[1] if len(bounds) > 1 else None)


def _changed(name: str, value: str, rest: Sequence[Node], scope: Scope, text: Text) -> Expanded:
    """Return a text with a default, or cut, or replaced in."""
    sign = rest[0].type.strip()
    if sign in (":-", "-", ":=", "=", ":+", "+", ":?", "?"):
        given = (not is_unset(value) and (value != "" or not sign.startswith(":"))) or is_written(value)
        other = DefaultWords(rest[1:])
        if sign == ":+" and is_written(value):
            return undecided(name, "".join(map(text, rest[1:])))
        if sign.endswith("+"):
            return other if given else ""
        if given or sign.endswith("?"):
            return value
        if sign.endswith("="):
            scope.set(name, "".join(map(text, rest[1:])))
            return scope.value(name)
        return other
    if names := names_in(value):
        return undecided(names[0], value) if is_undecided(value) else unset(names[0])
    if sign == ":":
        first, length = _bounds(rest, scope, text)
        if first is None:
            return undecided(name)
        cut = value[first:] if first >= 0 else value[first:] if -first <= len(value) else ""
        return cut if length is None else cut[:length]
    return changed_by_pattern(value, rest, scope, text)
