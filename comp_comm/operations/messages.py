"""What devices send each other: collectives of an average layer, at the ends of the model, between stages, per step."""

from __future__ import annotations

import numpy as np

from comp_comm.formulas.arrays import Array, Numeric, to_float
from comp_comm.layout import REPLICAS, STAGE
from comp_comm.operations.context import Context, any_of
from comp_comm.operations.parameters import Parameters
from comp_comm.operations.shapes import Message, Peers
from comp_comm.words import CONTEXT_COMMS

RING, GATHER, SWAP = range(len(CONTEXT_COMMS))
FP32 = 4.0
LOSS_CALLS = 3  # the largest logit, the sum of exponentials, and the logit of the right token


def layer_messages(c: Context) -> list[Message]:
    """Return the collectives of an average layer and micro-batch."""
    return [*_tensor_parallel(c), *_context_parallel(c), *_expert_parallel(c)]


def _tensor_parallel(c: Context) -> list[Message]:
    """Return TP's: an all-reduce after each block, or a gather before and a scatter after it (sequence parallelism).

    Each is done once forward and once backward (Megatron-LM: 4 of m = b s H a layer); blocks side by side are summed
    before they are reduced. The experts of a mixture have their own (see `_expert_parallel`).
    """
    if not any_of(to_float(c.layout.tp) - 1):
        return []
    blocks = 2.0 - to_float(c.t.parallel_blocks)
    if c.t.has_experts:
        blocks = 2.0 - c.expert_share * (to_float(c.t.shared_ffn_hidden) == 0)
    tokens = c.tokens
    if c.t.has_encoder:
        blocks = 3.0 * (1 - c.encoder_share) + 2.0 * c.encoder_share
        tokens = (3.0 * (1 - c.encoder_share) * c.tokens + 2.0 * c.encoder_share * c.encoder_tokens) / blocks
    message = tokens * c.t.hidden * c.formats.comm
    here = to_float(to_float(c.layout.tp) > 1)
    return _reduced(c, "layer", message, blocks * here)


def _reduced(c: Context, name: str, message: Array, times: Array) -> list[Message]:
    """Return an all-reduce forward and backward, or gather and scatter under sequence parallelism."""
    split = to_float(c.layout.sp) * times
    whole = times - split
    found = []
    if any_of(whole):
        found.append(Message(f"{name} all-reduce", "b s H", whole, "all_reduce", "tp", message, whole, c.tp_peers))
    if any_of(split):
        for kind, title in (("all_gather", "all-gather"), ("reduce_scatter", "reduce-scatter")):
            found.append(Message(f"{name} {title}", "b s H", split, kind, "tp", message, split, c.tp_peers))
    return found


def _context_parallel(c: Context) -> list[Message]:
    """Return CP's: keys and values round a ring, gathered (Llama 3), or heads for tokens (Ulysses).

    Round the ring, gradients of keys and values travel with them backward, so twice the bytes; a gather's gradients are
    scattered back.
    """
    cp, way = to_float(c.layout.cp), np.asarray(c.layout.cp_comm)
    if not any_of(cp - 1):
        return []
    here = to_float(cp > 1)
    pair = c.tokens * c.kv_heads * (c.key_dim + c.t.v_head_dim) * c.formats.comm
    ring, gather, swap = (to_float(way == number) * here for number in (RING, GATHER, SWAP))
    found = []
    if any_of(ring):
        steps = ring * (cp - 1)
        found.append(Message("pass keys and values", "T kv (d + d_v) / tp", steps, "send", "cp", pair, 2 * steps,
                             c.cp_peers))  # fmt: skip
    if any_of(gather):
        whole = pair * cp
        found += [
            Message("gather keys and values", "s b kv (d + d_v) / tp", gather, "all_gather", "cp", whole, gather,
                    c.cp_peers),
            Message("scatter their gradients", "s b kv (d + d_v) / tp", 0.0 * gather, "reduce_scatter", "cp", whole,
                    gather, c.cp_peers),
        ]  # fmt: skip
    if any_of(swap):
        each = c.tokens * c.formats.comm
        tensors = {"Q": c.heads * c.key_dim, "K": c.kv_heads * c.key_dim, "V": c.kv_heads * c.t.v_head_dim,
                   "output": c.heads * c.t.v_head_dim}  # fmt: skip
        found += [Message(f"swap {name}", "T a d / tp", swap, "all_to_all", "cp", each * width, swap, c.cp_peers)
                  for name, width in tensors.items()]  # fmt: skip
    return found


