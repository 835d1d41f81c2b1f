"""Bytes of the model states of one stage on a device: weights, gradients and optimizer states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from comp_comm.choices import MasterWeights, Switch
from comp_comm.costmodels.complete.layer_costs import LayerCosts
from comp_comm.costmodels.complete.memory.step_buffers import unreduced_gradients
from comp_comm.costmodels.complete.states.muon import MuonStage
from comp_comm.costmodels.work import Work
from comp_comm.formulas.arrays import ZERO, Array, Numeric, add_up, somewhere, to_float, where
from comp_comm.formulas.memory import StateBytes, state_bytes
from comp_comm.layers.block import LayerParameters
from comp_comm.layers.kind import LayerKind
from comp_comm.layers.stages import Stage
from comp_comm.lazy import cached_property
from comp_comm.sharding import GradientSync
from comp_comm.structs import struct

Of = TypeVar("Of")


def of_kinds(work: Work, each: Mapping[LayerKind, Of]) -> list[Of]:
    """Return something of a layer of each kind, in the order of the counts of a stage."""
    return [each[kind] for kind in work.pattern.kinds]


@struct
class StageStateBytes:
    """What model states of a stage take on a device from step to step, under each stage of ZeRO."""

    work: Work
    layer_costs: LayerCosts
    stage: Stage

    @cached_property
    def layers(self) -> list[tuple[Array, LayerParameters]]:
        """Layers of each kind of the stage, and the parameters of one."""
        return list(zip(self.stage.layer_counts, of_kinds(self.work, self.layer_costs.parameters), strict=True))

    @cached_property
    def parameters(self) -> tuple[Array, Array]:
        """Parameters of the stage that are no experts', and those of its experts."""
        ends = self.layer_costs.end_parameters.of_stage(self.stage, self.work.transformer.tied)
        dense = add_up((*(count * layer.dense for count, layer in self.layers), ends))
        experts = (
            add_up(count * layer.experts for count, layer in self.layers) if self.work.transformer.has_experts else ZERO
        )
        return dense, experts

    @cached_property
    def trained_parameters(self) -> tuple[Array, Array]:
        """Parameters of the stage that are trained and no experts', and those of its experts."""
        if not self.work.context.frozen:
            return self.parameters
        layers = [(count, layer.trained) for count, layer in self.layers]
        dense = to_float(add_up(count * layer.dense for count, layer in layers))
        return dense, to_float(add_up(count * layer.experts for count, layer in layers))

    def of_zero(self, zero: Numeric) -> StateBytes:
        """Return the bytes of states with a stage of ZeRO."""
        layout = self.work.layout
        f = self.work.scenario.formats.held(MasterWeights.SHARDS.where(layout.master_weights))
        dense, experts = self.parameters
        kept = 1 - to_float(Switch.ON.where(layout.offload_optimizer))
        sizes = (
            to_float(f.weight),
            to_float(f.grad) + f.accumulate + unreduced_gradients(self.work),
            (to_float(f.master) + 2 * to_float(f.moment)) * kept,
        )
        states = state_bytes(dense, layout.dp_shard, zero, *sizes)
        if self.work.context.frozen:
            return self._with_copies(self._frozen(zero, sizes, states), zero)
        if experts is not ZERO:
            more = state_bytes(experts, layout.expert_shards, zero, *sizes)
            states = StateBytes(*(one + other for one, other in zip(states, more, strict=True)))
        states = self._with_muon(states, to_float(f.moment))
        last = GradientSync.LAST.where(layout.gradient_sync) & (to_float(layout.dp_shard) > 1)
        if not somewhere(last):
            return self._with_copies(states, zero)
        # Not scattered before the last micro-batch: they are added up whole, in the format that they are reduced in.
        summed = where(last, self.work.scenario.formats.grad * (dense + experts), states.gradients)
        return self._with_copies(states._replace(gradients=summed), zero)

    def _frozen(self, zero: Numeric, sizes: tuple[Numeric, Numeric, Numeric], dense: StateBytes) -> StateBytes:
        """Return the states where the model's weights are frozen: all weights, and what adapters have beside them.

        Weights of few bits are sharded with the others; their scales are no parameters, and every device has them all.
        """
        layout, (_, experts), f = self.work.layout, self.parameters, self.work.scenario.formats
        packed = add_up(count * layer.packed for count, layer in self.layers)
        parts = [(dense.weights, self.trained_parameters[0], layout.dp_shard, packed)]
        if experts is not ZERO:
            whole = state_bytes(experts, layout.expert_shards, zero, *sizes).weights
            packed = add_up(count * layer.expert_packed for count, layer in self.layers)
            parts.append((whole, self.trained_parameters[1], layout.expert_shards, packed))
        adapters = [state_bytes(trained, shards, zero, *sizes) for _, trained, shards, _ in parts]
        weights = [
            held - packed * ((to_float(sizes[0]) - f.packed("size")) / where(to_float(zero) < 3, 1.0, shards)
                             - f.packed("scales"))
            for held, _, shards, packed in parts
        ]  # fmt: skip
        return StateBytes(add_up(weights), add_up(each.gradients for each in adapters),
                          add_up(each.optimizer for each in adapters))  # fmt: skip

    def _with_muon(self, states: StateBytes, moment: Array) -> StateBytes:
        """Return the states where Muon keeps one moment of a matrix; of whole ones the fullest device has one at least.

        It has master weights of these, too: what is more than an even share is added.
        """
        muon = MuonStage(self.work, self.stage)
        if not muon.stage_matrices:
            return states
        f = self.work.scenario.formats
        even = add_up(each.number * each.matrix.local_size / each.shards for each in muon.stage_matrices)
        more = muon.beyond_even_share * (to_float(f.master) + moment)
        return states._replace(optimizer=states.optimizer - moment * even + more)

    def _with_copies(self, states: StateBytes, zero: Numeric) -> StateBytes:
        """Return the states with weights as the recipe keeps them: beside those of 16 bits, or instead of them.

        Under ZeRO 3 they are made of gathered weights, and go with them.
        """
        copies = to_float(self.work.scenario.formats.copies)
        if not somewhere(copies):
            return states
        dense, experts = self.parameters
        ends = self.layer_costs.end_parameters.of_stage(self.stage, self.work.transformer.tied)
        more = where(to_float(zero) < 3, copies * (add_up((dense, experts)) - ends), 0.0)
        return states._replace(weights=states.weights + more)
