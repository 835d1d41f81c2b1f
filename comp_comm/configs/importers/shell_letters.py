"""Scripts as the grammar is given them: in letters up to U+00FF alone.

The scanner of tree-sitter-bash (scanner.c, versions to 0.25) asks C's ``isdigit`` and ``isalnum`` about any letter,
which C defines up to 255 only: ``{`` before a letter of another alphabet may end the process.
"""

from __future__ import annotations

import re

# A letter is five digits to the base of 32; the first of them tells itself from the others.
FIRST, OTHER, BASE, DIGITS = 0xC0, 0xE0, 32, 5
_OTHERS = re.compile(r"[^\x00-\x7f]")
_WRITTEN = re.compile("[\u00c0-\u00df][\u00e0-\u00ff]{4}")


def encoded(script: str) -> bytes:
    """Return a script as the grammar is given it."""
    return _OTHERS.sub(_digits, script).encode()


def decoded(source: bytes) -> str:
    """Return the text of a part of a script.

    >>> decoded(encoded("a{\\u00e9, \\u4e2d")) == "a{\\u00e9, \\u4e2d", max(encoded("\\U0010ffff").decode()) <= "\\xff"
    (True, True)
    """
    return _WRITTEN.sub(_letter, source.decode("utf-8", "replace"))


def _digits(match: re.Match[str]) -> str:
    code = ord(match[0])
    digits = [code // BASE**place % BASE for place in reversed(range(DIGITS))]
    return chr(FIRST + digits[0]) + "".join(chr(OTHER + digit) for digit in digits[1:])


def _letter(match: re.Match[str]) -> str:
    code = 0
    for letter in match[0]:
        code = code * BASE + ord(letter) % BASE
    return chr(code) if code < 0x110000 else match[0]
