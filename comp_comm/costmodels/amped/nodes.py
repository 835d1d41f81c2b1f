"""A layout on nodes: how many devices of each parallel group share one."""

from __future__ import annotations

import numpy as np

from comp_comm.costmodels.mesh import Inside, placed
from comp_comm.costmodels.work import Work
from comp_comm.formulas.arrays import Array, to_float
from comp_comm.lazy import cached_property
from comp_comm.structs import struct


@struct
class Nodes:
    """The nodes of a layout."""

    work: Work

    @cached_property
    def devices(self) -> Array:
        """Devices of a node, at most all of them."""
        nvs = to_float(self.work.scenario.mesh.nvs)
        return np.minimum(np.where(np.isnan(nvs), self.work.scenario.hardware.tiers[0].domain, nvs), self.work.gpus)

    @cached_property
    def inside(self) -> Inside:
        """Devices of each group that share a node."""
        mesh, layout = self.work.scenario.mesh, self.work.layout
        return mesh.inside or placed(mesh, (layout.tp, 1.0, layout.dp, layout.pp), self.devices)

    @cached_property
    def expert_places(self) -> tuple[Array, Array]:
        """Devices of an expert-parallel group, neighbours among the replicas, and how many of them share a node."""
        ep = to_float(self.work.layout.ep)
        return ep, np.minimum(ep, self.inside.dp)
