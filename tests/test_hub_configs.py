"""A config.json of every causal type of transformers: read exactly, or refused with what it has.

`data/hub_configs.json` is what transformers 5.24 made of small odd models (`tests/reference/hub_configs.py`): sizes all
differ, so that none can be taken for another. Each is read with every key its class writes, with those alone that are
not as the class has them, with nothing but its ``model_type``, and with each switch turned that changes the total.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from comp_comm.configs.importers.hf_families import FAMILIES
from comp_comm.configs.importers.hf_refused import NOT_MODELLED
from comp_comm.configs.importers.reading import import_text
from comp_comm.configs.model_file import Model
from comp_comm.costmodels.model_work import model_parameters
from comp_comm.errors import ConfigError
from comp_comm.layer_pattern import parse_layer_pattern

ROWS = json.loads((Path(__file__).parent / "data" / "hub_configs.json").read_text(encoding="utf-8"))
READ = [row for row in ROWS if row["model_type"] not in NOT_MODELLED]
# What transformers cannot make sense of either, or a file cannot be without.
NOT_ALONE = {
    "deepseek_v2": "num_experts_per_tok", "nemotron_h": "num_hidden_layers", "zamba2": "layers_block_type",
    "lara_mini": "layer_types",
}  # fmt: skip
# Switches of models that no published one has turned, and that are refused: a bias of some projections, and the like.
REFUSED = ("bias", "projectors", "cross_attention", "norm", "tie_word_embeddings", "gating", "adapter", "use_task_id")


def read(row, keys):
    config = {"model_type": row["model_type"], "architectures": row["architectures"], **keys}
    return import_text(json.dumps(config, indent=1), "config.json")


def parameters(found):
    return int(model_parameters(Model("", "", 0, "", dict(found.fields)).transformer()).all)


def balancing(row):
    """Return how many numbers balance routers: Nemotron-H's are none of its published parameters, and not counted."""
    return 0 if row["model_type"] == "nemotron_h" else row["balancing"]


def layers_that_attend_to_everything(fields):
    if fields.get("layer_pattern"):
        return sum(layer.mixer == "*" for layer in parse_layer_pattern(fields["layer_pattern"]))
    return fields["layers"] // fields["global_every"] if fields.get("global_every") else 0


def check(row, found, expected):
    assert parameters(found) == expected["parameters"] + (expected["balancing"] if balancing(row) else 0)
    if found.fields.get("experts"):
        assert found.fields["top_k"] == expected["num_experts_per_tok"]
    if "full" in expected:
        assert found.fields["window"] == expected["sliding_window"]
        assert layers_that_attend_to_everything(found.fields) == expected["full"]


@pytest.mark.a_third
@pytest.mark.parametrize("row", READ, ids=lambda row: row["model_type"])
def test_every_key(row):
    check(row, read(row, {**row["rest"], **row["odd"]}), row)


@pytest.mark.a_third
@pytest.mark.parametrize("row", [row for row in READ if row["odd"]], ids=lambda row: row["model_type"])
def test_defaults_left_out(row):
    check(row, read(row, row["odd"]), row)


@pytest.mark.a_third
@pytest.mark.parametrize("row", [row for row in READ if "defaults" in row], ids=lambda row: row["model_type"])
def test_nothing_but_defaults(row):
    if row["model_type"] in NOT_ALONE:
        with pytest.raises(ConfigError, match=f"'{NOT_ALONE[row['model_type']]}' is missing"):
            read(row, {})
    else:
        check(row, read(row, {}), row["defaults"])


TURNED = [(row, name) for row in READ for name in row.get("turned", ())]


@pytest.mark.a_third
@pytest.mark.parametrize(("row", "name"), TURNED, ids=[f"{row['model_type']}, {name}" for row, name in TURNED])
def test_a_switch_is_counted_or_refused(row, name):
    was = {**row["rest"], **row["odd"]}[name]
    try:
        assert parameters(read(row, {**row["odd"], name: not was})) == row["turned"][name] + balancing(row)
    except ConfigError as error:
        refused = str(error)
    else:
        return
    assert f"{name}: " in refused
    assert any(each in name for each in REFUSED)


@pytest.mark.a_third
@pytest.mark.parametrize("row", [row for row in ROWS if row not in READ], ids=lambda row: row["model_type"])
def test_what_is_not_modelled_is_said(row):
    with pytest.raises(ConfigError, match=f"'{row['model_type']}' is not modelled: it has "):
        read(row, {**row["rest"], **row["odd"]})


def test_what_a_file_leaves_out_is_said():
    """As Gemma 3's files leave out heads and vocabulary: those are the class's, and named."""
    sizes = {"model_type": "gemma3_text", "hidden_size": 192, "num_hidden_layers": 6, "intermediate_size": 328}
    found = import_text(json.dumps({"text_config": sizes, "vision_config": {}, "mm_words": 3}), "config.json")
    assert "not in the file, so the default of its model_type: head_dim 256, num_attention_heads 8, " \
           "num_key_value_heads 4, sliding_window 4096, vocab_size 262208" in found.notes  # fmt: skip
    assert "beside text_config, of what is not imported: mm_words" in found.notes
    null = import_text(json.dumps({**sizes, "head_dim": None, "num_key_value_heads": None}), "config.json").fields
    assert "head_dim" not in null  # what is null is not left out
    assert "kv_heads" not in null


def test_keys_of_a_text_model_beside_a_tower():
    """Qwen2-VL's first files have no text_config."""
    row = next(row for row in ROWS if row["model_type"] == "qwen2_vl_text")
    config = {**row["odd"], "model_type": "qwen2_vl", "vision_config": {"depth": 32}, "vision_start_token_id": 7}
    found = import_text(json.dumps(config), "config.json")
    assert parameters(found) == row["parameters"]
    assert "only the text model is imported, not what reads images or sound" in found.notes


def test_layers_over_a_window_that_are_not_every_nth():
    kinds = ["full_attention", *["sliding_attention"] * 3, *["full_attention"] * 3]
    config = {"model_type": "flint", "num_hidden_layers": 7, "layer_types": kinds, "mlp_only_layers": [0, 1]}
    assert import_text(json.dumps(config), "config.json").fields["layer_pattern"] == "*- W- WEx2 *Ex3"


def test_most_are_read():
    assert len(READ) > 120
    assert not FAMILIES.keys() & NOT_MODELLED.keys()
