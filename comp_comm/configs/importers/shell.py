"""A shell that only reads: it goes through a script as bash would, and notes which commands it would start."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from comp_comm.configs.importers import scheduler, shell_flow
from comp_comm.configs.importers.shell_arithmetic import arithmetic
from comp_comm.configs.importers.shell_builtins import BUILTINS, written_by
from comp_comm.configs.importers.shell_scope import (
    Limits, Scope, ShellLimitError, ShellValue, is_undecided, items, joined, undecided,
)  # fmt: skip
from comp_comm.configs.importers.shell_tests import tested
from comp_comm.configs.importers.shell_tree import Flaw, parse, text_of
from comp_comm.configs.importers.shell_words import Words

if TYPE_CHECKING:
    from tree_sitter import Node

DEEPEST = 12  # scripts within scripts, and functions that call functions
DECLARING = ("export", "local", "declare", "readonly", "typeset")
RUNNERS = ("bash", "sh", "zsh", "ksh", "dash")
SUBMITTERS = ("sbatch", "qsub", "bsub", "srun", "salloc", "flux", "ssh", "pdsh", "oarsub", "msub")
# What describes a job to the scheduler at the beginning of a script.
DIRECTIVE = re.compile(r"^#(?:SBATCH|PBS|BSUB|COBALT|FLUX:|PJM|OAR|MSUB)[ \t]+(.+)$", re.M)
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)(\+?)=(.*)", re.S)
_SILENT = ("comment", ";", "&", "\n", ";;", "do", "done", "then", "{", "}", "(", ")", "|", "|&", "&&", "||")


@dataclass(frozen=True)
class Command:
    """A command that a script starts: its words, and those of the commands that start it in turn.

    ``sure`` says that it runs in any case, ``environment`` what is set for it alone.
    """

    words: tuple[str, ...]
    line: int
    launcher: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    sure: bool = True


@dataclass
class Written:
    """A file that a script writes: what it holds, and the line where that begins."""

    text: str
    line: int


@dataclass
class Shell:
    """Variables of a script as they are after the commands gone through so far, and every command it started."""

    scope: Scope = field(default_factory=Scope)
    started: list[Command] = field(default_factory=list)
    functions: dict[str, Node] = field(default_factory=dict)
    called: set[str] = field(default_factory=set)
    files: dict[str, Written] = field(default_factory=dict)
    sourced: list[str] = field(default_factory=list)
    flaws: list[Flaw] = field(default_factory=list)
    directives: list[str] = field(default_factory=list)
    launcher: tuple[str, ...] = ()
    unsure: int = 0
    depth: int = 0
    first_line: int = 0
    output: list[str] | None = None

    @property
    def values(self) -> dict[str, ShellValue]:
        """Variables by name."""
        return self.scope.values

    @property
    def commands(self) -> list[list[str]]:
        """The words of every command started so far."""
        return [list(command.words) for command in self.started]

    @property
    def words(self) -> Words:
        """What expands words as the script is now."""
        return Words(self.scope, self.substitute)

    def run(self, script: str) -> None:
        """Go through a script. Raises ``ShellLimitError`` where it makes too much of itself."""
        if self.depth > DEEPEST:
            raise ShellLimitError(f"has scripts within scripts deeper than {DEEPEST}")
        asked = DIRECTIVE.findall(script)
        if asked:
            self.directives += asked
            for name, value in scheduler.variables(scheduler.directives(asked)).items():
                self.values.setdefault(name, value)
                self.scope.exported.add(name)
        tree = parse(script)
        self.flaws += [flaw._replace(line=self.first_line or flaw.line) for flaw in tree.flaws]
        try:
            self.block(tree.root.children)
        except shell_flow.LeaveError:
            return

    def run_rest(self) -> None:
        """Go through functions that nothing called, and files that nothing started: their caller is another script."""
        for name, body in list(self.functions.items()):
            if name not in self.called:
                self.maybe([body])
        for written in list(self.files.values()):
            self.within(written.text, (), written.line)

    def block(self, nodes: Sequence[Node]) -> bool | None:
        """Go through statements one after the other; return whether the last one succeeded."""
        status: bool | None = True
        for node in nodes:
            if node.type not in _SILENT:
                status = self.statement(node)
        return status

    def statement(self, node: Node) -> bool | None:
        """Go through one statement; return whether it succeeds, None where the script does not decide that."""
        self.scope.limits.step()
        kind = node.type
        if kind in ("variable_assignment", "variable_assignments"):
            return self._assignments(node)
        if kind in ("command", "redirected_statement"):
            return self._command(node) if kind == "command" else self._redirected(node)
        if kind in ("declaration_command", "unset_command"):
            return self._declaration(node) if kind == "declaration_command" else self._unset(node)
        if kind == "test_command":
            return tested(node, self.words)
        if kind == "compound_statement" and node.children and node.children[0].type == "((":
            return self._arithmetic(node)
        if kind == "function_definition":
            name = next((text_of(child) for child in node.children if child.type == "word"), "")
            self.functions[name] = node.children[-1]
            return True
        if kind == "negated_command":
            status = self.statement(node.children[-1])
            return None if status is None else not status
        if kind in ("pipeline", "subshell"):
            return self._apart(node)
        return shell_flow.run(self, node)

    def maybe(self, nodes: Sequence[Node]) -> dict[str, ShellValue] | None:
        """Go through statements that may not run; return the variables after them, None where the script ends there.

        The variables are then as they were before.
        """
        before, self.unsure = self.scope.values, self.unsure + 1
        self.scope.values = dict(before)
        try:
            self.block(nodes)
            return self.scope.values
        except shell_flow.LeaveError as leave:
            return None if leave.what in ("exit", "return") else self.scope.values
        finally:
            self.scope.values, self.unsure = before, self.unsure - 1

    def join(self, outcomes: Sequence[dict[str, ShellValue] | None]) -> None:
        """Take the variables of several outcomes, of those that go on: what differs between them is undecided."""
        left = [outcome for outcome in outcomes if outcome is not None]
        if not left:
            raise shell_flow.LeaveError("exit")
        self.scope.values = joined(left)

    def within(self, script: str, launcher: Sequence[str], line: int, arguments: Sequence[str] = ()) -> None:
        """Go through a script that this one starts: it knows what is exported."""
        exported = {name: value for name, value in self.values.items() if name in self.scope.exported}
        scope = Scope(exported, set(self.scope.exported), list(arguments), self.scope.limits, self.scope.asked)
        inner = Shell(scope, self.started, {}, set(), self.files, self.sourced, self.flaws, self.directives,
                      (*self.launcher, *launcher), self.unsure, self.depth + 1, line)  # fmt: skip
        inner.run(script)
        inner.called |= set(inner.functions)

    def substitute(self, node: Node) -> str | None:
        """Return what the commands of ``$( )`` write; None where that is not known."""
        outer, values, self.output = self.output, self.scope.values, []
        self.scope.values = dict(values)
        self.depth += 1
        if self.depth > DEEPEST:
            raise ShellLimitError(f"has commands within commands deeper than {DEEPEST}")
        started = len(self.started)
        try:
            self.block([child for child in node.children if child.is_named])
            return None if self.output is None else "\n".join(self.output)
        except shell_flow.LeaveError:
            return None if self.output is None else "\n".join(self.output)
        finally:
            del self.started[started:]
            self.output, self.scope.values, self.depth = outer, values, self.depth - 1

    def say(self, text: str | None) -> None:
        """Note what a command writes: None where it is not known, and nor is then what all of them write."""
        if self.output is not None:
            self.output = None if text is None or self.unsure else [*self.output, text]

    def line_of(self, node: Node) -> int:
        """Return the line a node is on, of the file itself."""
        return self.first_line or node.start_point[0] + 1

    def assign(self, name: str, value: ShellValue, more: bool = False) -> None:
        """Set a variable, or add to it."""
        old = self.values.get(name)
        if more and old is not None:
            if isinstance(old, list) or isinstance(value, list):
                value = [*items(old), *items(value)]
            elif isinstance(old, dict) or isinstance(value, dict):
                value = {**(old if isinstance(old, dict) else {}), **(value if isinstance(value, dict) else {})}
            else:
                value = self.scope.limits.made(old + value)
        self.scope.set(name, value)

    def _assignments(self, node: Node) -> bool:
        for each in node.children if node.type == "variable_assignments" else [node]:
            self._assignment(each)
        return True

    def _assignment(self, node: Node, mapping: bool = False) -> None:
        target, more = node.children[0], text_of(node.children[1]) == "+="
        given = node.children[2] if len(node.children) > 2 else None
        if target.type == "subscript":
            self._element(text_of(target.children[0]), self.words.text(target.children[2]), self.words.text(given), more)
            return
        name = text_of(target)
        mapping = mapping or isinstance(self.values.get(name), dict)
        if given is None or given.type != "array":
            self.assign(name, self.words.text(given), more)
        elif mapping:
            pairs = re.findall(r"\[([^\]]*)\]=(.*)", "\n".join(self.words.of(_words_of(given))))
            self.assign(name, dict(pairs), more)
        else:
            self.assign(name, self.words.of(_words_of(given)), more)

    def _element(self, name: str, key: str, text: str, more: bool) -> None:
        found = self.values.get(name, [])
        if isinstance(found, dict):
            self.scope.set(name, {**found, key: (found.get(key, "") if more else "") + text})
            return
        words, place = items(found), int(key) if re.fullmatch(r"[0-9]{1,4}", key) else None
        if place is None or place > len(words):
            self.scope.set(name, undecided(name, *words, text))
            return
        old = words[place] if more and place < len(words) else ""
        self.scope.set(name, [*words[:place], old + text, *words[place + 1 :]])

    def _declaration(self, node: Node) -> bool:
        """Set what ``export``, ``local``, ``declare`` and ``readonly`` set."""
        kind = text_of(node.children[0])
        flags = "".join(text_of(child)[1:] for child in node.children if text_of(child).startswith("-"))
        for child in node.children[1:]:
            if child.type == "variable_assignment":
                self._assignment(child, mapping="A" in flags)
                names = [text_of(child.children[0])]
            elif child.type == "variable_name":
                names = [text_of(child)]
                if "A" in flags and names[0] not in self.values:
                    self.scope.set(names[0], {})
            else:
                match = _ASSIGNED.match(self.words.text(child))
                names = [match[1]] if match else []
                if match:
                    self.assign(match[1], match[3], bool(match[2]))
            if kind == "export" or "x" in flags:
                self.scope.exported.update(names)
        return True

    def _unset(self, node: Node) -> bool:
        for child in node.children[1:]:
            self.values.pop(text_of(child), None)
        return True

    def _arithmetic(self, node: Node) -> bool | None:
        inner = next((child for child in node.children if child.is_named), None)
        found = arithmetic(inner, self.scope, self.words.text)
        return None if not re.fullmatch(r"-?[0-9]+", found) else int(found) != 0

    def _apart(self, node: Node) -> bool | None:
        """Go through a pipeline, or a subshell: what it sets is gone after it."""
        before = self.scope.values
        self.scope.values = dict(before)
        try:
            if node.type == "pipeline":
                return self._pipeline([child for child in node.children if child.is_named])
            return self.block(node.children)
        finally:
            self.scope.values = before

    def _pipeline(self, nodes: Sequence[Node]) -> bool | None:
        """Go through commands that read what the one before them writes."""
        outer, read = self.output, None  # type: list[str] | None, str | None
        status: bool | None = None
        for place, node in enumerate(nodes):
            last = place + 1 == len(nodes)
            words = self.words.of(_words_of(node)) if place and node.type == "command" else []
            if words and (found := written_by(words, self.scope, read)) is not None:
                self.output, status = [found], True
            else:
                self.output = [] if not last or outer is not None else None
                status = self.statement(node)
            read = None if self.output is None else "\n".join(self.output)
        self.output = outer
        if outer is not None:
            self.say(read)
        return status if len(nodes) == 1 else None

    def _redirected(self, node: Node) -> bool | None:
        """Go through a statement with redirections; words behind one are the command's all the same."""
        body = next((child for child in node.children if not child.type.endswith("_redirect")), None)
        redirects = [child for child in node.children if child.type.endswith("_redirect")]
        more = [word for redirect in redirects for word in _behind(redirect)]
        status: bool | None = None
        if body is not None and body.type == "command":
            status = self._command(body, more, redirects)
        elif body is not None:
            status = self.statement(body)
        for redirect in redirects:
            after = [child for child in redirect.children if child.type in ("pipeline", "command", "list")]
            text = self._document(redirect)
            for child in after:
                self._fed(child, text, self.line_of(node))
        return status

    def _fed(self, node: Node, text: str | None, line: int) -> None:
        """Go through what stands behind the mark of a here-document, which a pipe may feed to it."""
        status = self.statement(node)
        runs = [word for each in _leaves(node) for word in self.words.of(_words_of(each))[:1]]
        if text is not None and status is not False and any(word in (*RUNNERS, *SUBMITTERS) for word in runs):
            self.within(text, tuple(runs), line)

    def _document(self, redirect: Node) -> str | None:
        """Return the text of a here-document, expanded unless its mark is quoted."""
        if redirect.type != "heredoc_redirect":
            return None
        body = next((child for child in redirect.children if child.type == "heredoc_body"), None)
        start = next((text_of(child) for child in redirect.children if child.type == "heredoc_start"), "")
        if body is None:
            return ""
        text = text_of(body) if re.search(r"['\"\\]", start) else self.words.text(body)
        tabs = any(child.type == "<<-" for child in redirect.children)
        return re.sub(r"(?m)^\t+", "", text) if tabs else text

    def _command(self, node: Node, more: Sequence[Node] = (), redirects: Sequence[Node] = ()) -> bool | None:
        """Go through one command: a function, one that a shell has itself, or one that it starts."""
        environment: dict[str, str] = {}
        for child in (child for child in node.children if child.type == "variable_assignment"):
            given = child.children[2] if len(child.children) > 2 else None
            environment[text_of(child.children[0])] = self.words.text(given)
        words = self.words.of([*_words_of(node), *more])
        if not words:
            for name, value in environment.items():
                self.assign(name, value)
            return True
        line = self.line_of(node)
        documents = [text for each in redirects if (text := self._document(each)) is not None]
        targets = [self.words.text(each.children[-1 - len(_behind(each))]) for each in _all_files(redirects)]
        if words[0] in self.functions:
            return self._call(words)
        if words[0] in BUILTINS:
            return BUILTINS[words[0]](self, words, line)
        self.started.append(Command(tuple(words), line, self.launcher, environment, not self.unsure))
        return self._external(words, line, documents, targets)

    def _external(self, words: list[str], line: int, documents: list[str], targets: list[str]) -> bool | None:
        """Note what a command writes, and go through the script that it is given."""
        if documents and words[0] in ("cat", "tee"):
            for target in targets or words[1:2]:
                self.files[target] = Written(documents[-1], line)
            self.say(None if targets else documents[-1])
            return True
        self.say(written_by(words, self.scope, documents[-1] if documents else None))
        place = next((i for i, word in enumerate(words) if word.rsplit("/", 1)[-1] in RUNNERS), None)
        if place is not None:
            rest = words[place + 1 :]
            flag = next((i for i, word in enumerate(rest) if re.fullmatch(r"-[a-z]*c", word)), None)
            if flag is not None and flag + 1 < len(rest):
                self.within(rest[flag + 1], words[:place], line, rest[flag + 3 :])
                return None
        starts = words[0].rsplit("/", 1)[-1] in (*RUNNERS, *SUBMITTERS)
        for number, word in enumerate(words):
            if (starts or number == 0) and word.removeprefix("./") in {name.removeprefix("./") for name in self.files}:
                written = next(each for name, each in self.files.items() if name.removeprefix("./") == word.removeprefix("./"))
                self.within(written.text, words[:number], line, words[number + 1 :])
                return None
        for script in [*documents, *_wrapped(words)] if starts else ():
            self.within(script, words, line)
        return None

    def _call(self, words: list[str]) -> bool | None:
        """Run a function with its arguments."""
        outer, self.scope.arguments = self.scope.arguments, words[1:]
        self.called.add(words[0])
        self.depth += 1
        if self.depth > DEEPEST:
            raise ShellLimitError(f"has functions that call functions deeper than {DEEPEST}")
        try:
            return self.statement(self.functions[words[0]])
        except shell_flow.LeaveError as leave:
            if leave.what != "return":
                raise
            return None
        finally:
            self.scope.arguments, self.depth = outer, self.depth - 1


