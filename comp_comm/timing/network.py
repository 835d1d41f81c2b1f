"""Seconds of any collective on the network tiers of a device, by the algorithms a library has for it.

Every algorithm is one or more half-pipelined legs, t = s + L + X + sqrt(L X), with its own hops in L and its own bytes
in X; the best algorithm is their minimum. Tiers that no group crosses cost next to nothing, and their blank numbers
touch nothing.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from comp_comm.formulas.arrays import Array, Numeric, to_float
from comp_comm.formulas.networks import half_pipelined_seconds, overlapped_seconds
from comp_comm.hardware.numbers import Hardware
from comp_comm.timing import legs
from comp_comm.timing.collectives import Group
from comp_comm.timing.legs import Leg
from comp_comm.timing.spans import Mask, Span, span_of

KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send")
ALGORITHMS = ("best", "ring", "tree", "hierarchical", "in_network")
# Bytes per second of a small share on its way to one peer, in an all-to-all: about the same from A100 to GB300.
EAGER_EXCHANGE = 8.5e9


def collective_seconds(
    hardware: Hardware, kind: str, message_bytes: Numeric, group: Group | Span, algorithm: Numeric = 0
) -> Array:
    r"""Return the seconds of one collective, alone on the network.

    .. math:: t = \min_a \sum_{legs} \left( s + L + X + \sqrt{L X} \right)

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
    group : Group or Span
        The devices; for a send, those of a pipeline, each of which sends to the next. A span (`span_of`) of the same
        hardware serves many collectives.
    algorithm : array_like of int
        Codes of `ALGORITHMS`, for an all-reduce; the others have one algorithm, whatever is asked for.

    Returns
    -------
    ndarray of float64
        Seconds; 0 for a group of one or an empty message; infinity where the algorithm does not exist (`available`);
        NaN where the profile leaves blank what is needed (`blanks`).

    Notes
    -----
    Gather and scatter are rings, an all-to-all is direct, and a send takes the link of one device, of one pair of
    devices in a mesh. A torus counts as one of its axes throughout. In one domain, or with one device a domain, the
    hierarchical all-reduce is the ring.

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
    span = group if isinstance(group, Span) else span_of(hardware, group)
    message = to_float(message_bytes)
    if kind == "all_reduce":
        seconds = _all_reduce_seconds(span, message, np.asarray(algorithm))
    elif kind == "all_to_all":
        seconds = _all_to_all_seconds(span, message)
    else:
        seconds = _seconds(span, _LEGS[kind], message)
    return np.where((span.size > 1) & (message > 0), seconds, 0.0)


def _seconds(span: Span, make: Callable[[Span], Leg], message: Array) -> Array:
    leg = span.once(make)
    if not span.two_protocols or np.all(np.isinf(leg.bulk_latency)):
        return _eager_seconds(span, leg, message)
    eager = _eager_seconds(span, leg, np.minimum(message, span.switch))
    transfer = message * leg.seconds_per_byte
    bulk = transfer + leg.bulk_latency + span.start
    if np.any(leg.bulk_hops != 0):
        bulk = bulk - overlapped_seconds(leg.bulk_hops, transfer)
    # A library that switches at a size does so even where it loses by it; it never gains by sending more.
    return np.where(message < span.switch, np.minimum(eager, bulk), np.maximum(eager, bulk))


def _eager_seconds(span: Span, leg: Leg, message: Array) -> Array:
    latency = leg.latency
    for seconds, full in leg.chunks:
        latency = latency + seconds * np.minimum(message / full, 1.0)
    return half_pipelined_seconds(span.start, latency, message * (leg.seconds_per_byte + leg.capped))


def _all_to_all_seconds(span: Span, message: Array) -> Array:
    """Return the seconds of a direct all-to-all, in which each member sends each other one 1/n of its message.

    Two members agree on a large share before it moves, which takes no less than `Span.exchange`; a small share moves
    at once with flags between its words, slowly, as long as that takes less. Either hides behind the transfer.
    """
    leg = span.once(legs.all_to_all)
    transfer = message * leg.seconds_per_byte
    seconds = half_pipelined_seconds(span.start, leg.latency, transfer)
    if not span.exchanges:
        return seconds
    exchange = np.minimum(message / (span.size * EAGER_EXCHANGE), span.exchange)
    return seconds + np.maximum(exchange - transfer, 0.0)


def _all_reduce_seconds(span: Span, message: Array, codes: NDArray[np.int_]) -> Array:
    if codes.ndim == 0:
        return _ALL_REDUCES[ALGORITHMS[int(codes)]](span, message)
    seconds = to_float(np.nan)
    for code in np.unique(codes):
        seconds = np.where(codes == code, _ALL_REDUCES[ALGORITHMS[int(code)]](span, message), seconds)
    return seconds


