"""Serving a transformer: prefill of a prompt, then decoding token by token with a KV cache.

Prefill is the forward pass of training. A decode step is a forward pass of one token a sequence: its GEMMs read every
weight for a few tokens, and attention reads the cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from comp_comm.costmodels.answer import Answer
from comp_comm.costmodels.machine import network_of
from comp_comm.costmodels.model_work import forward_flops
from comp_comm.costmodels.profile_rules import ProfileRules
from comp_comm.costmodels.work import Work
from comp_comm.costmodels.work_rules import block_rules, layout_violations
from comp_comm.formulas.arrays import ZERO, Array, add_up, to_float
from comp_comm.layers.block import Cache
from comp_comm.layers.ends import embedding_operations, end_parameters, head_operations
from comp_comm.layers.kind import LayerKind
from comp_comm.layers.pipeline_parallel import boundary_collectives
from comp_comm.layers.rules import layer_rules
from comp_comm.layers.stages import Stage
from comp_comm.layers.tensor_parallel import LOSS, embedding_collectives, head_collectives
from comp_comm.lazy import cached_property
from comp_comm.operations.context import Context
from comp_comm.operations.products import FusedProducts
from comp_comm.operations.shapes import Attention, Collective
from comp_comm.structs import struct
from comp_comm.timing.kernels import Kernels
from comp_comm.timing.timed_collectives import Network, TimedCollective
from comp_comm.timing.timed_operations import sum_passes, time_operations
from comp_comm.violation import Violation, no_room, one_a_reason, rule


@dataclass(frozen=True)
class ForwardPass:
    """One forward pass of a micro-batch through the whole model, over all stages in turn."""

    compute_s: Array
    calls: Sequence[tuple[TimedCollective, Array]]

    @cached_property
    def comm_s(self) -> Array:
        """Seconds of communication, none of it hidden."""
        return to_float(sum((times * call.seconds for call, times in self.calls), ZERO))

    @property
    def seconds(self) -> Array:
        """Seconds of the pass."""
        return self.compute_s + self.comm_s

    @cached_property
    def message_bytes(self) -> Array:
        """Bytes of messages of a device, over all stages."""
        return to_float(sum((times * to_float(call.collective.message_bytes) for call, times in self.calls), ZERO))

    @cached_property
    def wire_bytes(self) -> Array:
        """Bytes that a device sends, over all stages."""
        return to_float(sum((times * call.wire_bytes for call, times in self.calls), ZERO))


@struct
class Serving(Answer):
    """A model serving prompts, as arrays that are made when they are asked for."""

    work: Work

    def arrays(self) -> Iterable[Array]:
        """Return what a sweep holds."""
        return [self.ttft_s, self.tpot_s, self.memory_bytes]

    @cached_property
    def batch(self) -> Array:
        """Sequences of a micro-batch; every stage has one, so a replica serves pp times as many."""
        return to_float(self.work.layout.micro_batch)

    @cached_property
    def length(self) -> Array:
        """Tokens in the cache of an average decode step: the prompt, and half of the answer."""
        return to_float(self.work.transformer.seq_len) + to_float(self.work.scenario.output_len) / 2

    @cached_property
    def _decoding(self) -> Context:
        """The context of one token a sequence."""
        one = replace(self.work.transformer, seq_len=1.0, encoder_seq_len=1.0)
        return Context(one, self.work.layout, self.work.scenario.formats)

    @cached_property
    def kernels(self) -> Kernels:
        """What times kernels."""
        f = self.work.scenario.formats
        return Kernels(
            self.work.hardware,
            operand=f.operand,
            activation=f.activation,
            gradient=f.grad,
            sustained=self.work.scenario.sustained,
            recipe=f.recipe,
            fp8_attention=f.fp8_attention,
            serving=True,
        )

    @cached_property
    def network(self) -> Network:
        """What times collectives."""
        return network_of(self.work)

    @property
    def _layers(self) -> list[tuple[LayerKind, Array]]:
        """Each kind of layer, and how many the model has of it."""
        return list(zip(self.work.pattern.kinds, self.work.pattern.totals, strict=True))

    # -- seconds ------------------------------------------------------------------------------------------------------

    @cached_property
    def prefill(self) -> ForwardPass:
        """The prompts' forward pass."""
        c = self.work.context
        return self._pass(c, [self._layer_s(kind, c) for kind in self.work.pattern.kinds])

    @cached_property
    def decode(self) -> ForwardPass:
        """One decode step."""
        c = self._decoding
        return self._pass(
            c, [self._layer_s(kind, c, cached=True) + self._cache_read_s(kind) for kind, _ in self._layers]
        )

    def _layer_s(self, kind: LayerKind, c: Context, cached: bool = False) -> Array:
        """Return the forward seconds of a layer, without attention where it reads a cache."""
        timed = time_operations(self.kernels, kind.operations(c), self.work.layout.attention_kernel)
        return sum_passes(
            item for item in timed if not (cached and isinstance(item.op, (Attention, FusedProducts)))
        ).forward

    def _cache_read_s(self, kind: LayerKind) -> Array:
        """Return the seconds of a layer's attention in a decode step: it computes, or it reads the cache."""
        total, kernels, layout = to_float(0.0), self.kernels, self.work.layout
        for cache in kind.caches(self.work.context, self.length):
            flops = self.batch * cache.flops * cache.attended / layout.tp
            read = self.batch * cache.attended * cache.held_numbers * self.work.scenario.kv_bytes
            read = read + 2 * self.batch * cache.held_state  # and written
            busy = np.maximum(
                flops * kernels.per_attention_flop(layout.attention_kernel), read * kernels.per_streamed_byte
            )
            total = total + to_float(self.work.hardware.timing.kernel_latency) + busy
        return total

    def _pass(self, c: Context, layer_s: Sequence[Array]) -> ForwardPass:
        ends = [*embedding_operations(c), *head_operations(c, self.work.vocab)]
        compute = sum_passes(time_operations(self.kernels, ends, 0)).forward
        calls = [(each, to_float(each.count)) for each in self._end_collectives(c)]
        between = to_float(self.work.layout.pp) - 1
        calls += [(each, between * each.count) for each in boundary_collectives(c)]
        for (kind, count), seconds in zip(self._layers, layer_s, strict=True):
            compute = compute + count * seconds
            calls += [(each, count * each.count) for each in kind.collectives(c)]
        timed = zip(self.network.timed(each for each, _ in calls), (times for _, times in calls), strict=True)
        return ForwardPass(compute, [(call, times) for call, times in timed if np.any(times > 0)])

    @staticmethod
    def _end_collectives(c: Context) -> list[Collective]:
        """Return the collectives of embedding and logits: only training compares tokens with what they should be."""
        return [*embedding_collectives(c), *(each for each in head_collectives(c) if each.name != LOSS)]

    @property
    def ttft_s(self) -> Array:
        """Seconds to the first token."""
        return self.prefill.seconds

    @property
    def tpot_s(self) -> Array:
        """Seconds of each further token."""
        return self.decode.seconds

    @cached_property
    def request_s(self) -> Array:
        """Seconds of a whole answer."""
        return self.ttft_s + (to_float(self.work.scenario.output_len) - 1) * self.tpot_s

    @cached_property
    def tokens_per_s(self) -> Array:
        """Tokens decoded a second by all devices, every stage busy with a micro-batch of its own."""
        return self.work.dp * self.work.layout.pp * self.batch / self.tpot_s

    # -- FLOP ---------------------------------------------------------------------------------------------------------

    def _caches(self) -> Iterable[tuple[Cache, Array]]:
        """Yield what blocks keep, each with how many of them the model has."""
        for kind, count in self._layers:
            for cache in kind.caches(self.work.context, self.length):
                yield cache, count

    @cached_property
    def decode_flops_per_token(self) -> Array:
        """FLOP of one token's decode step over all devices: twice the weights it meets, and attention."""
        one = forward_flops(self._decoding.t, self.work.transformer.vocab)
        layers = zip(one.gemms, self.work.pattern.totals, strict=True)
        attention = sum((count * cache.flops * cache.attended for cache, count in self._caches()), to_float(0.0))
        return to_float(sum((count * add_up(gemms.values()) for gemms, count in layers), one.ends) + attention)

    @cached_property
    def prefill_flops(self) -> Array:
        """FLOP of one prompt's forward pass over all devices."""
        t = self.work.transformer
        return forward_flops(t, t.vocab, self.work.scenario.count_attention).total(self.work.pattern.totals)

    # -- memory -------------------------------------------------------------------------------------------------------

    @cached_property
    def cache_bytes_per_token(self) -> Array:
        """Bytes of KV cache a token takes, over all layers and devices of a replica (none of it copied)."""
        numbers = sum((count * cache.numbers for cache, count in self._caches()), to_float(0.0))
        return to_float(numbers * self.work.scenario.kv_bytes)

    def _weights(self, stage: Stage) -> Array:
        """Return the bytes of a stage's weights, in the format of compute; a last stage copies tied weights."""
        c = self.work.context
        ends = end_parameters(c, self.work.vocab)
        layers = zip(stage.layer_counts, (kind.parameters(c) for kind in self.work.pattern.kinds), strict=True)
        parameters = sum(
            (count * (held.dense + held.experts) for count, held in layers),
            ends.of_stage(stage, self.work.transformer.tied),
        )
        return to_float(parameters * self.work.scenario.formats.operand)

    def _cache(self, stage: Stage) -> Array:
        """Return the bytes of a stage's KV cache at the end of the answers, of a micro-batch for every stage."""
        work = self.work
        sequences = self.batch * work.layout.pp
        length = to_float(work.transformer.seq_len) + work.scenario.output_len
        layers = zip(stage.layer_counts, work.pattern.kinds, strict=True)
        held = sum((count * (length * cache.held_numbers * work.scenario.kv_bytes + cache.held_state)
                    for count, kind in layers for cache in kind.caches(work.context, self.length)),
                   to_float(0.0))  # fmt: skip
        return to_float(sequences * held)

    @cached_property
    def _fullest(self) -> tuple[Array, Array]:
        """Bytes of weights and of cache of the stage that has most of both together."""
        first, *others = [(self._weights(stage), self._cache(stage)) for stage in self.work.stages.candidates]
        weights, cache = first
        for more_weights, more_cache in others:
            more = more_weights + more_cache > weights + cache
            weights, cache = np.where(more, more_weights, weights), np.where(more, more_cache, cache)
        return weights, cache

    @property
    def weight_bytes(self) -> Array:
        """Bytes of weights on a device of the stage that needs most."""
        return self._fullest[0]

    @property
    def cache_bytes(self) -> Array:
        """Bytes of KV cache on a device of the stage that needs most."""
        return self._fullest[1]

    @cached_property
    def memory_bytes(self) -> Array:
        """Bytes of weights, cache, the activations of one layer's prefill, and the framework."""
        c, t = self.work.context, self.work.transformer
        heads = (c.heads + 2 * c.kv_heads) * c.key_dim
        width = 2 * to_float(t.hidden) + heads + 2 * to_float(t.ffn_hidden) / self.work.layout.tp
        working = c.tokens * width * self.work.scenario.formats.activation
        return self.weight_bytes + self.cache_bytes + working + self.work.scenario.framework_bytes

    # -- rules --------------------------------------------------------------------------------------------------------

    @cached_property
    def violations(self) -> tuple[Violation, ...]:  # type: ignore[override]
        """The rules that points break."""
        work, t = self.work, self.work.transformer
        own = [
            rule(to_float(t.vocab) == 0, "inference needs a vocabulary", "vocab"),
            rule(~np.asarray(t.causal) | t.encoder_decoder, "only decoders generate tokens", "architecture"),
        ]
        groups = {call.collective.group: (call.collective.parallelism, call.collective.group)
                  for call, _ in (*self.prefill.calls, *self.decode.calls)}  # fmt: skip
        needed = ProfileRules(work, self.network, training=False).violations(list(groups.values()))
        over = no_room(self.memory_bytes, to_float(work.hardware.memory_capacity))
        layout = layout_violations(work, [*layer_rules(t, work.layout), *block_rules(work)])
        return tuple(one_a_reason([*layout, *own, *needed, over]))
