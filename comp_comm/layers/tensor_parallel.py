"""Collectives of tensor parallelism around what is split over it."""

from __future__ import annotations

import numpy as np

from comp_comm.choices import Norm, SequenceInputs
from comp_comm.formulas.arrays import Array, to_float
from comp_comm.kernel_choices import CrossEntropy
from comp_comm.layers.attention_residual import residual_tensors
from comp_comm.layers.block import TpReplicated
from comp_comm.operations.context import Context, any_of
from comp_comm.operations.shapes import Collective, SequenceGather

GATHER, SCATTER, ALL_REDUCE = "layer all-gather", "layer reduce-scatter", "layer all-reduce"


def over_tp(
    c: Context, name: str, kind: str, message: Array, forward: Array, backward: Array, formula: str = "b s H"
) -> Collective:
    """Return a collective over TP, of the hidden state unless the formula says otherwise, with its calls each way."""
    return Collective(
        name,
        formula,
        count=forward,
        kind=kind,
        parallelism="tp",
        message_bytes=message,
        backward_count=backward,
        group=c.tp_group,
    )


def _gather_over_tp(
    c: Context, name: str, message: Array, forward: Array, backward: Array, overlapped: Array
) -> SequenceGather:
    """Return an all-gather of the sequence, of whose calls some run beside the GEMM of the input's gradient."""
    return SequenceGather(
        name,
        "b s H",
        count=forward,
        kind="all_gather",
        parallelism="tp",
        message_bytes=message,
        backward_count=backward,
        group=c.tp_group,
        overlapped_count=overlapped,
    )


def tp_collectives(c: Context, name: str, message: Array, count: Array, own_gathers: Array) -> list[Collective]:
    """Return an all-reduce forward and backward, or gather and scatter under sequence parallelism.

    What is gathered are operands of GEMMs, in the recipe's format where they have one (Transformer Engine, torchtitan).
    ``own_gathers`` of the blocks gather something of their own forward, and scatter its gradient backward. For the
    gradients of weights inputs are gathered once more, while those of inputs are made (Megatron-LM's layers), or they
    were kept.
    """
    split = to_float(c.layout.sp) * count
    reduced, gathers = count - split, split - to_float(c.layout.sp) * own_gathers
    collectives: list[Collective] = []
    if any_of(reduced):
        collectives.append(over_tp(c, f"{name} all-reduce", "all_reduce", message, forward=reduced, backward=reduced))
    if any_of(split):
        operands = message * (c.formats.operand_comm / to_float(c.formats.comm))
        again = gathers * SequenceInputs.AGAIN.where(c.layout.sequence_inputs)
        collectives += [
            _gather_over_tp(
                c, f"{name} all-gather", operands, forward=gathers, backward=split + again, overlapped=again
            ),
            over_tp(c, f"{name} reduce-scatter", "reduce_scatter", message, forward=split, backward=gathers),
        ]
    return collectives


PARTIAL = "partial gradients all-reduce"


def partial_gradients(c: Context, shared: TpReplicated, many: Array) -> list[Collective]:
    """Return the all-reduces of gradients that each device has made of its part of the sequence, a tensor each.

    So DTensor does, after every backward pass, in the format of compute, but for biases, which it adds to whole sums;
    Megatron-LM once a step (`comp_comm.costmodels.complete.step_collectives`).
    """
    kept = many * c.layout.sp * SequenceInputs.KEPT.where(c.layout.sequence_inputs)
    if not any_of(kept):
        return []
    tensors = shared.tensors - shared.bias_tensors
    calls = to_float(kept * tensors)
    size = (shared.parameters - shared.biases) / np.maximum(tensors, 1.0) * c.formats.weight
    return [
        Collective(
            PARTIAL,
            "p P of norms",
            count=0.0 * calls,
            kind="all_reduce",
            parallelism="tp",
            message_bytes=size,
            backward_count=calls,
            group=c.tp_group,
        )
    ]


def embedding_collectives(c: Context) -> list[Collective]:
    """Return TP's collectives of the embedding: its output is summed over the parts of the vocabulary."""
    if not (c.has_vocab and any_of(to_float(c.layout.tp) - 1)):
        return []
    message = c.tokens * c.t.hidden * c.formats.comm
    times = to_float((to_float(c.layout.tp) > 1) & (to_float(c.t.vocab) > 0))
    split, none = to_float(c.layout.sp) * times, 0.0 * times
    rows = (("all-reduce", "all_reduce", times - split, none), ("reduce-scatter", "reduce_scatter", split, none),
            ("gradient all-gather", "all_gather", none, split))  # fmt: skip
    return [over_tp(c, f"embedding {title}", kind, message, forward, backward)
            for title, kind, forward, backward in rows if any_of(forward + backward)]  # fmt: skip


FP32 = 4.0
LOSS_NUMBERS = 3.0  # of a token: the largest logit, the sum of exponentials, and the logit of the right token
LOSS = "loss all-reduce"


def head_collectives(c: Context) -> list[Collective]:
    """Return TP's collectives of logits and loss: of the hidden state backward, and of three numbers a token."""
    if not (c.has_vocab and any_of(to_float(c.layout.tp) - 1)):
        return []
    times = (to_float(c.layout.tp) > 1) * (to_float(c.t.vocab) > 0) * (1.0 + to_float(c.t.mtp_layers))
    message = c.tokens * c.t.hidden * c.formats.comm
    split, none = to_float(c.layout.sp) * times, 0.0 * times
    again = split * SequenceInputs.AGAIN.where(c.layout.sequence_inputs)
    rows = (("logits gradient all-reduce", "all_reduce", none, times - split),
            ("logits gradient reduce-scatter", "reduce_scatter", none, split))  # fmt: skip
    collectives = [over_tp(c, title, kind, message, forward, backward)
                   for title, kind, forward, backward in rows if any_of(forward + backward)]  # fmt: skip
    if any_of(split):
        gather = _gather_over_tp(c, "logits all-gather", message, forward=split, backward=again, overlapped=again)
        collectives = [gather, *collectives]
    # One after the other; Megatron-LM's fused loss has the last two in one message.
    calls = np.where(CrossEntropy.FUSED_NATIVE.where(c.layout.loss), 2.0, LOSS_NUMBERS)
    numbers = LOSS_NUMBERS / calls * c.tokens * FP32
    loss = Collective(
        LOSS,
        "4 B T",
        count=calls * times,
        kind="all_reduce",
        parallelism="tp",
        message_bytes=numbers,
        backward_count=none,
        group=c.tp_group,
    )
    tensors = Norm.look_up("weights", c.t.norm) + residual_tensors(c, 1.0)
    norm = TpReplicated(to_float(tensors * c.t.hidden), tensors)
    return [*collectives, loss, *([] if c.frozen else partial_gradients(c, norm, to_float(times > 0)))]
