"""Small and odd models of every causal type of transformers, counted: `tests/data/hub_configs.json`.

Beside it, `hf_defaults.json` of the importers: what a class of configurations has where a file says nothing.

    pip install torch transformers        # those of the CPU are enough: no weight is made
    python tests/reference/hub_configs.py -o FOLDER

For each type of ``AutoModelForCausalLM`` a config.json whose sizes all differ, so that no two can be taken for one
another, and only its ``model_type``, where all is the class's own default. Each is made on the meta device, and the
numbers of its parameters are added up; the bias that balances a router is counted beside them, whether the program
keeps it as a parameter or not. Then every switch of the configuration is turned, one by one, and those that change the
total are cases of their own.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import logging
import warnings
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoModel, AutoModelForCausalLM, PreTrainedConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
)

from comp_comm.configs.importers.hf_families import FAMILIES
from comp_comm.configs.importers.hf_ignored import DROPOUTS, IGNORED, OFF, is_token

Keys = dict[str, Any]
# A size for each key that has it: hidden is 6 heads of 32, but where a head's dimension is a key it is another.
ODD: Keys = {
    **dict.fromkeys(("hidden_size", "n_embd", "d_model", "emb_dim", "embedding_dim"), 192),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads", "decoder_attention_heads",
                     "encoder_attention_heads", "attention_heads"), 6),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers", "decoder_layers", "encoder_layers"), 4),
    **dict.fromkeys(("intermediate_size", "n_inner", "ffn_dim", "decoder_ffn_dim", "encoder_ffn_dim",
                     "ffn_hidden_size"), 328),
    "num_key_value_heads": 3, "num_kv_heads": 3, "head_dim": 40, "vocab_size": 1013, "max_position_embeddings": 520,
    "n_positions": 520, "n_ctx": 520, "max_seq_len": 520, "sliding_window": 24, "kv_channels": 40,
    **dict.fromkeys(("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts"), 10),
    **dict.fromkeys(("num_experts_per_tok", "num_experts_per_token", "moe_k", "moe_topk", "moe_top_k"), 3),
    **dict.fromkeys(("moe_intermediate_size", "expert_ffn_hidden_size"), 72),
    **dict.fromkeys(("n_shared_experts", "num_shared_experts", "moe_num_shared_experts"), 2),
    "shared_expert_intermediate_size": 104, "moe_shared_expert_intermediate_size": 104,
    "shared_intermediate_size": 104, "first_k_dense_replace": 1, "intermediate_size_mlp": 360,
    "n_group": 2, "topk_group": 1, "num_expert_group": 2, "num_dense_layers": 1,
    "q_lora_rank": 56, "kv_lora_rank": 48, "qk_rope_head_dim": 20, "qk_nope_head_dim": 44, "v_head_dim": 36,
    "index_n_heads": 5, "index_head_dim": 28, "index_topk": 16,
    "linear_num_key_heads": 4, "linear_num_value_heads": 8, "linear_key_head_dim": 28, "linear_value_head_dim": 30,
    "linear_conv_kernel_dim": 3, "linear_num_heads": 7, "linear_head_dim": 26,
    "mamba_n_heads": 8, "mamba_d_head": 48, "mamba_d_state": 18, "mamba_n_groups": 2, "mamba_d_conv": 3,
    "mamba_num_heads": 9, "mamba_head_dim": 34, "ssm_state_size": 18, "n_groups": 3, "conv_kernel": 3,
    "state_size": 18, "mamba_dt_rank": 11, "time_step_rank": 11, "mamba_d_ssm": 384, "chunk_size": 32,
    "mamba_chunk_size": 32,
}  # fmt: skip
OWN: dict[str, Keys] = {
    "bamba": {"attn_layer_indices": [2]},
    "codegen": {"n_head": 8, "n_inner": 328},
    "dbrx": {"attn_config": {"kv_n_heads": 3, "rope_theta": 1e4},
             "ffn_config": {"ffn_hidden_size": 328, "moe_num_experts": 10, "moe_top_k": 3, "hidden_size": 192}},
    "diffllama": {"num_key_value_heads": 2},
    "dots1": {"n_routed_experts": 10, "n_shared_experts": 2},
    "gptj": {"n_inner": 328}, "helium": {"head_dim": 32}, "gpt2": {"n_inner": 328}, "gpt_bigcode": {"n_inner": 328},
    "phimoe": {"num_local_experts": 10}, "zaya": {"num_experts_per_tok": 1},
    "lfm2_moe": {"layer_types": ["conv", "full_attention", "conv", "full_attention"]},
    "llama4_text": {"interleave_moe_layer_step": 2},
    "dots3_note_text": {"num_key_value_heads": 6},
    "ernie4_5_moe": {"moe_layer_start_index": 1, "moe_layer_end_index": 3},
    "falcon_mamba": {"num_hidden_layers": 4}, "gpt_neo": {"attention_types": [[["global", "local"], 2]]},
    "jamba": {"attn_layer_period": 4, "attn_layer_offset": 2},
    "kimi_linear": {"num_hidden_layers": 5},
    "mamba2": {"num_heads": 8, "head_dim": 48, "n_groups": 2},
    "lara_mini": {"layer_types": ["linear_attention", "sliding_attention", "linear_attention", "full_attention"]},
    "mellum": {"layer_types": ["full_attention", "sliding_attention", "full_attention", "sliding_attention"]},
    "minimax": {"sliding_window": None}, "bailing_hybrid": {"n_group": 2, "topk_group": 1},
    "opt": {"word_embed_proj_dim": 192},
    "nemotron_h": {"layers_block_type": ["linear_attention", "moe", "full_attention", "mlp"]},
    "qwen2": {"use_sliding_window": True, "max_window_layers": 2},
    "zamba2": {"layers_block_type": ["mamba", "hybrid", "mamba", "hybrid"], "n_mamba_heads": 8, "mamba_ngroups": 2,
               "adapter_rank": 13, "num_mem_blocks": 1},
}  # fmt: skip
NO_FILE = {*PreTrainedConfig().to_dict(), "pad_token_id", "bos_token_id", "eos_token_id"} - {"tie_word_embeddings"}
# Text models of larger ones, without an output layer of their own.
TEXTS = ("qwen2_vl_text", "qwen2_5_vl_text", "qwen3_vl_text", "qwen3_vl_moe_text", "glm4v_text", "glm4v_moe_text",
         "glm_ocr_text", "hunyuan_vl_text", "mistral4", "granite_docling_text")  # fmt: skip
WORDS = ("hidden_act", "hidden_activation", "activation_function", "norm_type", "position_embedding_type")
GROUPS = ("n_group", "topk_group", "num_expert_group")  # a router's groups, where a family has them
# Modules of multi-token prediction, which transformers does not make: a file that has them says so.
UNSAID = {"num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_layers", "transformers_version"}
# Given an odd value where the class's default is null, too: elsewhere null says that the model has no such part.
EVEN_NULL = (
    "num_key_value_heads", "head_dim", "sliding_window", "num_experts_per_tok", "linear_num_key_heads",
    "linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim",
)  # fmt: skip
FACTS = ("num_experts_per_tok", "sliding_window", "layer_types")
BALANCING = ("e_score_correction_bias", "expert_bias", "moe_statics")


def defaults_of(kind: str) -> Keys:
    """Return what a class of configurations has where a file says nothing, before anything follows from it."""
    made: Keys = {}
    for each in dataclasses.fields(CONFIG_MAPPING[kind]):
        if each.default is not dataclasses.MISSING:
            made[each.name] = each.default
        elif each.default_factory is not dataclasses.MISSING:
            made[each.name] = each.default_factory()
    return made


def odd(kind: str) -> Keys:
    """Return the keys of an odd model of a type, those alone that its configuration has."""
    cls, known = CONFIG_MAPPING[kind], defaults_of(kind)
    if unknown := OWN.get(kind, {}).keys() - known.keys():
        raise KeyError(f"{kind}: {unknown}")
    changed = {getattr(cls, "attribute_map", {}).get(key, key): value for key, value in ODD.items() if key in known}
    kept = {key: value for key, value in changed.items() if known.get(key, 0) is not None or key in EVEN_NULL}
    return kept | OWN.get(kind, {})


def made(kind: str, keys: Keys) -> PreTrainedConfig:
    """Return a configuration of these keys; tokens of its own may lie beyond a small vocabulary."""
    cls, own = CONFIG_MAPPING[kind], json.loads(json.dumps(keys))
    if "vocab_size" in keys and "pad_token_id" in defaults_of(kind):
        own |= dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id"), 0)
    return cls(**own)


def counted(kind: str, keys: Keys) -> Keys:
    """Make a model without its weights; return its parameters, and what else an importer must have found."""
    config = made(kind, keys)
    text = config.get_text_config()
    with torch.device("meta"):
        if kind in TEXTS:
            model = AutoModel.from_config(config)
        else:
            model = AutoModelForCausalLM.from_config(text if type(text) in MODEL_FOR_CAUSAL_LM_MAPPING else config)
    tensors = {id(t): (name, t.numel()) for name, t in model.named_parameters() if "embed_tokens_extend" not in name}
    kept = {id(t): (name, t.numel()) for name, t in model.named_buffers()}
    balancing = sum(n for name, n in (tensors | kept).values() if any(b in name for b in BALANCING))
    of_parameters = sum(n for name, n in tensors.values() if not any(b in name for b in BALANCING))
    if kind in TEXTS and not getattr(config, "tie_word_embeddings", False):  # the output layer is of the larger model
        of_parameters += config.hidden_size * config.vocab_size
    made_by = [type(model).__name__]
    return {"architectures": made_by, "parameters": of_parameters, "balancing": balancing, **_facts(config)}


def _nested_top_k(config: PreTrainedConfig) -> int | None:
    return getattr(config, "moe_topk", None) or getattr(getattr(config, "ffn_config", None), "moe_top_k", None)


def _facts(config: PreTrainedConfig) -> Keys:
    """Return numbers that no total shows: of experts a token goes to, of a window, of layers over it and others."""
    found, text = {}, config.get_text_config()
    for name in FACTS:
        try:
            value = getattr(text, name, None) or (_nested_top_k(text) if name == FACTS[0] else None)
        except Exception as error:
            logging.info("%s: %r", name, error)
            continue
        if value is not None and not isinstance(value, bool):
            found[name] = value
    kinds = found.pop("layer_types", None)
    if isinstance(kinds, list) and "sliding_attention" in kinds:
        found["full"] = kinds.count("full_attention")
    else:
        found.pop("sliding_window", None)  # of no layer, or of all: the class does not say
    return found


def row_of(kind: str) -> Keys:
    """Return what is counted of a type: an odd model, that of all defaults, and odd ones with one switch turned."""
    keys = odd(kind)
    config = made(kind, keys)
    whole = {name: value for name, value in config.to_dict().items() if name not in NO_FILE}
    base = counted(kind, keys)
    row = {"model_type": kind, **base, "odd": keys, "rest": {n: v for n, v in whole.items() if n not in keys}}
    if "text_config" in whole:  # without one a file is that of no model
        return row | {"odd": {}, "rest": whole}
    try:
        row["defaults"] = {name: value for name, value in counted(kind, {}).items() if name != "architectures"}
    except Exception as error:
        logging.warning("%s, all defaults: %r", kind, str(error)[:100])
    row["turned"] = {}
    for name, value in defaults_of(kind).items():
        if not isinstance(value, bool) or name in NO_FILE:
            continue
        try:
            other = counted(kind, {**keys, name: not keys.get(name, value)})
        except Exception as error:
            logging.info("%s, %s: %r", kind, name, error)
            continue
        if other["parameters"] != base["parameters"]:
            row["turned"][name] = other["parameters"]
    return row


def class_defaults() -> str:
    """Return, a line a type, the defaults that a model's shapes depend on and a file may leave out."""
    lines = []
    for kind in sorted(CONFIG_MAPPING.keys() & FAMILIES.keys()):
        known = {
            name: value
            for name, value in sorted(defaults_of(kind).items())
            if (type(value) in (int, bool) or (isinstance(value, str) and name in WORDS))
            and name not in NO_FILE | UNSAID | {*DROPOUTS, *OFF}
            and (name in GROUPS or name not in IGNORED)
            and not is_token(name)
        }
        lines.append(f"{json.dumps(kind)}: {json.dumps(known)}")
    text = ",\n".join(lines)
    return f"{{\n{text}\n}}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("kinds", nargs="*")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    rows = []
    for kind in given.kinds or sorted((*MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, *TEXTS)):
        try:
            rows.append(row_of(kind))
        except Exception as error:
            logging.warning("%s: %s %s", kind, type(error).__name__, str(error).replace(chr(10), " ")[:300])
    text = ",\n".join(json.dumps(row, default=str) for row in rows)
    (given.output / "hf_defaults.json").write_text(class_defaults(), encoding="utf-8")
    (given.output / "hub_configs.json").write_text(f"[\n{text}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
