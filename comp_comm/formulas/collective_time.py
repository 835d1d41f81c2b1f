"""What collectives take of a device: seconds of a ring, those that a GEMM does not hide, passes over its memory."""

from __future__ import annotations

from comp_comm.formulas.arrays import Array, Numeric, maximum, minimum, to_float, where
from comp_comm.formulas.wire_bytes import shard_share


def all_reduce_memory_passes(n: Numeric, in_network: Numeric = 0, in_memory: Numeric = 0) -> Array:
    r"""Return how often an all-reduce moves a message over a device's memory interface.

    .. math:: 5 (n - 1) / n, \qquad 4 (n - 1) / n \;\text{(in memory)}, \qquad 2 \;\text{(in the network)}

    A ring's reduce-scatter writes what arrives, reads it, and reads what it is added to (3); its all-gather writes
    what arrives and reads it to pass it on (2). Memory that adds by itself needs one access less. A switch that reduces
    takes the message once and gives the sum once.

    Parameters
    ----------
    n : array_like
        Devices of the group; infinity is allowed.
    in_network, in_memory : array_like
        1 where switches, or memory, reduce; a switch makes the memory's part needless.

    Returns
    -------
    ndarray of float64
        Bytes over the memory interface / message bytes.

    References
    ----------
    .. [1] arXiv:2302.02825, section 5 (in words: data is pulled from and pushed to memory less often); the counts are
       of the ring's steps.

    Examples
    --------
    >>> float(all_reduce_memory_passes(8)), float(all_reduce_memory_passes(8, in_memory=1))
    (4.375, 3.5)
    >>> float(all_reduce_memory_passes(8, in_network=1))
    2.0
    """
    ring = (5.0 - to_float(in_memory)) * shard_share(n)
    return where(to_float(in_network) > 0, 2.0 * to_float(to_float(n) > 1), ring)


def fused_visible_seconds(compute_s: Numeric, comm_s: Numeric, tiles: Numeric) -> Array:
    r"""Return the communication that still shows when a GEMM's output is sent tile by tile while it is made.

    .. math:: t = \max(0, c - g) + \min(g, c) / k

    The last tile is sent when the GEMM is done; what is longer of the two hides the rest of the other.

    Parameters
    ----------
    compute_s, comm_s : array_like
        Seconds g of the GEMM and c of its collective, alone.
    tiles : array_like
        k tiles.

    Returns
    -------
    ndarray of float64
        Seconds; the whole of c for one tile.

    References
    ----------
    .. [1] arXiv:2302.02825, section 5.2 (fine-grained fusion of computation and communication, in words). The formula
       is that of a pipeline of two stages and k equal parts.

    Examples
    --------
    >>> float(fused_visible_seconds(4.0, 2.0, 4)), float(fused_visible_seconds(4.0, 6.0, 4))
    (0.5, 3.0)
    """
    compute, comm = to_float(compute_s), to_float(comm_s)
    return maximum(comm - compute, 0.0) + minimum(compute, comm) / tiles


def all_reduce_bus_factor(n: Numeric) -> Array:
    r"""Return bus bandwidth over algorithm bandwidth of an all-reduce, :math:`2 (n - 1) / n`.

    Parameters
    ----------
    n : array_like
        Devices of the group.

    Returns
    -------
    ndarray of float64
        Dimensionless; an all-gather, a reduce-scatter and an all-to-all have half of it (`shard_share`).

    References
    ----------
    .. [1] nccl-tests, doc/PERFORMANCE.md.

    Examples
    --------
    >>> float(all_reduce_bus_factor(8))
    1.75
    """
    return 2 * shard_share(n)


def ring_time(
    wire_bytes: Numeric,
    bandwidth: Numeric,
    hops: Numeric = 0,
    hop_latency: Numeric = 0,
    start_latency: Numeric = 0,
) -> Array:
    r"""Return the seconds of a ring collective: start, hops, and bytes.

    .. math:: t = \alpha_0 + h\, \alpha + w / B \quad (w > 0), \qquad 0 \quad (w = 0)

    Parameters
    ----------
    wire_bytes : array_like
        w, bytes each device sends, for instance `all_reduce_wire_bytes`.
    bandwidth : array_like
        B, bytes per second a device sends, achieved (not peak), one direction.
    hops : array_like
        h, steps in which a message passes on: 2 (n - 1) for an all-reduce, n - 1 for a gather or a scatter.
    hop_latency, start_latency : array_like
        Seconds of one step and of starting the collective.

    Returns
    -------
    ndarray of float64
        Seconds; exactly 0 where nothing is sent (a group of one).

    References
    ----------
    .. [1] R. W. Hockney, "The communication challenge for MPP", Parallel Computing 20(3), 1994 (alpha-beta).
    .. [2] arXiv:2302.02825, section 4.3.1 (the (N - 1) / N of a ring).

    Examples
    --------
    8 devices, 1 GB, 210 GB/s achieved (nccl-tests would print 210 GB/s of bus bandwidth):

    >>> from comp_comm.formulas.wire_bytes import all_reduce_wire_bytes
    >>> float(ring_time(all_reduce_wire_bytes(1e9, 8), 210e9))
    0.008333333333333333
    """
    sent = to_float(wire_bytes)
    seconds = sent / bandwidth + (to_float(hops) * to_float(hop_latency) + start_latency)
    return where(sent > 0, seconds, 0.0)[()]
