"""A recipe of NeMo 2: a model, a trainer with a strategy, data, an optimizer, as NeMo-Run configures them."""

from __future__ import annotations

import re
from typing import Any

from comp_comm.configs.importers.adapters import set_megatron_lora
from comp_comm.configs.importers.imported import Findings, Given, Imported, Keys, shown
from comp_comm.configs.importers.megatron_named import own_fields, read_on_model
from comp_comm.configs.importers.python_code import Code
from comp_comm.configs.importers.python_values import Made, NotLiteral, Reference
from comp_comm.configs.importers.recipes_flags import Flags, asked, missing_of, model_of_names, set_precision
from comp_comm.configs.strict_yaml import Document
from comp_comm.records import Record

KIND = "NeMo 2 recipe"
# What recipes call degrees that they hand on to a trainer of another file.
DEGREES = {
    "tensor_parallelism": "tensor_model_parallel_size", "pipeline_parallelism": "pipeline_model_parallel_size",
    "virtual_pipeline_parallelism": "virtual_pipeline_model_parallel_size",
    "context_parallelism": "context_parallel_size", "expert_parallelism": "expert_model_parallel_size",
    "expert_tensor_parallelism": "expert_tensor_parallel_size", "sequence_parallelism": "sequence_parallel",
}  # fmt: skip
# NeMo's MegatronStrategy and its default recipe for finetuning, where nothing is said.
SILENT: Record = {"--tensor-model-parallel-size": 1, "--pipeline-model-parallel-size": 1,
                  "--context-parallel-size": 1, "--expert-model-parallel-size": 1}  # fmt: skip
TUNING: Record = {"--global-batch-size": 128, "--micro-batch-size": 1, "--seq-length": 2048}
POSITIONS = ("model", "resume_path", "dir", "name", "num_nodes", "num_gpus_per_node")  # of default_finetune_recipe
OF_STRATEGY = ("ddp", "progress_interval", "checkpointing", "parallel_save", "store_optimizer_states")
OF_DDP = (
    "grad_reduce_in_fp32",
    "data_parallel_sharding_strategy",
    "use_custom_fsdp",
    "num_distributed_optimizer_instances",
)
OF_DATA = ("seq_length", "global_batch_size", "micro_batch_size")
OVERLAPS = ("tp_comm_overlap", "overlap_p2p_comm", "overlap_grad_reduce", "overlap_param_gather",
            "overlap_moe_expert_parallel_comm")  # fmt: skip


def is_nemo(made: Made) -> bool:
    """Return whether an object is a recipe of NeMo 2."""
    parts = sum(name in made.values for name in ("model", "trainer", "data", "optim"))
    known = re.search(r"(?:pretrain|finetune)_recipe$", made.name) is not None or made.last == "default_finetune_recipe"
    return parts >= 3 or (known and bool(made.values))


