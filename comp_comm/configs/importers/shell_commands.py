"""Commands of a shell: its own, its functions, those that it starts, and the scripts that they are given."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from comp_comm.configs.importers import shell_read
from comp_comm.configs.importers.shell_assign import assign, assignments, restore
from comp_comm.configs.importers.shell_builtins import BUILTINS, written_by
from comp_comm.configs.importers.shell_machine import DEEPEST, Command, LeaveError, Machine, Written
from comp_comm.configs.importers.shell_nodes import behind, files_of, leaves, words_of
from comp_comm.configs.importers.shell_scope import ShellLimitError, is_undecided
from comp_comm.configs.importers.shell_tree import Flaw, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

RUNNERS = ("bash", "sh", "zsh", "ksh", "dash")
SUBMITTERS = ("sbatch", "qsub", "bsub", "srun", "salloc", "flux", "ssh", "pdsh", "oarsub", "msub")


def pipeline(shell: Machine, nodes: Sequence[Node]) -> bool | None:
    """Go through commands that read what the one before them writes."""
    outer, read = shell.output, None  # type: list[str] | None, str | None
    status: bool | None = None
    if nodes[0].type == "command" and _own_assignments(nodes[0]):
        shell.flaws.append(Flaw(shell.line_of(nodes[0]), text_of(nodes[0]).split("\n")[0]))
    for place, node in enumerate(nodes):
        last = place + 1 == len(nodes)
        words = shell.words.of(words_of(node)) if place and node.type == "command" else []
        if words and (value := written_by(words, shell.scope, read)) is not None:
            shell.output, status = [value], True
        else:
            shell.output = [] if not last or outer is not None else None
            status = shell.statement(node)
        read = None if shell.output is None else "\n".join(shell.output)
    shell.output = outer
    if outer is not None:
        shell.say(read)
    return status if len(nodes) == 1 else None


def redirected(shell: Machine, node: Node) -> bool | None:
    """Go through a statement with redirections; words behind one are the command's all the same."""
    body = next((child for child in node.children if not child.type.endswith("_redirect")), None)
    redirects = [child for child in node.children if child.type.endswith("_redirect")]
    more = [word for redirect in redirects for word in behind(redirect)]
    status: bool | None = None
    if body is not None and body.type == "command":
        status = command(shell, body, more, redirects)
    elif body is not None:
        status = shell.statement(body)
    for redirect in redirects:
        after = [child for child in redirect.children if child.type in ("pipeline", "command", "list")]
        text = _document(shell, redirect)
        for child in after:
            _fed(shell, child, text, shell.line_of(node))
    return status


def _fed(shell: Machine, node: Node, text: str | None, line: int) -> None:
    """Go through what stands behind the mark of a here-document, which a pipe may feed to it."""
    status = shell.statement(node)
    runs = [word for each in leaves(node) for word in shell.words.of(words_of(each))[:1]]
    if text is not None and status is not False and any(word in (*RUNNERS, *SUBMITTERS) for word in runs):
        shell.within(text, tuple(runs), line)


def _document(shell: Machine, redirect: Node) -> str | None:
    """Return the text of a here-document, expanded unless its mark is quoted, or of ``<<<``."""
    if redirect.type == "herestring_redirect":
        return shell.words.text(redirect.children[-1])
    if redirect.type != "heredoc_redirect":
        return None
    body = next((child for child in redirect.children if child.type == "heredoc_body"), None)
    start = next((text_of(child) for child in redirect.children if child.type == "heredoc_start"), "")
    if body is None:
        return ""
    text = text_of(body) if re.search(r"['\"\\]", start) else shell.words.text(body)
    tabs = any(child.type == "<<-" for child in redirect.children)
    return re.sub(r"(?m)^\t+", "", text) if tabs else text


def command(shell: Machine, node: Node, more: Sequence[Node] = (), redirects: Sequence[Node] = ()) -> bool | None:
    """Go through one command: a function, one that a shell has itself, or one that it starts."""
    environment = _environment(shell, node)
    words = shell.words.of([*words_of(node), *more])
    if not words:
        for name, value in environment.items():
            assign(shell, name, value)
        return True
    line = shell.line_of(node)
    documents = [text for each in [*redirects, *node.children] if (text := _document(shell, each)) is not None]
    targets = [shell.words.text(each.children[-1 - len(behind(each))]) for each in files_of(redirects)]
    if words[0] in shell.functions or words[0] in BUILTINS:
        before = {name: shell.scope.values.get(name) for name in environment}
        shell.scope.values.update(environment)
        try:
            if words[0] in shell.functions:
                return _call(shell, words)
            if words[0] == "read":
                return shell_read.read(shell, words, documents[-1] if documents else None)
            return BUILTINS[words[0]](shell, words, line)
        finally:
            restore(shell, before)
    shell.started.append(Command(tuple(words), line, shell.launcher, environment, not shell.unsure))
    return _external(shell, words, line, documents, targets, environment)


