"""Operations and collectives with their seconds, and what of communication compute hides."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, cast

from comp_comm.formulas.arrays import ZERO, Array, Numeric, add_up, everywhere, minimum, to_float, where
from comp_comm.group import Group
from comp_comm.hardware.numbers import Hardware
from comp_comm.lazy import cached_property
from comp_comm.operations.products import FusedProducts
from comp_comm.operations.shapes import Attention, Collective, Elementwise, Gemm, Operation, TokenExchange
from comp_comm.structs import struct
from comp_comm.timing.dispatch import SentBytes, exchange_seconds, sent_bytes
from comp_comm.timing.kernels import Kernels
from comp_comm.timing.network import collective_seconds
from comp_comm.timing.passes import Passes
from comp_comm.timing.paths import NetworkPath, path_of
from comp_comm.violation import Mask

MOST_KNOWN = 1000  # groups of single numbers whose paths are kept with a hardware


@struct
class TimedOperation:
    """An operation on a device, with the seconds each of its passes takes once."""

    op: Operation
    passes: Passes


@struct
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
            return minimum(to_float(self.collective.sms) / self.path.timing.multiprocessors, 1.0)
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
        return _trained(op, kernels.gemm(op))
    if isinstance(op, Attention):
        return kernels.attention(op, attention_kernel)
    if isinstance(op, Elementwise):
        return kernels.elementwise(op)
    if isinstance(op, FusedProducts):
        return kernels.fused_products(op)
    raise TypeError(f"nothing times a {type(op).__name__}")


def _trained(op: Gemm, passes: Passes) -> Passes:
    """Return the seconds of a product without the gradient of weights that are frozen."""
    trained = to_float(op.trained)
    if everywhere(trained == 1):
        return passes
    for_weights = trained * passes.for_weights
    return Passes(passes.forward, passes.backward - passes.for_weights + for_weights, for_weights)


def sum_passes(timed: Iterable[TimedOperation]) -> Passes:
    """Return the seconds of operations, each as often as it is done."""
    sums = [ZERO, ZERO, ZERO]
    for item in timed:
        for number, seconds in enumerate(item.passes):
            sums[number] = sums[number] + item.op.count * seconds
    return Passes(*sums)


def known_path(hardware: Hardware, group: Group) -> NetworkPath:
    """Return what a group crosses; that of a group of single numbers is kept with the hardware, for other points."""
    key = (group.size, group.stride, group.parts)
    try:
        path = hardware.known.get(key)
    except TypeError:  # arrays are no key
        return path_of(hardware, group)
    if path is None:
        if len(hardware.known) >= MOST_KNOWN:
            hardware.known.clear()
        path = hardware.known[key] = path_of(hardware, group)
    return cast(NetworkPath, path)


@struct
class Network:
    """The network of a device as collectives find it; what a group crosses is looked up once for all of them.

    Exchanges of tokens with experts find ``exchange_hardware``: while they are under way a device sends nothing else.
    """

    hardware: Hardware
    algorithm: Numeric
    exchange_hardware: Hardware

    @cached_property
    def _paths(self) -> dict[Group, NetworkPath]:
        return {}

    def path(self, group: Group) -> NetworkPath:
        """Return what a group crosses."""
        if group not in self._paths:
            self._paths[group] = known_path(self.hardware, group)
        return self._paths[group]

    def _path_of(self, collective: Collective) -> NetworkPath:
        """Return what the group of a collective crosses, at the speed that it finds there."""
        if self.exchange_hardware is self.hardware or not isinstance(collective, TokenExchange):
            return self.path(collective.group)
        if collective.group not in self._exchange_paths:
            self._exchange_paths[collective.group] = known_path(self.exchange_hardware, collective.group)
        return self._exchange_paths[collective.group]

    @cached_property
    def _exchange_paths(self) -> dict[Group, NetworkPath]:
        return {}

    def timed(self, collectives: Iterable[Collective]) -> list[TimedCollective]:
        """Return collectives with the seconds of one call."""
        return [TimedCollective(each, self.seconds(each), self._path_of(each)) for each in collectives]

    def seconds(self, collective: Collective) -> Array:
        """Return the seconds of one call."""
        path = self._path_of(collective)
        if isinstance(collective, TokenExchange):
            return exchange_seconds(self.exchange_hardware, path, collective)
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

    >>> float(overlapped(to_float(3.0), to_float(2.0), to_float(1.0) > 0).exposed)
    1.0
    """
    if everywhere(overlaps):
        return CommSeconds(ZERO, hidden, total - hidden)
    under = where(overlaps, hidden, 0.0)
    return CommSeconds(where(overlaps, 0.0, total), under, where(overlaps, total - under, 0.0))


def visible(spent: dict[str, CommSeconds]) -> Array:
    """Return the seconds of communication on the critical path, over all groups."""
    return add_up(item.visible for item in spent.values())
