"""The space of a search: rows of coupled degrees, each with a placement, times the choices that go with any row.

Degrees and batches are coupled by the number of devices, the layers, the heads and the batch: most combinations of them
are no layout. So they are rows of one table, the last axis of a plan. Choices (ZeRO, recompute, ...) are independent:
each is an axis of its own before it. A choice without an effect on a row (sequence parallelism without TP, say) would
only name a layout twice: such points are no layouts, and are not counted. `build_space` makes a space of a study.

LLaMA-3 8B on one node of 8 devices, say. 71 combinations of degrees keep the rules, and with their orders of groups are
183 rows. Three choices go with them: ZeRO (4 values), recomputation (2) and sequence parallelism (2):

>>> from comp_comm.configs.study import study_from
>>> from comp_comm.searches.build_space import make_space
>>> given = {"hardware": "h100-sxm", "model": "llama-3-8b", "set": {"global_batch": 8, "seq_len": 8192, "cp": 1}}
>>> space = make_space(study_from(given), 8)
>>> len(space.table["tp"]), space.plan.grid.shape
(71, (4, 2, 2, 183))

Of these 2,928 points 1,884 are layouts: without replicas all ZeRO stages are one, without TP sequence parallelism does
nothing. Rows with the same choices are a segment; the first is that of rows with neither replicas nor TP:

>>> space.points, len(space.segments)
(1884, 4)
>>> space.segments[0]
Segment(first=0, end=6, choices=(slice(0, 1, None), slice(0, 2, None), slice(0, 1, None)))
>>> {name: value for name, value in space.point((0, 0, 0, 5)).items() if value != 1}
{'zero': 0, 'recompute': 'none', 'sp': 'off', 'pp': 8, 'micro_batch': 8, 'placement': 'tp-cp-dp-pp'}
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from comp_comm.configs.axes import AxisColumn
from comp_comm.configs.study import Study
from comp_comm.costmodels.layout_space import Columns
from comp_comm.field import Value
from comp_comm.lazy import cached_property
from comp_comm.searches.best import Place
from comp_comm.searches.groups import Grouping, make_grouping
from comp_comm.searches.placements import PlacementClasses
from comp_comm.structs import struct
from comp_comm.sweeps.blocks import extent
from comp_comm.sweeps.grid import HARDWARE
from comp_comm.sweeps.plan import Plan

Point = dict[str, Value]  # the fields of a layout


class Segment(NamedTuple):
    """Rows from ``first`` up to ``end`` that all have the same choices: the range of each axis that has an effect."""

    first: int
    end: int
    choices: tuple[slice, ...]


@struct
class SearchSpace:
    """All layouts that are searched, as the points of a plan, and why other rows of degrees are no layouts."""

    study: Study
    gpus: int
    plan: Plan  # an axis for each choice with several values, then that of the rows: degrees and a placement
    table: Columns  # degrees that rules on degrees alone leave, before placements: what was tried
    classes: PlacementClasses | None  # placements that cost the same: only the first of each class is a row
    counts: NDArray[np.uint8]  # how many layouts each row is: the placements of its class
    segments: tuple[Segment, ...]  # the rows, in parts with the same choices
    rules_left: bool  # whether some points break a rule all the same: one that depends on several choices at once
    choices: dict[str, tuple[Value, ...]]  # the values that are tried of each, also where it is one
    dropped: dict[str, int]  # rows that are no layouts, by the rule they broke
    grouping: Grouping | None = None  # the groups whose best is asked for
    clashes: tuple[str, ...] = ()  # which layouts of the study's stack cannot be, given what the study says itself

    def grouped(self, fields: Sequence[str]) -> SearchSpace:
        """Return the space with its points in groups by the values of some fields, none where no fields are named."""
        if not fields or not self.rows:
            return self
        fixed = {
            HARDWARE: self.plan.grid.profiles[0].name,
            **self.plan.grid.fixed,
            **{name: values[0] for name, values in self.choices.items()},
        }
        return replace(self, grouping=make_grouping(self.plan.grid, fields, fixed))

    @property
    def tried(self) -> dict[str, list[Value]]:
        """The values of each coupled field that are tried."""
        words = {name: values.words for name, values in self.plan.grid.axes[-1].values.items()
                 if isinstance(values, AxisColumn)}  # fmt: skip
        return {name: list(words[name]) if words.get(name) else sorted(set(column.tolist()))
                for name, column in self.table.items()}  # fmt: skip

    @property
    def placements(self) -> tuple[str, ...]:
        """The placements that are tried; none where the cost model has no such thing."""
        return self.classes.names if self.classes else ()

    def equivalent_placements(self, row: int) -> tuple[str, ...]:
        """Return the placements that a row stands for: those that cost the same."""
        placement = self.plan.grid.axes[-1].values.get("placement")
        degrees = next(iter(self.plan.grid.axes[-1].values.values()))
        if self.classes is None or not isinstance(placement, AxisColumn) or not isinstance(degrees, AxisColumn):
            return ()
        return self.classes.equivalent(int(degrees.rows[row]), int(placement.rows[row]))

    def point(self, place: Place) -> Point:
        """Return the fields of a layout by its place: the choices, the degrees, and the placement."""
        moving = {field: values[i] for axis, i in zip(self.plan.grid.axes, place, strict=True)
                  for field, values in axis.values.items()}  # fmt: skip
        fixed = {field: values[0] for field, values in self.choices.items() if len(values) == 1}
        return {**fixed, **moving}

    @property
    def rows(self) -> int:
        """Rows of degrees and placements."""
        return len(self.plan.grid.axes[-1])

    @cached_property
    def degree_begins(self) -> NDArray[np.intp]:
        """At which row each row of degrees begins: its placements are next to each other.

        Where rules are left every row is one of its own, since a rule may depend on the placement.
        """
        degrees = next(iter(self.plan.grid.axes[-1].values.values()))
        if self.rules_left or self.classes is None or not isinstance(degrees, AxisColumn):
            return np.arange(self.rows)
        return np.flatnonzero(np.append(True, degrees.rows[1:] != degrees.rows[:-1]))

    @property
    def points(self) -> int:
        """Points that are searched: every choice that has an effect with every row."""
        return sum((end - first) * prod(extent(choices)) for first, end, choices in self.segments)

    def joined_segments(self, points: int) -> Iterator[Segment]:
        """Yield the segments, several as one where they are at most so many points together (but for placements).

        There may be hundreds of small ones, each of which would be a block, and a block has a cost of its own. The
        choices of several go from the first of any to the last of any: `has_effect` says which of them a row has.
        """
        whole: Segment | None = None
        for each in self.segments:
            if whole is None:
                whole = each
                continue
            choices = _hull(whole.choices, each.choices)
            degrees = np.diff(np.searchsorted(self.degree_begins, (whole.first, each.end)))[0]
            if self.rules_left or degrees * prod(extent(choices)) > points:
                yield whole
                whole = each
            else:
                whole = Segment(whole.first, each.end, choices)
        if whole is not None:
            yield whole

    def has_effect(self, choices: tuple[slice, ...], rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Return which of the choices have an effect on which of the rows.

        With an axis for each choice and one for the rows, of length 1 where it makes no difference.
        """
        segment = np.searchsorted([each.first for each in self.segments], rows, side="right") - 1
        axes = len(choices)
        effect = np.ones((1,) * (axes + 1), bool)
        for axis, values in enumerate(choices):
            first, end = (np.asarray([getattr(each.choices[axis], name) for each in self.segments])[segment]
                          for name in ("start", "stop"))  # fmt: skip
            if (first <= values.start).all() and (end >= values.stop).all():
                continue
            value = np.arange(values.start, values.stop)[:, None]
            shape = [-1 if i == axis else 1 for i in range(axes)]
            effect = effect & ((value >= first) & (value < end)).reshape(*shape, rows.size)
        return effect


def _hull(some: tuple[slice, ...], others: tuple[slice, ...]) -> tuple[slice, ...]:
    """Return ranges of axes that have all of both."""
    return tuple(slice(min(a.start, b.start), max(a.stop, b.stop)) for a, b in zip(some, others, strict=True))
