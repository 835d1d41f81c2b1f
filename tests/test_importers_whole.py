"""All that an import says, not only what a test asks for: every field of small configs, as their keys mean them."""

from __future__ import annotations

import json

import pytest

from comp_comm.configs.importers.reading import import_text

SIZES = {"hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 6, "num_attention_heads": 8,
         "vocab_size": 1000, "max_position_embeddings": 256}  # fmt: skip
COMMON = {"hidden": 512, "layers": 6, "heads": 8, "vocab": 1000, "ffn_hidden": 1024, "seq_len": 256, "norm": "rmsnorm",
          "gated": "on", "bias": "off", "position": "rope", "tied": "off", "dropout": "off"}  # fmt: skip
LATENT = {"q_lora_rank": 128, "kv_lora_rank": 64, "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "v_head_dim": 48}
OF_LATENT = {"q_lora_rank": 128, "kv_lora_rank": 64, "head_dim": 32, "rope_head_dim": 16, "v_head_dim": 48}
ROUTED = {"n_routed_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 96, "n_shared_experts": 2}
OF_ROUTED = {"experts": 8, "top_k": 3, "moe_ffn_hidden": 96, "shared_experts": 2}
QWEN = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 96}
OF_QWEN = {"experts": 8, "top_k": 2, "moe_ffn_hidden": 96}
GEMMA = {"norms": 4, "head_dim": 256, "tied": "on", "window": 64}
KINDS = ["sliding_attention", "full_attention"]

# What no file here says, as transformers' classes have it.
LEFT_OUT = {
    "mistral": {"kv_heads": 8}, "gemma2": {"kv_heads": 4}, "qwen3": {"kv_heads": 32, "head_dim": 128},
    "qwen2": {"kv_heads": 32}, "mixtral": {"kv_heads": 8}, "qwen3_moe": {"kv_heads": 4}, "qwen2_moe": {"kv_heads": 16},
    "glm4_moe": {"kv_heads": 8}, "gpt_oss": {"kv_heads": 8, "head_dim": 64}, "stablelm": {"kv_heads": 32},
}  # fmt: skip

# Keys beside the sizes, and fields beside those that all have; None: a field that it has not.
CONFIGS = {
    "llama": ({"model_type": "llama", "num_key_value_heads": 2}, {"kv_heads": 2}),
    "llama, biased": ({"model_type": "llama", "attention_bias": True}, {"bias": "attention"}),
    "llama, both biased": ({"model_type": "llama", "attention_bias": True, "mlp_bias": True}, {"bias": "on"}),
    "llama, dropped out": ({"model_type": "llama", "attention_dropout": 0.1}, {"dropout": "on"}),
    "mistral": ({"model_type": "mistral", "sliding_window": 64}, {"window": 64}),
    "mistral, none": ({"model_type": "mistral", "sliding_window": None}, {}),
    # Every second layer of Gemma 2 sees everything; the sixth of Gemma 3.
    "gemma2": ({"model_type": "gemma2", "sliding_window": 64}, {**GEMMA, "global_every": 2}),
    "gemma3": ({"model_type": "gemma3_text", "sliding_window": 64, "num_key_value_heads": 4},
               {**GEMMA, "global_every": 6, "kv_heads": 4, "qk_norm": "on"}),
    "gemma3, every third": ({"model_type": "gemma3_text", "sliding_window": 64, "sliding_window_pattern": 3,
                             "num_key_value_heads": 4},
                            {**GEMMA, "global_every": 3, "kv_heads": 4, "qk_norm": "on"}),
    "gemma3, of twenty": ({"model_type": "gemma3_text", "sliding_window": 64, "num_hidden_layers": 20,
                           "num_key_value_heads": 4},
                          {**GEMMA, "layers": 20, "global_every": 6, "kv_heads": 4, "qk_norm": "on"}),
    "qwen3, listed": ({"model_type": "qwen3", "sliding_window": 64, "layer_types": KINDS * 3},
                      {"qk_norm": "on", "window": 64, "global_every": 2}),
    "qwen2": ({"model_type": "qwen2", "use_sliding_window": True, "sliding_window": 64, "max_window_layers": 2},
              {"bias": "qkv", "window": 64, "global_every": 3}),
    "mixtral": ({"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2},
                {"experts": 4, "top_k": 2, "moe_ffn_hidden": 1024}),
    "qwen3_moe": ({"model_type": "qwen3_moe", **QWEN}, {"qk_norm": "on", **OF_QWEN}),
    "qwen3_moe, every third": ({"model_type": "qwen3_moe", **QWEN, "decoder_sparse_step": 3},
                               {"qk_norm": "on", **OF_QWEN, "moe_every": 3}),
    "qwen3_moe, of five": ({"model_type": "qwen3_moe", **QWEN, "decoder_sparse_step": 2, "num_hidden_layers": 5},
                           {"qk_norm": "on", **OF_QWEN, "moe_every": 2, "layers": 5}),  # the second and the fourth
    "qwen3_moe, dense": ({"model_type": "qwen3_moe", **QWEN, "num_experts": 0}, {"qk_norm": "on"}),
    # The shared expert has a gate of hidden numbers in each of its layers.
    "qwen2_moe": ({"model_type": "qwen2_moe", **QWEN, "shared_expert_intermediate_size": 192,
                   "decoder_sparse_step": 2},
                  {"bias": "qkv", **OF_QWEN, "shared_experts": 1, "shared_ffn_hidden": 192, "moe_every": 2,
                   "shared_expert_gate": "on"}),
    "qwen2_moe, listed": ({"model_type": "qwen2_moe", **QWEN, "shared_expert_intermediate_size": 192,
                           "mlp_only_layers": [0, 1]},
                          {"bias": "qkv", **OF_QWEN, "shared_experts": 1, "shared_ffn_hidden": 192, "dense_layers": 2,
                           "shared_expert_gate": "on"}),
    # Two dense layers, then every second one of twelve.
    "deepseek, by turns": ({"model_type": "deepseek", **ROUTED, "num_hidden_layers": 14,
                            "moe_layer_freq": [0, 0, *[1, 0] * 6]},
                           {**OF_ROUTED, "layers": 14, "dense_layers": 2, "moe_every": 2}),
    "deepseek": ({"model_type": "deepseek", **ROUTED, "first_k_dense_replace": 1, "moe_layer_freq": 1},
                 {**OF_ROUTED, "dense_layers": 1}),
    "deepseek_v2": ({"model_type": "deepseek_v2", **LATENT, **ROUTED, "first_k_dense_replace": 1},
                    {**OF_LATENT, **OF_ROUTED, "dense_layers": 1}),
    "deepseek_v2, lite": ({"model_type": "deepseek_v2", **LATENT, "q_lora_rank": None, **ROUTED},
                          {**OF_LATENT, "q_lora_rank": 0, **OF_ROUTED}),
    "deepseek_v3": ({"model_type": "deepseek_v3", **LATENT, **ROUTED, "first_k_dense_replace": 3,
                     "num_nextn_predict_layers": 1, "topk_method": "noaux_tc"},
                    {**OF_LATENT, **OF_ROUTED, "dense_layers": 3, "mtp_layers": 1, "router_bias": "on",
                     "router_groups": 8, "router_group_topk": 4}),
    "deepseek_v3, without": ({"model_type": "deepseek_v3", **LATENT, **ROUTED, "num_nextn_predict_layers": 0,
                              "topk_method": "greedy"}, {**OF_LATENT, **OF_ROUTED, "dense_layers": 3}),
    "glm4_moe": ({"model_type": "glm4_moe", "attention_bias": True, "use_qk_norm": True, **ROUTED,
                  "first_k_dense_replace": 1},
                 {"bias": "qkv", "qk_norm": "on", **OF_ROUTED, "dense_layers": 1, "router_bias": "on"}),
    "gpt_oss": ({"model_type": "gpt_oss", "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 16,
                 "layer_types": KINDS * 3},
                {"bias": "on", "attention_sinks": "on", "router_bias": "on", "clamped_glu": "on", "experts": 4,
                 "top_k": 2, "moe_ffn_hidden": 1024, "window": 16, "global_every": 2}),
    "nemotron": ({"model_type": "nemotron"}, {"norm": "layernorm", "gated": "off"}),
    "cohere": ({"model_type": "cohere", "use_qk_norm": True},
               {"norm": "layernorm_no_bias", "norms": 1, "parallel_blocks": "on", "qk_norm": "whole", "tied": "on"}),
    "stablelm": ({"model_type": "stablelm", "use_qkv_bias": True, "use_parallel_residual": True},
                 {"norm": "layernorm", "bias": "qkv", "qk_norm": "off", "parallel_blocks": "on", "norms": 1}),
}  # fmt: skip


@pytest.mark.parametrize("name", CONFIGS)
def test_every_field_of_a_config(name):
    keys, fields = CONFIGS[name]
    assert import_text(json.dumps({**SIZES, **keys}), "config.json").fields == {
        **COMMON, **LEFT_OUT.get(keys["model_type"], {}), **fields
    }  # fmt: skip


# -- scripts of Megatron-LM -------------------------------------------------------------------------------------------

SCRIPT = ("--num-layers 6 --hidden-size 512 --num-attention-heads 8 --seq-length 256 --micro-batch-size 2 --bf16 "
          "--vocab-size 1000")  # fmt: skip
OF_SCRIPT = {
    "layers": 6, "hidden": 512, "heads": 8, "seq_len": 256, "micro_batch": 2, "vocab": 1000, "gated": "off",
    "norm": "layernorm", "bias": "on", "tied": "on", "position": "learned", "dropout": "on", "sp": "off",
    "precision": "bf16", "grad_precision": "fp32", "zero": 0, "overlap_dp": "off",
    "cross_entropy": "unfused",
}  # fmt: skip
MIXTURE = {"experts": 8, "top_k": 2, "permute_fusion": "off"}
FLAGS = {
    "": {},
    "--num-experts 8": {**MIXTURE},
    "--num-experts 8 --moe-router-enable-expert-bias": {**MIXTURE, "router_bias": "on"},
    "--num-experts 1 --moe-router-enable-expert-bias": {},
    "--num-experts 8 --moe-router-topk 4 --moe-ffn-hidden-size 96 --moe-shared-expert-intermediate-size 64": {
        **MIXTURE, "top_k": 4, "moe_ffn_hidden": 96, "shared_experts": 1, "shared_ffn_hidden": 64},
    "--num-experts 8 --moe-permute-fusion": {**MIXTURE, "permute_fusion": "on"},
    "--num-experts 8 --moe-layer-freq '([0]*2+[1]*4)'": {**MIXTURE, "dense_layers": 2},
    "--num-experts 8 --moe-layer-freq '([0,1]*3)'": {**MIXTURE, "moe_every": 2},
    "--num-experts 8 --expert-interval 3": {**MIXTURE, "moe_every": 3},
    "--num-experts 8 --deepspeed --topk 1": {  # of before Transformer Engine
        "experts": 8, "top_k": 1, "moe_every": 2, "attention_kernel": "unfused", "gradient_accumulation_fusion": "off"},
    "--window-size 64,0": {"window": 64},
    "--window-size '(64,0)' --window-attn-skip-freq 3": {"window": 64, "global_every": 3},
    "--mtp-num-layers 2": {"mtp_layers": 2},
    "--swiglu --normalization RMSNorm --untie-embeddings-and-output-weights --disable-bias-linear": {
        "gated": "on", "norm": "rmsnorm", "tied": "off", "bias": "off"},
    "--attention-dropout 0 --hidden-dropout 0": {"dropout": "off"},
    "--attention-dropout 0 --hidden-dropout 0.1": {"dropout": "on"},
    "--position-embedding-type rope --max-position-embeddings 512": {"position": "rope"},
    "--max-position-embeddings 512": {"max_positions": 512},
    "--no-position-embedding": {"position": "none"},
    "--sequence-parallel --use-distributed-optimizer --overlap-grad-reduce": {
        "sp": "on", "zero": 1, "overlap_dp": "on"},
    "--no-gradient-accumulation-fusion": {"gradient_accumulation_fusion": "off"},
    "--recompute-granularity full --recompute-method block --recompute-num-layers 2": {
        "recompute": "full", "recompute_layers": 2},
    "--recompute-granularity full --recompute-method uniform --recompute-num-layers 2": {"recompute": "full"},
    "--recompute-granularity selective": {"recompute": "selective"},
    "--softmax-type learnable": {"attention_sinks": "on"},
    "--group-query-attention": {"kv_heads": 1},
}  # fmt: skip


@pytest.mark.parametrize("more", FLAGS)
def test_every_field_of_a_script(more):
    assert import_text(f"{SCRIPT} {more}", "train.sh").fields == {**OF_SCRIPT, **FLAGS[more]}
