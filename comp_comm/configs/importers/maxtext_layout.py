"""MaxText's mesh: how devices are dealt out, its batches, and what it recomputes."""

from __future__ import annotations

from math import prod

from comp_comm.configs.importers.imported import Findings, Keys, is_off, shown
from comp_comm.configs.importers.recomputation import set_modules

# Axes of the mesh: what each splits. FSDP's share weights, as those of experts and of the sequence do (`embed` of its
# logical_axis_rules); devices of an axis of experts have sequences of their own.
REPLICAS, SHARDS = ("data",), ("fsdp", "fsdp_transpose")
MATRICES = ("tensor", "tensor_transpose", "tensor_sequence")
SEQUENCES = ("sequence", "context", "context_usp_ulysses")
AXES = (*REPLICAS, *SHARDS, *MATRICES, *SEQUENCES, "expert", "pipeline", "autoregressive", "context_autoregressive",
        "diloco")  # fmt: skip
STRATEGIES = {"all_gather": "all_gather", "ring": "p2p", "ulysses": "all_to_all"}
GPUS_OF_A_NODE = 8  # what MaxText finds on the machines that its GPU files are for
BATCHES = ("per_device_batch_size", "gradient_accumulation_steps", "num_pipeline_microbatches", "num_pipeline_repeats",
           "num_layers_per_pipeline_stage", "pipeline_parallel_layers", "context_parallel_strategy",
           "shard_optimizer_over_data")  # fmt: skip
# What a policy keeps beside the layer's input: "attention" are the products of attention, "context" its core.
POLICIES = {
    "minimal": ("attention", "mlp"), "minimal_with_quantization": ("attention", "mlp"),
    "minimal_with_context": ("attention", "context", "mlp"), "minimal_flash": ("attention", "context", "mlp"),
    "minimal_with_context_and_quantization": ("attention", "context", "mlp"),
    "save_dot_with_context_except_mlp": ("attention", "context"), "save_dot_except_mlp": ("attention",),
    "save_dot_except_mlpwi": ("attention",), "save_qkv_proj": ("attention",), "save_out_proj": (),
}  # fmt: skip
OFFLOADED = ("qkv_proj_offloaded", "minimal_offloaded")
# Tensors that the policy `custom` keeps (device), makes again (remat), or keeps in the host's memory (offload).
TENSORS = {
    "context": "context", "query_proj": "attention", "key_proj": "attention", "value_proj": "attention",
    "qkv_proj": "attention", "kv_proj": "attention", "out_proj": "attention", "query_wa_proj": "attention",
    "kv_wa_proj": "attention", "mla_q": "attention", "mla_kv": "attention", "attention_out": "attention",
    "mlpwi": "mlp", "mlpwi_0": "mlp", "mlpwi_1": "mlp", "mlpwo": "", "moe_mlpwi_0": "mlp", "moe_mlpwi_1": "mlp",
    "moe_mlpwo": "", "moe_mlpwi": "mlp", "engram": "", "indexer_cutoff_threshold": "",
}  # fmt: skip


def read_layout(keys: Keys, f: Findings, devices: int | None, slices: int | None) -> None:
    """Set the degrees of parallelism, the batches and recomputation; ``devices`` are those that a launcher says."""
    mesh = {axis: _axis(keys, f, axis) for axis in AXES}
    for axis in ("autoregressive", "context_autoregressive", "diloco"):
        if prod(mesh[axis]) != 1:
            keys.wrong((f"ici_{axis}_parallelism", f"dcn_{axis}_parallelism"), "is not modelled; only 1")
    f.problems.raise_if_any()
    number = f.count("gpus", 0) or devices or 0
    sizes = _filled(mesh, keys, f, number, slices)
    keys.ignore((*BATCHES, "context_sharding", "num_slices"))
    if sizes is None:
        return
    degrees = {name: prod(sizes[axis] for axis in axes) for name, axes in (
        ("tp", MATRICES), ("cp", SEQUENCES), ("pp", ("pipeline",)), ("ep", ("expert",)))}  # fmt: skip
    shards = prod(sizes[axis] for axis in (*SHARDS, "expert"))
    for name, value in degrees.items():
        f.set(name, value)
    f.set("gpus", prod(sizes.values()))
    _sharding(keys, f, shards, sizes["data"])
    if degrees["tp"] > 1:
        f.set("sp", True)
        f.note(
            "what TP leaves whole is split, too: along the hidden dimension, which is counted as sequence parallelism"
        )
    if degrees["cp"] > 1:
        way = keys.choice(("context_parallel_strategy",), STRATEGIES, "all_gather")
        if way is not None:
            f.set("cp_comm", way)
    _batches(keys, f, degrees)


