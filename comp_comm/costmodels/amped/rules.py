"""The rules a layout must keep in the cost model `amped`."""

from __future__ import annotations

import numpy as np

from comp_comm.choices import Recompute
from comp_comm.costmodels.amped.nodes import Nodes
from comp_comm.costmodels.work import Work
from comp_comm.formulas.arrays import to_float
from comp_comm.layout_rules import layout_rules
from comp_comm.violation import Violation, blank_number, broken_rules, divides, rule

NAME = "amped"


def violations(work: Work, nodes: Nodes) -> list[Violation]:
    """Return the rules that points break: of the model, of the layout, of its place on nodes, of the profile."""
    known = [each for each in layout_rules(work.scenario.layout, work.layout) if "etp" not in each.fields]
    return broken_rules([*known, *_model(work), *_nodes(work, nodes), *_blanks(work, nodes)])


def _model(work: Work) -> list[Violation]:
    t, layout = work.transformer, work.layout
    experts, ep, integral = to_float(t.experts), to_float(layout.ep), work.dp == np.floor(work.dp)
    moe = experts > 0
    return [
        divides(t.heads, t.hidden, ("heads", "hidden")),
        divides(layout.tp, t.heads, ("tp", "heads")),
        divides(to_float(layout.pp) * layout.vpp, t.layers, ("pp x vpp", "layers")),
        rule(~(Recompute.NONE.where(layout.recompute) | Recompute.FULL.where(layout.recompute)),
             f"{NAME} computes whole layers again, or none", "recompute"),
        rule(moe & np.isnan(to_float(work.scenario.transformer.top_k)), "a mixture of experts needs top_k", "top_k"),
        rule(moe & (to_float(t.top_k) > experts), "top_k exceeds experts", "top_k", "experts"),
        rule((ep > 1) & ~moe, "ep needs experts", "ep", "experts"),
        rule(moe & (experts % ep != 0), "ep does not divide experts", "ep", "experts"),
        rule(moe & integral & (work.dp % ep != 0), f"ep does not divide dp ({NAME} spreads experts over replicas)",
             "ep", "dp"),
    ]  # fmt: skip


def _nodes(work: Work, nodes: Nodes) -> list[Violation]:
    integral, inside, sizes = work.dp == np.floor(work.dp), nodes.inside, work.layout
    groups = [
        rule(integral & (to_float(size) % local != 0), f"nv_{name} does not divide {group}", f"nv_{name}", group)
        for name, group, size, local in (("tp1", "tp", sizes.tp, inside.tp1), ("dp", "dp", sizes.dp, inside.dp),
                                         ("pp", "pp", sizes.pp, inside.pp))
    ]  # fmt: skip
    ep, local_experts = nodes.expert_places
    uneven = (inside.dp % local_experts != 0) | (ep % local_experts != 0)
    names = ("nv_tp1", "nv_dp", "nv_pp", "nvs")
    return [
        *groups,
        rule(integral & uneven, "ep and nv_dp do not divide each other", "ep", "nv_dp"),
        rule(integral & (inside.product > nodes.devices), "nv_tp1 x nv_dp x nv_pp exceeds a node", *names),
    ]


def _blanks(work: Work, nodes: Nodes) -> list[Violation]:
    hardware, timing = work.scenario.hardware, work.scenario.hardware.timing
    inner, *outer = hardware.tiers
    needs = {"timing.gemm_efficiency": timing.gemm_efficiency, "timing.gemm_ramp_tokens": timing.gemm_ramp_tokens,
             "timing.vector_flops": timing.vector_flops, f"{inner.key}.bandwidth": inner.bandwidth}  # fmt: skip
    rules = [blank_number(key, np.isnan(to_float(value)), "hardware", NAME) for key, value in needs.items()]
    if outer:
        key = f"{outer[0].key}.bandwidth" if outer[0].key else ""
        beyond = (work.gpus > nodes.devices) & np.isnan(to_float(outer[0].bandwidth))
        rules.append(blank_number(key, beyond, "gpus", NAME))
    return rules
