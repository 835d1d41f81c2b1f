"""The cost model of "Computation vs. Communication Scaling for Future Transformers on Future Hardware".

One transformer layer, one micro-batch, forward and backward, per device, under tensor and data parallelism: compute,
the all-reduces of tensor parallelism on the critical path (*serialized*), and the all-reduce of the weight gradients
that may run beside the backward pass (*overlapped*). What the paper leaves out (embedding, other parallelisms,
optimizer) is left out here.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from comp_comm.costmodels.comp_vs_comm import breakdown
from comp_comm.costmodels.comp_vs_comm.breakdown import Breakdown
from comp_comm.costmodels.comp_vs_comm.fields import FIELDS, FOR_REQUIRED_TP, REQUIRED
from comp_comm.costmodels.comp_vs_comm.rules import blank_numbers, rules
from comp_comm.costmodels.model import NO_PARTS, Asked, CostModel, Parts
from comp_comm.costmodels.scenario import Scenario
from comp_comm.field import Value
from comp_comm.formulas import collectives, edges
from comp_comm.formulas import transformer as layer
from comp_comm.formulas.arrays import Array, to_float
from comp_comm.group import Group
from comp_comm.timing.collectives import all_reduce_seconds
from comp_comm.timing.compute import gemm_seconds_per_flop, memory_seconds

PASSES = 3  # forward, and twice that backward
BACKWARD_SHARE = 2 / 3
ALL_REDUCES = 4  # two forward, two backward
# GEMMs whose output is all-reduced: their kind, how many of it are counted before them, how many they are, and their
# weights in H^2. Output projection and second FC, then the input gradients of Q, K and V together and of the first FC.
# Eq 3 of the paper counts Q, K and V and Eq 1 one FC: there the two forward ones take no time, and hide nothing.
LINEAR, FC = "linear_gemms", "fc_gemms"
PRODUCERS = ((LINEAR, 3, 1, 1.0), (FC, 1, 1, 4.0), (LINEAR, 0, 3, 3.0), (FC, 0, 1, 4.0))


def evaluate(scenario: Scenario, parts: Parts = NO_PARTS) -> Breakdown:
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


def _claims(given: Mapping[str, Value], stated: frozenset[str], suffices: bool) -> bool:
    """Return whether a study is about one layer: a whole model cannot be made of what it gives."""
    return given.get("tp") == "required" or (not suffices and set(REQUIRED) <= given.keys() and stated <= set(FIELDS))


def _notes(asked: Asked) -> list[str]:
    notes = []
    placed = any(np.any(timing.use_tiers) for timing in asked.timings)
    if asked.names_no_model:
        notes.append("cost_model is not given: comp_vs_comm, of one layer; a whole step needs layers, heads and vocab")
    if "dp" in asked.given and not placed:
        notes.append("dp above 1 has no effect: this timing ignores network tiers and takes the ring factor of many")
    if "memory_bandwidth" in asked.given and not any(timing.memory_bound for timing in asked.timings):
        notes.append("memory_bandwidth has no effect: this timing has no memory-bound work")
    if scaling := asked.memory_scalings:
        shown = ", ".join(f"{value:g}" for value in scaling[:5]) + (", ..." if len(scaling) > 5 else "")
        notes.append(f"tp is the required TP of Eq 10 at memory scaling {shown}, rounded up to a divisor of hidden")
    if "dp" not in asked.names and placed:
        notes.append("dp is not given: gradients are reduced on intra-node links, as the paper estimates; "
                     "give dp to place them on the network tiers")  # fmt: skip
    ffn, hidden = (float(asked.model_fields.get(name, 0)) for name in ("ffn_hidden", "hidden"))
    if asked.model_name and ffn not in (0, 4 * hidden):
        notes.append(f"comp_vs_comm takes an FC dimension of 4 x hidden; {asked.model_name} has {ffn:.0f}")
    for name in ("layer_pattern", "index_heads"):
        if name in asked.model_fields:
            had = f"{name} {asked.model_fields[name]}"
            notes.append(f"comp_vs_comm times a layer of attention and a network; {asked.model_name} has {had}")
    return notes


MODEL = CostModel(
    "comp_vs_comm",
    "one layer under tensor and data parallelism, as in arXiv:2302.02825",
    evaluate,
    FIELDS,
    REQUIRED,
    breakdown.COLUMNS,
    ranking="serialized_comm_fraction",
    headline="serialized_comm_fraction",
    shown=(*REQUIRED, "flop_vs_bw"),
    for_required_tp=FOR_REQUIRED_TP,
    own_hardware=True,
    claims=_claims,
    notes=_notes,
    plain_gpt=True,
)
