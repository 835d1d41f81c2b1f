"""A DeepSpeed JSON: ZeRO stage, batches, number formats. It has no model."""

from __future__ import annotations

from pathlib import PurePath

from comp_comm.configs.importers.imported import NOTHING, Findings, Given, Imported, Keys, is_off, shown
from comp_comm.configs.strict_yaml import Document
from comp_comm.records import Record

KIND = "DeepSpeed JSON"
SIGNS = ("zero_optimization", "train_micro_batch_size_per_gpu", "train_batch_size", "gradient_accumulation_steps")
# Keys of Hydra's, and of Hugging Face's Trainer, which share the names of batches.
OTHERS = ("_target_", "model_name_or_path", "per_device_train_batch_size", "output_dir")
AUTO = "auto"
FORMATS = {"fp32": "fp32", "float32": "fp32", "fp16": "fp16", "float16": "fp16", "half": "fp16", "bf16": "bf16",
           "bfp16": "bf16", "bfloat16": "bf16"}  # fmt: skip
IGNORED = (
    "steps_per_print", "wall_clock_breakdown", "gradient_clipping", "dump_state", "scheduler",
    "prescale_gradients", "gradient_predivide_factor", "zero_allow_untested_optimizer", "comms_logger", "comet",
    "flops_profiler", "tensorboard", "wandb", "csv_monitor", "monitor_config", "checkpoint", "aio", "vocabulary_size",
    "memory_breakdown", "seed", "dataloader_drop_last", "zero_force_ds_cpu_optimizer", "graph_harvesting",
    "checkpoint_tag_validation", "use_node_local_storage", "load_universal_checkpoint", "timers", "profile",
    "use_data_before_expert_parallelism", "torch_profiler", "prof", "nebula",
    "disable_allgather", "elastic_checkpoint", "_comment", "comment", "cuda_visible_devices",
)  # fmt: skip
IGNORED_ZERO = (
    "contiguous_gradients", "sub_group_size", "stage3_max_live_parameters", "stage3_max_reuse_distance",
    "stage3_prefetch_bucket_size", "stage3_param_persistence_threshold", "stage3_model_persistence_threshold",
    "stage3_gather_16bit_weights_on_model_save", "stage3_gather_fp16_weights_on_model_save", "allgather_partitions",
    "ignore_unused_parameters", "round_robin_gradients", "elastic_checkpoint", "load_from_fp32_weights",
    "legacy_stage1", "use_multi_rank_bucket_allreduce", "memory_efficient_linear", "param_persistence_threshold",
    "model_persistence_threshold", "max_live_parameters", "max_reuse_distance", "prefetch_bucket_size",
    "log_trace_cache_warnings", "stage3_param_persitence_threshold", "gather_16bit_weights_on_model_save",
    "override_module_apply", "stage3_module_granularity_threshold", "use_all_reduce_for_fetch_params",
    "module_granularity_threshold", "stage3_use_all_reduce_for_fetch_params", "save_muon_momentum_buffer_in_memory",
    "stage3_allgather_sequential", "allgather_sequential",
)  # fmt: skip
IGNORED_OFFLOAD = (
    "nvme_path", "buffer_count", "buffer_size", "pin_memory", "pipeline", "pipeline_read", "pipeline_write",
    "fast_init", "max_in_cpu",
)  # fmt: skip
IGNORED_FORMAT = (
    "loss_scale", "initial_scale_power", "loss_scale_window", "hysteresis", "consecutive_hysteresis", "min_loss_scale",
    "auto_cast", "immediate_grad_update", "check_overflow", "loss_scale_root", "opt_level",
)  # fmt: skip
STATES_IN_16 = ("fp16_master_weights_and_grads", "bf16_master_weights_and_grads", "bf16_optimizer_states",
                "fp16_master_weights_and_gradients")  # fmt: skip
ADAM = ("adam", "adamw", "fusedadam", "cpuadam", "deepspeedcpuadam")
OFF_ZERO = (
    "zero_quantized_weights", "zero_quantized_nontrainable_weights", "zero_quantized_gradients", "zenflow",
    "mics_hierarchical_params_gather", "leaf_module", "cpu_offload_param", "cpu_offload_params", "zeropp_loco_param",
)  # fmt: skip
OFF = (
    "curriculum_learning", "amp", "sparse_attention", "progressive_layer_drop", "eigenvalue", "quantize_training",
    "compression_training", "elasticity", "data_efficiency", "pipeline", "hybrid_engine", "autotuning",
    "sparse_gradients",
)  # fmt: skip


