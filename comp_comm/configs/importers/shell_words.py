"""Words of a shell script: expanded as a shell expands them, as far as the script itself says."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from comp_comm.configs.importers.shell_arithmetic import arithmetic_of
from comp_comm.configs.importers.shell_braces import WordPiece, spread
from comp_comm.configs.importers.shell_letters import decoded
from comp_comm.configs.importers.shell_parameters import DefaultWords, expansion
from comp_comm.configs.importers.shell_scope import Scope, ShellValue, undecided, unset
from comp_comm.configs.importers.shell_tree import parse, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

Substitute = Callable[["Node"], "str | None"]
LITERAL = (
    "word", "number", "variable_name", "extglob_pattern", "regex", "test_operator", "special_variable_name",
    "string_content", "file_descriptor",
)  # fmt: skip
QUOTED = ("string", "raw_string", "ansi_c_string")
EXPANSIONS = ("simple_expansion", "expansion", "command_substitution", "arithmetic_expansion")
_ANSI = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "v": "\v"}
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{1,2}|[0-7]{1,3}|u[0-9a-fA-F]{1,4}|.)", re.S)


def nothing(node: Node) -> None:
    """Return that it is not known what a command writes."""
    return


class Words:
    """Expands words within a scope; ``substitute`` says what a command writes, where that is known."""

    def __init__(self, scope: Scope, substitute: Substitute = nothing) -> None:
        self.scope, self.substitute = scope, substitute

    def of(self, nodes: Sequence[Node]) -> list[str]:
        """Return the words that words of a script become; the grammar cuts some in two, which have no blank between."""
        groups: list[list[Node]] = []
        for node in nodes:
            if groups and groups[-1][-1].end_byte == node.start_byte:
                groups[-1].append(node)
            else:
                groups.append([node])
        return [word for group in groups for word in self._word(group)]

    def _word(self, nodes: Sequence[Node]) -> list[str]:
        """Return the words that one word becomes: none, where it is a variable without a text."""
        self.scope.limits.step()
        parts = [piece for node in nodes for piece in self._pieces(node)]
        expanded = [word for pieces in spread(parts) for word in self._split(pieces)]
        self.scope.limits.made("".join(expanded), len(expanded))
        return expanded

    def _split(self, pieces: Sequence[WordPiece]) -> list[str]:
        """Return the words that blanks cut a word into, or what the variable IFS has instead of blanks."""
        done: list[str] = []
        current: str | None = None
        separators = self.scope.separators()
        for piece in pieces:
            parts = re.split(separators, piece.text) if piece.cut and separators else [piece.text]
            for number, part in enumerate(parts):
                if number and current is not None:
                    done.append(current)
                    current = None
                if part or not piece.cut:
                    current = (current or "") + part
            if piece.ends and current is not None:
                done.append(current)
                current = None
        return done if current is None else [*done, current]

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
        if kind in LITERAL and not (kind == "number" and node.children):
            for part in re.split(r"(\\.)", text_of(node), flags=re.S):
                escaped = part.startswith("\\") and len(part) > 1
                yield WordPiece(part[1:].strip("\n") if escaped else part, bare=not escaped)
        elif kind == "raw_string":
            yield WordPiece(text_of(node)[1:-1])
        elif kind == "ansi_c_string":
            yield WordPiece(with_escapes(text_of(node)[2:-1]))
        elif kind in ("string", "translated_string", "heredoc_body"):
            yield from self._string(node)
        elif kind in ("concatenation", "command_name"):
            yield from self._beside(node.children)
        elif kind in EXPANSIONS:
            yield from self._expanded(node, quoted=False)
        elif kind == "brace_expression":
            yield WordPiece(text_of(node), bare=True)
        elif node.child_count == 0:
            yield WordPiece(text_of(node))
        elif kind == "number":  # 16#${X}
            yield WordPiece(self.filled(node))
        else:
            yield WordPiece(undecided(text_of(node)))

    def _default(self, nodes: Sequence[Node], quoted: bool) -> Iterator[WordPiece]:
        """Yield what stands for a variable without a text; within quotes, as any text in them."""
        if quoted and all(map(_is_plain, nodes)):
            yield WordPiece(unquoted("".join(map(text_of, nodes))))
            return
        for piece in self._beside(nodes):
            yield piece._replace(cut=(piece.cut or piece.bare) and not quoted, bare=False)

    def _beside(self, nodes: Sequence[Node]) -> Iterator[WordPiece]:
        """Yield the parts of a word; what ``${X:+...}`` has between blanks are parts of one, too."""
        before = nodes[0].start_byte if nodes else 0
        for child in nodes:
            if child.start_byte > before:
                yield WordPiece(" ", cut=True)
            following = child.next_sibling
            if child.type != "$" or following is None or following.type != "string":  # but for $"a text"
                yield from self._pieces(child)
            before = child.end_byte

    def filled(self, node: Node) -> str:
        """Return the text of a node with the texts of its variables in it."""
        if node.type in (*QUOTED, *EXPANSIONS) and node.type != "arithmetic_expansion" and not _is_arithmetic(node):
            return self.text(node)
        if not node.children:
            return text_of(node)
        source, place, parts = node.text or b"", 0, []  # type: bytes, int, list[str]
        for child in node.children:
            start = child.start_byte - node.start_byte
            parts += [decoded(source[place:start]), self.filled(child)]
            place = child.end_byte - node.start_byte
        return "".join([*parts, decoded(source[place:])])

    def _string(self, node: Node) -> Iterator[WordPiece]:
        """Yield what a text in double quotes (or a here-document) becomes: one word, but for an array taken whole."""
        node = node.children[-1] if node.type == "translated_string" else node
        quotes = node.type == "string"
        source, place, pieces = node.text or b"", int(quotes), []  # type: bytes, int, list[WordPiece]
        for child in (child for child in node.children if child.type in EXPANSIONS):
            start = child.start_byte - node.start_byte
            begins = start + _dollar(child.text or b"")  # the grammar counts blanks before it to it
            pieces.append(WordPiece(unquoted(decoded(source[place:begins]), quotes)))
            pieces += self._expanded(child, quoted=True)
            place = child.end_byte - node.start_byte
        rest = source[place : len(source) - quotes]
        pieces.append(WordPiece(unquoted(decoded(rest), quotes)))
        if len(pieces) != 2 or any(piece.text for piece in pieces):  # an array without words leaves no word
            yield from pieces

    def _expanded(self, node: Node, quoted: bool) -> Iterator[WordPiece]:
        """Yield what a ``$`` stands for."""
        if node.type == "arithmetic_expansion":
            yield WordPiece(arithmetic_of(within_brackets(self.filled(node)), self.scope), cut=not quoted)
        elif node.type == "command_substitution" and _is_arithmetic(node):
            yield WordPiece(arithmetic_of(self.filled(node)[3:-2], self.scope), cut=not quoted)
        elif node.type == "command_substitution":
            written = self.substitute(node)
            text = unset(text_of(node)[_dollar(node.text or b"") :]) if written is None else written.rstrip("\n")
            yield WordPiece(self.scope.limits.made(text), cut=not quoted)
        else:
            expanded = expansion(node, self.scope, self.text)
            if isinstance(expanded, str):
                yield WordPiece(expanded, cut=not quoted)
            elif isinstance(expanded, DefaultWords):
                yield from self._default(expanded.nodes, quoted)
            else:
                yield from (
                    WordPiece(text, cut=not quoted, ends=place + 1 < len(expanded))
                    for place, text in enumerate(expanded)
                )


def _dollar(text: bytes) -> int:
    """Return where an expansion begins, in the text of its node."""
    return next((place for place, letter in enumerate(text) if letter in b"$`"), 0)


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


def with_escapes(text: str) -> str:
    r"""Return a text with what its backslashes mean, as ``$'...'`` and ``echo -e`` have it.

    >>> with_escapes(r"a\tb\x41\101\q")
    'a\tbAA\\q'
    """

    def meant(match: re.Match[str]) -> str:
        escape = match[1]
        if len(escape) > 1 or escape in "01234567":
            return chr(int(escape.lstrip("xu"), 8 if escape[0].isdigit() else 16) & 0xFFFF) if escape != "0" else ""
        return _ANSI.get(escape, escape if escape in "\\'\"?" else match[0])

    return _ESCAPE.sub(meant, text)


def within_brackets(text: str) -> str:
    """Return what is between the brackets of arithmetic.

    >>> within_brackets("$((1 + 2))"), within_brackets("$[3]"), within_brackets("((A = 1))")
    ('1 + 2', '3', 'A = 1')
    """
    inside = text.strip().removeprefix("$")
    return inside[2:-2] if inside.startswith("((") else inside[1:-1]


def _is_plain(node: Node) -> bool:
    """Return whether nothing in a word stands for something else."""
    return node.type in (*LITERAL, "raw_string") or (
        node.type == "concatenation" and all(map(_is_plain, node.children)))  # fmt: skip


def _is_arithmetic(node: Node) -> bool:
    """Return whether what the grammar takes for a command is arithmetic: ``$((`` within ``${X:-...}``."""
    return node.type == "command_substitution" and text_of(node).startswith("$((") and text_of(node).endswith("))")
