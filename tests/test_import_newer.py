"""Families of 2025 and later: a config.json says what the catalogue has of the same model."""

from __future__ import annotations

import json

import pytest

from comp_comm.configs.importers.reading import import_text
from comp_comm.configs.model_file import Model, load_model
from comp_comm.costmodels.model_work import model_parameters
from comp_comm.errors import ConfigError


def hf(kind, hidden, layers, heads, vocab, kv_heads, width, **more):
    return {"model_type": kind, "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads,
            "vocab_size": vocab, "num_key_value_heads": kv_heads, "intermediate_size": width,
            "max_position_embeddings": 4096, **more}  # fmt: skip


def experts(width, count, top_k, shared, **more):
    return {"moe_intermediate_size": width, "n_routed_experts": count, "num_experts_per_tok": top_k,
            "n_shared_experts": shared, "n_group": 1, "topk_group": 1, **more}  # fmt: skip


LOCAL = ["sliding_attention"] * 3 + ["full_attention"]
CONFIGS = {
    "smollm3-3b": hf("smollm3", 2048, 36, 16, 128256, 4, 11008, no_rope_layers=[1, 1, 1, 0] * 9, sliding_window=None,
                     use_sliding_window=False, layer_types=["full_attention"] * 36, max_window_layers=28,
                     no_rope_layer_interval=4, attention_bias=False, mlp_bias=False),
    "seed-oss-36b": hf("seed_oss", 5120, 64, 80, 155136, 8, 27648, head_dim=128, attention_bias=True,
                       attention_out_bias=False, mlp_bias=False, residual_dropout=0.0),
    "olmo-3-7b": hf("olmo3", 4096, 32, 32, 100278, 32, 11008, layer_types=LOCAL * 8, sliding_window=4096),
    "olmo-3-32b": hf("olmo3", 5120, 64, 40, 100278, 8, 27648),
    "exaone-4.0-32b": hf("exaone4", 5120, 64, 40, 102400, 8, 27392, head_dim=128, sliding_window=4096,
                         sliding_window_pattern="LLLG"),
    "dots.llm1": hf("dots1", 4096, 62, 32, 152064, 32, 10944, first_k_dense_replace=1, moe_layer_freq=1,
                    topk_method="noaux_tc", use_sliding_window=False, **experts(1408, 128, 6, 2)),
    "solar-open-100b": hf("solar_open", 4096, 48, 64, 196608, 8, 10240, head_dim=128, **experts(1280, 128, 8, 1)),
    "ling-mini-2.0": hf("bailing_moe_v2", 2048, 20, 16, 157184, 4, 5120, head_dim=128, moe_intermediate_size=512,
                        num_experts=256, num_experts_per_tok=8, num_shared_experts=1, first_k_dense_replace=1,
                        n_group=8, topk_group=4, use_qkv_bias=False, use_bias=False, num_nextn_predict_layers=0,
                        embedding_dropout=0.0, output_dropout=0.0, moe_router_enable_expert_bias=True,
                        max_window_layers=20, mtp_loss_scaling_factor=0, norm_topk_prob=True),
    "glm-4-32b": hf("glm4", 6144, 61, 48, 151552, 2, 23040, head_dim=128, attention_bias=False,
                    partial_rotary_factor=0.5),
    "apertus-8b": hf("apertus", 4096, 32, 32, 131072, 8, 21504, hidden_act="xielu", post_norm=False, qk_norm=True,
                     attention_bias=False, mlp_bias=False, hidden_dropout=0.0),
    "glm-4.7-flash": hf("glm4_moe_lite", 2048, 47, 20, 154880, 20, 10240, q_lora_rank=768, kv_lora_rank=512,
                        qk_nope_head_dim=192, qk_rope_head_dim=64, v_head_dim=256, num_nextn_predict_layers=1,
                        mlp_layer_types=["dense"] + ["sparse"] * 46, **experts(1536, 64, 4, 1)),
    "ernie-4.5-21b-a3b": hf("ernie4_5_moe", 2560, 28, 20, 103424, 4, 12288, moe_intermediate_size=1536, moe_k=6,
                            moe_num_experts=64, moe_num_shared_experts=2, moe_layer_start_index=1,
                            moe_layer_end_index=27, moe_layer_interval=1, use_bias=False, moe_capacity=[64] * 3),
}  # fmt: skip


def imported(config):
    return import_text(json.dumps(config, indent=1), "config.json")


@pytest.mark.parametrize("name", CONFIGS)
def test_a_file_says_what_the_catalogue_has(name):
    known, found = load_model(name).fields, imported(CONFIGS[name])
    usual = {"architecture", "head_dim"}  # left out of a file where they are what they would be anyway
    assert known.keys() ^ found.fields.keys() <= usual
    both = known.keys() & found.fields.keys() - {"seq_len"}
    assert {field: found.fields[field] for field in both} == {field: known[field] for field in both}


@pytest.mark.parametrize(("name", "change", "message"), [
    ("seed-oss-36b", {"attention_out_bias": True}, "attention_out_bias: 'true' is not understood; only false"),
    ("ling-mini-2.0", {"use_bias": True}, "use_bias: 'true' is not understood; only false"),
    ("apertus-8b", {"post_norm": True}, "post_norm: 'true' is not understood; only false"),
    ("exaone-4.0-32b", {"sliding_window_pattern": "LLXG"}, "'LLXG' is not understood; L and G, one a layer"),
    ("exaone-4.0-32b", {"sliding_window_pattern": ""}, "'' is not understood"),
    ("glm-4.7-flash", {"mlp_layer_types": ["sparse"]}, "must list each of the 47 layers, dense or sparse"),
    ("glm-4.7-flash", {"mlp_layer_types": ["wide"] * 47}, "must list each of the 47 layers"),
    ("ernie-4.5-21b-a3b", {"moe_layer_interval": 0}, "the layers of experts must be whole numbers"),
    ("ernie-4.5-21b-a3b", {"moe_layer_start_index": [1, 2]}, "the layers of experts must be whole numbers"),
])  # fmt: skip
def test_what_is_not_understood_is_refused(name, change, message):
    with pytest.raises(ConfigError, match=message):
        imported({**CONFIGS[name], **change})


def test_layers_of_experts_are_listed_or_counted():
    listed = imported({**CONFIGS["glm-4.7-flash"], "mlp_layer_types": ["dense"] * 3 + ["sparse"] * 44})
    assert listed.fields["dense_layers"] == 3
    counted = {key: value for key, value in CONFIGS["glm-4.7-flash"].items() if key != "mlp_layer_types"}
    assert imported({**counted, "first_k_dense_replace": 2}).fields["dense_layers"] == 2


def test_ernie_every_other_layer():
    fields = imported({**CONFIGS["ernie-4.5-21b-a3b"], "moe_layer_interval": 2, "moe_layer_start_index": 0}).fields
    assert fields["moe_every"] == 2
    assert "dense_layers" not in fields


def test_ernie_without_experts():
    fields = imported(hf("ernie4_5", 1024, 18, 16, 103424, 2, 3072, head_dim=128, use_bias=False)).fields
    assert fields["tied"] == "on"
    assert int(model_parameters(Model("x", "x", 0, "", fields).transformer()).all) == 360748032


def test_exaone_without_a_window_attends_to_everything():
    fields = imported({**CONFIGS["exaone-4.0-32b"], "sliding_window_pattern": None, "sliding_window": None}).fields
    assert "window" not in fields
