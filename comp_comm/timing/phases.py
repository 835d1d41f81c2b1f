"""Phases of collectives: what of their time depends on the group alone, and not on the message.

A phase has a latency L and X seconds a byte; `comp_comm.timing.network` makes seconds of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from comp_comm.formulas import collectives, networks
from comp_comm.formulas.arrays import Array, Mask, Numeric, maximum, somewhere, to_float, where
from comp_comm.timing.members import tier_bandwidth
from comp_comm.timing.paths import NetworkPath, ring_over
from comp_comm.timing.tier_crossing import TierCrossing


class CollectivePhase(NamedTuple):
    """One phase of a collective: L, the seconds of its latency that overlap with the transfer, and X of one byte.

    Where small and large messages have protocols of their own, L is that of small ones; ``eager_extra`` is what their
    protocol adds to X, and ``bulk_latency`` is L of large ones (infinity: there is no such protocol), of which
    ``bulk_hops`` and the transfer hide each other, in part. ``chunks`` are, for each tier, what the levels of a tree
    together add to L where they forward a full chunk, and the bytes of a message that fills one.
    """

    latency: Numeric
    seconds_per_byte: Numeric
    eager_extra: Numeric = 0.0
    bulk_latency: Numeric = np.inf
    bulk_hops: Numeric = 0.0
    chunks: tuple[tuple[Numeric, Numeric], ...] = ()


def _turns(path: NetworkPath, turns: float) -> CollectivePhase:
    hops, seconds_per_byte = path.ring
    shard = turns * collectives.shard_share(path.size)
    phase = CollectivePhase(turns * hops + (path.protocol + path.entry), (shard + path.self_share) * seconds_per_byte)
    if not path.two_protocols:
        return phase
    hops = turns * path.bulk_ring_hops
    phase = phase._replace(
        eager_extra=shard * path.eager_seconds_per_byte, bulk_latency=hops + (path.protocol + path.entry)
    )
    if not path.outer:
        return phase
    hides = networks.hiding_share(path.domains)
    return phase._replace(bulk_hops=where(np.isfinite(hops), hops, 0.0) * hides)


def ring(path: NetworkPath) -> CollectivePhase:
    """An all-reduce: a ring that turns twice."""
    return _turns(path, 2.0)


def gather_or_scatter(path: NetworkPath) -> CollectivePhase:
    """An all-gather or a reduce-scatter: a ring that turns once."""
    return _turns(path, 1.0)


def tree(path: NetworkPath) -> CollectivePhase:
    """A double binary tree over domains, with a chain, or a reducing switch, in each of them."""
    climb, within = _climb(path, path.crossings[:1] if path.inside else ())
    for crossing in path.outer:
        climb = climb + 2 * _tree_seconds(crossing)
    passes = networks.tree_passes(path.domains)
    mesh = to_float(path.inner.mesh) > 0
    if somewhere(mesh):  # measured there: even two domains send everything twice
        passes = where(mesh, 2.0, passes)
    phase = CollectivePhase(climb + (path.protocol + path.entry), maximum(within, passes * ring_over(path.outer)[1]),
              chunks=tuple(_chunks(crossing) for crossing in path.outer if crossing.chunked))  # fmt: skip
    if not path.two_protocols:
        return phase
    bulk = 2 * path.bulk_intra_domain_hops + (path.protocol + path.entry)
    for crossing in path.outer:
        levels = networks.tree_levels(crossing.domains_below / crossing.domains)
        each = where(to_float(crossing.tier.bulk_tree_latency) > 0, crossing.tier.bulk_tree_latency, np.inf)
        bulk = bulk + 2 * where(crossing.crossed, maximum(levels, 1e-9) * each, 0.0)
    return phase._replace(eager_extra=2 * path.eager_seconds_per_byte, bulk_latency=bulk)


def _tree_seconds(crossing: TierCrossing) -> Array:
    """Return the latency of a tree over the domains of the tier below a crossing, one way."""
    return crossing.where_crossed(
        networks.tree_levels(crossing.domains_below / crossing.domains) * crossing.tier.tree_latency
    )


def _chunks(crossing: TierCrossing) -> tuple[Array, Array]:
    """Return what full chunks add to the levels of a tree, up and down, and the bytes of a message that fills them."""
    levels = networks.tree_levels(crossing.domains_below / crossing.domains)
    full = where(to_float(crossing.tier.chunk_size) > 0, crossing.tier.chunk_size, 1.0) * crossing.below
    return crossing.where_crossed(2 * levels * crossing.tier.chunk_latency), full


def _climb(path: NetworkPath, crossings: tuple[TierCrossing, ...]) -> tuple[Numeric, Numeric]:
    """Reducing in the tiers of ``crossings``, and spreading the result there again: latency, and seconds of a byte."""
    latency: Numeric = 0.0
    slowest: Numeric = 0.0
    for crossing in crossings:
        latency = latency + 2 * (path.intra_domain_hops if crossing.tier is path.inner else _tree_seconds(crossing))
        through = 2 * crossing.seconds_per_byte
        if crossing.reduces is not None:  # on the way up; in one domain it would be an algorithm of its own
            through = where(
                crossing.reduces & (crossing.members < path.size), crossing.reducing_seconds_per_byte, through
            )
        slowest = maximum(slowest, through)
    return latency, slowest


def within(path: NetworkPath) -> CollectivePhase:
    """The scatter, or the gather, in a domain, of a hierarchical all-reduce."""
    inner = path.crossings[0]
    share = collectives.shard_share(path.local) + path.self_share
    return CollectivePhase(path.intra_domain_hops + (path.protocol + inner.entry), share * inner.seconds_per_byte,
               bulk_latency=path.bulk_intra_domain_hops + (path.protocol + inner.entry))  # fmt: skip


def between(path: NetworkPath) -> CollectivePhase:
    """The all-reduces between domains, of shards, of a hierarchical all-reduce."""
    hops, seconds_per_byte = ring_over(path.outer)
    share = 2 * collectives.shard_share(path.domains)
    phase = CollectivePhase(2 * hops + (path.protocol + path.entry), share * seconds_per_byte)
    if not path.two_protocols:
        return phase
    bulk: Numeric = path.protocol + path.entry
    for crossing in path.outer:
        bulk = bulk + 2 * crossing.bulk_hops
    return phase._replace(eager_extra=share * path.eager_seconds_per_byte / maximum(path.local, 1.0), bulk_latency=bulk)


def reductions(path: NetworkPath) -> list[tuple[Mask, CollectivePhase]]:
    """For each tier that reduces: the groups for which it is the outermost tier, and the phase."""
    able: list[tuple[Mask, CollectivePhase]] = []
    for number, crossing in enumerate(path.crossings):
        if crossing.reduces is not None:
            climb, within = _climb(path, path.crossings[:number])
            latency = climb + (path.protocol + path.entry) + crossing.tier.reduction_latency
            phase = CollectivePhase(latency, maximum(within, crossing.reducing_seconds_per_byte))
            able.append((crossing.reduces & (crossing.members == path.size), phase))
    return able


def all_to_all(path: NetworkPath) -> CollectivePhase:
    """A direct all-to-all: each tier carries what leaves the domains of the one below."""
    slowest: Numeric = 0.0
    latency = path.protocol + path.entry
    for crossing in path.crossings:
        share = crossing.leaving_share(path.size)
        if crossing.tier is path.inner:
            share, hops = (
                share + path.self_share,
                crossing.where_crossed(networks.exchange_hops(path.local) * crossing.tier.latency),
            )
        else:
            hops = crossing.where_crossed(crossing.tier.latency)
        latency = latency + hops
        slowest = maximum(slowest, crossing.where_crossed(share * crossing.link_seconds_per_byte))
    return CollectivePhase(latency, slowest)


def send(path: NetworkPath) -> CollectivePhase:
    """A send between neighbours, over the slowest tier that two of them have between them."""
    slowest: Numeric = 0.0
    for crossing in path.crossings:
        slowest = maximum(slowest, crossing.where_crossed(1 / tier_bandwidth(crossing.tier, 2.0)))
    return CollectivePhase(path.protocol + path.entry, slowest)
