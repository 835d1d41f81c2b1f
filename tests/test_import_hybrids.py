"""config.json of models whose layers are not all alike: counts against those of transformers, and what is refused.

The numbers are those of published files; counts are of the same configurations made by transformers 5.24 (on no
device), with the routers' biases where the weights have them. Those of Qwen3-Next, Nemotron 3 Super, Jamba and MiniMax
are as published, too.
"""

from __future__ import annotations

import json

import pytest

from comp_comm.configs.importers.hf_families import FAMILIES
from comp_comm.configs.importers.hf_refused import NOT_MODELLED
from comp_comm.configs.importers.reading import import_text
from comp_comm.configs.model_file import Model, load_model
from comp_comm.costmodels.model_work import model_parameters
from comp_comm.errors import ConfigError

SUPER = "MEMEMEM*EMEMEMEM*EMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEM*EMEMEMEME"
NANO = "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME"
FULL = [4, 8, 12, 16, 20, 24, 27]
HYBRID = {"mamba": "M", "attention": "*"}
TIED = {"tie_word_embeddings": True}


def hf(kind, hidden, layers, heads, vocab, **more):
    keys = {"model_type": kind, "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads,
            "vocab_size": vocab, "max_position_embeddings": 8192, "tie_word_embeddings": False}  # fmt: skip
    return {**keys, **more}


def linear(heads):
    return {"linear_num_value_heads": heads, "linear_value_head_dim": 128, "linear_num_key_heads": 16,
            "linear_key_head_dim": 128, "linear_conv_kernel_dim": 4}  # fmt: skip


def nemotron(pattern, hidden, ffn, mamba_heads, **more):
    return hf("nemotron_h", hidden, len(pattern), more.pop("heads", 32), 131072, hybrid_override_pattern=pattern,
              intermediate_size=ffn, num_key_value_heads=more.pop("kv", 2), head_dim=128, mamba_num_heads=mamba_heads,
              mamba_head_dim=64, n_groups=8, ssm_state_size=128, conv_kernel=4, chunk_size=128, **more)  # fmt: skip


def mla(q_rank, nope, value):
    return {"q_lora_rank": q_rank, "kv_lora_rank": 512, "qk_nope_head_dim": nope, "qk_rope_head_dim": 64,
            "v_head_dim": value, "first_k_dense_replace": 3, "n_routed_experts": 256, "n_shared_experts": 1,
            "num_experts_per_tok": 8, "moe_intermediate_size": 2048}  # fmt: skip


def mamba2(heads, state, **more):
    return {"mamba_n_heads": heads, "mamba_d_head": 64, "mamba_n_groups": 1, "mamba_d_state": state, "mamba_d_conv": 4,
            "mamba_expand": 2, "mamba_chunk_size": 256, **more}  # fmt: skip


def zamba2(hidden, layers, heads, state, shared, **more):
    kinds = ["hybrid" if i in shared else "mamba" for i in range(layers)]
    return hf("zamba2", hidden, layers, 32, 32000, intermediate_size=4 * hidden, num_key_value_heads=32,
              layers_block_type=kinds, n_mamba_heads=heads, mamba_d_state=state, mamba_d_conv=4, mamba_expand=2,
              mamba_ngroups=1, chunk_size=256, adapter_rank=128, **more, **TIED)  # fmt: skip


