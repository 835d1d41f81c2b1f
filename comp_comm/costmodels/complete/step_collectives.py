"""Small collectives that a step has beside gradients and weights, each once: a few numbers, whose latency counts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from comp_comm.choices import MasterWeights, Norm, Position, Schedule, SequenceInputs
from comp_comm.costmodels.complete.states.replicas import dense_replicas
from comp_comm.costmodels.work import Work
from comp_comm.dispatchers import LoadBalancing
from comp_comm.formulas.arrays import (
    ZERO,
    Array,
    Numeric,
    add_up,
    everywhere,
    largest,
    maximum,
    somewhere,
    to_float,
    where,
)
from comp_comm.group import Group
from comp_comm.layers.attention_residual import residual_tensors
from comp_comm.layers.context_parallel import FP32
from comp_comm.layers.ends import end_parameters
from comp_comm.layers.experts import Experts
from comp_comm.layers.kind import LayerKind
from comp_comm.layers.shared_block import shared_norms
from comp_comm.layers.tensor_parallel import PARTIAL
from comp_comm.operations.context import Context, any_of
from comp_comm.operations.shapes import Collective

TENSOR = to_float(1.0)  # the output layer, and the embedding


def _largest_of_stages(
    work: Work, each: Callable[[LayerKind, Context], Array], first: Array = ZERO, last: Array = ZERO
) -> Array:
    """Return the most that any stage has of something that a layer of each kind has, and both ends of the model."""
    sizes = [each(kind, kind.context(work.context)) for kind in work.pattern.kinds]
    return largest(
        add_up((*(count * size for count, size in zip(stage.layer_counts, sizes, strict=True)),
                first * stage.embedding, last * stage.head))
        for stage in work.stages.candidates
    )  # fmt: skip


def tied_collectives(c: Context, vocab: Array) -> list[Collective]:
    """Return the all-reduce of the gradients of tied embeddings between the first and the last stage, once a step.

    Megatron-LM reduces them whole, in the format of other gradients, after the last backward pass. Schedules that have
    embedding and loss on one stage have no copy.
    """
    layout = c.layout
    apart = (Schedule.look_up("turns", layout.schedule) == 1) & (layout.copies == 1) & (to_float(layout.pp) > 1)
    times = to_float(apart & (to_float(c.t.tied) > 0) & (to_float(c.t.vocab) > 0) & (not c.frozen))
    if not any_of(times):
        return []
    ends = Group(where(times > 0, 2.0, 1.0), layout.stride("pp") * maximum(to_float(layout.pp) - 1, 1.0))
    size = vocab / layout.tp * c.t.hidden * c.formats.grad
    name = "tied embedding all-reduce"
    return [
        Collective(
            name,
            "p H V / tp",
            count=times,
            kind="all_reduce",
            parallelism="pp",
            message_bytes=size,
            backward_count=0.0 * times,
            group=ends,
        )
    ]


def partial_gradients(work: Work) -> list[Collective]:
    """Return the all-reduce over TP of gradients that each of its devices has made of its part of the sequence.

    Megatron-LM sums them in one message, when all micro-batches are done (`_allreduce_layernorm_grads`): of norms,
    biases after a reduction, routers, projections down to latents, queries of attention residuals, what a shared block
    makes projected. PyTorch's DTensor does so layer by layer.
    """
    c = work.context
    layout = c.layout
    apart = SequenceInputs.AGAIN.where(layout.sequence_inputs) & (to_float(layout.tp) > 1)
    split = to_float(apart * to_float(layout.sp))
    if not any_of(split):
        return []
    held = _largest_of_stages(
        work,
        lambda kind, context: kind.tp_replicated(context).parameters,
        first=ZERO if c.frozen else shared_norms(c),
        last=ZERO if c.frozen else end_parameters(c, work.vocab).final_norm,
    )
    size = held * c.formats.grad
    return [
        Collective(
            PARTIAL,
            "g P of norms",
            count=split,
            kind="all_reduce",
            parallelism="tp",
            message_bytes=size,
            backward_count=0.0 * split,
            group=c.tp_group,
        )
    ]


def expert_loads(work: Work) -> list[Collective]:
    """Return the all-reduce of the tokens of every expert of a stage, by which the router's bias is moved.

    Over all devices of a stage, once a step (Megatron-LM's `get_updated_expert_bias`, torchtitan, DeepSeek-V3).
    """
    c = work.context
    layout = c.layout
    devices = to_float(layout.gpus) / layout.pp
    counts = LoadBalancing.BIAS.where(c.balancing) & (devices > 1) if c.t.has_experts else np.asarray(False)
    if not somewhere(counts):
        return []
    layers = _largest_of_stages(
        work, lambda kind, _: to_float(any(isinstance(block, Experts) for block in kind.blocks))
    )
    times = to_float(counts & (layers > 0))
    parts = tuple((to_float(getattr(layout, name)), layout.stride(name)) for name in ("tp", "cp", "dp"))
    group = Group(devices, parts=parts)
    size = FP32 * layers * c.t.experts
    return [
        Collective(
            "expert load all-reduce",
            "4 B E layers",
            count=times,
            kind="all_reduce",
            parallelism="dp",
            message_bytes=size,
            backward_count=0.0 * times,
            group=group,
        )
    ]


def gradient_norm(work: Work) -> list[Collective]:
    """Return the all-reduces of the norm by which gradients are clipped, once a step.

    Megatron-LM's is a number, over the devices that hold parts of the model, and with ZeRO over all; that of experts
    shared out is one more. PyTorch's (`clip_grad_norm_` of sharded tensors) has a number for each tensor, over those
    that shard it and over TP, and one over stages.
    """
    c = work.context
    layout = c.layout
    tp, pp, gpus = (to_float(size) for size in (layout.tp, layout.pp, layout.gpus))
    torch = MasterWeights.SHARDS.where(layout.master_weights)
    theirs = to_float(torch)
    sharded = to_float(layout.zero) >= 1
    reductions: list[Collective] = []

    def add(name: str, label: str, times: Numeric, size: Numeric, group: Group) -> None:
        count = to_float(times) * (to_float(group.size) > 1)
        if any_of(count):
            reductions.append(
                Collective(
                    name,
                    "4 B",
                    count=count,
                    kind="all_reduce",
                    parallelism=label,
                    message_bytes=to_float(size),
                    backward_count=0.0 * count,
                    group=group,
                )
            )

    if not everywhere(torch):
        times = 1.0 + (to_float(c.t.experts) > 0) * (to_float(layout.ep) > 1)
        times = times * to_float(~torch)
        # Two groups, not one by ZeRO stage: neither then has an axis of stages, which a search has many points along.
        add("gradient norm", "world", times * sharded, FP32, Group(gpus))
        parts = ((tp, layout.stride("tp")), (pp, layout.stride("pp")))
        add("gradient norm", "world", times * ~sharded, FP32, Group(tp * pp, parts=parts))
    if somewhere(torch):
        ends = Norm.look_up("weights", c.t.norm) + residual_tensors(c, 1.0) + (to_float(c.t.tied) == 0) * TENSOR
        first = TENSOR * (1.0 + Position.LEARNED.where(c.t.position))
        size = FP32 * _largest_of_stages(work, lambda kind, context: kind.tensors(context), first, ends)
        add("gradient norms of tensors", "dp", theirs, size, dense_replicas(layout).groups(layout).shards)
        add("gradient norms over TP", "tp", theirs, size, c.tp_group)
        add("gradient norm over stages", "pp", theirs, FP32, layout.group("pp"))
    return reductions


def step_collectives(work: Work) -> list[Collective]:
    """Return what is sent once a step beside states and the norm of gradients."""
    return [*tied_collectives(work.context, work.vocab), *partial_gradients(work), *expert_loads(work)]
