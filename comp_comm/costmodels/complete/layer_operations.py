"""What the kernels of layers, embedding and head take on a device, for one micro-batch.

It depends on fewer numbers of a layout than what layers cost: not on where a group's devices are on the network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from comp_comm.choices import PER_OPERATOR
from comp_comm.costmodels.machine import kernels_of
from comp_comm.costmodels.operation_times import OperationTimes
from comp_comm.costmodels.work import Work
from comp_comm.formulas.arrays import Array, Numeric
from comp_comm.layers.ends import embedding_operations, head_operations
from comp_comm.layers.experts import Experts
from comp_comm.layers.kind import LayerKind
from comp_comm.layers.module import Module
from comp_comm.lazy import cached_property
from comp_comm.operations.context import Context
from comp_comm.structs import struct
from comp_comm.timing.kernels import Kernels
from comp_comm.timing.timed_operations import time_operations


@struct
class ModuleOperations:
    """A module that recomputation may be for, and which block of the layer it is part of.

    It is made when something of it is asked for: most points recompute nothing.
    """

    name: str
    within: str
    block: int
    make: Callable[[], Module]
    of_layer: OperationTimes

    @cached_property
    def _module(self) -> Module:
        return self.make()

    @cached_property
    def freed(self) -> Array:
        """The bytes it frees."""
        return self._module.freed

    @cached_property
    def operations(self) -> OperationTimes:
        """Its operations."""
        return self.of_layer.part(self._module.operations)

    @property
    def collectives(self) -> Mapping[str, Numeric]:
        """How many calls of the layer's collectives it makes, by name."""
        return self._module.collectives

    @property
    def launches(self) -> Numeric:
        """The launches in whose time the host sees to it, beside those of its kernels."""
        return self._module.launches


@struct
class LayerOperations:
    """The operations of one layer of each kind, of the embedding and of the head."""

    work: Work

    @cached_property
    def kernels(self) -> Kernels:
        """What times kernels."""
        return kernels_of(self.work)

    def _contexts(self) -> list[tuple[LayerKind, Context]]:
        c = self.work.context
        return [(kind, kind.context(c)) for kind in self.work.pattern.kinds]

    @cached_property
    def times(self) -> dict[LayerKind, OperationTimes]:
        """The operations of a layer of each kind."""
        return {kind: self._layer(kind, c) for kind, c in self._contexts()}

    def _layer(self, kind: LayerKind, c: Context) -> OperationTimes:
        kernel = self.work.layout.attention_kernel
        blocks = [time_operations(self.kernels, part, kernel) for part in kind.operations_by_block(c)]
        experts = [
            op for block, ops in zip(kind.blocks, blocks, strict=False) if isinstance(block, Experts) for op in ops
        ]
        return OperationTimes([op for ops in blocks for op in ops], experts)

    @cached_property
    def launches(self) -> dict[LayerKind, Array]:
        """The kernels that the host launches one by one in a forward pass of a layer of each kind."""
        return {kind: kind.launches(c) for kind, c in self._contexts()}

    @cached_property
    def embedding(self) -> OperationTimes:
        """The operations of the first stage's beginning."""
        return OperationTimes(time_operations(self.kernels, embedding_operations(self.work.context), 0))

    @cached_property
    def head(self) -> OperationTimes:
        """The operations of the last stage's end."""
        return OperationTimes(time_operations(self.kernels, head_operations(self.work.context, self.work.vocab), 0))

    @cached_property
    def recomputable(self) -> dict[LayerKind, list[ModuleOperations]]:
        """The modules of a layer of each kind that can be recomputed."""
        return {kind: self._recomputable(kind, c) for kind, c in self._contexts()}

    def _recomputable(self, kind: LayerKind, c: Context) -> list[ModuleOperations]:
        blocks, layer = kind.block_modules(c), self.times[kind]
        each = [ModuleOperations(module.name, module.within, block, partial(_returned, module), layer)
                for block, modules in enumerate(blocks) for module in modules]  # fmt: skip
        return [*each, ModuleOperations(PER_OPERATOR, "", len(blocks), partial(kind.per_operator, c), layer)]

    @cached_property
    def skipped_by_early_stop(self) -> dict[LayerKind, ModuleOperations]:
        """What whole recomputation of a layer of each kind skips where it stops early."""
        return {kind: ModuleOperations("last GEMM", "", 0, partial(kind.skipped_by_early_stop, c), self.times[kind])
                for kind, c in self._contexts()}  # fmt: skip


def _returned(module: Module) -> Module:
    """Return a module that is there already, where others are made when something of them is asked for."""
    return module
