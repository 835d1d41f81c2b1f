"""Numbers of a profile about libraries that send a token once to each node (DeepEP, HybridEP)."""

from __future__ import annotations

from dataclasses import KW_ONLY

from comp_comm.formulas.arrays import Numeric
from comp_comm.structs import struct


@struct
class DispatchTiming:
    """What kernels of token dispatch reach; their names are keys of a profile's ``timing`` block.

    ``..._inside`` and ``..._across`` are shares of the bandwidth of the innermost tier, all copies of a device counted,
    its own among them, and of the tiers beyond. ``dispatch_latency`` are the seconds of the smallest exchange, and
    ``multiprocessors`` those that a device has, of which kernels take some from compute.

    Their defaults are of published and public measurements: DeepEP on 8 to 64 H800 (43 to 58 GB/s a device, own node
    counted) and inside nodes of H100, H200 and B200; HybridEP inside B200 and GB200, and on 16 to 64 H100 over
    InfiniBand (41 to 54 GB/s). They are of exchanges alone; nobody measured them beside compute.
    """

    _: KW_ONLY
    deepep_inside: Numeric = 0.75
    deepep_across: Numeric = 0.92
    hybridep_inside: Numeric = 0.6
    hybridep_across: Numeric = 0.75
    dispatch_latency: Numeric = 40e-6
    multiprocessors: Numeric = 132.0

    def inside(self, name: str) -> Numeric:
        """Return the share of the innermost tier that a library reaches."""
        return getattr(self, f"{name}_inside")  # type: ignore[no-any-return]

    def across(self, name: str) -> Numeric:
        """Return the share of the tiers beyond that it reaches."""
        return getattr(self, f"{name}_across")  # type: ignore[no-any-return]


DISPATCH_KINDS = {
    "deepep_inside": "share", "deepep_across": "share", "hybridep_inside": "share", "hybridep_across": "share",
    "dispatch_latency": "seconds", "multiprocessors": "count",
}  # fmt: skip