def _axis(keys: Keys, f: Findings, axis: str) -> tuple[int, int]:
    """Return an axis within a slice (ICI) and between slices (DCN); -1 is what is left."""
    ici = keys.number(f"ici_{axis}_parallelism", default=-1 if axis == "fsdp" else 1)
    dcn = keys.number(f"dcn_{axis}_parallelism", default=-1 if axis == "data" else 1)
    return int(ici or 1), int(dcn or 1)


def _filled(mesh: dict[str, tuple[int, int]], keys: Keys, f: Findings, number: int,
            slices: int | None) -> dict[str, int] | None:  # fmt: skip
    """Return the size of each axis, -1 being what is left of the devices; None where it is not known."""
    ici, dcn = ({axis: pair[side] for axis, pair in mesh.items()} for side in (0, 1))
    known_ici, known_dcn = (prod(size for size in part.values() if size > 0) for part in (ici, dcn))
    for side, part in (("ici", ici), ("dcn", dcn)):
        if sum(size < 0 for size in part.values()) > 1:
            f.wrong((), f"two axes are left open ({side}_...: -1): MaxText takes one of them at most")
            return None
    if number and -1 in ici.values() and -1 in dcn.values():
        slices = slices or (max(number // GPUS_OF_A_NODE, 1) if _is_gpu(keys) else known_dcn)
        if slices % known_dcn or number % (slices * known_ici):
            f.wrong((), f"{number} devices do not divide into {slices} slices of a mesh of {known_ici} in each")
            return None
        _said_slices(keys, f, slices, number)
        ici, dcn = _with(ici, number // slices // known_ici), _with(dcn, slices // known_dcn)
    elif number and -1 in (*ici.values(), *dcn.values()):
        rest, over = divmod(number, known_ici * known_dcn)
        if over or not rest:
            f.wrong((), f"{number} devices do not divide into a mesh of {known_ici * known_dcn}; give another gpus")
            return None
        ici, dcn = _with(ici, rest), _with(dcn, rest)
    elif -1 in ici.values():
        f.missing("the number of devices is not in the file (ici_fsdp_parallelism: -1 takes what there is): give "
                  "--set gpus=N", "gpus")  # fmt: skip
        return None
    elif -1 in dcn.values():
        f.note(
            "dcn_data_parallelism: -1 takes as many slices as there are: one mesh is counted; --set gpus=N gives more"
        )
        dcn = _with(dcn, 1)
    sizes = {axis: ici[axis] * dcn[axis] for axis in mesh}
    if number and prod(sizes.values()) != number:
        f.wrong((), f"the mesh has {prod(sizes.values())} devices, not {number}")
        return None
    return sizes


def _with(axes: dict[str, int], size: int) -> dict[str, int]:
    return {axis: size if each < 0 else each for axis, each in axes.items()}


def _is_gpu(keys: Keys) -> bool:
    return "gpu" in str(keys.mapping.get("hardware", "tpu"))


def _said_slices(keys: Keys, f: Findings, slices: int, number: int) -> None:
    what = "nodes of 8 GPUs" if _is_gpu(keys) else "slice" if slices == 1 else "slices"
    f.note(
        f"{number} devices are taken as {slices} {what}: with others, ici_ and dcn_ say otherwise what is left for each"
    )


def _sharding(keys: Keys, f: Findings, shards: int, replicas: int) -> None:
    """Set what is sharded: weights over FSDP's axes and those of experts and sequences, over data the optimizer's."""
    over_data = keys.truth("shard_optimizer_over_data")
    shards *= f.count("cp")
    f.set("zero", 3 if shards > 1 else int(over_data))
    if shards > 1 and replicas > 1:
        f.set("dp_shard", shards)
        if over_data:
            f.note("shard_optimizer_over_data: states are counted as sharded over FSDP's axes alone")


def _batches(keys: Keys, f: Findings, degrees: dict[str, int]) -> None:
    """Set the batches: MaxText counts sequences by device, whatever the devices split."""
    each = keys.number("per_device_batch_size", default=12.0)
    if not keys.has("per_device_batch_size"):
        f.note("per_device_batch_size is not in the file: 12, MaxText's default (base.yml)")
    steps = int(keys.number("gradient_accumulation_steps", default=1) or 1)
    stages = degrees["pp"]
    passes = int(keys.number("num_pipeline_microbatches", default=-1) or -1)
    passes = (stages if passes < 0 else passes) if stages > 1 else 1
    size = (each or 0) * degrees["tp"] * degrees["cp"] * stages / passes
    if size < 1 or size != int(size):
        if not {"micro_batch", "global_batch"} & set(f.given):
            keys.wrong(("per_device_batch_size",), f"{shown(each)} is {size:g} sequences of a replica at once, "
                       "which is not a whole number")  # fmt: skip
        return
    f.set("micro_batch", int(size))
    if "global_batch" not in f.given:
        f.set("accumulation", steps * passes)
    if stages > 1:
        _pipeline(keys, f, stages)


def _pipeline(keys: Keys, f: Findings, stages: int) -> None:
    """Set the schedule: all forward passes, then all backward passes; with repeats a stage has several chunks."""
    repeats = int(keys.number("num_pipeline_repeats", default=-1) or -1)
    each = int(keys.number("num_layers_per_pipeline_stage", default=1) or 1)
    layers = f.count("layers", 0)
    if repeats < 0 and layers:
        repeats = layers // (stages * each)
    if repeats > 1:
        f.set("vpp", repeats)
        f.set("schedule", "interleaved")
        f.note("the circular pipeline is counted as interleaved 1F1B, which has its bubble; it keeps the activations "
               "of all micro-batches")  # fmt: skip
    else:
        f.set("schedule", "gpipe")
    if not is_off(keys.take("pipeline_parallel_layers", default=0)) and keys.mapping["pipeline_parallel_layers"] != -1:
        keys.wrong(("pipeline_parallel_layers",), "layers outside the pipeline are not modelled; only -1")


def read_recomputation(keys: Keys, f: Findings, has_experts: bool) -> None:
    """Set what is made again in the backward pass, as far as parts of a layer say it."""
    policy = str(keys.take("remat_policy", default="full"))
    kept = {name: str(keys.take(name, default="remat")) for name in TENSORS}
    whole = str(keys.take("decoder_layer_input", default="device"))
    custom = policy == "custom"
    if policy in OFFLOADED or (custom and "offload" in (whole, *kept.values())):
        keys.wrong(("remat_policy",), f"{shown(policy)} keeps activations in the host's memory, which is not modelled; "
                   "give another policy")  # fmt: skip
        return
    if policy in ("full", "none", ""):
        f.set("recompute", "full" if policy == "full" else "none")
        return
    if not custom and policy not in POLICIES:
        keys.wrong(
            ("remat_policy",), f"{shown(policy)} is not understood; only full, none, custom, {', '.join(POLICIES)}"
        )
        return
    parts = {TENSORS[name] for name, way in kept.items() if way == "device"} if custom else set(POLICIES[policy])
    if "attention" not in parts:
        f.set("recompute", "full")
    else:
        again = ["layernorm", *["core_attn"] * ("context" not in parts),
                 *(["moe" if has_experts else "mlp"] if "mlp" not in parts else [])]  # fmt: skip
        set_modules(f, again, keys.place("remat_policy"))
    f.note(f"remat_policy {policy}: counted as recompute {f.fields.get('recompute')}")
