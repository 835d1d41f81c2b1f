"""Serving a transformer: prefill of a prompt, then decoding token by token with a KV cache.

Prefill is the forward pass of training. A decode step is a forward pass of one token a sequence: its GEMMs read every
weight for a few tokens, and attention reads the cache. It is the `complete` model's operations, timing and network.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from comp_comm.costmodels.layer_times import ZERO, Call, sum_passes, time_operations
from comp_comm.costmodels.scenario import Scenario
from comp_comm.costmodels.step_parts import in_training
from comp_comm.costmodels.step_rules import NO_ROOM, blank
from comp_comm.costmodels.step_work import StepWork
from comp_comm.costmodels.traffic import volume_bytes, wire_bytes
from comp_comm.formulas.arrays import Array, to_float
from comp_comm.layout import layout_rules, resolved_layout
from comp_comm.operations import messages as wire
from comp_comm.operations.attention import attention_block
from comp_comm.operations.context import Context
from comp_comm.operations.ends import embedding, logits
from comp_comm.operations.feed_forward import feed_forward_block, norms_and_residuals
from comp_comm.operations.parameters import held_parameters
from comp_comm.operations.rules import layer_rules, stage_rules
from comp_comm.operations.shapes import Attention, Message
from comp_comm.operations.work import forward_work
from comp_comm.timing.collectives import Group
from comp_comm.timing.kernels import Kernels
from comp_comm.timing.network import blanks, collective_seconds
from comp_comm.transformer import resolved, transformer_rules
from comp_comm.violation import Violation

LOSS = "loss all-reduce"  # only training compares tokens with what they should be


@dataclass(frozen=True)
class Pass:
    """One forward pass of a micro-batch through the whole model, over all stages in turn."""

    compute_s: Array
    calls: Sequence[tuple[Call, Array]]

    @cached_property
    def comm_s(self) -> Array:
        """Seconds of communication, none of it hidden."""
        return to_float(sum((times * call.seconds for call, times in self.calls), ZERO))

    @property
    def seconds(self) -> Array:
        """Seconds of the pass."""
        return self.compute_s + self.comm_s

    def sent(self, kind: str) -> Array:
        """Return ``message``, ``volume`` or ``wire`` bytes of a device over all stages."""
        sizes = {"message": lambda m: to_float(m.message_bytes), "volume": volume_bytes, "wire": wire_bytes}
        return to_float(sum((times * sizes[kind](call.message) for call, times in self.calls), ZERO))


@dataclass(frozen=True)
class Serving(StepWork):
    """A model serving prompts, as arrays that are made when they are asked for."""

    def arrays(self) -> Iterable[Array]:
        """Return what a sweep holds."""
        return [self.ttft_s, self.tpot_s, self.memory_bytes]

    @cached_property
    def batch(self) -> Array:
        """Sequences of a micro-batch; every stage has one, so a replica serves pp times as many."""
        return to_float(self.layout.micro_batch)

    @cached_property
    def length(self) -> Array:
        """Tokens in the cache of an average decode step: the prompt, and half of the answer."""
        return to_float(self.transformer.seq_len) + to_float(self.scenario.output_len) / 2

    @cached_property
    def _decoding(self) -> Context:
        """The context of one token a sequence."""
        return Context(replace(self.transformer, seq_len=1.0, encoder_seq_len=1.0), self.layout, self.scenario.formats)

    @cached_property
    def kernels(self) -> Kernels:
        """What times kernels here."""
        f = self.scenario.formats
        return Kernels(self.hardware, f.operand, f.activation, f.grad, self.scenario.sustained)

    @cached_property
    def prefill(self) -> Pass:
        """The prompts' forward pass."""
        return self._pass(self.context, self._layer_seconds(self.context))

    @cached_property
    def decode(self) -> Pass:
        """One decode step."""
        c = self._decoding
        return self._pass(c, self._layer_seconds(c, cached=True) + self.cache_read_s)

    def _layer_seconds(self, c: Context, cached: bool = False) -> Array:
        """Return the forward seconds of an average layer, without attention where it reads a cache."""
        operations = [*attention_block(c), *feed_forward_block(c), norms_and_residuals(c)]
        kept = [op for op in operations if not (cached and isinstance(op, Attention))]
        return sum_passes(time_operations(self.kernels, kept, self.layout.attention_kernel)).forward

    def _pass(self, c: Context, layer_s: Array) -> Pass:
        layers, stages = to_float(self.transformer.layers), to_float(self.layout.pp)
        ends = sum_passes(time_operations(self.kernels, [*embedding(c), *logits(c, self.vocab)], 0)).forward
        calls = [(self._call(m), layers * m.count) for m in wire.layer_messages(c)]
        ends_sent = [*wire.embedding_messages(c), *(m for m in wire.logit_messages(c) if m.name != LOSS)]
        calls += [(self._call(m), to_float(m.count)) for m in ends_sent]
        calls += [(self._call(m), (stages - 1) * m.count) for m in wire.stage_messages(c)]
        return Pass(layers * layer_s + ends, [(call, times) for call, times in calls if np.any(times > 0)])

    def _call(self, message: Message) -> Call:
        group = Group(message.peers.size, message.peers.stride, message.peers.parts)
        algorithm = self.layout.collective_algorithm
        return Call(message, collective_seconds(self.hardware, message.kind, message.message_bytes, group, algorithm))

    @cached_property
    def cache_width(self) -> Array:
        """Numbers a layer keeps of a token: keys and values of every head, or what latent attention compresses to."""
        t, c = self.transformer, self.context
        plain = to_float(t.kv_heads) * (c.key_dim + t.v_head_dim)
        latent = to_float(t.kv_lora_rank) + t.rope_head_dim
        return np.where(c.mla > 0, latent, plain) if t.has_mla else plain

    @cached_property
    def cache_bytes_per_token(self) -> Array:
        """Bytes of KV cache a token takes, over all layers and devices of a replica (none of it copied)."""
        return to_float(self.transformer.layers) * self.cache_width * self.scenario.kv_bytes

    @cached_property
    def held_width(self) -> Array:
        """Numbers of a token's cache in a layer on one device: heads split by TP, a latent on every device."""
        t, c = self.transformer, self.context
        plain = c.kv_heads * (c.key_dim + t.v_head_dim)
        return np.where(c.mla > 0, self.cache_width, plain) if t.has_mla else plain

    @cached_property
    def attended(self) -> Array:
        """Tokens an average layer attends to in an average decode step."""
        t = self.transformer
        share = t.global_layers / t.layers
        windowed = np.minimum(t.window, self.length)
        return np.where(np.isinf(t.window), self.length, share * self.length + (1 - share) * windowed)

    @cached_property
    def score_flops_per_token(self) -> Array:
        """FLOP of a layer's attention for one token; latent attention works on the compressed cache."""
        t, c = self.transformer, self.context
        plain = c.key_dim + t.v_head_dim
        latent = 2 * to_float(t.kv_lora_rank) + t.rope_head_dim
        dims = np.where(c.mla > 0, latent, plain) if t.has_mla else plain
        return 2.0 * to_float(t.heads) * dims * self.attended

    @cached_property
    def cache_read_s(self) -> Array:
        """Seconds of a layer's attention in a decode step: it computes, or it reads the cache."""
        computed = self.batch * self.score_flops_per_token / self.layout.tp * self.kernels.per_attention_flop
        read = self.batch * self.attended * self.held_width * self.scenario.kv_bytes * self.kernels.per_streamed_byte
        return to_float(self.hardware.timing.kernel_latency) + np.maximum(computed, read)

    @cached_property
    def decode_flops_per_token(self) -> Array:
        """FLOP of one token's decode step over all devices: twice the weights it meets, and attention."""
        one = forward_work(replace(self.transformer, seq_len=1.0, encoder_seq_len=1.0), self.transformer.vocab)
        return to_float(self.transformer.layers) * (one.gemms + self.score_flops_per_token) + one.ends

    @cached_property
    def prefill_flops(self) -> Array:
        """FLOP of one prompt's forward pass over all devices."""
        work = forward_work(self.transformer, self.transformer.vocab, self.scenario.count_causal)
        return to_float(self.transformer.layers) * (work.gemms + work.attention) + work.ends

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
        return self.ttft_s + (to_float(self.scenario.output_len) - 1) * self.tpot_s

    @cached_property
    def tokens_per_s(self) -> Array:
        """Tokens decoded a second by all devices, every stage busy with a micro-batch of its own."""
        return to_float(self.layout.dp) * self.layout.pp * self.batch / self.tpot_s

    @cached_property
    def weight_bytes(self) -> Array:
        """Bytes of weights on a device, in the format of compute."""
        held = held_parameters(self.context, self.vocab)
        pp = to_float(self.layout.pp)
        layers = np.ceil(to_float(self.transformer.layers) / pp) * (held.layer + held.layer_experts)
        ends = np.where(pp > 1, np.maximum(held.embedding, held.head + held.final_norm),
                        held.embedding + held.head + held.final_norm)  # fmt: skip
        return (layers + ends) * self.scenario.formats.operand

    @cached_property
    def cache_bytes(self) -> Array:
        """Bytes of KV cache on a device, at the end of the answers, of a micro-batch for every stage."""
        pp = to_float(self.layout.pp)
        tokens = self.batch * pp * (to_float(self.transformer.seq_len) + self.scenario.output_len)
        return tokens * self.held_width * self.scenario.kv_bytes * np.ceil(to_float(self.transformer.layers) / pp)

    @cached_property
    def memory_bytes(self) -> Array:
        """Bytes of weights, cache, the activations of one layer's prefill, and the framework."""
        c, t = self.context, self.transformer
        heads = (c.heads + 2 * c.kv_heads) * c.key_dim
        width = 2 * to_float(t.hidden) + heads + 2 * to_float(t.ffn_hidden) / self.layout.tp
        working = c.tokens * width * self.scenario.formats.activation
        return self.weight_bytes + self.cache_bytes + working + self.scenario.framework_bytes

    @cached_property
    def violations(self) -> tuple[Violation, ...]:  # type: ignore[override]
        """The rules that points break."""
        given, layout, t = self.scenario.layout, self.layout, self.transformer
        rules = [*transformer_rules(self.scenario.transformer, t), *layout_rules(given, layout)]
        rules += [*layer_rules(t, layout), *stage_rules(t, given, layout), *_only_in_training(self)]
        for call, _ in (*self.prefill.calls, *self.decode.calls):
            peers = call.message.peers
            group = Group(peers.size, peers.stride, peers.parts)
            rules += [blank(key, mask, call.message.group) for key, mask in blanks(self.hardware, group)]
        over = np.asarray(self.memory_bytes > to_float(self.hardware.memory_capacity))
        rules.append(Violation(over, NO_ROOM, ("memory_capacity",), wrong=False))
        unique = {rule.reason: rule for rule in rules if rule.broken.any()}
        return (*self.scenario.violations, *unique.values())


