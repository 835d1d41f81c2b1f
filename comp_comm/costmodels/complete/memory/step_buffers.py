"""What the optimizer and the backward pass need beside states for a while, by whose ZeRO it is."""

from __future__ import annotations

from comp_comm.costmodels.work import Work
from comp_comm.formulas.arrays import Array, isnan, largest, maximum, minimum, somewhere, to_float, where
from comp_comm.layers.block import LayerParameters
from comp_comm.layers.expert_tokens import local_experts
from comp_comm.sharding import ZeroImplementation

SUB_GROUP = 1e9  # parameters that DeepSpeed's ZeRO 3 updates at once (its sub_group_size)


def bucket_bytes(work: Work, parameters: Array) -> Array:
    """Return the bytes of gradients that are reduced at once of so many parameters."""
    layout = work.layout
    given = to_float(layout.bucket)
    usual = ZeroImplementation.look_up("bucket", layout.zero_implementation)
    return to_float(minimum(where(isnan(given), usual, given), parameters) * work.scenario.formats.grad)


def has_main_gradients(work: Work) -> Array:
    """Return 1 where GEMMs add weight gradients of 16 bits up in 32 bits themselves, as Megatron-LM's do."""
    f, layout = work.scenario.formats, work.layout
    return to_float((to_float(f.grad) > f.weight) & (to_float(layout.zero) < 3)
                    & ZeroImplementation.MEGATRON.where(layout.zero_implementation))  # fmt: skip


def weight_gradients(work: Work, layers: list[tuple[Array, LayerParameters]], head: Array) -> Array:
    """Return the bytes of 16-bit gradients beside those in 32 bit: of the largest layer of a stage, and of its head.

    Where a GEMM adds to the 32-bit gradient, PyTorch is still given one of the weight's format: Transformer Engine
    keeps a buffer for each shape of weights (its `get_dummy_wgrad`; experts have one shape), Megatron-LM allocates that
    of the output layer while it goes backward, when activations are at their most.
    """
    there = has_main_gradients(work)
    if not somewhere(there):
        return to_float(0.0)
    experts = maximum(local_experts(work.context), 1.0) if work.transformer.has_experts else 1.0
    trained = ((to_float(count) > 0, held.trained) for count, held in layers)
    of_a_layer = largest(present * (part.dense + part.experts / experts) for present, part in trained)
    return there * work.scenario.formats.weight * (of_a_layer + (0.0 if work.context.frozen else head))


def unreduced_gradients(work: Work) -> Array:
    """Return the bytes a parameter of the 16-bit gradients that DeepSpeed keeps beside those in 32 bit."""
    f, layout = work.scenario.formats, work.layout
    both = ZeroImplementation.DEEPSPEED.where(layout.zero_implementation) & (to_float(f.grad) > f.weight)
    return where(both & (to_float(f.accumulate) == 0), f.weight, 0.0)


def flat_gradients(work: Work, parameters: Array, experts: Array) -> Array:
    """Return the bytes of the flat gradients of its partition that DeepSpeed's optimizer makes for a step.

    Those of the partition are copied together, and once more in 32 bit (`single_grad_partition` of its ZeRO 1 and 2,
    with ZeRO 3 a sub-group at a time); an optimizer that adds gradients up in 32 bit has them flat already.
    """
    f, layout = work.scenario.formats, work.layout
    theirs = ZeroImplementation.DEEPSPEED.where(layout.zero_implementation)
    if not somewhere(theirs):
        return to_float(0.0)
    halves = (to_float(f.grad) < 4) & (to_float(f.accumulate) == 0)
    shards = to_float(layout.dp_shard)
    part = parameters / shards + experts / layout.expert_shards
    part = where(to_float(layout.zero) < 3, part, minimum(part, SUB_GROUP))
    return to_float((theirs & halves) * part * (4.0 + to_float(f.grad)))
