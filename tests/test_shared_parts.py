"""What many layouts share depends on none of the fields that it is said to ignore, whatever they are changed to."""

from __future__ import annotations

import numpy as np
import pytest
from test_every_field import COMPLETE, DENSE, values_of

from comp_comm.configs.study import study_from
from comp_comm.costmodels.complete import MODEL
from comp_comm.errors import CompcommError
from comp_comm.fields import FIELDS
from comp_comm.sweeps.plan import make_plan

# Their members are told apart by where they are on the network (`SharedRows`), not by these fields.
BY_GROUPS = {"gpus", "dp", "pp", "dp_shard", "placement"}
OF_LAYER = ("forward_pass_s", "backward_pass_s", "host_waits", "hidden_s", "weights_s", "busy")
OF_OPERATIONS = ("compute", "core_attention", "gemms", "experts", "count")


def of_operations(part):
    for kind, times in part.times.items():
        yield from (getattr(times, name) for name in OF_OPERATIONS)
        yield part.launches[kind]
        for module in (*part.recomputable[kind], part.skipped_by_early_stop[kind]):
            yield from (module.freed, module.operations.compute, module.operations.count, module.launches)
            yield from module.collectives.values()
    yield from (part.embedding.compute, part.head.compute)


def of_layers(part):
    for kind, times in part.times.items():
        yield from (getattr(times, name) for name in OF_LAYER)
        yield from (part.parameters[kind], part.activations[kind])
        yield from (module.times.forward_pass_s for module in part.recomputable[kind])
    yield from (part.model_passes_s, part.embedding.both_passes_s, part.head.both_passes_s, *part.end_parameters)


def of_states(part):
    yield from (part.longest.stage_number, *part.longest.seconds)


def of_footprint(part):
    yield from (part.total, part.reserved, *part.parts)


NUMBERS_OF = {"operations": of_operations, "layers": of_layers, "states": of_states, "footprint": of_footprint}


def numbers(name, fields):
    """Return the numbers of a part of a study; None where the study is refused."""
    try:
        plan = make_plan(study_from({"hardware": "h100-sxm", "set": fields}))
        part = MODEL.parts[name].make(plan.grid.scenario(()), {})
        with np.errstate(all="ignore"):
            return [np.ravel(number) for each in NUMBERS_OF[name](part)
                    for number in (each if isinstance(each, tuple) else (each,)) if number is not None]  # fmt: skip
    except CompcommError:
        return None


def test_all_parts_are_looked_at():
    assert NUMBERS_OF.keys() == MODEL.parts.keys()


@pytest.mark.a_third
@pytest.mark.parametrize("name", NUMBERS_OF)
@pytest.mark.parametrize("number", [
    number if number in (1, 30) else pytest.param(number, marks=pytest.mark.slow)
    for number in range(len(COMPLETE))
])  # fmt: skip
def test_what_a_part_ignores_changes_nothing_of_it(name, number):
    base = {field: value for field, value in {**DENSE, **COMPLETE[number]}.items() if value is not None}
    before, changed = numbers(name, base), 0
    for field in set(MODEL.parts[name].ignores) - BY_GROUPS:
        others = (value for value in values_of(FIELDS[field])[:40] if value != base.get(field))
        answered = (found for value in others if (found := numbers(name, {**base, field: value})) is not None)
        for found in [found for _, found in zip(range(2), answered, strict=False)]:
            changed += 1
            assert len(found) == len(before), field
            for one, other in zip(before, found, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-12, err_msg=field)
    assert changed > 10
