"""A torchtitan TOML: a model of the catalogue by name and flavor, and the layout."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import PurePath
from typing import Any

from comp_comm.configs import catalogue
from comp_comm.configs.importers.imported import NOTHING, Findings, Given, Imported, Keys, shown
from comp_comm.configs.importers.megatron_layout import fewest_devices
from comp_comm.configs.model_names import catalogue_name
from comp_comm.configs.strict_yaml import Document, Path
from comp_comm.errors import ConfigError, MissingExtraError, Problem, nearest, one_of

KIND = "torchtitan TOML"
SECTION = re.compile(r"\s*\[([A-Za-z0-9_.\-]+)\]\s*(?:#.*)?$")
ENTRY = re.compile(r"\s*([A-Za-z0-9_\-]+)\s*=")
# What torchtitan calls a model, and the catalogue: name and flavor.
MODELS = {
    ("llama3", "8b"): "llama-3.1-8b", ("llama3", "70b"): "llama-3.1-70b", ("llama3", "405b"): "llama-3.1-405b",
    ("llama2", "7b"): "llama-2-7b", ("llama2", "13b"): "llama-2-13b", ("llama2", "70b"): "llama-2-70b",
    ("deepseek_v3", "16b"): "deepseek-v2-lite", ("deepseek_v3", "671b"): "deepseek-v3",
    ("llama4", "17bx16e"): "llama-4-scout", ("llama4", "17bx128e"): "llama-4-maverick",
    ("gpt_oss", "20b"): "gpt-oss-20b", ("gpt_oss", "120b"): "gpt-oss-120b",
}  # fmt: skip
IGNORED_SECTIONS = (
    "job", "profiling", "metrics", "optimizer", "lr_scheduler", "checkpoint", "validation", "comm", "fault_tolerance",
    "experimental", "memory_estimation", "debug",
)  # fmt: skip
IGNORED_TRAINING = (
    "max_norm", "steps", "dataset", "dataset_path", "seed", "deterministic", "gc_freq", "gc_debug", "warmup_steps",
    "debug_moe_force_load_balance",
)  # fmt: skip
IGNORED_MODEL = (
    "hf_assets_path", "tokenizer_path", "norm_type", "print_after_conversion", "converters", "tokenizer_type",
)  # fmt: skip
FORMATS = {"bfloat16": "bf16", "float32": "fp32", "float16": "fp16"}
DEGREES = {
    "tp": "tensor_parallel_degree", "pp": "pipeline_parallel_degree", "cp": "context_parallel_degree",
    "ep": "expert_parallel_degree", "etp": "expert_tensor_parallel_degree",
}  # fmt: skip
SCHEDULES = {"1f1b": ("1f1b", 1), "gpipe": ("gpipe", 1), "interleaved1f1b": ("interleaved", 2)}


def read_toml(text: str, file: str) -> Document:
    """Return a TOML text as data, with the line of every key. Raises ``ConfigError`` where it is not valid.

    >>> document = read_toml("[training]\\nseq_len = 8192", "a.toml")
    >>> document.data["training"]["seq_len"], document.lines[("training", "seq_len")]
    (8192, 2)
    """
    try:
        data = _toml().loads(text)
    except ValueError as error:
        raise ConfigError([Problem(f"not valid TOML: {error}", file=file)]) from None
    lines: dict[Path, int] = {}
    section: Path = ()
    for number, line in enumerate(text.split("\n"), 1):
        if match := SECTION.match(line):
            section = tuple(match[1].split("."))
            lines.setdefault(section, number)
        elif match := ENTRY.match(line):
            lines.setdefault((*section, match[1]), number)
    return Document(data, file, lines)


def _toml() -> Any:
    """Return the reader of TOML: Python's own, or before 3.11 the library it came from."""
    for name in ("tomllib", "tomli"):
        try:
            return import_module(name)
        except ImportError:
            continue
    raise MissingExtraError("reading TOML before Python 3.11", "toml")


def is_toml(text: str) -> bool:
    """Return whether a text looks like TOML: its first line that is no comment is a section or an entry."""
    first = next((line for line in text.split("\n") if line.strip() and not line.lstrip().startswith("#")), "")
    return bool(SECTION.match(first) or re.match(r"[A-Za-z0-9_\-.]+\s*=\s*[\"'\[{0-9tf]", first))


def has_sections(text: str) -> bool:
    """Return whether a text has lines that begin a section of TOML: [training]."""
    return any(SECTION.match(line) for line in text.split("\n"))


def fits(data: dict[str, Any]) -> int:
    """Return how well a mapping fits torchtitan's configuration; 0 where it does not."""
    if not isinstance(data.get("training"), dict):
        return 0
    return 2 * isinstance(data.get("model"), dict) + 2 * isinstance(data.get("parallelism"), dict)


