"""Tokens of a mixture of experts: how many a device takes, and how they come to their experts and back."""

from __future__ import annotations

import numpy as np

from comp_comm.choices import SequenceInputs, Switch
from comp_comm.dispatchers import Dispatcher, LoadBalancing, Routing
from comp_comm.formulas.arrays import Array, by_code, everywhere, isnan, minimum, somewhere, to_float, where
from comp_comm.formulas.dispatch import distinct_places, expected_imbalance
from comp_comm.layers.block import at_least_one
from comp_comm.layout import Layout
from comp_comm.operations.context import Context, any_of
from comp_comm.operations.shapes import Collective, TokenExchange

COUNT = 8.0  # bytes of a count of tokens


def expert_tokens(c: Context) -> Array:
    """Return the tokens, one for each expert they are sent to, that the fullest device takes in a micro-batch."""
    return to_float(c.layout.etp) * c.split_tokens * top_k(c) * c.t.capacity_factor * load_imbalance(c)


def load_imbalance(c: Context) -> Array:
    """Return the tokens of the fullest device of an expert-parallel group over the mean."""
    layout = c.layout
    given, random = to_float(layout.imbalance), Routing.RANDOM.where(layout.routing)
    expected = to_float(1.0)
    if somewhere(random):
        taken = to_float(layout.etp) * c.split_tokens * top_k(c)
        expected = where(random, expected_imbalance(taken, layout.ep), expected)
    blank = isnan(given)
    uneven = expected if everywhere(blank) else where(blank, expected, given)
    return where(to_float(layout.ep) > 1, uneven, 1.0) if somewhere(uneven != 1) else to_float(1.0)


def experts_with_dense(layout: Layout) -> Array:
    """Return 1 where experts are on the devices that all else is on: no expert parallelism, and split over TP alike."""
    return to_float((to_float(layout.ep) == 1) & (to_float(layout.etp) == layout.tp))


def experts_split_over_tp(c: Context) -> Array:
    """Return 1 where a mixture is split over TP as other networks are, with their gather of its input.

    So torchtitan has it without expert parallelism: every device routes all tokens through its part of every expert.
    Megatron-LM routes each device's own tokens, and gathers them for experts that are split.
    """
    layout = c.layout
    kept = SequenceInputs.KEPT.where(layout.sequence_inputs) & Switch.ON.where(layout.sp) & (to_float(layout.tp) > 1)
    return kept * experts_with_dense(layout)


def routed_tokens(c: Context) -> Array:
    """Return the tokens that a device's router sees."""
    all_of_them = experts_split_over_tp(c)
    return where(all_of_them > 0, c.tokens, c.split_tokens) if any_of(all_of_them) else c.split_tokens


def local_experts(c: Context) -> Array:
    """Return the experts of a device."""
    return at_least_one(c.t.experts) / c.layout.ep


def expert_hidden(c: Context) -> Array:
    """Return the dimension of a token in its experts: hidden, or that of a latent."""
    latent = to_float(c.t.moe_latent_hidden)
    return where(latent > 0, latent, c.t.hidden) if somewhere(latent > 0) else to_float(c.t.hidden)


def top_k(c: Context) -> Array:
    """Return the experts that a token is sent to."""
    return at_least_one(c.t.top_k)


def token_collectives(c: Context) -> list[Collective]:
    """Return the exchange of tokens with their experts, with their counts or a map of where each goes, and a split
    expert's gathers (ETP)."""
    return [*_token_counts(c), *_routing_map(c), *exchanges(c), *_expert_tensor_parallel(c), *_router_gradients(c)]


def _token_counts(c: Context) -> list[Collective]:
    """Return the counts of tokens: of every expert to those that have them, and summed for a loss that balances them.

    With an all-to-all every device must know how many tokens come; a library's kernels tell each other.
    """
    layout, size = c.layout, COUNT * at_least_one(c.t.experts)
    sends_counts = to_float((to_float(layout.ep) > 1) & Dispatcher.ALL_TO_ALL.where(layout.ep_dispatch))
    devices = to_float(layout.tp) * layout.cp
    summed = to_float((devices > 1) & LoadBalancing.LOSS.where(c.balancing))
    rows = (("expert token counts", "all_to_all", "ep", sends_counts, c.ep_group),
            ("expert load all-reduce of a micro-batch", "all_reduce", "tp", summed, layout.sequence_group))  # fmt: skip
    return [
        Collective(
            name,
            "8 B E",
            count=times,
            kind=kind,
            parallelism=label,
            message_bytes=size,
            backward_count=0.0 * times,
            group=group,
        )
        for name, kind, label, times, group in rows
        if any_of(times)
    ]


