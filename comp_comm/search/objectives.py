"""What a search makes smallest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from comp_comm.costmodels.complete import Step
from comp_comm.costmodels.complete_columns import COLUMNS
from comp_comm.formulas.arrays import Array


@dataclass(frozen=True)
class Objective:
    """An objective by its column; ``score`` is smaller where a layout is better, ``timed`` where that is faster."""

    column: str
    meaning: str
    score: Callable[[Step], Array]
    timed: bool = True


OBJECTIVES = {
    "step": Objective("step_s", "seconds of a step", lambda step: step.step_s),
    "tokens": Objective("tokens_per_s", "tokens a second", lambda step: step.step_s / step.step_tokens),
    "mfu": Objective("mfu", "share of the peak that the model's FLOP are", lambda step: -COLUMNS["mfu"].of(step)),
    "days": Objective("days", "days of the whole run (needs tokens)", lambda step: COLUMNS["days"].of(step)),
    "gpu-hours": Objective("gpu_hours", "GPU-hours of the whole run (needs tokens)",
                           lambda step: COLUMNS["gpu_hours"].of(step)),
    "memory": Objective("memory_gib", "memory of a device", lambda step: step.memory_bytes, timed=False),
    "comm": Objective("exposed_comm_fraction", "share of the step that is visible communication",
                      lambda step: COLUMNS["exposed_comm_fraction"].of(step), timed=False),
}  # fmt: skip
