"""Notes on a plan: what a reader of its answers should know that is no error, as a setting without effect.

A cost model says most of them (`CostModel.notes`). It knows nothing of plans and grids, and asks by `Asked`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from comp_comm.field import Value
from comp_comm.formulas.arrays import Index
from comp_comm.hardware.numbers import Timing
from comp_comm.structs import struct
from comp_comm.sweeps.no_effect import no_effect_notes
from comp_comm.sweeps.plan import Plan
from comp_comm.sweeps.stacked import stack_notes
from comp_comm.transformer import Transformer


@struct
class PlanAsked:
    """A plan, as its cost model may ask about it to say what a reader should know."""

    plan: Plan

    @property
    def names(self) -> tuple[str, ...]:
        """Fields that have a value."""
        return self.plan.grid.names

    @property
    def given(self) -> Mapping[str, object]:
        """Fields and keys that the study itself gives."""
        return self.plan.study.origins

    @property
    def model_name(self) -> str | None:
        """The name of the study's model, if it has one."""
        return self.plan.study.model.name if self.plan.study.model else None

    @property
    def model_fields(self) -> Mapping[str, Value]:
        """What that model says."""
        return self.plan.study.model.fields if self.plan.study.model else {}

    @property
    def names_no_model(self) -> bool:
        """Whether the study leaves it open which cost model is meant."""
        return self.plan.study.cost_model is None

    def words(self, name: str) -> tuple[str, ...]:
        """Return the words that a choice has in the study, its default where it is not given."""
        return self.plan.grid.words(name)

    @property
    def transformer(self) -> Transformer:
        """The study's transformer at the two ends of every axis."""
        grid = self.plan.grid
        return grid.noun(Transformer, tuple(slice(None, None, max(len(axis) - 1, 1)) for axis in grid.axes))

    @property
    def timings(self) -> tuple[Timing, ...]:
        """How work becomes time on the study's devices."""
        return tuple(row.timing for row in self.plan.grid.machines.rows)

    @property
    def memory_scalings(self) -> list[float]:
        """Where TP is derived: the scalings of memory that it follows from."""
        grid = self.plan.grid
        if not grid.derives_tp:
            return []
        index: Index = tuple(slice(None) for _ in grid.axes)
        return np.unique(grid.memory_scaling(index, grid.scenario(index).hardware.memory_capacity)).tolist()  # type: ignore[no-any-return]


def notes(plan: Plan) -> list[str]:
    """Return what a reader should know that is no error: settings without effect, derived values."""
    model, given = plan.study.model, plan.study.origins
    taken = [n for n in (model.fields if model else ()) if n in given and n in plan.model.fields and n != "seq_len"]
    own = [f"{', '.join(taken)} are the study's, not those of {model.name}"] if model and taken else []
    return [*plan.study.notes, *stack_notes(plan.study), *plan.model.notes(PlanAsked(plan)), *own,
            *no_effect_notes(plan.grid, given)]  # fmt: skip
