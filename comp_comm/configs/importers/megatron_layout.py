"""The layout in Megatron-LM's arguments: degrees, batches, number formats, what is recomputed and what overlaps."""

from __future__ import annotations

import math
from collections.abc import Mapping

from comp_comm.configs.importers import megatron_sharding, megatron_stages
from comp_comm.configs.importers.devices import devices_of
from comp_comm.configs.importers.dispatch import read_dispatch
from comp_comm.configs.importers.imported import Findings, Keys, is_off, shown
from comp_comm.configs.importers.launch import Launch
from comp_comm.configs.importers.loss import set_loss
from comp_comm.configs.importers.recomputation import set_modules, set_offloading

NUMBERS = {
    "--tensor-model-parallel-size": "tp", "--pipeline-model-parallel-size": "pp", "--context-parallel-size": "cp",
    "--expert-model-parallel-size": "ep", "--expert-tensor-parallel-size": "etp", "--micro-batch-size": "micro_batch",
    "--global-batch-size": "global_batch", "--zero-stage": "zero", "--ddp-bucket-size": "bucket",
    "--zero-reduce-bucket-size": "bucket", "--gas": "accumulation",
}  # fmt: skip
SPELLINGS = {
    "--tensor-model-parallel-size": ("--model-parallel-size",), "--micro-batch-size": ("--batch-size",),
    "--expert-model-parallel-size": ("--moe-expert-parallel-size",),
    "--pipeline-model-parallel-size": ("--pipe-parallel-size",),
}  # fmt: skip
SWITCHES = (
    "--sequence-parallel", "--bf16", "--fp16", "--use-distributed-optimizer", "--overlap-grad-reduce", "--swiglu",
    "--overlap-param-gather", "--tp-comm-overlap", "--use-flash-attn", "--recompute-activations", "--use-mcore-models",
    "--untie-embeddings-and-output-weights", "--disable-bias-linear", "--group-query-attention", "--deepspeed",
    "--checkpoint-activations", "--cross-entropy-loss-fusion", "--no-cross-entropy-loss-fusion",
)  # fmt: skip
CONTEXT = {"p2p": "p2p", "all_gather": "all_gather", "allgather": "all_gather", "a2a": "all_to_all"}
BACKENDS = {"auto": False, "flash": False, "fused": False, "unfused": True, "local": True}  # whether scores are kept
IMPLEMENTATIONS = {"transformer_engine": False, "local": True, "inference_optimized": False, "modelopt": True}
OLDER = ("--deepspeed", "--checkpoint-activations", "--DDP-impl", "--ddp-impl", "--use-contiguous-buffers-in-local-ddp")
FORMATS = {"fp32": "fp32", "bf16": "bf16", "fp16": "fp16", "fp8": "fp8"}


def read(keys: Keys, f: Findings, files: Mapping[str, str]) -> None:
    """Set the fields of the layout; ``files`` are what the script writes, DeepSpeed's configuration among them."""
    for flag, name in NUMBERS.items():
        keys.set(name, flag, *SPELLINGS.get(flag, ()))
    ulysses = keys.number("--ds-sequence-parallel-size", default=1) or 1
    if ulysses != 1:
        f.set("cp", ulysses, ("--ds-sequence-parallel-size",))
        f.set("cp_comm", "all_to_all")
    keys.ignore(("--force-ds-sequence-parallel",))
    _pipeline(keys, f)
    megatron_stages.read(keys, f)
    _formats(keys, f)
    megatron_sharding.read(keys, f, files)
    _recompute(keys, f)
    set_offloading(keys, f, "--cpu-offloading-num-layers")
    _kernels(keys, f)
    set_loss(keys, f, "--cross-entropy-loss-fusion", "--cross-entropy-fusion-impl",
             off="--no-cross-entropy-loss-fusion")  # fmt: skip
    _overlap(keys, f)
    _dispatch(keys, f)


def _pipeline(keys: Keys, f: Findings) -> None:
    f.set("sp", keys.truth("--sequence-parallel"))
    each, chunks = keys.number("--num-layers-per-virtual-pipeline-stage"), keys.number(
        "--num-virtual-stages-per-pipeline-rank")  # fmt: skip
    layers, stages = f.count("layers", 0), f.count("pp", 1)
    if each:
        chunks = layers / stages / each
    if chunks and chunks != 1 and stages > 1:
        f.set("vpp", chunks, keys.place("--num-layers-per-virtual-pipeline-stage",
                                        "--num-virtual-stages-per-pipeline-rank"))  # fmt: skip
    if keys.truth("--enable-zbh1-pipeline") and stages > 1:
        f.set("schedule", "zero_bubble")
    keys.ignore(("--overlap-p2p-communication",))  # as is the default
    if keys.truth("--use-tp-pp-dp-mapping"):
        f.set("placement", "tp-cp-pp-dp")
    if keys.truth("--no-scatter-gather-tensors-in-pipeline"):
        f.set("scatter_gather", False)


