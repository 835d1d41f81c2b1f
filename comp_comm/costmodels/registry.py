"""The cost models by name, with what each of them takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from comp_comm.costmodels import comp_vs_comm
from comp_comm.costmodels.breakdown import Breakdown
from comp_comm.costmodels.scenario import Scenario


@dataclass(frozen=True)
class CostModel:
    """A cost model: the function, the fields it models, and those it cannot do without.

    ``for_required_tp`` are fields it reads only to derive ``tp: required``.
    """

    name: str
    summary: str
    evaluate: Callable[[Scenario], Breakdown]
    fields: tuple[str, ...]
    required: tuple[str, ...]
    for_required_tp: tuple[str, ...]


COST_MODELS = {
    "comp_vs_comm": CostModel(
        "comp_vs_comm",
        "one layer under tensor and data parallelism, as in arXiv:2302.02825",
        comp_vs_comm.evaluate,
        comp_vs_comm.FIELDS,
        comp_vs_comm.REQUIRED,
        comp_vs_comm.FOR_REQUIRED_TP,
    ),
}
DEFAULT_COST_MODEL = "comp_vs_comm"
