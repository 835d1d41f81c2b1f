"""What Muon costs a stage: its steps on matrices that a device has whole, and what is gathered to have them so.

Matrices are those of layers, TP-split ones put together (`MuonTensor`). Under ZeRO 0 each device does all of its
stage's; under ZeRO 1 and above its part of them. Nothing runs beside it: gradients must be there, and weights wait for
it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from comp_comm.costmodels.complete.states.replicas import Replicas, dense_replicas, expert_replicas
from comp_comm.costmodels.work import Work
from comp_comm.formulas.arrays import ZERO, Array, Mask, add_up, maximum, minimum, somewhere, to_float, where
from comp_comm.formulas.optimizer import newton_schulz_flops
from comp_comm.layers.expert_tokens import local_experts
from comp_comm.layers.matrices import Matrix, matrices
from comp_comm.layers.stages import Stage
from comp_comm.layout import Layout
from comp_comm.lazy import cached_property
from comp_comm.operations.shapes import Collective, Gemm
from comp_comm.optimizers import MuonSharding, MuonTensor, Optimizer
from comp_comm.sharding import ZeroImplementation
from comp_comm.structs import struct
from comp_comm.timing.kernels import Kernels

MOMENTUM, HALF = 4.0, 2.0  # bytes of a number that TP gathers (Megatron-LM: as it is kept), and that ZeRO's shards do


class StageMatrix(NamedTuple):
    """Matrices of one shape of a stage that a device has a part of: how many, and over how many devices sharded."""

    matrix: Matrix
    number: Array
    shards: Array


class DeviceShares(NamedTuple):
    """Of a stage's matrices, seconds or numbers: a device's even share, the largest and the mean matrix, and all."""

    even: Array
    largest: Array
    mean: Array
    total: Array


def uses_muon(layout: Layout) -> Mask:
    """Return where the optimizer is Muon."""
    return Optimizer.MUON.where(layout.optimizer)


def gathers_of_shards(layout: Layout) -> Array:
    """Return how often in a step Muon gathers over the devices that share states: with DeepSpeed's ZeRO 2, which cuts
    matrices, whenever gradients are reduced, to all devices that have a part of one; else once."""
    cut = MuonSharding.GATHERED.where(layout.muon_sharding) & (to_float(layout.zero) == 2)
    every = ZeroImplementation.DEEPSPEED.where(layout.zero_implementation) & cut & uses_muon(layout)
    return where(every, layout.stage_micro_batches, 1.0)


@struct
class MuonStage:
    """Muon on the matrices of a stage. Everything is 0 where the optimizer is another one."""

    work: Work
    stage: Stage

    @cached_property
    def stage_matrices(self) -> list[StageMatrix]:
        """The matrices of the stage; none where no point has Muon."""
        muon = uses_muon(self.work.layout)
        if not somewhere(muon):
            return []
        c, layout = self.work.context, self.work.layout
        divided = to_float(layout.zero) >= 1
        dense = where(divided, layout.dp_shard, 1.0)
        expert = where(divided, layout.expert_shards, 1.0)
        return [
            StageMatrix(matrix, muon * layers * matrix.count, expert if matrix.experts else dense)
            for kind, layers in zip(self.work.pattern.kinds, self.stage.layer_counts, strict=True)
            for matrix in matrices(kind, kind.context(c)) if somewhere(muon * layers * matrix.count > 0)
        ]  # fmt: skip

    @cached_property
    def on_fullest_device(self) -> Array:
        """Numbers of matrices whose states are on the fullest device: at least a whole one, where they stay whole."""
        return add_up(shares.even for shares in self._numbers) + self.beyond_even_share

    @cached_property
    def beyond_even_share(self) -> Array:
        """Numbers of matrices that the fullest device has beyond an even share of them."""
        whole = MuonSharding.WHOLE.where(self.work.layout.muon_sharding)
        return add_up(maximum(whole * shares.largest - shares.even, 0.0) for shares in self._numbers)

    def seconds(self, kernels: Kernels) -> Array:
        """Return the seconds of the steps on the device that has most of them.

        Whole matrices are dealt out by what they take (exchanged ones, too), so that none has more than an even share,
        or the largest; of equal parts of all numbers, each device has the matrices that are cut at its ends, too.
        """
        if not self.stage_matrices:
            return ZERO
        steps = self.work.layout.muon_steps
        seconds = [_step_seconds(kernels, each.matrix, self._tensor_parts(each.matrix)) * steps
                   for each in self.stage_matrices]  # fmt: skip
        cut = MuonSharding.GATHERED.where(self.work.layout.muon_sharding)
        return add_up(where(cut, minimum(even + mean, total), maximum(even, largest))
                      for even, largest, mean, total in self._shares(seconds))  # fmt: skip

    @cached_property
    def _numbers(self) -> list[DeviceShares]:
        return self._shares([each.matrix.local_size for each in self.stage_matrices])

    @property
    def flops(self) -> Array:
        """FLOP of the steps on a device that has an even share."""
        parts = ((each, *self._shape(each.matrix)) for each in self.stage_matrices)
        steps = self.work.layout.muon_steps
        return add_up(each.number / each.shards * newton_schulz_flops(rows, columns, steps)
                      for each, rows, columns in parts)  # fmt: skip

    @cached_property
    def collectives(self) -> list[Collective]:
        """What is sent: parts of matrices over TP once a step, and of those cut by shards over their devices as often
        as `gathers_of_shards` says."""
        return [*self._over_tensors(), *self._over_shards(), *self._exchanges()] if self.stage_matrices else []

    def _over_tensors(self) -> list[Collective]:
        c, layout, none = self.work.context, self.work.layout, to_float(0.0)
        gathered = MuonTensor.DUPLICATED.where(layout.muon_tp)
        sent = []
        for each in self.stage_matrices:
            count = gathered * each.matrix.split * each.number / each.shards
            if somewhere(count > 0):
                group = c.etp_group if each.matrix.experts else c.tp_group
                name = f"momentum all-gather: {each.matrix.name}"
                sent.append(
                    Collective(
                        name,
                        "4 B k n",
                        count=count,
                        kind="all_gather",
                        parallelism="tp",
                        message_bytes=MOMENTUM * each.matrix.size,
                        backward_count=none,
                        group=group,
                    )
                )
        return sent

    def _over_shards(self) -> list[Collective]:
        """Return the gathers of matrices that are cut at the ends of a device's part: each gets one matrix's rest."""
        layout = self.work.layout
        cut = MuonSharding.GATHERED.where(layout.muon_sharding) & (to_float(layout.zero) >= 1)
        if not somewhere(cut):
            return []
        sent = []
        for experts, replicas, of in self._by_replicas():
            shards, group = replicas.shards, replicas.groups(layout).shards
            numbers = add_up(each.number * each.matrix.local_size for each in of)
            mean = numbers / maximum(add_up(each.number for each in of), 1e-30)
            rest = minimum(mean, numbers * (1 - 1 / shards))
            message = HALF * rest * shards / maximum(shards - 1, 1.0)
            name = f"{'expert ' if experts else ''}gradient all-gather for Muon"
            sent.append(
                Collective(
                    name,
                    "2 B k n",
                    count=to_float(cut & (shards > 1)),
                    kind="all_gather",
                    parallelism="dp",
                    message_bytes=message,
                    backward_count=to_float(0.0),
                    group=group,
                )
            )
        return sent

    def _exchanges(self) -> list[Collective]:
        """Return the exchanges of matrices that are sharded each: parts of the momentum out, and updates back.

        Experts stay where they are while there is a whole one for each device that shards them: FSDP2 shards the
        first dimension of their weights, which are the experts.
        """
        layout = self.work.layout
        each_way = MuonSharding.EXCHANGED.where(layout.muon_sharding) & (to_float(layout.zero) >= 2)
        if not somewhere(each_way):
            return []
        sent = []
        for experts, replicas, of in self._by_replicas():
            shards, group = replicas.shards, replicas.groups(layout).shards
            apart = (shards > local_experts(self.work.context)) if experts else shards > 1
            if somewhere(each_way & apart):
                message = HALF * add_up(each.number * each.matrix.local_size for each in of) / shards
                sent += [
                    Collective(
                        f"{'expert ' if experts else ''}{what} all-to-all for Muon",
                        "2 B P_m / shards",
                        count=to_float(each_way & apart),
                        kind="all_to_all",
                        parallelism="dp",
                        message_bytes=message,
                        backward_count=to_float(0.0),
                        group=group,
                    )
                    for what in ("momentum", "update")
                ]
        return sent

    def _by_replicas(self) -> Iterator[tuple[bool, Replicas, list[StageMatrix]]]:
        """Yield the stage's dense matrices and those of its experts, where it has any, with the replicas of each."""
        layout = self.work.layout
        for experts, replicas in ((False, dense_replicas(layout)), (True, expert_replicas(layout))):
            of = [each for each in self.stage_matrices if each.matrix.experts is experts]
            if of:
                yield experts, replicas, of

    def _tensor_parts(self, matrix: Matrix) -> Array:
        """Return how many parts of a matrix are orthogonalised by themselves."""
        apart = MuonTensor.BLOCKWISE.where(self.work.layout.muon_tp)
        return where(apart, matrix.size / maximum(matrix.local_size, 1e-30), 1.0)

    def _shape(self, matrix: Matrix) -> tuple[Array, Array]:
        """Return rows and columns of what is orthogonalised: parts are taken to be cut along the longer side."""
        small, large = minimum(matrix.rows, matrix.columns), maximum(matrix.rows, matrix.columns)
        return small, large / self._tensor_parts(matrix)

    def _shares(self, sizes: Sequence[Array]) -> list[DeviceShares]:
        """Return the shares of dense matrices and those of experts' matrices; ``sizes`` are of one of each shape."""
        shares = []
        for experts in (False, True):
            of = [(matrix, size) for matrix, size in zip(self.stage_matrices, sizes, strict=True)
                  if matrix.matrix.experts is experts]  # fmt: skip
            if of:
                total = add_up(matrix.number * size for matrix, size in of)
                largest = np.max(np.broadcast_arrays(*((matrix.number > 0) * size for matrix, size in of)), axis=0)
                mean = total / maximum(add_up(matrix.number for matrix, _ in of), 1e-30)
                shares.append(DeviceShares(total / of[0][0].shards, largest, mean, total))
        return shares


def _step_seconds(kernels: Kernels, matrix: Matrix, parts: Array) -> Array:
    """Return the seconds of a Newton-Schulz step: X X^T, its square, and the product with X."""
    small, long = minimum(matrix.rows, matrix.columns), maximum(matrix.rows, matrix.columns) / parts
    small, large = minimum(small, long), maximum(small, long)
    shapes = ((small, large, small), (small, small, small), (small, small, large))
    return add_up(
        kernels.gemm(Gemm("Newton-Schulz", "2 m k n", count=1.0, m=m, k=k, n=n, sixteen_bit=1)).forward
        for m, k, n in shapes
    )
