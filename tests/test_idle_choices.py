"""A choice that a search takes for one without effect has none: no number of the step depends on it there."""

from __future__ import annotations

import numpy as np
import pytest

from comp_comm.configs.study import study_from
from comp_comm.costmodels.complete.model import evaluate
from comp_comm.errors import ConfigError
from comp_comm.fields import FIELDS
from comp_comm.sweeps.plan import make_plan

BASE = {"gpus": 16, "tp": 2, "pp": 2, "global_batch": 32, "micro_batch": 1}
MODELS = {"llama-3-8b": {}, "mixtral-8x7b": {"ep": 2}}
# Where a choice has no effect: what else is said of the layout.
WITHOUT = [
    {"tp": 1, "ep": 1}, {"cp": 1}, {"pp": 1}, {"ep": 1, "etp": 1}, {"tp": 1, "pp": 1, "ep": 1, "gpus": 1},
    {"gpus": 4, "ep": 1, "etp": 1},
]  # fmt: skip


def step_of(model, fields):
    plan = make_plan(study_from({"hardware": "h100-sxm", "model": model, "set": fields}))
    return evaluate(plan.grid.scenario(()))


@pytest.mark.a_third
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("more", WITHOUT)
def test_an_idle_choice_changes_no_number(model, more):
    fields = {**BASE, **MODELS[model], **more}
    if model == "llama-3-8b":
        fields = {name: value for name, value in fields.items() if name not in ("ep", "etp")}
    step = step_of(model, fields)
    idle = [name for name, mask in step.idle_choices().items() if bool(np.all(mask))]
    for name in idle:
        if name in ("ep_dispatch", "overlap_ep") and model == "llama-3-8b":
            continue  # refused of a model without experts
        for word in FIELDS[name].words or (0, 1, 2, 3):
            try:
                other = step_of(model, {**fields, name: word})
            except ConfigError:
                continue
            if other.broken.any():
                continue
            numbers = [(float(each.step_s), float(each.memory_bytes)) for each in (step, other)]
            assert numbers[0] == pytest.approx(numbers[1], rel=1e-12), (name, word)
    assert len(idle) > 0
