"""The cost model of "AMPeD: An Analytical Model for Performance in Distributed Training of Transformers" (ISPASS 2023).

Put together again from its abstract, the inputs and outputs that other tools read and write, and memory; see
`comp_comm.formulas.amped` for what is ours. A step is the compute of the whole batch over all devices, the
communication of a device within nodes and between them, the gradients' all-reduce, and the pipeline's bubble. Nothing
overlaps. There is no memory in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from comp_comm.choices import Recompute
from comp_comm.costmodels.amped.nodes import Nodes
from comp_comm.costmodels.amped.rules import violations
from comp_comm.costmodels.answer import Answer
from comp_comm.costmodels.work import Work
from comp_comm.formulas import amped as term
from comp_comm.formulas.amped import FLOPS_PER_MAC, Tiers
from comp_comm.formulas.arrays import Array, Numeric, to_float
from comp_comm.lazy import cached_property
from comp_comm.structs import struct
from comp_comm.violation import Violation

BACKWARD = 2.0  # gradients of inputs and of weights
CALLS = 2.0  # all-reduces (or, of experts, all-to-alls) of a layer in each pass


class Comm(NamedTuple):
    """Seconds of communication of a device in a step, by kind."""

    tp_intra: Array
    tp_inter: Array
    pp: Array
    ep: Array


@struct
class AmpedStep(Answer):
    """A step as arrays that are made when they are asked for; without a vocabulary there are no logits."""

    work: Work

    @cached_property
    def nodes(self) -> Nodes:
        """How many devices of each group share a node."""
        return Nodes(self.work)

    def arrays(self) -> Iterable[Array]:
        """Return what a sweep holds."""
        return [self.step_s, self.compute_s]

    # -- compute ------------------------------------------------------------------------------------------------------

    @cached_property
    def achieved_flops(self) -> Array:
        """FLOP/s of GEMMs that a device achieves at its micro-batch."""
        timing = self.work.scenario.hardware.timing
        tokens = to_float(self.work.layout.micro_batch) * self.work.transformer.seq_len
        share = term.micro_batch_efficiency(timing.gemm_efficiency, timing.gemm_ramp_tokens, tokens)
        return share * self.work.scenario.hardware.peak_flops

    @cached_property
    def _kinds(self) -> list[tuple[Array, Numeric, Numeric]]:
        """Layers, feed-forward networks a token goes through, and the width of each: dense ones, those of experts."""
        t = self.work.transformer
        if not t.has_experts:
            return [(to_float(t.layers), 1.0, t.ffn_hidden)]
        return [(t.layers - t.moe_layers, 1.0, t.ffn_hidden), (t.moe_layers, t.top_k, t.moe_ffn_hidden)]

    @cached_property
    def layer_macs(self) -> Array:
        """Multiply-accumulates of all layers, forward, of the whole batch."""
        t, total = self.work.transformer, to_float(0.0)
        for layers, networks, width in self._kinds:
            total = total + layers * term.layer_macs(self.work.step_tokens, t.seq_len, t.hidden, width, networks)
        return total

    @cached_property
    def logit_macs(self) -> Array:
        """Multiply-accumulates of the logits, forward; 0 without a vocabulary."""
        vocab = to_float(self.work.transformer.vocab)
        return self.work.step_tokens * np.where(np.isnan(vocab), 0.0, vocab) * self.work.transformer.hidden

    @cached_property
    def _nonlinear_s(self) -> Array:
        """Seconds of softmax, activations and norms, forward, of the whole batch on one device."""
        t, total = self.work.transformer, to_float(0.0)
        for layers, networks, width in self._kinds:
            each = term.layer_nonlinear(self.work.step_tokens, t.seq_len, t.hidden, width, t.heads, networks)
            total = total + layers * each
        return total / self.work.scenario.hardware.timing.vector_flops

    @property
    def passes(self) -> Array:
        """Passes through the layers in units of a forward pass."""
        return 1.0 + BACKWARD + self.repeats

    @property
    def repeats(self) -> Array:
        """Forward passes that make activations again."""
        return to_float(Recompute.FULL.where(self.work.layout.recompute))

    @cached_property
    def compute_s(self) -> Array:
        """Seconds of forward, backward and repeated compute, and of the update of the weights."""
        per_mac = FLOPS_PER_MAC / self.achieved_flops
        layers = self.passes * (self.layer_macs * per_mac + self._nonlinear_s)
        logits = (1.0 + BACKWARD) * self.logit_macs * per_mac
        return (layers + logits + self.parameters * per_mac) / self.work.gpus

    @cached_property
    def hardware_flops(self) -> Array:
        """FLOP of a step over all devices, recomputation too."""
        return FLOPS_PER_MAC * (self.passes * self.layer_macs + (1.0 + BACKWARD) * self.logit_macs)

    @cached_property
    def model_flops(self) -> Array:
        """FLOP the model needs in a step."""
        return FLOPS_PER_MAC * (1.0 + BACKWARD) * (self.layer_macs + self.logit_macs)

    # -- weights ------------------------------------------------------------------------------------------------------

    @cached_property
    def weights(self) -> tuple[Array, Array]:
        """Weights of all layers that every replica holds, and those of experts."""
        t = self.work.transformer
        d = to_float(t.hidden)
        if not t.has_experts:
            return t.layers * (4 * d * d + 2 * d * t.ffn_hidden), to_float(0.0)
        dense = t.layers * 4 * d * d + (t.layers - t.moe_layers) * 2 * d * t.ffn_hidden
        return dense, t.moe_layers * t.experts * 2 * d * t.moe_ffn_hidden

    @property
    def parameters(self) -> Array:
        """Weights of all layers."""
        return self.weights[0] + self.weights[1]

    # -- communication ------------------------------------------------------------------------------------------------

    @cached_property
    def tiers(self) -> Tiers:
        """The network: within nodes, and between them."""
        inner, *others = self.work.scenario.hardware.tiers
        outer = others[0] if others else inner
        return Tiers(to_float(inner.efficiency) * inner.bandwidth, inner.latency,
                     to_float(outer.efficiency) * outer.bandwidth, outer.latency)  # fmt: skip

    @cached_property
    def activation_bytes(self) -> Array:
        """Bytes of the hidden activations of a replica's whole batch."""
        return self.work.step_tokens / self.work.dp * self.work.transformer.hidden * self.work.scenario.element_bytes

    @cached_property
    def comm(self) -> Comm:
        """Seconds of the communication of layers and stages: in the forward pass, as often again in each other one."""
        layout, t, steps = self.work.layout, self.work.transformer, to_float(self.work.layout.accumulation)
        each = CALLS * (2.0 + self.repeats) / layout.pp
        calls = each * t.layers
        inside = self.nodes.inside.tp1
        volume = calls * self.activation_bytes
        intra, inter = term.all_reduce_seconds(volume, inside, to_float(layout.tp) / inside, self.tiers, calls * steps)
        sends = term.boundary_seconds(2 * self.activation_bytes, layout.pp, self.nodes.inside.pp, self.tiers, 2 * steps)
        overhead = 1.0 + to_float(self.work.scenario.mesh.zero_overhead)
        return Comm(*(overhead * part for part in (intra, inter, sends, self._expert_comm(each))))

    def _expert_comm(self, each: Array) -> Array:
        """Return the seconds of all-to-alls to experts and back; TP devices send a part of their tokens each."""
        t = self.work.transformer
        if not t.has_experts:
            return to_float(0.0)
        calls = each * t.moe_layers
        sent = np.where(to_float(t.experts) > 0, t.top_k, 0.0) * self.activation_bytes / self.work.layout.tp
        steps = to_float(self.work.layout.accumulation)
        return term.all_to_all_seconds(calls * sent, *self.nodes.expert_places, self.tiers, calls * steps)

    @cached_property
    def dp_comm_s(self) -> Array:
        """Seconds of the gradients' all-reduce."""
        split = to_float(self.work.layout.tp) * self.work.layout.pp
        local, (ep, local_experts) = self.nodes.inside.dp, self.nodes.expert_places
        dense, experts = (self.work.scenario.element_bytes * weights for weights in self.weights)
        seconds = sum(term.all_reduce_seconds(dense / split, local, self.work.dp / local, self.tiers, 1.0))
        if self.work.transformer.has_experts:
            inside, copies = local / local_experts, self.work.dp / ep
            shared = term.all_reduce_seconds(experts / (split * ep), inside, copies / inside, self.tiers, 1.0)
            seconds = seconds + np.where(to_float(experts) > 0, sum(shared), 0.0)
        return to_float(seconds)

    # -- a step -------------------------------------------------------------------------------------------------------

    @cached_property
    def layer_comm_s(self) -> Array:
        """Seconds of the communication of layers and stages."""
        return self.comm.tp_intra + self.comm.tp_inter + self.comm.pp + self.comm.ep

    @cached_property
    def bubble_s(self) -> Array:
        """Seconds of waiting for other stages."""
        ratio = to_float(self.work.scenario.mesh.bubble_ratio)
        ratio = np.where(np.isnan(ratio), 1.0 / to_float(self.work.layout.vpp), ratio)
        busy = self.compute_s + self.layer_comm_s
        return term.bubble_seconds(busy, self.work.layout.pp, self.work.layout.accumulation, ratio)

    @cached_property
    def comm_s(self) -> Array:
        """Seconds of communication."""
        return self.layer_comm_s + self.dp_comm_s

    @cached_property
    def step_s(self) -> Array:
        """Seconds of a step."""
        return self.compute_s + self.comm_s + self.bubble_s

    @cached_property
    def violations(self) -> tuple[Violation, ...]:  # type: ignore[override]
        """The rules that points break."""
        return (*self.work.scenario.violations, *violations(self.work, self.nodes))