def _own_assignments(node: Node) -> int:
    """Return how many of the assignments before a command are statements of their own: it is on another line."""
    given = [child for child in node.children if child.type == "variable_assignment"]
    source, begin = node.text or b"", node.start_byte
    ends = [re.search(rb"(?<!\\)\n", source[one.end_byte - begin : other.start_byte - begin]) is not None
            for one, other in pairwise(node.children[: len(given) + 1])]  # fmt: skip
    return len(ends) - ends[::-1].index(True) if True in ends else 0


def _environment(shell: Machine, node: Node) -> dict[str, str]:
    """Return what is set for a command alone; the grammar takes a command of the next line to it."""
    own, values = _own_assignments(node), {}
    if any(one.type == "variable_assignment" and one.end_byte == other.start_byte
           for one, other in pairwise(node.children)):  # fmt: skip
        shell.flaws.append(Flaw(shell.line_of(node), text_of(node).split("\n")[0]))  # a value that is cut in two
    for place, child in enumerate(child for child in node.children if child.type == "variable_assignment"):
        if place < own:
            assignments(shell, child)
        else:
            value = child.children[2] if len(child.children) > 2 else None
            values[text_of(child.children[0])] = shell.words.text(value)
    return values


def _external(shell: Machine, words: list[str], line: int, documents: list[str], targets: list[str],
              environment: dict[str, str]) -> bool | None:  # fmt: skip
    """Note what a command writes, and go through the script that it is given."""
    if documents and words[0] in ("cat", "tee"):
        for target in targets or words[1:2]:
            shell.files[target] = Written(documents[-1], line)
        shell.say(None if targets else documents[-1])
        return True
    shell.say(written_by(words, shell.scope, documents[-1] if documents else None))
    place = next((i for i, word in enumerate(words) if word.rsplit("/", 1)[-1] in RUNNERS), None)
    if place is not None:
        rest = words[place + 1 :]
        flag = next((i for i, word in enumerate(rest) if re.fullmatch(r"-[a-z]*c", word)), None)
        if flag is not None and flag + 1 < len(rest):
            zero = rest[flag + 2] if flag + 2 < len(rest) else None
            shell.within(rest[flag + 1], words[:place], line, rest[flag + 3 :], environment, zero)
            return None
    starts = words[0].rsplit("/", 1)[-1] in (*RUNNERS, *SUBMITTERS)
    for number, word in enumerate(words):
        if (starts or number == 0) and word.removeprefix("./") in {name.removeprefix("./") for name in shell.files}:
            written = next(
                each for name, each in shell.files.items() if name.removeprefix("./") == word.removeprefix("./")
            )
            shell.within(written.text, words[:number], line, words[number + 1 :], environment)
            return None
    for script in [*documents, *_wrapped(words)] if starts else ():
        shell.within(script, words, line, (), environment)
    return None


def _call(shell: Machine, words: list[str]) -> bool | None:
    """Run a function with its arguments."""
    outer, shell.scope.arguments = shell.scope.arguments, words[1:]
    shell.called.add(words[0])
    shell.locals.append({})
    shell.depth += 1
    if shell.depth > DEEPEST:
        raise ShellLimitError(f"has functions that call functions deeper than {DEEPEST}")
    try:
        return shell.statement(shell.functions[words[0]])
    except LeaveError as leave:
        if leave.what != "return":
            raise
        return None
    finally:
        restore(shell, shell.locals.pop())
        shell.scope.arguments, shell.depth = outer, shell.depth - 1


def _wrapped(words: Sequence[str]) -> list[str]:
    """Return the scripts in arguments: ``sbatch --wrap "..."``, ``ssh host "..."``."""
    value = [word.partition("=")[2] for word in words if word.startswith("--wrap=")]
    value += [words[i + 1] for i, word in enumerate(words[:-1]) if word == "--wrap"]
    if words[0] in ("ssh", "pdsh") and any(" --" in word for word in words[1:]):
        value.append(" ".join(word for word in words[1:] if " " in word))
    return [script for script in value if not is_undecided(script)]
