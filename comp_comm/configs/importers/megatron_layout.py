"""The layout in Megatron-LM's arguments: degrees, batches, number formats, what is recomputed and what overlaps."""

from __future__ import annotations

import math
from collections.abc import Sequence

from comp_comm.configs.importers.imported import Findings, Keys, shown
from comp_comm.configs.importers.shell_words import UNDECIDED, UNSET

NUMBERS = {
    "--tensor-model-parallel-size": "tp", "--pipeline-model-parallel-size": "pp", "--context-parallel-size": "cp",
    "--expert-model-parallel-size": "ep", "--expert-tensor-parallel-size": "etp", "--micro-batch-size": "micro_batch",
    "--global-batch-size": "global_batch", "--zero-stage": "zero", "--ddp-bucket-size": "bucket",
}  # fmt: skip
SPELLINGS = {
    "--tensor-model-parallel-size": ("--model-parallel-size",), "--micro-batch-size": ("--batch-size",),
    "--expert-model-parallel-size": ("--moe-expert-parallel-size",),
}  # fmt: skip
SWITCHES = (
    "--sequence-parallel", "--bf16", "--fp16", "--use-distributed-optimizer", "--overlap-grad-reduce", "--swiglu",
    "--overlap-param-gather", "--tp-comm-overlap", "--use-flash-attn", "--recompute-activations", "--use-mcore-models",
    "--untie-embeddings-and-output-weights", "--disable-bias-linear", "--group-query-attention", "--deepspeed",
    "--checkpoint-activations",
)  # fmt: skip
SHARDED = {"no_shard": 0, "optim": 1, "optim_grads": 2, "optim_grads_params": 3}
CONTEXT = {"p2p": "p2p", "all_gather": "all_gather", "allgather": "all_gather", "a2a": "all_to_all"}
FORMATS = {"fp32": "fp32", "bf16": "bf16", "fp16": "fp16", "fp8": "fp8"}
LAUNCHERS = (("--nproc_per_node", "--nproc-per-node", "--num_gpus", "--num-gpus"),
             ("--nnodes", "--num_nodes", "--num-nodes"))  # fmt: skip


def read(keys: Keys, f: Findings) -> None:
    """Set the fields of the layout."""
    for flag, name in NUMBERS.items():
        keys.set(name, flag, *SPELLINGS.get(flag, ()))
    _pipeline(keys, f)
    _formats(keys, f)
    _sharding(keys, f)
    _recompute(keys, f)
    _kernels(keys, f)
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
    if keys.truth("--use-tp-pp-dp-mapping"):
        f.set("placement", "tp-cp-pp-dp")
    if keys.truth("--no-scatter-gather-tensors-in-pipeline"):
        f.set("scatter_gather", False)


def _formats(keys: Keys, f: Findings) -> None:
    bf16, fp16, fp8 = keys.truth("--bf16"), keys.truth("--fp16"), keys.take("--fp8-format", "--fp8")
    f.set("precision", "fp8" if fp8 else "bf16" if bf16 else "fp16" if fp16 else "fp32")
    in_32, in_bf16 = keys.truth("--accumulate-allreduce-grads-in-fp32"), keys.truth("--grad-reduce-in-bf16")
    if in_bf16:
        f.set("grad_precision", "bf16")
    elif in_32 or bf16:  # Megatron-LM reduces gradients of bf16 weights in fp32
        f.set("grad_precision", "fp32")
    moments = [keys.take(flag) for flag in ("--exp-avg-dtype", "--exp-avg-sq-dtype")]
    keys.ignore(("--use-precision-aware-optimizer", "--main-params-dtype"))
    gradients = keys.take("--main-grads-dtype")
    for name, value, flag in (("optimizer_precision", moments[0], "--exp-avg-dtype"),
                              ("grad_precision", gradients, "--main-grads-dtype")):  # fmt: skip
        if value is not None:
            f.set(name, FORMATS.get(str(value), value), (flag,))
    if moments[0] != moments[1]:
        keys.wrong(("--exp-avg-sq-dtype",), "another format than that of --exp-avg-dtype is not understood")


def _sharding(keys: Keys, f: Findings) -> None:
    """Set the ZeRO stage: of the distributed optimizer (1), of Megatron's FSDP, of PyTorch's (3), or of DeepSpeed."""
    distributed = keys.truth("--use-distributed-optimizer")
    fsdp = keys.some("--use-megatron-fsdp", "--use-custom-fsdp")
    torch = keys.truth("--use-torch-fsdp2")
    strategy = keys.take("--data-parallel-sharding-strategy", default="no_shard" if fsdp else None)
    stage = 3 if torch else SHARDED.get(str(strategy)) if fsdp else 1 if distributed else 0
    if stage is None:
        message = f"{shown(strategy)} is not understood; only {', '.join(SHARDED)}"
        keys.wrong(("--data-parallel-sharding-strategy",), message)
    deepspeed = keys.take("--deepspeed-config")
    if "zero" not in f.fields and stage is not None:
        f.set("zero", stage)
        if deepspeed is not None:
            f.missing(
                "the ZeRO stage is in the file of --deepspeed-config, which is not read here; give --set zero=N", "zero"
            )
    elif deepspeed is not None:
        f.note("the file of --deepspeed-config is not read: import it too for what it says of buckets and offloading")
    offload, share = keys.truth("--optimizer-cpu-offload", "--cpu-optimizer"), keys.take("--optimizer-offload-fraction")
    if offload:
        f.set("offload_optimizer", True)
        if share not in (None, 1, 1.0):
            message = "a part of the optimizer's states in host memory is not understood"
            keys.wrong(("--optimizer-offload-fraction",), message)
    instances = keys.take("--num-distributed-optimizer-instances", default=1)
    if instances != 1:
        message = "is not understood; leave it out, and give --set dp_shard=N for the devices of an instance"
        keys.wrong(("--num-distributed-optimizer-instances",), message)


