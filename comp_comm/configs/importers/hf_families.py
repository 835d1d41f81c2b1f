"""Families of models with a Hugging Face config.json, by ``model_type``: what they have without saying so."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from comp_comm.configs.importers import hf_hybrid as hybrid
from comp_comm.configs.importers import hf_kin as kin
from comp_comm.configs.importers import hf_mamba as mamba
from comp_comm.configs.importers import hf_newer as newer
from comp_comm.configs.importers import hf_older as older
from comp_comm.configs.importers import hf_parts as parts
from comp_comm.configs.importers import hf_sparse as sparse
from comp_comm.configs.importers.hf_mpt import mpt
from comp_comm.configs.importers.imported import Findings, Keys

Part = Callable[[Keys, Findings], None]


@dataclass(frozen=True)
class Family:
    """What every model of a family has, the parts it is read by, and what keys are where a file leaves them out."""

    base: Mapping[str, object]
    parts: tuple[Part, ...] = ()
    defaults: Mapping[str, object] = field(default_factory=dict)
    tied: bool = False


_LLAMA = {"norm": "rmsnorm", "gated": "on", "bias": "off", "position": "rope"}
_GPT = {"norm": "layernorm", "gated": "off", "bias": "on", "position": "learned"}
_QK = {**_LLAMA, "qk_norm": "on"}
_MOE = (parts.biases, parts.window, parts.experts)
_DEEPSEEK = (parts.latent_attention, parts.experts, parts.deepseek_layers, parts.next_tokens)
_NO_HEADS = {"max_position_embeddings": 2048, "num_attention_heads": 1}  # of Mamba alone
_GEMMA = {"head_dim": 256, "max_position_embeddings": 8192}
_GEMMA_3 = {
    **_GEMMA, "num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 262208, "hidden_size": 2304,
    "max_position_embeddings": 131072, "sliding_window": 4096, "sliding_window_pattern": 6, "num_hidden_layers": 26,
    "intermediate_size": 9216,
}  # fmt: skip

FAMILIES: dict[str, Family] = {
    "llama": Family(_LLAMA, (parts.biases,), {"max_position_embeddings": 2048}),
    "mistral": Family(_LLAMA, (parts.window,)),
    "ministral": Family(_LLAMA, (parts.window,)),
    "mixtral": Family(_LLAMA, (parts.window, parts.experts)),
    "qwen2": Family({**_LLAMA, "bias": "qkv"}, (parts.window,)),
    "mimo": Family({**_LLAMA, "bias": "qkv"}, (parts.qkv_bias, parts.window, parts.next_tokens)),
    "qwen2_moe": Family({**_LLAMA, "bias": "qkv"},
                        (parts.qkv_bias, parts.window, parts.experts, parts.qwen_layers, older.shared_gate)),
    "qwen3": Family(_QK, (parts.biases, parts.window)),
    "qwen3_moe": Family(_QK, (*_MOE, parts.qwen_layers)),
    "deepseek": Family(_LLAMA, (parts.biases, parts.experts, parts.deepseek_layers)),
    "deepseek_v2": Family(_LLAMA, _DEEPSEEK),
    "deepseek_v3": Family(_LLAMA, (*_DEEPSEEK, parts.router_bias)),
    "kimi_k2": Family(_LLAMA, (*_DEEPSEEK, parts.router_bias)),
    "glm4_moe": Family(_LLAMA, (kin.floor_head_dim, parts.qkv_bias, older.optional_qk_norm, parts.experts,
                                parts.deepseek_layers, parts.next_tokens, parts.router_bias)),
    "gpt_oss": Family({**_LLAMA, "attention_sinks": "on", "router_bias": "on", "clamped_glu": "on"},
                      (older.gpt_oss_bias, parts.window, parts.experts), {"sliding_window_pattern": 2}),
    "gemma": Family(_LLAMA, (parts.biases,), _GEMMA, tied=True),
    "gemma2": Family({**_LLAMA, "norms": 4}, (parts.biases, parts.window), {**_GEMMA, "sliding_window_pattern": 2},
                     tied=True),
    "gemma3_text": Family({**_QK, "norms": 4}, (parts.biases, parts.window), _GEMMA_3, tied=True),
    "olmo2": Family({**_LLAMA, "qk_norm": "whole"}, (parts.biases,)),
    "granite": Family(_LLAMA, (parts.biases,), {"max_position_embeddings": 2048}),
    "phi3": Family(_LLAMA, (parts.window,)),
    "cohere": Family({**_LLAMA, "norm": "layernorm_no_bias", "norms": 1, "parallel_blocks": "on"},
                     (parts.biases, older.whole_qk_norm), tied=True),
    "nemotron": Family({**_LLAMA, "norm": "layernorm", "gated": "off"}, (parts.biases,)),
    "starcoder2": Family({**_GPT, "position": "rope"}, (parts.all_biases, parts.window, older.starcoder), tied=True),
    "stablelm": Family({**_LLAMA, "norm": "layernorm"}, (parts.qkv_bias, older.stablelm)),
    "phi": Family({**_GPT, "position": "rope", "norms": 1, "parallel_blocks": "on"},
                  (parts.output_bias, older.no_qk_norm)),
    "llama4_text": Family(_LLAMA, (parts.experts, older.llama4)),
    "dbrx": Family({**_LLAMA, "norm": "layernorm_no_bias"}, (older.dbrx,)),
    "gpt2": Family(_GPT, (older.gpt2,), tied=True),
    "gpt_bigcode": Family(_GPT, (older.gpt2, older.multi_query), tied=True),
    "gptj": Family({**_GPT, "position": "rope", "bias": "ffn", "norms": 1, "parallel_blocks": "on"},
                   (parts.output_bias,)),
    "gpt_neo": Family({**_GPT, "bias": "not_qkv"}, (older.gpt_neo,), tied=True),
    "gpt_neox": Family({**_GPT, "position": "rope"}, (older.gpt_neox,)),
    "opt": Family(_GPT, (parts.all_biases, older.opt), {"max_position_embeddings": 2048}, tied=True),
    "bloom": Family({**_GPT, "position": "none"}, (older.bloom,), {"seq_length": 2048}, tied=True),
    "falcon": Family(_GPT, (older.falcon,), {"max_position_embeddings": 2048}, tied=True),
    "mpt": Family(_GPT, (mpt,), tied=True),
    "bert": Family({**_GPT, "architecture": "encoder"}, (older.bert,), tied=True),
    "ernie": Family({**_GPT, "architecture": "encoder"}, (older.bert, kin.task_types), tied=True),
    "megatron-bert": Family({**_GPT, "architecture": "encoder"}, (older.bert,),
                            {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16,
                             "intermediate_size": 4096, "vocab_size": 29056, "max_position_embeddings": 512},
                            tied=True),
    "roberta": Family({**_GPT, "architecture": "encoder"}, (older.bert,), tied=True),
    "t5": Family({**_LLAMA, "gated": "off", "position": "none", "architecture": "encoder-decoder"}, (older.t5,),
                 {"n_positions": 512}, tied=True),
    "qwen3_next": Family(_QK, (kin.no_bias, parts.experts, hybrid.delta_net, hybrid.output_gate)),
    "qwen3_5_text": Family(_QK, (kin.no_bias, hybrid.delta_net, hybrid.output_gate)),
    "qwen3_5_moe_text": Family(_QK, (kin.no_bias, parts.experts, hybrid.delta_net, hybrid.output_gate),
                               {"shared_expert_intermediate_size": 512}),
    "olmo_hybrid": Family({**_LLAMA, "qk_norm": "whole"}, (kin.no_bias, kin.delta_sizes, hybrid.delta_net),
                          {"max_position_embeddings": 65536}),
    "kimi_linear": Family({**_LLAMA, "position": "none"}, (parts.latent_attention, parts.experts, hybrid.kimi_linear),
                          {"max_position_embeddings": 1048576}),
    "nemotron_h": Family({**_LLAMA, "gated": "off", "position": "none", "router_bias": "off"},
                         (parts.experts, hybrid.nemotron_h), {"max_position_embeddings": 4096}),
    "bamba": Family(_LLAMA, (mamba.bamba,), {"max_position_embeddings": 262144}),
    "granitemoehybrid": Family(_LLAMA, (parts.experts, mamba.bamba), {"max_position_embeddings": 2048}),
    "falcon_h1": Family(_LLAMA, (mamba.falcon_h1,), {"max_position_embeddings": 8192}),
    "zamba": Family(_LLAMA, (mamba.zamba,), {"max_position_embeddings": 4096}, tied=True),
    "zamba2": Family(_LLAMA, (mamba.zamba2,), {"max_position_embeddings": 4096}, tied=True),
    "bailing_hybrid": Family(_LLAMA, (parts.latent_attention, parts.experts, hybrid.bailing_hybrid),
                             {"max_position_embeddings": 262144}),
    "jamba": Family(_LLAMA, (parts.experts, mamba.jamba), {"max_position_embeddings": 262144}),
    "mamba": Family({**_LLAMA, "gated": "off"}, (mamba.mamba,), _NO_HEADS, tied=True),
    "falcon_mamba": Family({**_LLAMA, "gated": "off"}, (mamba.mamba,), _NO_HEADS, tied=True),
    "mamba2": Family({**_LLAMA, "gated": "off"}, (mamba.mamba,), {"max_position_embeddings": 2048}),
    "minimax": Family(_LLAMA, (parts.experts, hybrid.minimax), {"max_position_embeddings": 131072}),
    "minimax_m2": Family({**_LLAMA, "qk_norm": "whole"}, (parts.biases, parts.experts, hybrid.minimax_m2),
                         {"max_position_embeddings": 196608}),
    "deepseek_v32": Family(_LLAMA, (*_DEEPSEEK, parts.router_bias, sparse.indexer)),
    "glm_moe_dsa": Family(_LLAMA, (*_DEEPSEEK, parts.router_bias, sparse.indexer),
                          {"max_position_embeddings": 202752}),
    "smollm3": Family(_LLAMA, (parts.biases, parts.window, newer.no_rope), {"max_position_embeddings": 32768},
                      tied=True),
    "seed_oss": Family(_LLAMA, (newer.seed_biases,), {"max_position_embeddings": 524288}),
    "olmo3": Family({**_LLAMA, "qk_norm": "whole"}, (parts.biases, parts.window),
                    {"sliding_window": 4096, "sliding_window_pattern": 4}),
    "exaone4": Family({**_QK, "bias": "off"}, (newer.exaone, parts.window)),
    "dots1": Family(_QK, (*_MOE, parts.deepseek_layers, parts.router_bias)),
    "glm4_moe_lite": Family(_LLAMA, (parts.latent_attention, parts.experts, parts.next_tokens, kin.sparse_after(1),
                                     parts.router_bias),
                            {"max_position_embeddings": 202752}),
    "solar_open": Family(_LLAMA, (parts.qkv_bias, parts.experts, parts.deepseek_layers, older.optional_qk_norm,
                                  parts.router_bias)),
    "glm4": Family({**_LLAMA, "norms": 4}, (parts.qkv_bias,)),
    "apertus": Family({**_QK, "gated": "off"}, (parts.biases, newer.apertus)),
    "bailing_moe_v2": Family(_LLAMA, (parts.qkv_bias, older.optional_qk_norm, parts.experts, parts.deepseek_layers,
                                      parts.next_tokens, newer.bailing),
                             {"use_qk_norm": True, "max_position_embeddings": 32768}),
    "ernie4_5": Family(_LLAMA, (newer.ernie,), tied=True),
    "ernie4_5_moe": Family(_LLAMA, (kin.no_bias, parts.experts, newer.ernie_experts), tied=True),
    "afmoe": Family({**_QK, "norms": 4, "attention_gate": "on"},
                    (kin.no_bias, kin.full_each(4, 3), parts.window, parts.experts, kin.sparse_after(1), kin.balanced,
                     kin.afmoe)),
    "apertus1p5_text": Family({**_QK, "gated": "off"}, (parts.biases, newer.apertus)),
    "arcee": Family({**_LLAMA, "gated": "off"}, (parts.biases,)),
    "aria_text": Family(_LLAMA, (kin.no_bias, parts.experts)),
    "axk1": Family(_LLAMA, (parts.latent_attention, parts.experts, kin.sparse_after(1), parts.router_bias,
                            kin.expert_norms)),
    "beam": Family({**_QK, "norms": 4, "attention_gate": "on"},
                   (kin.no_bias, kin.full_each(6, 5, (-1,)), parts.window, parts.experts, kin.sparse_after(3),
                    kin.balanced, kin.gate_bias)),
    "bitnet": Family(_LLAMA, (parts.biases, kin.sub_norms)),
    "cohere2": Family({**_LLAMA, "norm": "layernorm_no_bias", "norms": 1, "parallel_blocks": "on"},
                      (parts.biases, kin.full_each(4, 3), parts.window, kin.cohere), tied=True),
    "cwm": Family(_LLAMA, (parts.biases, kin.full_each(4), parts.window)),
    "exaone": Family(_LLAMA, (parts.biases,)),
    "exaone_moe": Family({**_QK, "bias": "off"},
                         (newer.exaone, parts.window, parts.experts, kin.sparse_after(1),
                          kin.balanced, parts.next_tokens)),
    "flex_olmo": Family({**_LLAMA, "qk_norm": "whole"}, (parts.biases, parts.experts)),
    "flint": Family({**_QK, "attention_sinks": "on"},
                    (parts.biases, kin.full_each(4, 1, (0, -1)), parts.window, parts.experts, parts.qwen_layers),
                    {"mlp_only_layers": [0, 1]}),
    "glm": Family(_LLAMA, (parts.qkv_bias,)),
    "granite_swa": Family({**_LLAMA, "attention_sinks": "on"},
                          (parts.biases, kin.full_each(4), parts.window, kin.combined)),
    "granitemoe": Family(_LLAMA, (parts.biases, parts.experts)),
    "granitemoeshared": Family(_LLAMA, (parts.biases, parts.experts, kin.one_shared("shared_intermediate_size"))),
    "granitemoe_swa": Family({**_LLAMA, "attention_sinks": "on"},
                             (parts.biases, kin.full_each(4), parts.window, kin.combined, parts.experts,
                              kin.one_shared("shared_intermediate_size"))),
    "helium": Family(_LLAMA, (parts.qkv_bias, kin.square_output)),
    "hunyuan_v1_dense": Family(_QK, (parts.biases,)),
    "hunyuan_v1_moe": Family(_QK, (parts.biases, kin.hunyuan_experts)),
    "hy_v3": Family(_QK, (parts.biases, parts.experts, kin.sparse_after(1), kin.balanced, kin.combined)),
    "hyperclovax": Family(_LLAMA, (parts.biases, kin.post_norms)),
    "internlm3": Family(_LLAMA, (parts.biases,)),
    "iquestcoder": Family(_LLAMA, (parts.biases,)),
    "jais2": Family({**_GPT, "position": "rope"}, (parts.biases,)),
    "kolibri1": Family({**_QK, "norms": 4}, (parts.biases, kin.full_each(5, 4), parts.window, parts.experts,
                                             kin.balanced)),
    "lara_mini": Family(_QK, (kin.needs_types, kin.no_bias, parts.experts, hybrid.delta_net, kin.without_gate)),
    "laguna": Family(_QK, (kin.no_bias, kin.full_unless_listed, parts.window, parts.experts, kin.sparse_after(1),
                           kin.balanced, kin.laguna)),
    "mellum": Family(_QK, (parts.biases, kin.full_unless_listed, parts.window, parts.experts, kin.sparse_after(0),
                           parts.next_tokens)),
    "minicpm3": Family(_LLAMA, (kin.narrow_values, parts.latent_attention), tied=True),
    "ministral3": Family(_LLAMA, (parts.window,)),
    "olmo": Family({**_LLAMA, "norm": "layernorm_no_weights"}, (parts.biases,)),
    "olmoe": Family({**_LLAMA, "qk_norm": "whole"}, (parts.biases, parts.experts)),
    "persimmon": Family({**_GPT, "position": "rope"}, (kin.biased_head_norms,)),
    "phi4_multimodal": Family(_LLAMA, (parts.window, kin.text_only)),
    "phimoe": Family({**_LLAMA, "norm": "layernorm"}, (parts.window, parts.experts, kin.head_bias)),
    "vaultgemma": Family(_LLAMA, (parts.biases, kin.full_each(2, 1), parts.window), tied=True),
    "youtu": Family(_LLAMA, (parts.latent_attention,), tied=True),
    "sarvam_moe": Family(_LLAMA, (parts.qkv_bias, older.optional_qk_norm, parts.experts, parts.deepseek_layers,
                                  kin.balanced, parts.next_tokens)),
    "sarvam_mla": Family(_LLAMA, (parts.latent_attention, parts.experts, parts.deepseek_layers, kin.balanced,
                                  parts.next_tokens)),
    "xglm": Family({**_GPT, "position": "none"}, tied=True),
    "biogpt": Family(_GPT, (kin.offset_positions,), tied=True),
    "glm4v_text": Family({**_LLAMA, "norms": 4, "bias": "qkv"}),
    "glm_ocr_text": Family({**_LLAMA, "norms": 4}),
    "glm4v_moe_text": Family(_LLAMA, (kin.floor_head_dim, parts.qkv_bias, parts.experts, parts.deepseek_layers,
                                      parts.router_bias)),
    "mistral4": Family(_LLAMA, (parts.latent_attention, parts.experts, parts.deepseek_layers)),
    "mt5": Family({**_LLAMA, "gated": "off", "position": "none", "architecture": "encoder-decoder"}, (older.t5,),
                  {"n_positions": 1024}),
    "vit": Family({**_GPT, "architecture": "vit"}, (older.vit,)),
}  # fmt: skip
# Other names of the same.
for _other, _known in {
    "llama4": "llama4_text", "gemma3": "gemma3_text", "mistral3": "mistral", "RefinedWeb": "falcon",
    "RefinedWebModel": "falcon", "xlm-roberta": "roberta", "Yi": "llama", "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text", "minimax_text_01": "minimax", "MiniMaxText01": "minimax",
    "minimax_m1": "minimax", "MiniMaxM1": "minimax", "kimi_k25": "deepseek_v3", "qwen3_vl_text": "qwen3",
    "qwen2_vl_text": "qwen2", "qwen2_5_vl_text": "qwen2", "granite_docling_text": "granite",
    "hunyuan_vl_text": "hunyuan_v1_dense",
    "qwen3_vl_moe_text": "qwen3_moe", "codegen": "gptj", "gpt-sw3": "gpt2", "camembert": "roberta",
    "data2vec-text": "roberta", "emu3_text_model": "llama",
}.items():  # fmt: skip
    FAMILIES[_other] = FAMILIES[_known]