def _words_of(node: Node) -> list[Node]:
    """Return the words of a command or of an array; of ``> file word``, the words behind the file, too."""
    words: list[Node] = []
    for child in node.children:
        if child.type.endswith("_redirect"):
            words += _behind(child)
        elif child.is_named and child.type not in ("comment", "variable_assignment"):
            words.append(child)
    return words


def _behind(redirect: Node) -> list[Node]:
    """Return the words that stand behind a redirection: the grammar counts them to it, a shell to the command."""
    if redirect.type == "heredoc_redirect":
        return [child for child in redirect.children if child.type in ("word", "number", "string", "raw_string",
                "concatenation", "simple_expansion", "expansion", "command_substitution")]  # fmt: skip
    named = [child for child in redirect.children if child.is_named and child.type != "file_descriptor"]
    return named[1:] if redirect.type == "file_redirect" else []


def _all_files(redirects: Sequence[Node]) -> Iterator[Node]:
    """Yield the redirections into files, also of those that stand behind the mark of a here-document."""
    for redirect in redirects:
        if redirect.type == "file_redirect" and any(child.type in (">", ">>", "&>", ">|") for child in redirect.children):
            yield redirect
        elif redirect.type == "heredoc_redirect":
            yield from _all_files([child for child in redirect.children if child.type == "file_redirect"])


def _leaves(node: Node) -> Iterator[Node]:
    if node.type == "command":
        yield node
    else:
        for child in node.children:
            yield from _leaves(child)


def _wrapped(words: Sequence[str]) -> list[str]:
    """Return the scripts in arguments: ``sbatch --wrap "..."``, ``ssh host "..."``."""
    found = [word.partition("=")[2] for word in words if word.startswith("--wrap=")]
    found += [words[i + 1] for i, word in enumerate(words[:-1]) if word == "--wrap"]
    if words[0] in ("ssh", "pdsh") and any(" --" in word for word in words[1:]):
        found.append(" ".join(word for word in words[1:] if " " in word))
    return [script for script in found if not is_undecided(script)]
