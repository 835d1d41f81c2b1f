"""The terms of AMPeD's time of a training step, as far as they could be put together again.

Only the abstract of the paper was at hand: the structure of the equations is from memory, and their factors are what
its inputs, its published breakdown (both read in scripts of DeepFlow) and the techniques it names leave open. Where a
choice had to be made, the notes say so.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from comp_comm.formulas.arrays import Array, Numeric, to_float

# Operations of an element of a softmax, an activation and a norm (ours: the paper's counts were not at hand).
SOFTMAX_OPERATIONS, ACTIVATION_OPERATIONS, NORM_OPERATIONS = 5.0, 8.0, 9.0
NORMS = 2.0
FLOPS_PER_MAC = 2.0


class Tiers(NamedTuple):
    """The network: bytes/s of a device and seconds of a hop, within a node and between nodes."""

    intra_bandwidth: Numeric
    intra_latency: Numeric
    inter_bandwidth: Numeric
    inter_latency: Numeric


def micro_batch_efficiency(ceiling: Numeric, ramp: Numeric, micro_batch: Numeric) -> Array:
    r"""Return the share of its peak that a device achieves at a micro-batch size.

    .. math:: \text{eff}(u) = \frac{a u}{b + u}

    Parameters
    ----------
    ceiling, ramp : array_like
        a, at most 1, and b: the micro-batch at which half of it is reached.
    micro_batch : array_like
        u, in sequences or tokens, as b is.

    Returns
    -------
    ndarray of float64
        Share.

    References
    ----------
    .. [1] D. Moolchandani et al., "AMPeD: An Analytical Model for Performance in Distributed Training of Transformers",
       ISPASS 2023; the form from memory.

    Examples
    --------
    >>> micro_batch_efficiency(0.6, 1.0, [1, 2, 5])
    array([0.3, 0.4, 0.5])
    """
    size = to_float(micro_batch)
    return to_float(ceiling) * (size / (ramp + size))


def layer_macs(tokens: Numeric, seq_len: Numeric, hidden: Numeric, ffn_hidden: Numeric, experts: Numeric = 1) -> Array:
    r"""Return the multiply-accumulates of a layer's forward pass.

    .. math:: N = T (3 D^2 + 2 S D + D^2 + 2 k D F)

    Parameters
    ----------
    tokens, seq_len : array_like
        T tokens, of sequences of S.
    hidden, ffn_hidden : array_like
        D and F.
    experts : array_like
        k experts a token goes through.

    Returns
    -------
    ndarray of float64
        Multiply-accumulates; there is no causal mask.

    References
    ----------
    .. [1] AMPeD, as DeepFlow's scripts list its GEMMs: (3 B S, D, D), (B, S, D, S), (B, S, S, D), (B S, D, D),
       (B S, D, F), (B S, F, D).

    Examples
    --------
    >>> float(layer_macs(10, 5, 2, 8))
    680.0
    """
    t, d = to_float(tokens), to_float(hidden)
    s, f = to_float(seq_len), to_float(ffn_hidden)
    return t * (4 * d * d + 2 * s * d + 2 * to_float(experts) * d * f)


def layer_nonlinear(tokens: Numeric, seq_len: Numeric, hidden: Numeric, ffn_hidden: Numeric, heads: Numeric,
                    experts: Numeric = 1) -> Array:  # fmt: skip
    """Return the operations of a layer's softmax, activation and norms in a forward pass (see the notes above).

    >>> float(layer_nonlinear(10, 5, 2, 8, 1))
    1250.0
    """
    scores = SOFTMAX_OPERATIONS * to_float(heads) * to_float(seq_len)
    active = ACTIVATION_OPERATIONS * to_float(experts) * to_float(ffn_hidden)
    return to_float(tokens) * (scores + active + NORMS * NORM_OPERATIONS * to_float(hidden))


def all_reduce_seconds(volume: Numeric, intra: Numeric, inter: Numeric, tiers: Tiers, calls: Numeric
                       ) -> tuple[Array, Array]:  # fmt: skip
    r"""Return the seconds of all-reduces within nodes, and between them.

    .. math::
        t_i = \frac{2 (n_i - 1)}{n_i} \frac{V}{B_i} + 2 c (n_i - 1) l_i, \quad
        t_x = \frac{2 (n_x - 1)}{n_x} \frac{V / n_i}{B_x} + 2 c (n_x - 1) l_x

    Parameters
    ----------
    volume : array_like
        V bytes, of all calls together.
    intra, inter : array_like
        n_i devices of the group in a node, n_x nodes.
    tiers : Tiers
        The network; B_x is that of a device.
    calls : array_like
        c.

    Returns
    -------
    tuple of ndarray of float64
        Seconds.

    Notes
    -----
    Hierarchical: the devices of a node first reduce and scatter, then each sends its part to its peers in other nodes.

    References
    ----------
    .. [1] AMPeD: a ring takes 2 (N - 1) / N of the message; that the second step moves a part is ours.

    Examples
    --------
    >>> [float(part) for part in all_reduce_seconds(80.0, 4, 2, Tiers(10.0, 0.0, 1.0, 0.0), 1)]
    [12.0, 20.0]
    """
    one, other = to_float(intra), to_float(inter)
    within = 2 * (one - 1) / one * (volume / to_float(tiers.intra_bandwidth))
    between = 2 * (other - 1) / other * (volume / one / tiers.inter_bandwidth)
    return (within + 2 * (one - 1) * calls * tiers.intra_latency,
            between + 2 * (other - 1) * calls * tiers.inter_latency)  # fmt: skip


def all_to_all_seconds(volume: Numeric, ranks: Numeric, inside: Numeric, tiers: Tiers, calls: Numeric) -> Array:
    r"""Return the seconds of all-to-alls of N devices, n of them in each node.

    .. math:: t = \frac{n - 1}{N} \frac{V}{B_i} + \frac{N - n}{N} \frac{V}{B_x} + c ((n - 1) l_i + (N - n) l_x)

    Parameters
    ----------
    volume : array_like
        V bytes of a device, of all calls together.
    ranks, inside : array_like
        N and n.
    tiers : Tiers
        The network.
    calls : array_like
        c.

    Returns
    -------
    ndarray of float64
        Seconds.

    References
    ----------
    .. [1] AMPeD: an all-to-all takes (N - 1) / N of the message; its split over the tiers is ours.

    Examples
    --------
    >>> float(all_to_all_seconds(80.0, 8, 4, Tiers(10.0, 0.0, 1.0, 0.0), 1))
    43.0
    """
    total, members = to_float(ranks), to_float(inside)
    within, between = (members - 1) / total, (total - members) / total
    seconds = volume * (within / tiers.intra_bandwidth + between / tiers.inter_bandwidth)
    hops = (members - 1) * tiers.intra_latency + (total - members) * tiers.inter_latency
    return seconds + calls * hops


def boundary_seconds(volume: Numeric, stages: Numeric, inside: Numeric, tiers: Tiers, calls: Numeric) -> Array:
    r"""Return the seconds of a stage's sends to the next one: between nodes, unless all stages are in one.

    .. math:: t = \frac{V}{B} + c l

    Parameters
    ----------
    volume : array_like
        V bytes, of all calls together.
    stages, inside : array_like
        Stages of the pipeline, and how many of them share a node.
    tiers : Tiers
        The network.
    calls : array_like
        c.

    Returns
    -------
    ndarray of float64
        Seconds; nothing is sent where there is one stage.

    Notes
    -----
    The slowest boundary sets the pace of a pipeline (ours).

    Examples
    --------
    >>> boundary_seconds(10.0, 4, [1, 4], Tiers(10.0, 0.0, 1.0, 0.0), 1)
    array([10.,  1.])
    """
    intra = to_float(volume) / tiers.intra_bandwidth + calls * to_float(tiers.intra_latency)
    inter = to_float(volume) / tiers.inter_bandwidth + calls * to_float(tiers.inter_latency)
    p = to_float(stages)
    return np.where(p == 1, 0.0, np.where(to_float(inside) >= p, intra, inter))


def bubble_seconds(busy: Numeric, stages: Numeric, micro_batches: Numeric, ratio: Numeric) -> Array:
    r"""Return the seconds a stage waits for others.

    .. math:: W = R \frac{p - 1}{m} t

    Parameters
    ----------
    busy : array_like
        t seconds of a stage's compute and communication in a step.
    stages, micro_batches : array_like
        p and m.
    ratio : array_like
        R, 1 of GPipe and 1F1B, 1 / v of an interleaved pipeline of v chunks a stage.

    Returns
    -------
    ndarray of float64
        Seconds.

    References
    ----------
    .. [1] AMPeD, from memory; D. Narayanan et al., SC21, section 2.2.

    Examples
    --------
    >>> float(bubble_seconds(16.0, 5, 8, 0.5))
    4.0
    """
    return to_float(ratio) * ((to_float(stages) - 1) / micro_batches) * to_float(busy)
