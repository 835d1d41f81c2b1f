"""A point as a DeepSpeed JSON: ZeRO, batches, number formats. The model and the devices are not in it."""

from __future__ import annotations

import json
from collections.abc import Mapping

from comp_comm.configs.exporters.exported import Exported, Flags, cannot
from comp_comm.field import Value

KIND = "deepspeed"
# Degrees and choices that are the program's, not this file's.
ALONE = {"pp": 1, "cp": 1, "ep": 1}
# What a search tries that is written as this file.
TRIED: Mapping[str, tuple[Value, ...]] = {
    **{name: (only,) for name, only in ALONE.items()}, "recompute": ("none",), "sp": ("on",),
    "placement": ("tp-cp-dp-pp",),
}  # fmt: skip
NEEDED = ("fp32", "fp16", "bf16")


def export(point: Exported) -> str:
    """Return a JSON. Raises ``ConfigError`` where a layout has what this file cannot say."""
    for name, only in ALONE.items():
        if point.number(name) != only:
            raise cannot(KIND, name, point.number(name), f"give --{name} {only}")
    if point.word("recompute") != "none":
        raise cannot(KIND, "recompute", point.word("recompute"), "the program says so: give --recompute none")
    precision = point.word("precision")
    if precision not in NEEDED:
        raise cannot(KIND, "precision", precision, f"give --precision {', '.join(NEEDED)}")
    keys: Flags = {
        "train_batch_size": point.number("global_batch"),
        "train_micro_batch_size_per_gpu": point.number("micro_batch"),
        "bf16": {"enabled": precision == "bf16"}, "fp16": {"enabled": precision == "fp16"},
        "zero_optimization": _zero(point),
        "optimizer": {"type": "AdamW"},
    }  # fmt: skip
    if point.number("tp") > 1:
        keys["tensor_parallel"] = {"autotp_size": point.number("tp")}
    if point.word("grad_precision"):
        keys["communication_data_type"] = point.word("grad_precision")
    if point.word("accumulate_precision"):
        keys["data_types"] = {"grad_accum_dtype": point.word("accumulate_precision")}
    if point.word("kernels") == "compiled":
        keys["compile"] = {"disable": False}
    return json.dumps(keys, indent=2) + "\n"


def _zero(point: Exported) -> Flags:
    keys: Flags = {"stage": point.number("zero", 0), "overlap_comm": point.on("overlap_dp")}
    if point.values.get("bucket") is not None:
        keys["reduce_bucket_size"] = point.values["bucket"]
    if point.on("offload_optimizer"):
        keys["offload_optimizer"] = {"device": "cpu"}
    if point.values.get("dp_shard") is not None:
        keys["mics_shard_size"] = point.number("dp_shard")
    return keys