def _expert_parallel(c: Context) -> list[Message]:
    """Return EP's: tokens to their experts and back, and gathered and scattered inside a split expert (ETP)."""
    if not c.t.has_experts:
        return []
    share, layout = to_float(c.expert_share), c.layout
    sent = c.split_tokens * c.t.top_k * c.t.capacity_factor * c.t.hidden * c.formats.comm
    found = []
    spread = to_float(share * to_float(to_float(layout.ep) > 1))
    if any_of(spread):
        found += [
            Message(f"expert {way}", "k c T_s H", spread, "all_to_all", "ep", sent, spread, c.ep_peers)
            for way in ("dispatch", "combine")
        ]
    split = to_float(share * to_float(to_float(layout.etp) > 1))
    if any_of(split):
        # Without expert parallelism each token is gathered once, before it is copied for its experts.
        once = c.split_tokens * c.t.hidden * c.formats.comm
        whole = np.where(to_float(layout.ep) > 1, sent, once) * layout.etp
        found += [
            Message(f"expert {title}", "etp (k c) T_s H", split, kind, "ep", whole, split, c.etp_peers)
            for kind, title in (("all_gather", "all-gather"), ("reduce_scatter", "reduce-scatter"))
        ]
    return found


def embedding_messages(c: Context) -> list[Message]:
    """Return TP's collectives of the embedding: its output is summed over the parts of the vocabulary."""
    if not (c.has_vocab and any_of(to_float(c.layout.tp) - 1)):
        return []
    message = c.tokens * c.t.hidden * c.formats.comm
    times = to_float((to_float(c.layout.tp) > 1) & (to_float(c.t.vocab) > 0))
    split, none = to_float(c.layout.sp) * times, 0.0 * times
    rows = (("all-reduce", "all_reduce", times - split, none), ("reduce-scatter", "reduce_scatter", split, none),
            ("gradient all-gather", "all_gather", none, split))  # fmt: skip
    return [Message(f"embedding {title}", "b s H", forward, kind, "tp", message, backward, c.tp_peers)
            for title, kind, forward, backward in rows if any_of(forward + backward)]  # fmt: skip


def logit_messages(c: Context) -> list[Message]:
    """Return TP's collectives of logits and loss: of the hidden state backward, and of three numbers a token."""
    if not (c.has_vocab and any_of(to_float(c.layout.tp) - 1)):
        return []
    times = (to_float(c.layout.tp) > 1) * (to_float(c.t.vocab) > 0) * (1.0 + to_float(c.t.mtp_layers))
    message = c.tokens * c.t.hidden * c.formats.comm
    split, none = to_float(c.layout.sp) * times, 0.0 * times
    rows = (("logits gradient all-reduce", "all_reduce", none, times - split),
            ("logits all-gather", "all_gather", split, none),
            ("logits gradient reduce-scatter", "reduce_scatter", none, split))  # fmt: skip
    found = [Message(title, "b s H", forward, kind, "tp", message, backward, c.tp_peers)
             for title, kind, forward, backward in rows if any_of(forward + backward)]  # fmt: skip
    loss = c.tokens * FP32
    return [*found, Message("loss all-reduce", "4 B T", LOSS_CALLS * times, "all_reduce", "tp", loss, none, c.tp_peers)]


def stage_messages(c: Context) -> list[Message]:
    """Return the sends over a boundary of two stages in a micro-batch: one of every chunk, forward and backward.

    Without sequence parallelism every device of a TP group has the whole message: each sends its part, and the parts
    are gathered on arrival (Megatron-LM's scatter-gather), unless ``scatter_gather`` is off.
    """
    if not any_of(to_float(c.layout.pp) - 1):
        return []
    times = to_float(to_float(c.layout.vpp) * (to_float(c.layout.pp) > 1))
    whole = c.split_tokens * c.t.hidden * c.formats.comm
    scattered = (to_float(c.layout.sp) == 0) & (to_float(c.layout.tp) > 1) & (np.asarray(c.layout.scatter_gather) > 0)
    sent = np.where(scattered, whole / c.layout.tp, whole) if scattered.any() else whole
    found = [Message("stage boundary", "b s H", times, "send", "pp", sent, times,
                     Peers(c.layout.pp, c.layout.stride("pp")))]  # fmt: skip
    if scattered.any():
        gathers = to_float(times * scattered)
        found.append(Message("gather after a boundary", "b s H", gathers, "all_gather", "pp", whole, gathers,
                             c.tp_peers))  # fmt: skip
    return found