def fits(data: Record) -> int:
    """Return how well a mapping fits DeepSpeed's configuration; 0 where it does not."""
    other = any(sign in data for sign in OTHERS)
    return 0 if other else min(sum(sign in data for sign in SIGNS), 2)


def import_deepspeed(document: Document, given: Given = NOTHING) -> Imported:
    """Return what a DeepSpeed configuration says of the layout.

    Raises ``ConfigError`` with everything in it that is not understood.

    >>> zero = {"stage": 2, "reduce_bucket_size": 5e8}
    >>> data = {"train_batch_size": 64, "zero_optimization": zero, "fp16": {"enabled": True}}
    >>> found = import_deepspeed(Document(data, "ds.json")).fields
    >>> {name: found[name] for name in ("zero", "zero_implementation", "bucket", "precision")}
    {'zero': 2, 'zero_implementation': 'deepspeed', 'bucket': 500000000.0, 'precision': 'fp16'}
    """
    f = Findings(document, given)
    keys = Keys(f, document.data)
    for name, key in (("global_batch", "train_batch_size"), ("micro_batch", "train_micro_batch_size_per_gpu"),
                      ("accumulation", "gradient_accumulation_steps")):  # fmt: skip
        number_of(keys, f, name, key)
    if {"global_batch", "micro_batch"} <= set(f.fields):
        f.fields.pop("accumulation", None)  # follows from the others
    zero_of(keys, f)
    formats_of(keys, f)
    _autocast(keys, f)
    _recompute(keys, f)
    optimizer_of(keys, f)
    for name in OFF:
        _off(keys, name)
    _tensor_parallel(keys)
    _compiled(keys, f)
    if keys.take("seq_parallel_communication_data_type") is not None:
        f.note("seq_parallel_communication_data_type is not modelled, and left out")
    keys.ignore(IGNORED)
    keys.finish()
    f.problems.raise_if_any()
    name = PurePath(document.file).stem
    return Imported(KIND, name, name, f"{document.file} ({KIND})", f.fields, tuple(f.notes), needs_model=True)


def _tensor_parallel(keys: Keys) -> None:
    """Set the width of tensor parallelism that DeepSpeed itself cuts a model by."""
    parallel = keys.mapping_of("tensor_parallel")
    if parallel is not None:
        parallel.set("tp", "autotp_size", "tp_size")
        parallel.ignore(("dtype", "tp_grain_size"))
        parallel.finish()


def _compiled(keys: Keys, f: Findings) -> None:
    """Set whether kernels are compiled."""
    compiled = keys.mapping_of("compile")
    if compiled is not None:
        if not compiled.truth("disable", default=False) and compiled.truth("enabled", default=True):
            f.set("kernels", "compiled")
        compiled.ignore(("backend", "kwargs", "deepcompile", "offload_activation", "offload_opt_states", "passes"))
        compiled.finish()


def number_of(keys: Keys, f: Findings, name: str, key: str) -> None:
    """Set a field from a number, which may be left to whoever starts training (``auto``)."""
    if keys.mapping.get(key) == AUTO:
        keys.take(key)
        f.note(f"{key} is 'auto', filled in when training starts: {name} is left out")
        return
    keys.set(name, key)


def zero_of(keys: Keys, f: Findings) -> None:
    """Set the stage of ZeRO, its buckets, and what it keeps in host memory."""
    zero = keys.mapping_of("zero_optimization")
    if zero is None:
        f.set("zero", 0)
        return
    zero.set("zero", "stage", default=0)
    stage = f.fields.get("zero", 0)
    if stage in (1, 2, 3):
        f.set("zero_implementation", "deepspeed")
    number_of(zero, f, "bucket", "reduce_bucket_size")
    zero.ignore(("allgather_bucket_size", "cpu_offload_use_pin_memory"))
    if stage in (1, 2) and not zero.truth("reduce_scatter", default=True):
        f.note("gradients that are all-reduced instead of reduce-scattered are counted as the latter")
    zero.ignore(("reduce_scatter",))
    f.set("overlap_dp", zero.truth("overlap_comm", default=stage == 3))
    device = _device(zero, "offload_optimizer")
    if zero.truth("cpu_offload") or device == "cpu":
        f.set("offload_optimizer", True)
    elif device not in (None, "none"):
        zero.wrong(("offload_optimizer",), f"offloading to {shown(device)} is not understood; only cpu and none")
    if _device(zero, "offload_param") not in (None, "none"):
        zero.wrong(("offload_param",), "offloading of weights is not understood; only device: none")
    for name in ("zero_hpz_partition_size", "mics_shard_size"):
        size = zero.take(name)
        if name == "mics_shard_size" and size not in (None, -1):
            f.set("dp_shard", size, zero.place(name))
        elif size not in (None, -1, 1):
            zero.wrong((name,), f"{shown(size)} is not understood; only 1")
    for name in OFF_ZERO:
        _off(zero, name)
    zero.ignore(IGNORED_ZERO)
    zero.finish()


