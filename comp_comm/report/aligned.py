"""Texts in columns: a table for a terminal, for Markdown, or for a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from comp_comm.report.fitting import GAP

Row = Sequence[str]


def text_table(headers: Row, rows: Sequence[Row], left: Sequence[bool]) -> str:
    """Return texts in columns for a terminal; ``left`` says which columns begin at their left, the others end right.

    Headers and cells may have several lines.

    >>> print(text_table(["what", "time\\n(ms)"], [["all-reduce", "1.5"], ["send", "12"]], [True, False]))
    what        time
                (ms)
    ----------  ----
    all-reduce   1.5
    send          12
    """
    rows = _stripped(rows)
    widths = _widths([headers, *rows])
    lines = [*_lines(headers, widths, left), ["-" * width for width in widths]]
    lines += [line for row in rows for line in _lines(row, widths, left)]
    return "\n".join((" " * GAP).join(line).rstrip() for line in lines)


def markdown_table(headers: Row, rows: Sequence[Row], left: Sequence[bool]) -> str:
    """Return the same as a table of Markdown.

    >>> print(markdown_table(["what", "ms"], [["send", "12"]], [True, False]))
    | what | ms |
    |:-----|---:|
    | send | 12 |
    """
    rows = _stripped(rows)
    widths = _widths([headers, *rows])
    rule = [f":{'-' * width}-" if begins else f"-{'-' * width}:" for width, begins in zip(widths, left, strict=True)]
    lines = [line for row in (headers, *rows) for line in _lines(row, widths, left)]
    first, *others = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([first, f"|{'|'.join(rule)}|", *others])


def html_table(headers: Row, rows: Sequence[Row], left: Sequence[bool]) -> str:
    """Return the same as a table of a page.

    >>> print(html_table(["what", "ms"], [["send", "< 12"]], [True, False]))
    <table>
    <thead>
    <tr><th>what</th><th style="text-align: right;">ms</th></tr>
    </thead>
    <tbody>
    <tr><td>send</td><td style="text-align: right;">&lt; 12</td></tr>
    </tbody>
    </table>
    """
    from html import escape  # here: its table of entities is long, and a terminal does without

    def line(tag: str, texts: Row) -> str:
        styles = ("" if begins else ' style="text-align: right;"' for begins in left)
        marked = (f"<{tag}{style}>{escape(text)}</{tag}>" for text, style in zip(texts, styles, strict=True))
        return f"<tr>{''.join(marked)}</tr>\n"

    body = "".join(line("td", row) for row in _stripped(rows))
    return f"<table>\n<thead>\n{line('th', headers)}</thead>\n<tbody>\n{body}</tbody>\n</table>"


def _stripped(rows: Sequence[Row]) -> list[list[str]]:
    return [[text.strip() for text in row] for row in rows]


def _widths(rows: Sequence[Row]) -> list[int]:
    return [max(len(line) for text in column for line in text.split("\n")) for column in zip(*rows, strict=True)]


def _lines(row: Row, widths: Sequence[int], left: Sequence[bool]) -> Iterator[list[str]]:
    """Yield the lines of a row, whose texts may have several, each text as wide as its column."""
    for line in zip_longest(*(text.split("\n") for text in row), fillvalue=""):
        yield [text.ljust(width) if begins else text.rjust(width)
               for text, width, begins in zip(line, widths, left, strict=True)]  # fmt: skip
