"""Adapters of a low rank beside frozen linear layers (LoRA, arXiv:2106.09685).

A frozen layer has no gradient of its weights, and keeps no input for one, unless an adapter reads it. Beside a layer
that TP splits by its output the matrix down is on every device, and the gradient of what it makes is summed; beside one
split by its input the sum is forward.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from comp_comm.choices import Recompute
from comp_comm.formulas.arrays import Array, Numeric, add_up, maximum, minimum, somewhere, to_float
from comp_comm.layers.attention import SelfAttention
from comp_comm.layers.block import Block, TpReplicated
from comp_comm.layers.expert_tokens import expert_hidden, expert_tokens, local_experts
from comp_comm.layers.experts import Experts
from comp_comm.layers.feed_forward import FeedForward
from comp_comm.layout import Layout
from comp_comm.lora import LoraTargets
from comp_comm.operations.context import Context, any_of
from comp_comm.operations.shapes import Collective, Gemm, Operation
from comp_comm.optimizers import Optimizer
from comp_comm.transformer import Transformer
from comp_comm.violation import Violation, rule

KERNELS = 4.0
NETWORK = ("gate_proj", "up_proj", "gate_up_proj", "down_proj")


class Adapter(NamedTuple):
    """An adapter: inputs and outputs on this device, 1 where a layer has it, and whether its input is what TP splits.

    Those ``of_experts`` are as many as the experts of this device, each of its own tokens, which nothing splits.
    """

    part: str
    inputs: Numeric
    outputs: Numeric
    present: Array
    row_split: bool
    of_experts: bool = False


def adapters(c: Context, block: Block) -> list[Adapter]:
    """Return the adapters of a block: of plain attention, of a dense network, and of experts, each of which has its own
    (Hugging Face's PEFT, whose modules are experts' linear layers), with those of shared experts."""
    h = c.t.hidden
    if type(block) is SelfAttention:
        q, k, v = c.heads * c.key_dim, c.kv_heads * c.key_dim, c.kv_heads * to_float(c.t.v_head_dim)
        rows: list[tuple[str, Numeric, Numeric, bool]] = [
            ("q_proj", h, q, False), ("k_proj", h, k, False), ("v_proj", h, v, False),
            ("qkv_proj", h, q + k + v, False),
            ("o_proj", c.heads * c.t.v_head_dim, h, True),
        ]  # fmt: skip
    elif type(block) is FeedForward:
        rows = _network(c, h, to_float(c.t.ffn_hidden) / c.layout.tp)
    elif type(block) is Experts:
        return _of_experts(c)
    else:
        return []
    return _present(Adapter(part, inputs, outputs, has(c, part), split) for part, inputs, outputs, split in rows)


def _of_experts(c: Context) -> list[Adapter]:
    """Return the adapters of shared experts, and of the others."""
    shared = to_float(c.t.shared_ffn_hidden)
    of_shared = (Adapter(f"shared {part}", inputs, outputs, has(c, part) * (shared > 0), split)
              for part, inputs, outputs, split in _network(c, c.t.hidden, shared / c.layout.tp))  # fmt: skip
    of_others = (Adapter(f"expert {part}", inputs, outputs, has(c, part), split, of_experts=True)
           for part, inputs, outputs, split in _network(c, expert_hidden(c), to_float(c.t.moe_ffn_hidden)))  # fmt: skip
    return _present((*of_shared, *of_others))


def _present(made: Iterable[Adapter]) -> list[Adapter]:
    return [each for each in made if any_of(each.present) and any_of(to_float(each.outputs))]


def _network(c: Context, inside: Numeric, columns: Array) -> list[tuple[str, Numeric, Numeric, bool]]:
    """Return the linear layers of a network: its parts, their inputs and outputs, and whether TP splits the inputs."""
    return [("gate_proj", inside, columns * (c.gates - 1), False), ("up_proj", inside, columns, False),
            ("gate_up_proj", inside, c.gates * columns, False), ("down_proj", columns, inside, True)]  # fmt: skip


def has(c: Context, part: str) -> Array:
    """Return 1 where layers have an adapter at a linear layer."""
    codes = np.asarray(c.t.lora_targets)
    return to_float(np.isin(codes, [int(option) for option in LoraTargets if option.has(part)]))


def adapter_rules(t: Transformer, layout: Layout) -> list[Violation]:
    """Return what a resolved model and a layout must be where the model is frozen, and has adapters."""
    adapted = ~np.isnan(to_float(t.lora_rank))
    if not somewhere(adapted):
        return []
    about, codes = ("lora_targets", "lora_rank"), np.asarray(t.lora_targets)
    network, gate = (np.isin(codes, [int(option) for option in LoraTargets if any(map(option.has, parts))])
                     for parts in (NETWORK, ("gate_proj",)))  # fmt: skip
    of_experts = adapted & (to_float(t.experts) > 0) & network
    modules = np.isin(np.asarray(layout.recompute), [int(option) for option in Recompute if len(option.modules) > 0
                                                     and option is not Recompute.SELECTIVE])  # fmt: skip
    return [
        rule(of_experts & (to_float(layout.etp) > 1), "adapters of experts that etp splits are not modelled: give "
             "etp 1, or layers of attention as lora_targets", *about, "etp"),
        rule(adapted & (to_float(t.kv_lora_rank) > 0), "adapters of multi-head latent attention are not modelled",
             "lora_rank", "kv_lora_rank"),
        rule(adapted & t.encoder_decoder, "adapters in an encoder-decoder are not modelled", "lora_rank",
             "architecture"),
        rule(adapted & gate & (to_float(t.gated) == 0), "lora_targets has gate_proj, and the network is not gated",
             *about, "gated"),
        rule(adapted & Optimizer.MUON.where(layout.optimizer), "adapters by Muon are not modelled", "lora_rank",
             "optimizer"),
        rule(adapted & modules, "recomputation by modules beside adapters is not modelled; none, selective and full "
             "are", "lora_rank", "recompute"),
    ]  # fmt: skip


def adapter_operations(c: Context, block: Block) -> list[Operation]:
    """Return the products of a block's adapters."""
    rank = to_float(c.t.lora_rank)
    return [op for each in adapters(c, block) for op in _products(c, each, rank)]