def exchanges(c: Context) -> list[TokenExchange]:
    """Return the exchanges of tokens with their experts, by each way that any point has."""
    parallel, code = to_float(to_float(c.layout.ep) > 1), np.asarray(c.layout.ep_dispatch)
    if not any_of(parallel):
        return []
    return [exchange for option in Dispatcher if somewhere(chosen := option.where(code))
            for exchange in _exchanges(c, option, parallel if everywhere(chosen) else parallel * chosen)]  # fmt: skip


def _routing_map(c: Context) -> list[Collective]:
    """Return the gather of which experts each token of the group goes to, where the dispatcher needs it."""
    code, ep = np.asarray(c.layout.ep_dispatch), to_float(c.layout.ep)
    map_bytes = Dispatcher.look_up("routed", code) * (ep > 1)  # of a token and expert
    if not any_of(map_bytes):
        return []
    message = map_bytes * ep * c.split_tokens * c.t.experts
    return [
        Collective(
            "routing map all-gather",
            "ep T_s E",
            count=to_float(map_bytes > 0),
            kind="all_gather",
            parallelism="ep",
            message_bytes=message,
            backward_count=to_float(0.0),
            group=c.ep_group,
        )
    ]


def _exchanges(c: Context, way: Dispatcher, count: Array) -> list[TokenExchange]:
    """Return dispatch and combine: each is called once forward, and once backward to bring gradients the same way.

    Weights of the router go to experts beside their tokens, and their gradients come back beside those of the tokens;
    the latter are counted with the dispatch, too, so that its calls are alike.
    """
    layout, sms = c.layout, to_float(c.layout.ep_sms)
    limit = to_float(layout.ep_node_limit)
    formula = {Dispatcher.ALL_TO_ALL: "k c T_s H", Dispatcher.ALL_GATHER: "ep T_s H"}.get(way, "D T_s H")
    kinds = ("all_gather", "reduce_scatter") if way is Dispatcher.ALL_GATHER else ("all_to_all", "all_to_all")
    made = []
    for name, kind, to_experts in zip(("dispatch", "combine"), kinds, (True, False), strict=True):
        token = expert_hidden(c) * c.formats.on_the_way(name)
        made.append(
            TokenExchange(
                f"expert {name}",
                formula,
                count=count,
                kind=kind,
                parallelism="ep",
                message_bytes=c.split_tokens * copies(c, way) * token,
                backward_count=count,
                group=c.ep_group,
                dispatcher=way,
                all_tokens_bytes=c.split_tokens * minimum(c.t.capacity_factor, 1.0) * token,
                token_bytes=token,
                top_k=top_k(c),
                node_limit=where(isnan(limit), np.inf, limit),
                sms=where(isnan(sms), way.sms, sms),
                imbalance=load_imbalance(c),
                to_experts=to_experts,
                expert_groups=c.t.router_groups,
                group_top_k=where(isnan(limit), c.t.router_group_topk, c.t.router_groups),
                router_bytes=to_experts * way.weight * local_experts(c),
            )
        )
    return made


def copies(c: Context, way: Dispatcher) -> Array:
    """Return how many copies of a token there are after its dispatch, on all devices together.

    The sender's own are among them. A library that sends a token once to a device has no padding to send.
    """
    if way is Dispatcher.ALL_GATHER:
        return to_float(c.layout.ep)
    if way.once:
        return distinct_places(c.layout.ep, top_k(c)) * minimum(c.t.capacity_factor, 1.0)
    return top_k(c) * c.t.capacity_factor


def _router_gradients(c: Context) -> list[Collective]:
    """Return the sum of the gradients of the router's weights, of which each device makes a part."""
    partial = experts_split_over_tp(c)
    if not any_of(partial):
        return []
    message = c.tokens * top_k(c) * c.formats.activation
    return [
        Collective(
            "router weights' gradient all-reduce",
            "b T k",
            count=0.0 * partial,
            kind="all_reduce",
            parallelism="tp",
            message_bytes=message,
            backward_count=partial,
            group=c.tp_group,
        )
    ]


def _expert_tensor_parallel(c: Context) -> list[Collective]:
    """Return the gathers inside a split expert (ETP): without EP each token once, before it is copied for experts."""
    layout = c.layout
    split = to_float(to_float(layout.etp) > 1) * (1.0 - experts_split_over_tp(c))
    if not any_of(split):
        return []
    sent = by_code(np.asarray(layout.ep_dispatch), lambda code: copies(c, Dispatcher.at(code)))
    once = where(to_float(layout.ep) > 1, sent, 1.0) * c.split_tokens * expert_hidden(c) * layout.etp
    return [
        Collective(
            f"expert {title}",
            "etp (k c) T_s H",
            count=split,
            kind=kind,
            parallelism="ep",
            message_bytes=once * c.formats.on_the_way(way),
            backward_count=split,
            group=c.etp_group,
        )
        for kind, title, way in (
            ("all_gather", "all-gather", "dispatch"),
            ("reduce_scatter", "reduce-scatter", "combine"),
        )
    ]
