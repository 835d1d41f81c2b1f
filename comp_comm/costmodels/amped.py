"""The cost model of "AMPeD: An Analytical Model for Performance in Distributed Training of Transformers" (ISPASS 2023).

Put together again from its abstract, the inputs and outputs that other tools read and write, and memory; see
`comp_comm.formulas.amped` for what is ours. A step is the compute of the whole batch over all devices, the
communication of a device within nodes and between them, the gradients' all-reduce, and the pipeline's bubble. Nothing
overlaps. There is no memory in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from comp_comm.costmodels.amped_rules import violations
from comp_comm.costmodels.mesh import Inside, placed
from comp_comm.costmodels.scenario import Scenario
from comp_comm.costmodels.step_work import StepWork
from comp_comm.formulas import amped as term
from comp_comm.formulas.amped import FLOPS_PER_MAC, Tiers
from comp_comm.formulas.arrays import Array, Numeric, to_float
from comp_comm.layout import FULL, resolved_layout
from comp_comm.transformer import resolved
from comp_comm.violation import Violation

BACKWARD = 2.0  # gradients of inputs and of weights
CALLS = 2.0  # all-reduces (or, of experts, all-to-alls) of a layer in each pass


class Comm(NamedTuple):
    """Seconds of communication of a device in a step, by kind."""

    tp_intra: Array
    tp_inter: Array
    pp: Array
    ep: Array


@dataclass(frozen=True)
class AmpedStep(StepWork):
    """A step as arrays that are made when they are asked for; without a vocabulary there are no logits."""

    def arrays(self) -> Iterable[Array]:
        """Return what a sweep holds."""
        return [self.step_s, self.compute_s]

    # -- the layout ---------------------------------------------------------------------------------------------------

    @cached_property
    def domain(self) -> Array:
        """Devices of a node, at most all of them."""
        nvs = to_float(self.scenario.mesh.nvs)
        return np.minimum(np.where(np.isnan(nvs), self.scenario.hardware.tiers[0].domain, nvs), self.gpus)

    @cached_property
    def inside(self) -> Inside:
        """Devices of each group that share a node."""
        mesh, layout = self.scenario.mesh, self.layout
        return mesh.inside or placed(mesh, (layout.tp, 1.0, layout.dp, layout.pp), self.domain)

    @cached_property
    def expert_places(self) -> tuple[Array, Array]:
        """Devices of an expert-parallel group, neighbours among the replicas, and how many of them share a node."""
        ep = to_float(self.layout.ep)
        return ep, np.minimum(ep, self.inside.dp)

    # -- compute ------------------------------------------------------------------------------------------------------

    @cached_property
    def achieved_flops(self) -> Array:
        """FLOP/s of GEMMs that a device achieves at its micro-batch."""
        timing = self.scenario.hardware.timing
        tokens = to_float(self.layout.micro_batch) * self.transformer.seq_len
        share = term.micro_batch_efficiency(timing.gemm_efficiency, timing.gemm_ramp_tokens, tokens)
        return share * self.scenario.hardware.peak_flops

    @cached_property
    def _kinds(self) -> list[tuple[Array, Numeric, Numeric]]:
        """Layers, feed-forward networks a token goes through, and the width of each: dense ones, those of experts."""
        t = self.transformer
        if not t.has_experts:
            return [(to_float(t.layers), 1.0, t.ffn_hidden)]
        return [(t.layers - t.moe_layers, 1.0, t.ffn_hidden), (t.moe_layers, t.top_k, t.moe_ffn_hidden)]

    @cached_property
    def layer_macs(self) -> Array:
        """Multiply-accumulates of all layers, forward, of the whole batch."""
        t, total = self.transformer, to_float(0.0)
        for layers, networks, width in self._kinds:
            total = total + layers * term.layer_macs(self.step_tokens, t.seq_len, t.hidden, width, networks)
        return total

    @cached_property
    def logit_macs(self) -> Array:
        """Multiply-accumulates of the logits, forward; 0 without a vocabulary."""
        vocab = to_float(self.transformer.vocab)
        return self.step_tokens * np.where(np.isnan(vocab), 0.0, vocab) * self.transformer.hidden

    @cached_property
    def _nonlinear_s(self) -> Array:
        """Seconds of softmax, activations and norms, forward, of the whole batch on one device."""
        t, total = self.transformer, to_float(0.0)
        for layers, networks, width in self._kinds:
            each = term.layer_nonlinear(self.step_tokens, t.seq_len, t.hidden, width, t.heads, networks)
            total = total + layers * each
        return total / self.scenario.hardware.timing.vector_flops

    @property
    def passes(self) -> Array:
        """Passes through the layers in units of a forward pass."""
        return 1.0 + BACKWARD + self.repeats

    @property
    def repeats(self) -> Array:
        """Forward passes that make activations again."""
        return np.where(np.asarray(self.layout.recompute) == FULL, 1.0, 0.0)

    @cached_property
    def compute_s(self) -> Array:
        """Seconds of forward, backward and repeated compute, and of the update of the weights."""
        per_mac = FLOPS_PER_MAC / self.achieved_flops
        layers = self.passes * (self.layer_macs * per_mac + self._nonlinear_s)
        logits = (1.0 + BACKWARD) * self.logit_macs * per_mac
        return (layers + logits + self.parameters * per_mac) / self.gpus

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
        t = self.transformer
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
        near, *others = self.scenario.hardware.tiers
        far = others[0] if others else near
        return Tiers(to_float(near.efficiency) * near.bandwidth, near.latency,
                     to_float(far.efficiency) * far.bandwidth, far.latency)  # fmt: skip

    @cached_property
    def activation_bytes(self) -> Array:
        """Bytes of the hidden activations of a replica's whole batch."""
        return self.step_tokens / self.dp * self.transformer.hidden * self.scenario.element_bytes

    @cached_property
    def comm(self) -> Comm:
        """Seconds of the communication of layers and stages: in the forward pass, as often again in each other one."""
        layout, t, steps = self.layout, self.transformer, to_float(self.layout.accumulation)
        often = CALLS * (2.0 + self.repeats) / layout.pp
        calls = often * t.layers
        near = self.inside.tp1
        volume = calls * self.activation_bytes
        intra, inter = term.all_reduce_seconds(volume, near, to_float(layout.tp) / near, self.tiers, calls * steps)
        sends = term.boundary_seconds(2 * self.activation_bytes, layout.pp, self.inside.pp, self.tiers, 2 * steps)
        overhead = 1.0 + to_float(self.scenario.mesh.zero_overhead)
        return Comm(*(overhead * part for part in (intra, inter, sends, self._expert_comm(often))))

    def _expert_comm(self, often: Array) -> Array:
        """Return the seconds of all-to-alls to experts and back; TP devices send a part of their tokens each."""
        t = self.transformer
        if not t.has_experts:
            return to_float(0.0)
        calls = often * t.moe_layers
        sent = np.where(to_float(t.experts) > 0, t.top_k, 0.0) * self.activation_bytes / self.layout.tp
        steps = to_float(self.layout.accumulation)
        return term.all_to_all_seconds(calls * sent, *self.expert_places, self.tiers, calls * steps)

    @cached_property
    def dp_comm_s(self) -> Array:
        """Seconds of the gradients' all-reduce."""
        split = to_float(self.layout.tp) * self.layout.pp
        near, (ep, near_experts) = self.inside.dp, self.expert_places
        dense, experts = (self.scenario.element_bytes * weights for weights in self.weights)
        seconds = sum(term.all_reduce_seconds(dense / split, near, self.dp / near, self.tiers, 1.0))
        if self.transformer.has_experts:
            inside, copies = near / near_experts, self.dp / ep
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
        ratio = to_float(self.scenario.mesh.bubble_ratio)
        ratio = np.where(np.isnan(ratio), 1.0 / to_float(self.layout.vpp), ratio)
        busy = self.compute_s + self.layer_comm_s
        return term.bubble_seconds(busy, self.layout.pp, self.layout.accumulation, ratio)

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
        return (*self.scenario.violations, *violations(self))


def evaluate(scenario: Scenario) -> AmpedStep:
    """Return the step of a scenario; broken rules are listed, not raised.

    References
    ----------
    .. [1] D. Moolchandani et al., ISPASS 2023, IEEE 10158196.

    Examples
    --------
    >>> from comp_comm.configs.hardware_file import load_profile
    >>> from comp_comm.layout import Layout
    >>> from comp_comm.transformer import Transformer
    >>> a100 = load_profile("papers/hardware/amped-a100").hardware("fp16")
    >>> gpt = Transformer(12288, 2048, layers=80, heads=96, vocab=51200)
    >>> layout = Layout(tp=8, pp=8, gpus=1536, micro_batch=2, vpp=2, global_batch=2304, recompute=FULL)
    >>> step = evaluate(Scenario(gpt, layout, a100))
    >>> round(float(step.hardware_flops / (step.gpus * step.step_s)) / 1e12)
    148
    """
    return AmpedStep(scenario, resolved(scenario.transformer), resolved_layout(scenario.layout), scenario.hardware)