def import_nemo(code: Code, name: str, made: Made, file: str, given: Given, model: str) -> Imported:
    """Return the study that a recipe of NeMo 2 means. Raises ``ConfigError``."""
    f = Findings(Document({}, file), given)
    flags = Flags(f)
    named = model or _model(made)
    if not named:
        f.wrong((), f"the model of '{name}' is not one of the catalogue{_said(made)}; give --model NAME")
        f.problems.raise_if_any()
    own = made.find("trainer", "strategy") is not None or isinstance(made.values.get("trainer"), Made)
    if made.last == "default_finetune_recipe":
        flags.flags |= {**TUNING, **SILENT}
    _trainer(made, flags, f)
    _data(made, flags)
    config = made.find("model", "config")
    flags.take(config, "model.config", ("seq_length",))
    if isinstance(config, Made) and "--seq-length" not in flags.flags and "seq_length" in config.values:
        flags.set("seq_length", config.values["seq_length"], "model.config", config.lines.get("seq_length", 0))
    _optimizer(made, flags, f)
    _precision(made, flags, f)
    _adapters(made, f)
    if own and isinstance(made.find("trainer", "strategy"), Made) and not made.find("trainer", "strategy").is_implied:
        flags.flags = {**{flag: one for flag, one in SILENT.items() if flag not in flags.unknown}, **flags.flags}
    flags.flags.setdefault("--moe-token-dispatcher-type", "alltoall")  # of NeMo's models with experts
    flags.finish()
    missing = [name for name in missing_of(flags, f, named) if name != "sp" or not _has_strategy(made)]
    if missing:
        trainer = made.values.get("trainer")
        other = trainer.name if isinstance(trainer, Made) and not trainer.is_implied else made.name
        f.wrong((), f"{', '.join(missing)}: as '{other}' of another file has them, which is not read; give "
                f"{asked(missing)}")  # fmt: skip
    f.problems.raise_if_any()
    f.document.data.update(flags.flags)
    others = [
        f"{each}() (line {line})" for each, line in code.unread_of(made) if not each.endswith(("run", "pretrain"))
    ]
    if others:
        f.note(f"what these set is in another file, and not known: {', '.join(dict.fromkeys(others))}")
    read_on_model(Keys(f, flags.flags), f, named)
    return Imported(KIND, name, name, f"{file} ({KIND} {name})", own_fields(f, named), tuple(f.notes), model=named)


def _has_strategy(made: Made) -> bool:
    """Return whether the file itself makes the strategy, or the recipe's base is known."""
    strategy = made.find("trainer", "strategy")
    return made.last == "default_finetune_recipe" or (isinstance(strategy, Made) and not strategy.is_implied)


def _said(made: Made) -> str:
    config = made.find("model", "config")
    return f" ({config.last})" if isinstance(config, Made) else ""


def _model(made: Made) -> str:
    """Return the catalogue's model: by the class of its configuration, a checkpoint, or the recipe's own name."""
    model = made.values.get("model") or (made.args[0] if made.args and isinstance(made.args[0], Made) else None)
    config = model.find("config") if isinstance(model, Made) else None
    names: list[object] = []
    if isinstance(config, (Made, Reference)):
        names.append(config.last)
    if isinstance(model, Made):
        version = model.values.get("version")
        names += [
            version,
            *(each for each in model.args if isinstance(each, str)),
            *reversed(model.name.split(".")[:-1]),
        ]
    names += [each for each in made.args if isinstance(each, str)]
    return model_of_names(*names, *reversed(made.name.split(".")[:-1]))


def _trainer(made: Made, flags: Flags, f: Findings) -> None:
    """Take the strategy, devices, and what overlaps by a callback."""
    trainer = made.values.get("trainer")
    if made.last == "default_finetune_recipe":
        made.values |= {
            name: value for name, value in zip(POSITIONS, made.args, strict=False) if name not in made.values
        }
    if not isinstance(trainer, Made) or trainer.is_implied:
        _devices(made.values.get("num_nodes"), made.values.get("num_gpus_per_node", 8), f, made)
    if not isinstance(trainer, Made):
        return
    for key, name in DEGREES.items():
        if key in trainer.values:
            flags.set(name, trainer.values[key], "trainer", trainer.lines.get(key, trainer.line))
    strategy = trainer.values.get("strategy")
    if isinstance(strategy, Made):
        flags.take(strategy, "strategy", OF_STRATEGY)
        ddp = strategy.values.get("ddp")
        flags.take(ddp, "ddp", OF_DDP)
        if isinstance(ddp, Made) and ddp.values.get("grad_reduce_in_fp32") is False:
            flags.flags["--grad-reduce-in-bf16"] = True
    _overlaps(trainer, flags)
    if trainer.is_implied and not {"num_nodes", "devices"} & trainer.values.keys():
        return
    nodes = trainer.values.get("num_nodes", 1)
    _devices(nodes, trainer.values.get("devices", trainer.values.get("num_gpus_per_node", 8)), f, made)


