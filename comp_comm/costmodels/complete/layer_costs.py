"""What layers, embedding and head cost on a device, for one micro-batch: seconds, parameters, kept bytes.

It depends on few numbers of a layout (TP and micro-batch, not the stages or replicas), so that many layouts share it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from comp_comm.costmodels.layer_times import LayerTimes
from comp_comm.costmodels.machine import kernels_of, network_of, work_in_training
from comp_comm.costmodels.scenario import Scenario
from comp_comm.costmodels.timed import Network, time_operations
from comp_comm.costmodels.work import Work
from comp_comm.formulas.arrays import Array, to_float
from comp_comm.layers.block import CORE_ATTENTION, HeldParameters, Kept
from comp_comm.layers.ends import EndParameters, embedding_operations, end_parameters, head_operations
from comp_comm.layers.experts import Experts
from comp_comm.layers.kind import LayerKind, kept_bytes
from comp_comm.layers.rules import layer_rules
from comp_comm.layers.tensor_parallel import embedding_collectives, head_collectives
from comp_comm.operations.context import Context
from comp_comm.timing.kernels import Kernels
from comp_comm.violation import Violation, broken_rules


class KeptOfLayer(NamedTuple):
    """Bytes a layer keeps of a micro-batch: without scores, of the scores, and of its input alone."""

    beside_scores: Array
    scores: Array
    entry: Array


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
        return LayerTimes(layout, [op for ops in timed for op in ops], calls, interference, of_experts=experts)

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
    def rules(self) -> list[Violation]:
        """The rules of a layer that points break."""
        return broken_rules([*layer_rules(self.work.transformer, self.work.layout), *self.work.block_rules])


def layer_costs(scenario: Scenario) -> LayerCosts:
    """Return what layers cost in a scenario."""
    return LayerCosts(work_in_training(scenario))


def _kept(c: Context, kept: list[Kept]) -> KeptOfLayer:
    entry = c.split_tokens * c.t.hidden * to_float(c.formats.activation)
    return KeptOfLayer(kept_bytes(kept), kept_bytes(kept, CORE_ATTENTION), entry)
