"""Seconds of an average layer, and of what is beside the layers, in a micro-batch on one device."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from comp_comm.formulas.arrays import Array, Numeric, to_float
from comp_comm.operations.context import Context
from comp_comm.operations.messages import RING
from comp_comm.operations.shapes import Attention, Elementwise, Gemm, Message, Operation
from comp_comm.timing.kernels import Kernels, Passes

ZERO = to_float(0.0)


@dataclass(frozen=True)
class Timed:
    """An operation on a device, with the seconds each of its passes takes once."""

    op: Operation
    passes: Passes


@dataclass(frozen=True)
class Call:
    """A collective, with the seconds of one call alone on the network."""

    message: Message
    seconds: Array


@dataclass(frozen=True)
class Spent:
    """Seconds of a group's communication, disjoint.

    ``serialized`` cannot overlap by dependency, ``hidden`` ran under compute, ``exposed`` could overlap but did not
    fit.
    """

    serialized: Array
    hidden: Array
    exposed: Array

    @property
    def visible(self) -> Array:
        """Seconds on the critical path."""
        return add_up((self.serialized, self.exposed))

    def times(self, count: Numeric) -> Spent:
        """Return the seconds of so many."""
        return Spent(*(part if part is ZERO else count * part for part in (self.serialized, self.hidden, self.exposed)))

    def plus(self, other: Spent) -> Spent:
        """Return the seconds of both."""
        return Spent(add_up((self.serialized, other.serialized)), add_up((self.hidden, other.hidden)),
                     add_up((self.exposed, other.exposed)))  # fmt: skip


NOTHING = Spent(ZERO, ZERO, ZERO)


def overlapped(total: Array, hidden: Array, overlaps: NDArray[np.bool_]) -> Spent:
    """Return what is spent where ``overlaps`` says that it may run beside compute, and ``hidden`` of it does.

    >>> float(overlapped(to_float(3.0), to_float(2.0), np.asarray(True)).exposed)
    1.0
    """
    if overlaps.all():
        return Spent(ZERO, hidden, total - hidden)
    under = np.where(overlaps, hidden, 0.0)
    return Spent(np.where(overlaps, 0.0, total), under, np.where(overlaps, total - under, 0.0))


def time_operations(kernels: Kernels, operations: Sequence[Operation], attention_kernel: Numeric) -> list[Timed]:
    """Return the operations with their seconds."""
    found = []
    for op in operations:
        if isinstance(op, Gemm):
            passes = kernels.gemm(op)
        elif isinstance(op, Attention):
            passes = kernels.attention(op, attention_kernel)
        else:
            assert isinstance(op, Elementwise)
            passes = kernels.elementwise(op)
        found.append(Timed(op, passes))
    return found


def sum_passes(timed: Sequence[Timed]) -> Passes:
    """Return the seconds of all operations, each as often as it is done."""
    sums = [ZERO, ZERO, ZERO]
    for item in timed:
        for number, seconds in enumerate(item.passes):
            sums[number] = sums[number] + item.op.count * seconds
    return Passes(*sums)


def only(timed: Sequence[Timed], kind: type[Operation]) -> list[Timed]:
    """Return the operations of one kind."""
    return [item for item in timed if isinstance(item.op, kind)]


@dataclass(frozen=True)
class LayerTimes:
    """An average layer: its operations and calls, and what they come to by pass and group."""

    c: Context
    timed: Sequence[Timed]
    calls: Sequence[Call]
    interference: Numeric

    @cached_property
    def compute(self) -> Passes:
        """Seconds of compute."""
        return sum_passes(self.timed)

    @cached_property
    def attention_core(self) -> Passes:
        """Seconds of the scores, softmax and weighted sum."""
        return sum_passes(only(self.timed, Attention))

    @cached_property
    def gemms(self) -> Passes:
        """Seconds of the GEMMs."""
        return sum_passes(only(self.timed, Gemm))

    @cached_property
    def groups(self) -> list[str]:
        """Groups that communicate in a layer."""
        return list(dict.fromkeys(call.message.group for call in self.calls))

    @cached_property
    def forward(self) -> dict[str, Spent]:
        """Communication of the forward pass by group."""
        return self._pass(0, lambda message: message.count)

    @cached_property
    def backward(self) -> dict[str, Spent]:
        """Communication of the backward pass by group."""
        return self._pass(1, lambda message: message.backward)

    def _pass(self, number: int, times: Callable[[Message], Numeric]) -> dict[str, Spent]:
        """Return what each group spends; a second of compute hides one second of one group."""
        found: dict[str, Spent] = {}
        free = self.compute[number]
        for group in sorted(self.groups, key=("cp", "tp", "ep").index):
            spent = self._spent(group, number, times, free)
            free = np.maximum(free - spent.hidden, 0.0) if spent.hidden is not ZERO else free
            found[group] = spent
        return found

    def _spent(self, group: str, number: int, times: Callable[[Message], Numeric], free: Array) -> Spent:
        total = ZERO
        for call in self.calls:
            if call.message.group == group:
                total = total + to_float(times(call.message)) * call.seconds
        layout = self.c.layout
        if group == "cp":
            overlaps, window = np.asarray(layout.cp_comm) == RING, self.attention_core[number]
        elif group == "tp":
            overlaps, window = np.asarray(layout.overlap_tp) > 0, self.gemms[number]
        else:
            overlaps, window = np.asarray(layout.overlap_ep) > 0, free
        if not overlaps.any():
            return Spent(total, ZERO, ZERO)
        slowed = total * np.where(overlaps, self.interference, 1.0)
        # A GEMM split over its TP group waits for the first of its parts.
        able = slowed * (1 - 1 / to_float(layout.tp)) if group == "tp" else slowed
        return overlapped(slowed, np.minimum(able, np.minimum(window, free)), overlaps)


def add_up(parts: Iterable[Array]) -> Array:
    """Return the sum of arrays; those that are `ZERO` cost nothing."""
    found = ZERO
    for part in parts:
        if part is not ZERO:
            found = part if found is ZERO else found + part
    return found


def visible(spent: dict[str, Spent]) -> Array:
    """Return the seconds of communication on the critical path, over all groups."""
    return add_up(item.visible for item in spent.values())
