"""Arguments of Hugging Face's Trainer, and of programs that take them: TRL, ms-swift, FastChat, open-instruct.

A YAML or a JSON of them, or the command of a script. The model is one they name; what launches the program says how
many devices there are, and may say how states are sharded.
"""

from __future__ import annotations

import re
from pathlib import PurePath

from comp_comm.configs.importers.adapters import set_adapters
from comp_comm.configs.importers.devices import devices_of
from comp_comm.configs.importers.imported import NOTHING, Findings, Given, Imported, Keys, is_off, shown
from comp_comm.configs.importers.launch import Launch, Sought
from comp_comm.configs.importers.running import named_model, not_modelled, set_running, whole_weights
from comp_comm.configs.importers.trainer_keys import BEGINNINGS, IGNORED, LOSSES, MATTERS, SIGHTS
from comp_comm.configs.importers.trainer_launch import set_launch
from comp_comm.configs.strict_yaml import Document
from comp_comm.records import Record

KIND = "arguments of Hugging Face's Trainer"
SOUGHT = Sought(
    re.compile(r"--(?:per[-_]device[-_]train[-_]batch[-_]size|gradient[-_]accumulation[-_]steps)(?![-_\w])"),
    "Hugging Face's Trainer", "a YAML of its arguments")  # fmt: skip
SIGNS = ("per_device_train_batch_size", "gradient_accumulation_steps", "output_dir", "num_train_epochs",
         "learning_rate", "max_steps")  # fmt: skip
NAMES = ("model_name_or_path", "model", "base_model", "model_id", "model_path", "pretrained_model",
         "base_model_name_or_path", "model_id_or_path", "model_name")  # fmt: skip
LENGTHS = ("max_length", "max_seq_length", "model_max_length", "cutoff_len", "block_size", "max_seq_len",
           "seq_length", "packing_length", "seq_len", "sequence_length", "model_max_len")  # fmt: skip
# What only TRL's configuration of finetuning has: its defaults are not those of TrainingArguments.
OF_TRL = ("max_seq_length", "dataset_num_proc", "dataset_text_field", "packing", "use_peft", "dataset_kwargs",
          "assistant_only_loss", "completion_only_loss", "packing_strategy")  # fmt: skip
OTHER_LOSS = re.compile(
    r"(?:^|[/_-])(?:grpo|dpo|ppo|kto|orpo|rloo|gkd|cpo|simpo|rlhf|reward\w*|distill\w*|pairrm)(?:[._/-]|$)", re.I
)
ATTENTION = ("attn_implementation", "attn_impl", "flash_attn", "use_flash_attn", "use_flash_attention",
             "use_flash_attention_2", "use_flash_attn_2", "_attn_implementation")  # fmt: skip
RANKS = ("lora_r", "lora_rank", "peft_lora_r", "lora_dim")
TARGETS = ("lora_target_modules", "target_modules", "lora_target", "lora_modules", "lora_module_name")
ADAPTED = ("use_peft", "use_lora", "lora_enable", "use_peft_lora", "lora", "peft")
LIGER = ("use_liger_kernel", "use_liger", "enable_liger_kernel", "use_liger_lm_head")


def fits(data: Record) -> int:
    """Return how well a mapping fits arguments of the Trainer; 0 where it does not.

    >>> fits({"model_name_or_path": "x", "per_device_train_batch_size": 1, "output_dir": "y"}), fits({"model": "x"})
    (3, 0)
    """
    if "finetuning_type" in data or not any(name in data for name in (*NAMES, *SIGNS[:2])):
        return 0
    return 3 if sum(sign in data for sign in SIGNS) >= 2 and any(sign in data for sign in SIGNS[:2]) else 0


