"""How fast the foundation-models paper's layouts are searched: all of a cell, and all 360 cells (8.5 million layouts).

Run with ``pytest tests/benchmarks/test_foundation_search.py --benchmark-enable``; layouts per second are in the extra
info. The code published with the paper evaluates about 330 a second.
"""

from __future__ import annotations

import pytest

from comp_comm.costmodels.foundation_models.space import layouts as all_layouts
from comp_comm.reproduce import foundation_models as paper

CELL = {"strategy": ["2d"], "model": ["gpt3_1T"], "gpu": ["A100"], "nvs": ["8"], "n_gpus": ["4096"]}


@pytest.mark.benchmark(group="layouts of the foundation-models paper")
@pytest.mark.parametrize(("only", "layouts"), [
    pytest.param(CELL, 59_390, id="one cell"),
    pytest.param({}, 8_528_387, id="all cells", marks=pytest.mark.slow),
])  # fmt: skip
def test_search(benchmark, only, layouts):
    def search():
        all_layouts.cache_clear()  # joining the table is part of the work
        return paper.reproduce(only=only)

    rows, meta = benchmark.pedantic(search, rounds=3, iterations=1, warmup_rounds=1)
    assert meta["candidates"] == layouts
    assert all(row["same_layout"] for row in rows)
    if not benchmark.disabled:
        benchmark.extra_info.update(layouts=layouts, layouts_per_s=layouts / benchmark.stats.stats.min)
