"""torchtitan's configurations in Python (config_registry.py): functions that make a Trainer.Config."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from comp_comm.configs.importers import torchtitan
from comp_comm.configs.importers.imported import Findings, Given, Imported, shown
from comp_comm.configs.importers.python_code import Code
from comp_comm.configs.importers.python_values import Made, NotLiteral, Reference
from comp_comm.configs.importers.recipes_flags import model_of_names
from comp_comm.configs.strict_yaml import Document, Path
from comp_comm.errors import nearest
from comp_comm.records import Record

KIND = "torchtitan configuration in Python"
SECTIONS = ("training", "parallelism", "compile", "optimizer")
CHECKPOINTING = {"FullAC": "full", "SelectiveAC": "selective", "MemoryBudgetAC": "memory_budget", "NoAC": "none"}
CONVERTERS = {"Float8LinearConverter": "float8", "Float8GroupedExpertsConverter": "float8",
              "MXFP8LinearConverter": "mx", "MXFP8GroupedExpertsConverter": "mx", "MXFP8Converter": "mx",
              "Float8GroupedMMConverter": "float8"}  # fmt: skip
# What they quantise by unless they say otherwise: components/quantization/float8.py and mx.py.
RECIPES = {"float8": "rowwise", "mx": "mxfp8_rceil"}
HARMLESS = ("decoder_vocab_size", "cast", "isinstance", "len")
DEFAULTS = {"tokens": 16384, "context": 2048}  # of TrainingConfig


def is_titan(made: Made) -> bool:
    """Return whether an object is a configuration of torchtitan's trainer."""
    return made.name.endswith("Trainer.Config") and "model_spec" in made.values


def import_titan(code: Code, name: str, made: Made, file: str, given: Given, model: str) -> Imported:
    """Return the study that a configuration of torchtitan means. Raises ``ConfigError``."""
    f = Findings(Document({}, file), given)
    lines: dict[Path, int] = {}
    data: Record = {section: _section(made, section, f, lines) for section in SECTIONS}
    spec = made.values["model_spec"]
    data["model"] = _model(spec, name, f)
    data |= _recipes(spec)
    known = model or _known(spec, name)
    if not known:
        told = data["model"].get("flavor", "?")
        guess = nearest(name, [" ".join(pair) for pair in torchtitan.MODELS])
        f.wrong((), f"no model of the catalogue is '{name}' with {shown(told)}{guess}; give --model NAME")
    _tokens(data, f)
    _checkpointing(made, data, f)
    _optimizer(made, data, f)
    _loss(made, f)
    f.problems.raise_if_any()
    own = {key: value for key, value in f.fields.items() if key not in given}
    imported = torchtitan.import_torchtitan(Document(data, file, lines), {**own, **given}, known)
    others = [f"{each}() (line {line})" for each, line in code.unread_of(made) if each not in HARMLESS]
    notes = [
        *imported.notes,
        *f.notes,
        *([f"what these set is in another file: {', '.join(others)}"] if others else []),
    ]
    return replace(imported, kind=KIND, name=name, title=name, notes=tuple(notes), source=f"{file} ({KIND} {name})",
                   model=known)  # fmt: skip


def _section(made: Made, section: str, f: Findings, lines: dict[Path, int]) -> Record:
    """Return the literal keys of a part of the configuration; those that are not are named."""
    held = made.values.get(section)
    found: Record = {}
    if isinstance(held, Made) and section != "optimizer":
        for key, value in held.values.items():
            if isinstance(value, NotLiteral) or (isinstance(value, Made) and not value.is_implied):
                text = value.text if isinstance(value, NotLiteral) else f"{value.name}()"
                f.wrong((), f"{section}.{key} = {text} is not a literal, and Python is not run; write it as one")
            elif not isinstance(value, Made):
                found[key] = value.last if isinstance(value, Reference) else value
                lines[(section, key)] = held.lines.get(key, held.line)
    return found


