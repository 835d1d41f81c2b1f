"""The layouts there are: a table of coupled degrees, joined divisor by divisor, beside the choices that go with any.

Degrees and batches are tied by the number of devices, the layers, the heads and the batch: they are rows of one table.
Choices (ZeRO, recompute, ...) are axes of their own before it. A choice without an effect (sequence parallelism without
TP, say) would only name a layout twice: such points are no layouts, and are not counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from comp_comm.configs.axes import AxisColumn
from comp_comm.configs.study import Study
from comp_comm.costmodels.layout_space import Columns
from comp_comm.field import Value
from comp_comm.lazy import cached_property
from comp_comm.searches.each import Groups, groups_of
from comp_comm.searches.placements import PlacementClasses
from comp_comm.sweeps.blocks import extent
from comp_comm.sweeps.grid import HARDWARE
from comp_comm.sweeps.plan import Plan


@dataclass(frozen=True)
class SearchSpace:
    """What is searched: a plan over choices and a table of degrees and placements; and why rows fell out.

    ``table`` are the degrees alone: its rows are joined with each of the ``placements``, but for those that cost the
    same as one before: ``counts`` says how many layouts each row is. ``parts`` are rows that have the same choices:
    where each begins, and which part of every axis of choices has an effect. ``ruled`` says whether some choices break
    a rule on some rows. ``dropped`` counts rows by the rule that removed them. ``groups``: those whose best is told.
    ``clashes`` say which layouts of the study's stack cannot be, by what the study gives.
    """

    study: Study
    gpus: int
    plan: Plan
    table: Columns
    classes: PlacementClasses | None
    counts: NDArray[np.uint8]
    parts: tuple[tuple[int, tuple[slice, ...]], ...]
    ruled: bool
    choices: dict[str, tuple[Value, ...]]
    dropped: dict[str, int]
    groups: Groups | None = None
    clashes: tuple[str, ...] = ()

    def grouped(self, fields: Sequence[str]) -> SearchSpace:
        """Return the space with its points told apart by the values of some fields."""
        if not fields or not self.rows:
            return self
        known = {
            HARDWARE: self.plan.grid.profiles[0].name,
            **self.plan.grid.fixed,
            **{name: values[0] for name, values in self.choices.items()},
        }
        return replace(self, groups=groups_of(self.plan.grid, fields, known))

    @property
    def tried(self) -> dict[str, list[Value]]:
        """The values of each tied field that are tried."""
        words = {name: values.words for name, values in self.plan.grid.axes[-1].values.items()
                 if isinstance(values, AxisColumn)}  # fmt: skip
        return {name: list(words[name]) if words.get(name) else sorted(set(column.tolist()))
                for name, column in self.table.items()}  # fmt: skip

    @property
    def placements(self) -> tuple[str, ...]:
        """The placements that are tried; none where the cost model has no such thing."""
        return self.classes.names if self.classes else ()

    def alike(self, row: int) -> tuple[str, ...]:
        """Return the placements that a row stands for."""
        placement = self.plan.grid.axes[-1].values.get("placement")
        degrees = next(iter(self.plan.grid.axes[-1].values.values()))
        if self.classes is None or not isinstance(placement, AxisColumn) or not isinstance(degrees, AxisColumn):
            return ()
        return self.classes.alike(int(degrees.rows[row]), int(placement.rows[row]))

    @property
    def rows(self) -> int:
        """Rows of degrees and placements."""
        return len(self.plan.grid.axes[-1])

    @cached_property
    def begins(self) -> NDArray[np.intp]:
        """Where each row of degrees begins, whose placements are next to each other; rows stand alone where some break
        a rule, which may depend on the placement."""
        degrees = next(iter(self.plan.grid.axes[-1].values.values()))
        if self.ruled or self.classes is None or not isinstance(degrees, AxisColumn):
            return np.arange(self.rows)
        return np.flatnonzero(np.append(True, degrees.rows[1:] != degrees.rows[:-1]))

    @property
    def points(self) -> int:
        """Points that are looked at: every choice that has an effect with every row."""
        return sum((end - begin) * prod(extent(choices)) for begin, end, choices in self.spans())

    def spans(self) -> Iterator[tuple[int, int, tuple[slice, ...]]]:
        """Yield the parts: rows from one to another, and the choices that go with them."""
        ends = [*(begin for begin, _ in self.parts), self.rows][1:]
        for (begin, choices), end in zip(self.parts, ends, strict=True):
            yield begin, end, choices

    def joined(self, points: int) -> Iterator[tuple[int, int, tuple[slice, ...]]]:
        """Yield the same, several parts as one where they are at most so many points together (but for placements).

        Their choices go from the first of any to the last of any: `there` says which of them a row has.
        """
        begin, end = 0, 0
        choices: tuple[slice, ...] = ()
        for start, stop, others in self.spans():
            both = _hull(choices, others) if end else others
            rows = np.diff(np.searchsorted(self.begins, (begin, stop)))[0]
            if end and (self.ruled or rows * prod(extent(both)) > points):
                yield begin, end, choices
                begin, both = start, others
            choices, end = both, stop
        if end:
            yield begin, end, choices

    def there(self, choices: tuple[slice, ...], rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Return which of the choices have an effect on which of the rows, with an axis for each choice and the rows,
        of length 1 where all have."""
        part = np.searchsorted([begin for begin, _ in self.parts], rows, side="right") - 1
        axes = len(choices)
        there = np.ones((1,) * (axes + 1), bool)
        for axis, values in enumerate(choices):
            first, end = (np.asarray([getattr(used[axis], name) for _, used in self.parts])[part]
                          for name in ("start", "stop"))  # fmt: skip
            if (first <= values.start).all() and (end >= values.stop).all():
                continue
            value = np.arange(values.start, values.stop)[:, None]
            shape = [-1 if i == axis else 1 for i in range(axes)]
            there = there & ((value >= first) & (value < end)).reshape(*shape, rows.size)
        return there


def _hull(some: tuple[slice, ...], others: tuple[slice, ...]) -> tuple[slice, ...]:
    """Return parts of axes that have all of both."""
    return tuple(slice(min(a.start, b.start), max(a.stop, b.stop)) for a, b in zip(some, others, strict=True))
