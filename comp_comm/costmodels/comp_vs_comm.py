"""The cost model of "Computation vs. Communication Scaling for Future Transformers on Future Hardware".

One transformer layer, one micro-batch, forward and backward, per device, under tensor and data parallelism: compute,
the all-reduces of tensor parallelism on the critical path (*serialized*), and the all-reduce of the weight gradients
that may run beside the backward pass (*overlapped*). What the paper leaves out (embedding, other parallelisms,
optimizer) is left out here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from comp_comm.costmodels.breakdown import Breakdown
from comp_comm.costmodels.scenario import Scenario
from comp_comm.formulas import collectives, edges
from comp_comm.formulas import transformer as layer
from comp_comm.formulas.arrays import Array, to_float
from comp_comm.timing.collectives import Group, all_reduce_seconds, bandwidth_needed
from comp_comm.timing.compute import gemm_seconds_per_flop, memory_seconds
from comp_comm.violation import Violation, divides

FIELDS = (
    "hidden", "seq_len", "layers", "parameters", "micro_batch", "tp", "dp", "flop_vs_bw", "flops", "network",
    "memory_bandwidth", "memory_capacity", "nvs", "precision", "comm_precision", "count", "timing", "memory_scaling",
    "inter_node_slowdown", "interference", "comm_offload", "in_network_reduction", "in_memory_reduction", "fused_comm",
    "fused_tiles",
)  # fmt: skip
REQUIRED = ("hidden", "seq_len", "micro_batch", "tp")
# These matter only where the tensor-parallel degree is derived from them.
FOR_REQUIRED_TP = ("layers", "parameters", "memory_scaling", "memory_capacity")

# Timing numbers every point needs; what else it needs depends on the point.
TIMING_NEEDED = (
    "gemm_efficiency", "attention_efficiency", "gemm_ramp_tokens", "kernel_latency", "all_reduce_latency",
    "activation_passes", "score_passes",
)  # fmt: skip

PASSES = 3  # forward, and twice that backward
BACKWARD_SHARE = 2 / 3
ALL_REDUCES = 4  # two forward, two backward
# GEMMs whose output is all-reduced, in units of H^2 weights: output projection and second FC, then the input gradients
# of Q, K and V together and of the first FC.
PRODUCERS = (1.0, 4.0, 3.0, 4.0)


def evaluate(scenario: Scenario) -> Breakdown:
    """Return the breakdown of one layer's forward and backward pass.

    Parameters
    ----------
    scenario : Scenario
        H, SL, micro-batch, TP, DP, hardware and conventions, numbers or arrays that broadcast.

    Returns
    -------
    Breakdown
        Seconds per device, each array with only the axes it depends on; broken rules are listed, not raised.

    References
    ----------
    .. [1] S. Pati et al., arXiv:2302.02825: Eqs 1-9 and section 4.3.

    Examples
    --------
    >>> from comp_comm.configs.hardware_file import load_profile
    >>> from comp_comm.layout import Layout
    >>> from comp_comm.transformer import Transformer
    >>> mi210 = load_profile("mi210").hardware("fp16")
    >>> b = evaluate(Scenario(Transformer(65536, 4096), Layout(micro_batch=1, tp=256), mi210))
    >>> round(float(b.serialized_comm_s / (b.compute_s + b.serialized_comm_s)), 3)
    0.478
    """
    hidden, seq_len = scenario.transformer.hidden, scenario.transformer.seq_len
    batch, tp = scenario.layout.micro_batch, scenario.layout.tp
    hardware, count, p = scenario.hardware, scenario.gemm_count, scenario.element_bytes

    tp_group, dp_group = Group(tp), Group(_replicas(scenario), stride=tp)
    message = layer.activation_message_bytes(hidden, seq_len, batch, p)
    switched = scenario.what_if.in_network_reduction
    each = all_reduce_seconds(hardware, message, tp_group, switched)

    # Links with 1/s of the bandwidth take as long for m bytes as these do for s m; latencies are theirs either way.
    slowdown = to_float(scenario.inter_node_slowdown)
    gradients = layer.layer_weights(hidden, tp, count.fc_gemms, count.linear_gemms) * p
    fc_gradients = layer.layer_weights(hidden, tp, 1, 0) * p
    seconds_per_flop = gemm_seconds_per_flop(hardware, layer.tokens(seq_len, batch))
    compute = _compute_seconds(scenario, seconds_per_flop)
    serialized, under = _fused(scenario, each, seconds_per_flop)
    slowed = _interference(scenario, dp_group)
    return Breakdown(
        compute_s=compute,
        fused_comm_s=under,
        hiding_compute_s=BACKWARD_SHARE * compute,
        serialized_comm_s=serialized,
        overlapped_comm_s=slowed * all_reduce_seconds(hardware, slowdown * gradients, dp_group, switched),
        region_compute_s=layer.fc_backward_flops(hidden, seq_len, batch, tp) * seconds_per_flop
        + 2 * to_float(hardware.timing.kernel_latency),
        region_comm_s=slowed * all_reduce_seconds(hardware, slowdown * fc_gradients, dp_group, switched),
        amdahl_edge_flop_per_byte=edges.amdahl_edge(hidden, seq_len, tp, p, *count, PASSES, ALL_REDUCES),
        slack_flop_per_byte=edges.slack_advantage(seq_len, batch, p),
        violations=(*scenario.violations, *rules(scenario), *_blanks(scenario, {"tp": tp_group, "dp": dp_group})),
    )


def _interference(scenario: Scenario, group: Group) -> Array:
    """Return how much slower overlapped communication is for the compute beside it.

    A co-processor is not slowed. Else, what slows it is met in memory, in proportion to how often the all-reduce goes
    there: switches or memory that reduce go there less.
    """
    what_if, slower = scenario.what_if, to_float(scenario.interference) - 1
    passes = collectives.all_reduce_memory_passes(group.size)
    fewer = collectives.all_reduce_memory_passes(group.size, what_if.in_network_reduction, what_if.in_memory_reduction)
    share = np.where(passes > 0, fewer / np.where(passes > 0, passes, 1.0), 1.0)
    return 1 + np.where(to_float(what_if.comm_offload) > 0, 0.0, slower * share)


def _fused(scenario: Scenario, each: Array, seconds_per_flop: Array) -> tuple[Array, Array]:
    """Return what shows of the serialized all-reduces, and what their own GEMMs hide where both are fused."""
    what_if, fused = scenario.what_if, to_float(scenario.what_if.fused_comm) > 0
    whole = ALL_REDUCES * each
    if not fused.any():
        return whole, to_float(0.0)
    hidden, layout = to_float(scenario.transformer.hidden), scenario.layout
    tokens = layer.tokens(scenario.transformer.seq_len, layout.micro_batch)
    shown = to_float(0.0)
    for width in PRODUCERS:
        gemm = 2 * width * hidden**2 * tokens / layout.tp * seconds_per_flop
        shown = shown + collectives.fused_visible_seconds(gemm, each, what_if.fused_tiles)
    shown = np.where(fused, shown, whole)
    return shown, whole - shown


def _replicas(scenario: Scenario) -> Array:
    """Return the data-parallel degree; infinity where it is not given, the paper's many replicas."""
    dp = to_float(scenario.layout.dp)
    return np.where(np.isnan(dp), np.inf, dp)