def _tokens(data: Record, f: Findings) -> None:
    """Set the sequences that a replica processes at once, and how many pass through a pipeline, as a TOML does."""
    training, parallel, compiled = data["training"], data["parallelism"], data["compile"]
    passes = parallel.pop("num_pp_microbatches", 1)
    for key in ("spmd_backend", "enable_fsdp_symm_mem", "context_parallel_ptrr_mask_key"):
        parallel.pop(key, None)
    if parallel.pop("enable_sequence_parallel", True) is False:
        f.set("sp", False)
    if compiled.pop("enable_async_tensor_parallel", False):
        parallel["enable_async_tensor_parallel"] = True
    length = training.pop("max_context_length", None)
    tokens = training.pop("num_tokens_per_microbatch_per_dp_rank", None)
    whole = training.pop("num_tokens_per_train_step", -1)
    for key in ("disable_cuda_graphs", "steps", "max_norm"):
        training.pop(key, None)
    if length is None and tokens is None:
        return
    length, tokens = length or DEFAULTS["context"], tokens or DEFAULTS["tokens"]
    training["seq_len"] = length
    if tokens % length:
        f.wrong((), f"num_tokens_per_microbatch_per_dp_rank {tokens} is no multiple of max_context_length {length}: "
                "sequences of different lengths are not modelled")  # fmt: skip
        return
    training["local_batch_size"] = tokens // length
    if parallel.get("pipeline_parallel_degree", 1) != 1:
        training["local_batch_size"] *= passes
        parallel.setdefault("pipeline_parallel_microbatch_size", tokens // length)
    if whole != -1:
        training["global_batch_size"] = whole // length


def _model(spec: Any, name: str, f: Findings) -> Record:
    """Return the section of the model: its flavor, and what its layers are converted to."""
    if not isinstance(spec, Made):
        f.wrong((), f"model_spec of '{name}' is not literal, and Python is not run; give --model NAME")
        return {}
    flavor = next((each for each in spec.args if isinstance(each, str)), str(spec.values.get("flavor", "")))
    names = []
    for word, each in _converters(spec):
        if word in CONVERTERS:
            names.append(CONVERTERS[word])
            _filters(each, f)
        elif "NVFP4" in word:
            f.wrong((), f"{word} (line {each.line}): number formats of 4 bit are not read from torchtitan")
        else:
            text = each.name if isinstance(each, Made) else getattr(each, "text", "a converter")
            f.wrong((), f"what {text} converts is not known")
    if spec.values.get("num_mtp_layers"):
        f.set("mtp_layers", spec.values["num_mtp_layers"])
    return {"flavor": flavor, "converters": list(dict.fromkeys(names))}


def _converters(spec: Any) -> list[tuple[str, Any]]:
    """Return the converters of a model's layers, each with its class."""
    held = spec.values.get("converters", spec.values.get("quantization", [])) if isinstance(spec, Made) else []
    return [(each.name.split(".")[-2] if isinstance(each, Made) and "." in each.name else "", each)
            for each in (held if isinstance(held, list) else [])]  # fmt: skip


def _recipes(spec: Any) -> Record:
    """Return the sections that say by which recipe layers run: rowwise unless a converter to fp8 says otherwise."""
    return {CONVERTERS[word]: {"recipe_name": made.values.get("recipe_name", RECIPES[CONVERTERS[word]])}
            for word, made in reversed(_converters(spec)) if word in CONVERTERS}  # fmt: skip


def _filters(made: Any, f: Findings) -> None:
    if isinstance(made, Made) and made.values.get("fqns") not in (None, [], ["layers"]):
        f.note("layers that a converter leaves as they are are counted as converted")


def _known(spec: Any, name: str) -> str:
    """Return the catalogue's model of a configuration: torchtitan's family and flavor are in its name."""
    flavor = next((each for each in spec.args if isinstance(each, str)), "") if isinstance(spec, Made) else ""
    plain = re.sub(r"^graph_trainer_|^torchft_", "", name)
    for (family, size), known in torchtitan.MODELS.items():
        if plain.startswith(f"{family}_") and flavor.lower() == size:
            return known
    found = re.match(r"[a-z]+(?:_?[a-z])*\d*(?:_\d(?!\d*[bm]))?", plain)
    return model_of_names(f"{found[0]}_{flavor}" if found else "", *([] if flavor else [plain]))


def _checkpointing(made: Made, data: Record, f: Findings) -> None:
    held = made.values.get("activation_checkpoint")
    if held is None or (isinstance(held, Made) and held.is_implied):
        data["activation_checkpoint"] = {"mode": "none"}
        return
    word = held.name.split(".")[0] if isinstance(held, Made) else getattr(held, "text", str(held))
    if word not in CHECKPOINTING:
        f.wrong((), f"activation_checkpoint is {shown(word)}; only {', '.join(CHECKPOINTING)}")
        return
    data["activation_checkpoint"] = {"mode": CHECKPOINTING[word]}
    if CHECKPOINTING[word] == "selective":
        option = held.values.get("selective_ac_option") if isinstance(held, Made) else None
        data["activation_checkpoint"]["selective_ac_option"] = option or "op"


def _optimizer(made: Made, data: Record, f: Findings) -> None:
    """Take the optimizer: AdamW, or what another name says."""
    data.pop("optimizer", None)
    held = made.values.get("optimizer")
    if not isinstance(held, Made) or held.is_implied:
        return
    word = held.last if held.last != "Config" else held.name.split(".")[-2]
    if "muon" in word.lower():
        f.wrong((), f"{word}: Muon of torchtitan is not read; give the file with AdamW, and --set optimizer=muon")
    elif word not in ("default_adamw", "OptimizersContainer", "AdamW"):
        f.wrong((), f"the optimizer '{word}' (line {held.line}) is not known; only AdamW")
    name = held.values.get("name", "AdamW")
    if isinstance(name, str) and name not in torchtitan.ADAM:
        f.wrong((), f"the optimizer {shown(name)} is not modelled; only {', '.join(torchtitan.ADAM)}")


def _loss(made: Made, f: Findings) -> None:
    held = made.values.get("loss")
    if isinstance(held, Made) and held.name.startswith("ChunkedLossWrapper"):
        f.set("cross_entropy", "chunked")
        chunks = held.values.get("num_chunks", 8)
        if isinstance(chunks, int):
            f.set("loss_chunks", chunks)
