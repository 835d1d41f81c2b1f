"""Rows of nccl-tests that a message of the library broke off, joined with the rest of them on a later line.

A row begins before its collective is run, and ends after it: what NCCL_DEBUG prints meanwhile stands between.
"""

from __future__ import annotations

import re

from comp_comm.calibration.readers.nccl_lines import WIDTHS, Cells, CutError, Header, is_number, row_of

# A row that was broken off, and the reductions that it may have been broken off after.
BEGUN = re.compile(r"(?:^|[\s>\]:|])(\d{1,18}) {1,40}(\d{1,18}) {1,40}([a-z][a-z0-9_]{2,11})\b(.{0,200})")
# What was measured out of place, broken off before it was measured in place, too: its check runs into the message.
SIDE = re.compile(r"(?:^|>:)\s{1,40}((?:\d[\d.e+-]{0,20}\s{1,20}){3})(\d[\d.e+-]{0,20}?|N/A)(?=[A-Za-z_\s])")
OPERATIONS = re.compile("sum|prod|max|min|avg|none|mulsum")


def begun_row(line: str, header: Header) -> str:
    """Return what a line has of a row that a message broke off: its columns before the times; nothing of none.

    >>> from comp_comm.calibration.readers.nccl_lines import header_of
    >>> header = header_of("size count type redop root time algbw busbw #wrong")
    >>> begun_row("   1048576   262144   float   sum   -1node-1:77:81 [0] NCCL INFO AllReduce: opCount 0", header)
    '1048576 262144 float sum -1'
    """
    begin = BEGUN.search(line)
    if begin is None or begin.group(3) not in WIDTHS or header.commas:
        return ""
    operation, rest = "", begin.group(4).lstrip()
    if "redop" in header.before and (told := OPERATIONS.match(rest)):
        operation, rest = told.group(), rest[told.end() :].lstrip()
    root = rest[: 1 + rest.startswith("-")] if "root" in header.before else ""
    return " ".join((*begin.groups()[:3], operation, root if root.lstrip("-").isdigit() else "")).strip()


def rest_of_row(line: str, header: Header) -> str:
    """Return the times and bandwidths that stand alone on a line, nothing where they do not.

    >>> from comp_comm.calibration.readers.nccl_lines import header_of
    >>> header = header_of("size count type time algbw busbw #wrong")
    >>> rest_of_row("[1,0]<stdout>:   30.94   33.89   59.31     0", header)
    '30.94 33.89 59.31 0'
    """
    words = line.rpartition(">:")[2].split()
    alone = len(words) in header.lengths and all(is_number(word) or word == "N/A" for word in words)
    return " ".join(words) if alone else ""


def joined_row(begun: str, line: str, number: int, header: Header) -> Cells | None:
    """Return the row that was broken off after ``begun``, if a line is the rest of it and its numbers agree."""
    rest = rest_of_row(line, header)
    return _agreeing(f"{begun} {rest}", number, header) if rest else None


def with_first_side(begun: str, line: str, header: Header) -> str:
    """Return what there is of a row that was broken off twice: ``begun``, and what a line has of its first side."""
    side = SIDE.search(line)
    if side is None or len(header.sides) < 2 or _agreeing(begun, 0, header) is not None:
        return begun
    further = f"{begun} {side.group(1)} {side.group(2)}"
    return further if _agreeing(further, 0, header) is not None else begun


def _agreeing(text: str, number: int, header: Header) -> Cells | None:
    """Return the row that a text is, if it is one and its size, times and bandwidths agree."""
    try:
        row = row_of(text, number, header)
    except CutError:
        return None
    return row if row is not None and all(side.agrees(row.size) for side in row.sides) else None
