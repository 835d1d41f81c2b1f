"""Operations and collectives with their seconds, and what of communication compute hides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from comp_comm.choices import ContextComm, Switch
from comp_comm.formulas.arrays import ZERO, Array, Numeric, add_up, to_float
from comp_comm.formulas.host import BACKWARD_LAUNCHES, host_wait_seconds
from comp_comm.group import Group
from comp_comm.hardware.numbers import Hardware
from comp_comm.layout import Layout
from comp_comm.operations.products import FusedProducts
from comp_comm.operations.shapes import Attention, Collective, Elementwise, Gemm, Operation, TokenExchange
from comp_comm.timing.dispatch import SentBytes, exchange_seconds, sent_bytes
from comp_comm.timing.kernels import Kernels, Passes
from comp_comm.timing.network import collective_seconds
from comp_comm.timing.paths import NetworkPath, path_of
from comp_comm.violation import Mask

# Of an exchange that may run beside compute: the rest waits for kernels to begin, and for the slowest device. Fitted on
# Qwen3-30B on 16 H100, by all-to-all and by HybridEP, with overlap and without (Megatron-LM's four published seconds).
EXCHANGE_HIDDEN = 0.65


@dataclass(frozen=True)
class TimedOperation:
    """An operation on a device, with the seconds each of its passes takes once."""

    op: Operation
    passes: Passes


@dataclass(frozen=True)
class TimedCollective:
    """A collective, with the seconds of one call alone on the network, and what its group crosses there.

    What goes to the host crosses no network.
    """

    collective: Collective
    seconds: Array
    path: NetworkPath | None = None

    @property
    def taken_share(self) -> Numeric:
        """The share of a device's multiprocessors that it takes from compute, where it is known."""
        if isinstance(self.collective, TokenExchange) and self.path:
            return np.minimum(to_float(self.collective.sms) / self.path.timing.multiprocessors, 1.0)
        return 0.0

    @property
    def sent(self) -> SentBytes | None:
        """Bytes that a device sends by tier, of exchanges of tokens with experts; of others nothing is said."""
        if isinstance(self.collective, TokenExchange) and self.path:
            return sent_bytes(self.path, self.collective)
        return None

    @property
    def wire_bytes(self) -> Array:
        """What a device sends in one call; of tokens that go once to a node, over both tiers together."""
        if isinstance(self.collective, TokenExchange) and self.collective.once and self.sent:
            return add_up(self.sent)
        return self.collective.wire_bytes


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
    """The network of a device as collectives find it; what a group crosses is looked up once for all of them.

    Exchanges of tokens with experts find it as it is ``alone``: while they are under way a device sends nothing else.
    """

    hardware: Hardware
    algorithm: Numeric
    alone: Hardware

    @cached_property
    def _paths(self) -> dict[Group, NetworkPath]:
        return {}

    def path(self, group: Group) -> NetworkPath:
        """Return what a group crosses."""
        if group not in self._paths:
            self._paths[group] = path_of(self.hardware, group)
        return self._paths[group]

    def _path_of(self, collective: Collective) -> NetworkPath:
        """Return what the group of a collective crosses, at the speed that it finds there."""
        if self.alone is self.hardware or not isinstance(collective, TokenExchange):
            return self.path(collective.group)
        if collective.group not in self._paths_alone:
            self._paths_alone[collective.group] = path_of(self.alone, collective.group)
        return self._paths_alone[collective.group]

    @cached_property
    def _paths_alone(self) -> dict[Group, NetworkPath]:
        return {}

    def timed(self, collectives: Iterable[Collective]) -> list[TimedCollective]:
        """Return collectives with the seconds of one call."""
        return [TimedCollective(each, self.seconds(each), self._path_of(each)) for each in collectives]

    def seconds(self, collective: Collective) -> Array:
        """Return the seconds of one call."""
        path = self._path_of(collective)
        if isinstance(collective, TokenExchange):
            return exchange_seconds(self.alone, path, collective)
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


