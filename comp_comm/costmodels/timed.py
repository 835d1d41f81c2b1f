"""Operations and collectives with their seconds, and what of communication compute hides."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from comp_comm.choices import ContextComm, Switch
from comp_comm.formulas.arrays import ZERO, Array, Numeric, add_up, to_float
from comp_comm.group import Group
from comp_comm.hardware.numbers import Hardware
from comp_comm.layout import Layout
from comp_comm.operations.products import FusedProducts
from comp_comm.operations.shapes import Attention, Collective, Elementwise, Gemm, Operation
from comp_comm.timing.kernels import Kernels, Passes
from comp_comm.timing.network import collective_seconds
from comp_comm.timing.paths import NetworkPath, path_of
from comp_comm.violation import Mask


@dataclass(frozen=True)
class TimedOperation:
    """An operation on a device, with the seconds each of its passes takes once."""

    op: Operation
    passes: Passes


@dataclass(frozen=True)
class TimedCollective:
    """A collective, with the seconds of one call alone on the network."""

    collective: Collective
    seconds: Array


def time_operations(
    kernels: Kernels, operations: Iterable[Operation], attention_kernel: Numeric
) -> list[TimedOperation]:
    """Return operations with their seconds."""
    return [TimedOperation(op, _passes(kernels, op, attention_kernel)) for op in operations]


def _passes(kernels: Kernels, op: Operation, attention_kernel: Numeric) -> Passes:
    if isinstance(op, Gemm):
        return kernels.gemm(op)
    if isinstance(op, Attention):
        return kernels.attention(op, attention_kernel)
    if isinstance(op, Elementwise):
        return kernels.elementwise(op)
    if isinstance(op, FusedProducts):
        return kernels.fused_products(op)
    raise TypeError(f"nothing times a {type(op).__name__}")


def sum_passes(timed: Iterable[TimedOperation]) -> Passes:
    """Return the seconds of operations, each as often as it is done."""
    sums = [ZERO, ZERO, ZERO]
    for item in timed:
        for number, seconds in enumerate(item.passes):
            sums[number] = sums[number] + item.op.count * seconds
    return Passes(*sums)


@dataclass(frozen=True, eq=False)
class Network:
    """The network of a device as collectives find it; what a group crosses is looked up once for all of them."""

    hardware: Hardware
    algorithm: Numeric

    @cached_property
    def _paths(self) -> dict[Group, NetworkPath]:
        return {}

    def path(self, group: Group) -> NetworkPath:
        """Return what a group crosses."""
        if group not in self._paths:
            self._paths[group] = path_of(self.hardware, group)
        return self._paths[group]

    def timed(self, collectives: Iterable[Collective]) -> list[TimedCollective]:
        """Return collectives with the seconds of one call."""
        return [TimedCollective(each, self.seconds(each)) for each in collectives]

    def seconds(self, collective: Collective) -> Array:
        """Return the seconds of one call."""
        path = self.path(collective.group)
        return collective_seconds(self.hardware, collective.kind, collective.message_bytes, path, self.algorithm)


class CommSeconds(NamedTuple):
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

    def times(self, count: Numeric) -> CommSeconds:
        """Return the seconds of so many."""
        return CommSeconds(*(part if part is ZERO else count * part for part in self))

    def plus(self, other: CommSeconds) -> CommSeconds:
        """Return the seconds of both."""
        return CommSeconds(add_up((self.serialized, other.serialized)), add_up((self.hidden, other.hidden)),
                           add_up((self.exposed, other.exposed)))  # fmt: skip


NO_COMM = CommSeconds(ZERO, ZERO, ZERO)


def overlapped(total: Array, hidden: Array, overlaps: Mask) -> CommSeconds:
    """Return what is spent where ``overlaps`` says that it may run beside compute, and ``hidden`` of it does.

    >>> float(overlapped(to_float(3.0), to_float(2.0), np.asarray(True)).exposed)
    1.0
    """
    if overlaps.all():
        return CommSeconds(ZERO, hidden, total - hidden)
    under = np.where(overlaps, hidden, 0.0)
    return CommSeconds(np.where(overlaps, 0.0, total), under, np.where(overlaps, total - under, 0.0))


def visible(spent: dict[str, CommSeconds]) -> Array:
    """Return the seconds of communication on the critical path, over all groups."""
    return add_up(item.visible for item in spent.values())


@dataclass(frozen=True, eq=False)
class LayerTimes:
    """A layer, or what is beside the layers: its operations and collectives, and what they come to by pass and group.

    ``overlaps`` says whether its communication may run beside its compute, as the layout has it.
    """

    layout: Layout
    timed: Sequence[TimedOperation]
    calls: Sequence[TimedCollective]
    interference: Numeric
    overlaps: bool = True

    @cached_property
    def compute(self) -> Passes:
        """Seconds of compute."""
        return sum_passes(self.timed)

    @cached_property
    def core_attention(self) -> Passes:
        """Seconds of the scores, softmax and weighted sum."""
        return sum_passes(item for item in self.timed if isinstance(item.op, Attention))

    @cached_property
    def _gemms(self) -> Passes:
        return sum_passes(item for item in self.timed if isinstance(item.op, Gemm))

    @cached_property
    def groups(self) -> list[str]:
        """Groups that communicate."""
        return list(dict.fromkeys(call.collective.parallelism for call in self.calls))

    @cached_property
    def forward(self) -> dict[str, CommSeconds]:
        """Communication of the forward pass by group."""
        return self._pass(0, lambda collective: collective.count)

    @cached_property
    def backward(self) -> dict[str, CommSeconds]:
        """Communication of the backward pass by group."""
        return self._pass(1, lambda collective: collective.backward_count)

    @cached_property
    def forward_s(self) -> Array:
        """Seconds of the forward pass."""
        return self.compute.forward + visible(self.forward)

    @cached_property
    def backward_s(self) -> Array:
        """Seconds of the backward pass."""
        return self.compute.backward + visible(self.backward)

    @cached_property
    def passes_s(self) -> Array:
        """Seconds of both passes."""
        return self.forward_s + self.backward_s

    @cached_property
    def hidden_s(self) -> Array:
        """Seconds of communication that both passes hide."""
        return add_up(spent.hidden for side in (self.forward, self.backward) for spent in side.values())

    def _pass(self, number: int, times: Callable[[Collective], Numeric]) -> dict[str, CommSeconds]:
        """Return what each group spends; a second of compute hides one second of one group."""
        spent_by: dict[str, CommSeconds] = {}
        free = self.compute[number]
        for group in sorted(self.groups, key=("cp", "tp", "ep").index):
            spent = self._spent(group, number, times, free)
            free = np.maximum(free - spent.hidden, 0.0) if spent.hidden is not ZERO else free
            spent_by[group] = spent
        return spent_by

    def _spent(self, group: str, number: int, times: Callable[[Collective], Numeric], free: Array) -> CommSeconds:
        total = ZERO
        for call in self.calls:
            if call.collective.parallelism == group:
                total = total + to_float(times(call.collective)) * call.seconds
        overlaps, window = self._window(group, number, free)
        if not overlaps.any():
            return CommSeconds(total, ZERO, ZERO)
        slowed = total * np.where(overlaps, self.interference, 1.0)
        # A GEMM split over its TP group waits for the first of its parts.
        able = slowed * (1 - 1 / to_float(self.layout.tp)) if group == "tp" else slowed
        return overlapped(slowed, np.minimum(able, np.minimum(window, free)), overlaps)

    def _window(self, group: str, number: int, free: Array) -> tuple[Mask, Array]:
        """Return where a group's communication may overlap, and the compute beside which it may."""
        layout = self.layout
        if group == "cp":
            return ContextComm.P2P.where(layout.cp_comm), self.core_attention[number]
        if not self.overlaps:
            return np.asarray(False), ZERO
        if group == "tp":
            return Switch.ON.where(layout.overlap_tp), self._gemms[number]
        return Switch.ON.where(layout.overlap_ep), free
