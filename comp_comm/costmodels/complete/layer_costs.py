"""What layers, embedding and head cost on a device, for one micro-batch: seconds, parameters, bytes of activations.

It depends on few numbers of a layout (TP and micro-batch, not the stages or replicas), so that many layouts share it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from comp_comm.choices import Recompute, Switch
from comp_comm.costmodels.complete.layer_operations import LayerOperations, ModuleOperations
from comp_comm.costmodels.layer_times import HostLaunches, LayerTimes
from comp_comm.costmodels.machine import kernels_of, network_of
from comp_comm.costmodels.operation_times import OperationTimes
from comp_comm.costmodels.work import Work
from comp_comm.costmodels.work_rules import block_rules
from comp_comm.formulas.arrays import ZERO, Array, add_up, everywhere, to_float
from comp_comm.formulas.host import BLOCKED_S
from comp_comm.group import Group
from comp_comm.kernel_choices import CudaGraph
from comp_comm.layers.block import LayerParameters, SavedActivations
from comp_comm.layers.ends import EndParameters, end_parameters
from comp_comm.layers.kind import LayerKind
from comp_comm.layers.module import selected_modules
from comp_comm.layers.rules import layer_rules
from comp_comm.layers.tensor_parallel import embedding_collectives, head_collectives
from comp_comm.layout import Layout
from comp_comm.lazy import cached_property
from comp_comm.operations.context import Context
from comp_comm.operations.shapes import Collective
from comp_comm.structs import struct
from comp_comm.timing.kernels import Kernels
from comp_comm.timing.timed_collectives import Network
from comp_comm.violation import Violation, broken_rules

ROUNDING = 1e-12  # equal seconds that were added up in another order


class LayerActivations(NamedTuple):
    """Bytes of activations that a layer saves of a micro-batch: all of them, its input alone, and the input of its
    network's last matrix, which the backward pass needs first."""

    size: Array
    input_size: Array
    last_input: Array


@struct
class RecomputableModule:
    """A module that recomputation may be for: what it takes to make it again, and what is free then."""

    of: ModuleOperations
    time: Callable[[ModuleOperations], LayerTimes]

    @property
    def name(self) -> str:
        """Its name."""
        return self.of.name

    @property
    def within(self) -> str:
        """The name of the module around it."""
        return self.of.within

    @property
    def block(self) -> int:
        """Which block of the layer it is part of."""
        return self.of.block

    @property
    def freed(self) -> Array:
        """The bytes it frees."""
        return self.of.freed

    @cached_property
    def times(self) -> LayerTimes:
        """Its seconds."""
        return self.time(self.of)


