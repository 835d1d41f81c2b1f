"""The layout in a torchtitan TOML: degrees, pipeline, what is recomputed."""

from __future__ import annotations

from comp_comm.configs.importers.imported import Findings, Keys, is_off, shown
from comp_comm.configs.importers.megatron_layout import fewest_devices
from comp_comm.stage_layout import TORCHTITAN

DEGREES = {
    "tp": "tensor_parallel_degree", "pp": "pipeline_parallel_degree", "cp": "context_parallel_degree",
    "ep": "expert_parallel_degree", "etp": "expert_tensor_parallel_degree",
}  # fmt: skip
# What was in [experimental] before it had a place in [parallelism].
EXPERIMENTAL = (
    "context_parallel_degree", "context_parallel_rotate_method", "pipeline_parallel_degree", "enable_compiled_autograd",
    "pipeline_parallel_split_points", "pipeline_parallel_schedule", "pipeline_parallel_microbatches",
    "enable_async_tensor_parallel", "pipeline_parallel_schedule_csv", "pipeline_parallel_layers_per_stage",
)  # fmt: skip

SCHEDULES = {"1f1b": ("1f1b", 1), "gpipe": ("gpipe", 1), "interleaved1f1b": ("interleaved", 2),
             "zbvzerobubble": ("zb_v", 2)}  # fmt: skip
# Of two pieces a stage, and of the schedule itself: zb_v has them without vpp.
IN_TWO = ("zb_v",)


def parallelism(top: Keys, f: Findings) -> Keys:
    """Return the keys of ``[parallelism]``, with those of ``[experimental]`` that it has not."""
    keys = top.mapping_of("parallelism")
    older = top.mapping.get("experimental")
    before = {key: older[key] for key in EXPERIMENTAL if key in older} if isinstance(older, dict) else {}
    if keys is None:
        return Keys(f, before, ("experimental",))
    keys.mapping = {**before, **keys.mapping}
    return keys


def read(training: Keys, keys: Keys, f: Findings) -> None:
    """Set the degrees and the pipeline."""
    for key in (*DEGREES.values(), "data_parallel_replicate_degree", "data_parallel_shard_degree",
                "data_parallel_degree", "disable_loss_parallel", "enable_loss_parallel",
                "enable_async_tensor_parallel"):  # fmt: skip
        if training.has(key) and not keys.has(key):
            keys.mapping = {**keys.mapping, key: training.mapping[key]}
        training.take(key)
    for name, key in DEGREES.items():
        keys.set(name, key)
    if f.count("ep") == 1:
        f.fields.pop("ep", None)
        f.fields.pop("etp", None)
    keys.truth("disable_loss_parallel")
    keys.ignore(("enable_loss_parallel",))
    if keys.truth("enable_async_tensor_parallel"):
        f.set("overlap_tp", "async")
    _data_parallel(keys, f)
    way = keys.choice(("context_parallel_rotate_method",), {"allgather": "all_gather", "alltoall": "p2p"}, "allgather")
    if f.count("cp") != 1 and way is not None:
        f.set("cp_comm", way)
        f.set("cp_implementation", "torch")  # what files of this kind ran: PyTorch's ring attention
    if f.count("cp") != 1 and keys.take("context_parallel_load_balancer", default="headtail") not in (
        "headtail",
        "ptrr",
    ):
        f.note("context parallelism without a load balancer is counted as balanced")
    keys.ignore(("context_parallel_load_balancer",))
    ways = {"standard": "all_to_all", "deepep": "deepep", "hybridep": "hybridep"}
    way = keys.choice(("expert_parallel_comm_backend",), ways, "standard")
    if f.count("ep", 1) != 1 and way is not None:
        f.set("ep_dispatch", way)
    overlapped = keys.truth("pipeline_parallel_expert_parallel_overlap", default=True)
    _pipeline(keys, f)
    if overlapped and keys.has("pipeline_parallel_expert_parallel_overlap") and f.count("ep") > 1 and f.count("pp") > 1:
        f.note("pipeline_parallel_expert_parallel_overlap is of schedules that are not modelled: overlap_ep is off")
    keys.ignore(("enable_compiled_autograd",))
    if training.truth("enable_cpu_offload"):
        training.wrong(("enable_cpu_offload",), "offloading of weights is not understood; only false")


