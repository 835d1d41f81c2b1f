"""A shell script as a tree, by tree-sitter's grammar of bash."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from comp_comm.configs.importers.shell_letters import decoded, encoded
from comp_comm.configs.importers.shell_nodes import Spot, spots_at
from comp_comm.configs.importers.shell_scope import ShellLimitError, unset
from comp_comm.errors import MissingExtraError

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

# What scripts have where a value is to be filled in: DATA=<path to the data>_text; a redirection ends in no bracket.
PLACEHOLDER = re.compile(r"(?<![<\w)])<([A-Za-z][^<>\n|&;()`$]{0,100}[^<>\s|&;()`$])>")
# One before an argument: a shell would take the argument for the file that a redirection writes, which nobody means.
BEFORE_ARGUMENT = re.compile(PLACEHOLDER.pattern + r"(?=[ \t]+(?:\\\n[ \t]*)?--[A-Za-z])")

MOST_REPAIRS = 12
MAX_SCRIPT = 512 * 1024  # characters
PIECE = 4096  # bytes
MOST_READS = 8000  # of pieces; a script that the grammar understands takes some two for each piece
LONGEST_LINE = 1000  # of a script, as far as messages need it
VARIABLE = re.compile(rb"\$([A-Za-z_]\w*|[0-9@*#?])")
# Assignments that end a line before a word of the language, which the grammar takes for a command.
ASSIGNED = re.compile(
    r"((?<![^\s;&|()`])\w+=[^\s;&|()`\\]*[ \t]+\w+=[^\s;&|()`\\]*)[ \t]*\n"
    r"(?=\s*(?:(?:elif|else|fi|for|while|until|if|done|case|esac|select|function)\b|[{}]\s))"
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
    rb"\\(?!\n)|(?<==)#|\$|(?<!\\\n)^[ \t]*(\[\[|[{}](?=\s)|" + rb"|".join(sorted(RESERVED)) + rb")(?![\w=])", re.M
)


class Flaw(NamedTuple):
    """What of a script the grammar does not understand, and its line."""

    line: int
    text: str


class Script(NamedTuple):
    """A script's tree, what of it is no shell, and how many pieces of it were read for that."""

    root: Node
    flaws: tuple[Flaw, ...]
    reads: int = 0


@cache
def _parser() -> Parser:
    try:
        import tree_sitter
        import tree_sitter_bash
    except ImportError:
        raise MissingExtraError("reading a shell script", "import") from None
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def parse(script: str) -> Script:
    """Return the tree of a script.

    Raises ``MissingExtraError`` where the grammar is not installed, ``ShellLimitError`` for more than is read of one.

    >>> [flaw.text for flaw in parse("A=1; run --x $A # no flaw").flaws], parse("A=(1 > x )").flaws[0].line
    ([], 1)
    """
    if len(script) > MAX_SCRIPT:
        raise ShellLimitError(f"is larger than {MAX_SCRIPT // 1024} KiB")
    reader = _Reader()
    script = script.replace("\r\n", "\n") + "\n\n"  # a last line that goes on ends all the same
    script = BEFORE_ARGUMENT.sub(lambda match: unset(match[1]), script)
    read = reader.read(script)
    for _ in range(MOST_REPAIRS):  # what is seen may uncover what is not
        source = encoded(script)
        matches = list(VARIABLE.finditer(source))
        spots = spots_at(read.root, [match.start() for match in matches])
        unseen = [match for match, spot in zip(matches, spots, strict=True) if _is_unseen(spot, source, match.start())]
        if not unseen:
            break
        script = _in_braces(source, unseen)
        read = reader.read(script)
    for pattern, other in REPAIRS:
        if read.flaws and pattern.search(script):
            script = pattern.sub(other, script)
            read = min(reader.read(script), read, key=lambda each: len(each.flaws))
    return read._replace(reads=reader.reads)


