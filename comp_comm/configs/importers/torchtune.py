"""A recipe of torchtune: the model that it names, adapters, and how it is trained."""

from __future__ import annotations

import re
from pathlib import PurePath

from comp_comm.configs.importers.adapters import model_of, set_adapters
from comp_comm.configs.importers.imported import NOTHING, Findings, Given, Imported, Keys, is_off, shown
from comp_comm.configs.importers.nemo_references import resolve
from comp_comm.configs.importers.torchtitan_ignored import FLOAT8_RECIPES
from comp_comm.configs.strict_yaml import Document
from comp_comm.records import Record

KIND = "torchtune recipe"
COMPONENT = "_component_"
IGNORED = """
    output_dir checkpointer resume_from_checkpoint seed shuffle epochs max_steps_per_epoch metric_logger device
    log_level log_every_n_steps log_peak_memory_stats profiler lr_scheduler save_adapter_weights_only dataset
    dataset_val run_val_every_n_steps batch_size_val clip_grad_norm collate_fn low_cpu_ram custom_sharded_layers name
    base_model_path save_every_n_epochs memory_efficient_fsdp_wrap num_workers dataloader
"""
OTHERS = {
    "teacher_model": "distillation from a second model", "policy_model": "reinforcement learning",
    "ref_checkpointer": "preferences against a second model", "quantizer": "quantised training",
    "grpo_samples": "reinforcement learning",
}  # fmt: skip
ADAM = ("AdamW", "PagedAdamW", "AdamW8bit", "PagedAdamW8bit", "Adam")
FORMATS = {"bf16": "bf16", "fp16": "fp16", "fp32": "fp32"}


def fits(data: Record) -> int:
    """Return how well a mapping fits a recipe: a model of torchtune's, or a model and an optimizer, as components."""
    parts = [data.get(name) for name in ("model", "optimizer", "tokenizer")]
    if isinstance(parts[0], dict) and str(parts[0].get(COMPONENT)).startswith("torchtune."):
        return 4
    return 4 if sum(isinstance(part, dict) and COMPONENT in part for part in parts) > 1 else 0


def import_torchtune(document: Document, given: Given = NOTHING, model: str = "") -> Imported:
    """Return the study that a recipe describes; the devices it runs on are not in it.

    Raises ``ConfigError`` with everything in it that is not understood.
    """
    f = Findings(document, given)
    top = Keys(f, resolve(document.data, document.file))
    for key, what in OTHERS.items():
        if top.take(key) is not None:
            top.wrong((key,), f"{what} is not modelled")
            f.problems.raise_if_any()
    known = _model(top, f, model)
    tokenizer = top.mapping_of("tokenizer") or Keys(f, {})
    if not tokenizer.set("seq_len", "max_seq_len"):
        f.missing(
            "tokenizer.max_seq_len is not given: sequences are as long as they come; give --set seq_len=N", "seq_len"
        )
    top.set("micro_batch", "batch_size")
    if not top.set("accumulation", "gradient_accumulation_steps") or "global_batch" in given:
        f.fields.pop("accumulation", None)
    _running(top, f)
    _optimizer(top, f)
    recipe = top.take("fp8_recipe_name", default="tensorwise")
    if top.truth("enable_fp8_training"):
        f.set("precision", "fp8")
        if recipe in FLOAT8_RECIPES:
            f.set("recipe", recipe, top.place("fp8_recipe_name"))
        else:
            top.wrong(("fp8_recipe_name",), f"{shown(recipe)} is not understood; only {', '.join(FLOAT8_RECIPES)}")
    top.ignore(IGNORED.split())
    top.finish()
    f.problems.raise_if_any()
    name = PurePath(document.file).stem
    return Imported(KIND, name, name, f"{document.file} ({KIND})", f.fields, tuple(f.notes), model=known or "")


def _model(top: Keys, f: Findings, instead: str = "") -> str | None:
    """Return the catalogue's name of the model, or ``instead``; set its adapters."""
    keys = top.mapping_of("model") or Keys(f, {})
    component = str(keys.take(COMPONENT, default=""))
    name = component.rsplit(".", 1)[-1]
    kind = re.match(r"(q?lora|dora)_", name)
    based = not is_off(keys.take("quantize_base"))
    if kind and (kind[1] == "qlora" or based):
        f.set("frozen_precision", "nf4", keys.place("quantize_base" if based else COMPONENT))  # torchao's NF4Tensor
    if kind and kind[1] == "dora":
        keys.wrong((COMPONENT,), f"{shown(component)}: DoRA is not modelled; its lora_ model is")
    if kind:
        _adapters(keys, f)
    known = instead or model_of(name.removeprefix(kind[0]) if kind else name)
    if known is None:
        keys.wrong((COMPONENT,), f"no model of the catalogue is {shown(component)}; give --model NAME")
    return known


