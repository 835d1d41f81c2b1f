"""The rules a layout must keep in the cost model `foundation_models`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from comp_comm.costmodels.mesh import CORRECTED, ONE_D, SEQUENCE, SUMMA
from comp_comm.costmodels.step_rules import NO_ROOM
from comp_comm.formulas.arrays import to_float
from comp_comm.violation import Violation, divides

if TYPE_CHECKING:
    from comp_comm.costmodels.foundation_models import FoundationStep

NAME = "foundation_models"


def violations(step: FoundationStep) -> tuple[Violation, ...]:
    """Return the rules that points break: of the layout, of the mesh on its domains, of the profile, of memory."""
    found = [*_degrees(step), *_batches(step), *_strategies(step), *_domains(step), *profile_rules(step)]
    broken = [rule for rule in found if rule.broken.any()]
    over = np.asarray(step.memory_bytes > to_float(step.scenario.hardware.memory_capacity))
    room = Violation(over, NO_ROOM, ("memory_capacity",), wrong=False)
    return (*broken, *([room] if over.any() else []))


def _rule(broken: NDArray[np.bool_], reason: str, *names: str) -> Violation:
    return Violation(np.asarray(broken), reason, names)


def _blank(key: str, where: NDArray[np.bool_], name: str) -> Violation:
    reason = f"{key} is blank in the hardware profile, and {NAME} needs it"
    return Violation(np.asarray(where), reason if key else f"no network tier reaches as far as {name}", (name,))


def _degrees(step: FoundationStep) -> list[Violation]:
    s = step.scenario
    t, mesh, layout = s.transformer, s.mesh, s.layout
    gpus, whole = to_float(layout.gpus), step.stage_devices * layout.pp
    spread = (gpus % whole != 0) & ~np.isnan(gpus)
    both = ~np.isnan(gpus) & ~np.isnan(to_float(layout.dp)) & ~spread
    return [
        divides(t.heads, t.hidden, ("heads", "hidden")),
        divides(mesh.tp1, t.heads, ("tp1", "heads")),
        divides(layout.pp, t.layers, ("pp", "layers")),
        _rule(spread, "tp1 x tp2 x pp does not divide gpus", "tp1", "tp2", "pp", "gpus"),
        _rule(both & (gpus != step.gpus), "tp1 x tp2 x pp x dp is not gpus", "dp", "gpus", "tp1", "tp2", "pp"),
    ]


def _batches(step: FoundationStep) -> list[Violation]:
    layout, steps = step.scenario.layout, step.accumulation
    uneven = (steps != np.floor(steps)) & (step.dp == np.floor(step.dp))
    return [_rule(uneven, "dp x micro_batch does not divide global_batch", "global_batch", "micro_batch", "dp")] \
        if np.any(to_float(layout.global_batch)) else []  # fmt: skip


def _strategies(step: FoundationStep) -> list[Violation]:
    s = step.scenario
    t, mesh, code = s.transformer, s.mesh, np.asarray(s.mesh.strategy)
    one_d, summa, sequence = code == ONE_D, code == SUMMA, code == SEQUENCE
    right = np.asarray(mesh.formulas) == CORRECTED
    m1, m2, seq_len = to_float(mesh.tp1), to_float(mesh.tp2), to_float(t.seq_len)
    # As published, it is enough that the tokens of a whole micro-batch divide: what is left of each sequence is lost.
    tokens = np.where(right, seq_len, seq_len * s.layout.micro_batch)
    parts = m1 * np.where(sequence, m2, 1.0)
    uneven = np.where(summa, tokens % m2, tokens % parts) != 0
    what = "seq_len" if right.all() else "the tokens of a micro-batch"
    panels = step.panels
    return [
        _rule(one_d & (m2 > 1), "strategy 1d has no second group: tp2 must be 1", "tp2", "strategy"),
        _rule(m2 > seq_len, "tp2 exceeds seq_len", "tp2", "seq_len"),
        _rule(uneven, f"the tensor-parallel groups do not divide {what}", "tp1", "tp2", "seq_len", "micro_batch"),
        _rule(summa & (to_float(t.hidden) % m2 != 0), "tp2 does not divide hidden", "tp2", "hidden"),
        _rule(summa & ((to_float(t.hidden) % panels != 0) | (panels % np.maximum(m1, m2) != 0)),
              "summa_panels is no multiple of tp1 and tp2 that divides hidden", "summa_panels", "hidden", "tp1", "tp2"),
        _rule(~summa & ~np.isnan(to_float(mesh.summa_panels)), "summa_panels is for strategy 2d", "summa_panels",
              "strategy"),
    ]  # fmt: skip


def _domains(step: FoundationStep) -> list[Violation]:
    s = step.scenario
    right = np.asarray(s.mesh.formulas) == CORRECTED
    sizes = {"tp1": s.mesh.tp1, "tp2": s.mesh.tp2, "dp": step.dp, "pp": s.layout.pp}
    whole = step.dp == np.floor(step.dp)
    found = [
        _rule((to_float(size) % inside != 0) & whole, f"nv_{name} does not divide {name}", f"nv_{name}", name)
        for (name, size), inside in zip(sizes.items(), step.inside, strict=True)
    ]
    taken, names = step.inside.product, ("nv_tp1", "nv_tp2", "nv_dp", "nv_pp", "nvs")
    found.append(_rule(whole & (taken > step.domain), "nv_tp1 x nv_tp2 x nv_dp x nv_pp exceeds a domain", *names))
    found.append(_rule(whole & ~right & (taken < step.domain), "the groups do not fill a domain exactly, as the "
                       "paper has it (formulas: corrected allows it)", *names))  # fmt: skip
    return found


def profile_rules(step: FoundationStep) -> list[Violation]:
    """Return the numbers that the profile leaves blank, or networks the paper does not have."""
    hardware, timing = step.scenario.hardware, step.scenario.hardware.timing
    fast, *outer = hardware.tiers
    needs = {
        "memory.capacity": hardware.memory_capacity, "memory.bandwidth": hardware.memory_bandwidth,
        "timing.gemm_efficiency": timing.gemm_efficiency, "timing.memory_efficiency": timing.memory_efficiency,
        "timing.vector_flops": timing.vector_flops, f"{fast.key}.bandwidth": fast.bandwidth,
    }  # fmt: skip
    found = [_blank(key, np.isnan(to_float(value)), "hardware") for key, value in needs.items()]
    beyond = step.gpus > step.domain
    if outer:
        key = f"{outer[0].key}.bandwidth" if outer[0].key else ""
        found.append(_blank(key, beyond & np.isnan(to_float(outer[0].bandwidth)), "gpus"))
        further = (step.gpus > outer[0].domain) & ~np.isnan(to_float(outer[0].bandwidth))
        found.append(_rule(further, f"{NAME} has two network tiers; gpus reach beyond the second", "gpus"))
    shaped = (to_float(fast.mesh) > 0) | (to_float(fast.axes) > 1)
    found.append(_rule(shaped, f"{NAME} knows domains behind a switch, no mesh or torus", "hardware"))
    return found