class _Reader:
    """Reads scripts, of so many pieces in all: the grammar goes again and again over what it makes no sense of."""

    def __init__(self) -> None:
        self.reads = 0

    def read(self, script: str) -> Script:
        """Return the tree of a script. Raises ``ShellLimitError`` for one that takes too long.

        It is read twice: piece by piece to see how long it takes, and as a whole, for a tree that is made of pieces
        asks for them once more whenever the text of a node is wanted, and ends the process where that fails.
        """
        source = encoded(script)

        def piece(place: int, point: object) -> bytes:
            self.reads += 1
            return source[place : place + PIECE]

        def is_enough(place: int, has_error: bool) -> bool:
            return self.reads > MOST_READS

        try:
            _parser().parse(piece, progress_callback=is_enough)
        except ValueError:
            _parser().reset()
            raise ShellLimitError("takes long to be read as a script") from None
        root = _parser().parse(source).root_node
        return Script(root, tuple(_flaws(root)))


def _is_unseen(spot: Spot | None, source: bytes, place: int) -> bool:
    """Return whether the grammar does not see a variable: before a dot, say, or behind a text in quotes."""
    if spot is None or spot.node.type not in ("$", "word"):
        return False
    if spot.node.type == "$":
        return spot.is_last
    first = place
    while first > spot.node.start_byte and source[first - 1 : first] == b"\\":
        first -= 1
    return (place - first) % 2 == 0


def _in_braces(source: bytes, variables: Sequence[re.Match[bytes]]) -> str:
    """Return a script with braces around the names of these variables."""
    pieces, place = [], 0
    for match in variables:
        pieces += [source[place : match.start()], b"${", match[1], b"}"]
        place = match.end()
    return decoded(b"".join([*pieces, source[place:]]))


def _flaws(root: Node) -> Iterator[Flaw]:
    """Yield what is no shell, and what the grammar reads otherwise than a shell does."""
    waiting = [root] if root.has_error else []
    while waiting:
        node = waiting.pop()
        if node.is_error or node.is_missing:
            yield Flaw(node.start_point[0] + 1, text_of(node).strip().split("\n")[0])
        else:
            waiting += [child for child in reversed(node.children) if child.has_error or child.is_missing]
    yield from _misread(root)


def _misread(root: Node) -> Iterator[Flaw]:
    """Yield what is shell, but is read otherwise than a shell does."""
    source, begin = root.text or b"", root.start_byte
    lines = source.split(b"\n")
    ends = list(accumulate(len(line) + 1 for line in lines))
    places = [match.start(match.lastindex or 0) for match in SUSPECTS.finditer(source)]
    for place, spot in zip(places, spots_at(root, [begin + place for place in places]), strict=True):
        if spot is None or _is_misread(spot, source, begin, place):
            line = bisect_right(ends, place)
            yield Flaw(line + 1, decoded(lines[line][:LONGEST_LINE]).strip())


def _is_misread(spot: Spot, source: bytes, begin: int, place: int) -> bool:
    """Return whether the grammar loses a backslash, takes a word apart at one, or a word of the language for any."""
    node, kind, parent = spot.node, spot.node.type, "" if spot.parent is None else spot.parent.type
    if source[place : place + 1] in (b"#", b"$"):
        return kind == "comment" if source[place : place + 1] == b"#" else kind == "$" and spot.is_last
    if source[place : place + 1] != b"\\":
        short = kind == "word" and node.end_byte - node.start_byte < 9
        return short and parent in ("command_name", "command", "file_redirect")
    if node.child_count:
        return kind not in TEXTS  # between words, where only the end of a line may be hidden
    if kind != "word":
        return False
    if node.end_byte - begin == place + 1:
        return True  # it hides a letter of another word
    if node.start_byte - begin != place or source[max(place - 1, 0) : place].strip(b" \t\n;&|()`{") == b"":
        return False
    return parent in ("command_name", "declaration_command")


def text_of(node: Node) -> str:
    """Return the text of a node."""
    return decoded(node.text or b"")
