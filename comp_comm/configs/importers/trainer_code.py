"""TrainingArguments (or TRL's SFTConfig) that a Python program makes: read as text, never run."""

from __future__ import annotations

import re
from typing import Any

from comp_comm.configs.importers.imported import Findings, Given, Imported
from comp_comm.configs.importers.python_code import Code
from comp_comm.configs.importers.python_values import Made, NotLiteral, Reference
from comp_comm.configs.importers.trainer import import_trainer
from comp_comm.configs.importers.trainer_keys import BEGINNINGS, IGNORED
from comp_comm.configs.importers.trainer_script import FIELDS
from comp_comm.configs.strict_yaml import Document, Path
from comp_comm.records import Record

MAKERS = ("TrainingArguments", "Seq2SeqTrainingArguments", "SFTConfig")
QUANTISED = ("load_in_4bit", "load_in_8bit")
OTHERS = ("DPOConfig", "GRPOConfig", "PPOConfig", "KTOConfig", "ORPOConfig", "RewardConfig", "RLOOConfig", "GKDConfig")


def is_trainer(made: Made) -> bool:
    """Return whether an object is the arguments of a Trainer."""
    return made.last in MAKERS or made.last in OTHERS


def import_trainer_code(code: Code, name: str, made: Made, file: str, given: Given, model: str) -> Imported:
    """Return the study that arguments of a Trainer in Python mean. Raises ``ConfigError``."""
    f = Findings(Document({}, file), given)
    if made.last in OTHERS:
        f.wrong((), f"{made.last} (line {made.line}) trains on preferences, rewards or another model's answers: only "
                "training on text is modelled")  # fmt: skip
        f.problems.raise_if_any()
    data: Record = {}
    lines: dict[Path, int] = {}
    told = []
    for key, value in made.values.items():
        plain = _plain(value)
        if not isinstance(plain, NotLiteral):
            data[key] = plain
            lines[(key,)] = made.lines.get(key, made.line)
        elif key not in IGNORED and not key.startswith(BEGINNINGS) and FIELDS.get(key) not in given:
            if key in FIELDS:
                f.wrong((), f"{key} = {plain.text} (line {made.lines.get(key, made.line)}) is not a literal, and "
                        f"Python is not run; give --set {FIELDS[key]}=...")  # fmt: skip
            else:
                told.append(key)
    if told:
        f.note(f"not literal, and left out: {', '.join(told)}")
    f.problems.raise_if_any()
    source = _model(code)
    if source:
        data["model_name_or_path"] = source
    data = {**_beside(code), **data}
    if made.last == "SFTConfig":
        data.setdefault("packing", False)
    imported = import_trainer(Document(data, file, lines), given, model)
    return Imported(imported.kind, imported.name, imported.title, imported.source, imported.fields,
                    (*imported.notes, *f.notes), model=imported.model)  # fmt: skip


def _plain(value: Any) -> Any:
    if isinstance(value, Reference):
        return value.last if value.name.startswith("torch.") else NotLiteral(value.name)
    if isinstance(value, Made):
        return NotLiteral(f"{value.name}()")
    return value


def _model(code: Code) -> str:
    """Return the checkpoint that the program loads, nothing where it is not literal."""
    for made in code.made:
        named = [made.values.get(key) for key in ("model_name", "pretrained_model_name_or_path")]
        held = next((each for each in (*made.args, *named) if isinstance(each, str)), "")
        if _loads(made) and held:
            return held
    for made in code.made:
        model = made.values.get("model", made.args[0] if made.args else None)
        if made.last in ("SFTTrainer", "Trainer") and isinstance(model, str):
            return model
    return ""


def _loads(made: Made) -> bool:
    """Return whether an object is a model that is loaded: not a tokenizer, nor a configuration."""
    return made.last in ("from_pretrained", "from_config") and re.search(r"Model|LM", made.name) is not None


def _beside(code: Code) -> Record:
    """Return what other objects of the program say: adapters, quantised weights, how attention is computed."""
    found: Record = {}
    for made in code.made:
        if made.last in ("LoraConfig", "get_peft_model"):
            found |= _adapters(made)
        if made.last == "BitsAndBytesConfig":
            found |= {key: True for key in QUANTISED if made.values.get(key) is True}
        if _loads(made):
            found |= {key: True for key in QUANTISED if made.values.get(key) is True}
            found |= {"vision_model": made.name} if "Vision" in made.name else {}
            found |= {"use_unsloth": True} if re.match(r"Fast\w*Model", made.name) else {}
            way, length = made.values.get("attn_implementation"), made.values.get("max_seq_length")
            dtype = _plain(made.values.get("torch_dtype", made.values.get("dtype")))
            found |= {"attn_implementation": way} if isinstance(way, str) else {}
            found |= {"torch_dtype": dtype} if isinstance(dtype, str) else {}
            found |= {"max_seq_length": length} if isinstance(length, int) else {}
    return found


def _adapters(made: Made) -> Record:
    """Return the rank and the layers of adapters, of PEFT's configuration or of Unsloth's function."""
    given = (("lora_r", made.values.get("r")), ("lora_target_modules", made.values.get("target_modules")))
    found = {key: value for key, value in given if isinstance(value, (int, str, list))}
    return {"use_peft": True, **found} if found or made.last == "LoraConfig" else {}