class Host(NamedTuple):
    """Seconds in which the host launches a forward pass, whether it waits for a result in it, or for each kernel."""

    launching: Array
    synchronises: Mask
    blocking: Mask

    def waits(self, device: Array, launches: float = 1.0) -> Array:
        """Return the seconds the device waits in a pass of so many times the launches of the forward pass."""
        launching = launches * self.launching
        return host_wait_seconds(device, launching, to_float(self.synchronises), to_float(self.blocking))


NO_HOST = Host(ZERO, np.asarray(False), np.asarray(False))


@dataclass(frozen=True, eq=False)
class LayerTimes:
    """A layer, or what is beside the layers: its operations and collectives, and what they come to by pass and group.

    ``overlaps`` says whether its communication may run beside its compute, as the layout has it. ``of_experts`` are
    those operations that come between the dispatch of tokens to experts and what these send back.
    """

    layout: Layout
    timed: Sequence[TimedOperation]
    calls: Sequence[TimedCollective]
    interference: Numeric
    overlaps: bool = True
    of_experts: Sequence[TimedOperation] = ()
    host: Host = NO_HOST

    @cached_property
    def compute(self) -> Passes:
        """Seconds of compute."""
        return sum_passes(self.timed)

    def part(self, operations: Mapping[str, Numeric], collectives: Mapping[str, Numeric]) -> LayerTimes:
        """Return the times of a part: shares of the operations, and calls of the collectives forward, by name."""
        timed = [TimedOperation(replace(item.op, count=to_float(item.op.count) * operations[item.op.name]), item.passes)
                 for item in self.timed if item.op.name in operations]  # fmt: skip
        calls = [
            replace(call, collective=replace(call.collective, count=collectives[name], backward_count=to_float(0.0)))
            for call in self.calls
            if (name := call.collective.name) in collectives
        ]
        return LayerTimes(self.layout, timed, calls, self.interference, self.overlaps)

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
        return self._passes[0]

    @cached_property
    def backward(self) -> dict[str, CommSeconds]:
        """Communication of the backward pass by group."""
        return self._passes[1]

    @cached_property
    def forward_s(self) -> Array:
        """Seconds of the forward pass."""
        return add_up((self.compute.forward, visible(self.forward), self.waits[0]))

    @cached_property
    def backward_s(self) -> Array:
        """Seconds of the backward pass."""
        return add_up((self.compute.backward, visible(self.backward), self.waits[1]))

    @cached_property
    def waits(self) -> tuple[Array, Array]:
        """Seconds the device waits for the host, forward and backward."""
        if self.host is NO_HOST:
            return ZERO, ZERO
        forward, backward = self.compute.forward + visible(self.forward), self.compute.backward + visible(self.backward)
        waits = self.host.waits(forward), self.host.waits(backward, BACKWARD_LAUNCHES)
        return waits if any(each.any() for each in waits) else (ZERO, ZERO)

    @cached_property
    def passes_s(self) -> Array:
        """Seconds of both passes."""
        return self.forward_s + self.backward_s

    @cached_property
    def hidden_s(self) -> Array:
        """Seconds of communication that both passes hide."""
        return add_up(spent.hidden for side in (self.forward, self.backward) for spent in side.values())

    @cached_property
    def _passes(self) -> tuple[dict[str, CommSeconds], dict[str, CommSeconds]]:
        """What each group spends, forward and backward; a second of compute hides one second of one group."""
        spent: tuple[dict[str, CommSeconds], dict[str, CommSeconds]] = {}, {}
        for number, by_group in enumerate(spent):
            free = self.compute[number]
            for group in sorted(set(self.groups) - {"ep"}, key=("cp", "tp").index):
                by_group[group] = self._spent(group, number, free)
                hidden = by_group[group].hidden
                free = np.maximum(free - hidden, 0.0) if hidden is not ZERO else free
        if "ep" in self.groups:
            hidden = [add_up(each.hidden for each in by_group.values()) for by_group in spent]
            for number, by_group in enumerate(spent):
                by_group["ep"] = self._exchanged(number, hidden)
        return spent

    def _calls(self, group: str, number: int) -> Iterator[tuple[TimedCollective, Array]]:
        """Yield the calls of a group in a pass, with the seconds of each of them, as often as it is called."""
        for call in self.calls:
            if call.collective.parallelism == group:
                times = call.collective.backward_count if number else call.collective.count
                yield call, to_float(times) * call.seconds

    def _spent(self, group: str, number: int, free: Array) -> CommSeconds:
        total = add_up(seconds for _, seconds in self._calls(group, number))
        overlaps, window = self._window(group, number)
        if not overlaps.any():
            return CommSeconds(total, ZERO, ZERO)
        slowed = total * np.where(overlaps, self.interference, 1.0)
        # A GEMM split over its TP group waits for the first of its parts.
        able = slowed * (1 - 1 / to_float(self.layout.tp)) if group == "tp" else slowed
        return overlapped(slowed, np.minimum(able, np.minimum(window, free)), overlaps)

    def _exchanged(self, number: int, taken: Sequence[Array]) -> CommSeconds:
        """Return what exchanges with experts spend in a pass: they run beside the other pass of another micro-batch.

        Of two micro-batches side by side (Megatron-LM's 1F1B with overlapped all-to-all, DualPipe) tokens of the one
        are on their way to experts while the other is in its experts backward, and on their way back while that is in
        attention; gradients go to experts beside attention forward, and back beside experts forward. ``taken`` is
        compute of both passes that other groups already hide behind.
        """
        calls = list(self._calls("ep", number))
        total = add_up(seconds for _, seconds in calls)
        overlaps = Switch.ON.where(self.layout.overlap_ep)
        if not overlaps.any() or not self.overlaps:
            return CommSeconds(total, ZERO, ZERO)
        other = 1 - number
        experts = sum_passes(self.of_experts)[other]
        free = np.maximum(self.compute[other] - taken[other], 0.0)
        beside = {True: np.minimum(experts, free), False: np.maximum(free - experts, 0.0)}
        hidden = ZERO
        for inward in (True, False):
            sent = add_up(
                self._hideable(call, seconds) for call, seconds in calls if _inward(call.collective) is inward
            )
            # Tokens go to experts and back in turn; so do gradients, beside the other part of the compute.
            hidden = hidden + np.minimum(sent, beside[inward if number == 0 else not inward])
        slowed = total * np.where(overlaps, self.interference, 1.0)
        return overlapped(slowed, hidden * self._left(calls), overlaps)

    def _hideable(self, call: TimedCollective, seconds: Array) -> Array:
        return seconds * self.interference * EXCHANGE_HIDDEN

    def _left(self, calls: Sequence[tuple[TimedCollective, Array]]) -> Array:
        """Return what is gained of a hidden second: compute waits for the multiprocessors that kernels take from it."""
        taken = add_up(call.taken_share * seconds for call, seconds in calls)
        return 1 - taken / np.maximum(add_up(seconds for _, seconds in calls), 1e-30)

    def _window(self, group: str, number: int) -> tuple[Mask, Array]:
        """Return where a group's communication may overlap, and the compute beside which it may."""
        layout = self.layout
        if group == "cp":
            return ContextComm.P2P.where(layout.cp_comm), self.core_attention[number]
        if not self.overlaps:
            return np.asarray(False), ZERO
        return Switch.ON.where(layout.overlap_tp), self._gemms[number]


def _inward(collective: Collective) -> bool:
    """Return whether a collective is on the way to experts, or comes back from them."""
    return collective.inward if isinstance(collective, TokenExchange) else collective.kind == "all_gather"
