"""A mixture of experts: router, dispatch of tokens to experts, their networks, combination; and shared experts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from comp_comm.dispatchers import SORTED, Dispatcher, PermuteFusion, RoutedWeights, RouterPrecision
from comp_comm.formulas.arrays import (
    Array,
    Numeric,
    add_up,
    maximum,
    to_codes,
    to_float,
    where,
)
from comp_comm.kernel_choices import CudaGraph, ElementwiseKernels, ExpertKernels, Recipe
from comp_comm.layers.block import (
    Block,
    LayerParameters,
    SavedActivations,
    TpReplicated,
    activation,
    at_least_one,
    biased,
    mlp_parameters,
    nonlinearity_inputs,
    nonlinearity_outputs,
)  # fmt: skip
from comp_comm.layers.expert_tokens import (
    expert_hidden,
    expert_tokens,
    experts_split_over_tp,
    load_imbalance,
    local_experts,
    routed_tokens,
    token_collectives,
    top_k,
)
from comp_comm.layers.feed_forward import network_bytes, network_names, split_network
from comp_comm.layers.module import Module
from comp_comm.operations.context import Context, any_of
from comp_comm.operations.shapes import Collective, Elementwise, Gemm, Operation

# Kernels launched in a forward pass: NVIDIA counted 31 of a fused router with its all-to-all dispatch and 17 with one
# in a kernel of its own (DeepSeek-V3, Megatron-LM discussions); Transformer Engine starts a product for each expert.
# In few bits half as many more quantise their operands.
# A gate on shared experts is a product, a sigmoid and a product.
KERNELS_OF_ROUTER, KERNELS_OF_EXPERTS, KERNELS_OF_SHARED, QUANTISING = 12.0, 8.0, 6.0, 0.5
KERNELS_OF_GATE = 3.0
# Numbers that a clamped gate in operations of its own moves, of the width and of a token; and keeps of the width: both
# halves of the product, the clamped gate, its sigmoid, their product, the other half and 1, and the product of the two.
CLAMPED_WIDTH, CLAMPED_HIDDEN = 22.0, 10.0
CLAMPED_KEPT = 7.0


class Experts(Block):
    """A mixture of experts, with experts that every token goes through beside it where the model has any."""

    quantises_input: ClassVar[bool] = False  # the router reads it in 16 bit
    synchronises: ClassVar[bool] = True  # how many tokens each expert got sizes what comes after

    def operations(self, c: Context) -> Sequence[Operation]:
        """Return router, sorting, the experts of this device as grouped GEMMs, and the shared experts."""
        h, tokens, inside = c.t.hidden, expert_tokens(c), expert_hidden(c)
        local = local_experts(c)
        width = to_float(c.t.moe_ffn_hidden) / c.layout.etp
        tokens_per_expert = tokens / maximum(local, 1.0)
        sorted_bytes = _sorted_bytes(c) * routed_tokens(c) * top_k(c) * load_imbalance(c) * inside
        shared = _has_shared(c)
        casts = where(ExpertKernels.SEPARATE.where(c.layout.expert_kernels), maximum(local, 1.0), 1.0)
        return [
            Gemm("router", "2 T_s H E", count=1.0, m=routed_tokens(c), k=h, n=at_least_one(c.t.experts), sixteen_bit=1),
            *_latent(c),
            Elementwise(
                "permute tokens", "8 B (all-to-all 16 B; not fused 24 B more) T_s k H", 1.0, sorted_bytes, sorted_bytes
            ),
            Gemm(
                "experts up",
                "2 T k H (1 or 2) F_e",
                count=1.0,
                m=tokens_per_expert,
                k=inside,
                n=c.gates * width,
                groups=local,
                matrices=c.gates,
                grouped=True,
                casts=casts,
            ),
            _nonlinearity(c, tokens, width),
            Gemm(
                "experts down",
                "2 T k F_e H",
                count=1.0,
                m=tokens_per_expert,
                k=width,
                n=inside,
                groups=local,
                grouped=True,
                casts=casts,
            ),
            *(split_network(c, "shared expert", _shared_width(c), shared) if any_of(shared) else []),
            *_gate(c),
        ]

    def launches(self, c: Context) -> Array:
        """Return the kernels of router, dispatch and combination, products of each expert, and shared experts."""
        router, dispatch, others = (CudaGraph.look_up(part, c.layout.cuda_graph) for part in
                                    ("router", "dispatch", "others"))  # fmt: skip
        per_expert = ExpertKernels.look_up("launches", c.layout.expert_kernels)
        shared = KERNELS_OF_SHARED * _has_shared(c) + KERNELS_OF_GATE * _has_gate(c)
        products = KERNELS_OF_EXPERTS + per_expert * local_experts(c) + shared
        quantising = 1 + QUANTISING * to_float(to_codes(c.formats.recipe) != int(Recipe.NONE))
        exchange = Dispatcher.look_up("launches", c.layout.ep_dispatch)
        return KERNELS_OF_ROUTER * router + exchange * dispatch + products * quantising * others

    def splits(self, c: Context) -> Numeric:
        """Return 1 where shared experts are split over TP, and 1 more where the others are as well."""
        return _has_shared(c) + experts_split_over_tp(c)

    def gathers_itself(self, c: Context) -> Numeric:
        """Return 1 where shared experts read what was gathered for the others."""
        return _has_shared(c) * experts_split_over_tp(c)

    def collectives(self, c: Context) -> Sequence[Collective]:
        """Return the exchange of tokens with their experts, with their counts or a map of where each goes, and a split
        expert's gathers (ETP)."""
        return token_collectives(c)

    def parameters(self, c: Context) -> LayerParameters:
        """Return router and shared experts, and apart from them the experts of this device."""
        shared = _shared_width(c)
        extra = where(shared > 0, mlp_parameters(c, shared / c.layout.tp), 0.0)
        router = (to_float(c.t.hidden) + c.t.router_bias) * c.t.experts + _has_gate(c) * c.t.hidden
        width = to_float(c.t.moe_ffn_hidden) / c.layout.etp
        inside, projected = expert_hidden(c), to_float(c.t.moe_latent_hidden)
        dense = router + extra
        if any_of(projected):
            dense = dense + 2 * c.t.hidden * projected + biased(c, "ffn") * (projected > 0) * (inside + c.t.hidden)
            dense = dense + _latent_norm(c) * projected
        per_expert = (c.gates + 1) * inside * width + biased(c, "ffn") * (c.gates * width + inside)
        return LayerParameters(dense, (to_float(c.t.experts) / c.layout.ep) * per_expert)

    def tp_replicated(self, c: Context) -> TpReplicated:
        """Return router and gate where they see a part of the tokens, and the projections to a latent and back."""
        latent = to_float(c.t.moe_latent_hidden)
        bias = to_float(c.t.router_bias) - c.router_balances
        sees_part = 1.0 - experts_split_over_tp(c)
        gate = _has_gate(c)
        router = sees_part * ((to_float(c.t.hidden) + bias) * c.t.experts + gate * c.t.hidden)
        norm = _latent_norm(c)
        tensors = sees_part * (1.0 + bias + gate) + 2.0 * (latent > 0) + norm
        return TpReplicated(to_float(router + (2 * c.t.hidden + norm) * latent), tensors)

    def tensors(self, c: Context) -> Array:
        """Return router, matrices of all experts together, and those of shared experts, with biases."""
        without = biased(c, "ffn") * (1.0 + _has_gate(c))
        return super().tensors(c) * (1.0 + biased(c, "ffn")) + c.t.router_bias - without + _latent_norm(c)

    def saved_activations(self, c: Context) -> Sequence[SavedActivations]:
        """Return what the networks keep, their inputs, and where copies are weighted after them also their outputs.

        That is so with all-to-alls (allocated by Megatron-LM in SimuMax's runs); libraries that send a token once are
        taken to have the router's weights applied before (in the nonlinearity).
        """
        width, inside = to_float(c.t.moe_ffn_hidden) / c.layout.etp, expert_hidden(c)
        once = Dispatcher.look_up("once", c.layout.ep_dispatch)
        tokens = ((1 - once) * _weighted_size(c) + c.operand_kept) * inside
        # Written out, each operation of a clamped gate keeps its inputs; compiled, as Megatron-LM has it, the product's
        # halves alone: its published runs fit with these.
        apart = to_float(c.t.clamped_glu) * ElementwiseKernels.look_up("gate_kept", c.layout.kernels)
        of_width = nonlinearity_inputs(c) + nonlinearity_outputs(c)
        if any_of(apart):
            of_width = where(apart > 0, CLAMPED_KEPT * c.formats.activation, of_width)
        experts = expert_tokens(c) * (of_width * width + tokens)
        if any_of(c.t.moe_latent_hidden):  # the input of the projection back, and of a norm before it
            each = c.operand_kept + _latent_norm(c) * (c.formats.activation + c.norm_saved)
            experts = experts + each * c.split_tokens * (to_float(c.t.moe_latent_hidden) > 0) * inside
        copies = RouterPrecision.look_up("size", c.layout.router_precision)
        if any_of(copies):  # of the router's input, and of its weights
            experts = experts + copies * (routed_tokens(c) + c.t.experts) * to_float(c.t.hidden)
        return [SavedActivations("moe", to_float(experts) + _shared_bytes(c))]

    def last_input(self, c: Context) -> Array:
        """Return the bytes of the input of the experts' matrix down."""
        return to_float(c.operand_kept * expert_tokens(c) * (to_float(c.t.moe_ffn_hidden) / c.layout.etp))

    def modules(self, c: Context) -> Sequence[Module]:
        """Return all of the block, the nonlinearity of its experts, and the shared experts.

        The nonlinearity is recomputed of what it kept, and frees the input of the matrix down (with kernels one by one
        also the gate after its nonlinearity).
        """
        shared = _has_shared(c)
        width = to_float(c.t.moe_ffn_hidden) / c.layout.etp
        outputs = to_float(expert_tokens(c) * nonlinearity_outputs(c) * width)
        names = dict.fromkeys((operation.name for operation in self.operations(c)), 1.0)
        calls = {collective.name: collective.count for collective in self.collectives(c)}
        modules = [Module("moe", add_up(each.size for each in self.saved_activations(c)), names, calls, self.splits(c)),
                   Module("moe_act", outputs, {"experts activation": 1.0}, within="moe")]  # fmt: skip
        if any_of(shared):
            names = dict.fromkeys((*network_names("shared expert"), *(each.name for each in _gate(c))), 1.0)
            modules.append(Module("shared_experts", _shared_bytes(c), names, splits=shared, within="moe"))
        return modules


