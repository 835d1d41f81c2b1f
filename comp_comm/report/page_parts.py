"""Parts of a page: tables, figures, the explorer, as HTML in which everything that is data is escaped."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import NamedTuple

from comp_comm.printable import visible
from comp_comm.records import Record
from comp_comm.report.table import column_format

FILTERED = 10  # a table of so many rows has a box for words
NUMBER = ' class="number"'
DIGITS = 4  # of a share in the explorer, in per cent


class Section(NamedTuple):
    """A part of a page with a heading of its own; ``body`` is HTML."""

    name: str
    title: str
    body: str


def page(title: str, setup: str, sections: Sequence[Section]) -> str:
    """Return a page that needs nothing from elsewhere: its style and its script are in it.

    >>> text = page("<b>", "x", [Section("one", "One & two", "<p>here</p>")])
    >>> "&lt;b&gt;" in text, "One &amp; two" in text, "http-equiv" in text
    (True, True, True)
    """
    folder = files("comp_comm.report") / "page"
    style, script = ((folder / name).read_text("utf-8") for name in ("page.css", "page.js"))
    links = "".join(f'<a href="#{each.name}">{clean(each.title)}</a>' for each in sections)
    bodies = "".join(f'<section id="{each.name}"><h2>{clean(each.title)}</h2>\n{each.body}</section>\n'
                     for each in sections)  # fmt: skip
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
        "script-src 'unsafe-inline'; img-src data:\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{clean(title)}</title>\n<style>\n{style}</style></head>\n<body>\n"
        f'<h1>{clean(title)}</h1>\n<p class="setup">{clean(setup)}</p>\n<nav>{links}</nav>\n'
        f"{bodies}<script>\n{script}</script>\n</body></html>\n"
    )


def clean(text: object) -> str:
    """Return a text as HTML shows it: control characters are visible, markup is none.

    >>> clean('<a "b">')
    '&lt;a &quot;b&quot;&gt;'
    """
    return escape(visible(str(text)))


def table(rows: Sequence[Mapping[str, object]], columns: Sequence[str] = ()) -> str:
    """Return records as a table that sorts and filters, each column in a unit its header names."""
    names = list(columns) or (list(rows[0]) if rows else [])
    formats = [column_format(name, [row[name] for row in rows]) for name in names]
    cells = [
        [_cell(row[name], show(row[name])) for name, (_, show) in zip(names, formats, strict=True)] for row in rows
    ]
    head = "".join(
        f'<th{NUMBER * any(NUMBER in row[i] for row in cells)}>{clean(header)}</th>'
        for i, (header, _) in enumerate(formats)
    )  # fmt: skip
    body = "".join(f"<tr>{''.join(row)}</tr>\n" for row in cells)
    words = "only rows with"
    search = f'<input class="filter" type="search" placeholder="{words} ..." aria-label="{words}">'
    search = search + '<span class="shown"></span>\n' if len(rows) >= FILTERED else ""
    return (f'<div class="table">{search}<div class="scroll"><table><thead><tr>{head}</tr></thead>\n'
            f"<tbody>{body}</tbody></table></div></div>\n")  # fmt: skip


def _cell(value: object, shown: str) -> str:
    """Return a cell; a number, or a text that is one, carries its value, by which it is sorted.

    >>> _cell(0.25, "25.0"), _cell("1,024", "1,024"), _cell("tp", "tp")[:4]
    ('<td class="number" data-value="0.25">25.0</td>', '<td class="number" data-value="1024.0">1,024</td>', '<td>')
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f'<td{NUMBER} data-value="{value!r}">{clean(shown)}</td>'
    try:
        number = float(shown.replace(",", ""))
    except ValueError:
        return f"<td>{clean(shown)}</td>"
    return f'<td{NUMBER} data-value="{number!r}">{clean(shown)}</td>'


def paragraphs(texts: Sequence[str], kind: str = "") -> str:
    """Return texts as paragraphs of a class."""
    named = f' class="{kind}"' if kind else ""
    return "".join(f"<p{named}>{clean(text)}</p>\n" for text in texts)


def figure(svg: str) -> str:
    """Return a picture as part of the page: what an SVG file has before its first tag is left out."""
    return f"<figure>{svg[svg.index('<svg') :]}</figure>\n"


def explorer(axes: Sequence[Record], columns: Record, said: str) -> str:
    """Return the explorer over a sweep: ``axes`` by name with their values, ``columns`` as flat lists of shares.

    ``said`` is what the numbers are, in a sentence.
    """
    data = json.dumps({"axes": list(axes), "columns": columns}, allow_nan=False)
    sliders = "".join(
        f'<label>{clean(axis["words"])} <output></output><input type="range" min="0" max="{len(axis["values"]) - 1}" '
        f'value="{axis["start"]}" aria-label="{clean(axis["name"])}"></label>\n' for axis in axes
    )  # fmt: skip
    shares = "".join(f'<option value="{clean(name)}">{clean(about["words"])}</option>'
                     for name, about in columns.items())  # fmt: skip
    over = "".join(f'<option value="{clean(axis["name"])}"{" selected" * (axis["name"] == "tp")}>'
                   f"{clean(axis['words'])}</option>" for axis in axes)  # fmt: skip
    return (
        f'<p>{clean(said)}</p><div class="explorer"><div>\n<label>show <select class="column">{shares}</select></label>'
        f'\n<label>over <select class="across">{over}</select></label>\n{sliders}</div>\n<div><p class="answer"></p>'
        '<svg viewBox="0 0 720 390" role="img" aria-label="share of communication"></svg></div></div>\n'
        f'<script type="application/json" id="explorer-data">{_in_script(data)}</script>\n'
    )


def _in_script(data: str) -> str:
    """Return JSON that cannot end the element it is in."""
    return re.sub(r"[<>&\u2028\u2029]", lambda match: f"\\u{ord(match[0]):04x}", data)