def import_torchtitan(document: Document, given: Given = NOTHING, model: str = "") -> Imported:
    """Return the study that a torchtitan configuration describes; ``model`` stands in for the model it names.

    Raises ``ConfigError`` with everything that is not understood.
    """
    f = Findings(document, given)
    top = Keys(f, document.data)
    named = _model(top, f, model)
    training = top.mapping_of("training") or Keys(f, {})
    parallel = top.mapping_of("parallelism", "experimental") or Keys(f, {})
    training.set("seq_len", "seq_len", default=2048)
    training.set("micro_batch", "local_batch_size", "batch_size", default=8)
    batch = training.take("global_batch_size", default=-1)
    if batch != -1:
        f.set("global_batch", batch, training.place("global_batch_size"))
    _formats(top, training, f)
    if (training.truth("compile") or _on(top, "compile", f)) and not f.problems.found:
        f.set("kernels", "compiled")
    f.fields.setdefault("kernels", "eager")
    _degrees(training, parallel, f)
    _recompute(top, f, _layers_of(named))
    top.ignore(IGNORED_SECTIONS)
    training.ignore(IGNORED_TRAINING)
    for keys in (training, parallel, top):
        keys.finish()
    f.problems.raise_if_any()
    name = PurePath(document.file).stem
    job = document.data.get("job")
    title = str(job.get("description") or name) if isinstance(job, dict) else name
    return Imported(KIND, name, title, f"{document.file} ({KIND})", f.fields, tuple(f.notes), model=named)


def _model(top: Keys, f: Findings, instead: str) -> str:
    keys = top.mapping_of("model") or Keys(f, {})
    name, flavor = str(keys.take("name", default="")), str(keys.take("flavor", default=""))
    keys.ignore(
        ("hf_assets_path", "tokenizer_path", "norm_type", "print_after_conversion", "converters", "tokenizer_type")
    )
    converters = keys.mapping.get("converters") or []
    if any("float8" in str(each) or "mx" in str(each) for each in converters):
        f.set("precision", "fp8")
    top.ignore(("float8", "quantize", "mx"))
    keys.finish()
    if instead:
        return instead
    dashed = f"{name}-{flavor}".replace("_", "-").lower()
    found = MODELS.get((name, flavor.lower())) or catalogue_name(dashed)
    if found is None:
        known = [" ".join(pair) for pair in MODELS]
        guess = nearest(dashed, catalogue.names("model"))
        message = f"no model is called {shown(name)} {shown(flavor)}{guess} ({one_of(known)}, or give --model NAME)"
        f.wrong(("model", "flavor"), message)
        return ""
    return found


def _on(top: Keys, section: str, f: Findings) -> bool:
    keys = top.mapping_of(section)
    if keys is None:
        return False
    keys.ignore(("components", "backend", "fullgraph"))
    on = keys.truth("enable")
    keys.finish()
    return on


def _formats(top: Keys, training: Keys, f: Findings) -> None:
    weights = training.take("mixed_precision_param", default="bfloat16")
    reduced = training.take("mixed_precision_reduce", default="float32")
    dtype = training.take("dtype", default="float32")
    for name, value, key in (("precision", weights, "mixed_precision_param"),
                             ("grad_precision", reduced, "mixed_precision_reduce")):  # fmt: skip
        if f.fields.get(name) != "fp8":
            f.set(name, FORMATS.get(str(value), value), training.place(key))
    if dtype == "bfloat16":
        f.set("optimizer_precision", "bf16")
        f.note("dtype bfloat16 keeps no weights in 32 bit; a copy of them is counted")
    elif dtype != "float32":
        training.wrong(("dtype",), f"{shown(dtype)} is not understood; only float32 and bfloat16")


def _degrees(training: Keys, keys: Keys, f: Findings) -> None:
    for name, key in DEGREES.items():
        if not keys.set(name, key) and training.has(key):
            training.set(name, key)
    if f.count("ep") == 1:
        f.fields.pop("ep", None)
        f.fields.pop("etp", None)
    if not keys.truth("disable_loss_parallel"):
        keys.ignore(("enable_loss_parallel",))
    if keys.truth("enable_async_tensor_parallel"):
        f.set("overlap_tp", True)
    _data_parallel(training, keys, f)
    _context(keys, f)
    _pipeline(keys, f)
    keys.ignore(("enable_compiled_autograd",))
    if training.truth("enable_cpu_offload"):
        training.wrong(("enable_cpu_offload",), "offloading of weights is not understood; only false")


