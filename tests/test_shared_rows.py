"""Parts that points share, seen block by block: every number is that of the points worked out without sharing.

A grid is cut into blocks along all of its axes at once, as a large study is, and small ones are so that each way to
share is gone: worked out for all values at once, for a block's part of the other axes, and for the rows of a block.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from comp_comm.configs.axes import Axis
from comp_comm.configs.study import study_from
from comp_comm.costmodels.complete import MODEL
from comp_comm.sweeps import shared_parts
from comp_comm.sweeps.plan import make_plan
from comp_comm.sweeps.shared_parts import SharedRows

SMALL = {"cuda_graph": "full", "layers": 8, "hidden": 1024, "heads": 16, "kv_heads": 8, "vocab": 32000, "seq_len": 1024}
FIELDS = ("gpus", "tp", "pp", "global_batch", "micro_batch")
ROWS = [dict(zip(FIELDS, row, strict=True)) for row in itertools.product(
    (16, 64), (1, 2, 4), (1, 2), (64, 128), (1, 2))]  # fmt: skip
# Beside a table of layouts: what layers depend on, what they do not, and both in one axis.
AXES = {
    "a model": {"sweep": {"hidden": [1024, 2048, 4096]}},
    "what layers ignore": {"sweep": {"optimizer_precision": ["fp32", "bf16"]}},
    "both in one": {"tied": {"network": (1, 0.5, 2, 4), "memory_capacity": (1, 2, 1, 2),
                             "hidden": (1024, 1024, 2048, 4096)}},
    "experts": {"set": {"experts": 8, "top_k": 2, "moe_ffn_hidden": 512}, "sweep": {"ep": [1, 2, 4]}},
    "places": {"sweep": {"placement": ["tp-cp-dp-pp", "pp-tp-cp-dp", "tp-pp-cp-dp"]}},
    "apart": {"set": {"placement": "tp-dp-cp-pp", "cp_comm": "all_gather"}, "sweep": {"cp": [1, 2]}},
    "one place": {"set": {"placement": "dp-tp-cp-pp"}, "sweep": {"nvs": [4, 8]}},
}  # fmt: skip
# Apart: where replicas are nearer each other than parts of a sequence, more stages leave fewer replicas between these.
LIMITS = {"all at once": {}, "part by part": {"SHARED_POINTS": 0}, "block by block": {"MOST_ROWS": 0}}


def grid_of(axes):
    study = {"hardware": "h100-sxm", "zip": ROWS, "sweep": axes.get("sweep", {}),
             "set": {**SMALL, "zero": 1, **axes.get("set", {})}}  # fmt: skip
    study["set"] = {name: value for name, value in study["set"].items() if name not in study["sweep"]}
    plan = make_plan(study_from(study))
    fixed = {name: value for name, value in plan.grid.fixed.items() if name not in axes.get("tied", {})}
    more = (Axis(axes["tied"]),) if "tied" in axes else ()
    return replace(plan.grid, fixed=fixed, axes=(*plan.grid.axes, *more))


def blocks(grid):
    """Return a grid's blocks, in an order in which one begins where another did that ends elsewhere."""
    cuts = [[slice(0, 1), slice(0, None), slice(1, None)] if len(axis) < 10 else [slice(0, 20), slice(20, 48)]
            for axis in grid.axes]  # fmt: skip
    return list(itertools.product(*cuts))


def numbers(grid, index, parts):
    answer = MODEL.evaluate(grid.scenario(index), parts)
    shape = tuple(len(range(*each.indices(len(axis)))) for each, axis in zip(index, grid.axes, strict=True))
    with np.errstate(all="ignore"):  # of what a study does not ask for (tokens, money) there are no numbers
        made = {name: column.of(answer) for name, column in MODEL.columns.items()}
    return {name: np.broadcast_to(np.asarray(values, float), shape) for name, values in made.items()}


@pytest.mark.a_third
@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("axes", [
    axes if number % 3 == 0 else pytest.param(axes, marks=pytest.mark.slow) for number, axes in enumerate(AXES)
])  # fmt: skip
def test_a_block_has_the_numbers_of_its_points(axes, limits, monkeypatch):
    """All columns there are, each of which sees parts that have attributes alone."""
    for name, value in LIMITS[limits].items():
        monkeypatch.setattr(shared_parts, name, value)
    grid = grid_of(AXES[axes])
    shared, seen = SharedRows(grid), set()
    for index in blocks(grid):
        parts = shared.parts(index)
        seen |= set(parts)
        alone = numbers(grid, index, {})
        for name, values in numbers(grid, index, parts).items():
            np.testing.assert_allclose(values, alone[name], rtol=1e-12, err_msg=f"{name} {index}")
    assert "operations" in seen
