"""Cost models: each is a function from a `Scenario` to an `Answer`, with the fields and columns it knows."""

from comp_comm.costmodels.answer import Answer, Column
from comp_comm.costmodels.model import CostModel
from comp_comm.costmodels.registry import COST_MODELS, DEFAULT_COST_MODEL, all_columns, default_model, phase_of
from comp_comm.costmodels.scenario import Scenario

__all__ = [
    "COST_MODELS", "DEFAULT_COST_MODEL", "Answer", "Column", "CostModel", "Scenario", "all_columns", "default_model",
    "phase_of",
]  # fmt: skip
