"""A recipe of Megatron-Bridge: a function that makes a ConfigContainer and sets its parts."""

from __future__ import annotations

import re
from typing import Any

from comp_comm.configs.importers.adapters import set_megatron_lora
from comp_comm.configs.importers.imported import Findings, Given, Imported, Keys, shown
from comp_comm.configs.importers.megatron_named import own_fields, read_on_model
from comp_comm.configs.importers.python_code import Code
from comp_comm.configs.importers.python_values import Made, NotLiteral
from comp_comm.configs.importers.recipes_flags import Flags, asked, missing_of, model_of_names, set_precision
from comp_comm.configs.strict_yaml import Document
from comp_comm.records import Record

KIND = "Megatron-Bridge recipe"
PARTS = ("train", "ddp", "mixed_precision", "comm_overlap", "optimizer")
# What recipes begin with, from recipes/common.py of Megatron-Bridge (August 2026).
_TUNING: Record = {"--global-batch-size": 128, "--micro-batch-size": 1, "--seq-length": 2048}
_PRETRAINING: Record = {
    "--global-batch-size": 32, "--micro-batch-size": 2, "--seq-length": 4096, "--overlap-grad-reduce": True,
    "--overlap-param-gather": True,
}  # fmt: skip
DEGREES: Record = {"--tensor-model-parallel-size": 1, "--pipeline-model-parallel-size": 1,
                   "--context-parallel-size": 1, "--expert-model-parallel-size": 1}  # fmt: skip
BASES: dict[str, Record] = {
    "_pretrain_common": {**_PRETRAINING, **DEGREES}, "_sft_common": {**_TUNING, **DEGREES},
    "_peft_common": {**_TUNING, **DEGREES}, "ConfigContainer": DEGREES,
}  # fmt: skip
# Functions that set nothing of a step's shape, or what is known: perf_recipes/_common.py.
BENCHMARK = ("_benchmark_common", "_llama_benchmark_common")
HARMLESS = ("hasattr", "getattr", "isinstance", "set_cuda_graph_modules", "apply_determinism_overrides", "print",
            "pretrain", "finetune", "_enable_overlap_param_gather_with_optimizer_step", "clear_cuda_graph_modules",
            "apply_flex_dispatcher_backend", "len", "set_full_iteration_cuda_graph")  # fmt: skip
OTHERS = re.compile(r"flux|(?:^|[ _])wan(?:model|_)|diffusion")
OF_TRAIN = ("train_iters", "eval_iters", "eval_interval", "manual_gc", "manual_gc_interval", "manual_gc_eval",
            "exit_signal_handler", "rampup_batch_size", "empty_unused_memory_level", "skip_train")  # fmt: skip
OF_DATA = ("seq_length", "sequence_length")
OF_OPTIMIZER = ("lr", "min_lr", "weight_decay", "adam_beta1", "adam_beta2", "adam_eps", "clip_grad", "optimizer",
                "muon_momentum", "muon_extra_scale_factor", "loss_scale", "decoupled_weight_decay",
                "overlap_param_gather_with_optimizer_step", "sgd_momentum")  # fmt: skip
OF_OVERLAP = ("tp_comm_overlap_cfg", "delay_wgrad_compute", "wgrad_deferral_limit", "defer_embedding_wgrad_compute",
              "bucket_size", "batch_p2p_comm", "overlap_param_gather_with_optimizer_step",
              "tp_comm_bootstrap_backend", "tp_comm_overlap_ag", "tp_comm_overlap_rs")  # fmt: skip
OF_DDP = ("data_parallel_sharding_strategy", "grad_reduce_in_fp32", "average_in_collective", "use_megatron_fsdp",
          "num_distributed_optimizer_instances", "fsdp_manual_registration", "fp8_param_gather",
          "disable_symmetric_registration", "reuse_grad_buf_for_mxfp8_param_ag")  # fmt: skip


