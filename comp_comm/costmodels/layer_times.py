"""What a layer takes: its operations and collectives by pass and group, and what of communication compute hides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from comp_comm.choices import ContextComm, Switch, TensorOverlap
from comp_comm.costmodels.comm_seconds import CommSeconds, overlapped, visible
from comp_comm.costmodels.operation_times import OperationTimes
from comp_comm.formulas.arrays import (
    ZERO,
    Array,
    Mask,
    Numeric,
    add_up,
    maximum,
    minimum,
    somewhere,
    to_codes,
    to_float,
    where,
)
from comp_comm.formulas.host import BACKWARD_LAUNCHES, host_wait_seconds
from comp_comm.layout import Layout
from comp_comm.lazy import cached_property
from comp_comm.operations.shapes import Collective, SequenceGather, TokenExchange
from comp_comm.structs import struct
from comp_comm.timing.passes import Passes
from comp_comm.timing.timed_collectives import TimedCollective
from comp_comm.timing.timed_operations import TimedOperation

# Of an exchange that may run beside compute: the rest waits for kernels to begin, and for the slowest device. Fitted on
# Qwen3-30B on 16 H100, by all-to-all and by HybridEP, with overlap and without (Megatron-LM's four published seconds).
EXCHANGE_HIDDEN = 0.65


class HostLaunches(NamedTuple):
    """Seconds in which the host launches a forward pass, whether it waits for a result in it, or for each kernel.

    What is done again is a part of a backward pass, whose seconds of the device and of launches are ``beside`` it.
    """

    launching: Array
    synchronises: Mask
    blocking: Mask
    beside: tuple[Array, Array] | None = None

    def waits(self, device: Array, launches: float = 1.0) -> Array:
        """Return the seconds the device waits in a pass of so many times the launches of the forward pass."""
        launching = launches * self.launching
        if self.beside is None:
            return self._waits(device, launching)
        pass_s, launching_s = self.beside
        more = self._waits(pass_s + device, launching_s + launching) - self._waits(pass_s, launching_s)
        return maximum(more, 0.0)  # another part may be done while the device waits in the backward pass

    def _waits(self, device: Array, launching: Array) -> Array:
        return host_wait_seconds(device, launching, to_float(self.synchronises), to_float(self.blocking))


NO_HOST = HostLaunches(ZERO, np.asarray(False), np.asarray(False))


@struct
class LayerTimes:
    """A layer, or what is beside the layers: its operations and collectives, and what they come to by pass and group.

    ``overlaps`` says whether its communication may run beside its compute, as the layout has it.
    """

    layout: Layout
    operations: OperationTimes
    calls: Sequence[TimedCollective]
    interference: Numeric
    overlaps: bool = True
    host: HostLaunches = NO_HOST

    @property
    def timed(self) -> Sequence[TimedOperation]:
        """Its operations with their seconds."""
        return self.operations.timed

    @property
    def compute(self) -> Passes:
        """Seconds of compute."""
        return self.operations.compute

    def part(self, operations: OperationTimes, collectives: Mapping[str, Numeric], launching: Numeric) -> LayerTimes:
        """Return the times of a part that is done again: some of the operations, and calls of collectives by name.

        ``launching`` are the seconds that it takes the host beside the launches of the part.
        """
        calls = [
            replace(call, collective=replace(call.collective, count=collectives[name], backward_count=to_float(0.0)))
            for call in self.calls
            if (name := call.collective.name) in collectives
        ]
        share = operations.count / maximum(self.operations.count, 1.0)  # of what the host launches
        backward = self.compute.backward + visible(self.backward_comm)
        beside = (backward, BACKWARD_LAUNCHES * self.host.launching)
        host = self.host._replace(launching=share * self.host.launching + launching, beside=beside)
        return LayerTimes(
            self.layout, operations, calls=calls, interference=self.interference, overlaps=self.overlaps, host=host
        )

    @cached_property
    def groups(self) -> list[str]:
        """Groups that communicate."""
        return list(dict.fromkeys(call.collective.parallelism for call in self.calls))

    @cached_property
    def forward_comm(self) -> dict[str, CommSeconds]:
        """Communication of the forward pass by group."""
        return self._comm_by_pass[0]

    @cached_property
    def backward_comm(self) -> dict[str, CommSeconds]:
        """Communication of the backward pass by group."""
        return self._comm_by_pass[1]

    @cached_property
    def forward_pass_s(self) -> Array:
        """Seconds of the forward pass."""
        return add_up((self.compute.forward, visible(self.forward_comm), self.host_waits[0]))

    @cached_property
    def backward_pass_s(self) -> Array:
        """Seconds of the backward pass."""
        return add_up((self.compute.backward, visible(self.backward_comm), self.host_waits[1]))

    @cached_property
    def host_waits(self) -> tuple[Array, Array]:
        """Seconds the device waits for the host, forward and backward."""
        if self.host is NO_HOST:
            return ZERO, ZERO
        forward, backward = (
            self.compute.forward + visible(self.forward_comm),
            self.compute.backward + visible(self.backward_comm),
        )
        waits = self.host.waits(forward), self.host.waits(backward, BACKWARD_LAUNCHES)
        return waits if any(somewhere(each) for each in waits) else (ZERO, ZERO)

    @cached_property
    def busy(self) -> Passes:
        """Seconds of compute and of waiting for the host in each pass."""
        if self.host_waits[0] is ZERO:
            return self.compute
        forward, backward = (self.compute[number] + self.host_waits[number] for number in range(2))
        return self.compute._replace(forward=forward, backward=backward)

    @cached_property
    def weights_s(self) -> Array:
        """Seconds of the gradients of weights where a schedule takes them apart, their share of the waiting in them.

        Theirs are the launches that a backward pass has beyond those of the forward pass: the second of a product's two
        gradients.
        """
        if self.host_waits[1] is ZERO:
            return self.compute.for_weights
        own = self.host.waits(self.compute.for_weights, BACKWARD_LAUNCHES - 1)
        return self.compute.for_weights + minimum(own, self.host_waits[1])

    @cached_property
    def both_passes_s(self) -> Array:
        """Seconds of both passes."""
        return self.forward_pass_s + self.backward_pass_s

    @cached_property
    def hidden_s(self) -> Array:
        """Seconds of communication that both passes hide."""
        return add_up(spent.hidden for side in (self.forward_comm, self.backward_comm) for spent in side.values())

    @cached_property
    def hidden_forward_s(self) -> Array:
        """Seconds of communication that the forward pass hides."""
        return add_up(spent.hidden for spent in self.forward_comm.values())

    # -- overlap: what compute of the layer hides of its communication; ``side`` is 0 forward, 1 backward --------------

    @cached_property
    def _comm_by_pass(self) -> tuple[dict[str, CommSeconds], dict[str, CommSeconds]]:
        """What each group spends, forward and backward; a second of compute hides one second of one group."""
        spent: tuple[dict[str, CommSeconds], dict[str, CommSeconds]] = {}, {}
        for side, by_group in enumerate(spent):
            free = self.compute[side]
            for group in sorted(set(self.groups) - {"ep"}, key=("cp", "tp").index):
                by_group[group] = self._group_comm(group, side, free)
                hidden = by_group[group].hidden
                free = maximum(free - hidden, 0.0) if hidden is not ZERO else free
        if "ep" in self.groups:
            hides = [add_up(each.hidden for each in by_group.values()) for by_group in spent]
            for side, by_group in enumerate(spent):
                by_group["ep"] = self._expert_comm(side, hides)
        return spent

    def _calls(self, group: str, side: int) -> Iterator[tuple[TimedCollective, Array]]:
        """Yield the calls of a group in a pass, with the seconds of each of them, as often as it is called."""
        for call in self.calls:
            if call.collective.parallelism == group:
                times = call.collective.backward_count if side else call.collective.count
                yield call, to_float(times) * call.seconds

    def _group_comm(self, group: str, side: int, free: Array) -> CommSeconds:
        """Return what a group spends in a pass, of whose compute ``free`` seconds hide nothing yet."""
        calls = list(self._calls(group, side))
        total = add_up(seconds for _, seconds in calls)
        gathers_s = self._gathers_beside_gemms(calls) if side and group == "tp" else ZERO
        if gathers_s is not ZERO:
            return self._tp_with_gathers(gathers_s, side, free, total - gathers_s)
        return self._in_window(group, side, free, total)

    def _gathers_beside_gemms(self, calls: Sequence[tuple[TimedCollective, Array]]) -> Array:
        """Return the seconds of gathers that run beside the GEMMs of inputs' gradients."""
        gathers = [(call.collective, call.seconds) for call, _ in calls if isinstance(call.collective, SequenceGather)]
        times = [(minimum(each.overlapped_count, each.backward_count), seconds) for each, seconds in gathers]
        return add_up(count * seconds for count, seconds in times if somewhere(count)) if times else ZERO

    def _tp_with_gathers(self, gathers_s: Array, side: int, free: Array, others_s: Array) -> CommSeconds:
        """Return what TP spends, its gathers beside half of the GEMMs: those of inputs' gradients."""
        hidden = minimum(gathers_s, minimum(self.operations.gemms[side] / 2, free))
        others = self._in_window("tp", side, maximum(free - hidden, 0.0), others_s)
        return others.plus(CommSeconds(ZERO, hidden, gathers_s - hidden))

    def _in_window(self, group: str, side: int, free: Array, total: Array) -> CommSeconds:
        """Return what a group spends where the compute of its window hides it, as far as that is free."""
        overlaps, window = self._window(group, side)
        if not somewhere(overlaps):
            return CommSeconds(total, ZERO, ZERO)
        slowed = total * where(overlaps, self.interference, 1.0)
        # A GEMM split over its TP group waits for the first of its parts.
        gained = TensorOverlap.look_up("gained", self.layout.overlap_tp)
        able = slowed * gained * (1 - 1 / to_float(self.layout.tp)) if group == "tp" else slowed
        return overlapped(slowed, minimum(able, minimum(window, free)), overlaps)

    def _window(self, group: str, side: int) -> tuple[Mask, Array]:
        """Return where a group's communication may overlap, and the compute beside which it may."""
        layout = self.layout
        if group == "cp":
            return ContextComm.P2P.where(layout.cp_comm), self.operations.core_attention[side]
        if not self.overlaps:
            return np.asarray(False), ZERO
        return to_codes(layout.overlap_tp) != int(TensorOverlap.OFF), self.operations.gemms[side]

    def _expert_comm(self, side: int, hides: Sequence[Array]) -> CommSeconds:
        """Return what exchanges with experts spend in a pass: they run beside the other pass of another micro-batch.

        Of two micro-batches side by side (Megatron-LM's 1F1B with overlapped all-to-all, DualPipe) tokens of the one
        are on their way to experts while the other is in its experts backward, and on their way back while that is in
        attention; gradients go to experts beside attention forward, and back beside experts forward. ``hides`` is
        compute of both passes that other groups already hide behind.
        """
        calls = list(self._calls("ep", side))
        total = add_up(seconds for _, seconds in calls)
        overlaps = Switch.ON.where(self.layout.overlap_ep)
        if not somewhere(overlaps) or not self.overlaps:
            return CommSeconds(total, ZERO, ZERO)
        other = 1 - side
        calls = [(call, seconds) for call, seconds in calls if not _is_count(call.collective)]
        experts = self.operations.experts[other]
        free = maximum(self.compute[other] - hides[other], 0.0)
        window = {True: minimum(experts, free), False: maximum(free - experts, 0.0)}
        hidden = ZERO
        for inward in (True, False):
            able = add_up(
                seconds * self.interference * EXCHANGE_HIDDEN
                for call, seconds in calls
                if _inward(call.collective) is inward
            )
            # Tokens go to experts and back in turn; so do gradients, beside the other part of the compute.
            hidden = hidden + minimum(able, window[inward if side == 0 else not inward])
        slowed = total * where(overlaps, self.interference, 1.0)
        return overlapped(slowed, hidden * self._gained_share(calls), overlaps)

    def _gained_share(self, calls: Sequence[tuple[TimedCollective, Array]]) -> Array:
        """Return what is gained of a hidden second: compute waits for the multiprocessors that kernels take from it."""
        taken = add_up(call.taken_share * seconds for call, seconds in calls)
        return 1 - taken / maximum(add_up(seconds for _, seconds in calls), 1e-30)


def _inward(collective: Collective) -> bool:
    """Return whether a collective is on the way to experts, or comes back from them."""
    if isinstance(collective, TokenExchange):
        return collective.to_experts
    return collective.kind == "all_gather"


def _is_count(collective: Collective) -> bool:
    """Return whether a collective counts tokens, which the host waits for before it sends them: nothing hides it."""
    return collective.kind == "all_to_all" and not isinstance(collective, TokenExchange)
