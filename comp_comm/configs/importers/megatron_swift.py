"""A script of Megatron-SWIFT (``megatron sft``): arguments of Megatron-LM on a model that it names."""

from __future__ import annotations

import re
from pathlib import PurePath

from comp_comm.configs.importers import megatron
from comp_comm.configs.importers.adapters import set_adapters
from comp_comm.configs.importers.arguments import left_open, lines_of, parse_arguments
from comp_comm.configs.importers.imported import NOTHING, Findings, Given, Imported, Keys, is_off, shown
from comp_comm.configs.importers.launch import Launch, Sought, find_launch
from comp_comm.configs.importers.megatron_named import own_fields, read_on_model
from comp_comm.configs.importers.running import named_model, not_modelled
from comp_comm.configs.importers.shell_scope import names_in
from comp_comm.configs.importers.trainer_keys import BEGINNINGS, IGNORED, LOSSES, SIGHTS
from comp_comm.configs.importers.trainer_launch import devices_of_environment
from comp_comm.configs.strict_yaml import Document, Path
from comp_comm.records import Record

KIND = "Megatron-SWIFT script"
COMMAND = re.compile(r"(?:^|[\s/])megatron\s+(?:\\\s*)?(sft|pt|rlhf)(?=\s)|cli/_megatron/(sft|pt|rlhf)\.py", re.M)
SOUGHT = Sought(
    re.compile(r"--(?:micro|global)[-_]batch[-_]size(?![-_\w])|--(?:tensor|expert|pipeline)[-_]model[-_]parallel[-_]size"
               r"(?![-_\w])"), "Megatron-SWIFT", "a YAML of its arguments")  # fmt: skip
# What Megatron-SWIFT has where nothing is said (its page of command-line parameters, 4.x).
DEFAULTS: Record = {
    "--micro-batch-size": 1, "--global-batch-size": 16, "--recompute-granularity": "selective",
    "--use-distributed-optimizer": True, "--cross-entropy-loss-fusion": True, "--cross-entropy-fusion-impl": "native",
    "--moe-token-dispatcher-type": "alltoall", "--attention-backend": "flash", "--bf16": True,
}  # fmt: skip
# Its own, beside those of Megatron-LM and of ms-swift, that change nothing of a step's shape.
_OWN = """
    save_safetensors no_save_optim no_save_rng no_load_optim no_load_rng finetune mcore_model mcore_adapter ref_model
    load save packing padding_free packing_length lora_alpha lora_dropout lora_bias merge_lora to_cached_dataset
    check_model model_kwargs cached_val_dataset mlp_padding_free linear_decoupled_in_proj no_initialization
    add_non_thinking_prefix enable_dft_loss enable_channel_loss language_model_only template_mode padding_side
    train_dataloader_shuffle dataset_shuffle max_epochs use_chat_template sft_alpha optimizer_offload_fraction
    perform_initialization group_by_length logprobs_chunk_size mcore_bridge apply_wd_to_qk_layernorm adapters model_name
    model_author
"""
OWN = _OWN.split()

OF_LORA = ("--lora-rank", "--target-modules")


def is_swift(text: str) -> bool:
    """Return whether a text starts Megatron-SWIFT.

    >>> is_swift("NPROC_PER_NODE=8 megatron sft --model x"), is_swift("python megatron/sft.py")
    (True, False)
    """
    return COMMAND.search(text) is not None


