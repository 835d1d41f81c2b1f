"""How fast whole steps are evaluated: a table of layouts, an open grid of them, and a search.

Rates are in ``extra_info``; nothing here asserts a time. Run with ``--benchmark-only``; otherwise small sizes run once.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from comp_comm.configs.axes import Axis
from comp_comm.configs.study import study_from
from comp_comm.searches import make_space, run_search
from comp_comm.searches.objectives import OBJECTIVES, Aim
from comp_comm.sweeps.plan import make_plan
from comp_comm.sweeps.result import sweep

GPT3 = {"hardware": "a100-sxm-80gb", "model": "gpt3-175b"}
BLOCK = 16384


def layouts(count):
    """Return a table of so many layouts of GPT-3 on 1,024 devices, every valid one as often as it takes."""
    found = []
    for tp, pp, batch, zero, sp, again in itertools.product(
        (1, 2, 4, 8, 16, 32), (1, 2, 4, 8, 16, 32), (1, 2, 3, 4, 6, 12), range(4), ("on", "off"),
        ("none", "selective", "full"),
    ):  # fmt: skip
        dp = 1024 // (tp * pp)
        if not 1536 % (dp * batch):
            found += [(tp, pp, batch, vpp, zero, sp, again) for vpp in (1, 2, 3) if vpp == 1 or pp > 1]
    names = ("tp", "pp", "micro_batch", "vpp", "zero", "sp", "recompute")
    rows = (found * (-(-count // len(found))))[:count]
    return dict(zip(names, map(tuple, zip(*rows, strict=True)), strict=True))


def size(config, large, small):
    return large if config.getoption("benchmark_only") or config.getoption("benchmark_enable") else small


@pytest.mark.benchmark(group="layouts")
def test_a_table_of_layouts(benchmark, pytestconfig):
    count = size(pytestconfig, 1_000_000, 1_000)
    fixed = {"gpus": 1024, "global_batch": 1536, "tp": 8}
    plan = make_plan(study_from({**GPT3, "set": fixed})).over(Axis(layouts(count)))
    plan.evaluate((slice(0, 1),))  # the table as arrays, once

    def run():
        parts = []
        for start in range(0, count, BLOCK):
            step = plan.evaluate((slice(start, min(start + BLOCK, count)),))
            with np.errstate(all="ignore"):
                parts.append(np.where(step.broken, np.inf, step.step_s))
        return np.concatenate(parts)

    seconds = benchmark(run)
    assert np.isfinite(seconds).any()
    if benchmark.stats:
        benchmark.extra_info["million_layouts_per_s"] = count / benchmark.stats["min"] / 1e6


@pytest.mark.benchmark(group="layouts")
def test_an_open_grid_of_layouts(benchmark, pytestconfig):
    factors, degrees = size(pytestconfig, 40, 2), [1, 2, 4, 8, 16, 32][: size(pytestconfig, 6, 3)]
    study = {**GPT3, "set": {"gpus": 1024, "global_batch": 1536},
             "sweep": {"tp": degrees, "pp": degrees, "micro_batch": [1, 2, 3, 4, 6, 12],
                       "vpp": [1, 2, 3], "zero": [0, 1, 2, 3], "sp": ["on", "off"],
                       "recompute": ["none", "selective", "full"],
                       "network": {"from": 1, "to": 4, "steps": factors}}}  # fmt: skip
    result = benchmark(sweep, study, top=10)
    assert len(result) == 10
    if benchmark.stats:
        benchmark.extra_info["million_layouts_per_s"] = result.meta["points"] / benchmark.stats["min"] / 1e6


@pytest.mark.benchmark(group="layouts")
def test_a_search(benchmark, pytestconfig):
    """GPT-3 175B on 512 A100, batch 1024: the search Calculon's authors time (1,284 candidates a second, one core)."""
    pinned = {} if size(pytestconfig, 1, 0) else {"cp": 1, "placement": "tp-cp-dp-pp"}
    space = make_space(study_from({**GPT3, "set": {"global_batch": 1024, **pinned}}), 512)
    found = benchmark(run_search, space, Aim(OBJECTIVES["step"]), 10)
    assert found.feasible > 0
    if benchmark.stats:
        benchmark.extra_info["candidates"] = found.candidates
        benchmark.extra_info["million_candidates_per_s"] = found.candidates / benchmark.stats["min"] / 1e6
