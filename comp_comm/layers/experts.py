"""A mixture of experts: router, dispatch of tokens to experts, their networks, combination; and shared experts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from comp_comm.dispatchers import Dispatcher, PermuteFusion, Routing
from comp_comm.formulas.arrays import Array, Numeric, by_code, to_float
from comp_comm.formulas.dispatch import distinct_places, expected_imbalance
from comp_comm.layers.block import (
    Block,
    HeldParameters,
    Kept,
    activation,
    at_least_one,
    kept_numbers,
    mlp_parameters,
)  # fmt: skip
from comp_comm.layers.feed_forward import network_bytes, split_network
from comp_comm.operations.context import Context, any_of
from comp_comm.operations.shapes import Collective, Elementwise, Gemm, Operation, TokenExchange


@dataclass(frozen=True)
class Experts(Block):
    """A mixture of experts, with experts that every token goes through beside it where the model has any."""

    def operations(self, c: Context) -> Sequence[Operation]:
        """Return router, sorting, the experts of this device as grouped GEMMs, and the shared experts."""
        h, taken = c.t.hidden, expert_tokens(c)
        local = local_experts(c)
        width = to_float(c.t.moe_ffn_hidden) / c.layout.etp
        each = taken / np.maximum(local, 1.0)
        sent = PermuteFusion.look_up("moved", c.layout.permute_fusion) * c.split_tokens * top_k(c) * load(c) * h
        shared = self.splits(c)
        return [
            Gemm("router", "2 T_s H E", 1.0, c.split_tokens, h, at_least_one(c.t.experts)),
            Elementwise("permute tokens", "16 B (not fused 40 B) T_s k H", 1.0, sent, sent),
            Gemm("experts up", "2 T k H (1 or 2) F_e", 1.0, each, h, c.gates * width, local),
            activation(c, "experts activation", taken * width),
            Gemm("experts down", "2 T k F_e H", 1.0, each, width, h, local),
            *(split_network(c, "shared expert", _shared_width(c), shared) if any_of(shared) else []),
        ]

    def splits(self, c: Context) -> Numeric:
        """Return 1 where shared experts are split over TP; the others are not."""
        return to_float(to_float(c.t.shared_ffn_hidden) > 0)

    def collectives(self, c: Context) -> Sequence[Collective]:
        """Return the exchange of tokens with their experts, and the gathers inside a split expert (ETP)."""
        return [*exchanges(c), *_gathered(c)]

    def parameters(self, c: Context) -> HeldParameters:
        """Return router and shared experts, and apart from them the experts of this device."""
        shared = _shared_width(c)
        extra = np.where(shared > 0, mlp_parameters(c, shared / c.layout.tp), 0.0)
        router = (to_float(c.t.hidden) + c.t.router_bias) * c.t.experts
        width = to_float(c.t.moe_ffn_hidden) / c.layout.etp
        return HeldParameters(router + extra, (to_float(c.t.experts) / c.layout.ep) * mlp_parameters(c, width))

    def kept(self, c: Context) -> Sequence[Kept]:
        """Return what the networks keep, and the tokens before and after sorting."""
        size, kept = c.formats.activation, kept_numbers(c)
        width = to_float(c.t.moe_ffn_hidden) / c.layout.etp
        experts = expert_tokens(c) * (kept * width + 2.0 * c.t.hidden)
        return [Kept("moe", to_float(size * experts) + network_bytes(c, _shared_width(c)))]


def expert_tokens(c: Context) -> Array:
    """Return the tokens, one for each expert they are sent to, that the fullest device takes in a micro-batch."""
    return to_float(c.layout.etp) * c.split_tokens * top_k(c) * c.t.capacity_factor * load(c)


def load(c: Context) -> Array:
    """Return the tokens of the fullest device of an expert-parallel group over the mean."""
    layout = c.layout
    given, random = to_float(layout.imbalance), Routing.RANDOM.where(layout.routing)
    expected = to_float(1.0)
    if random.any():
        taken = to_float(layout.etp) * c.split_tokens * top_k(c)
        expected = np.where(random, expected_imbalance(taken, layout.ep), expected)
    blank = np.isnan(given)
    uneven = expected if blank.all() else np.where(blank, expected, given)
    return np.where(to_float(layout.ep) > 1, uneven, 1.0) if np.any(uneven != 1) else to_float(1.0)


def local_experts(c: Context) -> Array:
    """Return the experts of a device."""
    return at_least_one(c.t.experts) / c.layout.ep


def top_k(c: Context) -> Array:
    """Return the experts that a token is sent to."""
    return at_least_one(c.t.top_k)


def exchanges(c: Context) -> list[TokenExchange]:
    """Return the exchanges of tokens with their experts, by each way that any point has."""
    spread, code = to_float(to_float(c.layout.ep) > 1), np.asarray(c.layout.ep_dispatch)
    if not any_of(spread):
        return []
    return [exchange for option in Dispatcher if (chosen := option.where(code)).any()
            for exchange in _exchanges(c, option, spread if chosen.all() else spread * chosen)]  # fmt: skip


def _exchanges(c: Context, way: Dispatcher, count: Array) -> list[TokenExchange]:
    """Return dispatch and combine: each is called once forward, and once backward to bring gradients the same way."""
    layout, sms = c.layout, to_float(c.layout.ep_sms)
    limit = to_float(layout.ep_node_limit)
    formula = {Dispatcher.ALL_TO_ALL: "k c T_s H", Dispatcher.ALL_GATHER: "ep T_s H"}.get(way, "D T_s H")
    kinds = ("all_gather", "reduce_scatter") if way is Dispatcher.ALL_GATHER else ("all_to_all", "all_to_all")
    made = []
    for name, kind, inward in zip(("dispatch", "combine"), kinds, (True, False), strict=True):
        token = to_float(c.t.hidden) * c.formats.on_the_way(name)
        made.append(TokenExchange(
            f"expert {name}", formula, count, kind, "ep", c.split_tokens * copies(c, way) * token, count, c.ep_group,
            way, c.split_tokens * np.minimum(c.t.capacity_factor, 1.0) * token, token, top_k(c),
            np.where(np.isnan(limit), np.inf, limit), np.where(np.isnan(sms), way.sms, sms), load(c), inward,
        ))  # fmt: skip
    return made


def copies(c: Context, way: Dispatcher) -> Array:
    """Return how many copies of a token there are after its dispatch, on all devices together.

    The sender's own are among them. A library that sends a token once to a device has no padding to send.
    """
    if way is Dispatcher.ALL_GATHER:
        return to_float(c.layout.ep)
    if way.once:
        return distinct_places(c.layout.ep, top_k(c)) * np.minimum(c.t.capacity_factor, 1.0)
    return top_k(c) * c.t.capacity_factor


def _gathered(c: Context) -> list[Collective]:
    """Return the gathers inside a split expert (ETP): without EP each token once, before it is copied for experts."""
    layout = c.layout
    split = to_float(to_float(layout.etp) > 1)
    if not any_of(split):
        return []
    sent = by_code(np.asarray(layout.ep_dispatch), lambda code: copies(c, Dispatcher.at(code)))
    once = np.where(to_float(layout.ep) > 1, sent, 1.0) * c.split_tokens * c.t.hidden * layout.etp
    return [
        Collective(f"expert {title}", "etp (k c) T_s H", split, kind, "ep", once * c.formats.on_the_way(way), split,
                   c.etp_group)
        for kind, title, way in (("all_gather", "all-gather", "dispatch"),
                                 ("reduce_scatter", "reduce-scatter", "combine"))
    ]  # fmt: skip


def _shared_width(c: Context) -> Array:
    return to_float(c.t.shared_ffn_hidden)
