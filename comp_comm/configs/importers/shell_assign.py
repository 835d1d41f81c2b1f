"""What a shell's assignments set: texts, arrays, mappings, their elements, and what is exported."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from comp_comm.configs.importers.shell_arithmetic import arithmetic_of
from comp_comm.configs.importers.shell_machine import Machine
from comp_comm.configs.importers.shell_nodes import words_of
from comp_comm.configs.importers.shell_parameters import place_of
from comp_comm.configs.importers.shell_scope import ShellValue, items, undecided
from comp_comm.configs.importers.shell_tree import text_of

if TYPE_CHECKING:
    from tree_sitter import Node

DECLARING = ("export", "local", "declare", "readonly", "typeset")
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)(\+?)=(.*)", re.S)


def assign(shell: Machine, name: str, value: ShellValue, more: bool = False) -> None:
    """Set a variable, or add to it; a text that is given to an array is its first element."""
    old = shell.scope.values.get(name)
    if isinstance(value, str) and name in shell.scope.integers:
        parts = [old] if more and isinstance(old, str) else []
        value = arithmetic_of("+".join(f"({part})" for part in [*parts, value]), shell.scope)
    elif isinstance(value, str) and old is not None:
        before = shell.scope.value(name) if more and (isinstance(old, str) or "0" in _places(old)) else ""
        text = shell.scope.limits.made(before + value)
        value = text if isinstance(old, str) else [text, *old[1:]] if isinstance(old, list) else {**old, "0": text}
    elif more and isinstance(old, dict):
        start = max((int(place) for place in old if place.isdigit()), default=-1) + 1
        added = value if isinstance(value, dict) else {str(start + i): each for i, each in enumerate(items(value))}
        value = {**old, **added}
    elif more and old is not None:
        value = [*items(old), *items(value)]
    shell.scope.set(name, _in_order(value) if name not in shell.scope.mappings else value)


def _in_order(value: ShellValue) -> ShellValue:
    """Return an array with gaps by the places of its elements."""
    if not isinstance(value, dict):
        return value
    return dict(sorted(value.items(), key=lambda pair: int(pair[0]) if pair[0].isdigit() else 0))


def _places(value: ShellValue) -> list[str]:
    """Return the places, or names, of an array's elements."""
    return list(value) if isinstance(value, dict) else [str(place) for place, _ in enumerate(items(value))]


def assignments(shell: Machine, node: Node) -> bool:
    """Set what one assignment, or several, set."""
    for each in node.children if node.type == "variable_assignments" else [node]:
        _assignment(shell, each)
    return True


def _assignment(shell: Machine, node: Node, mapping: bool = False, own: bool = False) -> None:
    target, more = node.children[0], text_of(node.children[1]) == "+="
    given = node.children[2] if len(node.children) > 2 else None
    if target.type == "subscript":
        _element(
            shell, text_of(target.children[0]), shell.words.filled(target.children[2]), shell.words.text(given), more
        )
        return
    name, value = text_of(target), ""  # type: str, ShellValue
    if given is None or given.type != "array":
        value = shell.words.text(given)
    else:
        value = shell.words.of(words_of(given))
        if mapping or name in shell.scope.mappings:
            value = dict(re.findall(r"\[([^\]]*)\]=(.*)", "\n".join(value)))
    if own and not more:  # a function's own variable has nothing of an outer one
        shell.scope.values.pop(name, None)
    assign(shell, name, value, more)


def _element(shell: Machine, name: str, key: str, text: str, more: bool) -> None:
    value = shell.scope.values.get(name, [])
    key = place_of(name, key, shell.scope)
    if isinstance(value, dict):
        changed = {**value, key: (value.get(key, "") if more else "") + text}
        shell.scope.set(name, changed if name in shell.scope.mappings else _in_order(changed))
        return
    words, place = items(value), int(key) if re.fullmatch(r"[0-9]{1,4}", key) else None
    if place is None or place > len(words):
        shell.scope.set(name, undecided(name, *words, text))
        return
    old = words[place] if more and place < len(words) else ""
    shell.scope.set(name, [*words[:place], old + text, *words[place + 1 :]])


def declaration(shell: Machine, node: Node) -> bool:
    """Set what ``export``, ``local``, ``declare`` and ``readonly`` set."""
    kind = text_of(node.children[0])
    flags = "".join(text_of(child)[1:] for child in node.children if text_of(child).startswith("-"))
    own = kind in ("local", "declare", "typeset") and "g" not in flags
    for child in node.children[1:]:
        match = None
        if child.type in ("variable_assignment", "variable_name"):
            name = text_of(child.children[0] if child.children else child).partition("[")[0]
        else:
            match = _ASSIGNED.match(shell.words.text(child))
            name = match[1] if match else ""
        if not name:
            continue
        if own and shell.locals:
            _keep(shell, name, child.type == "variable_name")
        if "i" in flags:
            shell.scope.integers.add(name)
        if child.type == "variable_assignment":
            _assignment(shell, child, "A" in flags, own and bool(shell.locals))
        elif match:
            assign(shell, name, match[3], bool(match[2]))
        elif "A" in flags and name not in shell.scope.values:
            shell.scope.set(name, {})
        if "A" in flags:
            shell.scope.mappings.add(name)
        if set(flags) & set("nlu"):  # a name for another variable, or other letters than are written
            shell.scope.set(name, undecided(name))
        if kind == "export" or "x" in flags:
            shell.scope.exported.add(name)
    return True


def _keep(shell: Machine, name: str, empty: bool) -> None:
    """Keep what a variable has, which a function has for itself, until it returns."""
    shell.locals[-1].setdefault(name, shell.scope.values.get(name))
    if empty:
        shell.scope.values.pop(name, None)


def restore(shell: Machine, before: dict[str, ShellValue | None]) -> None:
    """Give variables the values they had, or none."""
    for name, value in before.items():
        if value is None:
            shell.scope.values.pop(name, None)
        else:
            shell.scope.set(name, value)


def declared_words(shell: Machine, words: list[str], line: int) -> bool:
    """Set what ``export A=1`` sets, where the grammar takes that for any command."""
    for word in words[1:]:
        match = _ASSIGNED.match(word)
        if match:
            assign(shell, match[1], match[3], bool(match[2]))
        if words[0] == "export":
            shell.scope.exported.add(match[1] if match else word)
    return True


def unset_of(shell: Machine, node: Node) -> bool:
    """Take away the variables that ``unset`` names."""
    return unset_words(shell, ["unset", *shell.words.of([child for child in node.children[1:] if child.is_named])], 0)


def unset_words(shell: Machine, words: list[str], line: int) -> bool:
    """Take away the variables that words name."""
    for word in words[1:]:
        name, bracket, key = word.rstrip("]").partition("[")
        stored = shell.scope.values.get(name)
        if "-f" in words:
            shell.functions.pop(word, None)
        elif bracket and stored is not None and key not in ("@", "*"):
            kept = stored if isinstance(stored, dict) else {str(i): each for i, each in enumerate(items(stored))}
            key = place_of(name, key, shell.scope)
            if re.fullmatch(r"-[0-9]+", key) and name not in shell.scope.mappings:
                key = str(len(kept) + int(key))
            shell.scope.set(name, {place: each for place, each in kept.items() if place != key})
        else:
            shell.scope.values.pop(name, None)
    return True