def _device(zero: Keys, name: str) -> object:
    inner = zero.mapping_of(name)
    if inner is None:
        return None
    inner.ignore(IGNORED_OFFLOAD)
    if inner.take("ratio", default=1.0) not in (1, 1.0):
        inner.wrong(("ratio",), "offloading a part is not understood; only 1")
    device = inner.take("device", default="cpu")
    inner.finish()
    return device


def formats_of(keys: Keys, f: Findings) -> None:
    """Set the number formats: compute's, that gradients are reduced in, and that they are added up in."""
    kinds = {}
    for names, word in ((("bf16", "bfloat16"), "bf16"), (("fp16",), "fp16")):
        inner = keys.mapping_of(*names)
        if inner is None:
            continue
        on = inner.take("enabled", default=True)
        halves = [name for name in STATES_IN_16 if not is_off(inner.take(name))]
        if halves:
            f.note(f"{halves[0]}: weights and gradients of the optimizer in 16 bit are counted as in 32 bit")
        inner.ignore(IGNORED_FORMAT)
        inner.finish()
        if on == AUTO:
            f.note(f"{names[0]}.enabled is 'auto', filled in when training starts: precision is left out")
        elif not isinstance(on, bool):
            inner.wrong(("enabled",), f"{shown(on)} is neither true nor false")
        kinds[word] = on
    if any(on is True for on in kinds.values()):
        f.set("precision", next(word for word, on in kinds.items() if on is True))
    elif all(on is False for on in kinds.values()):
        f.set("precision", "fp32")
    types = keys.mapping_of("data_types")
    pairs = [("grad_precision", keys.take("communication_data_type"), keys.place("communication_data_type"))]
    if types is not None:
        pairs.append(("accumulate_precision", types.take("grad_accum_dtype"), types.place("grad_accum_dtype")))
        types.finish()
    for name, value, place in pairs:
        if value is not None:
            f.set(name, FORMATS.get(str(value).lower(), value), place)


def _autocast(keys: Keys, f: Findings) -> None:
    """Set the number format of PyTorch's autocast, which DeepSpeed may be asked to run under."""
    inner = keys.mapping_of("torch_autocast")
    if inner is None:
        return
    on, dtype = inner.truth("enabled"), str(inner.take("dtype", default="bfloat16"))
    inner.ignore(("lower_precision_safe_modules",))
    inner.finish()
    if on:
        f.set("precision", FORMATS.get(dtype.removeprefix("torch."), dtype), inner.place("dtype"))


def _recompute(keys: Keys, f: Findings) -> None:
    inner = keys.mapping_of("activation_checkpointing")
    if inner is None:
        return
    for name in ("partition_activations", "cpu_checkpointing"):
        inner.only(name, False)
    inner.ignore(("contiguous_memory_optimization", "number_checkpoints", "synchronize_checkpoint_boundary", "profile"))
    inner.finish()
    f.note("activation_checkpointing says how, not whether: recompute is the study's")


def optimizer_of(keys: Keys, f: Findings) -> None:
    """Take an optimizer that is Adam or Muon; what another one keeps and sends is not modelled."""
    inner = keys.mapping_of("optimizer")
    if inner is None:
        return
    kind = inner.take("type", "name", default="Adam")
    inner.ignore(("params", "legacy_fusion"))
    inner.finish()
    if str(kind).lower() == "muon":
        f.set("optimizer", "muon", inner.place("type", "name"))
        f.set("muon_sharding", "gathered")
    elif str(kind).lower().replace("_", "") not in ADAM:
        inner.wrong(("type",), f"{shown(kind)}: another optimizer is not modelled; only Adam, AdamW and Muon")


def _off(keys: Keys, name: str) -> None:
    """Take a feature that is off; one that is on is not understood."""
    value = keys.take(name)
    on = value.get("enabled", False) if isinstance(value, dict) else value
    if not is_off(on):
        keys.wrong((name,), f"{shown(on)} is not understood; only a feature that is off")
