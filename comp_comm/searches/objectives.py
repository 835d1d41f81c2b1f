"""What a search optimises: objectives by name, and the score by which layouts are ranked."""

from __future__ import annotations

from typing import cast

from comp_comm.costmodels.layout_space import Bound, SearchableAnswer
from comp_comm.costmodels.model import CostModel
from comp_comm.formulas.arrays import Array, to_float
from comp_comm.structs import struct


class _WithStep:
    """An answer with other seconds of a step: columns made of it are as if a step took so long."""

    def __init__(self, answer: SearchableAnswer, step_s: Array) -> None:
        self._answer, self.step_s = answer, step_s

    def __getattr__(self, name: str) -> object:
        return getattr(self._answer, name)


@struct
class Objective:
    """What is optimised: a column of the cost model, as a score that is smaller where a layout is better.

    Cost and energy are those of a token, by the rate: on so many of one device, what is cheapest is what is fastest.
    """

    name: str
    column: str
    meaning: str
    largest: bool = False  # whether the largest of the column is the best
    timed: bool = True  # whether what is faster is better: then bounds of the step are bounds of the score
    needs: str = ""  # what has to be known of a device

    def score(self, model: CostModel, answer: SearchableAnswer) -> Array:
        """Return a number that is smaller where a layout is better; of a rate, the seconds of one unit."""
        value = to_float(model.columns[self.column].of(answer))
        if not self.largest:
            return value
        return 1 / value if self.column == RATE else -value

    def lower_bound(self, model: CostModel, answer: SearchableAnswer, bound: Bound) -> Array | None:
        """Return a score that no layout is better than, by the least its step can take; None where nothing is known."""
        seconds = answer.least_step_s(bound) if self.timed else None
        return None if seconds is None else self.of_seconds(model, answer, seconds)

    def of_seconds(self, model: CostModel, answer: SearchableAnswer, step_s: Array) -> Array:
        """Return scores of an answer as if its steps took such seconds."""
        return self.score(model, cast(SearchableAnswer, _WithStep(answer, step_s)))

    def behind(self, score: float, best: float) -> float | None:
        """Return by how many percent a score is worse than the best; None where that is no share of anything.

        >>> OBJECTIVES["step"].behind(1.5, 1.0), OBJECTIVES["mfu"].behind(-0.25, -0.5)
        (50.0, 50.0)
        """
        if not best:
            return None
        return 100 * (score / best - 1) if best > 0 else 100 * (1 - score / best)


RATE = "tokens_per_s"
OBJECTIVES = {
    each.name: each
    for each in (
        Objective("step", "step_s", "seconds of a step"),
        Objective("tokens_per_s", RATE, "tokens a second", largest=True),
        Objective("cost", RATE, "cost of a token (needs a price)", largest=True, needs="price_per_gpu_hour"),
        Objective("energy", RATE, "energy of a token (needs watts)", largest=True, needs="watts"),
        Objective("mfu", "mfu", "share of the peak that the model's FLOP are", largest=True),
        Objective("days", "days", "days of the whole run (needs tokens)"),
        Objective("gpu-hours", "gpu_hours", "GPU-hours of the whole run (needs tokens)"),
        Objective("memory", "memory_gib", "memory of a device", timed=False),
        Objective("comm", "visible_comm_fraction", "share of the step that is visible communication", timed=False),
    )
}


@struct
class Aim:
    """What a search looks for: the best by an objective, of those that leave a share of the memory free."""

    objective: Objective
    headroom: float = 0.0

    @property
    def usable(self) -> float:
        """The share of the memory that may be filled."""
        return 1 - self.headroom
