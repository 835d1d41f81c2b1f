"""What a cost model is asked: a transformer, laid out, on hardware, under conventions. Every number broadcasts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from comp_comm.choices import AttentionCount, CountedGemms, Switch
from comp_comm.costmodels.mesh import Mesh
from comp_comm.formats import BF16, Formats
from comp_comm.formulas.arrays import Numeric
from comp_comm.hardware.numbers import Hardware
from comp_comm.layout import Layout
from comp_comm.structs import struct
from comp_comm.transformer import GemmCount, Transformer, gemm_count
from comp_comm.violation import Violation


@struct
class WhatIf:
    """Techniques of hardware and software to come, each 1 where it is there (sections 5 and 6 of arXiv:2302.02825)."""

    comm_offload: Numeric = Switch.OFF
    in_network_reduction: Numeric = Switch.OFF
    in_memory_reduction: Numeric = Switch.OFF
    fused_comm: Numeric = Switch.OFF
    fused_tiles: Numeric = 8


AS_IT_IS, ONE_DEVICE, ALL_GEMMS = WhatIf(), Mesh(), gemm_count(CountedGemms.COMPLETE)


@struct
class Scenario:
    """What a cost model is asked about: one point, or a whole open grid of them."""

    transformer: Transformer
    layout: Layout
    hardware: Hardware
    gemm_count: GemmCount = ALL_GEMMS  # which GEMMs `comp_vs_comm` counts
    element_bytes: Numeric = 2  # of an activation or gradient on the wire, there
    inter_node_slowdown: Numeric = 1  # divides the bandwidth of overlapped (data-parallel) communication
    interference: Numeric = 1  # multiplies the time of what is overlapped
    formats: Formats = BF16  # number formats of `complete`
    count_attention: Numeric | NDArray[np.intp] = AttentionCount.FULL  # whether FLOP that a causal mask hides count
    sustained: Numeric = np.nan  # the share of its isolated speed that a kernel keeps; NaN: the profile's
    framework_bytes: Numeric = 0  # of memory, for what a framework takes
    what_if: WhatIf = AS_IT_IS
    tokens: Numeric = np.nan  # of the whole run, where they are known
    output_len: Numeric = 256  # tokens that are generated, in inference
    kv_bytes: Numeric = 2  # of a number in the KV cache
    violations: tuple[Violation, ...] = ()  # rules that were broken before the cost model is asked
    mesh: Mesh = ONE_DEVICE  # the layout as two other papers have it
