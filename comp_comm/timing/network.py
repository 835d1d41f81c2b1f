"""Seconds of any collective on the network tiers of a device, by the algorithms a library has for it.

Every algorithm is one or more half-pipelined phases, t = s + L + X + sqrt(L X), with its own hops in L and its own
bytes in X; the best algorithm is their minimum. Tiers that no group crosses cost next to nothing, and their blank
numbers touch nothing.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from comp_comm.choices import CollectiveAlgorithm
from comp_comm.formulas.arrays import (
    Array,
    Mask,
    Numeric,
    by_code,
    everywhere,
    isnan,
    maximum,
    minimum,
    somewhere,
    to_codes,
    to_float,
    where,
)
from comp_comm.formulas.networks import half_pipelined_seconds, overlapped_seconds
from comp_comm.group import Group
from comp_comm.hardware.numbers import Hardware
from comp_comm.timing import phases
from comp_comm.timing.paths import NetworkPath, path_of
from comp_comm.timing.phases import CollectivePhase

KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send")
# Bytes per second of a small share on its way to one peer, in an all-to-all: about the same from A100 to GB300.
EAGER_EXCHANGE = 8.5e9


def collective_seconds(
    hardware: Hardware, kind: str, message_bytes: Numeric, group: Group | NetworkPath, algorithm: Numeric = 0
) -> Array:
    r"""Return the seconds of one collective, alone on the network.

    .. math:: t = \min_a \sum_{phases} \left( s + L + X + \sqrt{L X} \right)

    For an all-to-all :math:`\max(X, \min(m / n r, E))` takes the place of the X alone, with E the ``exchange_latency``
    of the innermost tier and r `EAGER_EXCHANGE`.

    Parameters
    ----------
    hardware : Hardware
        Tiers, innermost first, and the start of a collective.
    kind : str
        One of `KINDS`.
    message_bytes : array_like
        m, the size nccl-tests prints: the whole tensor, for a gather or a scatter too; all that one device holds, its
        own share included, for an all-to-all.
    group : Group or NetworkPath
        The devices; for a send, those of a pipeline, each of which sends to the next. A path (`path_of`) of the same
        hardware serves many collectives.
    algorithm : array_like of int
        Codes of `CollectiveAlgorithm`, for an all-reduce; the others have one algorithm, whatever is asked for.

    Returns
    -------
    ndarray of float64
        Seconds; 0 for a group of one or an empty message; infinity where the algorithm does not exist (`available`);
        NaN where the profile leaves blank what is needed (`blanks`).

    Notes
    -----
    Gather and scatter are rings, an all-to-all is direct, and a send takes the link of one device, of one pair of
    devices in a mesh. On a torus a ring runs along each axis that the group fills (`filled_axes`). In one domain, or
    with one device a domain, the hierarchical all-reduce is the ring.

    References
    ----------
    .. [1] R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations in MPICH", IJHPCA
       19(1), 2005.
    .. [2] P. Sanders, J. Speck, J. L. Traff, Parallel Computing 35(12), 2009 (double binary trees).
    .. [3] B. Klenk et al., ISCA 2020 (reduction in the network).

    Examples
    --------
    >>> from comp_comm.hardware.numbers import Tier, Timing
    >>> timing = Timing(collective_latency=0.0, own_shard=0.0)
    >>> device = Hardware(1, 1, 1, (Tier(8, 450e9, 0.0, 210 / 450),), timing)
    >>> round(float(collective_seconds(device, "all_reduce", 1e9, Group(8))) * 1e3, 3)
    8.333
    """
    path = group if isinstance(group, NetworkPath) else path_of(hardware, group)
    message = to_float(message_bytes)
    if kind == "all_reduce":
        seconds = _all_reduce_seconds(path, message, to_codes(algorithm))
    elif kind == "all_to_all":
        seconds = _all_to_all_seconds(path, message)
    else:
        seconds = _seconds(path, _PHASES[kind], message)
    return where((path.size > 1) & (message > 0), seconds, 0.0)


def _seconds(path: NetworkPath, make: Callable[[NetworkPath], CollectivePhase], message: Array) -> Array:
    phase = path.memoised(make)
    if not path.two_protocols or everywhere(to_float(phase.bulk_latency) == np.inf):
        return _eager_seconds(path, phase, message)
    eager = _eager_seconds(path, phase, minimum(message, path.protocol_switch_bytes))
    transfer = message * phase.seconds_per_byte
    bulk = transfer + phase.bulk_latency + path.start
    if somewhere(phase.bulk_hops != 0):
        bulk = bulk - overlapped_seconds(phase.bulk_hops, transfer)
    # A library that switches at a size does so even where it loses by it; it never gains by sending more.
    return where(message < path.protocol_switch_bytes, minimum(eager, bulk), maximum(eager, bulk))


def _eager_seconds(path: NetworkPath, phase: CollectivePhase, message: Array) -> Array:
    latency = phase.latency
    for seconds, full in phase.chunks:
        latency = latency + seconds * minimum(message / full, 1.0)
    return half_pipelined_seconds(path.start, latency, message * (phase.seconds_per_byte + phase.eager_extra))


def _all_to_all_seconds(path: NetworkPath, message: Array) -> Array:
    """Return the seconds of a direct all-to-all, in which each member sends each other one 1/n of its message.

    Two members agree on a large share before it moves, which takes no less than `NetworkPath.exchange`; a small share
    moves at once with flags between its words, slowly, as long as that takes less. Either hides behind the transfer.
    """
    phase = path.memoised(phases.all_to_all)
    transfer = message * phase.seconds_per_byte
    seconds = half_pipelined_seconds(path.start, phase.latency, transfer)
    if not path.exchanges:
        return seconds
    exchange = minimum(message / (path.size * EAGER_EXCHANGE), path.exchange)
    return seconds + maximum(exchange - transfer, 0.0)


def _all_reduce_seconds(path: NetworkPath, message: Array, codes: NDArray[np.int_]) -> Array:
    return by_code(codes, lambda code: ALL_REDUCES[CollectiveAlgorithm.at(code)](path, message))


def _best(path: NetworkPath, message: Array) -> Array:
    seconds = _seconds(path, phases.ring, message)
    if path.outer:
        across = minimum(seconds, _seconds(path, phases.tree, message))
        if path.inside:  # in one domain a tree is a chain, which sends more than a ring does: there is no choice
            across = minimum(across, _two_levels(path, message))
            across = where(path.local < path.size, across, seconds) if path.two_protocols else across
        seconds = across
    if any(crossing.reduces is not None for crossing in path.crossings):
        seconds = minimum(seconds, _in_network(path, message))
    return seconds


def _hierarchical(path: NetworkPath, message: Array) -> Array:
    """Return the seconds of a hierarchical all-reduce, which is the ring where there is only one level."""
    ring = _seconds(path, phases.ring, message)
    if not (path.inside and path.outer):
        return ring
    return where((path.local > 1) & (path.local < path.size), _two_levels(path, message), ring)


def _two_levels(path: NetworkPath, message: Array) -> Array:
    """Return the seconds of a scatter in each domain, all-reduces of its shards between them, and a gather in each.

    With one level only it is never faster than the ring, whose hops and bytes it has, with more starts.
    """
    return 2 * _seconds(path, phases.within, message) + _seconds(path, phases.between, message)


def _in_network(path: NetworkPath, message: Array) -> Array:
    """Return the seconds of an all-reduce in the outermost tier a group crosses; infinity where that cannot reduce."""
    seconds = to_float(np.inf)
    for able, phase in path.memoised(phases.reductions):
        seconds = where(
            able, half_pipelined_seconds(path.start, phase.latency, message * phase.seconds_per_byte), seconds
        )
    return seconds


_PHASES: dict[str, Callable[[NetworkPath], CollectivePhase]] = {
    "all_gather": phases.gather_or_scatter,
    "reduce_scatter": phases.gather_or_scatter,
    "send": phases.send,
}
ALL_REDUCES: dict[CollectiveAlgorithm, Callable[[NetworkPath, Array], Array]] = {
    CollectiveAlgorithm.BEST: _best,
    CollectiveAlgorithm.RING: lambda path, message: _seconds(path, phases.ring, message),
    CollectiveAlgorithm.TREE: lambda path, message: _seconds(path, phases.tree, message),
    CollectiveAlgorithm.HIERARCHICAL: _hierarchical,
    CollectiveAlgorithm.IN_NETWORK: _in_network,
}


def available(hardware: Hardware, kind: str, group: Group | NetworkPath, algorithm: Numeric) -> Mask:
    """Return where a collective has the algorithm asked for: all but a reduction in a network that cannot reduce.

    Only an all-reduce has a choice of algorithms, and a group of one needs none.

    >>> from comp_comm.hardware.numbers import Tier, Timing
    >>> node = Tier(8, 450e9, 1e-6, 1.0, reduction=0.63, reduction_members=8)
    >>> device = Hardware(1, 1, 1, (node, Tier(np.inf, 50e9, 5e-6, 1.0)), Timing())
    >>> available(device, "all_reduce", Group(np.array([1, 4, 8, 16])), CollectiveAlgorithm.IN_NETWORK)
    array([ True, False,  True, False])
    """
    path = group if isinstance(group, NetworkPath) else path_of(hardware, group)
    free: Mask = ~CollectiveAlgorithm.IN_NETWORK.where(algorithm) | (path.size <= 1)
    if kind != "all_reduce":
        return np.ones(free.shape, dtype=np.bool_)
    for able, _ in path.memoised(phases.reductions):
        free = free | able
    return free


def blanks(hardware: Hardware, group: Group | NetworkPath, kind: str = "all_reduce") -> list[tuple[str, Mask]]:
    """Return the keys of a profile that are blank, and where ``kind`` over ``group`` needs them.

    The key is empty where no tier of the profile connects the group. A tier without a bandwidth is listed by that
    alone.

    >>> from comp_comm.hardware.numbers import Tier, Timing
    >>> tiers = (Tier(8, 450e9, 1e-6, 1.0), Tier(np.inf, np.nan, np.nan, 1.0, key="network.scale-out"))
    >>> blanks(Hardware(1, 1, 1, tiers, Timing()), Group(np.array([8, 16])))
    [('network.scale-out.bandwidth', array([False,  True]))]
    """
    path = group if isinstance(group, NetworkPath) else path_of(hardware, group)
    many = path.size > 1
    timing = {name: getattr(hardware.timing, name) for name in ("collective_latency", "own_shard")}
    keys = [(f"timing.{name}", many & isnan(number)) for name, number in timing.items()]
    for crossing in path.crossings:
        tier, given = crossing.tier, crossing.crossed & ~isnan(crossing.tier.bandwidth)
        parts = {"efficiency": given, "entry_latency": given}
        if kind != "send":
            parts["latency"] = given
        if kind == "all_reduce":
            parts["tree_latency"] = given & (tier is not path.inner)
            parts["reduction_latency"] = given & (to_float(tier.reduction) > 0)
        if kind == "all_to_all":
            parts["exchange_latency"] = given & (tier is path.inner)
        for part, needed in {"bandwidth": crossing.crossed, **parts}.items():
            keys.append((f"{tier.key}.{part}" if tier.key else "", needed & isnan(getattr(tier, part))))
    return [(key, mask) for key, mask in keys if somewhere(mask)]
