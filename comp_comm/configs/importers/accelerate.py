"""A configuration of Hugging Face's accelerate: devices, number format and sharding. It has no model and no batches."""

from __future__ import annotations

from pathlib import PurePath

from comp_comm.configs.importers import fsdp
from comp_comm.configs.importers.imported import NOTHING, Findings, Given, Imported, Keys, is_off, shown
from comp_comm.configs.strict_yaml import Document
from comp_comm.records import Record

KIND = "accelerate configuration"
# Nothing is cast where it is no, which YAML takes for false: the script's own weights say.
FORMATS = {"no": "", "false": "", "fp16": "fp16", "bf16": "bf16", "fp8": "fp8"}
REPLICAS = ("NO", "MULTI_GPU", "MULTI_XPU", "MULTI_NPU", "MULTI_MLU", "MULTI_HPU", "MULTI_MUSA", "MULTI_SDAA")
DEGREES = {"tp": "tp_size", "cp": "cp_size", "dp_shard": "dp_shard_size"}
IGNORED = (
    "compute_environment", "debug", "downcast_bf16", "enable_cpu_affinity", "gpu_ids", "machine_rank",
    "main_process_ip", "main_process_port", "main_training_function", "rdzv_backend", "same_network", "command_file",
    "commands", "tpu_env", "tpu_name", "tpu_zone", "tpu_use_cluster", "tpu_use_sudo", "fp8_config",
)  # fmt: skip


def fits(data: Record) -> int:
    """Return how well a mapping fits a configuration of accelerate; 0 where it does not."""
    beside = {"num_processes", "compute_environment", "mixed_precision", "num_machines", "fsdp_config",
              "deepspeed_config"} & data.keys()  # fmt: skip
    return 3 if "distributed_type" in data and beside else 0


def import_accelerate(document: Document, given: Given = NOTHING) -> Imported:
    """Return what a configuration of accelerate says of the layout.

    Raises ``ConfigError`` with everything in it that is not understood.

    >>> data = {"distributed_type": "FSDP", "num_processes": 16, "mixed_precision": "bf16", "fsdp_config": {}}
    >>> found = import_accelerate(Document(data, "fsdp.yaml")).fields
    >>> found["gpus"], found["zero"], found["precision"]
    (16, 3, 'bf16')
    """
    f = Findings(document, given)
    keys = Keys(f, document.data)
    if not is_off(keys.take("use_cpu")):
        keys.wrong(("use_cpu",), "training on CPUs is not modelled")
    precision = keys.choice(("mixed_precision",), FORMATS, "no")
    if precision:
        f.set("precision", precision)
    if not keys.set("gpus", "num_processes"):
        f.note("num_processes is not in the file: give --set gpus=N")
    _parallelism(keys, f)
    _sharding(keys, f)
    compiled = keys.mapping_of("dynamo_config")
    if compiled is not None:
        f.set("kernels", "eager" if is_off(compiled.take("dynamo_backend")) else "compiled")
        compiled.ignore(tuple(compiled.mapping))
    older = keys.take("dynamo_backend")
    if older is not None and compiled is None:
        f.set("kernels", "eager" if is_off(older) else "compiled")
    keys.ignore((*IGNORED, "num_machines"))
    keys.off(("mpirun_config", "ipex_config"), "training on CPUs")
    keys.finish()
    f.problems.raise_if_any()
    left = [name for name in ("precision", "seq_len", "micro_batch", "global_batch", "recompute")
            if name not in f.fields]  # fmt: skip
    if left:
        f.note(f"{', '.join(left)} are the training script's: give what it has with --set, such as --set micro_batch=N")
    name = PurePath(document.file).stem
    return Imported(KIND, name, name, f"{document.file} ({KIND})", f.fields, tuple(f.notes), needs_model=True)


def _sharding(keys: Keys, f: Findings) -> None:
    """Set the ZeRO stage: of plain replicas, of FSDP, of DeepSpeed or of Megatron-LM, of which one is asked for."""
    raw = keys.take("distributed_type", default="NO")
    kind = "NO" if raw is False else str(raw)
    sections = {name: keys.mapping_of(name) for name in ("fsdp_config", "deepspeed_config", "megatron_lm_config")}
    if kind == "FSDP":
        inner = sections["fsdp_config"] or Keys(f, {}, ("fsdp_config",))
        _within_machines(keys, inner, f)
        f.set("zero", fsdp.stage_of(inner, f))
    elif kind == "DEEPSPEED":
        _deepspeed(sections["deepspeed_config"] or Keys(f, {}), f)
        return
    elif kind == "MEGATRON_LM":
        _megatron(sections["megatron_lm_config"] or Keys(f, {}), f)
        return
    elif kind in REPLICAS:
        f.set("zero", 0)
    else:
        keys.wrong(("distributed_type",), f"{shown(raw)} is not modelled; only FSDP, DEEPSPEED, MEGATRON_LM, "
                   f"{', '.join(REPLICAS[:2])} and the like")  # fmt: skip
    f.set("overlap_dp", True)  # PyTorch sends gradients, and weights, while the passes go on


