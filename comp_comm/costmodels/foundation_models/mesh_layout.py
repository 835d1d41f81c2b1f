"""A layout as the foundation-models paper has it: groups of tensor parallelism, stages and replicas, on domains."""

from __future__ import annotations

import numpy as np

from comp_comm.choices import Strategy
from comp_comm.costmodels.mesh import Inside, Mesh, placed
from comp_comm.costmodels.scenario import Scenario
from comp_comm.formulas.arrays import Array, to_float
from comp_comm.lazy import cached_property
from comp_comm.structs import struct


@struct
class MeshLayout:
    """The sizes of a scenario's groups, and how many of each share a domain."""

    scenario: Scenario

    @property
    def _mesh(self) -> Mesh:
        return self.scenario.mesh

    @cached_property
    def stage_devices(self) -> Array:
        """Devices of a stage and replica."""
        return to_float(self._mesh.tp1) * self._mesh.tp2

    @cached_property
    def dp(self) -> Array:
        """Replicas: as given, or what is left of the devices."""
        layout = self.scenario.layout
        dp, gpus = to_float(layout.dp), to_float(layout.gpus)
        if not np.isnan(dp).any():
            return dp
        left = np.where(np.isnan(gpus), 1.0, gpus / (self.stage_devices * layout.pp))
        return np.where(np.isnan(dp), left, dp)

    @cached_property
    def gpus(self) -> Array:
        """Devices in all."""
        return self.stage_devices * self.scenario.layout.pp * self.dp

    @cached_property
    def accumulation(self) -> Array:
        """Micro-batches of a replica in a step."""
        return to_float(self.scenario.layout.global_batch) / (self.dp * self.scenario.layout.micro_batch)

    @cached_property
    def domain(self) -> Array:
        """Devices of a domain of fast links, at most all of them."""
        nvs = to_float(self._mesh.nvs)
        size = np.where(np.isnan(nvs), self.scenario.hardware.tiers[0].domain, nvs)
        return np.minimum(size, self.gpus)

    @cached_property
    def inside(self) -> Inside:
        """Devices of each group that share a domain."""
        mesh = self._mesh
        return mesh.inside or placed(mesh, (mesh.tp1, mesh.tp2, self.dp, self.scenario.layout.pp), self.domain)

    @cached_property
    def panels(self) -> Array:
        """Panels of a SUMMA GEMM: as given, or the fewest."""
        mesh = self._mesh
        given = to_float(mesh.summa_panels)
        if not np.isnan(given).any():
            return given
        fewest = np.where(Strategy.SUMMA.where(mesh.strategy), np.maximum(mesh.tp1, mesh.tp2), 1.0)
        return np.where(np.isnan(given), fewest, given)

    @cached_property
    def stage_layers(self) -> Array:
        """Layers of a stage."""
        return np.floor(to_float(self.scenario.transformer.layers) / self.scenario.layout.pp)

    @cached_property
    def sharing(self) -> tuple[Array, Array]:
        """Devices that hold the same weights, and how many of them share a domain."""
        copies = Strategy.SEQUENCE.where(self._mesh.strategy)
        if not copies.any():
            return self.dp, self.inside.dp
        second, within = np.where(copies, self._mesh.tp2, 1.0), np.where(copies, self.inside.tp2, 1.0)
        return self.dp * second, self.inside.dp * within