def _only_in_training(serving: Serving) -> list[Violation]:
    """Return rules about what only training has: nothing given is ignored."""
    layout, t = serving.layout, serving.transformer
    return [
        Violation(np.asarray(to_float(layout.cp) > 1), "cp is not modelled for inference", ("cp",)),
        Violation(np.asarray(to_float(t.vocab) == 0), "inference needs a vocabulary", ("vocab",)),
        Violation(~np.asarray(t.causal) | t.has_encoder, "only decoders generate tokens", ("architecture",)),
    ]


def evaluate(scenario: Scenario) -> Serving:
    """Return the serving of a scenario; broken rules are listed, not raised.

    Examples
    --------
    >>> from comp_comm.configs.hardware_file import load_profile
    >>> from comp_comm.layout import Layout
    >>> from comp_comm.transformer import Transformer
    >>> h100 = load_profile("h100-sxm").hardware("bf16")
    >>> llama = Transformer(4096, 8192, layers=32, heads=32, kv_heads=8, ffn_hidden=14336, gated=1, vocab=128256)
    >>> serving = evaluate(Scenario(llama, Layout(gpus=1), h100))
    >>> int(serving.cache_bytes_per_token)  # 2 (keys and values) x 32 layers x 8 heads x 128 x 2 bytes
    131072
    """
    layout = replace(resolved_layout(scenario.layout), sp=to_float(0.0), scatter_gather=1)
    return Serving(scenario, resolved(scenario.transformer), layout, in_training(scenario.hardware))


__all__ = ["Pass", "Serving", "evaluate"]
