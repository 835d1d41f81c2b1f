"""A script that starts a program on Hugging Face's Trainer: its arguments, and what launches it."""

from __future__ import annotations

from dataclasses import replace

from comp_comm.configs.importers import finetuning
from comp_comm.configs.importers.arguments import left_open, lines_of, parse_arguments
from comp_comm.configs.importers.devices import devices_of
from comp_comm.configs.importers.imported import NOTHING, Findings, Given, Imported
from comp_comm.configs.importers.launch import Sought, find_launch
from comp_comm.configs.importers.shell_scope import UNDECIDED, names_in, readable
from comp_comm.configs.importers.trainer import LENGTHS, NAMES, SOUGHT, import_trainer
from comp_comm.configs.importers.trainer_keys import BEGINNINGS, IGNORED, MATTERS
from comp_comm.configs.strict_yaml import Document, Path
from comp_comm.errors import Problem
from comp_comm.records import Record

# Fields that a user can give where a script leaves an argument to its caller.
FIELDS = {"per_device_train_batch_size": "micro_batch", "gradient_accumulation_steps": "accumulation",
          "deepspeed": "zero", "fsdp": "zero", "zero_stage": "zero", "deepspeed_config": "zero",
          "lora_r": "lora_rank", "lora_rank": "lora_rank", "bf16": "precision",
          "gradient_checkpointing": "recompute", **dict.fromkeys(LENGTHS, "seq_len")}  # fmt: skip
SWITCHES = ("bf16", "fp16", "gradient_checkpointing")


def import_script(text: str, file: str, given: Given = NOTHING, model: str = "", sought: Sought = SOUGHT) -> Imported:
    """Return the study that the command of a script describes. Raises ``ConfigError``.

    >>> script = ("torchrun --nproc_per_node 8 train.py --model_name_or_path meta-llama/Llama-2-7b-hf --bf16 True "
    ...     "--per_device_train_batch_size 2 --gradient_accumulation_steps 4 --model_max_length 2048 --data_path x")
    >>> found = import_script(script, "train.sh")
    >>> found.model, found.fields["gpus"], found.fields["micro_batch"], found.fields["seq_len"]
    ('llama-2-7b', 8, 2, 2048)
    """
    launch = find_launch(text, file, sought)
    flags, _ = parse_arguments(launch.arguments)
    data: Record = {flag.lstrip("-").replace("-", "_"): value for flag, value in flags.items()}
    lines: dict[Path, int] = {(flag.lstrip("-").replace("-", "_"),): line for flag, line in lines_of(text).items()}
    f = Findings(Document({}, file, lines), given)
    for line, message in launch.problems:
        f.problems.add(Problem(message, file=file, line=line))
    left_open(launch.arguments, f)
    kept = _resolved(data, f, model)
    f.problems.raise_if_any()
    if finetuning.fits_factory(kept):
        imported = finetuning.import_factory(Document(kept, file, lines), given, model)
        number = devices_of(launch).number
        if number is not None and "gpus" not in given:
            imported = replace(imported, fields={**imported.fields, "gpus": number})
    else:
        imported = import_trainer(Document(kept, file, lines), given, model, launch)
    return replace(imported, notes=(*imported.notes, *f.notes, *launch.notes()))


def _resolved(data: Record, f: Findings, model: str) -> Record:
    """Return the arguments that have a value; those that matter and have none are named."""
    kept: Record = {}
    for name, value in data.items():
        parts = [part for part in (value if isinstance(value, list) else [value]) if isinstance(part, str)]
        marks = [mark for part in parts for mark in names_in(part)]
        if not marks:
            kept[name] = value
        elif name in NAMES and model:
            continue
        elif name in NAMES and (plain := "".join(readable(part) for part in parts)).rsplit("/", 1)[-1].find("$") < 0:
            kept[name] = plain
        elif FIELDS.get(name) in f.given or _changes_nothing(name):
            continue
        elif name in SWITCHES and not isinstance(value, str):
            kept[name] = True
        else:
            hint = "--model NAME" if name in NAMES else f"--set {FIELDS[name]}=..." if name in FIELDS else ""
            why = "depends on a condition that the script does not decide" if UNDECIDED in "".join(parts) else (
                "is not set in the script")  # fmt: skip
            f.wrong((name,), f"'${marks[0]}' {why}{f'; give {hint}' if hint else ''}")
    return kept


def _changes_nothing(name: str) -> bool:
    return name in IGNORED or name.startswith(BEGINNINGS) or (name not in FIELDS and MATTERS.search(name) is None)
