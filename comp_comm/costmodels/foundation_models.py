"""The cost model of "Comprehensive Performance Modeling and System Design Insights for Foundation Models".

A step of a dense transformer under tensor parallelism in one dimension, in two (SUMMA), or with the sequence split over
a second group, with pipeline and data parallelism, on domains of fast links joined by slow ones. Embeddings, logits and
the optimizer step take no time there. ``formulas: as_published`` keeps the slips of the code published with the paper;
``corrected`` mends those that are no choice of modelling:

* a hop between domains takes no time where other stages share a domain;
* under SUMMA a norm's rows have seq_len / tp1 numbers, not hidden / tp1;
* an all-reduce inside one domain, or with one device in each, takes one round of the ring instead of two;
* groups that do not fill a domain exactly are no layout, and a sequence that does not divide loses its rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np

from comp_comm.costmodels.answer import Answer
from comp_comm.costmodels.foundation_layer import (
    LayerHeld,
    LayerTimes,
    Rates,
    Shape,
    layer_held,
    layer_times,
)
from comp_comm.costmodels.foundation_rules import violations
from comp_comm.costmodels.mesh import AS_PUBLISHED, SEQUENCE, SUMMA, Inside, placed
from comp_comm.costmodels.scenario import Scenario
from comp_comm.formulas import foundation_models_time as takes
from comp_comm.formulas.arrays import Array, to_float
from comp_comm.formulas.foundation_models import NUMBER_BYTES, memory_bytes
from comp_comm.formulas.foundation_models_time import Links
from comp_comm.violation import Violation

Part = TypeVar("Part", LayerTimes, LayerHeld)


class Memory(NamedTuple):
    """Bytes of a device of the first stage."""

    weights: Array
    gradients: Array
    optimizer: Array
    activations: Array


@dataclass(frozen=True)
class FoundationStep(Answer):
    """A step as arrays that are made when they are asked for.

    ``times`` and ``holds`` are those of a layer where many points share them and they are known already.
    """

    scenario: Scenario
    times: LayerTimes | None = None
    holds: LayerHeld | None = None

    def arrays(self) -> Iterable[Array]:
        """Return what a sweep holds."""
        return [self.step_s, self.memory_bytes]

    # -- the layout ---------------------------------------------------------------------------------------------------

    @cached_property
    def stage_devices(self) -> Array:
        """Devices of a stage and replica."""
        return to_float(self.scenario.mesh.tp1) * self.scenario.mesh.tp2

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
        nvs = to_float(self.scenario.mesh.nvs)
        size = np.where(np.isnan(nvs), self.scenario.hardware.tiers[0].domain, nvs)
        return np.minimum(size, self.gpus)

    @cached_property
    def inside(self) -> Inside:
        """Devices of each group that share a domain."""
        mesh = self.scenario.mesh
        return mesh.inside or placed(mesh, (mesh.tp1, mesh.tp2, self.dp, self.scenario.layout.pp), self.domain)

    @cached_property
    def panels(self) -> Array:
        """Panels of a SUMMA GEMM: as given, or the fewest."""
        mesh = self.scenario.mesh
        given = to_float(mesh.summa_panels)
        if not np.isnan(given).any():
            return given
        fewest = np.where(np.asarray(mesh.strategy) == SUMMA, np.maximum(mesh.tp1, mesh.tp2), 1.0)
        return np.where(np.isnan(given), fewest, given)

    @cached_property
    def stage_layers(self) -> Array:
        """Layers of a stage."""
        return np.floor(to_float(self.scenario.transformer.layers) / self.scenario.layout.pp)

    # -- a layer ------------------------------------------------------------------------------------------------------

    @cached_property
    def rates(self) -> Rates:
        """What turns counts into seconds here."""
        hardware, timing = self.scenario.hardware, self.scenario.hardware.timing
        efficiency, memory = to_float(timing.gemm_efficiency), to_float(timing.memory_efficiency)
        return Rates(
            gemm=efficiency * hardware.peak_flops,
            vector=efficiency * timing.vector_flops,
            memory=memory * hardware.memory_bandwidth,
            latency=timing.kernel_latency,
            vector_cost=to_float(hardware.peak_flops) / timing.vector_flops,
            links=self.links,
        )

    @cached_property
    def links(self) -> Links:
        """The network: inside a domain, and between domains."""
        fast, slow = self.scenario.hardware.tiers[0], (*self.scenario.hardware.tiers, None)[1]
        slow = slow or fast
        return Links(to_float(fast.efficiency) * fast.bandwidth, fast.latency,
                     to_float(slow.efficiency) * slow.bandwidth, slow.latency)  # fmt: skip

    def _shape(self, inside: bool) -> Shape:
        """Return the shape of a layer; what it holds does not depend on who shares a domain."""
        t, mesh = self.scenario.transformer, self.scenario.mesh
        one, two = (self.inside.tp1, self.inside.tp2) if inside else (1.0, 1.0)
        return Shape(self.scenario.layout.micro_batch, t.seq_len, t.hidden, t.heads, mesh.tp1, mesh.tp2,
                     self.panels if inside else 1.0, one, two, np.asarray(mesh.formulas))  # fmt: skip

    def _chosen(self, of: Callable[[int], Part]) -> Part:
        """Return what each strategy that occurs makes of the layer, at the points that have it."""
        codes = np.asarray(self.scenario.mesh.strategy, np.intp)
        first, *others = (int(code) for code in np.unique(codes))
        found = of(first)
        for code in others:
            found = type(found)(*(np.where(codes == code, new, old) for new, old in zip(of(code), found, strict=True)))
        return found

    @cached_property
    def layer(self) -> LayerTimes:
        """Seconds of a layer and micro-batch."""
        if self.times is not None:
            return self.times
        shape = self._shape(inside=True)
        return self._chosen(lambda code: layer_times(code, shape, self.rates))

    @cached_property
    def held(self) -> LayerHeld:
        """What a layer holds."""
        if self.holds is not None:
            return self.holds
        shape = self._shape(inside=False)
        return self._chosen(lambda code: layer_held(code, shape))

    # -- a step -------------------------------------------------------------------------------------------------------

    @cached_property
    def sharing(self) -> tuple[Array, Array]:
        """Devices that hold the same weights, and how many of them share a domain."""
        copies = np.asarray(self.scenario.mesh.strategy) == SEQUENCE
        if not copies.any():
            return self.dp, self.inside.dp
        second, within = np.where(copies, self.scenario.mesh.tp2, 1.0), np.where(copies, self.inside.tp2, 1.0)
        return self.dp * second, self.inside.dp * within

    @cached_property
    def dp_comm_s(self) -> Array:
        """Seconds of data parallelism that show."""
        each = takes.collective_seconds(NUMBER_BYTES * self.held.weights, *self.sharing, self.links)
        return takes.state_comm_seconds(each, self.stage_layers, self.layer.forward, self.layer.backward)

    @cached_property
    def _step(self) -> tuple[Array, Array, Array]:
        pp, free = self.scenario.layout.pp, np.asarray(self.scenario.mesh.formulas) == AS_PUBLISHED
        hop = takes.hop_seconds(self.held.boundary, pp, self.inside.pp, self.links, to_float(free))
        layer = self.layer.forward + self.layer.backward
        return takes.step_seconds(layer, self.stage_layers, self.accumulation, hop, pp, self.dp_comm_s)

    @property
    def step_s(self) -> Array:
        """Seconds of a step."""
        return self._step[0]

    @property
    def pp_comm_s(self) -> Array:
        """Seconds of sends between stages."""
        return self._step[1]

    @property
    def bubble_s(self) -> Array:
        """Seconds of waiting for other stages."""
        return self._step[2]

    def _in_step(self, of_layer: Array) -> Array:
        return of_layer * (self.accumulation * self.stage_layers)

    @cached_property
    def compute_s(self) -> Array:
        """Seconds of compute, the start of every operation too."""
        return self._in_step(self.layer.compute)

    @cached_property
    def memory_bound_s(self) -> Array:
        """Seconds that HBM takes beyond compute."""
        return self._in_step(self.layer.memory)

    @cached_property
    def tp_comm_s(self) -> Array:
        """Seconds of communication of both tensor-parallel groups that show."""
        return self._in_step(self.layer.comm)

    @cached_property
    def comm_s(self) -> Array:
        """Seconds of communication that show."""
        return self.tp_comm_s + self.pp_comm_s + self.dp_comm_s

    # -- whether it fits ----------------------------------------------------------------------------------------------

    @cached_property
    def memory(self) -> Memory:
        """Bytes of a device of the first stage, which holds most activations."""
        held = np.minimum(self.scenario.layout.pp, self.accumulation)
        copies = np.where(np.asarray(self.scenario.mesh.strategy) == SEQUENCE, self.scenario.mesh.tp2, 1.0)
        return Memory(*memory_bytes(self.held.weights, self.held.kept, self.stage_layers, self.dp * copies, held))

    @cached_property
    def memory_bytes(self) -> Array:
        """Bytes of a device."""
        return self.memory.weights + self.memory.gradients + self.memory.optimizer + self.memory.activations

    @property
    def step_tokens(self) -> Array:
        """Tokens of a step."""
        return to_float(self.scenario.layout.global_batch) * self.scenario.transformer.seq_len

    @cached_property
    def violations(self) -> tuple[Violation, ...]:  # type: ignore[override]
        """The rules that points break."""
        return (*self.scenario.violations, *violations(self))


def evaluate(scenario: Scenario) -> FoundationStep:
    """Return the step of a scenario; broken rules are listed, not raised.

    References
    ----------
    .. [1] S. Subramanian et al., arXiv:2410.00273 (PMBS at SC24), and the code published with it (2024-10-02).

    Examples
    --------
    A trillion parameters on 4,096 A100 of the paper, eight to a domain: 62.969 s a step and 75.74 GB.

    >>> from comp_comm.configs.hardware_file import load_profile
    >>> from comp_comm.costmodels.mesh import Mesh
    >>> from comp_comm.layout import Layout
    >>> from comp_comm.transformer import Transformer
    >>> a100 = load_profile("papers/hardware/foundation-models-a100").hardware("fp16")
    >>> gpt = Transformer(25600, 2048, layers=128, heads=160)
    >>> step = evaluate(Scenario(gpt, Layout(pp=32, dp=16, global_batch=4096), a100, mesh=Mesh(tp1=8, nvs=8)))
    >>> round(float(step.step_s), 3), round(float(step.memory_bytes) / 1e9, 2)
    (62.969, 75.74)
    """
    return FoundationStep(scenario)
