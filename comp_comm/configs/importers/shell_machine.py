"""What the parts of the reading shell share: what a command is, and what goes through a script's statements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from comp_comm.configs.importers.shell_scope import Scope, ShellValue
from comp_comm.configs.importers.shell_tree import Flaw
from comp_comm.configs.importers.shell_words import Words

if TYPE_CHECKING:
    from tree_sitter import Node

DEEPEST = 12  # scripts within scripts, and functions that call functions


class LeaveError(Exception):
    """A script, a function or a loop that is left: by ``exit``, ``return``, ``break`` or ``continue``."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


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


class Machine(Protocol):
    """What goes through statements: its variables, what it has started and written so far."""

    scope: Scope
    started: list[Command]
    functions: dict[str, Node]
    called: set[str]
    files: dict[str, Written]
    sourced: list[str]
    flaws: list[Flaw]
    launcher: tuple[str, ...]
    unsure: int
    depth: int
    first_line: int
    output: list[str] | None
    locals: list[dict[str, ShellValue | None]]

    @property
    def words(self) -> Words:
        """What expands words as the script is now."""

    def run(self, script: str) -> None:
        """Go through a script."""

    def block(self, nodes: Sequence[Node]) -> bool | None:
        """Go through statements one after the other; return whether the last one succeeded."""

    def statement(self, node: Node) -> bool | None:
        """Go through one statement; return whether it succeeds, None where the script does not decide that."""

    def maybe(self, nodes: Sequence[Node]) -> dict[str, ShellValue] | None:
        """Go through statements that may not run; return the variables after them, None where the script ends there."""

    def join(self, outcomes: Sequence[dict[str, ShellValue] | None]) -> None:
        """Take the variables of several outcomes, of those that go on."""

    def within(self, script: str, launcher: Sequence[str], line: int, arguments: Sequence[str] = (),
               environment: Mapping[str, str] = MappingProxyType({}), name: str | None = None) -> None:  # fmt: skip
        """Go through a script that this one starts, with ``environment`` beside what is exported; $0 is ``name``."""

    def say(self, text: str | None) -> None:
        """Note what a command writes; None where it is not known."""

    def line_of(self, node: Node) -> int:
        """Return the line a node is on, of the file itself."""
