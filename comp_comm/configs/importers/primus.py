"""A Primus experiment: a model by name, and what it overrides of Megatron-LM or torchtitan."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import PurePath

from comp_comm.configs import catalogue
from comp_comm.configs.importers import (
    megatron,
    megatron_layout,
    megatron_refused,
    megatron_sharding,
    torchtitan,
)
from comp_comm.configs.importers.imported import NOTHING, Findings, Given, Imported, Keys, is_off, shown
from comp_comm.configs.importers.launch import Launch
from comp_comm.configs.importers.megatron_named import own_fields, read_shape, set_chunks
from comp_comm.configs.importers.model_dimensions import dimensions_of
from comp_comm.configs.importers.primus_ignored import IGNORED, IGNORED_BEGINNINGS, MODELS, NOTED, OFF, OTHERS
from comp_comm.configs.model_names import catalogue_name
from comp_comm.configs.strict_yaml import Document, Path, resolve_scalar
from comp_comm.errors import nearest
from comp_comm.fields import Value
from comp_comm.records import Record

KIND = "Primus YAML"
ENVIRONMENT = re.compile(r"\$\{(\w+):([^{}]*)\}")
OWN_NAMES = ("PRIMUS_TEAM", "PRIMUS_USER", "PRIMUS_EXP_NAME", "PRIMUS_WORKSPACE")
FRAMEWORKS = ("megatron", "torchtitan")
# Switches of the model: the field, and what it is where they are on, and off.
FEATURES = {
    "swiglu": ("gated", "on", "off"), "qk_layernorm": ("qk_norm", "on", "off"), "add_qkv_bias": ("bias", "qkv", "off"),
    "untie_embeddings_and_output_weights": ("tied", "off", "on"), "add_bias_linear": ("bias", "on", "off"),
}  # fmt: skip
# What Primus's trainer has unless it is overridden: in bf16, with the distributed optimizer.
TRAINER = {
    "--bf16": True, "--use-distributed-optimizer": True, "--sequence-parallel": True, "--micro-batch-size": 2,
    "--global-batch-size": 16, "--seq-length": 1024, "--use-flash-attn": True,
}  # fmt: skip
# Switches that Megatron-LM has as their opposite.
OPPOSITES = {
    "overlap_p2p_comm": "--no-overlap-p2p-communication", "masked_softmax_fusion": "--no-masked-softmax-fusion",
    "scatter_gather_tensors_in_pipeline": "--no-scatter-gather-tensors-in-pipeline",
    "bias_swiglu_fusion": "--no-bias-swiglu-fusion", "apply_rope_fusion": "--no-rope-fusion",
    "torch_fsdp2_reshard_after_forward": "--torch-fsdp2-no-reshard-after-forward",
}  # fmt: skip


def fits(data: Record) -> int:
    """Return how well a mapping fits an experiment of Primus; 0 where it does not."""
    modules = data.get("modules")
    inner = list(modules.values()) if isinstance(modules, dict) else []
    return 5 if any(isinstance(each, dict) and "framework" in each for each in inner) else 0


def import_primus(document: Document, given: Given = NOTHING, model: str = "") -> Imported:
    """Return the study that an experiment of Primus describes; ``model`` stands in for the model it names.

    Raises ``ConfigError`` with everything in it that is not understood.
    """
    f = Findings(document, given)
    modules: Record = document.data["modules"]
    name, raw = next((key, each) for key, each in modules.items() if isinstance(each, dict) and "framework" in each)
    place: Path = ("modules", name)
    module = Keys(f, {key: _resolved(value, f) if key != "overrides" else value for key, value in raw.items()}, place)
    framework = str(module.take("framework"))
    if framework not in FRAMEWORKS:
        module.wrong(("framework",), f"{shown(framework)} of Primus is not imported; only {', '.join(FRAMEWORKS)}")
        f.problems.raise_if_any()
    if len(modules) > 1:
        f.note(f"of the modules, {name} is imported")
    named = model or _model(str(module.take("model", default="")), module, f)
    overrides = module.mapping_of("overrides") or Keys(f, {})
    mapping = {str(key): _resolved(value, f) for key, value in overrides.mapping.items()}
    if model or named:
        module.take("model")
    module.ignore(("config", "name", "trainer_class"))
    module.finish()
    if named and catalogue_name(named) is None:
        f.missing(f"--model {named}: a name of the catalogue is needed, for what the experiment overrides")
    f.problems.raise_if_any()
    title = str(_resolved(document.data.get("exp_name") or "", f)) or PurePath(document.file).stem
    if framework == "torchtitan":
        return _titan(document, mapping, overrides.path, named, title, given, f)
    flags = {**_of_experts(str(_resolved(raw.get("model", ""), f)), named), **_flags(mapping)}
    _read(Keys(f, flags, ()), f, mapping, named, overrides.path)
    own = own_fields(f, named)
    return Imported(
        KIND, PurePath(document.file).stem, title, f"{document.file} ({KIND})", own, tuple(f.notes), model=named
    )


def _resolved(value: object, f: Findings) -> object:
    """Return a value with variables of the environment at their defaults (``${PRIMUS_TP:1}``)."""
    if isinstance(value, dict):
        return {key: _resolved(inner, f) for key, inner in value.items()}
    if not isinstance(value, str) or not ENVIRONMENT.search(value):
        return value
    taken = [match[0] for match in ENVIRONMENT.findall(value)]
    begins = "not set, and taken as in the file: "
    before = next((note for note in f.notes if note.startswith(begins)), "")
    f.notes[:] = [note for note in f.notes if note != before]
    names = [*before.removeprefix(begins).split(", "), *(f"${name}" for name in taken if name not in OWN_NAMES)]
    if any(names):
        f.notes.insert(0, begins + ", ".join(dict.fromkeys(filter(None, names))))
    match = ENVIRONMENT.fullmatch(value)
    return resolve_scalar(match[2]) if match else ENVIRONMENT.sub(lambda part: part[2], value)


def _model(file: str, module: Keys, f: Findings) -> str:
    """Return the catalogue's model for the name of Primus's own file."""
    stem = PurePath(file).name.removesuffix(".yaml").lower().replace("_", "-")
    other = next((what for pattern, what in OTHERS if re.search(pattern, file.lower())), None)
    if other is not None:
        module.wrong(("model",), f"{shown(file)} is {other}, which is not modelled")
        f.problems.raise_if_any()
    plain = stem.removesuffix("-fp8").removesuffix("-bf16")
    dashed = re.sub(r"^(llama|gemma|yi|phi)(?=\d)", r"\1-", plain)
    known = MODELS.get(plain) or catalogue_name(plain) or catalogue_name(dashed)
    if known is None:
        guess = nearest(dashed, catalogue.names("model"))
        module.wrong(("model",), f"no model is called {shown(file)}{guess}; give --model NAME")
        return ""
    f.note(f"the model is the catalogue's {known}: {file} is another file, which is not read")
    if stem.endswith("-fp8"):
        f.set("precision", "fp8")
    return known


def _titan(document: Document, mapping: Record, path: Path, model: str, title: str, given: Given,
           f: Findings) -> Imported:  # fmt: skip
    """Return the study of an experiment with torchtitan: its sections are what is overridden."""
    turbo = mapping.pop("primus_turbo", None)
    data = {"training": {}, **{key: value for key, value in mapping.items() if key not in IGNORED}}
    lines = {place[len(path) :]: line for place, line in document.lines.items() if place[: len(path)] == path}
    inner = torchtitan.import_torchtitan(Document(data, document.file, lines), given, model)
    notes = [*f.notes, *inner.notes]
    if isinstance(turbo, dict) and not is_off(turbo.get("enable_primus_turbo")):
        notes.append("not modelled, and left out: the kernels of primus_turbo")
    fields = {**inner.fields, **({"precision": "fp8"} if f.fields.get("precision") == "fp8" else {})}
    return replace(inner, kind=KIND, name=PurePath(document.file).stem, title=title, fields=fields, notes=tuple(notes),
                   source=f"{document.file} ({KIND})")  # fmt: skip


def _of_experts(file: str, model: str) -> Record:
    """Return what Primus's own file of a model with experts has of their layout: all send tokens all to all."""
    if "experts" not in dimensions_of(model):
        return {}
    fused = not re.search(r"mixtral|grok", file.lower())
    on_eight = re.search(r"deepseek_v[23]|gpt_oss|llama4", file.lower())
    return {"--moe-token-dispatcher-type": "alltoall", "--moe-permute-fusion": fused,
            **({"--expert-model-parallel-size": 8} if on_eight else {})}  # fmt: skip


