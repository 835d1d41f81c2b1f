"""The rules a point must keep in the cost model `comp_vs_comm`, and the numbers of a profile it needs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from comp_comm.costmodels.scenario import Scenario
from comp_comm.formulas.arrays import to_float
from comp_comm.group import Group
from comp_comm.timing.ring_all_reduce import bandwidth_needed
from comp_comm.violation import Violation, blank_number, broken_rules, divides

# Timing numbers every point needs; what else it needs depends on the point.
TIMING_NEEDED = (
    "gemm_efficiency", "attention_efficiency", "gemm_ramp_tokens", "kernel_latency", "all_reduce_latency",
    "activation_passes", "score_passes",
)  # fmt: skip


def rules(scenario: Scenario) -> tuple[Violation, ...]:
    """Return the rules to keep here: TP splits the hidden dimension evenly; domains are of timings with tiers."""
    without_tiers = (np.asarray(scenario.hardware.timing.use_tiers) == 0) & ~np.isnan(to_float(scenario.mesh.nvs))
    idle = Violation(without_tiers, "nvs has no effect under a timing that does without network tiers", ("nvs",))
    return (divides(scenario.layout.tp, scenario.transformer.hidden, ("tp", "hidden")), idle)


def blank_numbers(scenario: Scenario, groups: Mapping[str, Group]) -> tuple[Violation, ...]:
    """Return where a number is needed that the hardware profile leaves blank, by its key in the profile."""
    hardware, timing = scenario.hardware, scenario.hardware.timing
    needs = {f"timing.{name}": getattr(timing, name) for name in TIMING_NEEDED}
    if timing.memory_bound:
        needs |= {"memory.bandwidth": hardware.memory_bandwidth, "timing.memory_efficiency": timing.memory_efficiency,
                  "timing.score_head_dim": timing.score_head_dim}  # fmt: skip
    rules = [blank_number(key, np.isnan(value), "timing") for key, value in needs.items()]
    for name, group in groups.items():
        needed = bandwidth_needed(hardware, group)
        ignored = needed[0] & (np.asarray(timing.use_tiers) == 0)
        missing = np.asarray(ignored & np.isnan(timing.network_efficiency))
        rules.append(blank_number("timing.network_efficiency", missing, name))
        placed = (np.asarray(timing.use_tiers) > 0) & ~np.isinf(group.size)
        for tier, crossed in zip(hardware.tiers, needed, strict=True):
            given = crossed & ~np.isnan(tier.bandwidth)  # a tier that is blank altogether is said once
            wanted = {"bandwidth": crossed, "efficiency": given & ~ignored, "latency": given & placed}
            for part, where in wanted.items():
                key = f"{tier.key}.{part}" if tier.key else ""
                rules.append(blank_number(key, np.asarray(where & np.isnan(getattr(tier, part))), name))
    return tuple(broken_rules(rules))
