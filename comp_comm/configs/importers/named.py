"""Files of other tools that are not imported: what they are, and what of them can be used all the same."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

Signs = Callable[[Mapping[str, object]], bool]


class Tool(NamedTuple):
    """A tool whose files are told: its name, what tells them, and what helps."""

    name: str
    signs: Signs
    remedy: str


def _has(*keys: str) -> Signs:
    return lambda data: all(key in data for key in keys)


def _any(count: int, *keys: str) -> Signs:
    return lambda data: sum(key in data for key in keys) >= count


_LAYOUT = "the model it names is imported from its config.json, what is left given with --set"


def _of(data: Mapping[str, object], name: str) -> Mapping[str, object]:
    inner = data.get(name)
    return inner if isinstance(inner, dict) else {}


def _sections(*names: str) -> Signs:
    return lambda data: all(isinstance(data.get(name), dict) for name in names)


TOOLS = (
    Tool("a configuration of Levanter", lambda data: {"type", "num_layers"} <= _of(data, "model").keys(),
         "import the config.json of its model, and give the layout with --set"),
    Tool("a configuration of OLMo", lambda data: "max_sequence_length" in _of(data, "model"),
         "import the config.json of its model, and give the layout with --set"),
    Tool("overrides of a Megatron-Bridge recipe", lambda data: _sections("train", "optimizer")(data)
         and _any(1, "model", "ddp", "dataset", "checkpoint")(data),
         "the recipe itself is Python, which is not run: import the config.json of its model, and give its layout with "
         "--set (tp, pp, cp, ep, micro_batch, global_batch, seq_len)"),
    Tool("a configuration of LitGPT",
         _any(3, "model_name", "out_dir", "precision", "devices", "train", "tokenizer_dir"), _LAYOUT),
    Tool("a NeMo or Megatron-Bridge configuration with classes of Python",
         lambda data: any(isinstance(value, dict) and ("_target_" in value or "__fn_or_cls__" in value)
                          for value in data.values()) or "_target_" in data,
         "give its model and layout in a study"),
    Tool("a PyTorch Lightning or Hydra configuration of another model", _has("trainer", "model"),
         "only a model as Megatron-LM has it (num_layers, hidden_size) is read"),
    Tool("a model of Primus", lambda data: _any(1, "extends", "bases")(data) and _any(1, "num_layers", "hidden_size",
         "tokenizer_type", "model")(data), "import the experiment that uses it, with --model NAME of the catalogue"),
    Tool("a job of Kubernetes", _has("apiVersion", "kind"), "import the script that its command starts"),
    Tool("a workflow of continuous integration", _has("jobs", "on"), "import the script that it starts"),
    Tool("a trace of a profiler", _has("traceEvents"), "compcomm calibrate and compcomm project read it"),
    Tool("a tokenizer's file", _any(2, "added_tokens", "pre_tokenizer", "post_processor", "tokenizer_class"),
         "import the config.json beside it"),
    Tool("an index of weights", _has("weight_map"), "import the config.json beside it"),
)  # fmt: skip


# Programs that scripts start and whose arguments are not read: what tells them, and what helps.
PROGRAMS = (
    (
        re.compile(r"\bverl\.trainer\b|\bverl/trainer/"),
        "verl",
        "training by rewards is not modelled; of its finetuning, " + _LAYOUT,
    ),
    (re.compile(r"\bcolossalai\s+run\b"), "Colossal-AI", _LAYOUT),
    (
        re.compile(r"\bopenrlhf\.cli\b"),
        "OpenRLHF",
        "training by rewards is not modelled; of its finetuning, " + _LAYOUT,
    ),
    (re.compile(r"\bolmo_core\b|src/scripts/train/\w+\.py"), "OLMo-core", _LAYOUT),
)


def named_program(text: str) -> str:
    """Return a sentence on what a script starts that is not read, nothing where it is not told.

    >>> named_program("python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo").split(":")[0]
    'it starts verl, whose arguments are not read'
    """
    found = next(((name, remedy) for pattern, name, remedy in PROGRAMS if pattern.search(text)), None)
    return "" if found is None else f"it starts {found[0]}, whose arguments are not read: {found[1]}"


def named(data: Mapping[str, object]) -> str:
    """Return a sentence on whose file a mapping is, nothing where it is not told.

    >>> named({"traceEvents": []}).split(":")[0]
    'it is a trace of a profiler, which is not imported'
    """
    tool = next((tool for tool in TOOLS if tool.signs(data)), None)
    return "" if tool is None else f"it is {tool.name}, which is not imported: {tool.remedy}"
