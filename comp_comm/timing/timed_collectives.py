"""Collectives with their seconds on the network of a device."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from comp_comm.formulas.arrays import Array, Numeric, add_up, minimum, to_float
from comp_comm.group import Group
from comp_comm.hardware.numbers import Hardware
from comp_comm.lazy import cached_property
from comp_comm.operations.shapes import Collective, TokenExchange
from comp_comm.structs import struct
from comp_comm.timing.dispatch import SentBytes, exchange_seconds, sent_bytes
from comp_comm.timing.network import collective_seconds
from comp_comm.timing.paths import NetworkPath, path_of

MOST_KNOWN = 1000  # groups of single numbers whose paths are kept with a hardware


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
