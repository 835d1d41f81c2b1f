"""Collectives: the bytes they reduce and send (`wire_bytes`), and what they take (`collective_time`)."""

from __future__ import annotations

from comp_comm.formulas.collective_time import (
    all_reduce_bus_factor,
    all_reduce_memory_passes,
    fused_visible_seconds,
    ring_time,
)
from comp_comm.formulas.wire_bytes import (
    all_gather_wire_bytes,
    all_reduce_volume_bytes,
    all_reduce_wire_bytes,
    all_to_all_wire_bytes,
    broadcast_wire_bytes,
    in_network_all_reduce_wire_bytes,
    point_to_point_wire_bytes,
    reduce_scatter_wire_bytes,
    shard_share,
)

__all__ = [
    "all_gather_wire_bytes",
    "all_reduce_bus_factor",
    "all_reduce_memory_passes",
    "all_reduce_volume_bytes",
    "all_reduce_wire_bytes",
    "all_to_all_wire_bytes",
    "broadcast_wire_bytes",
    "fused_visible_seconds",
    "in_network_all_reduce_wire_bytes",
    "point_to_point_wire_bytes",
    "reduce_scatter_wire_bytes",
    "ring_time",
    "shard_share",
]
