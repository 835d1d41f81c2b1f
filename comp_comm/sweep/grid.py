"""The open grid of a study: every axis an array axis of its own, every quantity only on the axes it depends on."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from comp_comm.configs.axes import Axis, Column
from comp_comm.costmodels import CostModel, Scenario
from comp_comm.costmodels.mesh import Mesh
from comp_comm.costmodels.near import PLACED, PLACEMENT, Near, Shared, Sharing
from comp_comm.costmodels.scenario import WhatIf
from comp_comm.fields import FIELDS, PRECISION_BYTES, Value
from comp_comm.formats import make_formats
from comp_comm.formulas.arrays import WHOLE, Array, Index, take, to_float
from comp_comm.formulas.scaling import next_divisor, required_tp
from comp_comm.formulas.transformer import core_parameters
from comp_comm.hardware.evolution import domain_rules, evolve
from comp_comm.hardware.numbers import Hardware
from comp_comm.hardware.profile import BASE_TIMING, Profile
from comp_comm.layout import Layout, resolved_layout
from comp_comm.sweep.distinct import Table, distinct_rows
from comp_comm.sweep.machines import Machines, build_machines
from comp_comm.transformer import GEMM_COUNTS, GemmCount, Transformer
from comp_comm.violation import Violation

EVOLUTION = ("flop_vs_bw", "flops", "network", "memory_bandwidth", "memory_capacity", "latency")
HARDWARE = "hardware"
FORMATS = ("precision", "comm_precision", "grad_precision", "accumulate_precision", "optimizer_precision")
# The base model of Eq 10 (Megatron-LM BERT 3.9B) ran on V100 with 32 GiB.
BASE_MEMORY = 32 * 2**30
SHARED_POINTS = 2**20  # of rows that points share: so many are worked out together
Noun = TypeVar("Noun", Transformer, Layout, WhatIf, Mesh)


@dataclass(frozen=True)
class Grid:
    """Fixed values and axes of a study, over a list of hardware profiles.

    ``axes`` are in the order of the rows, slowest first; an axis named ``hardware`` runs over ``profiles``.
    """

    profiles: tuple[Profile, ...]
    fixed: dict[str, Value]
    axes: tuple[Axis, ...]
    model: CostModel

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Points along each axis."""
        return tuple(len(axis) for axis in self.axes)

    @property
    def points(self) -> int:
        """Points of the whole grid."""
        count = 1
        for length in self.shape:
            count *= length
        return count

    @cached_property
    def moving(self) -> tuple[str, ...]:
        """Fields of the axes, in their order."""
        return tuple(name for axis in self.axes for name in axis.values)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Fields that have a value here, those of the axes first."""
        return (*self.moving, *(name for name in self.fixed if name not in self.moving))

    def axis_of(self, name: str) -> int | None:
        """Return the axis a field moves along, None where it is fixed."""
        return next((i for i, axis in enumerate(self.axes) if name in axis.values), None)

    def labels(self, name: str) -> tuple[Value, ...] | Column:
        """Return the values of a field in the order of its codes."""
        axis = self.axis_of(name)
        if axis is not None:
            return self.axes[axis].values[name]
        return (self.fixed[name],) if name in self.fixed else ()

    @cached_property
    def _words(self) -> dict[str, tuple[str, ...]]:
        return {}

    def words(self, name: str) -> tuple[str, ...]:
        """Return the distinct words of a choice in the order of its codes, its default where it is not given."""
        if name not in self._words:
            labels = self.labels(name)
            if isinstance(labels, Column):
                return labels.words
            labels = labels or tuple(filter(None, [self.model.default(name)]))
            self._words[name] = tuple(dict.fromkeys(map(str, labels)))
        return self._words[name]

    @cached_property
    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Numbers (or codes, for words) of every field, each shaped to broadcast over the grid."""
        arrays: dict[str, NDArray[Any]] = {}
        for name in self.names:
            axis, labels = self.axis_of(name), self.labels(name)
            words = name == HARDWARE or FIELDS[name].kind == "choice"
            if isinstance(labels, Column) or (labels and labels[0] == "required"):
                continue
            if axis is None:
                arrays[name] = np.asarray(0) if words else to_float(float(labels[0]))
                continue
            shape = [1] * len(self.axes)
            shape[axis] = len(labels)
            values = self._word_codes(name, labels) if words else np.asarray(labels, np.float64)
            arrays[name] = values.reshape(shape)
        return arrays

    def _word_codes(self, name: str, labels: tuple[Value, ...]) -> NDArray[Any]:
        distinct = list(dict.fromkeys(labels))
        if name == HARDWARE:  # codes are rows of the machine table, whatever order the points are in
            distinct = [profile.name for profile in self.profiles]
        place = {label: number for number, label in enumerate(distinct)}
        return np.asarray([place[label] for label in labels], np.float64)

    @cached_property
    def _columns(self) -> dict[str, tuple[int, Column]]:
        """Columns of an axis, whose numbers are made for a block at a time."""
        found = ((name, i, values) for i, axis in enumerate(self.axes) for name, values in axis.values.items())
        return {name: (i, values) for name, i, values in found if isinstance(values, Column)}

    @cached_property
    def machines(self) -> Machines:
        """The hardware table of every profile, precision and timing that occurs."""
        return build_machines(self.profiles, self.words("precision"), self.words("timing") or (self._preset,))

    @property
    def _preset(self) -> str | None:
        return BASE_TIMING if self.model.base_timing else None

    def values(self, name: str, index: Index) -> NDArray[Any]:
        """Return a field's numbers (codes for words) on a block, its default where the study does not give it."""
        if name in self._arrays:
            return take(self._arrays[name], index)
        if name in self._columns:
            axis, column = self._columns[name]
            return column.numbers(index[axis]).reshape([-1 if i == axis else 1 for i in range(len(self.axes))])
        if name == HARDWARE or FIELDS[name].kind == "choice":
            return np.asarray(0)
        default = self.model.default(name)
        return to_float(np.nan if default is None else float(default))

    def _hardware(self, index: Index) -> tuple[Hardware, tuple[Violation, ...]]:
        """Return the hardware of a block, with the factors on it, and the rules broken in making it."""
        codes = (self.values(name, index) for name in (HARDWARE, "precision", "timing"))
        code = self.machines.code(*(np.asarray(part, np.intp) for part in codes))
        factors: dict[str, Any] = {name: self.values(name, index) for name in EVOLUTION}
        today, domain = self.machines.pick(code), self.values("nvs", index)
        broken = (*self.machines.violations(code), *domain_rules(today, domain))
        return evolve(today, domain=domain, **factors), broken

    def scenario(self, index: Index, share: bool = True) -> tuple[Scenario, tuple[Violation, ...]]:
        """Return the scenario of a block of the grid, and the rules broken in making it.

        Points ``share`` what many of them have in common, unless they are those many have in common.
        """
        hardware, broken = self._hardware(index)
        tp, violations = self._tensor_parallel(index, hardware.memory_capacity)
        formats = {name: self.codes(name, index) for name in FORMATS}
        scenario = Scenario(
            transformer=self._noun(Transformer, index),
            layout=replace(self._noun(Layout, index), tp=tp),
            hardware=hardware,
            gemm_count=self._gemm_count(index),
            element_bytes=self._message_bytes(index),
            inter_node_slowdown=self.values("inter_node_slowdown", index),
            interference=self.values("interference", index),
            formats=make_formats(*formats.values()),
            count_causal=self.codes("count_attention", index),
            sustained=self.values("sustained", index),
            framework_bytes=self.values("framework_gib", index) * 2.0**30,
            tokens=self.values("tokens", index),
            what_if=self._noun(WhatIf, index),
            mesh=self._noun(Mesh, index),
            output_len=self.values("output_len", index),
            kv_bytes=self._cache_bytes(index),
            near=self._near(index, self.model.sharing.get("layers")) if share else None,
            near_states=self._near(index, self.model.sharing.get("states")) if share else None,
        )
        return scenario, (*broken, *violations)

    def _table(self, sharing: Sharing) -> tuple[int, Table] | None:
        """Return the longest axis and those of its rows that differ in what matters, where they are few."""
        if sharing.far not in self._tables:
            self._tables[sharing.far] = self._find_table(sharing)
        return self._tables[sharing.far]

    def _find_table(self, sharing: Sharing) -> tuple[int, Table] | None:
        axis = max(range(len(self.axes)), key=lambda i: len(self.axes[i]), default=None)
        if axis is None:
            return None
        along = [WHOLE if i == axis else slice(0, 1) for i in range(len(self.axes))]
        placed = all(self.axis_of(name) in (None, axis) for name in PLACED)  # elsewhere a row has several places
        placements, experts = self.words(PLACEMENT), bool(np.any(self.values("experts", (WHOLE,) * len(along)) > 0))
        far = sharing.fields if placed else sharing.far_fields(placements[0] if len(placements) == 1 else None)
        if not set(self.axes[axis].values) & set(far):
            return None
        columns = [self.values(name, tuple(along)).reshape(-1) for name in self.axes[axis].values if name not in far]
        if placed:
            hardware, _ = self._hardware((WHOLE,) * len(along))
            columns += sharing.places(resolved_layout(self._noun(Layout, tuple(along))), experts, hardware)
        table = distinct_rows(columns, len(self.axes[axis]))
        return (axis, table) if 2 * table.first.size <= len(self.axes[axis]) else None

    @cached_property
    def _tables(self) -> dict[tuple[str, ...], tuple[int, Table] | None]:
        return {}

    @cached_property
    def _shared(self) -> dict[Any, Shared]:
        return {}

    def _near(self, index: Index, sharing: Sharing | None) -> Near | None:
        """Return the rows that points of a block share, where a table of layouts is one of the axes."""
        found = self._table(sharing) if sharing else None
        if found is None or not sharing:
            return None
        axis, table = found
        rows = table.row[index[axis]]
        others = tuple(WHOLE if i == axis else each for i, each in enumerate(index))
        if table.first.size * self.points // len(self.axes[axis]) <= SHARED_POINTS:
            # Few enough for all choices at once: every block takes its part of them.
            return Near(self._shared_rows(sharing, (WHOLE,) * len(index), found), axis, rows, others)
        return Near(self._shared_rows(sharing, others, found), axis, rows)

    def _shared_rows(self, sharing: Sharing, others: Index, found: tuple[int, Table]) -> Shared:
        """Return the scenario of distinct rows for a part of the other axes; the last one is kept."""
        axis, table = found
        key = (sharing.far, *((each.start, each.stop) if isinstance(each, slice) else id(each) for each in others))
        if key not in self._shared:
            for old in [old for old in self._shared if old[0] == sharing.far]:
                del self._shared[old]
            rows: dict[str, Any] = {
                name: values.part(table.first) if isinstance(values, Column) else tuple(values[i] for i in table.first)
                for name, values in self.axes[axis].values.items()
            }
            axes = (*self.axes[:axis], Axis(rows), *self.axes[axis + 1 :])
            self._shared[key] = Shared(replace(self, axes=axes).scenario(others, share=False)[0])
        return self._shared[key]

    def _noun(self, noun: type[Noun], index: Index) -> Noun:
        """Return a transformer or a layout of this grid's numbers: its attributes are fields of the cost model."""
        named: dict[str, Any] = {
            item.name: self._number(item.name, index) for item in fields(noun) if item.name in self.model.fields
        }
        return noun(**named)

    def _number(self, name: str, index: Index) -> NDArray[Any]:
        return self.codes(name, index) if FIELDS[name].kind == "choice" else self.values(name, index)

    def codes(self, name: str, index: Index) -> NDArray[np.intp]:
        """Return a choice as the place of its word among all words of the field, -1 where it is not given."""
        known = FIELDS[name].words
        labels = self.words(name)
        if not labels:
            return np.asarray(-1)
        table = np.asarray([known.index(word) for word in labels], np.intp)
        return table[np.asarray(self.values(name, index), np.intp)]

    def _lookup(self, name: str, table: dict[str, Any], index: Index) -> Array:
        """Return the number that a choice's word stands for."""
        column = to_float([table[word] for word in self.words(name)])
        return column[np.asarray(self.values(name, index), np.intp)]

    def _message_bytes(self, index: Index) -> Array:
        """Return the bytes of an element on the wire: of comm_precision where it is given, else of compute."""
        sizes = to_float(list(PRECISION_BYTES.values()))
        comm = self.codes("comm_precision", index)
        return np.asarray(sizes[np.where(comm < 0, self.codes("precision", index), comm)])

    def _cache_bytes(self, index: Index) -> Array:
        """Return the bytes of a number in the KV cache: at least 16 bits where its format is not given."""
        sizes = to_float(list(PRECISION_BYTES.values()))
        given, compute = self.codes("kv_precision", index), sizes[self.codes("precision", index)]
        return np.asarray(np.where(given < 0, np.maximum(compute, 2.0), sizes[given]))

    def _gemm_count(self, index: Index) -> GemmCount:
        columns = (
            self._lookup("count", {name: getattr(count, part) for name, count in GEMM_COUNTS.items()}, index)
            for part in GemmCount._fields
        )
        return GemmCount(*columns)

    def memory_scaling(self, index: Index, memory_capacity: Any) -> Array:
        """Return s of Eq 10: as given, else this device's memory over the base model's 32 GiB."""
        given = self.values("memory_scaling", index)
        return np.where(np.isnan(given), to_float(memory_capacity) / BASE_MEMORY, given)

    @property
    def derives_tp(self) -> bool:
        """Whether tp comes from Eq 10 (``tp: required``)."""
        return self.fixed.get("tp") == "required" and self.axis_of("tp") is None

    def _tensor_parallel(self, index: Index, memory_capacity: Any) -> tuple[Array, tuple[Violation, ...]]:
        if not self.derives_tp:
            return self.values("tp", index), ()
        hidden, layers = self.values("hidden", index), self.values("layers", index)
        parameters = self.values("parameters", index)
        parameters = np.where(np.isnan(parameters), core_parameters(layers, hidden), parameters)
        scaling = self.memory_scaling(index, memory_capacity)
        blank = Violation(
            np.isnan(scaling), "memory.capacity is blank in the hardware profile, and tp needs it", ("tp",)
        )
        degree = required_tp(parameters, scaling)
        tp = to_float(next_divisor(hidden, np.maximum(degree, 1)))
        too_large = Violation(np.isnan(tp) & ~np.isnan(degree), "the required tp exceeds hidden", ("hidden",))
        return np.where(np.isnan(tp), hidden, tp), (too_large, blank)

    def at(self, flat: NDArray[np.integer[Any]]) -> dict[str, tuple[Value, ...]]:
        """Return what every moving field is at points given by their flat indices: a table, which can be an axis."""
        places = np.unravel_index(flat, self.shape) if self.shape else ()
        return {
            name: tuple(labels[int(i)] for i in place)
            for axis, place in zip(self.axes, places, strict=True)
            for name, labels in axis.values.items()
        }

    def column(self, name: str, index: Index) -> NDArray[Any]:
        """Return an input column on a block: numbers, or words for a choice."""
        if name == "tp" and self.derives_tp:
            scenario, _ = self.scenario(index)
            return np.asarray(scenario.layout.tp)
        if name == HARDWARE:
            words: tuple[Any, ...] = tuple(profile.name for profile in self.profiles)
        elif FIELDS[name].kind == "choice":
            words = self.words(name) or (None,)
        else:
            return self.values(name, index)
        return np.asarray(words, dtype=object)[np.asarray(self.values(name, index), np.intp)]
