"""Conditions and loops of a shell: the branch that the script decides, or all that may run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from comp_comm.configs.importers.shell_arithmetic import arithmetic_of
from comp_comm.configs.importers.shell_machine import LeaveError, Machine
from comp_comm.configs.importers.shell_scope import (
    MARK,
    ShellValue,
    is_undecided,
    is_unset,
    names_in,
    undecided,
    without_unset,
)  # fmt: skip
from comp_comm.configs.importers.shell_tree import text_of

if TYPE_CHECKING:
    from tree_sitter import Node

TURNS = 1000  # of a loop
_TESTS = ("test_command", "test")


def run(shell: Machine, node: Node) -> bool | None:
    """Go through a statement that is made of others."""
    kind = node.type
    if kind == "list" and len(node.children) == 3:
        return _list(shell, node)
    if kind == "if_statement":
        return _if(shell, node)
    if kind == "case_statement":
        return _case(shell, node)
    if kind == "for_statement":
        return _for(shell, node)
    if kind in ("while_statement", "c_style_for_statement"):
        return _while(shell, node) if kind == "while_statement" else _counted(shell, node)
    return shell.block(node.children)


def _depends(shell: Machine, node: Node | Sequence[Node]) -> tuple[bool | None, bool]:
    """Return whether a condition holds, and whether that depends on a variable without a value."""
    before, shell.scope.asked = shell.scope.asked, {}
    held = shell.block(node) if isinstance(node, (list, tuple)) else shell.statement(node)  # type: ignore[arg-type]
    asked = bool(shell.scope.asked)
    shell.scope.asked = before | shell.scope.asked
    before.update(shell.scope.asked)
    shell.scope.asked = before
    return held, asked


def _taken(shell: Machine, nodes: Sequence[Node], asked: bool) -> bool | None:
    """Go through a branch. One that ends the script for want of a variable is not taken: whoever runs it sets that."""
    before = shell.scope.copied()
    try:
        return shell.block(nodes)
    except LeaveError as leave:
        if leave.what != "exit" or not asked:
            raise
        shell.scope.values = before
        return None


def _is_test(node: Node) -> bool:
    """Return whether a statement asks something, be it before a command: ``[ -f x ] && cd y``."""
    if node.type in ("list", "negated_command"):
        return any(_is_test(child) for child in node.children if child.is_named)
    first = text_of(node).split(None, 1)[:1]
    return node.type == "test_command" or first == ["test"] or text_of(node).startswith("((")


def _list(shell: Machine, node: Node) -> bool | None:
    """Go through ``a && b`` or ``a || b``; a command that is no test is taken to succeed."""
    left, sign, right = node.children[0], text_of(node.children[1]), node.children[2]
    held, asked = _depends(shell, left)
    if held is None and not _is_test(left) and sign == "&&":
        return _taken(shell, [right], asked)
    if held is None:
        shell.join([shell.scope.copied(), shell.maybe([right])])
        return None
    if held == (sign == "&&"):
        return _taken(shell, [right], asked)
    return held


def _clauses(node: Node) -> Iterator[tuple[list[Node] | None, list[Node]]]:
    """Yield the conditions of an ``if`` and what they are for; None for ``else``."""
    condition: list[Node] = []
    body: list[Node] = []
    inside = False
    for child in node.children:
        if child.type in ("if", "elif", "fi", ";", "comment"):
            continue
        if child.type == "then":
            inside = True
        elif child.type == "elif_clause":
            yield condition, body
            condition, body = [], []
            yield from _clauses(child)
            inside = False
        elif child.type == "else_clause":
            if inside:
                yield condition, body
            yield None, [each for each in child.children if each.type != "else"]
            return
        elif inside:
            body.append(child)
        else:
            condition.append(child)
    if inside:
        yield condition, body


def _if(shell: Machine, node: Node) -> bool | None:
    """Go through the branch that its condition chooses; where that is not known, what branches change is undecided."""
    outcomes: list[dict[str, ShellValue] | None] = []
    for condition, body in _clauses(node):
        held, asked = (True, False) if condition is None else _depends(shell, condition)
        if held is False:
            continue
        if held is True and not outcomes:
            return _taken(shell, body, asked)
        outcomes.append(shell.maybe(body))
        if held is True:
            shell.join(outcomes)
            return None
    if outcomes:
        shell.join([*outcomes, shell.scope.copied()])
    return None


def _case(shell: Machine, node: Node) -> bool | None:
    """Go through the arm whose pattern fits."""
    subject = shell.words.text(node.children[1])
    open_ = is_undecided(subject) or any(name.isdigit() for name in names_in(subject))
    outcomes: list[dict[str, ShellValue] | None] = []
    if is_unset(subject):
        shell.scope.asked.update(dict.fromkeys(names_in(subject)))
    for arm in (child for child in node.children if child.type == "case_item"):
        end = next((i for i, child in enumerate(arm.children) if child.type == ")"), 0)
        patterns = [shell.words.text(each) for each in arm.children[:end] if each.type not in ("|", "(")]
        body = arm.children[end + 1 :]
        if open_:
            outcomes.append(shell.maybe(body))
        elif any(fnmatchcase(without_unset(subject), without_unset(pattern)) for pattern in patterns):
            return _taken(shell, body, is_unset(subject))
    if open_:
        shell.join([*outcomes, shell.scope.copied()])
    return None


def _turn(shell: Machine, body: Node) -> bool:
    """Go once through the body of a loop; return whether it goes on."""
    try:
        shell.block(body.children)
    except LeaveError as leave:
        if leave.what not in ("break", "continue"):
            raise
        return leave.what == "continue"
    return True


def _for(shell: Machine, node: Node) -> bool | None:
    """Go through a loop over words; once, with a variable that is not decided, where the words are not known."""
    name, body = text_of(node.children[1]), node.children[-1]
    listed = [child for child in node.children[2:-1] if child.is_named or child.type == "word"]
    words = shell.words.of(listed) if any(child.type == "in" for child in node.children) else shell.scope.list_of("@")
    known = [word for word in words if not MARK.fullmatch(word)]
    unknown = [word for word in words if MARK.fullmatch(word) or is_undecided(word)]
    if any(is_undecided(word) or not set(names_in(word)) <= {"@", "*"} for word in unknown):
        before = shell.scope.copied()
        shell.scope.set(name, undecided(name, *words))
        shell.join([before, shell.maybe([body])])
        return None
    for word in known[:TURNS]:
        shell.scope.limits.step()
        shell.scope.set(name, word)
        if not _turn(shell, body):
            break
    return None


def _while(shell: Machine, node: Node) -> bool | None:
    """Go through a loop as long as its condition holds: but once, where nothing changes that it depends on."""
    body, until = node.children[-1], node.children[0].type == "until"
    condition = [child for child in node.children[1:-1] if child.is_named]
    for _ in range(TURNS):
        held, _asked = _depends(shell, condition)
        if held is None:
            if all(_is_test(each) for each in condition) or any("read" in text_of(each) for each in condition):
                shell.join([shell.scope.copied(), shell.maybe([body])])
            return None
        before = shell.scope.copied()
        if held == until or not _turn(shell, body) or shell.scope.values == before:
            return None
    return None


def _counted(shell: Machine, node: Node) -> bool | None:
    """Go through ``for ((i = 0; i < 4; i++))``."""
    parts: list[list[Node]] = [[]]
    for child in node.children[2:]:
        if child.type == "))":
            break
        parts = [*parts, []] if child.type == ";" else [*parts[:-1], [*parts[-1], child]]
    body = node.children[-1]
    first, condition, step = (*parts, [], [])[:3]

    def number(nodes: Sequence[Node]) -> str:
        return arithmetic_of(" ".join(map(shell.words.filled, nodes)), shell.scope)

    number(first)
    for _ in range(TURNS):
        held = number(condition) if condition else "1"
        if not held.lstrip("-").isdigit():
            shell.join([shell.scope.copied(), shell.maybe([body])])
            return None
        if held == "0" or not _turn(shell, body):
            return None
        number(step)
    return None
