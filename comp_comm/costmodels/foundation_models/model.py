"""The cost model of "Comprehensive Performance Modeling and System Design Insights for Foundation Models"."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

from comp_comm.costmodels.dense_notes import unseen
from comp_comm.costmodels.foundation_models import columns, fields
from comp_comm.costmodels.foundation_models.space import SPACE
from comp_comm.costmodels.model import NO_PARTS, CostModel, Parts, SharedPart
from comp_comm.costmodels.scenario import Scenario

if TYPE_CHECKING:
    from comp_comm.costmodels.foundation_models.layer_costs import HeldByLayer, TimesOfLayer
    from comp_comm.costmodels.foundation_models.step import FoundationStep


def evaluate(scenario: Scenario, parts: Parts = NO_PARTS) -> FoundationStep:
    """Return the step of a scenario; broken rules are listed, not raised.

    References
    ----------
    .. [1] S. Subramanian et al., arXiv:2410.00273 (PMBS at SC24), and the code published with it (2024-10-02).

    Examples
    --------
    A trillion parameters on 4,096 A100 of the paper, eight to a domain: 62.969 s a step and 75.74 GB.

    >>> from comp_comm.configs.hardware_file import load_profile
    >>> from comp_comm.costmodels.mesh import Mesh
    >>> from comp_comm.layout import Layout
    >>> from comp_comm.transformer import Transformer
    >>> a100 = load_profile("papers/hardware/foundation-models-a100").hardware("fp16")
    >>> gpt = Transformer(25600, 2048, layers=128, heads=160)
    >>> step = evaluate(Scenario(gpt, Layout(pp=32, dp=16, global_batch=4096), a100, mesh=Mesh(tp1=8, nvs=8)))
    >>> round(float(step.step_s), 3), round(float(step.memory_bytes) / 1e9, 2)
    (62.969, 75.74)
    """
    from comp_comm.costmodels.foundation_models.layer_costs import HeldByLayer, TimesOfLayer
    from comp_comm.costmodels.foundation_models.mesh_layout import MeshLayout
    from comp_comm.costmodels.foundation_models.step import FoundationStep

    mesh = MeshLayout(scenario)
    times = cast(TimesOfLayer, parts.get("times") or TimesOfLayer(mesh))
    holds = cast(HeldByLayer, parts.get("held") or HeldByLayer(scenario))
    return FoundationStep(scenario, mesh, times, holds)


def _times(scenario: Scenario, parts: Parts) -> TimesOfLayer:
    from comp_comm.costmodels.foundation_models.layer_costs import times_of_layer

    return times_of_layer(scenario)


def _held(scenario: Scenario, parts: Parts) -> HeldByLayer:
    from comp_comm.costmodels.foundation_models.layer_costs import HeldByLayer

    return HeldByLayer(scenario)


MODEL = CostModel(
    "foundation_models",
    "a training step under 1D, 2D or sequence-split TP on two network tiers, as in arXiv:2410.00273",
    evaluate,
    fields.FIELDS,
    fields.REQUIRED,
    columns.COLUMNS,
    ranking="tokens_per_s",
    headline="visible_comm_fraction",
    shown=fields.SHOWN,
    derived=columns.DERIVED,
    defaults=fields.DEFAULTS,
    base_timing=True,
    parts={
        "times": SharedPart(_times, fields.IGNORED_BY_TIMES, needs=("nv_tp1", "nv_tp2")),
        "held": SharedPart(_held, fields.IGNORED_BY_HELD, needs=("nv_tp1", "nv_tp2")),
    },
    space=SPACE,
    notes=partial(unseen, name="foundation_models", fields=fields.FIELDS),
    plain_gpt=True,
)
