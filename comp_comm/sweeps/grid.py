"""The open grid of a study: every axis an array axis of its own, every quantity only on the axes it depends on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comp_comm.choices import CountedGemms, Precision
from comp_comm.configs.axes import Axis, AxisColumn
from comp_comm.costmodels import CostModel, Scenario
from comp_comm.costmodels.mesh import Mesh
from comp_comm.costmodels.scenario import WhatIf
from comp_comm.fields import FIELDS, Value
from comp_comm.formats import FORMATS, RECIPE, Quantised, format_rules, make_formats
from comp_comm.formulas.arrays import AnyArray, Array, Index, WholeArray, take, to_float
from comp_comm.formulas.scaling import next_divisor, required_tp
from comp_comm.formulas.transformer import core_parameters
from comp_comm.hardware.evolution import evolution_rules, evolve
from comp_comm.hardware.numbers import Hardware
from comp_comm.hardware.profile import BASE_TIMING, Profile
from comp_comm.layout import Layout
from comp_comm.lazy import cached_property
from comp_comm.records import Record
from comp_comm.structs import struct
from comp_comm.sweeps.machines import Machines, build_machines, fixed_hardware
from comp_comm.sweeps.nouns import (
    NOT_GIVEN_WORD,
    REQUIRED,
    Noun,
    attributes,
    constant,
    fixed_code,
    fixed_number,
    label_numbers,
)
from comp_comm.texts import Texts
from comp_comm.transformer import GemmCount, Transformer
from comp_comm.units import GIB
from comp_comm.violation import Violation, broken_rules

EVOLUTION = ("flop_vs_bw", "flops", "network", "scale_up", "scale_out", "memory_bandwidth", "memory_capacity",
             "latency")  # fmt: skip
HARDWARE = "hardware"
_MACHINE = frozenset((HARDWARE, "precision", "timing", "nvs", *EVOLUTION))  # what hardware depends on
# The base model of Eq 10 (Megatron-LM BERT 3.9B) ran on V100 with 32 GiB.
BASE_MEMORY = 32 * 2**30


@struct
class Grid:
    """Fixed values and axes of a study, over a list of hardware profiles."""

    profiles: tuple[Profile, ...]  # an axis named ``hardware`` runs over them
    fixed: dict[str, Value]
    axes: tuple[Axis, ...]  # in the order of the rows, slowest first; fields of one axis move together
    model: CostModel  # whose fields are looked up, with its defaults

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

    def labels(self, name: str) -> tuple[Value, ...] | AxisColumn:
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
            if isinstance(labels, AxisColumn):
                return labels.words
            labels = labels or tuple(filter(None, [self.model.default(name)]))
            self._words[name] = tuple(dict.fromkeys(map(str, labels)))
        return self._words[name]

    @cached_property
    def _arrays(self) -> dict[str, AnyArray]:
        """Numbers of every field that moves, of words their places in `words`, shaped to broadcast over the grid."""
        arrays: dict[str, AnyArray] = {}
        listed = ((i, name, labels) for i, axis in enumerate(self.axes) for name, labels in axis.values.items())
        for axis, name, labels in listed:
            if isinstance(labels, AxisColumn):
                continue
            shape = [1] * len(self.axes)
            shape[axis] = len(labels)
            # Numbers of devices are rows of the machine table, whatever order the points are in.
            words = tuple(profile.name for profile in self.profiles) if name == HARDWARE else labels
            arrays[name] = (label_numbers(labels, words) if self._worded(name) else to_float(labels)).reshape(shape)
        return arrays

    @cached_property
    def _columns(self) -> dict[str, tuple[int, AxisColumn]]:
        """Columns of an axis, whose numbers are made for a block at a time."""
        listed = ((name, i, values) for i, axis in enumerate(self.axes) for name, values in axis.values.items())
        return {name: (i, values) for name, i, values in listed if isinstance(values, AxisColumn)}

    @cached_property
    def machines(self) -> Machines:
        """The hardware table of every profile, precision and timing that occurs."""
        return build_machines(self.profiles, self.words("precision"), self.words("timing") or (self._preset,))

    @property
    def _preset(self) -> str | None:
        return BASE_TIMING if self.model.base_timing else None

    @staticmethod
    def _worded(name: str) -> bool:
        """Return whether a field's values are words, and its numbers their places in `words`."""
        return name == HARDWARE or FIELDS[name].kind in ("choice", "text")

    def values(self, name: str, index: Index) -> AnyArray:
        """Return a field's numbers on a block (of words their places in `words`, which are no codes of a choice), its
        default where the study does not give it."""
        if name in self._arrays:
            return take(self._arrays[name], index)
        if name in self._columns:
            axis, column = self._columns[name]
            return column.numbers(index[axis]).reshape([-1 if i == axis else 1 for i in range(len(self.axes))])
        return np.asarray(0) if self._worded(name) else fixed_number(self._fixed_value(name))

    def _fixed_value(self, name: str) -> Value | None:
        """Return what a field is that does not move."""
        return self.fixed.get(name, self.model.default(name))

    def hardware(self, index: Index) -> tuple[Hardware, tuple[Violation, ...]]:
        """Return the hardware of a block, with the factors on it, and the rules broken in making it."""
        if _MACHINE.isdisjoint(self.moving):
            given = tuple((name, self.fixed[name]) for name in EVOLUTION if name in self.fixed)
            return fixed_hardware(self.machines, self._fixed_value("nvs"), given)
        chosen = (HARDWARE, "precision", "timing")
        code = self.machines.code(*(np.asarray(self.values(name, index), np.intp) for name in chosen))
        factors: Record = {name: self.values(name, index) for name in EVOLUTION if name in self.names}
        today, domain = self.machines.pick(code), self.values("nvs", index)
        broken = (*self.machines.violations(code), *evolution_rules(today, domain, factors.get("scale_out", 1)))
        return evolve(today, domain=domain, **factors), broken

    def scenario(self, index: Index) -> Scenario:
        """Return the scenario of a block of the grid, with the rules that are broken in making it."""
        return self._scenario(index) if self.axes else self._point

    @cached_property
    def _point(self) -> Scenario:
        return self._scenario(())

    def _scenario(self, index: Index) -> Scenario:
        hardware, broken = self.hardware(index)
        tp, violations = self._tensor_parallel(index, hardware.memory_capacity)
        precision, *formats = (self.choice_codes(name, index) for name in FORMATS)
        recipe, *switches = (self.choice_codes(name, index) for name in RECIPE)
        quantised = Quantised(hardware.timing.fp8_recipe, hardware.timing.fp8_transpose, recipe, *switches)
        broken = (*broken, *broken_rules(format_rules(precision, quantised)))
        return Scenario(
            transformer=self.noun(Transformer, index),
            layout=replace(self.noun(Layout, index), tp=tp),
            hardware=hardware,
            gemm_count=self._gemm_count(index),
            element_bytes=self._message_bytes(index),
            inter_node_slowdown=self.values("inter_node_slowdown", index),
            interference=self.values("interference", index),
            formats=make_formats(quantised, precision, *formats),
            count_attention=self.choice_codes("count_attention", index),
            sustained=self.values("sustained", index),
            framework_bytes=self.values("framework_gib", index) * GIB,
            tokens=self.values("tokens", index),
            what_if=self.noun(WhatIf, index),
            mesh=self.noun(Mesh, index),
            output_len=self.values("output_len", index),
            kv_bytes=self._cache_bytes(index),
            violations=(*broken, *violations),
        )

    def noun(self, noun: type[Noun], index: Index) -> Noun:
        """Return a transformer or a layout of this grid's numbers: its attributes are fields of the cost model."""
        names, moving = attributes(noun, self.model.fields), self.moving
        fixed = tuple((name, None if name in moving else self._fixed_value(name)) for name in names)
        moved: Record = {name: self._number(name, index) for name in names if name in moving}
        return replace(constant(noun, fixed), **moved) if moved else constant(noun, fixed)

    def _number(self, name: str, index: Index) -> AnyArray | Texts:
        kind = FIELDS[name].kind
        if kind == "text":
            return Texts(np.asarray(self.values(name, index), np.intp), self.words(name) or ("",))
        return self.choice_codes(name, index) if kind == "choice" else self.values(name, index)

    def choice_codes(self, name: str, index: Index) -> NDArray[np.intp]:
        """Return the codes of a choice (`Choice`), whatever words the grid has of it: -1 where it is not given."""
        choice = FIELDS[name].choice
        if choice is None:
            raise TypeError(f"{name} is no choice")
        if name not in self.moving:
            return fixed_code(name, self._fixed_value(name))
        labels = self.words(name)
        table = np.asarray([-1 if word == NOT_GIVEN_WORD else choice.of(word) for word in labels], np.intp)
        return table[np.asarray(self.values(name, index), np.intp)]

    def _message_bytes(self, index: Index) -> Array:
        """Return the bytes of an element on the wire: of comm_precision where it is given, else of compute."""
        comm = self.choice_codes("comm_precision", index)
        return Precision.look_up("size", np.where(comm < 0, self.choice_codes("precision", index), comm))

    def _cache_bytes(self, index: Index) -> Array:
        """Return the bytes of a number in the KV cache: at least 16 bits where its format is not given."""
        given, compute = (self.choice_codes(name, index) for name in ("kv_precision", "precision"))
        usual = np.maximum(Precision.look_up("size", compute), 2.0)
        return np.where(given < 0, usual, Precision.look_up("size", np.maximum(given, 0)))

    def _gemm_count(self, index: Index) -> GemmCount:
        codes = self.choice_codes("count", index)
        return GemmCount(*(CountedGemms.look_up(name, codes) for name in GemmCount._fields))

    def memory_scaling(self, index: Index, memory_capacity: Any) -> Array:
        """Return s of Eq 10: as given, else this device's memory over the base model's 32 GiB."""
        given = self.values("memory_scaling", index)
        return np.where(np.isnan(given), to_float(memory_capacity) / BASE_MEMORY, given)

    @property
    def derives_tp(self) -> bool:
        """Whether tp comes from Eq 10 (``tp: required``)."""
        return self.fixed.get("tp") == REQUIRED and self.axis_of("tp") is None

    def _tensor_parallel(self, index: Index, memory_capacity: object) -> tuple[Array, tuple[Violation, ...]]:
        if not self.derives_tp:
            return self.values("tp", index), ()
        hidden, layers = self.values("hidden", index), self.values("layers", index)
        parameters = self.values("parameters", index)
        parameters = np.where(np.isnan(parameters), core_parameters(layers, hidden), parameters)
        scaling = self.memory_scaling(index, memory_capacity)
        reason = "memory.capacity is blank in the hardware profile, and tp needs it"
        blank = Violation(np.isnan(scaling), reason, ("tp",))
        degree = required_tp(parameters, scaling)
        tp = to_float(next_divisor(hidden, np.maximum(degree, 1)))
        too_large = Violation(np.isnan(tp) & ~np.isnan(degree), "the required tp exceeds hidden", ("hidden",))
        return np.where(np.isnan(tp), hidden, tp), (too_large, blank)

    def at(self, flat: WholeArray) -> dict[str, tuple[Value, ...]]:
        """Return what every moving field is at points given by their flat indices: a table, which can be an axis."""
        places = np.unravel_index(flat, self.shape) if self.shape else ()
        return {
            name: tuple(labels[int(i)] for i in place)
            for axis, place in zip(self.axes, places, strict=True)
            for name, labels in axis.values.items()
        }

    def column(self, name: str, index: Index) -> AnyArray:
        """Return an input column on a block: numbers, or words for a choice."""
        if name == "tp" and self.derives_tp:
            return np.asarray(self.scenario(index).layout.tp)
        if name == HARDWARE:
            words: tuple[object, ...] = tuple(profile.name for profile in self.profiles)
        elif self._worded(name):
            words = self.words(name) or (None,)
        else:
            return self.values(name, index)
        return np.asarray(words, dtype=object)[np.asarray(self.values(name, index), np.intp)]
