"""Adapters (LoRA) and the model they are for, as finetuning tools name them."""

from __future__ import annotations

import re
from functools import cache

from comp_comm.configs import catalogue
from comp_comm.configs.importers.imported import Findings, Keys, shown
from comp_comm.configs.model_names import aliases, catalogue_name
from comp_comm.errors import one_of
from comp_comm.records import Record

# What tools call the linear layers of attention and of a dense network, by the names of lora_targets.
LAYERS = {
    **{name: (name,) for name in ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")},
    "output_proj": ("o_proj",), "out_proj": ("o_proj",), "dense": ("o_proj",),
    "qkv_proj": ("qkv_proj",), "Wqkv": ("qkv_proj",), "query_key_value": ("qkv_proj",), "linear_qkv": ("qkv_proj",),
    "attention_qkv": ("qkv_proj",), "linear_proj": ("o_proj",), "attention_dense": ("o_proj",),
    "linear_fc1": ("gate_up_proj",), "mlp_fc1": ("gate_up_proj",), "gate_up_proj": ("gate_up_proj",),
    "linear_fc2": ("down_proj",), "mlp_fc2": ("down_proj",), "dense_4h_to_h": ("down_proj",), "fc2": ("down_proj",),
    "dense_h_to_4h": ("up_proj",), "fc1": ("up_proj",),
    "attention": ("qkv_proj", "o_proj"), "mlp": ("gate_up_proj", "down_proj"),
    "linear_q": ("q_proj",), "linear_k": ("k_proj",), "linear_v": ("v_proj",),
    "linear_fc1_gate": ("gate_proj",), "linear_fc1_up": ("up_proj",),
}  # fmt: skip
ALL = ("all", "all-linear", "all_linear")
# Endings of a model's name that change no size of it.
ENDINGS = re.compile(
    r"[-_](?:instruct|chat|thinking|hf|base|it|pt|unsloth|bnb-4bit|instruct-v\d.*|v\d\.\d|2507|0324|0528)$", re.I
)
# Models that were trained on another one's answers are of the sizes of what they were made of (DeepSeek-R1's card).
DISTILLED = {
    "deepseekr1distillqwen7b": "qwen2.5-7b", "deepseekr1distillqwen14b": "qwen2.5-14b",
    "deepseekr1distillqwen32b": "qwen2.5-32b", "deepseekr1distillllama8b": "llama-3.1-8b",
    "deepseekr1distillllama70b": "llama-3.3-70b",
}  # fmt: skip


def set_megatron_lora(values: Record, f: Findings) -> None:
    """Set the adapters of a LoRA of NeMo or Megatron-Bridge, with the rank and the layers that it has by default."""
    rank = values.get("dim", 32)
    f.set("lora_rank", rank if isinstance(rank, int) else 32)
    targets = values.get("target_modules", ["linear_qkv", "linear_proj", "linear_fc1", "linear_fc2"])
    set_adapters(Keys(f, {"target_modules": targets}), f, (), ("target_modules",))


def set_adapters(keys: Keys, f: Findings, rank: tuple[str, ...], targets: tuple[str, ...]) -> None:
    """Set adapters from the keys of their rank and of the layers that have them: a list, a word, or words with commas.

    A matrix that is two (fc1 of a gated network) has one adapter; where the network is not gated it is the one up.
    """
    raw = keys.take(*targets)
    keys.set("lora_rank", *rank)
    if raw is None:
        return
    words = [word.strip() for word in raw.split(",")] if isinstance(raw, str) else raw
    if not isinstance(words, list) or not words:
        keys.wrong(targets, f"{shown(raw)} is not understood; a list of layers, or all")
        return
    if any(str(word) in ALL for word in words):
        f.set("lora_targets", "all", keys.place(*targets))
        return
    strange = [str(word) for word in words if str(word) not in LAYERS]
    if strange:
        keys.wrong(targets, f"adapters of {', '.join(strange[:4])} are not modelled ({one_of(sorted(LAYERS), 99)})")
        return
    parts = dict.fromkeys(part for word in words for part in LAYERS[str(word)])
    f.set("lora_targets", "+".join(parts), keys.place(*targets))


def model_of(reference: str) -> str | None:
    """Return the catalogue's name of a model that a tool names, whoever publishes it and for whatever use it is.

    >>> model_of("NousResearch/Meta-Llama-3.1-8B"), model_of("llama3_1_8b"), model_of("Qwen/Qwen2.5-7B-Instruct")
    ('llama-3.1-8b', 'llama-3.1-8b', 'qwen2.5-7b')
    """
    known = catalogue_name(reference)
    name = reference.rsplit("/", 1)[-1]
    while known is None:
        known = _by_letters().get(_letters(name))
        shorter = ENDINGS.sub("", name)
        if shorter == name:
            break
        name = shorter
    return known


@cache
def _by_letters() -> dict[str, str]:
    """Return the catalogue's names by the letters and numbers of each, and of its aliases."""
    names = {**DISTILLED}
    names |= {_letters(alias.rsplit("/", 1)[-1]): name for alias, name in aliases().items()}
    return {**names, **{_letters(name): name for name in catalogue.names("model")}}


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower().removeprefix("meta-"))