def _adapters(keys: Keys, f: Findings) -> None:
    modules = keys.mapping.get("lora_attn_modules", ["q_proj", "v_proj"])
    if keys.truth("apply_lora_to_mlp") and isinstance(modules, list):
        modules = [*modules, "gate_proj", "up_proj", "down_proj"]
    if keys.truth("apply_lora_to_output"):
        keys.wrong(("apply_lora_to_output",), "adapters of the output layer are not modelled; leave it out")
    keys.mapping = {**keys.mapping, "lora_attn_modules": modules}
    set_adapters(keys, f, ("lora_rank",), ("lora_attn_modules",))
    if "lora_rank" not in f.fields:
        f.set("lora_rank", 8)
    keys.ignore(("lora_alpha",))
    keys.off(("use_dora",), "DoRA, which keeps the norms of what it trains")
    if not is_off(keys.take("lora_dropout")):
        f.note("lora_dropout: masks of its inputs are not counted")


def _running(top: Keys, f: Findings) -> None:
    """Set format, recomputation, compilation, and FSDP, unless the recipe is for one device."""
    precision = top.choice(("dtype",), FORMATS, "bf16")
    if precision is not None:
        f.set("precision", precision)
    f.set("recompute", "full" if top.truth("enable_activation_checkpointing") else "none")
    compiled = top.take("compile", default=False)
    f.set("kernels", "eager" if is_off(compiled) else "compiled")
    top.off(("enable_activation_offloading",), "activations in the host's memory as torchtune has them")
    top.off(("fsdp_cpu_offload",), "weights in the host's memory")
    single = "single_device" in PurePath(f.document.file).name
    f.set("zero", 0 if single else 3)
    if single:
        f.set("gpus", 1)
    top.set("tp", "tensor_parallel_dim")
    top.ignore(("tensor_parallel_plan", "ac_option"))
    if not is_off(top.take("ac_mode")):
        f.note("ac_mode: activations are counted as kept; --set recompute=per_op or full counts them as made again")
    if top.truth("optimizer_in_bwd"):
        f.note("optimizer_in_bwd: gradients are counted as kept to the end of the step")
    _replicas(top, f)
    top.ignore(("fsdp",))
    loss = top.mapping_of("loss")
    if loss is not None:
        chunked = any(word in str(loss.take(COMPONENT)) for word in ("Chunked", "LinearCrossEntropy"))
        f.set("cross_entropy", "chunked" if chunked else f.fields["kernels"])
        if chunked:
            loss.set("loss_chunks", "num_output_chunks")
        loss.ignore(tuple(loss.mapping))
    if "gpus" not in f.fields:
        f.note("the devices are not in a recipe (they are of tune run): give --set gpus=N")


def _replicas(top: Keys, f: Findings) -> None:
    """Set how many devices share states, and how many there are; -1 are all that are left."""
    shards, replicas = (top.number(f"data_parallel_{name}_dim", default=usual) or usual
                        for name, usual in (("shard", -1), ("replicate", 1)))  # fmt: skip
    if shards > 0 and "gpus" not in f.given:
        f.set("gpus", shards * replicas * f.count("tp"))
    if replicas > 1 and shards > 0:
        f.set("dp_shard", shards, ("data_parallel_shard_dim",))
    elif replicas > 1:
        f.missing("data_parallel_shard_dim -1 of several replicas: give --set dp_shard=N", "dp_shard")


def _optimizer(top: Keys, f: Findings) -> None:
    keys = top.mapping_of("optimizer")
    if keys is None:
        return
    name = str(keys.take(COMPONENT, default="torch.optim.AdamW")).rsplit(".", 1)[-1]
    if name not in ADAM:
        keys.wrong((COMPONENT,), f"{shown(name)}: another optimizer is not modelled; only {', '.join(ADAM)}")
    keys.ignore(tuple(keys.mapping))
    if "8bit" in name:
        f.set("optimizer_precision", "fp8")
    elif f.fields.get("precision") == "bf16":
        f.set("optimizer_precision", "bf16")
        if "lora_rank" not in f.fields:
            f.note("torchtune trains weights of 16 bits without copies in 32: these are counted all the same")
