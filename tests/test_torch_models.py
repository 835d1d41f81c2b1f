"""Parameters and FLOP of models against those of transformers 5.24: `data/torch_models.csv`.

Parameters are those of the module on the meta device, FLOP those that PyTorch's FlopCounterMode counts of eager
attention. ``fields`` say where a program differs: it makes no multi-token prediction, computes scores outside a window
all the same, or sends every token through every expert (Llama 4).
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from face import explained, named_model

from comp_comm.configs.catalogue import names
from comp_comm.configs.model_file import load_model
from comp_comm.costmodels.model_work import model_parameters

ROWS = list(csv.DictReader((Path(__file__).parent / "data" / "torch_models.csv").open(encoding="utf-8")))
COUNTED = [row for row in ROWS if row["flops"]]
# A projection of all tokens before the logits, or of one after the last layer, that only heads of some tasks have.
OTHERS = {"megatron-bert-3.9b": 2e-3, "bert-large": 3e-3}
BUFFERS = 3e-8  # of DeepSeek-V3's kind: the router's bias is a parameter here, and a buffer there


@pytest.mark.a_third
@pytest.mark.parametrize("row", [row for row in ROWS if row["parameters"]], ids=lambda row: row["model"])
def test_parameters(row):
    counted = int(model_parameters(load_model(row["model"]).transformer()).all)
    exact = "router_bias" not in named_model(row["model"])
    tolerance = OTHERS.get(row["model"], 0 if exact else BUFFERS)
    assert counted == pytest.approx(int(row["parameters"]), rel=tolerance, abs=0)


@pytest.mark.a_third
@pytest.mark.parametrize("row", COUNTED, ids=lambda row: f"{row['model']}, {row['seq_len']}")
def test_flops(row):
    fields = dict(pair.split(" ") for pair in row["fields"].split("; ") if pair)
    given = {"seq_len": int(row["seq_len"]), **{name: int(value) for name, value in fields.items()}}
    found = explained({"hardware": "h100-sxm", "model": row["model"], "set": given})
    tolerance = OTHERS.get(row["model"], 1e-6)
    assert found["model_flops"] == pytest.approx(int(row["flops"]), rel=tolerance)


def test_nearly_half_of_the_catalogue_is_there():
    known = {row["model"] for row in ROWS}
    assert known <= set(names("model"))
    assert len(known) >= 98