def _overlaps(trainer: Made, flags: Flags) -> None:
    """Take what a callback lets run beside compute."""
    for each in trainer.values.get("callbacks") or []:
        if isinstance(each, Made) and each.last == "DeepEPCallback":
            flags.flags |= {"--moe-token-dispatcher-type": "flex", "--moe-enable-deepep": True}
        if isinstance(each, Made) and each.last == "MegatronCommOverlapCallback":
            for key in OVERLAPS:
                if key in each.values:
                    flags.set(key, each.values[key], "MegatronCommOverlapCallback", each.line)


def _devices(nodes: Any, each: Any, f: Findings, made: Made) -> None:
    if "gpus" in f.given:
        return
    if isinstance(nodes, int) and isinstance(each, int) and not isinstance(nodes, bool):
        f.set("gpus", nodes * each)
        f.note(f"gpus {nodes * each} are {nodes} nodes of {each} devices, as the recipe has them by default")
    elif made.find("trainer", "num_nodes") is not None or nodes is not None:
        f.missing("the number of devices is not literal; give --set gpus=N", "gpus")


def _data(made: Made, flags: Flags) -> None:
    data = made.values.get("data")
    if isinstance(data, Made):
        for key in OF_DATA:
            if key in data.values:
                flags.set(key, data.values[key], "data", data.lines.get(key, data.line))


def _optimizer(made: Made, flags: Flags, f: Findings) -> None:
    """Take the optimizer: distributed Adam, unless the file makes another."""
    optim = made.values.get("optim")
    flags.flags.setdefault("--use-distributed-optimizer", True)
    if not isinstance(optim, Made):
        return
    if (
        optim.last not in ("distributed_fused_adam_with_cosine_annealing", "MegatronOptimizerModule")
        and not optim.is_implied
    ):
        f.wrong((), f"the optimizer '{optim.last}' (line {optim.line}) is not known; only Megatron's distributed Adam")
    kind = optim.find("config", "optimizer")
    if isinstance(kind, str) and kind != "adam":
        flags.flags["--optimizer"] = kind
    spread = optim.find("config", "use_distributed_optimizer")
    if spread is False:
        flags.flags.pop("--use-distributed-optimizer", None)


def _precision(made: Made, flags: Flags, f: Findings) -> None:
    """Set the number format of the trainer's plugin: bf16, which recipes begin with, where nothing else is said."""
    trainer = made.values.get("trainer")
    plugins = trainer.values.get("plugins") if isinstance(trainer, Made) else None
    held = next(
        (each for each in (plugins if isinstance(plugins, (list, tuple)) else [plugins]) if each is not None), None
    )
    if held is None and isinstance(trainer, Made):
        held = trainer.values.get("precision")
    if isinstance(held, (NotLiteral, type(None))) or (isinstance(held, Made) and held.is_implied):
        if isinstance(held, NotLiteral):
            f.missing(f"the plugin {shown(held.text)} is not literal; give --set precision=bf16", "precision")
        held = "bf16_mixed"
        f.note("no number format is in the file: bf16, which NeMo's recipes begin with")
    if not set_precision(f, flags, held):
        f.missing(
            f"what {shown(getattr(held, 'name', held))} makes is not known; give --set precision=bf16", "precision"
        )
    flags.flags.setdefault("--bf16", f.fields.get("precision") not in ("fp16", "fp32"))


def _adapters(made: Made, f: Findings) -> None:
    """Set LoRA's adapters, with the rank and the layers that NeMo has by default."""
    peft = made.values.get("peft")
    if not isinstance(peft, Made) or (peft.is_implied and not peft.values):
        return
    if "dora" in peft.last.lower():
        f.wrong((), f"peft is {shown(peft.last)}: another adapter than LoRA is not modelled")
        return
    set_megatron_lora(peft.values, f)