def _recipe(keys: Keys, f: Findings, fp8: bool) -> None:
    """Set how GEMMs run in fp8, where that is on."""
    recipe, gathers = keys.take("--fp8-recipe"), keys.some("--fp8-param-gather", "--fp8-param")
    if fp8 and recipe == "custom":
        f.note("a custom fp8 recipe is counted as the usual one of the device")
    elif fp8 and str(recipe).startswith("rowwise"):
        keys.wrong(("--fp8-recipe",), f"{recipe} is torchao's; give tensorwise, delayed, mxfp8 or blockwise")
    elif fp8 and recipe:
        f.set("recipe", recipe, keys.place("--fp8-recipe"))
    if fp8 and gathers:
        f.set("fp8_param_gather", True)


def _formats(keys: Keys, f: Findings) -> None:
    bf16, fp16 = keys.truth("--bf16"), keys.truth("--fp16")
    named, switched = keys.take("--fp8-format", "--fp8"), keys.some("--fp8-hybrid", "--fp8-e4m3")
    fp8 = switched or not is_off(named)
    f.set("precision", "fp8" if fp8 else "bf16" if bf16 else "fp16" if fp16 else "fp32")
    _recipe(keys, f, fp8)
    in_32, in_bf16 = keys.truth("--accumulate-allreduce-grads-in-fp32"), keys.truth("--grad-reduce-in-bf16")
    if in_bf16:
        f.set("grad_precision", "bf16")
    elif in_32 or bf16:  # Megatron-LM reduces gradients of bf16 weights in fp32
        f.set("grad_precision", "fp32")
    moments = [keys.take(flag) for flag in ("--exp-avg-dtype", "--exp-avg-sq-dtype")]
    keys.ignore(("--use-precision-aware-optimizer",))
    if keys.take("--main-params-dtype", "--megatron-fsdp-main-params-dtype", default="fp32") not in ("fp32", "auto"):
        f.note("weights that the optimizer keeps in 16 bit are counted as those in 32 bit")
    if keys.truth("--use-bnb-optimizer"):
        f.set("optimizer_precision", "fp8")
        f.note("the two moments of 8-bit Adam are counted as fp8, a byte each")
    gradients = keys.take("--main-grads-dtype", "--megatron-fsdp-main-grads-dtype")
    reduced = keys.take("--megatron-fsdp-grad-comm-dtype")
    gradients = reduced if reduced not in (None, "auto") else None if gradients == "auto" else gradients
    for name, value, flag in (("optimizer_precision", moments[0], "--exp-avg-dtype"),
                              ("grad_precision", gradients, "--main-grads-dtype")):  # fmt: skip
        if value is not None:
            f.set(name, FORMATS.get(str(value), value), (flag,))
    if moments[0] != moments[1]:
        keys.wrong(("--exp-avg-sq-dtype",), "another format than that of --exp-avg-dtype is not understood")


def _recompute(keys: Keys, f: Findings) -> None:
    recomputed = keys.some("--checkpoint-activations", "--deepspeed-activation-checkpointing")
    kind = keys.take("--recompute-granularity", default="full" if recomputed else None)
    if keys.truth("--recompute-activations"):
        kind = kind or "selective"
    method = keys.take("--recompute-method", "--checkpoint-method", "--activations-checkpoint-method")
    count = keys.take("--recompute-num-layers", "--checkpoint-num-layers", "--activations-checkpoint-num-layers")
    modules = keys.take("--recompute-modules")
    if is_off(kind) or (kind == "full" and method == "block" and count == 0):
        return
    count = None if is_off(count) else count
    if kind not in ("selective", "full"):
        keys.wrong(("--recompute-granularity",), f"{shown(kind)} is not understood; only selective and full")
        return
    if kind == "selective":
        set_modules(f, modules, ("--recompute-modules",))
    else:
        f.set("recompute", kind, ("--recompute-granularity",))
    if kind == "full" and method == "block" and count is not None:
        f.set("recompute_layers", count, ("--recompute-num-layers",))
    elif kind == "full" and count not in (None, 1):
        f.note(f"layers recomputed in groups of {count} are counted as each on its own: the inputs kept are fewer")


