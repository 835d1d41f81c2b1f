"""What a cost model is asked: a transformer, laid out, on hardware, under conventions. Every number broadcasts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from comp_comm.choices import AttentionCount, CountedGemms, Switch
from comp_comm.costmodels.mesh import Mesh
from comp_comm.formats import BF16, Formats
from comp_comm.formulas.arrays import Numeric
from comp_comm.hardware.numbers import Hardware
from comp_comm.layout import Layout
from comp_comm.transformer import GemmCount, Transformer, gemm_count
from comp_comm.violation import Violation


@dataclass(frozen=True)
class WhatIf:
    """Techniques of hardware and software to come, each 1 where it is there (sections 5 and 6 of arXiv:2302.02825)."""

    comm_offload: Numeric = Switch.OFF
    in_network_reduction: Numeric = Switch.OFF
    in_memory_reduction: Numeric = Switch.OFF
    fused_comm: Numeric = Switch.OFF
    fused_tiles: Numeric = 8


AS_IT_IS, ONE_DEVICE, ALL_GEMMS = WhatIf(), Mesh(), gemm_count(CountedGemms.COMPLETE)


@dataclass(frozen=True)
class Scenario:
    """One point, or a whole open grid of them.

    ``gemm_count`` says which GEMMs `comp_vs_comm` counts and ``element_bytes`` what an activation or gradient takes
    there; ``formats`` are those of `complete`. ``inter_node_slowdown`` divides the bandwidth of overlapped (data-
    parallel) communication, ``interference`` multiplies the time of what is overlapped. ``count_attention`` says
    whether FLOP that a causal mask hides are counted; ``output_len`` tokens are generated in inference, with
    ``kv_bytes`` for a number of the KV cache. ``sustained`` (NaN: the profile's) is the share of its isolated speed a
    kernel keeps. ``violations`` are rules broken before the cost model is asked. ``mesh`` is the layout as two other
    papers have it.
    """

    transformer: Transformer
    layout: Layout
    hardware: Hardware
    gemm_count: GemmCount = ALL_GEMMS
    element_bytes: Numeric = 2
    inter_node_slowdown: Numeric = 1
    interference: Numeric = 1
    formats: Formats = BF16
    count_attention: Numeric | NDArray[np.intp] = AttentionCount.FULL
    sustained: Numeric = np.nan
    framework_bytes: Numeric = 0
    what_if: WhatIf = AS_IT_IS
    tokens: Numeric = np.nan
    output_len: Numeric = 256
    kv_bytes: Numeric = 2
    violations: tuple[Violation, ...] = ()
    mesh: Mesh = ONE_DEVICE