def _products(c: Context, each: Adapter, rank: Array) -> tuple[Gemm, Gemm]:
    """Return the products of an adapter, or of those of all experts of this device: down to the rank, and up."""
    down, up = f"{each.part} adapter down", f"{each.part} adapter up"
    if each.of_experts:
        local = local_experts(c)
        tokens = expert_tokens(c) / maximum(local, 1.0)
        return (
            Gemm(
                down,
                "2 T k H r",
                count=each.present,
                m=tokens,
                k=each.inputs,
                n=rank,
                groups=local,
                sixteen_bit=1,
                grouped=True,
            ),
            Gemm(
                up,
                "2 T k r n",
                count=each.present,
                m=tokens,
                k=rank,
                n=each.outputs,
                groups=local,
                sixteen_bit=1,
                grouped=True,
            ),
        )
    return (
        Gemm(down, "2 T H r", count=each.present, m=c.tokens, k=each.inputs, n=rank, sixteen_bit=1),
        Gemm(up, "2 T r n / tp", count=each.present, m=_up_tokens(c, each), k=rank, n=each.outputs, sixteen_bit=1),
    )


def adapter_collectives(c: Context, block: Block) -> list[Collective]:
    """Return TP's sums of what the matrices down make: forward where it splits their input, of gradients elsewhere."""
    many = to_float(to_float(c.layout.tp) > 1)
    if not any_of(many):
        return []
    message, none = c.tokens * to_float(c.t.lora_rank) * c.formats.comm, to_float(0.0)
    return [
        Collective(
            f"{each.part} adapter all-reduce",
            "T r",
            count=many * each.present if each.row_split else none,
            kind="all_reduce",
            parallelism="tp",
            message_bytes=message,
            backward_count=none if each.row_split else many * each.present,
            group=c.tp_group,
        )
        for each in adapters(c, block)
        if not each.of_experts
    ]


def adapter_parameters(c: Context, block: Block, of_experts: bool = False) -> Array:
    """Return the numbers of a block's adapters on this device, r (inputs + outputs) each: of its experts, or others."""
    rank = to_float(c.t.lora_rank) * (local_experts(c) if of_experts else 1.0)
    return add_up(each.present * rank * (to_float(each.inputs) + each.outputs) for each in adapters(c, block)
                  if each.of_experts is of_experts)  # fmt: skip


def replicated_adapters(c: Context, block: Block) -> TpReplicated:
    """Return the matrices up from inputs that TP splits: under sequence parallelism they see a device's own tokens."""
    whole = [each for each in adapters(c, block) if each.row_split and not each.of_experts]
    size = add_up(each.present * to_float(c.t.lora_rank) * to_float(each.outputs) for each in whole)
    return TpReplicated(size, add_up(each.present for each in whole))


def adapter_activations(c: Context, block: Block) -> Array:
    """Return the bytes that adapters keep beside their inputs: what their matrices down make."""
    made = c.formats.activation * to_float(c.t.lora_rank)
    return add_up(each.present * made * (expert_tokens(c) if each.of_experts else c.tokens)
                  for each in adapters(c, block))  # fmt: skip


def adapter_launches(c: Context, block: Block) -> Array:
    """Return the kernels of a block's adapters in a forward pass: two products, a scaling and a sum of each.

    So PEFT does it (`result + lora_B(lora_A(x)) * scaling`), expert by expert.
    """
    return add_up(
        KERNELS * each.present * (local_experts(c) if each.of_experts else 1.0) for each in adapters(c, block)
    )


def input_unread(c: Context, block: Block) -> Array:
    """Return 1 where no gradient of weights needs the input of a block: it is plain, and has no adapter there."""
    parts = {SelfAttention: ("q_proj", "k_proj", "v_proj", "qkv_proj"),
             FeedForward: ("gate_proj", "up_proj", "gate_up_proj")}.get(type(block), ())  # fmt: skip
    return to_float(1.0 - minimum(add_up(has(c, part) for part in parts), 1.0)) if parts else to_float(0.0)


def down_unread(c: Context, block: Block) -> Array:
    """Return 1 where no gradient of weights needs the input of a network's matrix down."""
    return to_float(1.0 - has(c, "down_proj")) if type(block) is FeedForward else to_float(0.0)


def _up_tokens(c: Context, each: Adapter) -> Array:
    """Return the tokens of an adapter's second product: of each device's own, where the sum came before it."""
    return c.split_tokens if each.row_split else c.tokens