def _within_machines(keys: Keys, inner: Keys, f: Findings) -> None:
    """Set that states are sharded over the devices of a machine, which is what hybrid sharding means."""
    named = str(inner.mapping.get("fsdp_sharding_strategy", "")).lower()
    machines, processes = keys.mapping.get("num_machines", 1), f.count("gpus")
    hybrid = "hybrid" in named or named in ("4", "5")
    if hybrid and type(machines) is int and machines > 0 and processes % machines == 0:
        f.set("dp_shard", processes // machines)


def _parallelism(keys: Keys, f: Findings) -> None:
    """Set the degrees of ``parallelism_config``, whose keys may begin with its name."""
    inner = keys.mapping_of("parallelism_config")
    if inner is None:
        return
    inner.mapping = {str(key).removeprefix("parallelism_config_"): value for key, value in inner.mapping.items()}
    for name, key in DEGREES.items():
        inner.set(name, key)
    replicas = inner.number("dp_replicate_size", default=1) or 1
    if "dp_shard" in f.fields and "dp_shard" not in f.given:
        shards = int(f.fields.pop("dp_shard")) * f.count("cp")  # states are shared over context parallelism, too
        if replicas > 1 and shards > 1:
            f.set("dp_shard", shards, inner.place("dp_shard_size"))
    way = inner.choice(("cp_comm_strategy",), {"allgather": "all_gather", "alltoall": "p2p"}, "allgather")
    if f.count("cp") > 1 and way is not None:
        f.set("cp_comm", way)
    sequences = inner.number("sp_size", default=1) or 1
    if sequences > 1:
        f.set("cp", sequences, inner.place("sp_size"))
        f.set("cp_comm", "all_to_all")
    inner.ignore(("sp_backend", "sp_seq_length", "sp_seq_length_is_variable", "sp_attn_implementation"))
    inner.finish()


def _deepspeed(keys: Keys, f: Findings) -> None:
    """Set what is said of DeepSpeed here; a file of its own is not read."""
    file = keys.take("deepspeed_config_file")
    if not keys.set("zero", "zero_stage") and file is not None:
        message = f"the ZeRO stage is in {shown(file)}, which is not read here: import that file, or give --set zero=N"
        f.missing(message, "zero")
    elif "zero" not in f.fields:
        f.set("zero", 2)  # accelerate's default
    if f.count("zero", 0) > 0:
        f.set("zero_implementation", "deepspeed")
    f.set("overlap_dp", f.count("zero", 0) == 3)  # overlap_comm is on for stage 3 alone
    keys.set("accumulation", "gradient_accumulation_steps")
    if keys.take("offload_optimizer_device", default="none") == "cpu":
        f.set("offload_optimizer", True)
    else:
        keys.only("offload_optimizer_device", "none")
    keys.off(("offload_param_device",), "weights in the host's memory")
    keys.ignore(("deepspeed_multinode_launcher", "deepspeed_hostfile", "gradient_clipping", "zero3_init_flag",
                 "zero3_save_16bit_model", "deepspeed_exclusion_filter", "deepspeed_inclusion_filter",
                 "offload_optimizer_nvme_path", "offload_param_nvme_path",
                 "deepspeed_moe_layer_cls_names", "seq_parallel_communication_data_type"))  # fmt: skip
    keys.finish()


def _megatron(keys: Keys, f: Findings) -> None:
    """Set the degrees of Megatron-LM, whose keys begin with ``megatron_lm_``."""
    keys.mapping = {str(key).removeprefix("megatron_lm_"): value for key, value in keys.mapping.items()}
    for name, key in (("tp", "tp_degree"), ("pp", "pp_degree"), ("accumulation", "num_micro_batches")):
        keys.set(name, key)
    f.set("sp", keys.truth("sequence_parallelism"))
    f.set("zero", int(keys.truth("use_distributed_optimizer")))
    f.set("recompute", "selective" if keys.truth("recompute_activations") else "none")
    f.set("overlap_dp", False)
    keys.ignore(("gradient_clipping",))
    keys.finish()
