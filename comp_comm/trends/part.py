"""A part of the study of trends: rows of a table, what is shown of them, and what a reader should know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from comp_comm.records import Record, Records
from comp_comm.trends.forecast import STUDIES, Assumptions


@dataclass(frozen=True)
class PartSettings:
    """What a part may be asked: models since a year, and what a forecast assumes of which studies."""

    since: float = 0.0
    studies: tuple[str, ...] = STUDIES
    assumed: Assumptions = field(default_factory=Assumptions)


@dataclass(frozen=True)
class Part:
    """Rows with a title; ``shown`` are the columns of a table, ``extra`` what a picture needs beside them."""

    name: str
    title: str
    rows: Records
    shown: tuple[str, ...]
    notes: tuple[str, ...] = ()
    extra: Record = field(default_factory=dict)


PartMaker = Callable[[PartSettings], Part]
