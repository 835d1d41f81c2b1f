"""Cost models: each is a function from a `Scenario` to a `Breakdown`, with the fields and columns it knows."""

from comp_comm.costmodels.breakdown import Breakdown, Column
from comp_comm.costmodels.registry import COST_MODELS, DEFAULT_COST_MODEL, CostModel
from comp_comm.costmodels.scenario import Scenario

__all__ = ["COST_MODELS", "DEFAULT_COST_MODEL", "Breakdown", "Column", "CostModel", "Scenario"]
