"""One layer and micro-batch of the foundation-models paper: its operations under each strategy, and their seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from comp_comm.choices import Formulas, Strategy
from comp_comm.formulas import foundation_models as does
from comp_comm.formulas import foundation_models_time as takes
from comp_comm.formulas.arrays import Array, Numeric, to_float
from comp_comm.formulas.foundation_models import NUMBER_BYTES, Counts
from comp_comm.formulas.foundation_models_time import Links
from comp_comm.lazy import cached_property

SYNCS = 4  # gathers and scatters of a layer's activations in each pass: before and after attention and FFN


class Rates(NamedTuple):
    """What turns counts into seconds: achieved FLOP/s of GEMMs and of the rest, bytes/s of HBM, an operation's start,
    FLOP/s of GEMMs over those of the rest, the network."""

    gemm: Numeric
    vector: Numeric
    memory: Numeric
    latency: Numeric
    vector_cost: Numeric
    links: Links


@dataclass(frozen=True)
class Shape:
    """Numbers of a layer and of its place on the mesh; ``corrected`` is 1 where the published slips are mended."""

    batch: Numeric
    seq_len: Numeric
    hidden: Numeric
    heads: Numeric
    tp1: Numeric
    tp2: Numeric
    panels: Numeric
    inside1: Numeric
    inside2: Numeric
    corrected: Numeric

    @cached_property
    def tokens(self) -> Array:
        """Tokens of a device where the sequence is split over the second group; as published, a rest is dropped."""
        return self.batch * np.floor(to_float(self.seq_len) / self.tp2)

    @cached_property
    def split_tokens(self) -> Array:
        """Tokens of a device where both groups split the sequence."""
        return self.batch * np.floor(to_float(self.seq_len) / (to_float(self.tp1) * self.tp2))

    @cached_property
    def width(self) -> Array:
        """Hidden numbers of a device where the first group splits them."""
        return np.floor(to_float(self.hidden) / self.tp1)

    @property
    def head_dim(self) -> Array:
        """Numbers of a head."""
        return to_float(self.hidden) / self.heads

    @cached_property
    def local_heads(self) -> Array:
        """Heads of a device, times sequences."""
        return self.batch * np.floor(to_float(self.heads) / self.tp1)

    def part(self, times: float) -> Array:
        """Return a device's part of ``times`` x hidden."""
        return np.floor(times * to_float(self.hidden) / self.tp1)


class LayerOperation(NamedTuple):
    """An operation: its counts, whether it runs at the FLOP/s of GEMMs, and of SUMMA the bytes of its two operands."""

    counts: Counts
    gemm: bool = False
    operands: tuple[Array, Array] | None = None


class LayerSeconds(NamedTuple):
    """Seconds of a layer and micro-batch: its passes whole, and of both together compute, memory beyond it, and
    communication."""

    forward: Array
    backward: Array
    compute: Array
    memory: Array
    comm: Array


class LayerHolds(NamedTuple):
    """What a layer holds on a device: weights, bytes kept of a micro-batch; and the bytes it hands to the next one."""

    weights: Array
    kept: Array
    boundary: Array


def operations(strategy: int, s: Shape, vector_cost: Numeric) -> list[LayerOperation]:
    """Return the fourteen operations of a layer, in order."""
    if strategy == Strategy.SUMMA:
        return _summa(s, vector_cost)
    t, e, split = s.tokens, to_float(s.hidden), s.split_tokens * to_float(s.hidden)
    one_d = strategy == Strategy.ONE_D  # its biases are added to whole rows by every device
    norm, dropout = LayerOperation(does.norm(s.split_tokens, e)), LayerOperation(does.dropout(split))
    return [
        LayerOperation(does.gemm(t, e, s.part(3)), True), _attention(s, vector_cost),
        LayerOperation(does.gemm(t, s.width, e), True),
        LayerOperation(does.bias(t, e if one_d else s.width)), dropout, norm,
        LayerOperation(does.gemm(t, e, s.part(4)), True), LayerOperation(does.bias(t, s.part(4))),
        LayerOperation(does.gelu(t * s.part(4))),
        LayerOperation(does.dropout(t * s.part(4))), LayerOperation(does.gemm(t, s.part(4), e), True),
        LayerOperation(does.bias(t if one_d else s.split_tokens, e)), dropout, norm,
    ]  # fmt: skip


def _attention(s: Shape, vector_cost: Numeric) -> LayerOperation:
    queries = np.floor(to_float(s.seq_len) / s.tp2)
    return LayerOperation(does.flash_attention(s.local_heads, queries, s.seq_len, s.head_dim, vector_cost), True)


