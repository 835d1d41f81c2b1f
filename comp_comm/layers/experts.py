"""A mixture of experts: router, dispatch of tokens to experts, their networks, combination; and shared experts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from comp_comm.formulas.arrays import Array, Numeric, to_float
from comp_comm.layers.block import (
    Block,
    HeldParameters,
    Kept,
    activation,
    at_least_one,
    biased,
    kept_numbers,
    mlp_parameters,
)  # fmt: skip
from comp_comm.layers.feed_forward import network_bytes, split_network
from comp_comm.operations.context import Context, any_of
from comp_comm.operations.shapes import Collective, Elementwise, Gemm, Operation

PERMUTE_BYTES = 16  # a token and expert: tokens sorted by expert and back, read and written as 16-bit and indices


@dataclass(frozen=True)
class Experts(Block):
    """A mixture of experts, with experts that every token goes through beside it where the model has any."""

    def operations(self, c: Context) -> Sequence[Operation]:
        """Return router, sorting, the experts of this device as grouped GEMMs, and the shared experts."""
        h, taken, inside = c.t.hidden, expert_tokens(c), expert_hidden(c)
        local = local_experts(c)
        width = to_float(c.t.moe_ffn_hidden) / c.layout.etp
        each = taken / np.maximum(local, 1.0)
        sent = PERMUTE_BYTES * c.split_tokens * top_k(c) * inside
        shared = self.splits(c)
        return [
            Gemm("router", "2 T_s H E", 1.0, c.split_tokens, h, at_least_one(c.t.experts)),
            *_latent(c),
            Elementwise("permute tokens", "16 B T_s k H", 1.0, sent, sent),
            Gemm("experts up", "2 T k H (1 or 2) F_e", 1.0, each, inside, c.gates * width, local),
            activation(c, "experts activation", taken * width),
            Gemm("experts down", "2 T k F_e H", 1.0, each, width, inside, local),
            *(split_network(c, "shared expert", _shared_width(c), shared) if any_of(shared) else []),
        ]

    def splits(self, c: Context) -> Numeric:
        """Return 1 where shared experts are split over TP; the others are not."""
        return to_float(to_float(c.t.shared_ffn_hidden) > 0)

    def collectives(self, c: Context) -> Sequence[Collective]:
        """Return the exchange of tokens with their experts, and the gathers inside a split expert (ETP)."""
        layout = c.layout
        sent = c.split_tokens * top_k(c) * c.t.capacity_factor * expert_hidden(c) * c.formats.comm
        spread, split = (to_float(to_float(size) > 1) for size in (layout.ep, layout.etp))
        exchanged: list[Collective] = []
        if any_of(spread):
            exchanged += [
                Collective(f"expert {way}", "k c T_s H", spread, "all_to_all", "ep", sent, spread, c.ep_group)
                for way in ("dispatch", "combine")
            ]
        if any_of(split):
            # Without expert parallelism each token is gathered once, before it is copied for its experts.
            once = c.split_tokens * expert_hidden(c) * c.formats.comm
            gathered = np.where(to_float(layout.ep) > 1, sent, once) * layout.etp
            exchanged += [
                Collective(f"expert {title}", "etp (k c) T_s H", split, kind, "ep", gathered, split, c.etp_group)
                for kind, title in (("all_gather", "all-gather"), ("reduce_scatter", "reduce-scatter"))
            ]
        return exchanged

    def parameters(self, c: Context) -> HeldParameters:
        """Return router and shared experts, and apart from them the experts of this device."""
        shared = _shared_width(c)
        extra = np.where(shared > 0, mlp_parameters(c, shared / c.layout.tp), 0.0)
        router = (to_float(c.t.hidden) + c.t.router_bias) * c.t.experts
        width = to_float(c.t.moe_ffn_hidden) / c.layout.etp
        inside, projected = expert_hidden(c), to_float(c.t.moe_latent_hidden)
        held = router + extra
        if any_of(projected):
            held = held + 2 * c.t.hidden * projected + biased(c, "ffn") * (projected > 0) * (inside + c.t.hidden)
        each = (c.gates + 1) * inside * width + biased(c, "ffn") * (c.gates * width + inside)
        return HeldParameters(held, (to_float(c.t.experts) / c.layout.ep) * each)

    def kept(self, c: Context) -> Sequence[Kept]:
        """Return what the networks keep, and the tokens before and after sorting."""
        size, kept = c.formats.activation, kept_numbers(c)
        width = to_float(c.t.moe_ffn_hidden) / c.layout.etp
        inside = expert_hidden(c)
        experts = expert_tokens(c) * (kept * width + 2.0 * inside)
        if any_of(c.t.moe_latent_hidden):  # the input of the projection back
            experts = experts + c.split_tokens * (to_float(c.t.moe_latent_hidden) > 0) * inside
        return [Kept("moe", to_float(size * experts) + network_bytes(c, _shared_width(c)))]


def expert_tokens(c: Context) -> Array:
    """Return the tokens, one for each expert they are sent to, that a device's experts take in a micro-batch."""
    return to_float(c.layout.etp) * c.split_tokens * top_k(c) * c.t.capacity_factor


def local_experts(c: Context) -> Array:
    """Return the experts of a device."""
    return at_least_one(c.t.experts) / c.layout.ep


def expert_hidden(c: Context) -> Array:
    """Return the dimension of a token in its experts: hidden, or that of a latent."""
    latent = to_float(c.t.moe_latent_hidden)
    return np.where(latent > 0, latent, c.t.hidden) if np.any(latent > 0) else to_float(c.t.hidden)


def _latent(c: Context) -> list[Operation]:
    """Return the projections to the latent of experts and back, where there is one (arXiv:2512.20848, LatentMoE)."""
    latent = to_float(c.t.moe_latent_hidden)
    times = to_float(latent > 0)
    if not any_of(times):
        return []
    inside, h = at_least_one(latent), c.t.hidden
    return [Gemm("experts' latent", "2 T_s H L", times, c.split_tokens, h, inside),
            Gemm("experts' latent back", "2 T_s L H", times, c.split_tokens, inside, h)]  # fmt: skip


def top_k(c: Context) -> Array:
    """Return the experts that a token is sent to."""
    return at_least_one(c.t.top_k)


def _shared_width(c: Context) -> Array:
    return to_float(c.t.shared_ffn_hidden)