def import_trainer(document: Document, given: Given = NOTHING, model: str = "",
                   launch: Launch | None = None) -> Imported:  # fmt: skip
    """Return the study that arguments of the Trainer describe; ``launch`` is the command that they are from.

    Raises ``ConfigError`` with everything in it that may change a step and is not understood.

    >>> data = {"model_name_or_path": "meta-llama/Llama-3.1-8B", "per_device_train_batch_size": 2, "bf16": True,
    ...     "gradient_checkpointing": True, "max_length": 4096, "deepspeed": "ds_config_zero3.json", "output_dir": "x"}
    >>> found = import_trainer(Document(data, "sft.yaml"))
    >>> found.model, [found.fields[name] for name in ("micro_batch", "seq_len", "zero", "precision", "recompute")]
    ('llama-3.1-8b', [2, 4096, 3, 'bf16', 'full'])
    """
    f = Findings(document, given)
    top = Keys(f, document.data)
    program = (
        "" if launch is None else " ".join([*(word.rsplit("/", 1)[-1] for word in launch.launcher), launch.program])
    )
    is_swift = re.search(r"(?:^|[ /])swift(?:$|[ /])", program) is not None
    _another_training(top, program)
    known = named_model(top, f, NAMES, model)
    own = (top.has(*OF_TRL) and not is_swift) or "trl " in f"{program} "
    _lengths(top, f, is_swift)
    _batch(top, f, is_swift)
    _adapters(top, f, is_swift)
    _formats(top, f, own, is_swift)
    if launch is not None:
        set_launch(launch, top, f, devices_of(launch))
    _recomputation(top, f, own or is_swift)
    _stage(top, f)
    set_running(top, f, ("fsdp", "fsdp_config"))
    if f.count("zero", 0) == 3 and f.fields.get("zero_implementation") != "deepspeed":
        f.set("master_weights", "shards")  # accelerate's FSDP has its shards in 32 bits
    if launch is None and not top.has("deepspeed", "fsdp", "fsdp_config"):
        f.note("how states are sharded, and over how many devices, may be said where training is launched "
               "(accelerate's configuration, DeepSpeed's JSON): zero 0 is counted; --set zero=3 is more")  # fmt: skip
    _kernels(top, f)
    _parallel(top, f)
    _rest(top, f)
    f.problems.raise_if_any()
    name = PurePath(document.file).stem
    return Imported(KIND, name, name, f"{document.file} ({KIND})", f.fields, tuple(f.notes), model=known)


def _another_training(top: Keys, program: str) -> None:
    """Refuse another loss than that of the next token, and another model than one of text."""
    word = next((word for word in program.split() if OTHER_LOSS.search(word)), None)
    losses = [name for name in LOSSES if not is_off(top.take(name))]
    if word is not None or losses:
        where = (losses[0],) if losses else ()
        what = f"the program '{word}'" if word is not None and not losses else "it"
        message = f"{what} trains on preferences, rewards or another model's answers: only training on text is modelled"
        top.findings.wrong((*top.path, *where), message)
        top.findings.problems.raise_if_any()
    not_modelled(top, dict.fromkeys(SIGHTS, "a model of more than text"))
    not_modelled(top, {"use_unsloth": "what Unsloth makes of a model (its kernels, activations in the host's memory)"})
    if str(top.take("task_type", default="causal_lm")).lower() not in ("causal_lm", "none", "sft", "pretrain", "pt"):
        top.wrong(("task_type",), "another task than that of the next token is not modelled")


def _lengths(top: Keys, f: Findings, is_swift: bool) -> None:
    """Set the tokens of a sequence."""
    if top.set("seq_len", *LENGTHS):
        return
    where = (
        "the model's longest (max_position_embeddings)" if is_swift else "as long as they come, or the program's own"
    )
    f.missing(f"max_length is not in the file: sequences are {where}; give --set seq_len=N", "seq_len")


def _batch(top: Keys, f: Findings, is_swift: bool) -> None:
    """Set the batches; what is not said is what the Trainer has."""
    if "micro_batch" not in f.given and not top.has("per_device_train_batch_size", "per_device_batch_size"):
        default = 1 if is_swift else 8
        f.note(f"per_device_train_batch_size is not in the file: {default}, which is the default")
        f.set("micro_batch", default)
    top.set("micro_batch", "per_device_train_batch_size", "per_device_batch_size")
    if not is_off(top.take("auto_find_batch_size")):
        f.note("auto_find_batch_size: the batch is made smaller until it fits, which is not counted")
    top.set("accumulation", "gradient_accumulation_steps")
    if is_swift and "accumulation" not in f.fields and "global_batch" not in f.fields:
        f.missing("gradient_accumulation_steps is not in the file: ms-swift makes it so that a step has 16 sequences "
                  "or more; give --set global_batch=N", "accumulation")  # fmt: skip
    if "global_batch" in f.given:
        f.fields.pop("accumulation", None)


