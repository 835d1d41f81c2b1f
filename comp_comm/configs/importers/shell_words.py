"""Words of a shell script: cut as a shell cuts them, and expanded as far as the script itself says.

What a script leaves to its caller ($1, a variable of the environment) expands to a mark, `UNSET`, so that whoever reads
the words can tell.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

UNSET, UNDECIDED = "\0", "\1"  # marks round the name of a variable that is not set, or that depends on a condition
Values = Mapping[str, "str | list[str]"]
_NAME = re.compile(r"[A-Za-z_]\w*|[0-9]+|[@*#?$!-]")
_ASSIGN_ARRAY = re.compile(r"[A-Za-z_]\w*\+?=$")
_OPERATORS = (";;", "&&", "||", ";", "|", "&", "\n")
_SPACE = " \t\r"
_NUMBERS: dict[type, Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.floordiv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip


class Word(NamedTuple):
    """A word as written, quotes and all, or an operator between commands; an array has its words in ``items``."""

    text: str
    is_operator: bool = False
    is_array: bool = False
    items: tuple[str, ...] = ()


def words_of(script: str) -> Iterator[Word]:
    """Yield the words and operators of a script; comments and the marks of here-documents are left out.

    >>> [word.text for word in words_of("A=1 # one\\nrun --x $A; B=(2 3)")]
    ['A=1', '\\n', 'run', '--x', '$A', ';', 'B=']
    """
    text = script.replace("\r\n", "\n").replace("\\\n", " ")
    place = 0
    while place < len(text):
        if text[place] in _SPACE:
            place += 1
        elif text[place] == "#":
            place = _until(text, place, "\n")
        elif text.startswith("<<", place):
            place = re.compile(r"<<<?-?\s*(\S*)").match(text, place).end()  # type: ignore[union-attr]
        elif found := next((each for each in _OPERATORS if text.startswith(each, place)), None):
            yield Word(found, is_operator=True)
            place += len(found)
        elif text[place] in "()":
            yield Word(text[place], is_operator=True)
            place += 1
        else:
            end = _word_end(text, place)
            word = text[place:end]
            if _ASSIGN_ARRAY.match(word) and text[end : end + 1] == "(":
                close = _closing(text, end)
                items = tuple(each.text for each in words_of(text[end + 1 : close]) if not each.is_operator)
                yield Word(word, is_array=True, items=items)
                end = close + 1
            else:
                yield Word(word)
            place = end


def _until(text: str, place: int, what: str) -> int:
    found = text.find(what, place)
    return len(text) if found < 0 else found


def _word_end(text: str, place: int) -> int:
    while place < len(text):
        letter = text[place]
        if letter in _SPACE or letter in "\n;|&()":
            return place
        place = _skip(text, place)
    return place


def _skip(text: str, place: int) -> int:
    """Return where the letter, the quoted text or the expansion that begins at ``place`` ends."""
    letter = text[place]
    if letter == "\\":
        return min(place + 2, len(text))
    if letter == "'":
        return min(_until(text, place + 1, "'") + 1, len(text))
    if letter in '"`':
        place += 1
        while place < len(text) and text[place] != letter:
            place = _skip(text, place) if text[place] in "\\$" else place + 1
        return min(place + 1, len(text))
    if text.startswith(("$(", "${"), place):
        return min(_closing(text, place + 1) + 1, len(text))
    name = _NAME.match(text, place + 1) if letter == "$" else None
    return name.end() if name else place + 1


def _closing(text: str, place: int) -> int:
    """Return where the bracket that opens at ``place`` is closed; comments and quoted text between are passed over."""
    opening = text[place]
    closing = {"(": ")", "{": "}"}[opening]
    place += 1
    while place < len(text) and text[place] != closing:
        if text[place] == opening:
            place = _closing(text, place) + 1
        elif text[place] == "#" and opening == "(" and text[place - 1] in " \t\n":
            place = _until(text, place, "\n")
        else:
            place = _skip(text, place)
    return place


def expand(word: str, values: Values) -> list[str]:
    """Return the words that a word becomes: quotes taken off, variables replaced, the unquoted ones cut at blanks.

    >>> expand('--tp=${TP:-4}', {}), expand('"${A[@]}"', {"A": ["x y", "z"]}), expand("$((2*$N))", {"N": "3"})
    (['--tp=4'], ['x y', 'z'], ['6'])
    """
    done: list[str] = []
    current: str | None = None
    place = 0
    while place < len(word):
        end = _skip(word, place)
        piece = word[place:end]
        if piece[0] == '"':
            parts = _quoted(piece, values)
        elif piece[0] in "$`":
            parts = _substitute(piece, values).split()
        else:
            parts = [_plain(piece)]
        for number, part in enumerate(parts):
            if number:
                done.append(current or "")
                current = None
            current = (current or "") + part
        place = end
    return [*done, current] if current is not None else done


def mark(what: str) -> str:
    """Return what stands for something that the script does not say."""
    return UNSET + "".join(what.split()) + UNSET


def _plain(piece: str) -> str:
    if piece[0] == "'" and len(piece) > 1:
        return piece[1:-1]
    return piece[1:] if piece[0] == "\\" else piece


def _quoted(piece: str, values: Values) -> list[str]:
    """Return what a text in double quotes becomes: one word, but for an array taken whole."""
    inner = piece[1:-1]
    whole = re.fullmatch(r"\$\{(\w+)\[@\]\}", inner)
    if whole and isinstance(values.get(whole[1]), list):
        return list(values[whole[1]])
    out, place = "", 0
    while place < len(inner):
        end = _skip(inner, place) if inner[place] in "\\$`" else place + 1
        piece = inner[place:end]
        if piece[0] in "$`":
            out += _substitute(piece, values)
        else:
            out += piece[1:] if piece[0] == "\\" and piece[1:] in '"\\$`' else piece
        place = end
    return [out]


def _substitute(piece: str, values: Values) -> str:
    """Return what ``$X``, ``${X...}``, ``$((...))`` or ``$(...)`` stands for."""
    if piece.startswith("$(("):
        return arithmetic(piece[3:-2], values)
    if piece.startswith(("$(", "`")):
        return mark(piece)
    if piece == "$":
        return "$"
    name, rest = _name_and_rest(piece)
    value = _value(name, values)
    match = re.match(r":?([-=+?])(.*)", rest, re.S)
    if match is None:
        return value if rest in ("", "[@]", "[*]") else mark(piece)
    given = UNSET not in value and (value != "" or not rest.startswith(":"))
    if match[1] == "+":
        return " ".join(expand(match[2], values)) if given else ""
    return value if given or match[1] == "?" else " ".join(expand(match[2], values))


def _name_and_rest(piece: str) -> tuple[str, str]:
    inner = piece[2:-1] if piece.startswith("${") else piece[1:]
    match = _NAME.match(inner)
    return (match[0], inner[match.end() :]) if match else ("", inner)


def _value(name: str, values: Values) -> str:
    if name == "#":
        return "0"
    if name in ("@", "*"):
        return ""
    value = values.get(name, mark(name))
    return " ".join(value) if isinstance(value, list) else value


def arithmetic(text: str, values: Values) -> str:
    """Return what whole-number arithmetic comes to; a mark where something in it is not known.

    >>> arithmetic(" (N + 2) * $M ", {"N": "1", "M": "4"})
    '12'
    """
    known = re.sub(r"\$\{?(\w+)\}?|\b([A-Za-z_]\w*)", lambda match: _value(match[1] or match[2], values), text)
    try:
        return str(_whole(ast.parse(known.strip(), mode="eval").body))
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return mark(text)


def _whole(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_whole(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _NUMBERS:
        return _NUMBERS[type(node.op)](_whole(node.left), _whole(node.right))
    raise ValueError("not whole-number arithmetic")
