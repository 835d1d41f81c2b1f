"""FlagScale's YAML of a training: arguments of Megatron-LM, in sections that it flattens."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import PurePath

from comp_comm.configs.importers import megatron
from comp_comm.configs.importers.imported import NOTHING, Findings, Given, Imported, is_off
from comp_comm.configs.importers.launch import Launch
from comp_comm.configs.strict_yaml import Document, Path
from comp_comm.errors import ConfigError, Problem
from comp_comm.records import Record

KIND = "FlagScale YAML"
SECTIONS = ("system", "model", "data")
REFERENCE = re.compile(r"\$\{[^{}]*\}")
# What FlagScale's runner passes on to no one, and what its own training has beside Megatron-LM.
IGNORED = ("log_dir", "details_dir", "scripts_dir", "pids_dir", "no_shared_fs", "norm_init_weight",
           "rampup_save_interval", "no_log_loss_scale_to_tensorboard", "special_tokens_file", "tokenizer_path",
           "use_partial_reduce_for_shared_embedding", "auto_skip_spiky_loss", "spiky_loss_threshold",
           "apply_sft_dataset_separated_loss_mask_if_existed", "data_parallel_size", "ckpt_convert_save",
           "ckpt_overwrite", "training_dataset_only", "before_start", "wandb_mode")  # fmt: skip
OFF = {"enable_hetero": "devices of several kinds in one pipeline", "use_dualpipev": "DualPipeV",
       "moe_fb_overlap": "forward passes beside backward passes of experts",
       "peft_type": "adapters of FlagScale"}  # fmt: skip


def fits(data: Record) -> int:
    """Return how well a mapping fits FlagScale's training, or the experiment that names one; 0 where it does not.

    >>> fits({"system": {"tensor_model_parallel_size": 2}, "model": {"num_layers": 2}}), fits({"model": {}})
    (5, 0)
    """
    inner = data.get("train")
    held = inner if isinstance(inner, dict) else data
    if all(isinstance(held.get(name), dict) for name in SECTIONS[:2]):
        return 5
    return 5 * (isinstance(data.get("experiment"), dict) and "defaults" in data)


def import_flagscale(document: Document, given: Given = NOTHING) -> Imported:
    """Return the study that a training of FlagScale describes. Raises ``ConfigError``.

    >>> sizes = {"num_layers": 4, "hidden_size": 256, "num_attention_heads": 4, "seq_length": 128,
    ...     "micro_batch_size": 2}
    >>> system = {"tensor_model_parallel_size": 2, "precision": {"bf16": True}}
    >>> data = {"system": system, "model": sizes, "data": {"tokenizer": {"vocab_size": 1000}}}
    >>> found = import_flagscale(Document(data, "7b.yaml")).fields
    >>> found["tp"], found["layers"], found["precision"], found["vocab"]
    (2, 4, 'bf16', 1000)
    """
    data, place = document.data, ()  # type: Record, Path
    if isinstance(data.get("train"), dict):
        data, place = data["train"], ("train",)
    elif not isinstance(data.get("system"), dict):
        raise ConfigError([Problem(_experiment(document.data), file=document.file)])
    flags: Record = {}
    lines: dict[Path, int] = {}
    f = Findings(Document({}, document.file, document.lines), given)
    for section in SECTIONS:
        if isinstance(data.get(section), dict):
            _flatten(data[section], (*place, section), document, flags, lines, f)
    _width(flags, f)
    f.problems.raise_if_any()
    inner = Findings(Document(flags, document.file, lines, document.duplicates), given)
    number = _devices(document.data)
    if number and "gpus" not in given:
        inner.set("gpus", number)
    imported = megatron.import_found(inner, Launch([], _program(document.data), []))
    name = PurePath(document.file).stem
    return replace(imported, kind=KIND, name=name, source=f"{document.file} ({KIND})",
                   notes=tuple(dict.fromkeys((*f.notes, *imported.notes))))  # fmt: skip


def _flatten(data: Record, place: Path, document: Document, flags: Record, lines: dict[Path, int],
             f: Findings) -> None:  # fmt: skip
    """Add the arguments of a section to ``flags``: false is none, and names of sections within it are nothing."""
    for key, value in data.items():
        name, path = str(key), (*place, key)
        if isinstance(value, dict):
            _flatten(value, path, document, flags, lines, f)
            continue
        flag = "--" + name.replace("_", "-")
        if name in OFF and not is_off(value):
            f.wrong(path, f"{OFF[name]} is not modelled; leave it out, or off")
        if name in IGNORED or name in OFF or name.startswith("hetero_") or value in (None, False):
            continue
        if isinstance(value, str) and REFERENCE.search(value) and megatron.is_ignored(flag):
            continue
        if isinstance(value, str) and REFERENCE.search(value):
            hint = f"; give --set {megatron.FIELD_OF[flag]}=N" if flag in megatron.FIELD_OF else ""
            if megatron.FIELD_OF.get(flag) not in f.given:
                f.wrong(path, f"'{value}' is a value of another file{hint}")
            continue
        if isinstance(value, str) and "per_stage_micro_batch" not in name:
            value = megatron.yaml_value(value)
        flags[flag] = value
        if path in document.lines:
            lines[(flag,)] = document.lines[path]


def _width(flags: Record, f: Findings) -> None:
    """Set the width of a gated network where it is given as Llama's code has it: a multiple of a number."""
    multiple, factor = flags.pop("--multiple-of", None), flags.pop("--hidden-dim-multiplier", None)
    hidden = flags.get("--hidden-size")
    if isinstance(multiple, int) and isinstance(hidden, int) and "--ffn-hidden-size" not in flags:
        wide = int(4 * hidden * 2 / 3)
        wide = int(factor * wide) if isinstance(factor, (int, float)) else wide
        flags["--ffn-hidden-size"] = multiple * ((wide + multiple - 1) // multiple)
        f.note(f"ffn_hidden is {flags['--ffn-hidden-size']}: two thirds of 4 x hidden, in multiples of {multiple}")


def _runner(data: Record) -> Record:
    experiment = data.get("experiment")
    runner = experiment.get("runner") if isinstance(experiment, dict) else None
    return runner if isinstance(runner, dict) else {}


def _program(data: Record) -> str:
    """Return the program that an experiment starts, nothing where the file has none."""
    experiment = data.get("experiment")
    task = experiment.get("task") if isinstance(experiment, dict) else None
    return str(task.get("entrypoint") or "") if isinstance(task, dict) else ""


def _devices(data: Record) -> int | None:
    """Return the devices that an experiment's runner says, None where it does not."""
    nodes, each = (_runner(data).get(name) for name in ("nnodes", "nproc_per_node"))
    return nodes * each if isinstance(nodes, int) and isinstance(each, int) else None


def _experiment(data: Record) -> str:
    """Return that a file is an experiment alone, and where its model is."""
    defaults = data.get("defaults")
    named = [str(each["train"]) for each in defaults if isinstance(each, dict) and "train" in each] if isinstance(
        defaults, list) else []  # fmt: skip
    if not named:
        return "is an experiment of FlagScale that trains nothing (it serves or generates), which is not modelled"
    number = _devices(data)
    where = f"train/{named[0]}.yaml beside it"
    return f"is an experiment of FlagScale: its model and layout are in {where}. Import that " + (
        f"file, with --set gpus={number}" if number else "file, with --set gpus=N")  # fmt: skip