def is_bridge(made: Made) -> bool:
    """Return whether an object is a configuration of Megatron-Bridge, or something made of one."""
    parts = sum(name in made.values for name in PARTS)
    known = made.last in BASES or re.search(r"_(?:pretrain|sft|peft)(?:_mock)?(?:_\w+)?_config$", made.last)
    return "trainer" not in made.values and bool(known or ("model" in made.values and parts >= 2)) and (
        parts >= 1 or "model" in made.values)  # fmt: skip


def import_bridge(code: Code, name: str, made: Made, file: str, given: Given, model: str) -> Imported:
    """Return the study that a recipe of Megatron-Bridge means. Raises ``ConfigError``."""
    f = Findings(Document({}, file), given)
    flags = Flags(f)
    if OTHERS.search(f"{made.last} {name} {_provider(made)}".lower()):
        f.wrong((), f"'{name}' trains a model of images by diffusion, which is not modelled")
        f.problems.raise_if_any()
    named = model or _model(made, name)
    if not named:
        f.wrong((), f"the model of '{name}' is not one of the catalogue{_said(made)}; give --model NAME")
        f.problems.raise_if_any()
    flags.flags.update(BASES.get(made.last, {}))
    _unread(code, made, flags, f)
    _parts(made, flags)
    if not set_precision(f, flags, made.values.get("mixed_precision", "bf16_mixed")):
        flags.unknown["--bf16"] = NotLiteral("mixed_precision")
        f.missing("mixed_precision is not literal; give --set precision=bf16", "precision")
    _adapters(made, f)
    _dispatcher(made, code, flags)
    flags.flags.setdefault("--bf16", f.fields.get("precision") not in ("fp16", "fp32"))
    count = re.search(r"_(\d+)gpus?(?:_|$)", name)
    if count and "gpus" not in f.given:
        f.set("gpus", int(count[1]))
        f.note(f"gpus {count[1]} is what the name of the recipe says")
    if flags.flags.get("--expert-model-parallel-size", 1) != 1:
        flags.flags.setdefault("--expert-tensor-parallel-size", 1)  # as its transformer_config.py has it, not TP
    flags.finish()
    _base(made, flags, f, named)
    f.problems.raise_if_any()
    f.document.data.update(flags.flags)
    read_on_model(Keys(f, flags.flags), f, named)
    return Imported(KIND, name, name, f"{file} ({KIND} {name})", own_fields(f, named), tuple(f.notes), model=named)


def _said(made: Made) -> str:
    reference = _reference(made.values.get("model"))
    return f" ({shown(reference)})" if reference else ""


def _reference(value: Any) -> str:
    """Return the name of Hugging Face that a bridge is made from, nothing where there is none."""
    while isinstance(value, Made):
        if value.last in ("from_hf_pretrained", "from_hf_config", "from_pretrained") and value.args:
            return value.args[0] if isinstance(value.args[0], str) else ""
        value = value.source
    return ""


def _model(made: Made, name: str) -> str:
    """Return the catalogue's model of a recipe: by the checkpoint, the provider's class, or the recipes' names."""
    if "vl_" in f"{made.last}_{name}":
        return ""
    return model_of_names(_reference(made.values.get("model")), _provider(made), made.last, name)


def _provider(made: Made) -> str:
    """Return the class of a model's provider, nothing where a bridge makes it."""
    held = made.values.get("model")
    return held.last if isinstance(held, Made) and not held.is_implied else ""


