"""The bytes that collectives reduce and send.

Three names for bytes, never mixed: ``message`` bytes (m, the size nccl-tests prints: the whole tensor, for a gather
or a scatter too), ``volume`` bytes (2 m for an all-reduce, m for the others: what papers count), and ``wire`` bytes
(what one device sends, with its (n - 1) / n).
"""

from __future__ import annotations

from comp_comm.formulas.arrays import Array, Numeric, to_float


def shard_share(n: Numeric) -> Array:
    r"""Return the share of a message that is not a device's own, :math:`(n - 1) / n`.

    Parameters
    ----------
    n : array_like
        Devices in the group, at least 1; infinity is allowed and gives 1.

    Returns
    -------
    ndarray of float64
        Dimensionless, 0 for one device.

    References
    ----------
    .. [1] arXiv:2302.02825, section 4.3.1.

    Examples
    --------
    >>> shard_share([1, 4, float("inf")])
    array([0.  , 0.75, 1.  ])
    """
    return 1 - 1 / to_float(n)


def all_reduce_volume_bytes(message_bytes: Numeric) -> Array:
    r"""Return the volume of an all-reduce, :math:`2 m`.

    Parameters
    ----------
    message_bytes : array_like
        m, bytes.

    Returns
    -------
    ndarray of float64
        Bytes.

    References
    ----------
    .. [1] Q. Anthony et al., arXiv:2408.10197 ("Allreduce_volume = 2m").

    Examples
    --------
    >>> float(all_reduce_volume_bytes(10))
    20.0
    """
    return 2 * to_float(message_bytes)


def all_reduce_wire_bytes(message_bytes: Numeric, n: Numeric) -> Array:
    r"""Return what one device sends in a ring all-reduce.

    .. math:: w = 2 m (n - 1) / n

    Parameters
    ----------
    message_bytes, n : array_like
        m in bytes and the devices of the group, broadcastable.

    Returns
    -------
    ndarray of float64
        Bytes sent (and received) per device; 0 for one device. It is bandwidth-optimal.

    References
    ----------
    .. [1] R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations in
       MPICH", IJHPCA 19(1), 2005.

    Examples
    --------
    >>> float(all_reduce_wire_bytes(50331648, 8))
    88080384.0
    """
    return 2 * to_float(message_bytes) * shard_share(n)


def all_gather_wire_bytes(message_bytes: Numeric, n: Numeric) -> Array:
    r"""Return what one device sends in a ring all-gather of a whole tensor of m bytes.

    .. math:: w = m (n - 1) / n

    Parameters
    ----------
    message_bytes, n : array_like
        m in bytes (the gathered tensor) and the devices of the group, broadcastable.

    Returns
    -------
    ndarray of float64
        Bytes per device.

    References
    ----------
    .. [1] R. Thakur, R. Rabenseifner, W. Gropp, IJHPCA 19(1), 2005.

    Examples
    --------
    >>> float(all_gather_wire_bytes(80, 8))
    70.0
    """
    return to_float(message_bytes) * shard_share(n)


def reduce_scatter_wire_bytes(message_bytes: Numeric, n: Numeric) -> Array:
    r"""Return what one device sends in a ring reduce-scatter of a whole tensor of m bytes.

    .. math:: w = m (n - 1) / n

    Parameters
    ----------
    message_bytes, n : array_like
        m in bytes (the tensor before it is scattered) and the devices of the group, broadcastable.

    Returns
    -------
    ndarray of float64
        Bytes per device. Reduce-scatter and all-gather together are an all-reduce.

    References
    ----------
    .. [1] R. Thakur, R. Rabenseifner, W. Gropp, IJHPCA 19(1), 2005.

    Examples
    --------
    >>> float(reduce_scatter_wire_bytes(80, 8))
    70.0
    """
    return to_float(message_bytes) * shard_share(n)


def all_to_all_wire_bytes(message_bytes: Numeric, n: Numeric) -> Array:
    r"""Return what one device sends in an all-to-all of m bytes per device.

    .. math:: w = m (n - 1) / n

    Parameters
    ----------
    message_bytes, n : array_like
        m in bytes (everything one device holds, its own share included) and the devices, broadcastable.

    Returns
    -------
    ndarray of float64
        Bytes per device.

    References
    ----------
    .. [1] Q. Anthony et al., arXiv:2408.10197 (the volume m, here with its own share left out).

    Examples
    --------
    >>> float(all_to_all_wire_bytes(64, 4))
    48.0
    """
    return to_float(message_bytes) * shard_share(n)


def broadcast_wire_bytes(message_bytes: Numeric, n: Numeric) -> Array:
    r"""Return what a device of a pipelined ring broadcast (or reduce) sends at most: the whole message.

    .. math:: w = m \quad (n > 1), \qquad 0 \quad (n = 1)

    Parameters
    ----------
    message_bytes, n : array_like
        m in bytes and the devices of the group, broadcastable.

    Returns
    -------
    ndarray of float64
        Bytes per device (the last device of the ring sends none).

    References
    ----------
    .. [1] nccl-tests, doc/PERFORMANCE.md (bus factor 1).

    Examples
    --------
    >>> broadcast_wire_bytes(64, [1, 4])
    array([ 0., 64.])
    """
    return to_float(message_bytes) * (to_float(n) > 1)


def point_to_point_wire_bytes(message_bytes: Numeric) -> Array:
    r"""Return what a send of m bytes puts on the wire, :math:`w = m`.

    Parameters
    ----------
    message_bytes : array_like
        m, bytes.

    Returns
    -------
    ndarray of float64
        Bytes.

    References
    ----------
    .. [1] Q. Anthony et al., arXiv:2408.10197.

    Examples
    --------
    >>> float(point_to_point_wire_bytes(64))
    64.0
    """
    return to_float(message_bytes)[()]


def in_network_all_reduce_wire_bytes(message_bytes: Numeric, n: Numeric) -> Array:
    r"""Return what one device sends when the switch reduces: its message, once.

    .. math:: w = m \quad (n > 1), \qquad 0 \quad (n = 1)

    that is n / (2 (n - 1)) of a ring's bytes, tending to a half.

    Parameters
    ----------
    message_bytes, n : array_like
        m in bytes and the devices of the group, broadcastable.

    Returns
    -------
    ndarray of float64
        Bytes sent per device.

    References
    ----------
    .. [1] B. Klenk et al., "An In-Network Architecture for Accelerating Shared-Memory Multiprocessor
       Collectives", ISCA 2020.

    Examples
    --------
    >>> float(in_network_all_reduce_wire_bytes(64, 8))
    64.0
    """
    return to_float(message_bytes) * (to_float(n) > 1)
