"""How long operations and collectives take in the foundation-models paper, and what of them shows in a step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from comp_comm.formulas.arrays import Array, Numeric, somewhere, to_float


class Links(NamedTuple):
    """The two tiers of a network: bytes/s a device achieves and seconds of a hop, inside a domain and between them."""

    fast_bandwidth: Numeric
    fast_latency: Numeric
    slow_bandwidth: Numeric
    slow_latency: Numeric


def compute_seconds(flops: Numeric, per_second: Numeric, latency: Numeric) -> Array:
    """Return the seconds of an operation's FLOP: a fixed latency, then the achieved FLOP/s.

    >>> float(compute_seconds(10, 5, 1))  # arXiv:2410.00273
    3.0
    """
    return latency + to_float(flops) / per_second


def collective_seconds(volume: Numeric, ranks: Numeric, inside: Numeric, links: Links, turns: Numeric = 1,
                       one_tier_turns: Numeric = 1, broadcast: bool = False) -> Array:  # fmt: skip
    r"""Return the seconds of a ring collective of n devices, t of them in each domain.

    .. math::
        T = l_s (n / t - 1) + l_f (n - n / t) + \begin{cases}
        k_1 c V / b_s & t = 1 \\
        k_1 c V / b_f & t = n \\
        k \max(c V / (t b_s), c V / b_f) & \text{else}
        \end{cases}

    with c = (n - 1) / n of an all-gather or reduce-scatter, 1 of a broadcast or reduce; nothing of one device. A domain
    has a ring and a link to the outside for each of its t devices, and the slower tier sets the pace.

    Parameters
    ----------
    volume : array_like
        V, bytes of the gathered message.
    ranks, inside : array_like
        n and t.
    links : Links
        b_f, l_f inside a domain; b_s, l_s between domains.
    turns, one_tier_turns : array_like
        k and k_1, rounds of the ring: 2 for an all-reduce. As published, groups on one tier take only one.
    broadcast : bool
        Whether c is 1.

    Returns
    -------
    ndarray of float64
        Seconds.

    References
    ----------
    .. [1] S. Subramanian et al., arXiv:2410.00273, and its code (2024-10-02): for every function here.

    Examples
    --------
    >>> links = Links(10.0, 0.1, 1.0, 1.0)
    >>> [round(float(collective_seconds(80, n, t, links)), 2) for n, t in ((1, 1), (8, 1), (8, 8), (8, 4))]
    [0.0, 77.0, 7.7, 19.1]
    """
    n, t = to_float(ranks), to_float(inside)
    sent = to_float(volume) if broadcast else volume * ((n - 1) / n)
    domains = np.floor(n / t)
    alone, one_domain = t == 1, domains == 1
    slow, fast = sent / (t * links.slow_bandwidth), sent / links.fast_bandwidth
    paced = np.where(one_domain, fast, np.where(alone, slow, np.maximum(slow, fast)))
    if somewhere(turns != one_tier_turns) or somewhere(turns != 1):
        paced = paced * np.where(alone | one_domain, one_tier_turns, turns)
    hops = links.slow_latency * (domains - 1) + links.fast_latency * (n - domains)
    return np.where(n == 1, 0.0, paced + hops)


def hop_seconds(volume: Numeric, stages: Numeric, inside: Numeric, links: Links, free_slow_hops: Numeric = 0) -> Array:
    r"""Return the seconds of a message from a pipeline stage to the next, averaged over its boundaries.

    .. math::
        T = \begin{cases} l_s + V / b_s & t = 1 \\
        (1 - \sigma)(l_f + V / b_f) + \sigma (l_s + V / b_s) & \text{else} \end{cases}
        \quad \sigma = \frac{\lfloor p / t \rfloor - 1}{p - 1}

    Parameters
    ----------
    volume : array_like
        V bytes.
    stages, inside : array_like
        p stages, t of them in each domain; nothing is sent where there is one stage.
    links : Links
        The network.
    free_slow_hops : array_like
        1 for hops between domains that take no time where some hops are inside one, as published.

    Returns
    -------
    ndarray of float64
        Seconds.

    Examples
    --------
    Of seven hops of eight stages, four to a domain, one leaves it.

    >>> links = Links(10.0, 0.0, 1.0, 0.0)
    >>> [float(hop_seconds(70, 8, t, links)) for t in (1, 4, 8)], float(hop_seconds(70, 8, 4, links, 1))
    ([70.0, 16.0, 7.0], 6.0)
    """
    p, t = to_float(stages), to_float(inside)
    between = to_float(links.slow_latency) + volume / to_float(links.slow_bandwidth)
    within = to_float(links.fast_latency) + volume / to_float(links.fast_bandwidth)
    hops = np.maximum(p - 1, 1.0)
    crossing = np.floor(p / t - 1)
    mixed = (hops - crossing) / hops * within + crossing / hops * np.where(to_float(free_slow_hops) > 0, 0.0, between)
    return np.where(p == 1, 0.0, np.where(t == 1, between, mixed))


def panel_comm_seconds(panel: Numeric, panels: Numeric, busy: Numeric) -> Array:
    r"""Return what shows of a SUMMA GEMM's communication, whose panels are sent while others are multiplied.

    .. math:: T = c + \max(p c - t, 0)

    Parameters
    ----------
    panel, panels : array_like
        c seconds to send a panel of every operand, p panels.
    busy : array_like
        t seconds of the whole GEMM.

    Returns
    -------
    ndarray of float64
        Seconds.

    Examples
    --------
    >>> panel_comm_seconds([1.0, 3.0], 4, 10.0)
    array([1., 5.])
    """
    c = to_float(panel)
    return c + np.maximum(to_float(panels) * c - busy, 0.0)


def state_comm_seconds(collective: Numeric, layers: Numeric, forward: Numeric, backward: Numeric) -> Array:
    r"""Return what shows of data parallelism: weights are gathered beside the forward pass, gradients scattered beside
    the backward pass of a micro-batch, each layer's beside the next one's.

    .. math:: T = 2 x + (L - 1) (\max(x - t_f, 0) + \max(x - t_b, 0))

    Parameters
    ----------
    collective : array_like
        x seconds of an all-gather (or reduce-scatter) of a layer's weights.
    layers : array_like
        L of a stage.
    forward, backward : array_like
        t_f and t_b seconds of a layer and micro-batch.

    Returns
    -------
    ndarray of float64
        Seconds.

    Examples
    --------
    >>> float(state_comm_seconds(3.0, 5, 2.0, 4.0))
    10.0
    """
    x = to_float(collective)
    return x + x + (np.maximum(x - forward, 0.0) + np.maximum(x - backward, 0.0)) * (to_float(layers) - 1)


def step_seconds(layer: Numeric, layers: Numeric, steps: Numeric, hop: Numeric, stages: Numeric, states: Numeric
                 ) -> tuple[Array, Array, Array]:  # fmt: skip
    r"""Return the seconds of a step, of its sends between stages and of its bubble.

    .. math:: t_1 = m (L t_l + 2 h), \quad T_b = (p - 1) t_1 / m, \quad T = t_1 + T_b + T_d

    Parameters
    ----------
    layer, layers : array_like
        t_l seconds of a layer and micro-batch, forward and backward; L layers of a stage.
    steps : array_like
        m micro-batches of a replica.
    hop, stages : array_like
        h seconds of a send to the next stage, p stages.
    states : array_like
        T_d, what shows of data parallelism.

    Returns
    -------
    tuple of ndarray of float64
        Seconds.

    Examples
    --------
    >>> [float(part) for part in step_seconds(1.0, 2, 4, 0.5, 3, 7.0)]
    [25.0, 4.0, 6.0]
    """
    one = to_float(layer) * to_float(layers) + 2 * to_float(hop)
    bubble = (to_float(stages) - 1) * one
    steps = to_float(steps)
    return steps * one + bubble + states, 2 * to_float(hop) * steps, bubble