CONFIGS = {
    "qwen3-next-80b-a3b": (79674391296, hf(
        "qwen3_next", 2048, 48, 16, 151936, intermediate_size=5120, num_key_value_heads=2, head_dim=256,
        full_attention_interval=4, num_experts=512, num_experts_per_tok=10, moe_intermediate_size=512,
        shared_expert_intermediate_size=512, decoder_sparse_step=1, mlp_only_layers=[], **linear(32))),
    "qwen3.5-35b-a3b": (34660610688, {"model_type": "qwen3_5_moe", "vision_config": {"depth": 27}, "text_config": hf(
        "qwen3_5_moe_text", 2048, 40, 16, 248320, num_key_value_heads=2, head_dim=256, attn_output_gate=True,
        num_experts=256, num_experts_per_tok=8, moe_intermediate_size=512, shared_expert_intermediate_size=512,
        mtp_num_hidden_layers=1, layer_types=(["linear_attention"] * 3 + ["full_attention"]) * 10, **linear(32))}),
    "kimi-linear-48b-a3b": (49122681728, hf(
        "kimi_linear", 2304, 27, 32, 163840, intermediate_size=9216, num_key_value_heads=32, head_dim=72,
        q_lora_rank=None, kv_lora_rank=512, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128,
        num_experts=256, num_experts_per_token=8, num_shared_experts=1, moe_intermediate_size=1024, moe_layer_freq=1,
        first_k_dense_replace=1, mla_use_nope=True, linear_attn_config={
            "full_attn_layers": FULL, "kda_layers": [i for i in range(1, 28) if i not in FULL], "head_dim": 128,
            "num_heads": 32, "short_conv_kernel_size": 4})),
    "nemotron-h-8b": (8100852736, nemotron("M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-", 4096, 21504, 128,
                                           kv=8)),
    "nemotron-3-nano-30b-a3b": (31577937344, nemotron(
        NANO, 2688, 1856, 64, n_routed_experts=128, num_experts_per_tok=6, n_shared_experts=1,
        moe_intermediate_size=1856, moe_shared_expert_intermediate_size=3712)),
    "nemotron-3-super-120b-a12b": (120668687360, nemotron(
        SUPER, 4096, 2688, 128, n_routed_experts=512, num_experts_per_tok=22, n_shared_experts=1,
        moe_intermediate_size=2688, moe_shared_expert_intermediate_size=5376, moe_latent_size=1024,
        num_nextn_predict_layers=1, mtp_hybrid_override_pattern="*E")),
    "minimax-text-01": (456089655296, hf(
        "minimax_text_01", 6144, 80, 64, 200064, intermediate_size=9216, num_key_value_heads=8, head_dim=128,
        num_local_experts=32, num_experts_per_tok=2, attn_type_list=[0, 0, 0, 0, 0, 0, 0, 1] * 10, postnorm=True)),
    "minimax-m2": (228689764864, hf(
        "minimax_m2", 3072, 62, 48, 200064, intermediate_size=1536, num_key_value_heads=8, head_dim=128,
        num_local_experts=256, num_experts_per_tok=8, attn_type_list=[1] * 62, use_qk_norm=True,
        qk_norm_type="per_layer", use_routing_bias=True)),
    "jamba-v0.1": (51570323328, hf(
        "jamba", 4096, 32, 32, 65536, intermediate_size=14336, num_key_value_heads=8, attn_layer_period=8,
        attn_layer_offset=4, expert_layer_period=2, expert_layer_offset=1, num_experts=16, num_experts_per_tok=2,
        mamba_d_state=16, mamba_d_conv=4, mamba_expand=2, mamba_dt_rank=256, mamba_conv_bias=True)),
    "glm-5": (743911218432, hf(
        "glm_moe_dsa", 6144, 78, 64, 154880, intermediate_size=12288, index_n_heads=32, index_head_dim=128,
        index_topk=2048, num_nextn_predict_layers=1, **mla(2048, 192, 256))),
    "glm-5.2": (743377019904, hf(
        "glm_moe_dsa", 6144, 78, 64, 154880, intermediate_size=12288, index_n_heads=32, index_head_dim=128,
        index_topk=2048, num_nextn_predict_layers=1, index_topk_freq=4, index_skip_topk_offset=3,
        **mla(2048, 192, 256))),
    "deepseek-v3.2": (671877944064, hf(
        "deepseek_v32", 7168, 61, 128, 129280, intermediate_size=18432, index_n_heads=64, index_head_dim=128,
        index_topk=2048, num_nextn_predict_layers=1, **mla(1536, 128, 128))),
    "granite-4.0-h-small": (32207337984, hf(
        "granitemoehybrid", 4096, 40, 32, 100352, intermediate_size=768, shared_intermediate_size=1536,
        num_key_value_heads=8, num_local_experts=72, num_experts_per_tok=10, tie_word_embeddings=True,
        layer_types=(["mamba"] * 5 + ["attention"] + ["mamba"] * 4) * 4, position_embedding_type="nope",
        **mamba2(128, 128))),
    "granite-4.0-h-micro": (3191396096, hf(
        "granitemoehybrid", 2048, 40, 32, 100352, intermediate_size=8192, shared_intermediate_size=8192,
        num_key_value_heads=8, num_local_experts=0, num_experts_per_tok=0, tie_word_embeddings=True,
        layer_types=(["mamba"] * 5 + ["attention"] + ["mamba"] * 4) * 4, **mamba2(64, 128))),
    "bamba-9b": (9780235392, hf("bamba", 4096, 32, 32, 128256, intermediate_size=14336, num_key_value_heads=8,
                                attn_layer_indices=[9, 18, 27], **mamba2(128, 128, mamba_d_head="auto"))),
    "mamba2-2.7b": (2702599680, hf("mamba2", 2560, 64, 1, 50288, num_heads=80, head_dim=64, n_groups=1, state_size=128,
                                   conv_kernel=4, expand=2, chunk_size=256, tie_word_embeddings=True)),
    "falcon-mamba-7b": (7272665088, hf("falcon_mamba", 4096, 64, 1, 65024, state_size=16, conv_kernel=4, expand=2,
                                       time_step_rank=256, use_conv_bias=True)),
    "zamba2-2.7b": (2662214560, zamba2(2560, 54, 80, 64, (6, 12, 18, 24, 30, 36, 42, 47, 51), num_mem_blocks=2)),
    "zamba2-1.2b": (1215064704, zamba2(2048, 38, 64, 128, range(5, 38, 6), num_mem_blocks=1, use_mem_rope=True,
                                       use_shared_attention_adapter=True)),
    # By hand, of the tensors that its class makes: 76 mixers, 13 projections, one shared block (see below).
    "zamba-7b": (7232490496, hf("zamba", 3712, 76, 16, 32000, intermediate_size=14848, num_key_value_heads=16,
                                n_mamba_heads=2, mamba_d_state=16, mamba_d_conv=4, mamba_expand=2, mamba_dt_rank=232,
                                attn_layer_period=6, attn_layer_offset=4, hidden_act="gelu", hidden_mamba_act="silu",
                                mamba_conv_bias=True, mamba_proj_bias=False, **TIED)),
    "falcon-h1-tiny": (91131072, hf(
        "falcon_h1", 512, 24, 8, 32768, intermediate_size=768, num_key_value_heads=2, head_dim=64, mamba_d_ssm=768,
        mamba_rms_norm=False, tie_word_embeddings=True, **mamba2(24, 64, mamba_d_head=32))),
    "falcon-h1-34b": (33642221312, hf(
        "falcon_h1", 5120, 72, 20, 261120, intermediate_size=21504, num_key_value_heads=4, head_dim=128,
        mamba_d_ssm=4096, mamba_rms_norm=False, **mamba2(32, 256, mamba_d_head=128, mamba_n_groups=2))),
    "ling-3.0-flash": (124414211552, hf(
        "bailing_hybrid", 2560, 42, 32, 157184, intermediate_size=6144, num_key_value_heads=32, head_dim=128,
        layer_group_size=6, short_conv_kernel_size=4, num_experts=512, **{
            **mla(None, 128, 128), "first_k_dense_replace": 2, "n_routed_experts": None,
            "moe_intermediate_size": 768})),
    "olmo-hybrid-7b": (7430870688, hf(
        "olmo_hybrid", 3840, 32, 30, 100352, intermediate_size=11008,
        layer_types=(["linear_attention"] * 3 + ["full_attention"]) * 8, linear_num_value_heads=30,
        linear_value_head_dim=192, linear_num_key_heads=30, linear_key_head_dim=96, linear_conv_kernel_dim=4)),
}  # fmt: skip


