"""A point as a torchtitan TOML: a model by name and flavor, and the layout."""

from __future__ import annotations

import json

from comp_comm.configs.exporters.exported import Exported, Flags, cannot
from comp_comm.configs.importers.torchtitan import MODELS
from comp_comm.configs.importers.torchtitan_ignored import FLOAT8_RECIPES
from comp_comm.errors import ConfigError

KIND = "torchtitan"
FORMATS = {"bf16": "bfloat16", "fp32": "float32", "fp16": "float16", "fp8": "bfloat16"}
BACKENDS = {"all_to_all": "standard", "deepep": "deepep", "hybridep": "hybridep"}
ROTATIONS = {"all_gather": "allgather", "p2p": "alltoall"}
# What a search tries that is written as this file.
TRIED = {"placement": ("tp-cp-dp-pp",), "vpp": (1, 2), "cp_implementation": ("torch",), "overlap_ep": ("off",),
         "routed_weights": ("compute",)}  # fmt: skip
SCHEDULES = {"1f1b": "1F1B", "gpipe": "GPipe", "interleaved": "Interleaved1F1B"}


def export(point: Exported) -> str:
    """Return a TOML. Raises ``ConfigError`` where torchtitan has no key for a choice, or not the model."""
    sections: dict[str, Flags] = {
        "model": _model(point), "optimizer": {"name": "AdamW"}, "training": _training(point),
        "parallelism": _parallelism(point), "activation_checkpoint": _recompute(point),
        **_float8(point),
        "compile": _compiled(point),
    }  # fmt: skip
    lines = []
    for name, keys in sections.items():
        lines += [f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in keys.items() if value is not None)]
        lines.append("")
    return "\n".join(lines)


def _compiled(point: Exported) -> Flags:
    """Return what is compiled: where the loss is not given, it is with the model or not."""
    kernels, loss = point.word("kernels"), point.word("cross_entropy")
    if loss not in ("", "compiled", "eager"):
        raise cannot(KIND, "cross_entropy", loss, "give --cross-entropy compiled or eager")
    parts = {"model": kernels == "compiled", "loss": (loss or kernels) == "compiled"}
    names = [name for name, on in parts.items() if on]
    return {"enable": bool(names), "components": names or [*parts]}


def _model(point: Exported) -> Flags:
    name = next((pair for pair, known in MODELS.items() if known == point.model), None)
    if name is None:
        named = point.model or "a model without a name"
        known = ", ".join(MODELS.values())
        raise ConfigError(f"--emit {KIND}: torchtitan has no flavor that is {named}; give --model, one of {known}")
    converters = ["float8"] if point.word("precision") == "fp8" else []
    return {"name": name[0], "flavor": name[1].upper() if name[1][0].isdigit() else name[1], "converters": converters}


def _float8(point: Exported) -> dict[str, Flags]:
    recipe = point.word("recipe")
    if recipe not in ("", "none", *FLOAT8_RECIPES):
        raise cannot(KIND, "recipe", recipe, f"give --recipe {', '.join(FLOAT8_RECIPES)}")
    keys: Flags = {"enable_fsdp_float8_all_gather": point.on("fp8_param_gather") or None,
                   "recipe_name": recipe if recipe in FLOAT8_RECIPES else None}  # fmt: skip
    return {"float8": keys} if any(keys.values()) else {}


def _training(point: Exported) -> Flags:
    gradients = point.word("grad_precision") or "bf16"
    precision = point.word("precision")
    if precision not in FORMATS or gradients not in FORMATS:
        raise cannot(KIND, "precision", precision, "give --precision bf16, fp16, fp32 or fp8")
    replicas = point.number("dp")
    batch = point.number("micro_batch")
    if point.number("pp") > 1:  # a replica's batch, which the pipeline takes in pieces
        batch = point.number("global_batch") // replicas
    return {
        "seq_len": point.values.get("seq_len"), "local_batch_size": batch,
        "global_batch_size": point.values.get("global_batch"),
        "mixed_precision_param": FORMATS[precision], "mixed_precision_reduce": FORMATS[gradients],
        "dtype": "bfloat16" if point.word("optimizer_precision") == "bf16" else "float32",
    }  # fmt: skip


