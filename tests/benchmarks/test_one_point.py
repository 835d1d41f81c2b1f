"""How long one point takes in this process, beside plain Python: what a user's own loop over layouts waits for.

Run with ``pytest tests/benchmarks/test_one_point.py --benchmark-enable``; the table's relative column is the ratio.
Nothing here asserts a time: what is asserted is that all ways give the same number.
"""

from __future__ import annotations

import pytest

from comp_comm.configs.study import study_from
from comp_comm.sweeps.plan import make_plan

LAYOUT = {"gpus": 512, "tp": 8, "pp": 8, "micro_batch": 1, "global_batch": 1024, "recompute": "full"}
GPT3 = {"hardware": "a100-sxm-80gb", "model": "gpt3-175b", "set": LAYOUT}
CALLS = 10_000


def increased(number: float) -> float:
    return number + 1.0


def plain_python(plan) -> float:
    """Ten thousand calls of a function: the yardstick."""
    total = 0.0
    for _ in range(CALLS):
        total = increased(total)
    return total


def step_alone(plan) -> float:
    return float(plan.evaluate_alone(()).step_s)


def step_and_rules(plan) -> float:
    step = plan.evaluate_alone(())
    assert not step.violations
    return float(step.step_s)


def from_the_study(plan) -> float:
    return float(make_plan(study_from(GPT3)).evaluate(()).step_s)


@pytest.mark.benchmark(group="one point")
@pytest.mark.parametrize("way", [plain_python, step_alone, step_and_rules, from_the_study])
def test_one_point(benchmark, way):
    plan = make_plan(study_from(GPT3))
    expected = CALLS if way is plain_python else float(plan.evaluate(()).step_s)
    assert benchmark(way, plan) == expected


def test_points_of_a_grid_and_alone_are_the_same_number():
    """A point by itself is computed with single numbers, one of a grid with arrays: bit for bit the same."""
    degrees = [1, 2, 4, 8]
    fixed = {name: value for name, value in LAYOUT.items() if name != "tp"}
    plan = make_plan(study_from({**GPT3, "set": fixed, "sweep": {"tp": degrees}}))
    together = plan.evaluate_alone((slice(0, len(degrees)),)).step_s
    for number, tp in enumerate(degrees):
        alone = make_plan(study_from({**GPT3, "set": {**fixed, "tp": tp}})).evaluate(()).step_s
        assert float(alone) == float(together.reshape(-1)[number])
