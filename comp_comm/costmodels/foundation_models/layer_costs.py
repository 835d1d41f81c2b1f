"""What a layer costs in the foundation-models paper: its seconds, and what it holds; many layouts can share either."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from comp_comm.costmodels.foundation_models.layer import (
    LayerHolds,
    LayerSeconds,
    Rates,
    Shape,
    layer_holds,
    layer_seconds,
)  # fmt: skip
from comp_comm.costmodels.foundation_models.mesh_layout import MeshLayout
from comp_comm.costmodels.scenario import Scenario
from comp_comm.formulas.arrays import Numeric, to_float
from comp_comm.formulas.foundation_models_time import Links
from comp_comm.lazy import cached_property
from comp_comm.structs import struct

Part = TypeVar("Part", LayerSeconds, LayerHolds)


@struct
class TimesOfLayer:
    """Seconds of a layer and micro-batch."""

    mesh: MeshLayout

    @cached_property
    def layer(self) -> LayerSeconds:
        """Seconds of a layer and micro-batch, under the strategy of each point."""
        mesh = self.mesh
        shape = _shape(mesh.scenario, mesh.panels, mesh.inside.tp1, mesh.inside.tp2)
        rates = _rates(mesh.scenario)
        return _by_strategy(mesh.scenario, lambda code: layer_seconds(code, shape, rates))


@struct
class HeldByLayer:
    """What a layer holds, whoever shares a domain."""

    scenario: Scenario

    @cached_property
    def layer(self) -> LayerHolds:
        """What a layer holds, under the strategy of each point."""
        shape = _shape(self.scenario, 1.0, 1.0, 1.0)
        return _by_strategy(self.scenario, lambda code: layer_holds(code, shape))


def times_of_layer(scenario: Scenario) -> TimesOfLayer:
    """Return the seconds of a scenario's layer."""
    return TimesOfLayer(MeshLayout(scenario))


def _shape(scenario: Scenario, panels: Numeric, inside1: Numeric, inside2: Numeric) -> Shape:
    t, mesh = scenario.transformer, scenario.mesh
    return Shape(scenario.layout.micro_batch, t.seq_len, t.hidden, t.heads, mesh.tp1, mesh.tp2, panels,
                 inside1, inside2, np.asarray(mesh.formulas))  # fmt: skip


def _by_strategy(scenario: Scenario, of: Callable[[int], Part]) -> Part:
    """Return what each strategy that occurs makes of the layer, at the points that have it."""
    codes = np.asarray(scenario.mesh.strategy, np.intp)
    first, *others = (int(code) for code in np.unique(codes))
    made = of(first)
    for code in others:
        made = type(made)(*(np.where(codes == code, new, old) for new, old in zip(of(code), made, strict=True)))
    return made


def _rates(scenario: Scenario) -> Rates:
    hardware, timing = scenario.hardware, scenario.hardware.timing
    efficiency, memory = to_float(timing.gemm_efficiency), to_float(timing.memory_efficiency)
    return Rates(
        gemm=efficiency * hardware.peak_flops,
        vector=efficiency * timing.vector_flops,
        memory=memory * hardware.memory_bandwidth,
        latency=timing.kernel_latency,
        vector_cost=to_float(hardware.peak_flops) / timing.vector_flops,
        links=links_of(scenario),
    )


def links_of(scenario: Scenario) -> Links:
    """Return the network: inside a domain, and between domains."""
    fast, slow = scenario.hardware.tiers[0], (*scenario.hardware.tiers, None)[1]
    slow = slow or fast
    return Links(to_float(fast.efficiency) * fast.bandwidth, fast.latency,
                 to_float(slow.efficiency) * slow.bandwidth, slow.latency)  # fmt: skip
