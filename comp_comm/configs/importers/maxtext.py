"""A configuration of MaxText: a YAML, or a script that starts training with ``key=value`` after its base.yml."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import PurePath

from comp_comm.configs.importers.arguments import left_open
from comp_comm.configs.importers.imported import NOTHING, Findings, Given, Imported, Keys, is_off, shown
from comp_comm.configs.importers.launch import Launch, Sought, find_launch
from comp_comm.configs.importers.maxtext_keys import BEGINNINGS, IGNORED, OFF, OTHER_SENSES
from comp_comm.configs.importers.maxtext_layout import read_layout, read_recomputation
from comp_comm.configs.importers.maxtext_model import read_model
from comp_comm.configs.importers.model_dimensions import dimensions_of
from comp_comm.configs.importers.shell_scope import names_in
from comp_comm.configs.importers.trainer_launch import flags_of
from comp_comm.configs.strict_yaml import Document, Path, resolve_scalar
from comp_comm.records import Record

KIND = "MaxText configuration"
ARGUMENT = re.compile(r"(?:(?:ici|dcn)_\w+_parallelism|per_device_batch_size|max_target_length|remat_policy|"
                      r"global_parameter_scale|base_emb_dim)=")  # fmt: skip
SOUGHT = Sought(re.compile(rf"(?<![-\w]){ARGUMENT.pattern}"), "MaxText", "a YAML of its keys")
SIGNS = ("per_device_batch_size", "max_target_length", "remat_policy", "base_config", "decoder_block",
         "enable_checkpointing", "base_emb_dim", "base_num_decoder_layers")  # fmt: skip
# Configurations of MaxText that do not train, by the name of what they build on.
OTHERS = re.compile(r"decode|inference|serve|eval")
FORMATS = {"bfloat16": "bf16", "float32": "fp32", "float16": "fp16"}
# Products in fewer bits: the recipe of their scales.
QUANTISED = {
    "fp8": ("fp8", "delayed"), "nanoo_fp8": ("fp8", "delayed"), "fp8_gpu": ("fp8", "delayed"),
    "fp8_nanoo": ("fp8", "delayed"), "fp8_full": ("fp8", "tensorwise"), "te_fp8_delayedscaling": ("fp8", "delayed"),
    "te_fp8_currentscaling": ("fp8", "tensorwise"), "te_mxfp8": ("fp8", "mxfp8"), "te_nvfp4": ("nvfp4", "nvfp4"),
    "te_nvfp4_no_rht": ("nvfp4", "nvfp4"), "te_noscaling": ("", ""),
}  # fmt: skip
KERNELS = {"autoselected": "flash_causal", "flash": "flash_causal", "cudnn_flash_te": "flash_causal",
           "cudnn_flash_jax": "flash_causal", "dot_product": "unfused"}  # fmt: skip


def fits(data: Record) -> int:
    """Return how well a mapping fits MaxText's; 0 where it does not.

    >>> fits({"model_name": "llama2-7b", "per_device_batch_size": 4, "remat_policy": "full"}), fits({"steps": 1})
    (3, 0)
    """
    axes = any(str(key).startswith(("ici_", "dcn_", "base_num_", "base_emb_")) for key in data)
    return 3 if axes or sum(key in data for key in SIGNS) >= 2 else 0


def import_maxtext(
    document: Document, given: Given = NOTHING, model: str = "", launch: Launch | None = None
) -> Imported:
    """Return the study that a configuration of MaxText describes. Raises ``ConfigError``.

    >>> mesh = {"ici_fsdp_parallelism": 8, "dcn_fsdp_parallelism": 4, "dcn_data_parallelism": 2}
    >>> data = {"model_name": "llama3.1-70b", "per_device_batch_size": 2, "max_target_length": 8192, **mesh}
    >>> found = import_maxtext(Document(data, "llama.yml"))
    >>> found.model, [found.fields[name] for name in ("gpus", "zero", "dp_shard", "micro_batch", "recompute")]
    ('llama-3.1-70b', [64, 3, 32, 2, 'full'])
    """
    f = Findings(document, given)
    keys = Keys(f, document.data)
    _not_training(keys, "" if launch is None else launch.program)
    rules = keys.mapping.get("logical_axis_rules")
    if isinstance(rules, list) and all(isinstance(rule, list) and rule[:1] == ["norm"] for rule in rules):
        keys.mapping = {**keys.mapping, "logical_axis_rules": None}  # weights of norms alone, which are few
    for name, what in OFF.items():
        keys.off((name,), what)
    f.problems.raise_if_any()
    if not keys.set("seq_len", "max_target_length", default=2048) or not keys.has("max_target_length"):
        f.note(f"max_target_length is not in the file: {f.fields['seq_len']}, MaxText's default, or what is given")
    known = read_model(keys, f, model)
    has_experts = f.count("experts", 0) > 1 or bool(dimensions_of(known).get("experts"))
    _formats(keys, f)
    devices, slices = _devices(launch, keys)
    read_layout(keys, f, devices, slices)
    if str(keys.mapping.get("weight_dtype", "float32")) == "float32" and f.count("zero", 0) == 3:
        f.set("master_weights", "shards")  # and cast to the products' format when they are gathered
    read_recomputation(keys, f, has_experts)
    _experts(keys, f, has_experts)
    _rest(keys, f)
    f.problems.raise_if_any()
    name = PurePath(document.file).stem
    return Imported(KIND, name, name, f"{document.file} ({KIND})", f.fields, tuple(f.notes), model=known)


def import_script(text: str, file: str, given: Given = NOTHING, model: str = "") -> Imported:
    """Return the study of the command of a script that starts MaxText. Raises ``ConfigError``."""
    launch = find_launch(text, file, SOUGHT)
    data: Record = {}
    for word in launch.arguments:
        name, equals, value = word.partition("=")
        if equals and re.fullmatch(r"[A-Za-z_]\w*", name):
            data[name] = resolve_scalar(value.strip("'\""))
    lines = _lines(text, data)
    f = Findings(Document({}, file, lines), given)
    left_open(launch.arguments, f)
    for line, message in launch.problems:
        f.wrong((), f"line {line}: {message}")
    kept: Record = {}
    for name, value in data.items():
        marks = names_in(value) if isinstance(value, str) else []
        if not marks:
            kept[name] = value
        elif name not in IGNORED and not name.startswith(BEGINNINGS) and not (name == "model_name" and model):
            f.wrong((name,), f"'${marks[0]}' is not set in the script"
                    + ("; give --model NAME" if name == "model_name" else ": set it there"))  # fmt: skip
    f.problems.raise_if_any()
    imported = import_maxtext(Document(kept, file, lines), given, model, launch)
    return replace(imported, notes=(*imported.notes, *f.notes, *launch.notes("MaxText")))


def _lines(text: str, data: Record) -> dict[Path, int]:
    found: dict[Path, int] = {}
    for number, line in enumerate(text.split("\n"), 1):
        for match in re.finditer(r"(?<![-\w])([A-Za-z_]\w*)=", line):
            if match[1] in data:
                found[(match[1],)] = number
    return found


def _not_training(keys: Keys, program: str) -> None:
    """Refuse what does not train a model on text."""
    where = str(keys.mapping.get("base_config", ""))
    last = program.removesuffix(".py").rsplit("/", 1)[-1].rsplit(".", 1)[-1]
    if OTHERS.search(where) or (program and not (names_in(program) or "train" in last)):
        keys.findings.wrong((), f"'{program or where}' makes no training step, which is not modelled")
    if re.search(r"(?:^|[./_])(?:rl|grpo|dpo|distill\w*)(?:$|[./_])", f"{program} {where}"):
        keys.findings.wrong((), f"'{program or where}': another loss than that of the next token is not modelled")
    keys.findings.problems.raise_if_any()


def _devices(launch: Launch | None, keys: Keys) -> tuple[int | None, int | None]:
    """Return the devices and slices that xpk, or a compilation for a topology, is given: v6e-256 has 256."""
    flags = {} if launch is None else flags_of(launch.launcher)
    kind = str(keys.take("compile_topology", default="") or flags.get("device_type") or flags.get("tpu_type") or "")
    number = keys.take("compile_topology_num_slices", "num_slices") or flags.get("num_slices", "1")
    slices = int(number) if str(number).isdigit() and int(number) > 0 else None
    match = re.fullmatch(r"(v4|v5p|v5litepod|v5e|v6e)-(\d+)", kind)
    if match is None or slices is None:
        return None, slices if "num_slices" in keys.mapping or "num_slices" in flags else None
    each = int(match[2]) // (2 if match[1] in ("v4", "v5p") else 1)  # which are counted by cores, two to a device
    return each * slices, slices


def _formats(keys: Keys, f: Findings) -> None:
    """Set number formats, the optimizer and kernels."""
    plain = keys.choice(("dtype",), FORMATS, "bfloat16")
    if plain is not None:
        f.set("precision", plain)
    name = str(keys.take("quantization", default="") or "").strip("\"'")
    if name and name not in QUANTISED:
        keys.wrong(("quantization",), f"{shown(name)} is not modelled; only {', '.join(QUANTISED)}")
    elif name and QUANTISED[name][0]:
        f.set("precision", QUANTISED[name][0])
        f.set("recipe", QUANTISED[name][1])
    weights = keys.choice(("weight_dtype",), FORMATS, "float32")
    if weights in ("bf16", "fp16"):
        f.note("weight_dtype: weights in 16 bits are trained without copies in 32, which are counted all the same")
    gradients = keys.choice(("grad_dtype",), FORMATS, "float32")
    if gradients is not None:
        f.set("grad_precision", gradients)
    kind = str(keys.take("opt_type", default="adamw"))
    if kind == "muon":
        f.set("optimizer", "muon")
    elif kind not in ("adamw", "adam_pax"):
        keys.wrong(("opt_type",), f"{shown(kind)}: another optimizer is not modelled; only adamw, adam_pax and muon")
    if not is_off(keys.take("mu_dtype")):
        f.note(f"mu_dtype: the first moment is counted as the second, not in {keys.mapping['mu_dtype']}")
    f.set("offload_optimizer", keys.truth("optimizer_memory_host_offload"))
    f.set("kernels", "compiled")
    way = keys.choice(("attention",), KERNELS, "autoselected")
    if way is not None:
        f.set("attention_kernel", way)


def _experts(keys: Keys, f: Findings, has_experts: bool) -> None:
    """Set how tokens go to experts: all of them, or up to a capacity."""
    factor = keys.number("capacity_factor", default=-1.0) or -1.0
    sparse = keys.truth("sparse_matmul", default=True)
    ring = keys.truth("use_ring_of_experts")
    keys.ignore(("megablox", "num_moe_token_chunks", "ragged_buffer_factor", "shard_exp_on_fsdp",
                 "use_2d_fsdp_sharding", "moe_fsdp_use_two_stage_all_gather", "num_moe_emb_chunks",
                 "use_ragged_sort"))  # fmt: skip
    if not has_experts:
        return
    if factor > 0 and not sparse:
        f.set("capacity_factor", factor)
    if f.count("ep") > 1:
        f.set("ep_dispatch", "all_gather" if ring else "all_to_all")


def _rest(keys: Keys, f: Findings) -> None:
    """Take what changes nothing; what is not known is named."""
    senses = [name for name in keys.mapping if any(part in str(name) for part in OTHER_SENSES)]
    if any(name for name in senses if str(name).endswith(("_for_vit", "_encoder_block"))):
        f.note("the encoder of images is not counted: the model reads text")
    keys.ignore((*IGNORED, *senses, *(name for name in keys.mapping if str(name).startswith(BEGINNINGS))))
    keys.finish()
