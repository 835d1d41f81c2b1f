"""A mixture of experts: router, dispatch of tokens to experts, their networks, combination; and shared experts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from comp_comm.choices import CudaGraph
from comp_comm.formulas.arrays import Array, Numeric, to_float
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
from comp_comm.operations.shapes import Collective, Elementwise, Gemm, Operation

# Kernels launched in a forward pass: NVIDIA counted 31 of a fused router with its all-to-all dispatch and 17 with one
# in a kernel of its own (DeepSeek-V3, Megatron-LM discussions); Transformer Engine starts a product for each expert.
KERNELS_OF_ROUTER, KERNELS_OF_DISPATCH, KERNELS_OF_EXPERTS, KERNELS_OF_SHARED = 12.0, 20.0, 8.0, 6.0
PERMUTE_BYTES = 16  # a token and expert: tokens sorted by expert and back, read and written as 16-bit and indices


@dataclass(frozen=True)
class Experts(Block):
    """A mixture of experts, with experts that every token goes through beside it where the model has any."""

    synchronises: ClassVar[bool] = True  # how many tokens each expert got sizes what comes after

    def operations(self, c: Context) -> Sequence[Operation]:
        """Return router, sorting, the experts of this device as grouped GEMMs, and the shared experts."""
        h, taken = c.t.hidden, expert_tokens(c)
        local = local_experts(c)
        width = to_float(c.t.moe_ffn_hidden) / c.layout.etp
        each = taken / np.maximum(local, 1.0)
        sent = PERMUTE_BYTES * c.split_tokens * top_k(c) * h
        shared = self.splits(c)
        return [
            Gemm("router", "2 T_s H E", 1.0, c.split_tokens, h, at_least_one(c.t.experts), sixteen_bit=1),
            Elementwise("permute tokens", "16 B T_s k H", 1.0, sent, sent),
            Gemm("experts up", "2 T k H (1 or 2) F_e", 1.0, each, h, c.gates * width, local, grouped=True),
            activation(c, "experts activation", taken * width),
            Gemm("experts down", "2 T k F_e H", 1.0, each, width, h, local, grouped=True),
            *(split_network(c, "shared expert", _shared_width(c), shared) if any_of(shared) else []),
        ]

    def launches(self, c: Context) -> Array:
        """Return the kernels of router, dispatch and combination, products of each expert, and shared experts."""
        router, dispatch, others = (CudaGraph.look_up(part, c.layout.cuda_graph) for part in
                                    ("router", "dispatch", "others"))  # fmt: skip
        products = KERNELS_OF_EXPERTS + 2.0 * local_experts(c) + KERNELS_OF_SHARED * self.splits(c)
        return KERNELS_OF_ROUTER * router + KERNELS_OF_DISPATCH * dispatch + products * others

    def splits(self, c: Context) -> Numeric:
        """Return 1 where shared experts are split over TP; the others are not."""
        return to_float(to_float(c.t.shared_ffn_hidden) > 0)

    def collectives(self, c: Context) -> Sequence[Collective]:
        """Return the exchange of tokens with their experts, and the gathers inside a split expert (ETP)."""
        layout = c.layout
        sent = c.split_tokens * top_k(c) * c.t.capacity_factor * c.t.hidden * c.formats.comm
        spread, split = (to_float(to_float(size) > 1) for size in (layout.ep, layout.etp))
        exchanged: list[Collective] = []
        if any_of(spread):
            exchanged += [
                Collective(f"expert {way}", "k c T_s H", spread, "all_to_all", "ep", sent, spread, c.ep_group)
                for way in ("dispatch", "combine")
            ]
        if any_of(split):
            # Without expert parallelism each token is gathered once, before it is copied for its experts.
            once = c.split_tokens * c.t.hidden * c.formats.comm
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
        return HeldParameters(router + extra, (to_float(c.t.experts) / c.layout.ep) * mlp_parameters(c, width))

    def kept(self, c: Context) -> Sequence[Kept]:
        """Return what the networks keep, and the tokens before and after sorting."""
        size, kept = c.formats.activation, kept_numbers(c)
        width = to_float(c.t.moe_ffn_hidden) / c.layout.etp
        experts = expert_tokens(c) * (kept * width + 2.0 * c.t.hidden)
        return [Kept("moe", to_float(size * experts) + network_bytes(c, _shared_width(c)))]


def expert_tokens(c: Context) -> Array:
    """Return the tokens, one for each expert they are sent to, that a device's experts take in a micro-batch."""
    return to_float(c.layout.etp) * c.split_tokens * top_k(c) * c.t.capacity_factor


def local_experts(c: Context) -> Array:
    """Return the experts of a device."""
    return at_least_one(c.t.experts) / c.layout.ep


def top_k(c: Context) -> Array:
    """Return the experts that a token is sent to."""
    return at_least_one(c.t.top_k)


def _shared_width(c: Context) -> Array:
    return to_float(c.t.shared_ffn_hidden)