def _sorted_bytes(c: Context) -> Array:
    """Return the bytes that sorting tokens by expert and back moves of a number and expert, forward or backward."""
    again = Dispatcher.look_up("sorts_again", c.layout.ep_dispatch) * (local_experts(c) > 1)
    return 2 * SORTED * (1.0 + again) + PermuteFusion.look_up("more", c.layout.permute_fusion)


def _nonlinearity(c: Context, tokens: Array, width: Array) -> Operation:
    """Return the nonlinearity between the matrices; in operations of its own where no kernel has it.

    Elements of the width that these read and write: biases of both matrices' outputs added (4), two clamps (4), scale,
    sigmoid and product (7), offset and product (5), the router's weight (2); and of a token's numbers after the second
    matrix: its bias gathered, weighted and added in 32 bit (10).
    """
    plain = activation(c, "experts activation", tokens * width)
    apart = to_float(c.t.clamped_glu) * ExpertKernels.look_up("apart", c.layout.expert_kernels)
    if not any_of(apart):
        return plain
    moved = c.formats.activation * tokens * (CLAMPED_WIDTH * width + CLAMPED_HIDDEN * expert_hidden(c))
    forward, backward = (where(apart > 0, more, once) for more, once in
                         ((moved, plain.forward_bytes), (1.5 * moved, plain.backward_bytes)))  # fmt: skip
    return replace(plain, formula="22 T k F_e + 10 T k H elements", forward_bytes=forward, backward_bytes=backward)


