"""The rules a layout must keep in the cost model `amped`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from comp_comm.formulas.arrays import to_float
from comp_comm.layout import SELECTIVE, layout_rules
from comp_comm.violation import Violation, divides

if TYPE_CHECKING:
    from comp_comm.costmodels.amped import AmpedStep

NAME = "amped"


def violations(step: AmpedStep) -> tuple[Violation, ...]:
    """Return the rules that points break: of the model, of the layout, of its place on nodes, of the profile."""
    known = [rule for rule in layout_rules(step.scenario.layout, step.layout) if "etp" not in rule.fields]
    found = [*known, *_model(step), *_nodes(step), *_blanks(step)]
    return tuple(rule for rule in found if rule.broken.any())


def _rule(broken: NDArray[np.bool_], reason: str, *names: str) -> Violation:
    return Violation(np.asarray(broken), reason, names)


def _model(step: AmpedStep) -> list[Violation]:
    t, layout = step.transformer, step.layout
    experts, ep, whole = to_float(t.experts), to_float(layout.ep), step.dp == np.floor(step.dp)
    moe = experts > 0
    return [
        divides(t.heads, t.hidden, ("heads", "hidden")),
        divides(layout.tp, t.heads, ("tp", "heads")),
        divides(to_float(layout.pp) * layout.vpp, t.layers, ("pp x vpp", "layers")),
        _rule(np.asarray(layout.recompute) == SELECTIVE, f"{NAME} computes whole layers again, or none", "recompute"),
        _rule(moe & np.isnan(to_float(step.scenario.transformer.top_k)), "a mixture of experts needs top_k", "top_k"),
        _rule(moe & (to_float(t.top_k) > experts), "top_k exceeds experts", "top_k", "experts"),
        _rule((ep > 1) & ~moe, "ep needs experts", "ep", "experts"),
        _rule(moe & (experts % ep != 0), "ep does not divide experts", "ep", "experts"),
        _rule(moe & whole & (step.dp % ep != 0), f"ep does not divide dp ({NAME} spreads experts over replicas)",
              "ep", "dp"),
    ]  # fmt: skip


def _nodes(step: AmpedStep) -> list[Violation]:
    whole, inside, sizes = step.dp == np.floor(step.dp), step.inside, step.layout
    found = [
        _rule(whole & (to_float(size) % near != 0), f"nv_{name} does not divide {group}", f"nv_{name}", group)
        for name, group, size, near in (("tp1", "tp", sizes.tp, inside.tp1), ("dp", "dp", sizes.dp, inside.dp),
                                        ("pp", "pp", sizes.pp, inside.pp))
    ]  # fmt: skip
    ep, near_experts = step.expert_places
    uneven = (inside.dp % near_experts != 0) | (ep % near_experts != 0)
    names = ("nv_tp1", "nv_dp", "nv_pp", "nvs")
    return [
        *found,
        _rule(whole & uneven, "ep and nv_dp do not divide each other", "ep", "nv_dp"),
        _rule(whole & (inside.product > step.domain), "nv_tp1 x nv_dp x nv_pp exceeds a node", *names),
    ]


def _blanks(step: AmpedStep) -> list[Violation]:
    hardware, timing = step.scenario.hardware, step.scenario.hardware.timing
    near, *outer = hardware.tiers
    needs = {"timing.gemm_efficiency": timing.gemm_efficiency, "timing.gemm_ramp_tokens": timing.gemm_ramp_tokens,
             "timing.vector_flops": timing.vector_flops, f"{near.key}.bandwidth": near.bandwidth}  # fmt: skip
    found = [_blank(key, np.isnan(to_float(value)), "hardware") for key, value in needs.items()]
    if outer:
        key = f"{outer[0].key}.bandwidth" if outer[0].key else ""
        found.append(_blank(key, (step.gpus > step.domain) & np.isnan(to_float(outer[0].bandwidth)), "gpus"))
    return found


def _blank(key: str, where: NDArray[np.bool_], name: str) -> Violation:
    reason = f"{key} is blank in the hardware profile, and {NAME} needs it"
    return Violation(np.asarray(where), reason if key else f"no network tier reaches as far as {name}", (name,))
