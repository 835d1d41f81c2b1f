"""Legs of collectives: what of their time depends on the group alone, and not on the message.

A leg has a latency L and X seconds a byte; `comp_comm.timing.network` makes seconds of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from comp_comm.formulas import collectives, networks
from comp_comm.formulas.arrays import Array, Numeric, to_float
from comp_comm.timing.collectives import tier_bandwidth
from comp_comm.timing.spans import Mask, Span, Step, ring_over


class Leg(NamedTuple):
    """One leg of a collective: L, the seconds of its latency that overlap with the transfer, and X of one byte.

    Where small and large messages have protocols of their own, L is that of small ones; ``capped`` is what their
    protocol adds to X, and ``bulk_latency`` is L of large ones (infinity: there is no such protocol), of which
    ``bulk_hops`` and the transfer hide each other, in part. ``chunks`` are, for each tier, what the levels of a tree
    together add to L where they forward a full chunk, and the bytes of a message that fills one.
    """

    latency: Numeric
    seconds_per_byte: Numeric
    capped: Numeric = 0.0
    bulk_latency: Numeric = np.inf
    bulk_hops: Numeric = 0.0
    chunks: tuple[tuple[Numeric, Numeric], ...] = ()


def _turns(span: Span, turns: float) -> Leg:
    hops, seconds_per_byte = span.ring
    shard = turns * collectives.shard_share(span.size)
    leg = Leg(turns * hops + (span.protocol + span.entry), (shard + span.own) * seconds_per_byte)
    if not span.two_protocols:
        return leg
    hops = turns * span.bulk_ring
    leg = leg._replace(capped=shard * span.cap, bulk_latency=hops + (span.protocol + span.entry))
    if not span.outer:
        return leg
    hides = networks.hiding_share(span.domains)
    return leg._replace(bulk_hops=np.where(np.isfinite(hops), hops, 0.0) * hides)


def ring(span: Span) -> Leg:
    """An all-reduce: a ring that turns twice."""
    return _turns(span, 2.0)


def gather_or_scatter(span: Span) -> Leg:
    """An all-gather or a reduce-scatter: a ring that turns once."""
    return _turns(span, 1.0)


def tree(span: Span) -> Leg:
    """A double binary tree over domains, with a chain, or a reducing switch, in each of them."""
    climb, within = _climb(span, span.steps[:1] if span.inside else ())
    for step in span.outer:
        climb = climb + 2 * _tree_seconds(step)
    passes = networks.tree_passes(span.domains)
    mesh = to_float(span.inner.mesh) > 0
    if mesh.any():  # measured there: even two domains send everything twice
        passes = np.where(mesh, 2.0, passes)
    leg = Leg(climb + (span.protocol + span.entry), np.maximum(within, passes * ring_over(span.outer)[1]),
              chunks=tuple(_chunks(step) for step in span.outer if step.chunked))  # fmt: skip
    if not span.two_protocols:
        return leg
    bulk = 2 * span.bulk_chain + (span.protocol + span.entry)
    for step in span.outer:
        levels = networks.tree_levels(step.domains_below / step.domains)
        each = np.where(to_float(step.tier.bulk_tree_latency) > 0, step.tier.bulk_tree_latency, np.inf)
        bulk = bulk + 2 * np.where(step.crossed, np.maximum(levels, 1e-9) * each, 0.0)
    return leg._replace(capped=2 * span.cap, bulk_latency=bulk)


def _tree_seconds(step: Step) -> Array:
    """Return the latency of a tree over the domains of the tier below a step, one way."""
    return step.where_crossed(networks.tree_levels(step.domains_below / step.domains) * step.tier.tree_latency)


def _chunks(step: Step) -> tuple[Array, Array]:
    """Return what full chunks add to the levels of a tree, up and down, and the bytes of a message that fills them."""
    levels = networks.tree_levels(step.domains_below / step.domains)
    full = np.where(to_float(step.tier.chunk_size) > 0, step.tier.chunk_size, 1.0) * step.below
    return step.where_crossed(2 * levels * step.tier.chunk_latency), full


def _climb(span: Span, steps: tuple[Step, ...]) -> tuple[Numeric, Numeric]:
    """Reducing in the tiers of ``steps``, and spreading the result there again: latency, and seconds of a byte."""
    latency: Numeric = 0.0
    slowest: Numeric = 0.0
    for step in steps:
        latency = latency + 2 * (span.chain if step.tier is span.inner else _tree_seconds(step))
        through = 2 * step.seconds_per_byte
        if step.reduces is not None:  # on the way up; in one domain it would be an algorithm of its own
            through = np.where(step.reduces & (step.members < span.size), step.reducing_seconds_per_byte, through)
        slowest = np.maximum(slowest, through)
    return latency, slowest


def within(span: Span) -> Leg:
    """The scatter, or the gather, in a domain, of a hierarchical all-reduce."""
    inner = span.steps[0]
    share = collectives.shard_share(span.local) + span.own
    return Leg(span.chain + (span.protocol + inner.entry), share * inner.seconds_per_byte,
               bulk_latency=span.bulk_chain + (span.protocol + inner.entry))  # fmt: skip


def between(span: Span) -> Leg:
    """The all-reduces between domains, of shards, of a hierarchical all-reduce."""
    hops, seconds_per_byte = ring_over(span.outer)
    share = 2 * collectives.shard_share(span.domains)
    leg = Leg(2 * hops + (span.protocol + span.entry), share * seconds_per_byte)
    if not span.two_protocols:
        return leg
    bulk: Numeric = span.protocol + span.entry
    for step in span.outer:
        bulk = bulk + 2 * step.bulk_hops
    return leg._replace(capped=share * span.cap / np.maximum(span.local, 1.0), bulk_latency=bulk)


def reductions(span: Span) -> list[tuple[Mask, Leg]]:
    """For each tier that reduces: the groups for which it is the outermost tier, and the leg."""
    found = []
    for number, step in enumerate(span.steps):
        if step.reduces is not None:
            climb, within = _climb(span, span.steps[:number])
            latency = climb + (span.protocol + span.entry) + step.tier.reduction_latency
            leg = Leg(latency, np.maximum(within, step.reducing_seconds_per_byte))
            found.append((step.reduces & (step.members == span.size), leg))
    return found


def all_to_all(span: Span) -> Leg:
    """A direct all-to-all: each tier carries what leaves the domains of the one below."""
    slowest: Numeric = 0.0
    latency = span.protocol + span.entry
    for step in span.steps:
        share = networks.leaving_share(span.size, step.below)
        if step.tier is span.inner:
            share, hops = share + span.own, step.where_crossed(networks.exchange_hops(span.local) * step.tier.latency)
        else:
            hops = step.where_crossed(step.tier.latency)
        latency = latency + hops
        slowest = np.maximum(slowest, step.where_crossed(share * step.link_seconds_per_byte))
    return Leg(latency, slowest)


def send(span: Span) -> Leg:
    """A send between neighbours, over the slowest tier that two of them have between them."""
    slowest: Numeric = 0.0
    for step in span.steps:
        slowest = np.maximum(slowest, step.where_crossed(1 / tier_bandwidth(step.tier, 2.0)))
    return Leg(span.protocol + span.entry, slowest)
