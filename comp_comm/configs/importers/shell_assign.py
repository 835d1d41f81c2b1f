"""What a shell's assignments set: texts, arrays, mappings, their elements, and what is exported."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from comp_comm.configs.importers.shell_machine import Machine
from comp_comm.configs.importers.shell_nodes import words_of
from comp_comm.configs.importers.shell_scope import ShellValue, items, undecided
from comp_comm.configs.importers.shell_tree import text_of

if TYPE_CHECKING:
    from tree_sitter import Node

DECLARING = ("export", "local", "declare", "readonly", "typeset")
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)(\+?)=(.*)", re.S)


def assign(shell: Machine, name: str, value: ShellValue, more: bool = False) -> None:
    """Set a variable, or add to it."""
    old = shell.scope.values.get(name)
    if more and old is not None:
        if isinstance(old, list) or isinstance(value, list):
            value = [*items(old), *items(value)]
        elif isinstance(old, dict) or isinstance(value, dict):
            value = {**(old if isinstance(old, dict) else {}), **(value if isinstance(value, dict) else {})}
        else:
            value = shell.scope.limits.made(old + value)
    shell.scope.set(name, value)


def assignments(shell: Machine, node: Node) -> bool:
    """Set what one assignment, or several, set."""
    for each in node.children if node.type == "variable_assignments" else [node]:
        _assignment(shell, each)
    return True


def _assignment(shell: Machine, node: Node, mapping: bool = False) -> None:
    target, more = node.children[0], text_of(node.children[1]) == "+="
    given = node.children[2] if len(node.children) > 2 else None
    if target.type == "subscript":
        _element(
            shell, text_of(target.children[0]), shell.words.text(target.children[2]), shell.words.text(given), more
        )
        return
    name = text_of(target)
    mapping = mapping or isinstance(shell.scope.values.get(name), dict)
    if given is None or given.type != "array":
        assign(shell, name, shell.words.text(given), more)
    elif mapping:
        pairs = re.findall(r"\[([^\]]*)\]=(.*)", "\n".join(shell.words.of(words_of(given))))
        assign(shell, name, dict(pairs), more)
    else:
        assign(shell, name, shell.words.of(words_of(given)), more)


def _element(shell: Machine, name: str, key: str, text: str, more: bool) -> None:
    value = shell.scope.values.get(name, [])
    if isinstance(value, dict):
        shell.scope.set(name, {**value, key: (value.get(key, "") if more else "") + text})
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
    for child in node.children[1:]:
        if child.type == "variable_assignment":
            _assignment(shell, child, mapping="A" in flags)
            names = [text_of(child.children[0])]
        elif child.type == "variable_name":
            names = [text_of(child)]
            if "A" in flags and names[0] not in shell.scope.values:
                shell.scope.set(names[0], {})
        else:
            match = _ASSIGNED.match(shell.words.text(child))
            names = [match[1]] if match else []
            if match:
                assign(shell, match[1], match[3], bool(match[2]))
        if kind == "export" or "x" in flags:
            shell.scope.exported.update(names)
    return True


def unset_of(shell: Machine, node: Node) -> bool:
    """Take away the variables that ``unset`` names."""
    for child in node.children[1:]:
        shell.scope.values.pop(text_of(child), None)
    return True
