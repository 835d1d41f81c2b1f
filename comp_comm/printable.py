"""Text that a terminal shows and does not obey."""

from __future__ import annotations

import contextvars
import re

# Whether cells of CSV that a spreadsheet would run are marked as text: of the command that runs.
SPREADSHEET: contextvars.ContextVar[bool] = contextvars.ContextVar("spreadsheet", default=False)
# C0 but for tabs and ends of lines, DEL, C1; what turns the direction of text around; halves of a character.
CONTROL = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
CONTROL_BYTES = bytes({*range(0x20), 0x7F} - {0x09, 0x0A})
FORMULA = ("=", "+", "-", "@", "\t", "\r")


def visible(text: str) -> str:
    r"""Return a text with its control characters as escapes.

    >>> visible("\x1b]0;title\x07 two\nlines")
    '\\x1b]0;title\\x07 two\nlines'
    """
    return text if text.isprintable() else re.sub(CONTROL, _escape, text)


def visible_bytes(content: bytes) -> bytes:
    """Return UTF-8 text with its control characters as escapes; whole characters only.

    >>> visible_bytes(b"a\\x1b[2Jb\\n")
    b'a\\\\x1b[2Jb\\n'
    """
    plain = len(content.translate(None, CONTROL_BYTES)) == len(content)
    if plain and content.isascii():
        return content
    return visible(content.decode("utf-8", "surrogatepass")).encode("utf-8", "backslashreplace")


def as_data(cell: object) -> object:
    """Return a cell that a spreadsheet would run, as a formula, with an apostrophe before it; any other as it is.

    >>> as_data("=1+1"), as_data(-1.5), as_data("tp")
    ("'=1+1", -1.5, 'tp')
    """
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA) else cell


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