def _compute_seconds(scenario: Scenario, seconds_per_flop: Array) -> Array:
    """Return forward and backward compute; everything is joined with TP last, to keep the arrays before it small."""
    hidden, seq_len = scenario.transformer.hidden, scenario.transformer.seq_len
    batch, tp = scenario.layout.micro_batch, scenario.layout.tp
    hardware, count = scenario.hardware, scenario.gemm_count
    attention_per_flop = gemm_seconds_per_flop(hardware, layer.tokens(seq_len, batch), attention=True)
    weights = layer.fc_forward_flops(hidden, seq_len, batch, 1, count.fc_gemms)
    weights = weights + layer.linear_forward_flops(hidden, seq_len, batch, 1, count.linear_gemms)
    attention = layer.attention_forward_flops(hidden, seq_len, batch, 1, count.attention_gemms)
    forward = weights * seconds_per_flop + attention * attention_per_flop
    seconds = layer.training_flops(forward) / tp
    for extra in (_launch_seconds(scenario), _memory_bound_seconds(scenario)):
        if np.any(extra != 0):
            seconds = seconds + extra
    return seconds


def _launch_seconds(scenario: Scenario) -> Array:
    """Return the time to launch the kernels: each counted GEMM once forward, twice backward."""
    count = scenario.gemm_count
    gemms = to_float(count.fc_gemms) + count.attention_gemms + count.linear_gemms
    return PASSES * gemms * scenario.hardware.timing.kernel_latency


