"""The cost model of a complete training step: every parallelism, every byte, memory.

A step is a list of operations (`comp_comm.layers`), timed one by one (`comp_comm.timing`) on the slowest stage of a
pipeline. Compute, recomputation, optimizer, visible communication, waiting for the host and the bubble add up to the
step exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from comp_comm.costmodels.complete import columns, fields
from comp_comm.costmodels.complete.space import SPACE
from comp_comm.costmodels.model import NO_PARTS, Asked, CostModel, Parts, SharedPart
from comp_comm.costmodels.scenario import Scenario
from comp_comm.dispatchers import Dispatcher
from comp_comm.formulas.arrays import to_float
from comp_comm.transformer import resolved

if TYPE_CHECKING:
    from comp_comm.costmodels.complete.explain.explanation import ExplainedStep
    from comp_comm.costmodels.complete.layer_costs import LayerCosts
    from comp_comm.costmodels.complete.layer_operations import LayerOperations
    from comp_comm.costmodels.complete.memory.footprint import Footprint
    from comp_comm.costmodels.complete.states.state_costs import StateCosts
    from comp_comm.costmodels.work import Work
    from comp_comm.group import Group
    from comp_comm.layout import Layout


def evaluate(scenario: Scenario, parts: Parts = NO_PARTS) -> ExplainedStep:
    """Return the step of a scenario; broken rules are listed, not raised.

    ``parts`` are layers, states and memory that many points share, as these points see them.

    Examples
    --------
    >>> from comp_comm.configs.hardware_file import load_profile
    >>> from comp_comm.layout import Layout
    >>> from comp_comm.transformer import Transformer
    >>> h100 = load_profile("h100-sxm").hardware("bf16")
    >>> llama = Transformer(4096, 8192, layers=32, heads=32, kv_heads=8, ffn_hidden=14336, gated=1, vocab=128256)
    >>> step = evaluate(Scenario(llama, Layout(gpus=8, tp=8, global_batch=8), h100))
    >>> parts = step.compute_s + step.recompute_s + step.optimizer_s + step.bubble_s
    >>> parts = parts + step.host_s
    >>> bool(abs(parts + step.serialized_comm_s + step.exposed_comm_s - step.step_s) < 1e-9)
    True
    """
    from comp_comm.costmodels.complete.explain.explanation import ExplainedStep
    from comp_comm.costmodels.complete.layer_costs import LayerCosts
    from comp_comm.costmodels.complete.memory.footprint import Footprint
    from comp_comm.costmodels.complete.states.state_costs import StateCosts
    from comp_comm.costmodels.machine import work_in_training

    work = work_in_training(scenario)
    layers = cast(LayerCosts, parts.get("layers") or _layer_costs(work, parts))
    states = cast(StateCosts, parts.get("states") or StateCosts(work))
    footprint = cast(Footprint, parts.get("footprint") or Footprint(work, layers))
    return ExplainedStep(work, layers, states, footprint)


def _operations(scenario: Scenario, parts: Parts) -> LayerOperations:
    from comp_comm.costmodels.complete.layer_operations import LayerOperations
    from comp_comm.costmodels.machine import work_in_training

    return LayerOperations(work_in_training(scenario))


def _layer_costs(work: Work, parts: Parts) -> LayerCosts:
    from comp_comm.costmodels.complete.layer_costs import LayerCosts
    from comp_comm.costmodels.complete.layer_operations import LayerOperations

    return LayerCosts(work, cast(LayerOperations, parts.get("operations") or LayerOperations(work)))


def _layers(scenario: Scenario, parts: Parts) -> LayerCosts:
    from comp_comm.costmodels.machine import work_in_training

    return _layer_costs(work_in_training(scenario), parts)


def _layer_groups(layout: Layout, experts: bool) -> Sequence[Group]:
    from comp_comm.costmodels.complete.layer_costs import layer_groups

    return layer_groups(layout, experts)


def _states(scenario: Scenario, parts: Parts) -> StateCosts:
    from comp_comm.costmodels.complete.states.state_costs import state_costs

    return state_costs(scenario)


def _state_groups(layout: Layout, experts: bool) -> Sequence[Group]:
    from comp_comm.costmodels.complete.states.replicas import replica_groups

    return replica_groups(layout, experts)


def _footprint(scenario: Scenario, parts: Parts) -> Footprint:
    from comp_comm.costmodels.complete.memory.footprint import Footprint
    from comp_comm.costmodels.machine import work_in_training

    work = work_in_training(scenario)
    return Footprint(work, _layer_costs(work, parts))


def _notes(asked: Asked) -> list[str]:
    notes = []
    if "global_batch" not in asked.names and "accumulation" not in asked.names:
        notes.append("neither global_batch nor accumulation is given: a replica does one micro-batch a step")
    if "gpus" not in asked.names and "dp" not in asked.names:
        notes.append("neither gpus nor dp is given: there is one replica (tp x cp x pp devices)")
    notes += _limited(asked)
    from comp_comm.costmodels.complete.explain.utilization import convention_notes

    counts = asked.words("count_attention")
    return [*notes, *(convention_notes(resolved(asked.transformer), counts[0]) if len(counts) == 1 else [])]


def _limited(asked: Asked) -> list[str]:
    """Say where the model's router limits the nodes that a token is sent to, and the study does not."""
    once = any(Dispatcher.of(way).once for way in asked.words("ep_dispatch"))
    if not once or "ep" not in asked.names or "ep_node_limit" in asked.names or "router_groups" not in asked.names:
        return []
    t = resolved(asked.transformer)
    groups, chosen = (set(to_float(number).flat) for number in (t.router_groups, t.router_group_topk))
    if len(groups) + len(chosen) > 2 or chosen == groups:
        return []
    return [f"a token goes to the nodes of {chosen.pop():g} of {groups.pop():g} groups of experts, as the model's "
            "router chooses (router_group_topk): ep_node_limit gives another number"]  # fmt: skip


MODEL = CostModel(
    "complete",
    "a whole training step under every parallelism, with memory",
    evaluate,
    fields.FIELDS,
    fields.REQUIRED,
    columns.COLUMNS,
    ranking="tokens_per_s",
    headline="visible_comm_fraction",
    shown=fields.SHOWN,
    derived=columns.DERIVED,
    defaults=fields.DEFAULTS,
    needs=fields.NEEDS,
    needs_word=fields.NEEDS_WORD,
    base_timing=True,
    explains=True,
    measured=True,
    parts={
        "operations": SharedPart(_operations, fields.IGNORED_BY_OPERATIONS),
        "layers": SharedPart(_layers, fields.IGNORED_BY_LAYERS, _layer_groups),
        "states": SharedPart(_states, fields.IGNORED_BY_STATES, _state_groups),
        "footprint": SharedPart(_footprint, fields.IGNORED_BY_FOOTPRINT, by_block=True),
    },
    space=SPACE,
    phases={"inference": "inference"},
    notes=_notes,
)
