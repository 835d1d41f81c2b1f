"""What Megatron-LM's arguments say of ZeRO: the stage, DeepSpeed's own configuration, and offloading."""

from __future__ import annotations

import re
from collections.abc import Mapping

from comp_comm.configs import strict_yaml
from comp_comm.configs.importers.deepspeed import import_deepspeed
from comp_comm.configs.importers.imported import Findings, Keys, shown
from comp_comm.configs.importers.shell_scope import MARK
from comp_comm.errors import ConfigError

SHARDED = {"no_shard": 0, "optim": 1, "optim_grads": 2, "optim_grads_params": 3}


def read(keys: Keys, f: Findings, files: Mapping[str, str]) -> None:
    """Set the ZeRO stage: of the distributed optimizer (1), of Megatron's FSDP, of PyTorch's (3), or of DeepSpeed."""
    distributed = keys.truth("--use-distributed-optimizer", "--use-layer-wise-distributed-optimizer")
    fsdp = keys.some("--use-megatron-fsdp", "--use-custom-fsdp")
    muon = _muon(keys, f)
    torch, once = keys.truth("--use-torch-fsdp2"), keys.truth("--torch-fsdp2-no-reshard-after-forward")
    place = ("--data-parallel-sharding-strategy",)
    stage = keys.choice(place, SHARDED, "no_shard")
    if "muon" in muon and (torch or fsdp):  # an assertion of arguments.py
        keys.wrong(("--use-torch-fsdp2" if torch else "--use-megatron-fsdp",), "Megatron-LM's FSDP does not take Muon")
    stage = (2 if once else 3) if torch else stage if fsdp else 1 if distributed or muon == "dist_muon" else 0
    _deepspeed(keys, f, files)
    if "zero" not in f.fields and stage is not None:
        f.set("zero", stage)
    offload, share = keys.truth("--optimizer-cpu-offload", "--cpu-optimizer"), keys.take("--optimizer-offload-fraction")
    if offload and share not in (0, 0.0):
        f.set("offload_optimizer", True)
        if share not in (None, 1, 1.0):
            message = "a part of the optimizer's states in host memory is not understood"
            keys.wrong(("--optimizer-offload-fraction",), message)


def _muon(keys: Keys, f: Findings) -> str:
    """Set Muon, its steps, and how it has matrices whole that TP splits; return the optimizer's name."""
    name = str(keys.take("--optimizer", default="adam"))
    steps, way = keys.take("--muon-num-ns-steps"), keys.take("--muon-tp-mode")
    ways = {"duplicated": "duplicated", "blockwise": "blockwise"}
    legacy = keys.truth("--no-use-layer-wise-param-layout")
    keys.ignore(key for key in keys.mapping if key.startswith("--muon-"))
    if "muon" not in name.lower():
        return name
    f.set("optimizer", "muon", ("--optimizer",))
    if steps is not None:
        f.set("muon_steps", steps, ("--muon-num-ns-steps",))
    if way is not None and str(way) not in ways:
        keys.wrong(("--muon-tp-mode",), f"{shown(way)} is not modelled; only {', '.join(ways)}")
    elif way is not None:
        f.set("muon_tp", ways[str(way)], ("--muon-tp-mode",))
    if legacy:
        f.note("--no-use-layer-wise-param-layout: gradients are counted as scattered, not as reduced to all devices")
    return name


def _deepspeed(keys: Keys, f: Findings, files: Mapping[str, str]) -> None:
    """Set what DeepSpeed's configuration says, where the script writes it; another file is not read."""
    config, used = keys.take("--deepspeed-config"), keys.truth("--deepspeed")
    written = files.get(str(config))
    if config is not None and written is not None:
        _written(f, written)
    elif config is not None and "zero" not in f.fields:
        f.missing(
            "the ZeRO stage is in the file of --deepspeed-config, which is not read here; give --set zero=N", "zero"
        )
        f.fields["zero"] = 0
    elif config is not None:
        f.note("the file of --deepspeed-config is not read: import it too for what it says of buckets and offloading")
    if used and f.fields.get("zero") == 0 and f.fields.get("precision") == "bf16" and "zero" not in f.given:
        f.set("zero", 1)
        f.note("DeepSpeed's optimizer for bf16 shards its states at stage 0, too: zero is 1")
    if used and f.count("zero", 0) > 0:
        f.set("zero_implementation", "deepspeed")
    keys.ignore(("--gradient-accumulation-fusion",))  # as is the default, and DeepSpeed has no sum that GEMMs add to
    unfused = keys.truth("--no-gradient-accumulation-fusion") or used
    if unfused and f.count("zero", 0) < (1 if used else 2):
        f.set("gradient_accumulation_fusion", False)


def _written(f: Findings, text: str) -> None:
    """Set the stage, buckets and offloading of a DeepSpeed configuration that the script itself writes."""
    text = re.sub(rf"(:\s*){MARK.pattern}(?=\s*[,}}])", r"\1null", text)  # what the script does not set
    try:
        document = strict_yaml.load(MARK.sub("?", text), "the file of --deepspeed-config")
        inside = import_deepspeed(document)
    except ConfigError as error:
        f.problems.add(error.problems[0])
        return
    zero = document.data.get("zero_optimization")
    if isinstance(zero, dict) and zero.get("stage") is None:
        if "zero" not in f.fields:
            f.missing("the ZeRO stage of --deepspeed-config is not set in the script; give --set zero=N", "zero")
        inside.fields.pop("zero", None)
    for name in ("zero", "bucket", "offload_optimizer", "grad_precision", "accumulate_precision", "overlap_dp"):
        if name in inside.fields and name not in f.given:
            if name == "zero" and f.fields.get("zero", inside.fields[name]) != inside.fields[name]:
                f.note(f"--zero-stage is {f.fields['zero']}, --deepspeed-config has {inside.fields[name]}: "
                       "the latter is what DeepSpeed does")  # fmt: skip
            f.fields[name] = inside.fields[name]


def instances(keys: Keys, f: Findings) -> None:
    """Set how many replicas share the optimizer's states, where there are several instances of it."""
    place = ("--num-distributed-optimizer-instances",)
    number = keys.number(*place, default=1) or 1
    if number == 1 or "dp_shard" in f.given:
        return
    replicas = f.count("gpus", 0) / (f.count("tp") * f.count("pp"))
    if "gpus" not in f.fields or replicas % number:
        message = "is not understood; leave it out, and give --set dp_shard=N for the devices of an instance"
        keys.wrong(place, message)
        return
    f.set("dp_shard", replicas / number, place)
