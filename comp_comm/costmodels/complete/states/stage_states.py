"""The model states of one pipeline stage: what updating its weights computes and sends, and the seconds of both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from comp_comm.choices import MasterWeights, Switch
from comp_comm.costmodels.complete.states.accumulation import accumulation_seconds
from comp_comm.costmodels.complete.states.muon import MuonStage
from comp_comm.costmodels.complete.states.stage_parameters import StageParameters
from comp_comm.costmodels.complete.states.state_collectives import (
    BY_LAYER,
    SHARDED,
    StateCollective,
    state_collectives,
)  # fmt: skip
from comp_comm.costmodels.work import Work
from comp_comm.formulas.arrays import ZERO, Array, Mask, add_up, by_code, somewhere, to_float, where
from comp_comm.formulas.memory import optimizer_traffic
from comp_comm.kernel_choices import Recipe
from comp_comm.layers.block import LayerParameters
from comp_comm.layers.ends import EndParameters
from comp_comm.layers.stages import Stage
from comp_comm.lazy import cached_property
from comp_comm.operations.shapes import Gemm
from comp_comm.structs import struct
from comp_comm.timing.kernels import Kernels
from comp_comm.timing.timed_collectives import Network


class StateSeconds(NamedTuple):
    """Seconds of a stage's states in a step, before anything hides them.

    ``per_occasion`` are collectives that ZeRO 2 and 3 have after every micro-batch, and others once: all-reduces or
    reduce-scatters of gradients, under ZeRO 3 gathers of weights, too. ``gathers_once`` are gathers of weights once a
    step, ``reductions_once`` reductions of gradients once a step whatever the ZeRO stage. ``optimizer`` is its step and
    the gradients' norm, ``quantise`` what quantising the weights takes: once, and under ZeRO 3 with every micro-batch;
    ``accumulate`` is adding gradients to those of other micro-batches, once. ``muon_over_tp`` is what
    Muon gathers of matrices, which nothing overlaps with; ``muon_over_dp``, too, as often as `gathers_of_shards` says.
    """

    per_occasion: Array
    gathers_once: Array
    reductions_once: Array
    optimizer: Array
    quantise: Array
    accumulate: Array
    muon_over_tp: Array = ZERO
    muon_over_dp: Array = ZERO


@struct
class StageStates:
    """The model states of one stage on a device: its parameters, what is sent and computed to update them.

    Everything here is a stage's own; `StateCosts` says which stage takes longest.
    """

    work: Work
    kernels: Kernels
    network: Network
    layer_parameters: Sequence[LayerParameters]
    ends: EndParameters
    stage: Stage

    @cached_property
    def parameters(self) -> StageParameters:
        """The parameters of the stage."""
        ends = self.ends.of_stage(self.stage, self.work.transformer.tied)
        head = self.ends.head_of_stage(self.stage, self.work.transformer.tied)
        return StageParameters(self.stage.layer_counts, self.layer_parameters, ends, head, self.work.context.frozen)

    @cached_property
    def collectives(self) -> list[StateCollective]:
        """The collectives of gradients and weights."""
        return state_collectives(self.work.context, self.parameters)

    @cached_property
    def sharded(self) -> list[tuple[Array, Array]]:
        """Parameters that are trained, and over how many devices their optimizer states are sharded."""
        layout = self.work.layout
        divided = to_float(layout.zero) >= 1
        trained = self.parameters.trained
        parts = [(trained.dense, where(divided, layout.dp_shard, 1.0))]
        if self.work.transformer.has_experts:
            shards = where(divided, layout.expert_shards, 1.0)
            parts.append((trained.experts, shards))
        return parts

    @cached_property
    def muon(self) -> MuonStage:
        """What Muon does on the stage's matrices."""
        return MuonStage(self.work, self.stage)

    @cached_property
    def _per_device(self) -> Array:
        """Parameters whose optimizer states a device holds."""
        return to_float(sum((count / shards for count, shards in self.sharded), ZERO))

    @cached_property
    def _on_fullest_device(self) -> Array:
        """Parameters whose optimizer states the fullest device holds: Muon may leave it a whole matrix."""
        return self._per_device + self.muon.beyond_even_share if self.muon.stage_matrices else self._per_device

    @cached_property
    def norm_s(self) -> Array:
        """Seconds of reading the gradients for their norm."""
        return self._on_fullest_device * self._gradient_bytes * self.kernels.per_streamed_byte

    @cached_property
    def _gradient_bytes(self) -> Array:
        """Bytes of a gradient as the optimizer reads it."""
        return self.work.scenario.formats.held(self._shards_are_master).main_grad

    @property
    def _shards_are_master(self) -> Mask:
        """Where the shards of weights are the optimizer's copy of them."""
        return MasterWeights.SHARDS.where(self.work.layout.master_weights)

    @cached_property
    def adam_s(self) -> Array:
        """Seconds of the optimizer's step."""
        f = self.work.scenario.formats
        cast = where(self._shards_are_master, 0.0, f.weight)  # shards are cast when they are gathered
        moved = self._on_fullest_device * optimizer_traffic(self._gradient_bytes, f.master, f.moment, cast)
        if self.muon.stage_matrices:  # of a matrix there is one moment, not two
            moved = moved - 2 * to_float(f.moment) * self.muon.on_fullest_device
        seconds = moved * self.kernels.per_streamed_byte
        offloaded = Switch.ON.where(self.work.layout.offload_optimizer)
        if not somewhere(offloaded):
            return seconds
        sent = self._per_device * (to_float(f.grad) + f.weight)
        return where(offloaded, sent / to_float(self.kernels.hardware.host_bandwidth), seconds)

    @cached_property
    def quantise_s(self) -> Array:
        """Seconds of quantising the weights of the stage's GEMMs once, by the recipe.

        Under ZeRO 3 the gathered weights of a layer are, forward and backward; where weights are gathered in fp8, each
        device quantises its shards. A recipe that stores none quantises them in the orientation that a pass needs.
        """
        quantising = self.kernels.quantising
        if not somewhere(quantising.mask):
            return ZERO
        layout, f = self.work.layout, self.work.scenario.formats
        gathered = Switch.ON.where(f.fp8_param_gather) & (to_float(layout.zero) >= 1)
        shards = where(gathered, layout.dp_shard, 1.0)
        stored = Recipe.look_up("stored", f.recipe) > 0
        times = where((to_float(layout.zero) >= 3) & ~gathered & stored, 2.0, 1.0)
        weights = add_up(count * each for count, each in zip(self.stage.layer_counts, self._quantised, strict=True))
        tensors = add_up(self.stage.layer_counts)  # a kernel's start a layer: tensors of a layer are cast together
        start = tensors * Recipe.look_up("start_s", f.recipe)
        return quantising.mask * times * (start + quantising.seconds(weights / shards, apart=True))

    @cached_property
    def _quantised(self) -> list[Array]:
        """Weights of a layer of each kind that GEMMs take in the recipe's format, on a device."""
        c = self.work.context
        return [
            to_float(sum((to_float(op.count) * op.weights * (1 - to_float(op.sixteen_bit))
                          for op in kind.operations(kind.context(c)) if isinstance(op, Gemm)), ZERO))
            for kind in self.work.pattern.kinds
        ]  # fmt: skip

    # -- seconds ------------------------------------------------------------------------------------------------------

    @cached_property
    def seconds(self) -> StateSeconds:
        """The seconds of a step's collectives of states, and of its optimizer."""
        trained, zero = self.parameters.trained, to_float(self.work.layout.zero)
        return StateSeconds(
            per_occasion=by_code(zero, self._per_occasion),
            gathers_once=by_code(zero, self._gathers_once),
            reductions_once=by_code(zero, self._reductions_once),
            optimizer=add_up((self.norm_s, self.adam_s, self.muon.seconds(self.kernels))),
            quantise=self.quantise_s,
            accumulate=accumulation_seconds(self.work, trained.dense + trained.experts, self.kernels.per_streamed_byte),
            muon_over_tp=self._of_muon("tp"),
            muon_over_dp=self._of_muon("dp"),
        )

    @cached_property
    def _timed(self) -> list[tuple[StateCollective, Array]]:
        """The collectives of gradients and weights, with the seconds of one call alone on the network."""
        return [(each, self.network.seconds(each.collective)) for each in self.collectives]

    @cached_property
    def _slowed(self) -> Array:
        """By how much they take longer where they run beside compute."""
        scenario = self.work.scenario
        return where(Switch.ON.where(self.work.layout.overlap_dp), scenario.interference, 1.0)

    def _collective_s(self, zero: int, kind: str, repeats: int | None = None) -> Array:
        """Return the seconds of a kind under a stage of ZeRO: all, or those of every micro-batch (1), or of a step
        (0)."""
        calls = [(call, seconds) for call, seconds in self._timed
                 if zero in call.zero and call.collective.kind == kind]  # fmt: skip
        counts = (call.collective.count if repeats is None else call.collective.count * (call.repeats == repeats)
                  for call, _ in calls)  # fmt: skip
        return self._slowed * add_up(count * seconds for count, (_, seconds) in zip(counts, calls, strict=True))

    def _per_occasion(self, zero: int) -> Array:
        """Return what ZeRO 2 and 3 do after every micro-batch: reductions of gradients, gathers of an FSDP unit."""
        if zero in BY_LAYER:
            return add_up(self._collective_s(zero, kind, 1) for kind in ("all_gather", "reduce_scatter", "all_reduce"))
        return self._collective_s(zero, "reduce_scatter" if zero else "all_reduce")

    def _gathers_once(self, zero: int) -> Array:
        """Return the gathers of weights that a step has once: all under ZeRO 1 and 2."""
        return self._collective_s(zero, "all_gather", None if zero in SHARDED else 0) if zero else ZERO

    def _reductions_once(self, zero: int) -> Array:
        """Return the reductions that a step has once: of HSDP's shards, or after the last micro-batch."""
        if zero in BY_LAYER:
            return add_up(self._collective_s(zero, kind, 0) for kind in ("reduce_scatter", "all_reduce"))
        return self._collective_s(zero, "all_reduce") if zero else ZERO

    def _of_muon(self, group: str) -> Array:
        """Return the seconds of what Muon gathers over a group."""
        sent = [each for each in self.muon.collectives if each.parallelism == group]
        return add_up(each.count * self.network.seconds(each) for each in sent)
