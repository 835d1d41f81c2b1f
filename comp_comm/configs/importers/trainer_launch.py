"""What launches a program of Hugging Face's Trainer: how many devices, number formats and sharding by accelerate."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from comp_comm.configs.importers.devices import Devices
from comp_comm.configs.importers.imported import Findings, Keys
from comp_comm.configs.importers.launch import Launch
from comp_comm.configs.importers.running import STAGE, set_deepspeed
from comp_comm.configs.importers.shell_scope import is_undecided, is_unset
from comp_comm.configs.strict_yaml import resolve_scalar

# Of accelerate's flags, those that say how states are sharded.
FSDP = {"FULL_SHARD": 3, "SHARD_GRAD_OP": 2, "NO_SHARD": 0, "HYBRID_SHARD": 3, "HYBRID_SHARD_ZERO2": 2,
        "1": 3, "2": 2, "3": 0, "4": 3, "5": 2}  # fmt: skip
FORMATS = {"bf16": "bf16", "fp16": "fp16", "fp8": "fp8", "no": "fp32"}


def set_launch(launch: Launch, top: Keys, f: Findings, devices: Devices) -> None:
    """Set what the launcher of a command says: devices, and with accelerate a number format and sharding."""
    words = [word.rsplit("/", 1)[-1] for word in launch.launcher]
    by_environment = words[:1] == ["swift"]  # ms-swift starts a process for NPROC_PER_NODE by itself
    number = devices_of_environment(launch) if by_environment else devices.number
    if number is not None:
        f.set("gpus", number)
    if devices.note:
        f.note(devices.note)
    if "accelerate" not in words:
        return
    flags = flags_of(launch.launcher)
    outer = flags_of(launch.launcher[: words.index("accelerate")])
    if outer.get("num_nodes", "1") != "1" and "gpus" not in f.given:
        f.fields.pop("gpus", None)
        f.note("accelerate is started on several nodes by another program: give --set gpus=N")
    precision = FORMATS.get(flags.get("mixed_precision", ""))
    if precision is not None:
        f.set("precision", precision)
        top.mapping = {"bf16": precision == "bf16", "fp16": precision == "fp16", **top.mapping}
    _sharding(flags, top, f)


def _sharding(flags: Mapping[str, str], top: Keys, f: Findings) -> None:
    """Set the ZeRO stage that flags of accelerate say, or the name of its configuration."""
    named = flags.get("deepspeed_config_file") or flags.get("config_file")
    if "zero_stage" in flags and not is_unset(flags["zero_stage"]):
        f.set("zero", resolve_scalar(flags["zero_stage"]))
        f.set("zero_implementation", "deepspeed")
    elif "fsdp_sharding_strategy" in flags or "use_fsdp" in flags:
        f.set("zero", FSDP.get(flags.get("fsdp_sharding_strategy", "").upper(), 3))
    elif "deepspeed_config_file" in flags or (named and STAGE.search(named)):
        set_deepspeed(f, named, ())
    elif named and "fsdp" in named.lower():
        f.set("zero", 2 if "grad_op" in named.lower() else 3)
        f.note(f"zero {f.fields['zero']} is what the name '{named}' says: import that file, too")
    elif named and not top.has("deepspeed", "fsdp") and not re.search(r"ddp|multi_?gpu|single_gpu", named.lower()):
        f.missing(f"how states are sharded is in '{named}', which is not read here; give --set zero=N", "zero")
    elif "use_deepspeed" in flags and not top.has("deepspeed"):
        f.set("zero", 2)  # accelerate's default stage
        f.set("zero_implementation", "deepspeed")
    if named and "gpus" not in f.fields:
        f.note(f"how many devices there are is in '{named}': give --set gpus=N")


def flags_of(words: Sequence[str]) -> dict[str, str]:
    """Return the flags among words that launch a program, by names with underscores.

    >>> flags_of(["accelerate", "launch", "--num-processes", "8", "--use_fsdp", "--zero_stage=3"])
    {'num_processes': '8', 'use_fsdp': '', 'zero_stage': '3'}
    """
    flags: dict[str, str] = {}
    for place, word in enumerate(words):
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            after = words[place + 1] if place + 1 < len(words) and not words[place + 1].startswith("--") else ""
            flags[name.replace("-", "_")] = value if equals else after
    return flags


def devices_of_environment(launch: Launch) -> int | None:
    """Return the devices that variables of the environment say to ms-swift: one process, unless they say more."""
    said: Mapping[str, str] = {**launch.values, **launch.environment}
    each, nodes = said.get("NPROC_PER_NODE", "1"), said.get("NNODES", "1")
    if not (each.isdigit() and nodes.isdigit()) or is_undecided(each):
        return None
    return int(each) * int(nodes) or None
