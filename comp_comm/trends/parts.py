"""The parts of the study of trends, by name."""

from __future__ import annotations

from comp_comm.trends.claims import claims_part
from comp_comm.trends.device_parts import (
    fixed_layout_part,
    forecast_part,
    generations_part,
    growth_part,
    wide_tp_part,
)
from comp_comm.trends.model_parts import edges_part, errors_part, models_part, required_tp_part, shares_part
from comp_comm.trends.part import PartMaker

PARTS: dict[str, tuple[PartMaker, str]] = {
    "claims": (claims_part, "what the paper foresaw, and what came"),
    "growth": (growth_part, "growth a year of devices and models"),
    "generations": (generations_part, "flop-vs-bw of devices over their predecessors"),
    "models": (models_part, "dimensions of trained models"),
    "required-tp": (required_tp_part, "TP that Eq 10 asks for, and TP used"),
    "edges": (edges_part, "edge and slack with real layouts"),
    "shares": (shares_part, "communication's share of each model on its own machine"),
    "errors": (errors_part, "predicted and reported steps"),
    "fixed-layout": (fixed_layout_part, "one model and layout on devices of 2020 to 2027"),
    "wide-tp": (wide_tp_part, "TP of 4 to 128"),
    "forecast": (forecast_part, "visible communication in years to come"),
}

__all__ = ["PARTS"]