def _data_parallel(keys: Keys, f: Findings) -> None:
    """Set replicas and how many share states: -1 takes all devices that are left."""
    replicas = keys.take("data_parallel_replicate_degree", default=1)
    shards = keys.take("data_parallel_shard_degree", "data_parallel_degree", default=-1)
    kind = keys.take("data_parallel_type", default="fsdp")
    if type(replicas) is not int or type(shards) is not int:
        keys.wrong(("data_parallel_shard_degree",), "must be a whole number")
        return
    if kind == "ddp":
        replicas, shards = shards, 1
    policy = keys.take("fsdp_reshard_after_forward", default="default")
    if policy not in ("default", "always", "never"):
        keys.wrong(("fsdp_reshard_after_forward",), f"{shown(policy)} is not understood; only default, always, never")
    f.set("zero", 0 if shards == 1 else _stage(policy, f))
    if f.fields.get("zero") == 3:
        f.set("fsdp_units", "ends")
    if f.count("tp", 1) > 1:
        f.set("sequence_inputs", "kept")
    parts = f.count("tp", 1) * f.count("pp", 1) * f.count("cp", 1)
    if shards > 0 and replicas > 0:
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


def _stage(policy: object, f: Findings) -> int:
    """Return the ZeRO stage that FSDP2 comes to, and set when it reshards weights and reduces gradients.

    Within a pipeline the gradients of all micro-batches are added up whole and reduced once a step, and weights stay
    gathered unless they are asked not to; elsewhere every micro-batch gathers weights and reduces its gradients.
    """
    pipelined = f.count("pp") != 1
    if pipelined and policy != "always":
        return 1
    if policy == "never":
        f.set("reshard_after_forward", "off")
    if pipelined:
        f.set("gradient_sync", "last")
    return 3


def _pipeline(keys: Keys, f: Findings) -> None:
    kind = str(keys.take("pipeline_parallel_schedule", default="1F1B"))
    size = keys.take("pipeline_parallel_microbatch_size", default=1)
    pieces = keys.take("pipeline_parallel_microbatches")
    keys.ignore(("pipeline_parallel_schedule_csv",))
    ends = [keys.take(f"pipeline_parallel_{end}_stage_less_layers", default=1) for end in ("first", "last")]
    for key in ("pipeline_parallel_split_points", "module_fqns_per_model_part"):
        if not is_off(keys.take(key)):
            keys.wrong((key,), "pipeline stages laid out by hand are not modelled; leave it out")
    each = keys.take("pipeline_parallel_layers_per_stage")
    if f.count("pp") == 1:
        return
    if kind.lower() not in SCHEDULES:
        keys.wrong(
            ("pipeline_parallel_schedule",),
            f"{shown(kind)} is not understood; only 1F1B, GPipe, Interleaved1F1B, ZBVZeroBubble",
        )
        return
    schedule, chunks = SCHEDULES[kind.lower()]
    f.set("schedule", schedule)
    if chunks > 1:
        if schedule not in IN_TWO:
            f.set("vpp", chunks)
        f.set("overlap_pp", False)  # PyTorch waits for what is received before each pass
    even = f.count("layers", 0) % (f.count("pp") * chunks) == 0
    if ends == [1, 1] and even:  # where chunks do not divide the layers, embedding and loss count as a layer anyway
        f.set("pp_layout", TORCHTITAN)
    elif ends != [1, 1] and (ends != [0, 0] or not even):
        f.note("the first and the last stage are counted with a layer less where that makes stages even")
    if each is not None:
        keys.wrong(("pipeline_parallel_layers_per_stage",), "is not understood; give --set vpp=N, and leave it out")
    # A stage takes a replica's batch in pieces of this size.
    batch = f.count("micro_batch", 1)
    if pieces is not None and not keys.has("pipeline_parallel_microbatch_size"):
        size = batch // pieces if type(pieces) is int and pieces > 0 and batch % pieces == 0 else pieces
    f.set("micro_batch", size, keys.place("pipeline_parallel_microbatch_size", "pipeline_parallel_microbatches"))
    if "global_batch" not in f.fields and type(size) is int and size > 0:
        f.set("accumulation", max(batch // size, 1))


def recompute(top: Keys, f: Findings, layers: int | None) -> None:
    """Set what is recomputed: all, all but what the policy by operator keeps, or every so-manieth layer whole."""
    keys = top.mapping_of("activation_checkpoint") or Keys(f, {})
    mode, option = str(keys.take("mode", default="selective")), str(keys.take("selective_ac_option", default="2"))
    keys.ignore(("per_op_sac_force_recompute_mm_shapes_by_fqns", "memory_budget", "preserve_rng_state",
                 "visualize_memory_budget_pareto", "determinism_check", "debug"))  # fmt: skip
    early = keys.truth("early_stop")
    keys.finish()
    if mode not in ("none", "selective", "full"):
        keys.wrong(("mode",), f"{shown(mode)} is not understood; only none, selective, full")
    elif mode == "selective" and option.isdigit() and len(option) < 6 and int(option) > 0 and layers:
        f.set("recompute", "full")
        if int(option) > 1:
            f.set("recompute_layers", max(layers // f.count("pp", 1) // int(option), 1))
    else:
        f.set("recompute", "per_op" if mode == "selective" else mode)
    if early and f.fields.get("recompute") == "full":
        f.set("recompute_early_stop", True)
