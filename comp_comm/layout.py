"""How a model is laid out on devices: degrees, batches and choices, and where each group sits on the network."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from comp_comm.choices import (
    CollectiveAlgorithm,
    ContextComm,
    ContextImplementation,
    MasterWeights,
    Recompute,
    Schedule,
    SequenceInputs,
    Switch,
    TensorOverlap,
)
from comp_comm.dispatchers import Dispatcher, PermuteFusion, RoutedWeights, RouterPrecision, Routing
from comp_comm.formulas.arrays import (
    Array,
    Numeric,
    everywhere,
    isnan,
    maximum,
    minimum,
    somewhere,
    to_codes,
    to_float,
    where,
)
from comp_comm.group import Group
from comp_comm.kernel_choices import (
    AttentionKernel,
    CudaGraph,
    ElementwiseKernels,
    ExpertKernels,
    QkvKept,
    SoftmaxPrecision,
)
from comp_comm.lazy import cached_property
from comp_comm.optimizers import MuonTensor, Optimizer, usual_sharding
from comp_comm.placement import GROUPS, INSIDE, ORDERS, STAGE_GROUPS
from comp_comm.sharding import FsdpUnits, GradientSync, ZeroImplementation, fuses_accumulation
from comp_comm.structs import struct
from comp_comm.texts import NO_TEXT, Texts

Spread: TypeAlias = tuple[tuple[Array, Array], ...]  # sizes and strides
UNKNOWN = float("nan")
NOT_GIVEN = -1  # the code of a choice that is not given


@struct
class Layout:
    """Parallel degrees, batches and choices, numbers or arrays; names and meanings are those of the field table.

    A number that is not given is NaN until `resolved_layout` fills it in; choices are codes of a `Choice`, `NOT_GIVEN`
    where they are not given.
    """

    micro_batch: Numeric = 1
    tp: Numeric = 1
    dp: Numeric = UNKNOWN
    gpus: Numeric = UNKNOWN
    global_batch: Numeric = UNKNOWN
    accumulation: Numeric = UNKNOWN
    sp: Numeric = Switch.ON
    sequence_inputs: Numeric = SequenceInputs.AGAIN
    cp: Numeric = 1
    cp_comm: Numeric = ContextComm.P2P
    cp_implementation: Numeric = ContextImplementation.TRANSFORMER_ENGINE
    pp: Numeric = 1
    vpp: Numeric = 1
    schedule: Numeric = Schedule.ONE_F_ONE_B
    pp_layout: Texts = NO_TEXT
    ep: Numeric = 1
    etp: Numeric = UNKNOWN
    dp_shard: Numeric = UNKNOWN
    zero: Numeric = 1
    master_weights: Numeric = MasterWeights.COPY
    reshard_after_forward: Numeric = Switch.ON
    reshard_shards: Numeric = UNKNOWN
    gradient_sync: Numeric = GradientSync.MICRO_BATCH
    fsdp_units: Numeric = FsdpUnits.ROOT
    zero_implementation: Numeric = ZeroImplementation.MEGATRON
    gradient_accumulation_fusion: Numeric = NOT_GIVEN
    bucket: Numeric = UNKNOWN
    recompute: Numeric = Recompute.NONE
    recompute_layers: Numeric = UNKNOWN
    recompute_early_stop: Numeric = Switch.OFF
    offload_activations: Numeric = UNKNOWN
    kv_replication: Numeric = Switch.OFF
    offload_optimizer: Numeric = Switch.OFF
    optimizer: Numeric = Optimizer.ADAMW
    muon_steps: Numeric = 5
    muon_sharding: Numeric = NOT_GIVEN
    muon_tp: Numeric = MuonTensor.DUPLICATED
    scatter_gather: Numeric = Switch.ON
    placement: Numeric = 0
    overlap_dp: Numeric = Switch.ON
    overlap_tp: Numeric = TensorOverlap.OFF
    overlap_pp: Numeric = NOT_GIVEN
    overlap_ep: Numeric = Switch.OFF
    ep_dispatch: Numeric = Dispatcher.ALL_TO_ALL
    ep_node_limit: Numeric = UNKNOWN
    ep_sms: Numeric = UNKNOWN
    routing: Numeric = Routing.BALANCED
    imbalance: Numeric = UNKNOWN
    load_balancing: Numeric = NOT_GIVEN
    routed_weights: Numeric = RoutedWeights.COMPUTE
    router_precision: Numeric = RouterPrecision.COMPUTE
    permute_fusion: Numeric = PermuteFusion.ON
    collective_algorithm: Numeric = CollectiveAlgorithm.BEST
    attention_kernel: Numeric = AttentionKernel.FLASH_CAUSAL
    kernels: Numeric = ElementwiseKernels.FUSED
    norm_kernel: Numeric = NOT_GIVEN
    qkv_kept: Numeric = QkvKept.PARTS
    softmax_precision: Numeric = SoftmaxPrecision.COMPUTE
    cross_entropy: Numeric = NOT_GIVEN
    loss_chunks: Numeric = 8
    cuda_graph: Numeric = CudaGraph.NONE
    expert_kernels: Numeric = ExpertKernels.SEPARATE
    launch_blocking: Numeric = Switch.OFF

    @property
    def loss(self) -> NDArray[np.intp]:
        """How the loss is made, a code of `CrossEntropy`: where it is not given, as other kernels are."""
        given = to_codes(self.cross_entropy)
        with_kernels = ElementwiseKernels.look_up("loss", self.kernels).astype(np.intp)
        return with_kernels if everywhere(given == NOT_GIVEN) else np.where(given == NOT_GIVEN, with_kernels, given)

    def stride(self, group: str) -> Array:
        """Return how far apart on the network two neighbours of a group are, in devices.

        >>> [float(Layout(tp=8, cp=2, dp=4).stride(group)) for group in ("tp", "cp", "dp", "pp")]
        [1.0, 8.0, 16.0, 64.0]
        """
        if group not in self._strides:
            self._strides[group] = self._stride(group)
        return self._strides[group]

    @cached_property
    def _strides(self) -> dict[str, Array]:
        return {}

    def group(self, name: str) -> Group:
        """Return the devices of one of the groups."""
        return Group(getattr(self, name), self.stride(name))

    @property
    def ep_group(self) -> Group:
        """Devices that share the experts out."""
        return Group(self.ep, parts=self.spread(STAGE_GROUPS, self.ep, self.etp))

    @property
    def sequence_group(self) -> Group:
        """Devices that share a micro-batch: those of TP and of CP."""
        parts = tuple((to_float(getattr(self, name)), self.stride(name)) for name in ("tp", "cp"))
        return Group(to_float(self.tp) * self.cp, parts=parts)

    @property
    def etp_group(self) -> Group:
        """Devices that split an expert."""
        return Group(self.etp, parts=self.spread(STAGE_GROUPS, self.etp))

    def _stride(self, group: str) -> Array:
        before = INSIDE[to_codes(self.placement), GROUPS.index(group)]
        stride = to_float(1.0)
        for number, name in enumerate(GROUPS):
            inside, size = before[..., number], getattr(self, name)
            if somewhere(inside):
                stride = stride * (size if everywhere(inside) else where(inside > 0, size, 1.0))
        return stride

    @cached_property
    def copies(self) -> Array:
        """Copies of the model in a pipeline: two where micro-batches come from both of its ends."""
        return Schedule.look_up("copies", self.schedule)

    @cached_property
    def model_chunks(self) -> Array:
        """Parts of the model that a micro-batch passes one after the other, each on one stage."""
        return to_float(self.pp) * self.vpp * Schedule.look_up("turns", self.schedule)

    @cached_property
    def stage_micro_batches(self) -> Array:
        """Micro-batches that a layer of a stage sees in a step: each of two copies sees half of them."""
        micro_batches = to_float(self.accumulation)
        return micro_batches / self.copies if somewhere(self.copies != 1) else micro_batches

    @cached_property
    def boundaries(self) -> Array:
        """Sends of a stage, one way, while each of its layers sees a micro-batch: one after every chunk.

        Where a micro-batch turns round (V-shaped) or the pipeline ends (bidirectional), nothing is sent: of two stages
        each sends after one of its two chunks.
        """
        chunks = Schedule.look_up("turns", self.schedule) * self.copies
        if somewhere(chunks != 1):
            chunks = where((chunks > 1) & (to_float(self.pp) == 2), 1.0, chunks)
        return to_float(self.vpp) * chunks * (to_float(self.pp) > 1)

    @property
    def replicas(self) -> Array:
        """Devices that hold the same weights: those of DP and of CP."""
        return to_float(self.dp) * self.cp

    @property
    def expert_replicas(self) -> Array:
        """Devices that hold the same experts."""
        return to_float(self.dp) * self.cp * self.tp / (to_float(self.ep) * self.etp)

    @property
    def expert_shards(self) -> Array:
        """Devices that the states of experts are sharded over: those that hold the same experts, of one replica.

        With fewer shards than replicas (HSDP) experts are sharded within each of these, too: torchtitan's ``efsdp`` are
        the devices of ``dp_shard`` over ``ep``, Megatron-LM divides ``expt_dp`` by its optimizer's instances.
        """
        return maximum(self.expert_replicas * (to_float(self.dp_shard) / self.replicas), 1.0)

    def spread(self, groups: tuple[str, ...], count: Numeric, skip: Numeric = 1.0) -> Spread:
        """Return where ``count`` devices of some groups are that lie ``skip`` apart: a size and stride for each group.

        Devices of the groups are counted in the order of the placement; the last of them takes what is left.

        >>> from comp_comm.placement import Placement
        >>> layout = Layout(tp=2, cp=2, dp=4, pp=4, placement=Placement.of("tp-cp-pp-dp"))
        >>> [(float(size), float(stride)) for size, stride in layout.spread(("cp", "dp"), 8)]
        [(2.0, 2.0), (4.0, 16.0)]
        """
        key = (groups, count, skip)
        try:
            known = self._spreads.get(key)
        except TypeError:  # arrays are no key
            return self._spread(groups, count, skip)
        if known is None:
            known = self._spreads[key] = self._spread(groups, count, skip)
        return known

    @cached_property
    def _spreads(self) -> dict[tuple[tuple[str, ...], Numeric, Numeric], Spread]:
        return {}

    def _spread(self, groups: tuple[str, ...], count: Numeric, skip: Numeric) -> Spread:
        code = to_codes(self.placement)
        spread: list[tuple[Array, Array]] = []
        wanted, apart = to_float(count), to_float(skip)
        places = ORDERS[groups][code]
        sizes: list[Numeric] = [getattr(self, name) for name in groups]
        strides: list[Numeric] = [self.stride(name) for name in groups]
        for place in range(len(groups)):
            which = places[..., place]
            size, stride = (to_float(_choose(which, values)) for values in (sizes, strides))
            within = minimum(apart, size) if place < len(groups) - 1 else apart
            taken = minimum(wanted, size / within) if place < len(groups) - 1 else wanted
            if somewhere(taken != 1):
                spread.append((taken, stride * within))
            wanted, apart = wanted / taken, apart / within
        return tuple(spread) or ((to_float(1.0), to_float(1.0)),)


def _choose(which: NDArray[np.intp], values: list[Numeric]) -> Numeric:
    """Return the value that is meant at each point; without an axis where it is the same one everywhere."""
    first = int(which.flat[0])
    return values[first] if everywhere(which == first) else np.choose(which, [to_float(value) for value in values])


def resolved_layout(given: Layout) -> Layout:
    """Return ``given`` with what follows from the rest of it where it is not given.

    Degrees and batches: dp, gpus, accumulation, global_batch, etp, dp_shard. Choices: 1F1B with vpp is interleaved, and
    interleaving overlaps its sends; there is no sequence parallelism without TP; how Muon's matrices are sharded, and
    whether gradients are added up in a GEMM, is as stacks have it. Other choices that are not given stay so, and are
    settled where they are used: the loss (`Layout.loss`), norms and load balancing (`operations.context.Context`), the
    bucket (`state_collectives`).

    >>> layout = resolved_layout(Layout(gpus=64, tp=8, pp=2, global_batch=128))
    >>> float(layout.dp), float(layout.accumulation)
    (4.0, 32.0)
    """
    model_parallel = to_float(given.tp) * given.cp * given.pp
    gpus, dp = to_float(given.gpus), to_float(given.dp)
    dp = where(isnan(dp), where(isnan(gpus), 1.0, gpus / model_parallel), dp)
    batch, steps = to_float(given.global_batch), to_float(given.accumulation)
    per_step = dp * given.micro_batch
    steps = where(isnan(batch), where(isnan(steps), 1.0, steps), batch / per_step)
    etp, dp_shard = to_float(given.etp), to_float(given.dp_shard)
    interleaved = Schedule.ONE_F_ONE_B.where(given.schedule) & (to_float(given.vpp) > 1)
    schedule = where(interleaved, int(Schedule.INTERLEAVED), given.schedule)
    sends = to_codes(given.overlap_pp)
    fused = fuses_accumulation(given.gradient_accumulation_fusion, given.zero, given.zero_implementation)
    return replace(
        given,
        dp=dp,
        gpus=gpus if not somewhere(isnan(gpus)) else where(isnan(gpus), model_parallel * dp, gpus),
        accumulation=steps,
        global_batch=steps * per_step,
        etp=where(isnan(etp), given.tp, etp),
        dp_shard=where(isnan(dp_shard), dp * given.cp, dp_shard),
        schedule=schedule,
        overlap_pp=np.where(sends == NOT_GIVEN, Schedule.INTERLEAVED.where(schedule), sends),
        muon_sharding=_muon_sharding(given),
        gradient_accumulation_fusion=fused,
        sp=where(to_float(given.tp) > 1, given.sp, 0.0),
    )


def _muon_sharding(given: Layout) -> Numeric:
    """Return how Muon's matrices are sharded: as stacks do it, where a study has Muon and does not say."""
    code = to_codes(given.muon_sharding)
    if not somewhere((code == NOT_GIVEN) & Optimizer.MUON.where(given.optimizer)):
        return given.muon_sharding
    usual = usual_sharding(given.zero, ZeroImplementation.DEEPSPEED.where(given.zero_implementation))
    return where(code == NOT_GIVEN, usual, to_float(code))
