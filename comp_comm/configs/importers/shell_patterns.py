"""What is cut off a text, or replaced in it, by a shell's patterns: ``${X#a*}``, ``${X%.*}``, ``${X//a/b}``."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from comp_comm.configs.importers.shell_scope import Scope, names_in, undecided, without_unset
from comp_comm.configs.importers.shell_tree import text_of

if TYPE_CHECKING:
    from tree_sitter import Node

Text = Callable[["Node"], str]
LONGEST = 4096  # characters of a text that patterns are looked for in, so that their time is bounded
MOST_STARS = 2
MOST_TRIED = 30_000_000  # places that a pattern is tried at
TRIED_IN_A_STEP = 10_000
_EXTENDED = re.compile(r"[?*+@!]\(")
_PART = re.compile(r"\\(.)|(\*+)|(\?)|\[([!^]?)(\]?[^\]]*)\]|(.)", re.S)


def changed_by_pattern(value: str, rest: Sequence[Node], scope: Scope, text: Text) -> str:
    """Return a text without a beginning or an end that fits a pattern, with one replaced, or in other letters."""
    sign = text_of(rest[0])
    if sign in ("^^", ",,", "^", ",") and len(rest) == 1:
        other = value.upper() if "^" in sign else value.lower()
        return other if len(sign) == 2 else other[:1] + value[1:]
    slash = next((place for place, node in enumerate(rest) if place and node.type == "/"), len(rest))
    pattern = "".join(_pattern(node, scope, text) for node in rest[1:slash])
    fits = None if len(value) > LONGEST or names_in(pattern) else as_regex(pattern)
    effort = len(value) ** (1 + (fits or "").count(".*"))  # each star may end anywhere, and a match begin anywhere
    if fits is None or effort > MOST_TRIED:
        return undecided(value)
    scope.limits.step(1 + effort // TRIED_IN_A_STEP)
    if sign in ("/", "//", "/#", "/%"):
        return _replaced(value, fits, sign, "".join(text(node) for node in rest[slash + 1 :]))
    return _without(value, fits, sign) if sign in ("#", "##", "%", "%%") else undecided(value)


def _pattern(node: Node, scope: Scope, text: Text) -> str:
    """Return a pattern: of quoted parts, the letters mean nothing but themselves; the grammar leaves ``$X`` in it."""
    if node.type in ("string", "raw_string"):
        return re.sub(r"([\\*?\[\]])", r"\\\1", text(node))
    if node.type in ("regex", "word", "extglob_pattern"):
        return re.sub(r"\$(?:(\w+)|\{(\w+)\})", lambda match: scope.value(match[1] or match[2]), text_of(node))
    return text(node)


def as_regex(pattern: str) -> str | None:
    r"""Return a shell's pattern as a regular expression; None for one that takes long, or is not understood.

    >>> as_regex("a*.[!b]?"), as_regex("+(a)"), as_regex(r"\*")
    ('a.*\\.[^b].', None, '\\*')
    """
    pattern = without_unset(pattern)
    if _EXTENDED.search(pattern) or len(re.findall(r"\*+", pattern)) > MOST_STARS or re.search(r"\[[.:=]", pattern):
        return None
    parts = []
    for escaped, star, one, no, letters, plain in _PART.findall(pattern):
        if letters:
            inside = re.sub(r"([\\\[&~|\]])", r"\\\1", letters)
            parts.append(f"[{'^' if no else ''}{inside}]")
        else:
            parts.append(".*" if star else "." if one else re.escape(escaped or plain))
    try:
        re.compile("".join(parts))
    except re.error:
        return None
    return "".join(parts)


def _replaced(value: str, fits: str, sign: str, other: str) -> str:
    """Return a text with the first part that fits replaced, or all of them, or the beginning, or the end."""
    if not fits:
        return {"/#": other + value, "/%": value + other}.get(sign, value)
    if not value:
        return other if re.fullmatch(fits, "") else value
    if sign in ("/#", "/%"):
        match = re.match(fits, value, re.S) if sign == "/#" else re.search(rf"(?:{fits})\Z", value, re.S)
        return value if match is None else value[: match.start()] + other + value[match.end() :]
    pieces, place = [], 0
    for match in re.finditer(fits, value, re.S):
        if match.end() > match.start():
            pieces += [value[place : match.start()], other]
            place = match.end()
            if sign == "/":
                break
    return "".join([*pieces, value[place:]])


def _without(value: str, fits: str, sign: str) -> str:
    """Return a text without the shortest (``#``, ``%``) or longest beginning or end that fits a pattern."""
    pattern = re.compile(fits, re.S)
    lengths = range(len(value) + 1) if len(sign) == 1 else range(len(value), -1, -1)
    for length in lengths:
        if "#" in sign and pattern.fullmatch(value, 0, length):
            return value[length:]
        if "%" in sign and pattern.fullmatch(value, len(value) - length):
            return value[: len(value) - length]
    return value
