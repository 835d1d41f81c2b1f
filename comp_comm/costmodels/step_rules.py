"""What is wrong with a step: rules of the model, of the layout, of both together, blanks of the profile, memory."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from comp_comm.formulas.arrays import to_float
from comp_comm.hardware.numbers import Hardware
from comp_comm.layout import layout_rules
from comp_comm.operations.rules import layer_rules, stage_rules
from comp_comm.timing.network import available, blanks
from comp_comm.transformer import transformer_rules
from comp_comm.violation import Violation

if TYPE_CHECKING:
    from comp_comm.costmodels.complete import Step


NO_ROOM = "does not fit: memory exceeds that of the device"


def step_violations(step: Step) -> tuple[Violation, ...]:
    """Return the rules that points break: of model and layout, of what the profile leaves blank, and of memory."""
    given, layout, t = step.scenario.layout, step.layout, step.transformer
    rules = [*transformer_rules(step.scenario.transformer, t), *layout_rules(given, layout), *_of_layers(step)]
    rules += stage_rules(t, given, layout)
    broken = [rule for rule in rules if rule.broken.any()]
    capacity = to_float(step.hardware.memory_capacity)
    over = Violation(np.asarray(step.footprint.total > capacity), NO_ROOM, ("memory_capacity",), wrong=False)
    return (*step.scenario.violations, *broken, *_blanks(step), *([over] if over.broken.any() else []))


def _of_layers(step: Step) -> list[Violation]:
    """Return the rules of a layer: those of shared rows, where points share any."""
    near, rows = step.near, step.scenario.near
    if near is None or rows is None:
        return layer_rules(step.transformer, step.layout)
    return [replace(rule, broken=rows.pick(rule.broken) > 0) for rule in near.layer_rules]


def _blanks(step: Step) -> list[Violation]:
    needs = {"memory.capacity": step.hardware.memory_capacity, "memory.bandwidth": step.hardware.memory_bandwidth,
             "timing.gemm_efficiency": step.hardware.timing.gemm_efficiency,
             "timing.memory_efficiency": step.hardware.timing.memory_efficiency}  # fmt: skip
    if np.any(np.asarray(step.layout.offload_optimizer) > 0):
        needs["memory.host_bandwidth"] = step.hardware.host_bandwidth
    found = [blank(key, np.isnan(to_float(value)), "hardware") for key, value in needs.items()]
    algorithm = np.asarray(step.layout.collective_algorithm)
    if algorithm.any():
        for name, peers in step.groups():
            missing = ~available(step.hardware, "all_reduce", step.span(peers), algorithm) & (to_float(peers.size) > 1)
            what = f"the network has no such collective_algorithm for {name}"
            found.append(Violation(np.asarray(missing), what, ("collective_algorithm", name)))
    if _known(step.hardware):
        return [rule for rule in found if rule.broken.any()]
    for name, peers in step.groups():
        found += [blank(key, mask, name) for key, mask in blanks(step.hardware, step.span(peers))]
    return list({rule.reason: rule for rule in found if rule.broken.any()}.values())


def _known(hardware: Hardware) -> bool:
    """Return whether every number of the network is known, out to a tier that connects everything."""
    outermost = False
    for tier in hardware.tiers:
        if outermost or not tier.key:
            break
        numbers = (tier.bandwidth, tier.latency, tier.efficiency, tier.entry_latency, tier.tree_latency, tier.reduction)
        if any(np.isnan(to_float(number)).any() for number in numbers):
            return False
        outermost = bool(np.isinf(to_float(tier.domain)).all())
    return outermost


def blank(key: str, where: NDArray[np.bool_], name: str) -> Violation:
    """Return the rule that a number ``name`` needs is known; ``key`` is empty where no tier connects the group."""
    needs = "this step" if name == "hardware" else name
    reason = f"{key} is blank in the hardware profile, and {needs} needs it"
    return Violation(np.asarray(where), reason if key else f"no network tier reaches as far as {name}", (name,))
