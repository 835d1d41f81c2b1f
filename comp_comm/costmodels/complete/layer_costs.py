"""What layers, embedding and head cost on a device, for one micro-batch: seconds, parameters, kept bytes.

It depends on few numbers of a layout (TP and micro-batch, not the stages or replicas), so that many layouts share it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from comp_comm.choices import Switch
from comp_comm.costmodels.layer_times import Host, LayerTimes
from comp_comm.costmodels.machine import kernels_of, network_of, work_in_training
from comp_comm.costmodels.scenario import Scenario
from comp_comm.costmodels.timed import Network, time_operations
from comp_comm.costmodels.work import Work
from comp_comm.formulas.arrays import ZERO, Array, everywhere, to_float
from comp_comm.formulas.host import BLOCKED_S
from comp_comm.group import Group
from comp_comm.kernel_choices import CudaGraph
from comp_comm.layers.block import HeldParameters, Kept
from comp_comm.layers.ends import EndParameters, embedding_operations, end_parameters, head_operations
from comp_comm.layers.experts import Experts
from comp_comm.layers.kind import PER_OPERATOR, LayerKind
from comp_comm.layers.module import Module, selected_modules
from comp_comm.layers.rules import layer_rules
from comp_comm.layers.tensor_parallel import embedding_collectives, head_collectives
from comp_comm.layout import Layout
from comp_comm.lazy import cached_property
from comp_comm.operations.context import Context
from comp_comm.timing.kernels import Kernels
from comp_comm.violation import Violation, broken_rules

ROUNDING = 1e-12  # equal seconds that were added up in another order


class KeptOfLayer(NamedTuple):
    """Bytes a layer keeps of a micro-batch: in all, and of its input alone."""

    size: Array
    entry: Array


@dataclass(frozen=True, eq=False)
class RecomputableModule:
    """A module that recomputation may be for, and the block of the layer it is part of.

    It is made when something of it is asked for: most points recompute nothing.
    """

    name: str
    within: str
    block: int
    make: Callable[[], Module]
    time: Callable[[Module], LayerTimes]

    @cached_property
    def _module(self) -> Module:
        return self.make()

    @cached_property
    def freed(self) -> Array:
        """The bytes it frees."""
        return self._module.freed

    @cached_property
    def times(self) -> LayerTimes:
        """Its seconds."""
        return self.time(self._module)


@dataclass(frozen=True, eq=False)
class LayerCosts:
    """The costs of one layer of each kind, of the embedding and of the head."""

    work: Work

    @cached_property
    def kernels(self) -> Kernels:
        """What times kernels."""
        return kernels_of(self.work)

    @cached_property
    def network(self) -> Network:
        """What times collectives."""
        return network_of(self.work)

    def _contexts(self) -> list[tuple[LayerKind, Context]]:
        c = self.work.context
        return [(kind, kind.context(c)) for kind in self.work.pattern.kinds]

    @cached_property
    def layers(self) -> dict[LayerKind, LayerTimes]:
        """Seconds of a layer of each kind."""
        return {kind: self._layer(kind, c) for kind, c in self._contexts()}

    def _layer(self, kind: LayerKind, c: Context) -> LayerTimes:
        layout, interference = self.work.layout, self.work.scenario.interference
        timed = [time_operations(self.kernels, part, layout.attention_kernel) for part in kind.operations_by_block(c)]
        experts = [
            op for block, ops in zip(kind.blocks, timed, strict=False) if isinstance(block, Experts) for op in ops
        ]
        calls = self.network.timed(kind.collectives(c))
        return LayerTimes(layout, [op for ops in timed for op in ops], calls, interference, of_experts=experts,
                          host=self._host(kind, c))  # fmt: skip

    def _host(self, kind: LayerKind, c: Context) -> Host:
        """Return what launches a layer of a kind."""
        synchronises = kind.synchronises & ~CudaGraph.FULL.where(c.layout.cuda_graph)
        return Host(kind.launches(c) * self._launch_s, synchronises, Switch.ON.where(c.layout.launch_blocking))

    @property
    def _launch_s(self) -> Array:
        """Seconds in which the host launches a kernel."""
        blocking = Switch.ON.where(self.work.layout.launch_blocking)
        return to_float(self.kernels.hardware.timing.launch_latency + blocking * BLOCKED_S)

    @cached_property
    def embedding(self) -> LayerTimes:
        """Seconds of the first stage's beginning."""
        c = self.work.context
        timed = time_operations(self.kernels, embedding_operations(c), 0)
        return LayerTimes(self.work.layout, timed, self.network.timed(embedding_collectives(c)), 1.0, overlaps=False)

    @cached_property
    def head(self) -> LayerTimes:
        """Seconds of the last stage's end."""
        c = self.work.context
        timed = time_operations(self.kernels, head_operations(c, self.work.vocab), 0)
        return LayerTimes(self.work.layout, timed, self.network.timed(head_collectives(c)), 1.0, overlaps=False)

    @cached_property
    def head_takes_longer(self) -> bool:
        """Whether logits and loss take longer than the embedding everywhere, by compute and by what is seen of sends.

        One answer for all points, however many see these costs.
        """
        first, last = self.embedding, self.head
        seen = (part.passes_s - part.compute.forward - part.compute.backward for part in (first, last))
        pairs = ((first.compute.forward, last.compute.forward), (first.compute.backward, last.compute.backward), seen)
        return all(bool(everywhere(more >= less * (1 - ROUNDING))) for less, more in pairs)

    @cached_property
    def parameters(self) -> dict[LayerKind, HeldParameters]:
        """Parameters of a layer of each kind that a device holds."""
        return {kind: kind.parameters(c) for kind, c in self._contexts()}

    @cached_property
    def end_parameters(self) -> EndParameters:
        """Parameters beside the layers that a device holds."""
        return end_parameters(self.work.context, self.work.vocab)

    @cached_property
    def kept(self) -> dict[LayerKind, KeptOfLayer]:
        """Bytes that a layer of each kind keeps."""
        return {kind: _kept(c, kind.kept(c)) for kind, c in self._contexts()}

    @cached_property
    def recomputable(self) -> dict[LayerKind, list[RecomputableModule]]:
        """The modules of a layer of each kind that can be recomputed, with what that costs and frees."""
        return {kind: self._recomputable(kind, c) for kind, c in self._contexts()}

    def _recomputable(self, kind: LayerKind, c: Context) -> list[RecomputableModule]:
        blocks, time = kind.block_modules(c), partial(self._times, kind)
        each = [RecomputableModule(module.name, module.within, block, partial(_returned, module), time)
                for block, modules in enumerate(blocks) for module in modules]  # fmt: skip
        return [*each, RecomputableModule(PER_OPERATOR, "", len(blocks), partial(kind.per_operator, c), time)]

    @cached_property
    def skipped_by_early_stop(self) -> dict[LayerKind, LayerTimes]:
        """What whole recomputation of a layer of each kind skips where it stops early."""
        return {kind: self._times(kind, kind.skipped_by_early_stop(c)) for kind, c in self._contexts()}

    def _times(self, kind: LayerKind, module: Module) -> LayerTimes:
        return self.layers[kind].part(module.operations, module.collectives, module.launches * self._launch_s)

    @cached_property
    def rules(self) -> list[Violation]:
        """The rules of a layer that points break."""
        return broken_rules([*layer_rules(self.work.transformer, self.work.layout), *self.work.block_rules])


def _returned(module: Module) -> Module:
    """Return a module that is there already, where others are made when something of them is asked for."""
    return module


def freed_by(parts: Iterable[RecomputableModule], code: int) -> list[Array]:
    """Return the bytes that an option of recomputation frees of a layer, for each of its blocks that it is about."""
    blocks: dict[int, Array] = {}
    for part in selected_modules(parts, code):
        blocks[part.block] = blocks.get(part.block, ZERO) + part.freed
    return list(blocks.values())


def layer_costs(scenario: Scenario) -> LayerCosts:
    """Return what layers cost in a scenario."""
    return LayerCosts(work_in_training(scenario))


def layer_groups(layout: Layout, experts: bool) -> list[Group]:
    """Return the groups that collectives within layers and at the ends are over."""
    groups = [layout.group("tp"), layout.group("cp")]
    return [*groups, layout.ep_group, layout.etp_group, layout.sequence_group] if experts else groups


def _kept(c: Context, kept: list[Kept]) -> KeptOfLayer:
    entry = c.split_tokens * c.t.hidden * to_float(c.formats.activation)
    return KeptOfLayer(to_float(sum((each.size for each in kept), to_float(0.0))), entry)