def _adapters(top: Keys, f: Findings, is_swift: bool) -> None:
    """Set LoRA's adapters, whose defaults each program has its own."""
    kind = top.take("tuner_type", "train_type", "sft_type", "train_mode", default="lora" if is_swift else "full")
    switches = [not is_off(top.take(name)) for name in ADAPTED if name in top.mapping]
    whole_weights(top, ("load_in_4bit", "load_in_8bit", "q_lora", "use_qlora", "quant_method", "quantization_bit",
                        "quant_bits", "use_4bit", "use_4bit_quantization", "use_8bit_quantization"), False)  # fmt: skip
    if top.has("bits") and top.take("bits") not in (16, 32, "16", "32"):
        whole_weights(top, ("bits",), False)
    top.ignore(name for name in top.mapping if name.startswith(("bnb_", "bnb_4bit", "quant_type", "double_quant")))
    top.only("tuner_backend", "peft")
    if kind == "qlora":
        whole_weights(top, ("train_mode",), True)
    if kind not in ("lora", "full"):
        top.wrong(
            ("tuner_type", "train_type", "sft_type", "train_mode"), f"{shown(kind)} is not modelled; only full and lora"
        )
    lora = kind == "lora" or any(switches) or (not switches and top.has(*RANKS) and not is_swift)
    if not lora or (switches and not any(switches)):
        top.ignore((*RANKS, *TARGETS, "lora_dropout"))
        return
    if not is_off(top.take("lora_dropout")):
        f.note("lora_dropout: masks of its inputs are not counted")
    top.off(("lora_modules_to_save", "modules_to_save", "use_dora", "lora_target_parameters", "use_rslora_layers"))
    targets = top.name_of(*TARGETS)
    if targets and isinstance(top.mapping[targets], str) and " " in str(top.mapping[targets]).strip():
        top.mapping = {**top.mapping, targets: str(top.mapping[targets]).split()}
    set_adapters(top, f, RANKS, TARGETS)
    rank = 8 if is_swift else 16 if top.has("use_peft") else 64 if top.has("lora_enable") else 8
    if "lora_rank" not in f.fields:
        f.note(f"the rank of adapters is not in the file: {rank}, which is the default")
        f.set("lora_rank", rank)
    if "lora_targets" not in f.fields:
        f.set("lora_targets", "all" if is_swift or top.has("lora_enable") else "q_proj+v_proj")
        f.note(f"which layers have adapters is not in the file: {f.fields['lora_targets']}, as its program or PEFT has "
               "it; --set lora_targets=all gives others")  # fmt: skip


def _formats(top: Keys, f: Findings, is_trl: bool, is_swift: bool) -> None:
    """Set the number format, where a program has another default than the Trainer: its arguments say it, or none."""
    dtype = str(top.take("torch_dtype", "dtype", "model_dtype", default="")).removeprefix("torch.").lower()
    half = {"bfloat16": "bf16", "bf16": "bf16", "float16": "fp16", "fp16": "fp16", "half": "fp16"}.get(dtype, "")
    if dtype and not half and dtype not in ("auto", "float32", "fp32", "none"):
        top.wrong(("torch_dtype", "dtype", "model_dtype"), f"{shown(dtype)} is not understood")
    said = [name for name in ("bf16", "fp16") if top.has(name)]
    if said:
        if half and not any(not is_off(top.mapping.get(name)) for name in said):
            top.mapping = {**top.mapping, half: True}
        elif half and not top.has("deepspeed", "fsdp", "fsdp_config"):
            f.note("torch_dtype: weights in 16 bits, where no DeepSpeed and no FSDP make them 32, are trained without "
                   "copies in 32, which are counted all the same")  # fmt: skip
        elif not half and not top.has("deepspeed", "fsdp", "fsdp_config"):
            f.note("weights are held in 32 bits and cast to 16 for each product: counted as weights of 16 with copies "
                   "in 32")  # fmt: skip
    elif half:
        top.mapping = {**top.mapping, half: True, **({"bf16": False} if half == "fp16" else {})}
        f.note(f"neither bf16 nor fp16 is in the file: {half}, as the weights are (torch_dtype)")
    elif is_trl or is_swift:
        f.note(f"neither bf16 nor fp16 is in the file: bf16, as {'ms-swift' if is_swift else 'TRL 1'} has it")
    else:
        top.mapping = {**top.mapping, "bf16": False}
        f.note("neither bf16 nor fp16 is in the file: 32 bits, as the Trainer has it; --set precision=bf16 for others")


