"""Cost models: each is a function from a `Scenario` to an `Answer`, with the fields and columns it knows."""

from comp_comm.costmodels.answer import Answer, Column
from comp_comm.costmodels.model import CostModel
from comp_comm.costmodels.registry import ALL_COLUMNS, COST_MODELS, DEFAULT_COST_MODEL, MODELS, phase_of
from comp_comm.costmodels.scenario import Scenario

__all__ = [
    "ALL_COLUMNS", "COST_MODELS", "DEFAULT_COST_MODEL", "MODELS", "Answer", "Column", "CostModel", "Scenario",
    "phase_of",
]  # fmt: skip