def _best(span: Span, message: Array) -> Array:
    seconds = _seconds(span, legs.ring, message)
    if span.outer:
        across = np.minimum(seconds, _seconds(span, legs.tree, message))
        if span.inside:  # in one domain a tree is a chain, which sends more than a ring does: there is no choice
            across = np.minimum(across, _two_levels(span, message))
            across = np.where(span.local < span.size, across, seconds) if span.two_protocols else across
        seconds = across
    if any(step.reduces is not None for step in span.steps):
        seconds = np.minimum(seconds, _in_network(span, message))
    return seconds


def _hierarchical(span: Span, message: Array) -> Array:
    """Return the seconds of a hierarchical all-reduce, which is the ring where there is only one level."""
    ring = _seconds(span, legs.ring, message)
    if not (span.inside and span.outer):
        return ring
    return np.where((span.local > 1) & (span.local < span.size), _two_levels(span, message), ring)


def _two_levels(span: Span, message: Array) -> Array:
    """Return the seconds of a scatter in each domain, all-reduces of its shards between them, and a gather in each.

    With one level only it is never faster than the ring, whose hops and bytes it has, with more starts.
    """
    return 2 * _seconds(span, legs.within, message) + _seconds(span, legs.between, message)


def _in_network(span: Span, message: Array) -> Array:
    """Return the seconds of an all-reduce in the outermost tier a group crosses; infinity where that cannot reduce."""
    seconds = to_float(np.inf)
    for able, leg in span.once(legs.reductions):
        seconds = np.where(
            able, half_pipelined_seconds(span.start, leg.latency, message * leg.seconds_per_byte), seconds
        )
    return seconds


_LEGS: dict[str, Callable[[Span], Leg]] = {
    "all_gather": legs.gather_or_scatter,
    "reduce_scatter": legs.gather_or_scatter,
    "send": legs.send,
}
_ALL_REDUCES: dict[str, Callable[[Span, Array], Array]] = {
    "best": _best,
    "ring": lambda span, message: _seconds(span, legs.ring, message),
    "tree": lambda span, message: _seconds(span, legs.tree, message),
    "hierarchical": _hierarchical,
    "in_network": _in_network,
}


def available(hardware: Hardware, kind: str, group: Group | Span, algorithm: Numeric) -> Mask:
    """Return where a collective has the algorithm asked for: all but a reduction in a network that cannot reduce.

    Only an all-reduce has a choice of algorithms, and a group of one needs none.

    >>> from comp_comm.hardware.numbers import Tier, Timing
    >>> node = Tier(8, 450e9, 1e-6, 1.0, reduction=0.63, reduction_members=8)
    >>> device = Hardware(1, 1, 1, (node, Tier(np.inf, 50e9, 5e-6, 1.0)), Timing())
    >>> available(device, "all_reduce", Group(np.array([1, 4, 8, 16])), ALGORITHMS.index("in_network"))
    array([ True, False,  True, False])
    """
    span = group if isinstance(group, Span) else span_of(hardware, group)
    free: Mask = (np.asarray(algorithm) != ALGORITHMS.index("in_network")) | (span.size <= 1)
    if kind != "all_reduce":
        return np.ones(free.shape, dtype=np.bool_)
    for able, _ in span.once(legs.reductions):
        free = free | able
    return free


def blanks(hardware: Hardware, group: Group | Span, kind: str = "all_reduce") -> list[tuple[str, Mask]]:
    """Return the keys of a profile that are blank, and where ``kind`` over ``group`` needs them.

    The key is empty where no tier of the profile connects the group. A tier without a bandwidth is listed by that
    alone.

    >>> from comp_comm.hardware.numbers import Tier, Timing
    >>> tiers = (Tier(8, 450e9, 1e-6, 1.0), Tier(np.inf, np.nan, np.nan, 1.0, key="network.scale-out"))
    >>> blanks(Hardware(1, 1, 1, tiers, Timing()), Group(np.array([8, 16])))
    [('network.scale-out.bandwidth', array([False,  True]))]
    """
    span = group if isinstance(group, Span) else span_of(hardware, group)
    many = span.size > 1
    timing = {name: getattr(hardware.timing, name) for name in ("collective_latency", "own_shard")}
    found = [(f"timing.{name}", many & np.isnan(number)) for name, number in timing.items()]
    for step in span.steps:
        tier, given = step.tier, step.crossed & ~np.isnan(step.tier.bandwidth)
        parts = {"efficiency": given, "entry_latency": given}
        if kind != "send":
            parts["latency"] = given
        if kind == "all_reduce":
            parts["tree_latency"] = given & (tier is not span.inner)
            parts["reduction_latency"] = given & (to_float(tier.reduction) > 0)
        if kind == "all_to_all":
            parts["exchange_latency"] = given & (tier is span.inner)
        for part, needed in {"bandwidth": step.crossed, **parts}.items():
            found.append((f"{tier.key}.{part}" if tier.key else "", needed & np.isnan(getattr(tier, part))))
    return [(key, mask) for key, mask in found if mask.any()]
