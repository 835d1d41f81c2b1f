"""A shell that only reads: it goes through a script as bash would, and notes which commands it would start."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from comp_comm.configs.importers import scheduler, shell_assign, shell_commands, shell_flow
from comp_comm.configs.importers.shell_arithmetic import arithmetic_of
from comp_comm.configs.importers.shell_machine import DEEPEST, Command, LeaveError, Written
from comp_comm.configs.importers.shell_scope import Scope, ShellLimitError, ShellValue, joined
from comp_comm.configs.importers.shell_tests import tested
from comp_comm.configs.importers.shell_tree import Flaw, parse, text_of
from comp_comm.configs.importers.shell_words import Words, within_brackets

if TYPE_CHECKING:
    from tree_sitter import Node

# What describes a job to the scheduler at the beginning of a script.
DIRECTIVE = re.compile(r"^#(?:SBATCH|PBS|BSUB|COBALT|FLUX:|PJM|OAR|MSUB)[ \t]+(.+)$", re.M)
_SILENT = ("comment", ";", "&", "\n", ";;", "do", "done", "then", "{", "}", "(", ")", "|", "|&", "&&", "||")


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
    locals: list[dict[str, ShellValue | None]] = field(default_factory=list)

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
        self.scope.limits.step(tree.reads)
        self.flaws += [flaw._replace(line=self.first_line or flaw.line) for flaw in tree.flaws]
        try:
            self.block(tree.root.children)
        except LeaveError:
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
            return shell_assign.assignments(self, node)
        if kind in ("command", "redirected_statement"):
            return shell_commands.command(self, node) if kind == "command" else shell_commands.redirected(self, node)
        if kind in ("declaration_command", "unset_command"):
            return (
                shell_assign.declaration(self, node)
                if kind == "declaration_command"
                else shell_assign.unset_of(self, node)
            )
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
        self.scope.values = self.scope.copied()
        try:
            self.block(nodes)
            return self.scope.values
        except LeaveError as leave:
            return None if leave.what in ("exit", "return") else self.scope.values
        finally:
            self.scope.values, self.unsure = before, self.unsure - 1

    def join(self, outcomes: Sequence[dict[str, ShellValue] | None]) -> None:
        """Take the variables of several outcomes, of those that go on: what differs between them is undecided."""
        left = [outcome for outcome in outcomes if outcome is not None]
        if not left:
            raise LeaveError("exit")
        self.scope.values = joined(left)

    def within(self, script: str, launcher: Sequence[str], line: int, arguments: Sequence[str] = (),
               environment: Mapping[str, str] = MappingProxyType({}), name: str | None = None) -> None:  # fmt: skip
        """Go through a script that this one starts: it knows what is exported, and what is set for it alone."""
        seen = self.values if "*" in self.scope.exported else self.scope.exported
        known = {name: value for name, value in self.values.items() if name in seen} | dict(environment)
        names = {*self.scope.exported, *environment}
        scope = Scope(known, names, set(), set(), list(arguments), self.scope.limits, self.scope.asked, name)
        inner = Shell(scope, self.started, {}, set(), self.files, self.sourced, self.flaws, self.directives,
                      (*self.launcher, *launcher), self.unsure, self.depth + 1, line)  # fmt: skip
        inner.run(script)
        inner.called |= set(inner.functions)

    def substitute(self, node: Node) -> str | None:
        """Return what the commands of ``$( )`` write; None where that is not known."""
        outer, values, arguments, self.output = self.output, self.scope.values, self.scope.arguments, []
        self.scope.values = self.scope.copied()
        self.depth += 1
        if self.depth > DEEPEST:
            raise ShellLimitError(f"has commands within commands deeper than {DEEPEST}")
        try:
            self.block([child for child in node.children if child.is_named])
            return None if self.output is None else "\n".join(self.output)
        except LeaveError:
            return None if self.output is None else "\n".join(self.output)
        finally:
            self.output, self.scope.values, self.depth = outer, values, self.depth - 1
            self.scope.arguments = arguments

    def say(self, text: str | None) -> None:
        """Note what a command writes: None where it is not known, and nor is then what all of them write."""
        if self.output is not None:
            self.output = None if text is None or self.unsure else [*self.output, text]

    def line_of(self, node: Node) -> int:
        """Return the line a node is on, of the file itself."""
        return self.first_line or node.start_point[0] + 1

    def _arithmetic(self, node: Node) -> bool | None:
        value = arithmetic_of(within_brackets(self.words.filled(node)), self.scope)
        return None if not re.fullmatch(r"-?[0-9]+", value) else int(value) != 0

    def _apart(self, node: Node) -> bool | None:
        """Go through a pipeline, or a subshell: what it sets is gone after it."""
        before, arguments, functions = self.scope.values, self.scope.arguments, self.functions
        self.scope.values, self.functions = self.scope.copied(), dict(functions)
        try:
            if node.type == "pipeline":
                return shell_commands.pipeline(self, [child for child in node.children if child.is_named])
            return self.block(node.children)
        except LeaveError as leave:
            if leave.what not in ("exit", "return"):
                raise
            return None  # it leaves the subshell alone
        finally:
            self.scope.values, self.scope.arguments, self.functions = before, arguments, functions