def import_swift(text: str, file: str, given: Given = NOTHING, model: str = "") -> Imported:
    """Return the study that a script of Megatron-SWIFT describes. Raises ``ConfigError``."""
    launch = find_launch(text, file, SOUGHT)
    flags, _ = parse_arguments(launch.arguments)
    known = {flag: line for flag, line in lines_of(text).items() if flag in flags}
    lines: dict[Path, int] = {(flag,): line for flag, line in known.items()}
    f = Findings(Document(flags, file, lines), given)
    for line, message in launch.problems:
        f.wrong((), f"line {line}: {message}")
    _not_text(f, launch)
    left_open(launch.arguments, f)
    named = _model(f, flags, lines, model)
    kept = _kept(flags, f)
    silent = {flag: value for flag, value in DEFAULTS.items() if flag not in flags}
    keys = Keys(f, {**silent, **kept})
    if silent:
        f.note(f"not in the file, and as Megatron-SWIFT has them: {', '.join(silent)}")
    keys.set("seq_len", "--max-length", "--packing-length")
    if "seq_len" not in f.fields:
        f.missing("--max-length is not in the file: sequences are the model's longest; give --set seq_len=N", "seq_len")
    _adapters(keys, f)
    number = devices_of_environment(launch)
    if number and "gpus" not in given:
        f.set("gpus", number)
    f.problems.raise_if_any()
    read_on_model(keys, f, named, launch if number is None else None)
    f.note("packing: sequences are counted full" if kept.get("--packing") else "sequences are counted full, whatever "
           "texts have")  # fmt: skip
    name = PurePath(file).stem
    return Imported(KIND, name, name, f"{file} ({KIND})", own_fields(f, named), tuple(f.notes), model=named)


def _not_text(f: Findings, launch: Launch) -> None:
    """Refuse training on preferences and rewards, and models of more than text."""
    words = [*launch.launcher, launch.program, *launch.arguments[:1]]
    if any(word.rsplit("/", 1)[-1].removesuffix(".py") == "rlhf" for word in words):
        f.wrong((), "'megatron rlhf' trains on preferences, rewards or another model's answers: only training on text "
                "is modelled")  # fmt: skip
        f.problems.raise_if_any()
    named = {flag.removeprefix("--").replace("-", "_"): value for flag, value in f.document.data.items()}
    inner = Keys(Findings(Document(named, f.document.file), f.given), named)
    not_modelled(inner, dict.fromkeys(SIGHTS, "a model of more than text"))
    not_modelled(inner, dict.fromkeys(LOSSES, "training on preferences or rewards"))
    if str(named.get("task_type", "causal_lm")) != "causal_lm":
        f.wrong(("--task-type",), "another task than that of the next token is not modelled")


def _model(f: Findings, flags: Record, lines: dict[Path, int], model: str) -> str:
    source = next((flags[flag] for flag in ("--model", "--load", "--mcore-model") if flag in flags), "")
    inner = Keys(f, {"--model": "" if names_in(str(source)) else source})
    return named_model(inner, f, ("--model",), model)


def _kept(flags: Record, f: Findings) -> Record:
    """Return the arguments that Megatron-LM has, with switches as it has them; those of ms-swift alone are left out."""
    kept: Record = {}
    plain = {*OWN, *IGNORED}
    for flag, value in flags.items():
        name = flag.removeprefix("--").replace("-", "_")
        if name in ("model", "task_type", *SIGHTS, *LOSSES) or name in plain or name.startswith(BEGINNINGS):
            continue
        if isinstance(value, str) and names_in(value):
            field = megatron.FIELD_OF.get(flag)
            if field not in f.given:
                f.wrong((flag,), f"'${names_in(value)[0]}' is not set in the script" + (
                        f"; give --set {field}=N" if field else ""))  # fmt: skip
            continue
        if value in (False, "none"):
            continue
        kept[flag] = value
    return kept


def _adapters(keys: Keys, f: Findings) -> None:
    kind = str(keys.take("--tuner-type", "--train-type", default="full"))
    keys.ignore(OF_LORA)
    if kind not in ("full", "lora"):
        keys.wrong(("--tuner-type", "--train-type"), f"{shown(kind)} is not modelled; only full and lora")
    if kind != "lora":
        return
    if not is_off(keys.mapping.get("--modules-to-save")):
        keys.wrong(("--modules-to-save",), "parts that are trained beside adapters are not modelled")
    targets = keys.mapping.get("--target-modules", "all-linear")
    keys.mapping = {**keys.mapping, "--target-modules": targets if isinstance(targets, list) else [targets]}
    set_adapters(keys, f, ("--lora-rank",), ("--target-modules",))
    if "lora_rank" not in f.fields:
        f.set("lora_rank", 8)
        f.note("the rank of adapters is not in the file: 8, which is the default")
    keys.mapping = {name: value for name, value in keys.mapping.items() if name not in OF_LORA}