def _flags(mapping: Record) -> Record:
    """Return overrides as the arguments of Megatron-LM, with what Primus's trainer has beside them."""
    flags: Record = dict(TRAINER)
    for key, value in mapping.items():
        opposite = OPPOSITES.get(key)
        if opposite is not None:
            if value is False:
                flags[opposite] = True
        elif key not in IGNORED and key not in NOTED and key not in FEATURES and not key.startswith(IGNORED_BEGINNINGS):
            flag = "--" + key.replace("_", "-")
            flags[flag] = bool(value) if flag in megatron_layout.SWITCHES and value in (0, 1) else value
    synced = mapping.get("turbo_sync_free_moe_stage") in (2, 3)  # it turns DeepEP on
    if mapping.get("enable_primus_turbo") and (mapping.get("use_turbo_deepep") or synced):
        flags |= {"--moe-token-dispatcher-type": "flex", "--moe-enable-deepep": True,
                  "--moe-deepep-num-sms": mapping.get("turbo_deepep_num_cu")}  # fmt: skip
    return {flag: value for flag, value in flags.items() if value is not None and value is not False}


def _read(keys: Keys, f: Findings, mapping: Record, model: str, path: Path) -> None:
    """Set the fields of an experiment with Megatron-LM, on those of the model."""
    own = [place for place in f.document.lines if place[:-1] == path]
    f.document.lines.update({(f"--{str(place[-1]).replace('_', '-')}",): f.document.lines[place] for place in own})
    for key in OFF:
        value = mapping.get(key)
        if not is_off(value.get("enabled", value.get("enable")) if isinstance(value, dict) else value):
            f.wrong((*path, key), f"{shown(value)} is not modelled; leave it out, or off")
        keys.take("--" + key.replace("_", "-"))
    megatron_refused.refuse(keys)
    f.problems.raise_if_any()
    base = dimensions_of(model)
    f.fields = {**base, **f.fields}
    if keys.truth("--use-sink-attention") and "attention_sinks" not in base:
        f.set("attention_sinks", True)
    keys.ignore(("--sink-sliding-window", "--sink-window-even-layers-only", "--stage", "--trainer-class"))
    _features(f, mapping, base, path)
    megatron.without_lists(keys)
    keys.set("seq_len", "--seq-length")
    read_shape(keys, f)
    precision = f.fields.get("precision")
    megatron_layout.read(keys, f, {})
    if precision == "fp8":
        f.set("precision", "fp8")
    megatron_layout.devices(f, Launch([], "", []))
    megatron_sharding.instances(keys, f)
    keys.ignore(("--max-position-embeddings", "--tokenizer-type", "--tokenizer-model", "--model-type", "--params-dtype",
                 "--spec"))  # fmt: skip
    set_chunks(keys, f)
    noted = [key for key in NOTED if not is_off(mapping.get(key))]
    if noted:
        f.note(f"not modelled, and left out: {', '.join(noted)}")
    megatron.leave_out(keys, f)
    keys.finish()
    f.problems.raise_if_any()


def _features(f: Findings, mapping: Record, base: dict[str, Value], path: Path) -> None:
    """Set features of the model that are switched on or off; null takes a dimension back to none."""
    for key, (name, on, off) in FEATURES.items():
        if isinstance(mapping.get(key), bool):
            f.set(name, on if mapping[key] else off, (*path, key))
    if mapping.get("group_query_attention") is False:
        f.fields.pop("kv_heads", None)
        f.set("kv_heads", f.count("heads", 1))
    for key, name in (("mtp_num_layers", "mtp_layers"), ("num_experts", "experts")):
        if key in mapping and mapping[key] is None and name in base:
            f.set(name, 0, (*path, key))
    if mapping.get("multi_latent_attention") is False and "kv_lora_rank" in base:
        message = (
            "the catalogue's model has latent attention: another attention on it is not modelled; give --model NAME"
        )
        f.wrong((*path, "multi_latent_attention"), message)
