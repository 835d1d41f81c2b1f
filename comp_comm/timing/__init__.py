"""Work times hardware is seconds: arithmetic, memory traffic, collectives on network tiers.

`Kernels` times operations (`kernels.py`), `collective_seconds` a collective of a `Group` of devices (`network.py`): by
the tiers that the group crosses (`NetworkPath`, made of `TierCrossing`, in `paths.py`) and the phases of its algorithms
(`phases.py`). An exchange of tokens with experts has a file of its own (`dispatch.py`); `ring_all_reduce.py` is that of
arXiv:2302.02825, which cost models of papers use. `TimedOperation` and `TimedCollective` are either with its seconds.
Nothing here knows models.

Examples
--------
A machine of round numbers: 1e15 FLOP/s of which large products reach half, nodes of 8 devices at 400 GB/s:

>>> import numpy as np
>>> from comp_comm.group import Group
>>> from comp_comm.hardware.numbers import Hardware, Tier, Timing
>>> from comp_comm.operations import Gemm
>>> from comp_comm.timing.kernels import Kernels
>>> from comp_comm.timing.network import collective_seconds
>>> timing = Timing(gemm_efficiency=0.5, memory_efficiency=1.0, sustained=1.0, collective_latency=0.0, own_shard=0.0)
>>> tiers = (Tier(8, 400e9, 0.0, 1.0), Tier(np.inf, 50e9, 0.0, 1.0))
>>> machine = Hardware(1e15, 1e15, 1e13, tiers, timing)
>>> passes = Kernels(machine).gemm(Gemm("FFN up", "2 m k n", count=1, m=8192, k=4096, n=4096))
>>> f"{1e6 * passes.forward:.0f} us forward, {1e6 * passes.backward:.0f} us backward"
'564 us forward, 1121 us backward'
>>> f"{1e6 * collective_seconds(machine, 'all_gather', 2 * 8192 * 4096, Group(4)):.0f} us"
'126 us'
"""
