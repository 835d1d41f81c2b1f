"""How tools on transformers train: the model that they name, number formats, recomputation, sharding, the optimizer."""

from __future__ import annotations

import re

from comp_comm.configs.importers import deepspeed
from comp_comm.configs.importers.adapters import model_of
from comp_comm.configs.importers.fsdp import sharded_stage
from comp_comm.configs.importers.imported import Findings, Keys, is_off, shown
from comp_comm.configs.strict_yaml import Document, Path

ADAM = ("adamw_torch", "adamw_torch_fused", "adamw_hf", "adamw", "adam", "paged_adamw_32bit", "adamw_apex_fused")
EIGHT_BIT = ("adamw_8bit", "adamw_bnb_8bit", "paged_adamw_8bit", "adamw_torch_8bit")

BATCHES = ("micro_batch", "global_batch", "accumulation")  # the program says them, and DeepSpeed has them as they are
QUANTISED = re.compile(r"(?:^|[-_])(?:awq|gptq|bnb|int[48]|nf4|[48]bit|gguf|exl2|q[48]_\w+)(?:[-_]|$)", re.I)
# What a file of DeepSpeed is called after its stage: zero3, z3, ds_config_zero_2, stage3, ds3.
STAGE = re.compile(r"(?:zero|z|stage|ds|zero[_-]?stage)[_-]?([0-3])(?![0-9])", re.I)


def named_model(top: Keys, f: Findings, keys: tuple[str, ...], instead: str) -> str:
    """Return the model that a file names, or ``instead``, which a user gives; refuse a name that is not known."""
    source = str(top.take(*keys, default=""))
    if QUANTISED.search(source.rsplit("/", 1)[-1]):
        top.wrong(keys, f"{shown(source)} has weights of 4 or 8 bits, which are not modelled; give the file with the "
                  "model they were made of")  # fmt: skip
        f.problems.raise_if_any()
    known = instead or model_of(source)
    if not known:
        said = f"no model of the catalogue is {shown(source)}" if source else "it is not in the file"
        top.wrong(keys, f"{said}; give --model NAME, or --model FILE with its config.json")
        f.problems.raise_if_any()
    return known or ""


def not_modelled(top: Keys, others: dict[str, str]) -> None:
    """Refuse a file that asks for what is not modelled: nothing else of it is looked at."""
    for key, what in others.items():
        if not is_off(top.take(key)):
            top.wrong((key,), f"{what} is not modelled")
            top.findings.problems.raise_if_any()


def whole_weights(top: Keys, names: tuple[str, ...], quantised: bool) -> None:
    """Refuse weights of 4 or 8 bits under adapters."""
    stored = [name for name in names if not is_off(top.take(name))]
    if stored or quantised:
        top.wrong(tuple(stored) or ("adapter",), "weights of 4 or 8 bits under adapters (QLoRA) are not modelled; give "
                  "the file without them, as LoRA")  # fmt: skip
        top.findings.problems.raise_if_any()


def set_running(top: Keys, f: Findings, fsdp: tuple[str, str]) -> None:
    """Set format, recomputation, sharding and the optimizer: of a model of transformers, by PyTorch or DeepSpeed."""
    half = not is_off(top.take("bf16", default=True)), not is_off(top.take("fp16", "float16"))
    f.set("precision", "bf16" if half[0] else "fp16" if half[1] else "fp32")
    if not is_off(top.take("fp8")):
        f.set("precision", "fp8")
        f.set("recipe", "tensorwise")
    top.ignore(("fp8_backend",))
    top.off(("fp8_enable_fsdp_float8_all_gather",))
    if "recompute" not in f.fields:
        kept = top.take("gradient_checkpointing")
        if "offload" in str(kept):
            top.wrong(("gradient_checkpointing",), f"{shown(kept)}: activations in the host's memory are not modelled; "
                      "write true")  # fmt: skip
        f.set("recompute", "none" if is_off(kept) else "full")
    top.off(("activation_offloading",), "activations in the host's memory as PyTorch has them")
    compiled = not is_off(top.take("torch_compile"))
    f.set("kernels", "compiled" if compiled else "eager")
    config = top.take("deepspeed")
    sharded = sharded_stage(top, f, *fsdp)
    if not is_off(config):
        set_deepspeed(f, config, top.place("deepspeed"))
    else:
        f.fields.setdefault("zero", sharded)
    name = str(top.take("optimizer", "optim", default="adamw_torch"))
    if name == "muon":
        f.set("optimizer", "muon")
    elif name in EIGHT_BIT:
        f.set("optimizer_precision", "fp8")
    elif name not in ADAM:
        top.wrong(("optimizer", "optim"), f"{shown(name)}: another optimizer is not modelled; only AdamW and muon")
    if "gpus" not in f.fields:
        f.note("the devices are not in the file: give --set gpus=N")


def set_deepspeed(f: Findings, config: object, path: Path) -> None:
    """Set what a configuration of DeepSpeed says: one within the file, or the stage that is in the name of another."""
    if isinstance(config, dict):
        inner = deepspeed.import_deepspeed(Document(config, f.document.file, _within(f.document, path)), f.given)
        f.notes += [note for note in inner.notes if "auto" not in note]
        f.fields = {**f.fields, **{name: value for name, value in inner.fields.items() if name not in BATCHES}}
        return
    found = STAGE.search(str(config).rsplit("/", 1)[-1]) or STAGE.search(str(config))
    if found is None:
        f.missing(f"the ZeRO stage is in {shown(config)}, which is not read here; give --set zero=N", "zero")
        return
    f.set("zero", int(found[1]))
    f.note(f"zero {found[1]} is what the name {shown(config)} says: import that file, too")
    if f.count("zero", 0):
        f.set("zero_implementation", "deepspeed")
    f.set("overlap_dp", f.count("zero", 0) == 3)  # overlap_comm is on for stage 3 alone, unless the file says more
    if re.search(r"(?<!no_)(?<!no-)offload", str(config)):
        f.note(f"what {shown(config)} offloads is not counted: --set offload_optimizer=on counts the optimizer")


def _within(document: Document, path: Path) -> dict[Path, int]:
    """Return the lines of a part of a document, by paths within it."""
    return {place[len(path) :]: line for place, line in document.lines.items() if place[: len(path)] == path}