def state_messages(c: Context, held: Parameters, layers: Array, ends: Array, steps: Numeric) -> list[Message]:
    """Return the collectives of gradients and weights of one step, for a stage of ``layers`` and ``ends`` parameters.

    A step has ``steps`` micro-batches.

    ZeRO 0 all-reduces gradients once. ZeRO 1 scatters them and gathers weights, once; ZeRO 2 scatters after every
    micro-batch; ZeRO 3 gathers weights, forward and backward, and scatters, every micro-batch and layer by layer. With
    fewer shards than replicas (HSDP), the shards' gradients are all-reduced over the others, once. ``count`` is calls
    of a whole step.
    """
    layout = c.layout
    group = (layout.replicas, to_float(layout.dp_shard), to_float(1.0))
    found = _states(c, "", layers, layers * held.layer + ends, steps, REPLICAS, group)
    if c.t.has_experts:
        shards = np.minimum(layout.dp_shard, layout.expert_replicas)
        group = (layout.expert_replicas, shards, to_float(layout.ep) * layout.etp)
        found += _states(c, "expert ", layers, layers * held.layer_experts, steps, STAGE, group)
    return found


def _states(c: Context, name: str, layers: Array, parameters: Array, steps: Numeric, over: tuple[str, ...],
            group: tuple[Array, Array, Array]) -> list[Message]:  # fmt: skip
    """Return the collectives of some parameters: their replicas, shards, and how far apart those are in ``over``."""
    replicas, shards, apart = group
    if not any_of(replicas - 1):
        return []
    zero = to_float(c.layout.zero)
    # ZeRO 3 sends a layer at a time; what is beside the layers is spread over them. Buckets are equally large.
    parts = np.where(zero >= 3, layers, 1.0) if np.any(zero >= 3) else to_float(1.0)
    bucket = to_float(c.layout.bucket)
    if not np.isnan(bucket).all():
        parts = np.where(np.isnan(bucket), parts, parts * np.ceil(parameters / parts / bucket))
    gradients, weights = (parameters * to_float(size) / parts for size in (c.formats.grad, c.formats.weight))
    sharded = (zero >= 1) * (shards > 1) * parts
    across = replicas / shards
    layout = c.layout
    everyone = Peers(replicas, parts=layout.spread(over, replicas, apart))
    sharing = Peers(shards, parts=layout.spread(over, shards, apart))
    others = Peers(across, parts=layout.spread(over, across, apart * shards))
    rows = (
        ("gradient all-reduce", "all_reduce", gradients, (zero == 0) * (replicas > 1) * parts, everyone),
        ("gradient reduce-scatter", "reduce_scatter", gradients, sharded * np.where(zero >= 2, steps, 1.0), sharing),
        ("weight all-gather", "all_gather", weights, sharded * np.where(zero >= 3, 2 * steps, 1.0), sharing),
        ("all-reduce over replicas", "all_reduce", gradients / shards, (zero >= 1) * (across > 1) * parts, others),
    )  # fmt: skip
    return [Message(f"{name}{title}", "p P", calls, kind, "dp", message, to_float(0.0), peers)
            for title, kind, message, calls, peers in rows if any_of(calls)]  # fmt: skip


def world_messages(c: Context) -> list[Message]:
    """Return the all-reduce of the gradients' norm over all devices, once a step."""
    if not any_of(to_float(c.layout.gpus) - 1):
        return []
    times = to_float(to_float(c.layout.gpus) > 1)
    none = 0.0 * times
    return [Message("gradient norm", "4 B", times, "all_reduce", "world", FP32, none, Peers(c.layout.gpus, 1.0))]