def _memory_bound_seconds(scenario: Scenario) -> Array:
    """Return the time of memory-bound work, which FLOP/s do not speed up.

    Passes over the activation (H x T elements, all of it on every device) and over the attention scores (SL x T
    elements a head, heads split by TP), forward and backward together. A pass moves each element once.
    """
    timing = scenario.hardware.timing
    if not timing.memory_bound:
        return to_float(0.0)  # the bandwidth may be blank
    hidden, seq_len = to_float(scenario.transformer.hidden), scenario.transformer.seq_len
    elements = layer.tokens(seq_len, scenario.layout.micro_batch)
    heads = hidden / (to_float(timing.score_head_dim) * scenario.layout.tp)
    passed = timing.activation_passes * hidden * elements + timing.score_passes * (seq_len * heads) * elements
    return memory_seconds(scenario.hardware, passed * scenario.element_bytes)


def rules(scenario: Scenario) -> tuple[Violation, ...]:
    """Return the rules to keep here: TP splits the hidden dimension evenly; domains are of timings with tiers."""
    without_tiers = (np.asarray(scenario.hardware.timing.use_tiers) == 0) & ~np.isnan(to_float(scenario.mesh.nvs))
    idle = Violation(without_tiers, "nvs has no effect under a timing that does without network tiers", ("nvs",))
    return (divides(scenario.layout.tp, scenario.transformer.hidden, ("tp", "hidden")), idle)


def _blanks(scenario: Scenario, groups: dict[str, Group]) -> tuple[Violation, ...]:
    """Return where a number is needed that the hardware profile leaves blank, by its key in the profile."""
    hardware, timing = scenario.hardware, scenario.hardware.timing
    needs = {f"timing.{name}": getattr(timing, name) for name in TIMING_NEEDED}
    if timing.memory_bound:
        needs |= {"memory.bandwidth": hardware.memory_bandwidth, "timing.memory_efficiency": timing.memory_efficiency,
                  "timing.score_head_dim": timing.score_head_dim}  # fmt: skip
    found = [_blank(np.isnan(value), key, "timing") for key, value in needs.items()]
    for name, group in groups.items():
        needed = bandwidth_needed(hardware, group)
        ignored = needed[0] & (np.asarray(timing.use_tiers) == 0)
        found.append(_blank(ignored & np.isnan(timing.network_efficiency), "timing.network_efficiency", name))
        placed = (np.asarray(timing.use_tiers) > 0) & ~np.isinf(group.size)
        for tier, crossed in zip(hardware.tiers, needed, strict=True):
            given = crossed & ~np.isnan(tier.bandwidth)  # a tier that is blank altogether is said once
            wanted = {"bandwidth": crossed, "efficiency": given & ~ignored, "latency": given & placed}
            for part, where in wanted.items():
                key = f"{tier.key}.{part}" if tier.key else ""
                found.append(_blank(where & np.isnan(getattr(tier, part)), key, name))
    return tuple(violation for violation in found if violation.broken.any())


def _blank(broken: Any, key: str, name: str) -> Violation:
    reason = f"{key} is blank in the hardware profile, and {name} needs it"
    return Violation(np.asarray(broken), reason if key else f"no network tier reaches as far as {name}", (name,))