def _data_parallel(training: Keys, keys: Keys, f: Findings) -> None:
    """Set replicas and how many share states: -1 takes all devices that are left."""
    replicas = keys.take(
        "data_parallel_replicate_degree", default=training.take("data_parallel_replicate_degree", default=1)
    )
    shards = keys.take("data_parallel_shard_degree", default=training.take("data_parallel_shard_degree", default=-1))
    if type(replicas) is not int or type(shards) is not int:
        keys.wrong(("data_parallel_shard_degree",), "must be a whole number")
        return
    policy = keys.take("fsdp_reshard_after_forward", default="default")
    gathered_once = policy == "never" or (policy == "default" and f.count("pp") != 1)
    if policy not in ("default", "always", "never"):
        keys.wrong(("fsdp_reshard_after_forward",), f"{shown(policy)} is not understood; only default, always, never")
    f.set("zero", 0 if shards == 1 else 2 if gathered_once else 3)
    parts = f.count("tp", 1) * f.count("pp", 1) * f.count("cp", 1)
    if shards > 0:
        if replicas > 1 and shards > 1:
            f.set("dp_shard", shards * f.count("cp", 1))
        if "gpus" not in f.given:
            f.set("gpus", parts * shards * replicas)
    elif replicas > 1 and "gpus" not in f.given:
        f.missing("data_parallel_shard_degree -1 takes all devices that are left; give --set gpus=N", "gpus")
    elif "gpus" not in f.given:
        fewest_devices(f, "data_parallel_shard_degree -1 takes all devices, whose number is not in the file")
    if replicas > 1 and shards == -1 and "gpus" in f.given:
        f.missing("data_parallel_shard_degree -1 of several replicas: give --set dp_shard=N too", "dp_shard")


def _context(keys: Keys, f: Findings) -> None:
    way = keys.take("context_parallel_rotate_method", default="allgather")
    if f.count("cp") != 1:
        f.set("cp_comm", {"allgather": "all_gather", "alltoall": "p2p"}.get(str(way), way))


def _pipeline(keys: Keys, f: Findings) -> None:
    kind = str(keys.take("pipeline_parallel_schedule", default="1F1B"))
    size = keys.take("pipeline_parallel_microbatch_size", default=1)
    keys.ignore(("pipeline_parallel_schedule_csv", "pipeline_parallel_first_stage_less_layers",
                 "pipeline_parallel_last_stage_less_layers"))  # fmt: skip
    keys.only("pipeline_parallel_split_points", [])
    keys.only("module_fqns_per_model_part", None)
    each = keys.take("pipeline_parallel_layers_per_stage")
    if f.count("pp") == 1:
        return
    if kind.lower() not in SCHEDULES:
        keys.wrong(
            ("pipeline_parallel_schedule",), f"{shown(kind)} is not understood; only 1F1B, GPipe, Interleaved1F1B"
        )
        return
    schedule, chunks = SCHEDULES[kind.lower()]
    f.set("schedule", schedule)
    if chunks > 1:
        f.set("vpp", chunks)
    if each is not None:
        keys.wrong(("pipeline_parallel_layers_per_stage",), "is not understood; give --set vpp=N, and leave it out")
    # A stage takes a replica's batch in pieces of this size.
    batch = f.count("micro_batch", 1)
    f.set("micro_batch", size, keys.place("pipeline_parallel_microbatch_size"))
    if "global_batch" not in f.fields and type(size) is int and size > 0:
        f.set("accumulation", max(batch // size, 1))


def _layers_of(model: str) -> int | None:
    """Return the layers of a model of the catalogue."""
    name = catalogue_name(model)
    return None if name is None else int(catalogue.read("model", name).data["layers"])


def _recompute(top: Keys, f: Findings, layers: int | None) -> None:
    """Set what is recomputed: all, some operations (the core of attention, here), or every so-manieth layer whole."""
    keys = top.mapping_of("activation_checkpoint") or Keys(f, {})
    mode, option = str(keys.take("mode", default="selective")), str(keys.take("selective_ac_option", default="2"))
    keys.ignore(("per_op_sac_force_recompute_mm_shapes_by_fqns", "early_stop"))
    keys.finish()
    if mode not in ("none", "selective", "full"):
        keys.wrong(("mode",), f"{shown(mode)} is not understood; only none, selective, full")
    elif mode == "selective" and option.isdigit() and int(option) > 0 and layers:
        f.set("recompute", "full")
        if int(option) > 1:
            f.set("recompute_layers", max(layers // f.count("pp", 1) // int(option), 1))
    else:
        f.set("recompute", mode)
        if mode == "selective":
            f.note(f"selective activation checkpointing ({option}) is counted as recomputing the core of attention")