@struct
class LayerCosts:
    """The costs of one layer of each kind, of the embedding and of the head.

    ``operations`` are their kernels, perhaps seen through what many layers share.
    """

    work: Work
    operations: LayerOperations

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
    def times(self) -> dict[LayerKind, LayerTimes]:
        """Seconds of a layer of each kind."""
        return {kind: self._layer(kind, c) for kind, c in self._contexts()}

    def _layer(self, kind: LayerKind, c: Context) -> LayerTimes:
        calls = self.network.timed(kind.collectives(c))
        return LayerTimes(self.work.layout, self.operations.times[kind], calls, self.work.scenario.interference,
                          host=self._host(kind, c))  # fmt: skip

    def _host(self, kind: LayerKind, c: Context) -> HostLaunches:
        """Return what launches a layer of a kind."""
        synchronises = kind.synchronises & ~CudaGraph.FULL.where(c.layout.cuda_graph)
        launching = self.operations.launches[kind] * self._launch_s
        return HostLaunches(launching, synchronises, Switch.ON.where(c.layout.launch_blocking))

    @property
    def _launch_s(self) -> Array:
        """Seconds in which the host launches a kernel."""
        blocking = Switch.ON.where(self.work.layout.launch_blocking)
        return to_float(self.kernels.hardware.timing.launch_latency + blocking * BLOCKED_S)

    @cached_property
    def embedding(self) -> LayerTimes:
        """Seconds of the first stage's beginning."""
        return self._end(self.operations.embedding, embedding_collectives(self.work.context))

    @cached_property
    def head(self) -> LayerTimes:
        """Seconds of the last stage's end."""
        return self._end(self.operations.head, head_collectives(self.work.context))

    def _end(self, operations: OperationTimes, collectives: Iterable[Collective]) -> LayerTimes:
        return LayerTimes(self.work.layout, operations, self.network.timed(collectives), 1.0, overlaps=False)

    @cached_property
    def model_passes_s(self) -> Array:
        """Seconds of both passes of one micro-batch through all layers and both ends, nothing recomputed."""
        layers = (count * self.times[kind].both_passes_s for kind, count in self.layer_counts)
        return add_up((*layers, self.embedding.both_passes_s, self.head.both_passes_s))

    @cached_property
    def model_modules(self) -> dict[int, ModelModules]:
        """What recomputation of modules takes in all layers, by its option's code."""
        return {int(option): ModelModules(self, int(option)) for option in Recompute if option.modules}

    @cached_property
    def layer_counts(self) -> list[tuple[LayerKind, Array]]:
        """Every kind of layer, with how many of it the model has."""
        return list(zip(self.work.pattern.kinds, self.work.pattern.totals, strict=True))

    @cached_property
    def head_takes_longer(self) -> bool:
        """Whether logits and loss take longer than the embedding everywhere, by compute and by what is seen of sends.

        One answer for all points, however many see these costs.
        """
        first, last = self.embedding, self.head
        seen = (part.both_passes_s - part.compute.forward - part.compute.backward for part in (first, last))
        pairs = ((first.compute.forward, last.compute.forward), (first.compute.backward, last.compute.backward), seen)
        return all(bool(everywhere(more >= less * (1 - ROUNDING))) for less, more in pairs)

    @cached_property
    def parameters(self) -> dict[LayerKind, LayerParameters]:
        """Parameters of a layer of each kind that a device holds."""
        return {kind: kind.parameters(c) for kind, c in self._contexts()}

    @cached_property
    def end_parameters(self) -> EndParameters:
        """Parameters beside the layers that a device holds."""
        return end_parameters(self.work.context, self.work.vocab)

    @cached_property
    def activations(self) -> dict[LayerKind, LayerActivations]:
        """Bytes of activations that a layer of each kind saves for its backward pass."""
        return {kind: _activations(c, kind.saved_activations(c), kind.last_input(c)) for kind, c in self._contexts()}

    @cached_property
    def recomputable(self) -> dict[LayerKind, list[RecomputableModule]]:
        """The modules of a layer of each kind that can be recomputed, with what that costs and frees."""
        return {kind: [RecomputableModule(module, partial(self._times, kind)) for module in modules]
                for kind, modules in self.operations.recomputable.items()}  # fmt: skip

    @cached_property
    def skipped_by_early_stop(self) -> dict[LayerKind, LayerTimes]:
        """What whole recomputation of a layer of each kind skips where it stops early."""
        return {kind: self._times(kind, module) for kind, module in self.operations.skipped_by_early_stop.items()}

    def _times(self, kind: LayerKind, module: ModuleOperations) -> LayerTimes:
        return self.times[kind].part(module.operations, module.collectives, module.launches * self._launch_s)

    @cached_property
    def rules(self) -> list[Violation]:
        """The rules of a layer that points break."""
        return broken_rules([*layer_rules(self.work.transformer, self.work.layout), *block_rules(self.work)])


@struct
class ModelModules:
    """The modules of all layers of a model that an option recomputes."""

    layer_costs: LayerCosts
    code: int

    @cached_property
    def forward_pass_s(self) -> Array:
        """Seconds in which one micro-batch's are made again."""
        parts = ((count, selected_modules(self.layer_costs.recomputable[kind], self.code))
                 for kind, count in self.layer_costs.layer_counts)  # fmt: skip
        return add_up(count * part.times.forward_pass_s for count, selected in parts for part in selected)


def freed_by(parts: Iterable[RecomputableModule], code: int) -> list[Array]:
    """Return the bytes that an option of recomputation frees of a layer, for each of its blocks that it is about."""
    blocks: dict[int, Array] = {}
    for part in selected_modules(parts, code):
        blocks[part.block] = blocks.get(part.block, ZERO) + part.freed
    return list(blocks.values())


def layer_groups(layout: Layout, experts: bool) -> list[Group]:
    """Return the groups that collectives within layers and at the ends are over."""
    groups = [layout.group("tp"), layout.group("cp")]
    return [*groups, layout.ep_group, layout.etp_group, layout.sequence_group] if experts else groups


def _activations(c: Context, saved: list[SavedActivations], last_input: Array) -> LayerActivations:
    input_size = c.split_tokens * c.t.hidden * to_float(c.formats.activation)
    return LayerActivations(to_float(sum((each.size for each in saved), to_float(0.0))), input_size, last_input)
