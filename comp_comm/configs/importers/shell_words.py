"""Words of a shell script: expanded as a shell expands them, as far as the script itself says."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from comp_comm.configs.importers.shell_arithmetic import arithmetic
from comp_comm.configs.importers.shell_parameters import expansion
from comp_comm.configs.importers.shell_scope import Scope, ShellValue, unset
from comp_comm.configs.importers.shell_tree import parse, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

Substitute = Callable[["Node"], "str | None"]
MOST = 1000  # words of a range such as {1..8}
LITERAL = (
    "word", "number", "variable_name", "extglob_pattern", "regex", "test_operator", "special_variable_name",
    "string_content", "file_descriptor",
)  # fmt: skip
EXPANSIONS = ("simple_expansion", "expansion", "command_substitution", "arithmetic_expansion")
_ANSI = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"', "0": "", "a": "", "b": "", "e": ""}


class WordPiece(NamedTuple):
    """A part of a word: its text, whether blanks cut it, and whether a word ends after it."""

    text: str
    cut: bool = False
    ends: bool = False


def nothing(node: Node) -> None:
    """Return that it is not known what a command writes."""
    return


class Words:
    """Expands words within a scope; ``substitute`` says what a command writes, where that is known."""

    def __init__(self, scope: Scope, substitute: Substitute = nothing) -> None:
        self.scope, self.substitute = scope, substitute

    def of(self, nodes: Sequence[Node]) -> list[str]:
        """Return the words that words of a script become."""
        return [word for node in nodes for word in self.words(node)]

    def words(self, node: Node) -> list[str]:
        """Return the words that one word becomes: none, where it is a variable without a text."""
        self.scope.limits.step()
        done: list[str] = []
        current: str | None = None
        for piece in self._pieces(node):
            parts = re.split(r"[ \t\n]+", piece.text) if piece.cut else [piece.text]
            for number, part in enumerate(parts):
                if number and current is not None:
                    done.append(current)
                    current = None
                if part or not piece.cut:
                    current = (current or "") + part
            if piece.ends and current is not None:
                done.append(current)
                current = None
        expanded = done if current is None else [*done, current]
        self.scope.limits.made("".join(expanded), len(expanded))
        return expanded

    def text(self, node: Node | None) -> str:
        """Return a word as one text, as an assignment takes it."""
        if node is None:
            return ""
        self.scope.limits.step()
        pieces = list(self._pieces(node))
        text = "".join(
            piece.text + " " * (piece.ends and place + 1 < len(pieces)) for place, piece in enumerate(pieces)
        )
        return self.scope.limits.made(text)

    def _pieces(self, node: Node) -> Iterator[WordPiece]:
        kind = node.type
        if kind in LITERAL:
            yield WordPiece(re.sub(r"\\(\n|.)", lambda match: match[1].strip("\n"), text_of(node), flags=re.S))
        elif kind == "raw_string":
            yield WordPiece(text_of(node)[1:-1])
        elif kind == "ansi_c_string":
            yield WordPiece(
                re.sub(r"\\(.)", lambda match: _ANSI.get(match[1], match[0]), text_of(node)[2:-1], flags=re.S)
            )
        elif kind in ("string", "translated_string", "heredoc_body"):
            yield from self._string(node)
        elif kind in ("concatenation", "command_name"):
            yield from self._beside(node)
        elif kind in EXPANSIONS:
            yield from self._expanded(node, quoted=False)
        elif kind == "brace_expression":
            yield from self._range(node)
        elif node.child_count == 0:
            yield WordPiece(text_of(node))
        else:
            yield WordPiece(unset(text_of(node)))

    def _beside(self, node: Node) -> Iterator[WordPiece]:
        """Yield the parts of a word; what ``${X:+...}`` has between blanks are parts of one, too."""
        before = node.start_byte
        for child in node.children:
            if child.start_byte > before:
                yield WordPiece(" ", cut=True)
            if child.type != "$":  # of $"a text to be translated"
                yield from self._pieces(child)
            before = child.end_byte

    def _string(self, node: Node) -> Iterator[WordPiece]:
        """Yield what a text in double quotes (or a here-document) becomes: one word, but for an array taken whole."""
        node = node.children[-1] if node.type == "translated_string" else node
        quotes = node.type == "string"
        source, place, pieces = node.text or b"", int(quotes), []  # type: bytes, int, list[WordPiece]
        for child in (child for child in node.children if child.type in EXPANSIONS):
            start = child.start_byte - node.start_byte
            begins = start + _dollar(child.text or b"")  # the grammar counts blanks before it to it
            pieces.append(WordPiece(unquoted(source[place:begins].decode("utf-8", "replace"), quotes)))
            pieces += self._expanded(child, quoted=True)
            place = child.end_byte - node.start_byte
        rest = source[place : len(source) - quotes]
        pieces.append(WordPiece(unquoted(rest.decode("utf-8", "replace"), quotes)))
        if len(pieces) != 2 or any(piece.text for piece in pieces):  # an array without words leaves no word
            yield from pieces

    def _expanded(self, node: Node, quoted: bool) -> Iterator[WordPiece]:
        """Yield what a ``$`` stands for."""
        if node.type == "arithmetic_expansion":
            yield WordPiece(arithmetic(_inner(node), self.scope, self.text), cut=not quoted)
        elif node.type == "command_substitution":
            written = self.substitute(node)
            text = unset(text_of(node)[_dollar(node.text or b"") :]) if written is None else written.rstrip("\n")
            yield WordPiece(self.scope.limits.made(text), cut=not quoted)
        else:
            expanded = expansion(node, self.scope, self.text)
            if isinstance(expanded, str):
                yield WordPiece(expanded, cut=not quoted)
            else:
                yield from (
                    WordPiece(text, cut=not quoted, ends=place + 1 < len(expanded))
                    for place, text in enumerate(expanded)
                )

    def _range(self, node: Node) -> Iterator[WordPiece]:
        numbers = [int(text_of(child)) for child in node.children if re.fullmatch(r"-?[0-9]{1,6}", text_of(child))]
        if len(numbers) != 2 or abs(numbers[1] - numbers[0]) >= MOST:
            yield WordPiece(text_of(node))
            return
        first, last = numbers
        for number in range(first, last + 1) if first <= last else range(first, last - 1, -1):
            yield WordPiece(str(number), ends=True)


def _dollar(text: bytes) -> int:
    """Return where an expansion begins, in the text of its node."""
    return next((place for place, letter in enumerate(text) if letter in b"$`"), 0)


def _inner(node: Node) -> Node | None:
    return next((child for child in node.children if child.is_named), None)


def unquoted(text: str, quotes: bool = True) -> str:
    r"""Return a text in double quotes as it is meant: a backslash hides what has a meaning there, and ends of lines.

    >>> unquoted('a \\$b \\n')
    'a $b \\n'
    """
    special = r'\\([$`"\\\n])' if quotes else r"\\([$`\\\n])"
    return re.sub(special, lambda match: match[1].strip("\n"), text)


def expand(word: str, values: dict[str, ShellValue]) -> list[str]:
    """Return the words that a word becomes: quotes taken off, variables replaced, the unquoted ones cut at blanks.

    >>> expand('--tp=${TP:-4}', {}), expand('"${A[@]}"', {"A": ["x y", "z"]}), expand("$((2*$N))", {"N": "3"})
    (['--tp=4'], ['x y', 'z'], ['6'])
    """
    command = parse(f": {word}").root.children[0]
    return Words(Scope(dict(values))).of(command.children[1:])


def arithmetic_of(text: str, scope: Scope) -> str:
    """Return what arithmetic written as a text comes to.

    >>> arithmetic_of("(N + 2) * $M / 3 > 3 ? 2**4 : 0", Scope({"N": "1", "M": "4"}))
    '16'
    """
    body = parse(f"(({text}))").root
    statement = body.children[0] if body.children and not body.has_error else None
    inner = next((child for child in statement.children if child.is_named), None) if statement is not None else None
    return arithmetic(inner, scope, Words(scope).text) if inner is not None else unset(text)