def _recompute(keys: Keys, f: Findings) -> None:
    whole = keys.some("--checkpoint-activations", "--deepspeed-activation-checkpointing")
    kind = keys.take("--recompute-granularity", default="full" if whole else None)
    if keys.truth("--recompute-activations"):
        kind = kind or "selective"
    method = keys.take("--recompute-method", "--checkpoint-method", "--activations-checkpoint-method")
    count = keys.take("--recompute-num-layers", "--checkpoint-num-layers", "--activations-checkpoint-num-layers")
    modules = keys.take("--recompute-modules")
    if kind is None or kind == "none":
        return
    if kind not in ("selective", "full"):
        keys.wrong(("--recompute-granularity",), f"{shown(kind)} is not understood; only selective and full")
        return
    f.set("recompute", kind, ("--recompute-granularity",))
    named = modules if isinstance(modules, list) else [modules]
    if kind == "selective" and named not in ([None], ["core_attn"]):
        f.note(f"recomputing {', '.join(map(str, named))} is counted as Megatron-LM's default: the core of attention")
    if kind == "full" and method == "block" and count is not None:
        f.set("recompute_layers", count, ("--recompute-num-layers",))
    elif kind == "full" and count not in (None, 1):
        f.note(f"layers recomputed in groups of {count} are counted as each on its own: the inputs kept are fewer")


def _kernels(keys: Keys, f: Findings) -> None:
    flash = keys.some("--use-flash-attn", "--use-flash-attn-v2", "--use-flash-attn-triton")
    local = keys.take("--transformer-impl", default="transformer_engine") == "local"
    backend = keys.take("--attention-backend", default="unfused" if local and not flash else "auto")
    if backend in ("unfused", "local"):
        f.set("attention_kernel", "unfused")
    elif backend not in ("auto", "flash", "fused"):
        message = f"{shown(backend)} is not understood; only auto, flash, fused, unfused, local"
        keys.wrong(("--attention-backend",), message)
    kind = keys.take("--cp-comm-type", default="p2p")
    if kind in CONTEXT:
        if f.count("cp") != 1:
            f.set("cp_comm", CONTEXT[kind])
    else:
        keys.wrong(("--cp-comm-type",), f"{shown(kind)} is not understood; only {', '.join(CONTEXT)}")


def _overlap(keys: Keys, f: Findings) -> None:
    """Set what runs beside compute; sends between interleaved stages do, unless switched off."""
    f.set("overlap_dp", keys.truth("--overlap-grad-reduce"))
    if keys.truth("--tp-comm-overlap"):
        f.set("overlap_tp", True)
    sends = not keys.truth("--no-overlap-p2p-communication")
    if f.count("vpp") != 1 and sends:
        f.set("overlap_pp", True)
    if keys.truth("--overlap-moe-expert-parallel-comm"):
        f.set("overlap_ep", True)


def _dispatch(keys: Keys, f: Findings) -> None:
    kind = keys.take("--moe-token-dispatcher-type")
    spread = "experts" in f.fields and f.count("ep") != 1
    if not spread:
        for name in ("ep", "etp"):
            if f.count(name) == 1 or "experts" not in f.fields:
                f.fields.pop(name, None)
        return
    if kind == "allgather":
        keys.wrong(("--moe-token-dispatcher-type",), "'allgather' is not understood; only alltoall and flex")
    elif kind is not None and kind not in ("alltoall", "alltoall_seq", "flex"):
        keys.wrong(("--moe-token-dispatcher-type",), f"{shown(kind)} is not understood; only alltoall and flex")
    elif kind is None and not keys.has("--deepspeed"):
        f.note("tokens are sent to their experts all to all; Megatron-LM's default gathers all of them on every device")


def devices(f: Findings, launcher: Sequence[str], named: str) -> None:
    """Set the number of devices from how the program is launched, or from a variable of the script."""
    counts = []
    for spellings in LAUNCHERS:
        values = [word.partition("=")[2] or (launcher[i + 1] if i + 1 < len(launcher) else "")
                  for i, word in enumerate(launcher) if word.partition("=")[0] in spellings]  # fmt: skip
        counts.append(values[-1] if values else None)
    each, nodes = counts
    found = int(each) * int(nodes or 1) if each and each.isdigit() and (nodes or "1").isdigit() else None
    if found is None and named.isdigit():
        found = int(named)
    parts = f.count("tp", 1) * f.count("pp", 1) * f.count("cp", 1)
    if "gpus" in f.given:
        return
    if found and found % parts == 0:
        f.set("gpus", found)
        return
    marked = each and any(sign in each + (nodes or "") for sign in (UNSET, UNDECIDED))
    why = f"the {found} devices of the file do not hold tp x pp x cp = {parts}" if found else (
        f"the number of devices is not {'set ' * bool(marked)}in the file")  # fmt: skip
    fewest_devices(f, why)


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
