"""Seconds and bytes of exchanges of tokens with their experts, tier by tier."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from comp_comm.formulas import collectives, networks
from comp_comm.formulas.arrays import Array, Numeric, maximum, minimum, somewhere, to_float, where
from comp_comm.formulas.dispatch import dispatch_seconds, distinct_places, group_limit, remote_copies
from comp_comm.hardware.numbers import Hardware
from comp_comm.operations.shapes import TokenExchange
from comp_comm.timing.network import collective_seconds
from comp_comm.timing.paths import NetworkPath
from comp_comm.timing.tier_crossing import TierCrossing


class SentBytes(NamedTuple):
    """Bytes that a device sends in one call inside its innermost domain, tokens passed on among them, and out of it."""

    inside: Array
    across: Array


def exchange_seconds(hardware: Hardware, path: NetworkPath, exchange: TokenExchange) -> Array:
    r"""Return the seconds of an exchange of tokens with experts, of the fullest device of the group.

    .. math:: t = s + \left( t_{in}^3 + t_{out}^3 \right)^{1/3}, \quad
              t_{in} = C_{in} \max\left( \frac{b}{e_{in} B_{in}}, \frac{\tau + b / \beta}{n_{SM}} \right), \quad
              t_{out} = \max_i \frac{C_i b}{e_{out} B_i}

    for a library that sends a token once to each place, with C copies of b bytes; any other is a collective. C_in are
    copies to devices, the sender's own among them, which go through the same kernels; tau and beta are seconds of a
    copy and bytes/s of a multiprocessor.

    Parameters
    ----------
    hardware : Hardware
        Tiers and timing numbers.
    path : NetworkPath
        What the group crosses.
    exchange : TokenExchange
        The exchange.

    Returns
    -------
    ndarray of float64
        Seconds of one call; 0 for a group of one; NaN where a bandwidth is blank.

    Examples
    --------
    >>> from comp_comm.dispatchers import Dispatcher
    >>> from comp_comm.group import Group
    >>> from comp_comm.hardware.numbers import Tier, Timing
    >>> from comp_comm.timing.paths import path_of
    >>> import numpy as np
    >>> h800 = Hardware(1, 1, 1, (Tier(8, 200e9, 0.0, 1.0), Tier(np.inf, 50e9, 0.0, 1.0)), Timing())
    >>> group, sent = Group(64), 4096 * 7168
    >>> calls = [
    ...     TokenExchange(
    ...         "expert dispatch", "D T_s H", count=1, kind="all_to_all", parallelism="ep", group=group,
    ...         message_bytes=8 * sent * size, backward_count=1, dispatcher=Dispatcher.DEEPEP, top_k=8, node_limit=4,
    ...         all_tokens_bytes=sent * size, token_bytes=7168 * size, sms=20, imbalance=1, to_experts=True)
    ...     for size in (1, 2)  # bytes of a number: fp8, bf16
    ... ]
    >>> [round(float(exchange_seconds(h800, path_of(h800, group), call)) * 1e3, 2) for call in calls]
    [2.26, 4.47]
    """
    if not exchange.once:
        message = to_float(exchange.message_bytes) * exchange.imbalance
        return collective_seconds(hardware, exchange.kind, message, path)
    inside, across = _copies(path, exchange)
    name, timing = exchange.dispatcher.word, path.timing
    library, bytes_each, sent = exchange.dispatcher, to_float(exchange.token_bytes), exchange.copy_bytes(path.local)
    inside_s = to_float(0.0)
    if path.inside:
        by_links = 1 / (path.inner.bandwidth * to_float(timing.inside(name)))
        by_kernels = (library.copy_s / bytes_each + 1 / library.sm_bandwidth) / exchange.sms
        inside_s = inside * sent * maximum(by_links, by_kernels) * (path.local > 1)
    across_s = to_float(0.0)
    for crossing, number in across:
        per_byte = 1 / (crossing.tier.bandwidth * to_float(timing.across(name)))
        across_s = maximum(across_s, crossing.where_crossed(number * sent * per_byte))
    seconds = dispatch_seconds(inside_s * exchange.imbalance, across_s * exchange.imbalance, timing.dispatch_latency)
    return where((path.size > 1) & (sent > 0), seconds, 0.0)


def sent_bytes(path: NetworkPath, exchange: TokenExchange) -> SentBytes:
    """Return what a device sends in one call of an exchange of tokens with experts.

    Of a ring that gathers all tokens, the devices of a domain share the links out of it.
    """
    local, leaves = to_float(path.local), path.size > path.local
    if exchange.once:
        inside, _ = _copies(path, exchange)
        remote = remote_copies(path.domains, exchange.top_k, _limit(path, exchange))
        sent = exchange.copy_bytes(local)
        return SentBytes(inside * sent * networks.leaving_share(local, 1.0), remote * sent * leaves)
    message = to_float(exchange.message_bytes)
    if exchange.kind == "all_to_all":
        across = networks.leaving_share(path.size, local)
        return SentBytes(message * (networks.leaving_share(path.size, 1.0) - across), message * across)
    ring = message * collectives.shard_share(path.size)
    return SentBytes(ring * (local > 1), ring * leaves / local)


def _limit(path: NetworkPath, exchange: TokenExchange) -> Array:
    """Return the nodes that a token is sent to at most: as given, or those of groups that its experts are of."""
    given = to_float(exchange.node_limit)
    groups, chosen = to_float(exchange.expert_groups), to_float(exchange.group_top_k)
    return np.minimum(given, group_limit(path.domains, groups, chosen)) if somewhere(chosen < groups) else given


def _copies(path: NetworkPath, exchange: TokenExchange) -> tuple[Array, list[tuple[TierCrossing, Numeric]]]:
    """Return the copies of a token that reach devices, and those that cross each tier beyond the innermost."""
    nodes, limit = to_float(path.domains), _limit(path, exchange)
    able = minimum(nodes, limit) * path.local
    return distinct_places(able, exchange.top_k), list(_across(path, exchange, nodes, limit))


def _across(
    path: NetworkPath, exchange: TokenExchange, nodes: Array, limit: Array
) -> Iterator[tuple[TierCrossing, Numeric]]:
    remote = remote_copies(nodes, exchange.top_k, limit)
    beyond = maximum(path.size - path.local, 1e-9)
    for crossing in path.outer:
        yield crossing, remote * (path.size - crossing.below) / beyond
