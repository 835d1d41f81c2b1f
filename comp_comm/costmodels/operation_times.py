"""What the operations of a layer, or of a part of it, take on a device: nothing of it depends on the network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from comp_comm.formulas.arrays import Array, Numeric, to_float
from comp_comm.lazy import cached_property
from comp_comm.operations.shapes import Attention, Gemm
from comp_comm.structs import struct
from comp_comm.timing.passes import Passes
from comp_comm.timing.timed_operations import TimedOperation, sum_passes


@struct
class OperationTimes:
    """Operations with their seconds, and sums of them over a forward and a backward pass.

    ``of_experts`` are those of them that come between the dispatch of tokens to experts and what these send back.
    """

    timed: Sequence[TimedOperation]
    of_experts: Sequence[TimedOperation] = ()

    @cached_property
    def compute(self) -> Passes:
        """Seconds of all operations."""
        return sum_passes(self.timed)

    @cached_property
    def core_attention(self) -> Passes:
        """Seconds of the scores, softmax and weighted sum."""
        return sum_passes(item for item in self.timed if isinstance(item.op, Attention))

    @cached_property
    def gemms(self) -> Passes:
        """Seconds of the products with weights."""
        return sum_passes(item for item in self.timed if isinstance(item.op, Gemm))

    @cached_property
    def experts(self) -> Passes:
        """Seconds of the operations of experts."""
        return sum_passes(self.of_experts)

    @cached_property
    def count(self) -> Array:
        """How many operations there are."""
        return to_float(sum((to_float(item.op.count) for item in self.timed), to_float(0.0)))

    def part(self, shares: Mapping[str, Numeric]) -> OperationTimes:
        """Return a part of the operations: a share of each that is named."""
        return OperationTimes(
            [TimedOperation(replace(item.op, count=to_float(item.op.count) * shares[item.op.name]), item.passes)
             for item in self.timed if item.op.name in shares]
        )  # fmt: skip
