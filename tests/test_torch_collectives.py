"""Every collective of a step against those of PyTorch, torchtitan and Megatron-core: `data/torch_collectives.csv`.

A row is a group and a kind of collective; all of a case are all there are, but for messages ``without`` which the
program was run: gradients were not clipped, or no loss was made.
"""

from __future__ import annotations

import csv
from itertools import groupby
from pathlib import Path

import pytest
from face import volume_of

ROWS = list(csv.DictReader((Path(__file__).parent / "data" / "torch_collectives.csv").open(encoding="utf-8")))
CASES = [(name, list(rows)) for name, rows in groupby(ROWS, key=lambda row: row["case"])]


def study_of(row):
    pairs = (field.split(" ") for field in row["fields"].split("; "))
    fields = {name: int(value) if value.isdigit() else value for name, value in pairs}
    return {"hardware": "h100-sxm", "set": fields, **({"model": row["model"]} if row["model"] else {})}


@pytest.mark.a_third
@pytest.mark.parametrize("rows", [rows for _, rows in CASES], ids=[name for name, _ in CASES])
def test_collectives_of_a_step(rows):
    sent = {}
    without = tuple(filter(None, rows[0]["without"].split("; ")))
    for row in volume_of(study_of(rows[0]))["messages"]:
        if not (without and row["message"].startswith(without)):
            sums = sent.setdefault((row["group"], row["collective"], int(row["devices"])), [0, 0])
            sums[0] += row["calls"]
            sums[1] += row["total_message_bytes"]
    theirs = {
        (row["group"], row["collective"], int(row["devices"])): [int(row["calls"]), int(row["bytes"])] for row in rows
    }
    assert sent.keys() == theirs.keys()
    for group, sums in theirs.items():
        assert sent[group] == pytest.approx(sums, rel=1e-3), group
