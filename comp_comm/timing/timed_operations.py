"""Operations with the seconds of each of their passes."""

from __future__ import annotations

from collections.abc import Iterable

from comp_comm.formulas.arrays import ZERO, Numeric, everywhere, to_float
from comp_comm.operations.products import FusedProducts
from comp_comm.operations.shapes import Attention, Elementwise, Gemm, Operation
from comp_comm.structs import struct
from comp_comm.timing.kernels import Kernels
from comp_comm.timing.passes import Passes


@struct
class TimedOperation:
    """An operation on a device, with the seconds each of its passes takes once."""

    op: Operation
    passes: Passes


def time_operations(
    kernels: Kernels, operations: Iterable[Operation], attention_kernel: Numeric
) -> list[TimedOperation]:
    """Return operations with their seconds."""
    return [TimedOperation(op, _passes(kernels, op, attention_kernel)) for op in operations]


def _passes(kernels: Kernels, op: Operation, attention_kernel: Numeric) -> Passes:
    if isinstance(op, Gemm):
        return _trained(op, kernels.gemm(op))
    if isinstance(op, Attention):
        return kernels.attention(op, attention_kernel)
    if isinstance(op, Elementwise):
        return kernels.elementwise(op)
    if isinstance(op, FusedProducts):
        return kernels.fused_products(op)
    raise TypeError(f"nothing times a {type(op).__name__}")


def _trained(op: Gemm, passes: Passes) -> Passes:
    """Return the seconds of a product without the gradient of weights that are frozen."""
    trained = to_float(op.trained)
    if everywhere(trained == 1):
        return passes
    for_weights = trained * passes.for_weights
    return Passes(passes.forward, passes.backward - passes.for_weights + for_weights, for_weights)


def sum_passes(timed: Iterable[TimedOperation]) -> Passes:
    """Return the seconds of operations, each as often as it is done."""
    sums = [ZERO, ZERO, ZERO]
    for item in timed:
        for number, seconds in enumerate(item.passes):
            sums[number] = sums[number] + item.op.count * seconds
    return Passes(*sums)