def imported(config, file="config.json"):
    return import_text(json.dumps(config, indent=1), file)


@pytest.mark.a_third
@pytest.mark.parametrize("name", CONFIGS)
def test_counts_are_those_of_transformers(name):
    count, config = CONFIGS[name]
    fields = imported(config).fields
    assert int(model_parameters(Model("x", "x", 0, "", fields).transformer()).all) == count


def test_zamba_tensor_by_tensor():
    h, d, f, state, rank, vocab = 3712, 7424, 14848, 16, 232, 32000
    mixer = h * 2 * d + d * 4 + d + d * (rank + 2 * state) + d * rank + d + d * state + d + d * h
    shared = 3 * (2 * h) * d + d * h + 3 * h * f + 2 * h + h
    assert vocab * h + 76 * (mixer + h) + 13 * h * h + shared + h == CONFIGS["zamba-7b"][0]


def test_zamba_says_which_layers_have_the_block():
    _, config = CONFIGS["zamba-7b"]
    kinds = ["hybrid" if letter == "Y" else "mamba" for letter in imported(config).fields["layer_pattern"]]
    assert kinds.index("hybrid") == 2
    assert kinds.count("hybrid") == 13
    listed = {name: value for name, value in config.items() if not name.startswith("attn_layer")}
    found = imported({**listed, "layers_block_type": kinds}).fields
    assert found == imported(config).fields


