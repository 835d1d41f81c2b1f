"""One layer's forward and backward pass in seconds, as in arXiv:2302.02825."""

from __future__ import annotations

import numpy as np

from comp_comm.costmodels.comp_vs_comm.breakdown import Breakdown
from comp_comm.costmodels.comp_vs_comm.rules import blank_numbers, rules
from comp_comm.costmodels.scenario import Scenario
from comp_comm.formulas import collectives, edges
from comp_comm.formulas import transformer as layer
from comp_comm.formulas.arrays import Array, to_float
from comp_comm.group import Group
from comp_comm.timing.compute import gemm_seconds_per_flop, memory_seconds
from comp_comm.timing.ring_all_reduce import all_reduce_seconds

PASSES = 3  # forward, and twice that backward
BACKWARD_SHARE = 2 / 3
ALL_REDUCES = 4  # two forward, two backward
# GEMMs whose output is all-reduced: their kind, how many of it are counted before them, how many they are, and their
# weights in H^2. Output projection and second FC, then the input gradients of Q, K and V together and of the first FC.
# Eq 3 of the paper counts Q, K and V and Eq 1 one FC: there the two forward ones take no time, and hide nothing.
LINEAR, FC = "linear_gemms", "fc_gemms"
PRODUCERS = ((LINEAR, 3, 1, 1.0), (FC, 1, 1, 4.0), (LINEAR, 0, 3, 3.0), (FC, 0, 1, 4.0))


def breakdown_of(scenario: Scenario) -> Breakdown:
    """Return where the time of a scenario's layer goes."""
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
        violations=(*scenario.violations, *rules(scenario), *blank_numbers(scenario, {"tp": tp_group, "dp": dp_group})),
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
    """Return what shows of the serialized all-reduces, and what their own GEMMs hide where both are fused.

    Only a GEMM whose time is counted hides anything: what hides under no time would make slower compute faster.
    """
    what_if, fused = scenario.what_if, to_float(scenario.what_if.fused_comm) > 0
    unfused = ALL_REDUCES * each
    if not fused.any():
        return unfused, to_float(0.0)
    hidden, layout = to_float(scenario.transformer.hidden), scenario.layout
    tokens = layer.tokens(scenario.transformer.seq_len, layout.micro_batch)
    shown = to_float(0.0)
    for kind, before, gemms, width in PRODUCERS:
        counted = np.clip((to_float(getattr(scenario.gemm_count, kind)) - before) / gemms, 0.0, 1.0)
        gemm = counted * (2 * width * hidden**2 * tokens / layout.tp * seconds_per_flop)
        shown = shown + collectives.fused_visible_seconds(gemm, each, what_if.fused_tiles)
    shown = np.where(fused, shown, unfused)
    return shown, unfused - shown


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
