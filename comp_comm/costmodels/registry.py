"""The cost models there are."""

from __future__ import annotations

from typing import Any

from comp_comm.costmodels import amped, comp_vs_comm, complete, foundation_models
from comp_comm.costmodels.answer import Columns
from comp_comm.costmodels.model import CostModel

# The first is the default.
MODELS = (complete.MODEL, comp_vs_comm.MODEL, foundation_models.MODEL, amped.MODEL)
COST_MODELS = {name: model for each in MODELS for name, model in {each.name: each, **each.phases}.items()}
DEFAULT_COST_MODEL = MODELS[0].name
# Every column of every cost model, for units and meanings; one name means one thing everywhere.
ALL_COLUMNS: Columns[Any] = {
    name: column for model in reversed(COST_MODELS.values()) for name, column in model.columns.items()
}


def phase_of(model: CostModel, phase: object) -> CostModel:
    """Return the cost model of a phase: one of its own, or the same."""
    return model.phases.get(str(phase), model)
