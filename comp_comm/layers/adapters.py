"""Adapters of a low rank beside frozen linear layers (LoRA, arXiv:2106.09685).

A frozen layer has no gradient of its weights, and keeps no input for one, unless an adapter reads it. Beside a layer
that TP splits by its output the matrix down is on every device, and the gradient of what it makes is summed; beside one
split by its input the sum is forward.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from comp_comm.choices import Recompute
from comp_comm.formulas.arrays import Array, Numeric, add_up, minimum, somewhere, to_float
from comp_comm.layers.attention import SelfAttention
from comp_comm.layers.block import Block
from comp_comm.layers.feed_forward import FeedForward
from comp_comm.layout import Layout
from comp_comm.lora import LoraTargets
from comp_comm.operations.context import Context, any_of
from comp_comm.operations.shapes import Collective, Gemm, Operation
from comp_comm.optimizers import Optimizer
from comp_comm.transformer import Transformer
from comp_comm.violation import Violation, rule

NETWORK = ("gate_proj", "up_proj", "gate_up_proj", "down_proj")


class Adapter(NamedTuple):
    """An adapter: inputs and outputs on this device, tokens it is made of going up, 1 where a layer has it, and whether
    its input is what TP splits."""

    part: str
    inputs: Numeric
    outputs: Numeric
    there: Array
    row_split: bool


def adapters(c: Context, block: Block) -> list[Adapter]:
    """Return the adapters of a block: of plain attention and of a dense network."""
    h = c.t.hidden
    if type(block) is SelfAttention:
        q, k, v = c.heads * c.key_dim, c.kv_heads * c.key_dim, c.kv_heads * to_float(c.t.v_head_dim)
        rows: list[tuple[str, Numeric, Numeric, bool]] = [
            ("q_proj", h, q, False), ("k_proj", h, k, False), ("v_proj", h, v, False),
            ("qkv_proj", h, q + k + v, False),
            ("o_proj", c.heads * c.t.v_head_dim, h, True),
        ]  # fmt: skip
    elif type(block) is FeedForward:
        columns = to_float(c.t.ffn_hidden) / c.layout.tp
        rows = [("gate_proj", h, columns * (c.gates - 1), False), ("up_proj", h, columns, False),
                ("gate_up_proj", h, c.gates * columns, False), ("down_proj", columns, h, True)]  # fmt: skip
    else:
        return []
    made = (Adapter(part, inputs, outputs, has(c, part), split) for part, inputs, outputs, split in rows)
    return [each for each in made if any_of(each.there) and any_of(to_float(each.outputs))]


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
    modules = np.isin(np.asarray(layout.recompute), [int(option) for option in Recompute if len(option.modules) > 0
                                                     and option is not Recompute.SELECTIVE])  # fmt: skip
    return [
        rule(adapted & (to_float(t.experts) > 0) & network, "adapters of experts are not modelled: lora_targets may be "
             "layers of attention", *about, "experts"),
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


def frozen(c: Context, operations: Sequence[Operation]) -> list[Operation]:
    """Return operations whose products have no gradient of their weights."""
    return [replace(op, trained=0.0) if isinstance(op, Gemm) else op for op in operations]


def adapter_operations(c: Context, block: Block) -> list[Operation]:
    """Return the products of a block's adapters."""
    rank = to_float(c.t.lora_rank)
    return [
        op
        for each in adapters(c, block)
        for op in (
            Gemm(f"{each.part} adapter down", "2 T H r", each.there, c.tokens, each.inputs, rank, sixteen_bit=1),
            Gemm(f"{each.part} adapter up", "2 T r n / tp", each.there, _up_tokens(c, each), rank, each.outputs,
                 sixteen_bit=1),
        )
    ]  # fmt: skip


def adapter_collectives(c: Context, block: Block) -> list[Collective]:
    """Return TP's sums of what the matrices down make: forward where it splits their input, of gradients elsewhere."""
    many = to_float(to_float(c.layout.tp) > 1)
    if not any_of(many):
        return []
    message, none = c.tokens * to_float(c.t.lora_rank) * c.formats.comm, to_float(0.0)
    return [
        Collective(f"{each.part} adapter all-reduce", "T r", many * each.there if each.row_split else none,
                   "all_reduce", "tp", message, none if each.row_split else many * each.there, c.tp_group)
        for each in adapters(c, block)
    ]  # fmt: skip


def adapter_parameters(c: Context, block: Block) -> Array:
    """Return the numbers of a block's adapters on this device: r (inputs + outputs) each."""
    rank = to_float(c.t.lora_rank)
    return add_up(each.there * rank * (to_float(each.inputs) + each.outputs) for each in adapters(c, block))


def adapter_kept(c: Context, block: Block) -> Array:
    """Return the bytes that adapters keep beside their inputs: what their matrices down make."""
    made = c.formats.activation * c.tokens * to_float(c.t.lora_rank)
    return add_up(each.there * made for each in adapters(c, block))


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