@pytest.mark.parametrize("name", [name for name in CONFIGS
                                  if not name.startswith(("bamba", "falcon", "olmo", "zamba2-1"))
                                  and name != "granite-4.0-h-micro"])  # fmt: skip
def test_the_catalogue_has_what_the_file_says(name):
    known, found = load_model(name).fields, imported(CONFIGS[name][1]).fields
    for field in known.keys() & found.keys() - {"seq_len", "mtp_layers"}:
        assert known[field] == found[field], field
    missed = known.keys() - found.keys()
    assert not [name for name in missed if name.startswith(("ssm_", "index_", "moe_", "layer_"))]


@pytest.mark.parametrize(("kind", "change", "message"), [
    ("qwen3_next", {"layer_types": ["linear_attention", "short_conv"]}, "must list the kind of each of the 4 layers"),
    ("qwen3_next", {"layer_types": ["linear_attention", "short_conv"] * 2}, "layers of short_conv are not understood"),
    ("qwen3_next", {"linear_num_value_heads": "many"}, "linear_num_value_heads: 'many' is not a number"),
    ("nemotron_h", {"hybrid_override_pattern": "MX*E"}, "hybrid_override_pattern: 'MX\\*E' is not understood"),
    ("nemotron_h", {"hybrid_override_pattern": "M-*-", "mlp_bias": True}, "biases of some of the layers only"),
    ("nemotron_h", {"hybrid_override_pattern": "M-*-", "num_nextn_predict_layers": 1,
                    "mtp_hybrid_override_pattern": "ME"}, "only '\\*E'"),
    ("jamba", {"attn_layer_period": 0}, "periods must be whole numbers"),
    ("jamba", {"mamba_conv_bias": False}, "mamba_conv_bias: 'false' is not understood; only true"),
    ("minimax", {"attn_type_list": [0, 1]}, "must list the kind of each of the 4 layers"),
    ("minimax_m2", {"attn_type_list": [0, 1, 1, 1]}, "layers other than attention"),
    ("glm_moe_dsa", {"indexer_types": ["shared"] * 4}, "must say of each of the 4 layers"),
    ("glm_moe_dsa", {"index_topk_pattern": "FS"}, "must say of each of the 4 layers"),
    ("kimi_linear", {"moe_layer_freq": 2}, "moe_layer_freq: '2' is not understood; only 1"),
    ("zamba", {"layers_block_type": ["mamba"] * 3}, "must list mamba or hybrid for each of the 4 layers"),
    ("zamba", {"attn_layer_period": 0}, "must list mamba or hybrid for each of the 4 layers"),
    ("zamba", {"mamba_conv_bias": False}, "mamba_conv_bias: 'false' is not understood; only true"),
    ("bamba", {"mamba_proj_bias": True}, "mamba_proj_bias: 'true' is not understood; only false"),
])  # fmt: skip
def test_what_a_file_is_refused_for(kind, change, message):
    base = hf(kind, 512, 4, 8, 1000, intermediate_size=1024, num_experts=4, num_experts_per_tok=2)
    with pytest.raises(ConfigError, match=message):
        imported({**base, **change})


@pytest.mark.a_third
@pytest.mark.parametrize("kind", NOT_MODELLED)
def test_a_family_that_is_not_modelled_is_told_in_one_sentence(kind):
    assert kind not in FAMILIES
    with pytest.raises(ConfigError) as caught:
        imported(hf(kind, 512, 4, 8, 1000, frobnicate=3, hc_mult=4))
    assert str(caught.value) == f"config.json:2: model_type: '{kind}' is not modelled: it has {NOT_MODELLED[kind]}"