def _summa(s: Shape, vector_cost: Numeric) -> list[LayerOperation]:
    t, e = s.tokens, to_float(s.hidden)

    def product(inner: Array, columns: Array) -> LayerOperation:
        counts = does.summa_gemm(t, inner, columns, s.panels, (s.tp1, s.tp2))
        return LayerOperation(counts, True, (NUMBER_BYTES * t * inner, NUMBER_BYTES * inner * columns))

    norm, bias = LayerOperation(does.norm(t, norm_width(s))), LayerOperation(does.bias(t, s.width))
    dropout = LayerOperation(does.dropout(t * s.width))
    return [
        product(e, s.part(3)), _attention(s, vector_cost), product(e, s.width), bias, dropout, norm,
        product(e, s.part(4)), LayerOperation(does.bias(t, s.part(4))),
        LayerOperation(does.gelu(t * s.part(4))),
        LayerOperation(does.dropout(t * s.part(4))), product(4 * e, s.width), bias, dropout, norm,
    ]  # fmt: skip


def norm_width(s: Shape) -> Array:
    """Return the numbers of a row that a device normalises under SUMMA: as published, of the sequence's length."""
    published = np.floor(to_float(s.seq_len) / s.tp1)
    return np.where(Formulas.CORRECTED.where(s.corrected), s.width, published)


def layer_holds(strategy: int, s: Shape) -> LayerHolds:
    """Return what a layer holds, and hands on."""
    done = operations(strategy, s, 1.0)
    boundary = s.tokens * norm_width(s) if strategy == Strategy.SUMMA else s.split_tokens * to_float(s.hidden)
    weights, kept = (sum_of([getattr(one.counts, name) for one in done]) for name in ("weights", "kept_bytes"))
    return LayerHolds(weights, kept, NUMBER_BYTES * boundary)


def layer_seconds(strategy: int, s: Shape, rates: Rates) -> LayerSeconds:
    """Return the seconds of a layer and micro-batch."""
    done = operations(strategy, s, rates.vector_cost)
    comm = list(_comm(strategy, s, rates.links))
    passes: list[Array] = []
    compute, memory = to_float(0.0), to_float(0.0)
    for number, direction in enumerate(("forward", "backward")):
        busy = []
        for one in done:
            flops, moved = (getattr(one.counts, f"{direction}_{what}") for what in ("flops", "bytes"))
            computing = takes.compute_seconds(flops, rates.gemm if one.gemm else rates.vector, rates.latency)
            moving = moved / rates.memory
            busy.append(np.maximum(computing, moving))
            compute, memory = compute + computing, memory + np.maximum(moving - computing, 0.0)
            if one.operands is not None:  # forward the operands are sent, backward they and both gradients
                panel = (1 + number) * _panel(s, one.operands, rates.links)
                comm[number] = comm[number] + takes.panel_comm_seconds(panel, s.panels, busy[-1])
        passes.append(sum_of(busy) + comm[number])
    return LayerSeconds(passes[0], passes[1], compute, memory, comm[0] + comm[1])


def _comm(strategy: int, s: Shape, links: Links) -> tuple[Array, Array]:
    """Return the communication of each pass that nothing hides."""
    keys = 2 * NUMBER_BYTES * s.local_heads * s.seq_len * s.head_dim
    gather = takes.collective_seconds(keys, s.tp2, s.inside2, links)
    if strategy in (Strategy.SEQUENCE, Strategy.ONE_D):
        sync = SYNCS * takes.collective_seconds(NUMBER_BYTES * s.tokens * s.hidden, s.tp1, s.inside1, links)
        return sync + gather, sync + 2 * gather
    turns = np.where(Formulas.CORRECTED.where(s.corrected), 2.0, 1.0)
    sums = 2 * NUMBER_BYTES * s.tokens
    gradients = NUMBER_BYTES * (np.floor(2 * to_float(s.hidden) / s.tp1) + np.floor(2 * s.tokens))
    reduced = [takes.collective_seconds(volume, s.tp1, s.inside1, links, 2.0, turns) for volume in (sums, gradients)]
    return gather + 2 * reduced[0], 2 * gather + 2 * reduced[1]


def _panel(s: Shape, operands: tuple[Array, Array], links: Links) -> Array:
    """Return the seconds to send a panel of both operands, each over its own group."""
    first, second = (operand / s.panels for operand in operands)
    return takes.collective_seconds(first, s.tp1, s.inside1, links, broadcast=True) + takes.collective_seconds(
        second, s.tp2, s.inside2, links, broadcast=True
    )


def sum_of(arrays: Sequence[Array]) -> Array:
    """Return the sum of arrays that broadcast."""
    total = arrays[0]
    for array in arrays[1:]:
        total = total + array
    return total