def _parts(made: Made, flags: Flags) -> None:
    """Take the parts of a configuration that a step's shape depends on."""
    flags.take(made.values.get("model"), "model", ("moe_flex_dispatcher_backend", "moe_token_dispatcher_type"))
    flags.take(made.values.get("train"), "train", OF_TRAIN)
    flags.take(made.values.get("optimizer"), "optimizer", OF_OPTIMIZER)
    flags.take(made.values.get("ddp"), "ddp", OF_DDP)
    flags.take(made.values.get("comm_overlap"), "comm_overlap", OF_OVERLAP)
    for key in OF_DATA:
        value = made.find("dataset", key)
        held = made.find("model", "seq_length")
        if value is not None and (held is None or not isinstance(held, int)):
            flags.set("seq_length", value, "dataset", made.values["dataset"].lines.get(key, 0))
    ddp = made.values.get("ddp")
    if isinstance(ddp, Made):
        if ddp.values.get("grad_reduce_in_fp32") is False:
            flags.flags["--grad-reduce-in-bf16"] = True
        if ddp.values.get("use_megatron_fsdp") is True:
            flags.flags["--use-megatron-fsdp"] = True
            flags.set("data_parallel_sharding_strategy", ddp.values.get("data_parallel_sharding_strategy"), "ddp")
    both = [made.find(part, "use_distributed_optimizer") for part in ("optimizer", "ddp")]
    flags.flags["--use-distributed-optimizer"] = both != [False, False]  # where one has it, Megatron-Bridge sets both
    kind = made.find("optimizer", "optimizer")
    if isinstance(kind, str) and kind != "adam":
        flags.flags["--optimizer"] = kind


def _dispatcher(made: Made, code: Code, flags: Flags) -> None:
    """Set how tokens go to experts: the backend counts where the dispatcher is, or is made, flexible."""
    kind, backend = made.find("model", "moe_token_dispatcher_type"), made.find("model", "moe_flex_dispatcher_backend")
    called = [each for each, _ in code.unread_of(made)]
    if "apply_flex_dispatcher_backend" in called and backend in ("deepep", "hybridep"):
        kind = "flex"
    if kind is None:
        kind = "alltoall"  # of its bridges and providers of models with experts, but for those that set another
    if isinstance(kind, str):
        flags.flags["--moe-token-dispatcher-type"] = kind
        if kind == "flex" and isinstance(backend, str):
            flags.flags["--moe-flex-dispatcher-backend"] = backend


def _unread(code: Code, made: Made, flags: Flags, f: Findings) -> None:
    """Take what functions of Megatron-Bridge set that are known, and name those that are not."""
    called = code.unread_of(made)
    if any(name in BENCHMARK for name, _ in called):
        flags.flags |= {"--grad-reduce-in-bf16": True, "--cross-entropy-fusion-impl": "te"}
    others = [f"{name}() (line {line})" for name, line in called if name not in (*BENCHMARK, *HARMLESS)]
    if others:
        f.note(f"what these set is in another file, and not known: {', '.join(dict.fromkeys(others))}")


def _adapters(made: Made, f: Findings) -> None:
    """Set LoRA's adapters, with the rank and the layers that Megatron-Bridge has by default."""
    peft = made.values.get("peft", Made("LoRA") if made.last == "_peft_common" else None)
    if peft is None or made.values.get("peft_scheme", "") is None:
        return
    scheme = peft if isinstance(peft, str) else peft.args[0] if isinstance(peft, Made) and peft.args else "lora"
    if not isinstance(scheme, str) or scheme.lower() != "lora" or not isinstance(peft, (str, Made)):
        f.wrong((), f"peft is {shown(getattr(peft, 'text', scheme))}: another adapter than LoRA is not modelled")
        return
    values = peft.values if isinstance(peft, Made) else {}
    set_megatron_lora(values, f)


def _base(made: Made, flags: Flags, f: Findings, model: str) -> None:
    """Name what a recipe takes from one of another file, and does not set itself."""
    if made.last in BASES:
        return
    missing = missing_of(flags, f, model)
    if missing:
        given = asked(missing)
        f.wrong((), f"{', '.join(missing)}: as '{made.last}' of another file has them, which is not read; give {given}")
    for flag in ("--overlap-grad-reduce", "--overlap-param-gather"):
        flags.flags.setdefault(flag, "pretrain" in made.last)
    f.note(f"what '{made.last}' sets is in another file: what is not set here is as Megatron-Bridge's recipes begin")
