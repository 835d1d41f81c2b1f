"""The cost models there are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any

from comp_comm.costmodels.answer import Columns
from comp_comm.costmodels.model import CostModel

# Each is a folder with a `MODEL`. The first is the default.
NAMES = ("complete", "inference", "comp_vs_comm", "foundation_models", "amped")
DEFAULT_COST_MODEL = NAMES[0]


class CostModels(Mapping[str, CostModel]):
    """The cost models by name. Each is loaded when it is asked for: a command mostly asks for one."""

    def __getitem__(self, name: str) -> CostModel:
        if name not in NAMES:
            raise KeyError(name)
        model: CostModel = import_module(f"comp_comm.costmodels.{name}").MODEL
        return model

    def __contains__(self, name: object) -> bool:
        return name in NAMES

    def __iter__(self) -> Iterator[str]:
        return iter(NAMES)

    def __len__(self) -> int:
        return len(NAMES)


COST_MODELS = CostModels()


@cache
def all_columns() -> Columns[Any]:
    """Return every column of every cost model, for units and meanings; one name means one thing everywhere."""
    return {name: column for model in reversed(tuple(COST_MODELS.values())) for name, column in model.columns.items()}


def default_model() -> CostModel:
    """Return the cost model of a study that names none."""
    return COST_MODELS[DEFAULT_COST_MODEL]


def phase_of(model: CostModel, phase: object) -> CostModel:
    """Return the cost model of a phase: one of its own, or the same."""
    name = model.phases.get(str(phase))
    return COST_MODELS[name] if name else model