def _kernels(keys: Keys, f: Findings) -> None:
    flash = keys.some("--use-flash-attn", "--use-flash-attn-v1", "--use-flash-attn-v2", "--use-flash-attn-triton")
    before = keys.has(*OLDER)  # Transformer Engine: attention was fused only where it was asked for
    local = keys.choice(("--transformer-impl",), IMPLEMENTATIONS, "local" if before else "transformer_engine")
    if keys.choice(("--attention-backend",), BACKENDS, "unfused" if local and not flash else "auto"):
        f.set("attention_kernel", "unfused")
    place = ("--cp-comm-type",)
    kinds = keys.mapping.get(place[0])
    if isinstance(kinds, list):
        if len(set(map(str, kinds))) > 1:
            keys.take(*place)
            message = (
                f"takes one value a layer: layers that differ ({', '.join(map(str, kinds[:4]))}) are not modelled; one"
            )
            keys.wrong(place, f"{message}, or all the same, is")
            return
        keys.mapping = {**keys.mapping, place[0]: kinds[0]}
    way = keys.choice(place, CONTEXT, "p2p")
    if way is not None and f.count("cp") != 1 and not keys.has("--ds-sequence-parallel-size"):
        f.set("cp_comm", way)


def _overlap(keys: Keys, f: Findings) -> None:
    """Set what runs beside compute; sends between interleaved stages do, unless switched off."""
    gradients, weights = keys.truth("--overlap-grad-reduce"), keys.truth("--overlap-param-gather")
    if "overlap_dp" not in f.fields:
        f.set("overlap_dp", gradients)
        _gathering(f, gradients, weights and not keys.truth("--no-overlap-param-gather"))
    if keys.truth("--tp-comm-overlap"):
        f.set("overlap_tp", True)
    sends = not keys.truth("--no-overlap-p2p-communication")
    if f.count("vpp") != 1:
        f.set("overlap_pp", sends)
    if keys.truth("--overlap-moe-expert-parallel-comm"):
        f.set("overlap_ep", True)


def _gathering(f: Findings, gradients: bool, weights: bool) -> None:
    """Say where one of gradients and weights is sent beside compute and the other is not: one field is for both."""
    if f.count("zero", 0) > 0 and gradients != weights:
        one, other = ("gradients", "weights") if gradients else ("weights", "gradients")
        counted = "on" if gradients else "off"
        f.note(f"{one} are sent beside compute, {other} not: overlap_dp, which is for both, is {counted}")


def _dispatch(keys: Keys, f: Findings) -> None:
    stated = keys.has("--moe-token-dispatcher-type")
    # Megatron-LM gathers all tokens on every device unless told otherwise; DeepSpeed sends them all to all.
    default = None if keys.has("--deepspeed") else "all_gather"
    read_dispatch(keys, f, lambda name: f"--{name.replace('_', '-')}", default)
    if "experts" not in f.fields or f.count("ep") == 1:
        for name in ("ep", "etp"):
            if f.count(name) == 1 or "experts" not in f.fields:
                f.fields.pop(name, None)
    elif not stated and default and "ep_dispatch" not in f.given:
        f.note("all tokens are gathered on every device of a group of experts, which is Megatron-LM's default")


def devices(f: Findings, launch: Launch) -> None:
    """Set the number of devices from how the program is launched, or from what a scheduler is asked for."""
    if "gpus" in f.given:
        return
    found = f.count("gpus", 0)  # a file that is no script may have said it already
    f.fields.pop("gpus", None)
    number, note = (found, "") if found else devices_of(launch)
    if number:
        set_devices(f, number, note)
    else:
        fewest_devices(f, note or "the number of devices is not in the file")


def set_devices(f: Findings, number: int, note: str = "") -> None:
    """Set the number of devices that a file says, or say that its layout needs others."""
    tp, pp, cp, ep = (f.count(name, 1) for name in ("tp", "pp", "cp", "ep"))
    experts = ep * f.count("etp", tp) if ep > 1 else 1
    if number % (tp * pp * cp):
        fewest_devices(f, f"the {number} devices of the file do not hold tp x pp x cp = {tp * pp * cp}")
    elif number % (pp * experts):
        fewest_devices(f, f"the {number} devices of the file do not hold ep x etp x pp = {pp * experts}")
    else:
        f.set("gpus", number)
        if note:
            f.note(note)


def fewest_devices(f: Findings, why: str) -> None:
    """Leave the devices out, or set the fewest that hold the experts' groups; say so."""
    tp, pp, cp, ep = (f.count(name, 1) for name in ("tp", "pp", "cp", "ep"))
    group = ep * f.count("etp", tp)
    replicas = group // math.gcd(group, tp * cp) if ep > 1 else 1
    if replicas > 1:
        f.set("gpus", tp * pp * cp * replicas)
        f.note(f"{why}: gpus is the fewest that hold ep, unless it is given")
    else:
        f.note(f"{why}: dp is 1 unless gpus is given")
