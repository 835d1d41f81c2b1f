"""The rules a layout must keep in the cost model `foundation_models`."""

from __future__ import annotations

import numpy as np

from comp_comm.choices import Formulas, Strategy
from comp_comm.costmodels.foundation_models.mesh_layout import MeshLayout
from comp_comm.formulas.arrays import to_float
from comp_comm.violation import Violation, blank_number, divides, rule

NAME = "foundation_models"


def layout_rules(mesh: MeshLayout) -> list[Violation]:
    """Return the rules of a layout, and of its mesh on domains."""
    return [*_degrees(mesh), *_batches(mesh), *_strategies(mesh), *_domains(mesh)]


def _degrees(place: MeshLayout) -> list[Violation]:
    s = place.scenario
    t, mesh, layout = s.transformer, s.mesh, s.layout
    gpus, replica = to_float(layout.gpus), place.stage_devices * layout.pp
    spread = (gpus % replica != 0) & ~np.isnan(gpus)
    both = ~np.isnan(gpus) & ~np.isnan(to_float(layout.dp)) & ~spread
    return [
        divides(t.heads, t.hidden, ("heads", "hidden")),
        divides(mesh.tp1, t.heads, ("tp1", "heads")),
        divides(layout.pp, t.layers, ("pp", "layers")),
        rule(spread, "tp1 x tp2 x pp does not divide gpus", "tp1", "tp2", "pp", "gpus"),
        rule(both & (gpus != place.gpus), "tp1 x tp2 x pp x dp is not gpus", "dp", "gpus", "tp1", "tp2", "pp"),
    ]


def _batches(place: MeshLayout) -> list[Violation]:
    layout, steps = place.scenario.layout, place.accumulation
    uneven = (steps != np.floor(steps)) & (place.dp == np.floor(place.dp))
    return [rule(uneven, "dp x micro_batch does not divide global_batch", "global_batch", "micro_batch", "dp")] \
        if np.any(to_float(layout.global_batch)) else []  # fmt: skip


def _strategies(place: MeshLayout) -> list[Violation]:
    s = place.scenario
    t, mesh = s.transformer, s.mesh
    one_d, summa, sequence = (option.where(mesh.strategy) for option in Strategy)
    right = Formulas.CORRECTED.where(mesh.formulas)
    m1, m2, seq_len = to_float(mesh.tp1), to_float(mesh.tp2), to_float(t.seq_len)
    # As published, it is enough that the tokens of a whole micro-batch divide: what is left of each sequence is lost.
    tokens = np.where(right, seq_len, seq_len * s.layout.micro_batch)
    parts = m1 * np.where(sequence, m2, 1.0)
    uneven = np.where(summa, tokens % m2, tokens % parts) != 0
    what = "seq_len" if right.all() else "the tokens of a micro-batch"
    panels = place.panels
    return [
        rule(one_d & (m2 > 1), "strategy 1d has no second group: tp2 must be 1", "tp2", "strategy"),
        rule(m2 > seq_len, "tp2 exceeds seq_len", "tp2", "seq_len"),
        rule(uneven, f"the tensor-parallel groups do not divide {what}", "tp1", "tp2", "seq_len", "micro_batch"),
        rule(summa & (to_float(t.hidden) % m2 != 0), "tp2 does not divide hidden", "tp2", "hidden"),
        rule(summa & ((to_float(t.hidden) % panels != 0) | (panels % np.maximum(m1, m2) != 0)),
              "summa_panels is no multiple of tp1 and tp2 that divides hidden", "summa_panels", "hidden", "tp1", "tp2"),
        rule(~summa & (to_float(mesh.summa_panels) > 1), "summa_panels is for strategy 2d", "summa_panels",
              "strategy"),
    ]  # fmt: skip


def _domains(place: MeshLayout) -> list[Violation]:
    s = place.scenario
    right = Formulas.CORRECTED.where(s.mesh.formulas)
    sizes = {"tp1": s.mesh.tp1, "tp2": s.mesh.tp2, "dp": place.dp, "pp": s.layout.pp}
    integral = place.dp == np.floor(place.dp)
    rules = [
        rule((to_float(size) % inside != 0) & integral, f"nv_{name} does not divide {name}", f"nv_{name}", name)
        for (name, size), inside in zip(sizes.items(), place.inside, strict=True)
    ]
    taken, names = place.inside.product, ("nv_tp1", "nv_tp2", "nv_dp", "nv_pp", "nvs")
    rules.append(rule(integral & (taken > place.domain), "nv_tp1 x nv_tp2 x nv_dp x nv_pp exceeds a domain", *names))
    rules.append(rule(integral & ~right & (taken < place.domain), "the groups do not fill a domain exactly, as the "
                       "paper has it (formulas: corrected allows it)", *names))  # fmt: skip
    return rules


def profile_rules(place: MeshLayout) -> list[Violation]:
    """Return the numbers that the profile leaves blank, or networks the paper does not have."""
    hardware, timing = place.scenario.hardware, place.scenario.hardware.timing
    fast, *outer = hardware.tiers
    needs = {
        "memory.capacity": hardware.memory_capacity, "memory.bandwidth": hardware.memory_bandwidth,
        "timing.gemm_efficiency": timing.gemm_efficiency, "timing.memory_efficiency": timing.memory_efficiency,
        "timing.vector_flops": timing.vector_flops, f"{fast.key}.bandwidth": fast.bandwidth,
    }  # fmt: skip
    rules = [blank_number(key, np.isnan(to_float(value)), "hardware", NAME) for key, value in needs.items()]
    beyond = place.gpus > place.domain
    if outer:
        key = f"{outer[0].key}.bandwidth" if outer[0].key else ""
        rules.append(blank_number(key, beyond & np.isnan(to_float(outer[0].bandwidth)), "gpus", NAME))
        further = (place.gpus > outer[0].domain) & ~np.isnan(to_float(outer[0].bandwidth))
        rules.append(rule(further, f"{NAME} has two network tiers; gpus reach beyond the second", "gpus"))
    shaped = (to_float(fast.mesh) > 0) | (to_float(fast.axes) > 1)
    rules.append(rule(shaped, f"{NAME} knows domains behind a switch, no mesh or torus", "hardware"))
    return rules