def _stage(top: Keys, f: Findings) -> None:
    """Set the stage of programs that configure DeepSpeed themselves (DeepSpeed-Chat): a number beside a switch."""
    for other in ("deepspeed_config", "ds_config", "deepspeed_config_file"):
        if isinstance(top.take(other), str) and not isinstance(top.mapping.get("deepspeed"), (str, dict)):
            top.mapping = {**top.mapping, "deepspeed": top.mapping[other]}
    if top.set("zero", "zero_stage"):
        top.mapping = {name: value for name, value in top.mapping.items() if name != "deepspeed"}
        if f.count("zero", 0):
            f.set("zero_implementation", "deepspeed")
    top.off(("offload",), "weights in the host's memory")


def _recomputation(top: Keys, f: Findings, is_on: bool) -> None:
    """Set recomputation where the file does not say it: TRL and ms-swift have it on, the Trainer off."""
    if top.has("activation_checkpointing", "use_gradient_checkpointing") and not top.has("gradient_checkpointing"):
        other = top.take("activation_checkpointing", "use_gradient_checkpointing")
        top.mapping = {**top.mapping, "gradient_checkpointing": other}
    if top.has("gradient_checkpointing") or "recompute" in f.given or "recompute" in f.fields:
        return
    top.mapping = {**top.mapping, "gradient_checkpointing": is_on}
    f.note(f"gradient_checkpointing is not in the file: {'on, as ms-swift and TRL 1 have it' if is_on else 'off'}")


def _kernels(top: Keys, f: Findings) -> None:
    top.ignore(("torch_compile_backend", "torch_compile_mode"))
    if top.has("torch_compile_backend", "torch_compile_mode") and not top.has("torch_compile"):
        f.set("kernels", "compiled")
    if True in [not is_off(top.take(name)) for name in LIGER] and f.fields.get("kernels") != "compiled":
        f.set("kernels", "fused")
    way = next((top.mapping[name] for name in ATTENTION if top.has(name)), None)
    top.ignore(ATTENTION)
    f.set("attention_kernel", "unfused" if str(way) == "eager" else "flash_causal")
    packed = [not is_off(top.take(name)) for name in ("packing", "padding_free", "pack_dataset") if top.has(name)]
    top.ignore(("packing_strategy", "packing_num_proc", "neat_packing"))
    f.note("packing: sequences are counted full" if any(packed) else "sequences are counted full, whatever texts have")


def _parallel(top: Keys, f: Findings) -> None:
    """Set what is split beside data: sequences (Ulysses), and matrices by DeepSpeed."""
    size = top.name_of("sequence_parallel_size", "ulysses_size")
    top.ignore(("sequence_parallel_size", "ulysses_size"))
    if size and not is_off(top.mapping[size]):
        f.set("cp", top.mapping[size], top.place(size))
        if f.count("cp") > 1:
            f.set("cp_comm", "all_to_all")
            f.note("sequences are split as Ulysses does, with heads swapped for tokens")
    top.set("tp", "deepspeed_autotp_size")
    top.off(("parallelism_config", "fp8"), "give its degrees with --set")
    top.off(("optim_target_modules", "use_galore", "neftune", "only_optimize_lora", "freeze_parameters",
             "freeze_parameters_ratio", "trainable_parameters", "new_special_tokens", "activation_offloading",
             "use_cpu", "use_logits_to_keep"))  # fmt: skip


def _rest(top: Keys, f: Findings) -> None:
    """Take what changes nothing; a program's own arguments are told, and refused where they may change a step."""
    top.ignore(IGNORED)
    top.ignore((*SIGHTS, *LOSSES))
    own = [name for name in top.mapping if name not in top.used and not is_off(top.mapping[name])]
    beginning = [name for name in own if name.startswith(BEGINNINGS)]
    told = [name for name in own if name not in beginning and not MATTERS.search(name)]
    top.ignore((*beginning, *told))
    top.ignore(name for name in top.mapping if is_off(top.mapping[name]))
    if told:
        f.note(f"not of the Trainer, and taken to change nothing of a step: {', '.join(sorted(told))}")
    top.finish()
