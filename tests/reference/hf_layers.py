"""What a layer of transformers' own classes keeps for its backward pass: `tests/data/hf_layers.json`.

    pip install torch transformers peft      # those of the CPU are enough; two minutes
    python tests/reference/hf_layers.py -o FOLDER

A small config.json for each kind of layer, whose sizes all differ; models of two and three layers are made of it in 16
bits, and the bytes that autograd keeps of a forward pass are the one's less the other's. ``fields`` are compcomm's
words for how the class computes; ``beside`` is what no word is for. Nothing is dropped: dropout on a CPU has kernels of
its own, and so has attention whose keys and values are not as long, or that drops.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import torch
import transformers
from hub_configs import made
from meters import Kept
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

Keys = dict[str, Any]
TOKENS = 512
BASE: Keys = {"hidden_size": 512, "num_attention_heads": 8, "num_key_value_heads": 2, "intermediate_size": 1408,
              "vocab_size": 512, "max_position_embeddings": 2048}  # fmt: skip
WIDE = {**BASE, "head_dim": 80}
GPT2: Keys = {"n_embd": 512, "n_head": 8, "n_inner": 1408, "vocab_size": 512, "n_positions": 2048, "resid_pdrop": 0.0,
              "attn_pdrop": 0.0, "embd_pdrop": 0.0}  # fmt: skip
MOE: Keys = {"num_experts_per_tok": 3, "moe_intermediate_size": 352}
MIXTRAL = {**WIDE, **MOE, "num_local_experts": 8, "intermediate_size": 352}
QWEN_MOE = {**BASE, "head_dim": 64, **MOE, "num_experts": 8}
LATENT: Keys = {**BASE, "num_key_value_heads": 8, "q_lora_rank": 192, "kv_lora_rank": 128, "qk_rope_head_dim": 32,
                "qk_nope_head_dim": 64, "v_head_dim": 96, "n_group": 1, "topk_group": 1, "n_shared_experts": 2,
                "n_routed_experts": 8, **MOE, "first_k_dense_replace": 0}  # fmt: skip
OPT: Keys = {"hidden_size": 512, "word_embed_proj_dim": 512, "num_attention_heads": 8, "ffn_dim": 1408,
             "vocab_size": 512, "max_position_embeddings": 2048, "dropout": 0.0}  # fmt: skip
EVERYTHING: Keys = {"layer_types": ["full_attention"]}
# Words of classes: norms written out, with weights applied in 16 bit or 32; scores that are a matrix.
WRITTEN, IN_32 = {"norm_kernel": "eager"}, {"norm_kernel": "eager_fp32"}
SCORES = {"attention_kernel": "unfused", "softmax_precision": "fp32"}
LATENTS = {**WRITTEN, "qkv_kept": "whole"}
ROUTED = {"router_precision": "fp32"}
CASES: list[tuple[str, Keys, str, Keys]] = [
    ("llama", BASE, "sdpa", WRITTEN),
    ("llama", BASE, "eager", {**WRITTEN, **SCORES}),
    ("llama", {**BASE, "attention_bias": True, "mlp_bias": True}, "sdpa", WRITTEN),
    ("mistral", {**WIDE, "sliding_window": None}, "sdpa", WRITTEN),
    ("mistral", {**WIDE, "sliding_window": 200}, "sdpa", {**WRITTEN, "qkv_kept": "masked"}),
    ("qwen2", BASE, "eager", {**WRITTEN, **SCORES}),
    ("qwen3", WIDE, "sdpa", WRITTEN),
    ("qwen3", WIDE, "eager", {**WRITTEN, **SCORES}),
    ("qwen3_moe", QWEN_MOE, "sdpa", WRITTEN),
    ("mixtral", MIXTRAL, "sdpa", WRITTEN),
    ("olmoe", {**MIXTRAL, "num_experts": 8}, "sdpa", WRITTEN),
    ("granitemoe", MIXTRAL, "sdpa", WRITTEN),
    ("deepseek_v2", LATENT, "sdpa", {**LATENTS, **ROUTED}),
    ("deepseek_v2", {**LATENT, "q_lora_rank": None}, "sdpa", {**LATENTS, **ROUTED}),
    ("deepseek_v3", LATENT, "sdpa", {**LATENTS, **ROUTED}),
    ("deepseek_v3", {**LATENT, "first_k_dense_replace": 9}, "sdpa", LATENTS),
    ("glm4_moe", {**WIDE, **LATENT, "head_dim": 80, "num_key_value_heads": 2}, "sdpa",
     {**WRITTEN, **ROUTED, "qkv_kept": "joined"}),
    ("dots1", {**WIDE, **LATENT, **EVERYTHING, "head_dim": 80, "num_key_value_heads": 2}, "sdpa",
     {**WRITTEN, **ROUTED}),
    ("gpt_oss", {**MIXTRAL, **EVERYTHING}, "eager", {**IN_32, "attention_kernel": "unfused"}),
    ("gemma", WIDE, "sdpa", IN_32),
    ("gemma3_text", {**WIDE, **EVERYTHING}, "sdpa", IN_32),
    ("gemma2", {**WIDE, **EVERYTHING, "attn_logit_softcapping": None}, "eager", {**IN_32, **SCORES}),
    ("olmo", BASE, "sdpa", IN_32),
    ("olmo2", BASE, "eager", {**IN_32, **SCORES}),
    ("cohere", BASE, "sdpa", WRITTEN),
    ("cohere2", {**BASE, **EVERYTHING}, "sdpa", WRITTEN),
    ("phi3", BASE, "sdpa", {**WRITTEN, "qkv_kept": "whole"}),
    ("phi", BASE, "sdpa", {"qkv_kept": "joined"}),
    ("stablelm", BASE, "sdpa", {"qkv_kept": "joined"}),
    ("glm4", WIDE, "sdpa", {**WRITTEN, "qkv_kept": "joined"}),
    ("starcoder2", BASE, "sdpa", {}),
    ("arcee", WIDE, "sdpa", WRITTEN),
    ("exaone4", {**WIDE, **EVERYTHING, "sliding_window": 200}, "sdpa", WRITTEN),
    ("smollm3", {**BASE, "no_rope_layers": [1]}, "sdpa", WRITTEN),
    ("gpt2", GPT2, "sdpa", {}),
    ("gpt2", GPT2, "eager", {"attention_kernel": "unfused"}),
    ("gpt_neox", BASE, "sdpa", {"qkv_kept": "whole"}),
    ("gpt_neox", {**BASE, "use_parallel_residual": False}, "eager", {**SCORES, "qkv_kept": "product"}),
    ("opt", OPT, "eager", SCORES),
    ("bloom", {"hidden_size": 512, "n_head": 8, "vocab_size": 512}, "eager", SCORES),
    ("mpt", {"d_model": 512, "n_heads": 8, "vocab_size": 512, "expansion_ratio": 4}, "eager", SCORES),
    *((kind, {**keys, "lora": targets}, "sdpa", words)
      for kind, keys, words in (("llama", BASE, WRITTEN), ("qwen3", WIDE, WRITTEN), ("gemma", WIDE, IN_32))
      for targets in ("q_proj+v_proj", "q_proj+k_proj+v_proj+o_proj", "gate_proj+up_proj+down_proj",
                      "q_proj+k_proj+v_proj+o_proj+gate_proj+up_proj+down_proj")),
]  # fmt: skip
LAYERS = ("num_hidden_layers", "n_layer", "n_layers")
OF_LAYERS = ("layer_types", "no_rope_layers")
RANK = 24


def with_layers(kind: str, keys: Keys, layers: int) -> Keys:
    """Return the keys of a configuration with so many layers, all of one kind; those alone that its class has."""
    known = transformers.AutoConfig.for_model(kind)
    own = {name: value * layers if name in OF_LAYERS else value for name, value in keys.items() if hasattr(known, name)}
    return own | {next(name for name in LAYERS if hasattr(known, name)): layers}


def kept(kind: str, keys: Keys, layers: int, attention: str, adapted: str | None) -> tuple[int, Keys]:
    """Return the bytes that a model keeps of a forward pass without loss, and its config.json."""
    config = made(kind, with_layers(kind, keys, layers))
    config._attn_implementation = attention
    if "num_experts_per_tok" in keys and kind not in ("llama", "qwen3"):
        config._experts_implementation = "grouped_mm"
    model = AutoModelForCausalLM.from_config(config)
    if adapted:
        model = get_peft_model(model, LoraConfig(r=RANK, target_modules=adapted.split("+"), lora_dropout=0.0))
    model = model.to(torch.bfloat16).train()
    tokens = torch.zeros(1, TOKENS, dtype=torch.long)
    found = Kept([*model.parameters(), *model.buffers(), tokens])
    with found:
        logits = model(input_ids=tokens, use_cache=False).logits
    del logits
    return found.bytes, config.to_dict()


def row(kind: str, keys: Keys, attention: str, words: Keys) -> Keys:
    """Return what a layer keeps."""
    keys = dict(keys)
    adapted = keys.pop("lora", None)
    (fewer, _), (more, config) = (kept(kind, keys, layers, attention, adapted) for layers in (2, 3))
    own = {name: config[name] for name in with_layers(kind, keys, 3) if name in config}
    fields = {**words, **({"lora_rank": RANK, "lora_targets": adapted} if adapted else {})}
    return {"model_type": kind, "config": own, "attention": attention, "fields": fields, "kept_layer": more - fewer}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    torch.manual_seed(0)
    rows = ",\n".join(json.dumps(row(*case)) for case in CASES)
    (given.output / "hf_layers.json").write_text(f"[\n{rows}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