def _latent(c: Context) -> list[Operation]:
    """Return the projections to the latent of experts and back, where there is one (arXiv:2512.20848, LatentMoE)."""
    latent = to_float(c.t.moe_latent_hidden)
    times = to_float(latent > 0)
    if not any_of(times):
        return []
    inside, h, normed = at_least_one(latent), c.t.hidden, _latent_norm(c)
    moved = 2.0 * c.formats.activation * c.split_tokens * inside
    norm = Elementwise("experts' latent norm", "2 T_s L elements", normed, moved, 1.5 * moved, c.kernel_cost)
    return [
        Gemm("experts' latent", "2 T_s H L", count=times, m=c.split_tokens, k=h, n=inside),
        *([norm] if any_of(normed) else []),
        Gemm("experts' latent back", "2 T_s L H", count=times, m=c.split_tokens, k=inside, n=h),
    ]


def _gate(c: Context) -> list[Operation]:
    """Return the gate on what shared experts make, a sigmoid of one number a token, where there is one (Qwen)."""
    gated, tokens = _has_gate(c), routed_tokens(c)
    if not any_of(gated):
        return []
    size = c.formats.activation * tokens * c.t.hidden
    return [
        Gemm("shared expert gate", "2 T_s H", count=gated, m=tokens, k=c.t.hidden, n=1.0, sixteen_bit=1),
        Elementwise("shared expert gating", "2 T_s H elements", gated, 2 * size, 3 * size, c.kernel_cost),
    ]


def _shared_bytes(c: Context) -> Array:
    """Return the bytes that shared experts keep; where there is a gate, also their output, and a number a token."""
    gated = _has_gate(c) * c.formats.activation * routed_tokens(c) * (to_float(c.t.hidden) + 1.0)
    return network_bytes(c, _shared_width(c)) + gated


def _weighted_size(c: Context) -> Array:
    """Return the bytes of a number of what is weighted."""
    given = RoutedWeights.look_up("size", c.layout.routed_weights)
    return where(given > 0, given, c.formats.activation)


def _has_shared(c: Context) -> Array:
    return to_float(to_float(c.t.shared_ffn_hidden) > 0)


def _latent_norm(c: Context) -> Array:
    return to_float(c.t.moe_latent_norm) * (to_float(c.t.moe_latent_hidden) > 0)


def _has_gate(c: Context) -> Array:
    return to_float(c.t.shared_expert_gate) * _has_shared(c)


def _shared_width(c: Context) -> Array:
    return to_float(c.t.shared_ffn_hidden)
