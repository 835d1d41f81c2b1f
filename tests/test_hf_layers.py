"""What a layer of transformers' classes keeps for its backward pass, read from its config.json: `data/hf_layers.json`.

Made by `tests/reference/hf_layers.py`: bytes that autograd keeps of one layer, sizes all different. ``fields`` are the
words that docs/training-step.md has for how a class computes.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from face import memory_of

from comp_comm.configs.importers.reading import import_text

ROWS = json.loads((Path(__file__).parent / "data" / "hf_layers.json").read_text(encoding="utf-8"))
TOKENS = 512


def ids(row):
    return f"{row['model_type']}, {row['attention']}, {row['fields'].get('lora_targets', '')}"


def kept_of_a_layer(row):
    fields = import_text(json.dumps({"model_type": row["model_type"], **row["config"]}), "config.json").fields
    given = {**fields, **row["fields"], "seq_len": TOKENS, "kernels": "eager"}
    given.pop("layer_pattern", None)  # layers are all alike
    dense = given.pop("dense_layers", 0) >= 3
    if dense:
        given = {name: value for name, value in given.items() if name not in OF_EXPERTS}
    fewer, more = (memory_of({"hardware": "h100-sxm", "set": {**given, "layers": layers}})["activations"]
                   for layers in (4, 6))  # fmt: skip
    return (more - fewer) / 2


OF_EXPERTS = ("experts", "top_k", "moe_ffn_hidden", "shared_experts", "shared_ffn_hidden", "router_bias",
              "router_groups", "router_group_topk", "dense_layers")  # fmt: skip


@pytest.mark.a_third
@pytest.mark.parametrize("row", ROWS, ids=ids)
def test_what_a_layer_of_transformers_keeps(row):
    assert kept_of_a_layer(row) == pytest.approx(row["kept_layer"], rel=0.01)
