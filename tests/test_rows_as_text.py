"""Rows as text: by columns through Arrow, the bytes that Python writes row by row."""

from __future__ import annotations

import numpy as np
import pytest

from comp_comm.report import pieces, text_columns
from comp_comm.sweeps.engine import Rows

ROWS = 3000


def drawn(seed):
    chance = np.random.default_rng(seed)
    numbers = np.exp(chance.normal(0, 12, ROWS)) * chance.choice([-1.0, 1.0], ROWS)
    odd = [0.0, -0.0, 1e16, 1e15, 9999999999.5, 1e10, 1e-4, 9.9e-5, 5e-324, 1.7e308, 3.0, -7.0, np.nan, 0.1 + 0.2]
    numbers[: len(odd)] = odd
    return Rows({
        "tp": chance.choice([1.0, 2.0, 8.0], ROWS), "step_s": numbers, "network": chance.choice(numbers[:200], ROWS),
        "memory_gib": np.arange(ROWS) / 7, "feasible": chance.random(ROWS) < 0.5,
        "reason": chance.choice(np.array(["", "a, b", 'say "no"', "=1+1", "\t", "é\x1b[2J"], object), ROWS),
    })  # fmt: skip


@pytest.mark.a_third
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("marked", [False, True])
def test_arrow_writes_what_python_writes(seed, marked, monkeypatch):
    pytest.importorskip("pyarrow")
    rows = drawn(seed)
    columns = tuple(rows.columns)
    forms = [lambda: pieces.csv_bytes(columns, marked, rows), lambda: pieces.jsonl_bytes(rows),
             lambda: pieces.json_bytes(rows)]  # fmt: skip
    monkeypatch.setattr(text_columns, "LONG", 1)
    fast = [form() for form in forms]
    assert text_columns.json_lines(rows, "\n") is not None
    monkeypatch.setattr(text_columns, "LONG", ROWS + 1)
    assert text_columns.json_lines(rows, "\n") is None
    assert [form() for form in forms] == fast
