"""The cost models by name, with what each of them takes and gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from comp_comm.costmodels import (
    amped,
    amped_columns,
    breakdown,
    comp_vs_comm,
    complete,
    complete_columns,
    complete_fields,
    foundation_columns,
    foundation_models,
    inference,
    inference_columns,
    near,
)
from comp_comm.costmodels.answer import Answer, Columns
from comp_comm.costmodels.scenario import Scenario
from comp_comm.field import Value
from comp_comm.fields import FIELDS
from comp_comm.formulas.arrays import Array


@dataclass(frozen=True)
class CostModel:
    """A cost model: the function, the fields it models, those it cannot do without, and the columns it gives.

    ``ranking`` is the column rows are ranked by, ``headline`` the one a table shows, ``shown`` the inputs a row always
    has, ``derived`` those of them that the answer gives, since they follow from others. ``defaults`` are its own,
    ``needs`` names for a field the one without which it means nothing, and ``needs_word`` the one that must have a
    certain word. ``for_required_tp`` are fields it reads only to
    derive ``tp: required``; ``base_timing`` says that presets of a profile are not for it; ``sharing`` are
    the costly parts of its arithmetic that many layouts have in common.
    """

    name: str
    summary: str
    evaluate: Callable[[Scenario], Answer]
    fields: tuple[str, ...]
    required: tuple[str, ...]
    columns: Columns
    ranking: str
    headline: str
    shown: tuple[str, ...]
    derived: Mapping[str, Callable[[Any], Array]] = field(default_factory=dict)
    defaults: Mapping[str, Value] = field(default_factory=dict)
    needs: Mapping[str, str] = field(default_factory=dict)
    needs_word: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    for_required_tp: tuple[str, ...] = ()
    base_timing: bool = False
    sharing: Mapping[str, near.Sharing] = field(default_factory=dict)

    def default(self, name: str) -> Value | None:
        """Return what a field is where a study does not give it (None: it follows from others, or is not needed)."""
        return self.defaults.get(name, FIELDS[name].default)


COST_MODELS = {
    "complete": CostModel(
        "complete",
        "a whole training step under every parallelism, with memory",
        complete.evaluate,
        complete_fields.FIELDS,
        complete_fields.REQUIRED,
        complete_columns.COLUMNS,
        ranking="tokens_per_s",
        headline="exposed_comm_fraction",
        shown=complete_fields.SHOWN,
        derived=complete_columns.DERIVED,
        defaults=complete_fields.DEFAULTS,
        needs=complete_fields.NEEDS,
        needs_word=complete_fields.NEEDS_WORD,
        base_timing=True,
        sharing={"layers": near.LAYERS, "states": near.STATES},
    ),
    "inference": CostModel(
        "inference",
        "serving: prefill and decode with a KV cache ('phase: inference' of complete)",
        inference.evaluate,
        inference_columns.FIELDS,
        complete_fields.REQUIRED,
        inference_columns.COLUMNS,
        ranking="tokens_per_s",
        headline="decode_comm_fraction",
        shown=inference_columns.SHOWN,
        derived={name: complete_columns.DERIVED[name] for name in ("gpus", "dp")},
        defaults=complete_fields.DEFAULTS,
        needs=inference_columns.NEEDS,
        needs_word=inference_columns.NEEDS_WORD,
        base_timing=True,
    ),
    "comp_vs_comm": CostModel(
        "comp_vs_comm",
        "one layer under tensor and data parallelism, as in arXiv:2302.02825",
        comp_vs_comm.evaluate,
        comp_vs_comm.FIELDS,
        comp_vs_comm.REQUIRED,
        breakdown.COLUMNS,
        ranking="serialized_comm_fraction",
        headline="serialized_comm_fraction",
        shown=(*comp_vs_comm.REQUIRED, "flop_vs_bw"),
        for_required_tp=comp_vs_comm.FOR_REQUIRED_TP,
    ),
    "foundation_models": CostModel(
        "foundation_models",
        "a training step under 1D, 2D or sequence-split TP on two network tiers, as in arXiv:2410.00273",
        foundation_models.evaluate,
        foundation_columns.FIELDS,
        foundation_columns.REQUIRED,
        foundation_columns.COLUMNS,
        ranking="tokens_per_s",
        headline="exposed_comm_fraction",
        shown=foundation_columns.SHOWN,
        derived=foundation_columns.DERIVED,
        defaults=foundation_columns.DEFAULTS,
        base_timing=True,
    ),
    "amped": CostModel(
        "amped",
        "a training step on nodes, its mapping within and between them, as in AMPeD (ISPASS 2023)",
        amped.evaluate,
        amped_columns.FIELDS,
        amped_columns.REQUIRED,
        amped_columns.COLUMNS,
        ranking="tokens_per_s",
        headline="exposed_comm_fraction",
        shown=amped_columns.SHOWN,
        derived=amped_columns.DERIVED,
        defaults=amped_columns.DEFAULTS,
        needs=amped_columns.NEEDS,
    ),
}
DEFAULT_COST_MODEL = "complete"
# A phase of the complete model that has columns of its own.
PHASES = {"inference": "inference"}
# Every column of every cost model, for units and meanings; one name means one thing everywhere.
ALL_COLUMNS: Columns = {
    name: column for model in reversed(COST_MODELS.values()) for name, column in model.columns.items()
}
