"""A shell script as a tree, by tree-sitter's grammar of bash."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from comp_comm.configs.importers.shell_scope import UNDECIDED, UNSET, unset
from comp_comm.errors import MissingExtraError

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

# What scripts have where a value is to be filled in: DATA=<path to the data>_text; a redirection ends in no bracket.
PLACEHOLDER = re.compile(r"(?<![<\w)])<([A-Za-z][^<>\n|&;()`$]{0,100}[^<>\s|&;()`$])>")


class Flaw(NamedTuple):
    """What of a script the grammar does not understand, and its line."""

    line: int
    text: str


class Script(NamedTuple):
    """A script's tree, and what of it is no shell."""

    root: Node
    flaws: tuple[Flaw, ...]


@cache
def _parser() -> Parser:
    try:
        import tree_sitter
        import tree_sitter_bash
    except ImportError:
        raise MissingExtraError("reading a shell script", "import") from None
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def parse(script: str) -> Script:
    """Return the tree of a script. Raises ``MissingExtraError`` where the grammar is not installed.

    >>> [flaw.text for flaw in parse("A=1; run --x $A # no flaw").flaws], parse("A=(1 > x )").flaws[0].line
    ([], 1)
    """
    script = script.replace("\r\n", "\n") + "\n\n"  # a last line that goes on ends all the same
    root = _parser().parse(script.encode("utf-8", "replace")).root_node
    if root.has_error and PLACEHOLDER.search(script):
        filled = PLACEHOLDER.sub(lambda match: unset(match[1]), script)
        root = _parser().parse(filled.encode("utf-8", "replace")).root_node
    return Script(root, tuple(_flaws(root)))


def without_marks(text: str) -> str:
    """Return a text without the characters that mark what has no value."""
    return text.replace(UNSET, "?").replace(UNDECIDED, "?")


def _flaws(root: Node) -> Iterator[Flaw]:
    waiting = [root] if root.has_error else []
    while waiting:
        node = waiting.pop()
        if node.is_error or node.is_missing:
            yield Flaw(node.start_point[0] + 1, text_of(node).strip().split("\n")[0])
        else:
            waiting += [child for child in reversed(node.children) if child.has_error or child.is_missing]


def text_of(node: Node) -> str:
    """Return the text of a node."""
    return (node.text or b"").decode("utf-8", "replace")