def _parallelism(point: Exported) -> Flags:
    zero, pp, cp, dp = (point.number(name) for name in ("zero", "pp", "cp", "dp"))
    sharded = (point.number("dp_shard", dp * cp) if zero else 1) // cp if zero else 1
    kept = zero == 1 or not point.on("reshard_after_forward")
    policy = ("never" if kept else "always" if pp > 1 else "default") if zero else None
    if zero and zero not in ((1, 3) if pp > 1 else (3,)) and dp * cp > 1:
        allowed = "1 or 3 with a pipeline" if pp > 1 else "0 or 3 without a pipeline"
        raise cannot(KIND, "zero", zero, f"FSDP2 is {allowed}: give one of them")
    if zero == 3 and dp * cp > 1:
        _as_fsdp2(point, pp > 1)
    if zero == 3 and point.word("optimizer_precision") != "bf16" and point.word("master_weights") != "shards":
        raise cannot(KIND, "master_weights", "copy", "FSDP2's shards are the master copy: give --master-weights shards")
    if not point.on("sp") and point.number("tp") > 1:
        raise cannot(KIND, "sp", "off", "give --sp on")
    if point.word("sequence_inputs") != "kept" and point.number("tp") > 1:
        raise cannot(KIND, "sequence_inputs", "again", "DTensor keeps them: give --sequence-inputs kept")
    if point.on("overlap_tp") and point.number("tp") > 1:
        raise cannot(KIND, "overlap_tp", "on", "give --overlap-tp async, or off")
    keys: Flags = {
        "data_parallel_replicate_degree": max(dp // max(sharded, 1), 1), "data_parallel_shard_degree": max(sharded, 1),
        "fsdp_reshard_after_forward": policy, "tensor_parallel_degree": point.number("tp"),
        "context_parallel_degree": cp, "pipeline_parallel_degree": pp,
        "enable_async_tensor_parallel": point.word("overlap_tp") == "async",
    }  # fmt: skip
    if cp > 1:
        way = point.word("cp_comm")
        if way not in ROTATIONS:
            raise cannot(KIND, "cp_comm", way, "give --cp-comm p2p or all_gather")
        whose = point.word("cp_implementation")
        if whose != "torch":
            raise cannot(KIND, "cp_implementation", whose, "give --cp-implementation torch")
        keys["context_parallel_rotate_method"] = ROTATIONS[way]
    if point.number("ep") > 1:
        way = point.word("ep_dispatch")
        if way not in BACKENDS:
            raise cannot(KIND, "ep_dispatch", way, f"give --ep-dispatch {', '.join(BACKENDS)}")
        keys |= {"expert_parallel_degree": point.number("ep"), "expert_parallel_comm_backend": BACKENDS[way],
                 "expert_tensor_parallel_degree": point.values.get("etp") or point.number("tp")}  # fmt: skip
    return keys | (_pipeline(point) if pp > 1 else {})


def _as_fsdp2(point: Exported, pipelined: bool) -> None:
    """Raise ``ConfigError`` where gradients and weights are sent otherwise than torchtitan does."""
    synced = "last" if pipelined else "micro_batch"
    for name, word in (("gradient_sync", synced), ("fsdp_units", "ends")):
        if point.word(name) != word:
            raise cannot(KIND, name, point.word(name), f"torchtitan does as --{name.replace('_', '-')} {word} says")
    if pipelined and not point.on("reshard_after_forward"):
        raise cannot(KIND, "reshard_after_forward", "off", "give --zero 1, which is that in a pipeline")
    if point.values.get("reshard_shards"):
        raise cannot(KIND, "reshard_shards", point.values["reshard_shards"], "leave it out")


def _pipeline(point: Exported) -> Flags:
    schedule = "interleaved" if point.chunks > 1 else point.word("schedule")
    if schedule not in SCHEDULES:
        raise cannot(KIND, "schedule", schedule, "give --schedule 1f1b or gpipe")
    if point.chunks > 2:
        raise cannot(KIND, "vpp", point.chunks, "give --vpp 1 or 2")
    even = point.number("layers") % (point.number("pp") * point.chunks) == 0
    counted = 0 if even and not point.word("pp_layout") else 1  # embedding and loss, in the place of a layer each
    return {"pipeline_parallel_schedule": SCHEDULES[schedule],
            "pipeline_parallel_first_stage_less_layers": counted,
            "pipeline_parallel_last_stage_less_layers": counted,
            "pipeline_parallel_microbatch_size": point.number("micro_batch")}  # fmt: skip


def _recompute(point: Exported) -> Flags:
    kind, layers = point.word("recompute"), point.number("recompute_layers", 0)
    early = {"early_stop": True} if point.on("recompute_early_stop") else {}
    if kind == "per_op":
        return {"mode": "selective", "selective_ac_option": "op"}
    if kind not in ("none", "full"):
        raise cannot(KIND, "recompute", kind, "give --recompute none, per_op or full")
    if kind == "full" and layers:
        each = point.number("layers") // point.number("pp")
        return {"mode": "selective", "selective_ac_option": str(max(each // layers, 1)), **early}
    return {"mode": kind, **early}
