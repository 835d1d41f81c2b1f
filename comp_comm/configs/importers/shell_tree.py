"""A shell script as a tree, by tree-sitter's grammar of bash."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from comp_comm.configs.importers.shell_scope import UNDECIDED, UNSET, unset
from comp_comm.errors import MissingExtraError

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

# What scripts have where a value is to be filled in: DATA=<path to the data>_text; a redirection ends in no bracket.
PLACEHOLDER = re.compile(r"(?<![<\w)])<([A-Za-z][^<>\n|&;()`$]{0,100}[^<>\s|&;()`$])>")

MOST_REPAIRS = 12
VARIABLE = re.compile(rb"\$([A-Za-z_]\w*|[0-9@*#?])")
# Assignments that end a line before a word of the language, which the grammar takes for a command.
ASSIGNED = re.compile(
    r"(\b\w+=[^\s;&|()`\\]*[ \t]+\w+=[^\s;&|()`\\]*)[ \t]*\n(?=\s*(?:elif|else|fi|for|while|if|done|case)\b)"
)
# What the grammar reads otherwise than a shell, as it reads it right; and what is no shell, as what is meant.
REPAIRS: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r"(\]|\))[ \t]*\n(\s*)(then|do)\b"), r"\1;\n\2\3"),
    (ASSIGNED, r"\1;\n"),
    (PLACEHOLDER, lambda match: unset(match[1])),
)
TEXTS = ("string", "string_content", "translated_string", "heredoc_body", "heredoc_content", "raw_string", "regex",
         "ansi_c_string", "comment", "heredoc_redirect")  # fmt: skip
RESERVED = frozenset(b"if then elif else fi for while until do done case esac select function".split())
# Backslashes that hide no end of a line, signs that begin no comment and no variable, and words of the language where
# a statement begins.
SUSPECTS = re.compile(
    rb"\\(?!\n)|(?<==)#|\$|(?<!\\\n)^[ \t]*(\[\[|" + rb"|".join(sorted(RESERVED)) + rb")(?![\w=])", re.M
)


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
    read = _read(script)
    for _ in range(MOST_REPAIRS):  # what is seen may uncover what is not
        source = script.encode("utf-8", "replace")
        unseen = [match for match in VARIABLE.finditer(source) if _is_unseen(read.root, match)]
        if not unseen:
            break
        script = _in_braces(source, unseen)
        read = _read(script)
    for pattern, other in REPAIRS:
        if read.flaws and pattern.search(script):
            script = pattern.sub(other, script)
            read = min(_read(script), read, key=lambda each: len(each.flaws))
    return read


def _read(script: str) -> Script:
    root = _parser().parse(script.encode("utf-8", "replace")).root_node
    return Script(root, tuple(_flaws(root)))


def without_marks(text: str) -> str:
    """Return a text without the characters that mark what has no value."""
    return text.replace(UNSET, "?").replace(UNDECIDED, "?")


def _is_unseen(root: Node, match: re.Match[bytes]) -> bool:
    """Return whether the grammar does not see a variable: before a dot, say, or behind a text in quotes."""
    node = root.descendant_for_byte_range(match.start(), match.start() + 1)
    if node is None or node.type not in ("$", "word"):
        return False
    if node.type == "$":
        return node.next_sibling is None
    before = (node.text or b"")[: match.start() - node.start_byte]
    return (len(before) - len(before.rstrip(b"\\"))) % 2 == 0


def _in_braces(source: bytes, variables: Sequence[re.Match[bytes]]) -> str:
    """Return a script with braces around the names of these variables."""
    pieces, place = [], 0
    for match in variables:
        pieces += [source[place : match.start()], b"${", match[1], b"}"]
        place = match.end()
    return b"".join([*pieces, source[place:]]).decode("utf-8", "replace")


def _flaws(root: Node) -> Iterator[Flaw]:
    """Yield what is no shell, and what the grammar reads otherwise than a shell does."""
    waiting = [root] if root.has_error else []
    while waiting:
        node = waiting.pop()
        if node.is_error or node.is_missing:
            yield Flaw(node.start_point[0] + 1, text_of(node).strip().split("\n")[0])
        else:
            waiting += [child for child in reversed(node.children) if child.has_error or child.is_missing]
    source, begin = root.text or b"", root.start_byte
    for match in SUSPECTS.finditer(source):
        place = match.start(match.lastindex or 0)
        leaf = root.descendant_for_byte_range(begin + place, begin + place + 1)
        if leaf is None or _is_misread(leaf, source, begin, place):
            line = source.count(b"\n", 0, place) + 1
            yield Flaw(line, source.split(b"\n")[line - 1].decode("utf-8", "replace").strip())


def _is_misread(node: Node, source: bytes, begin: int, place: int) -> bool:
    """Return whether the grammar loses a backslash, takes a word apart at one, or a word of the language for any."""
    kind = node.type
    if source[place : place + 1] in (b"#", b"$"):
        return kind == "comment" if source[place : place + 1] == b"#" else kind == "$" and node.next_sibling is None
    if source[place : place + 1] != b"\\":
        parent = node.parent.type if kind == "word" and node.parent is not None else ""
        return node.end_byte - node.start_byte < 9 and parent in ("command_name", "command", "file_redirect")
    if node.child_count:
        return kind not in TEXTS  # between words, where only the end of a line may be hidden
    if kind != "word":
        return False
    if node.end_byte - begin == place + 1:
        return True  # it hides a letter of another word
    if node.start_byte - begin != place or source[max(place - 1, 0) : place].strip(b" \t\n;&|()`{") == b"":
        return False
    return node.parent is not None and node.parent.type in ("command_name", "declaration_command")


def text_of(node: Node) -> str:
    """Return the text of a node."""
    return (node.text or b"").decode("utf-8", "replace")
