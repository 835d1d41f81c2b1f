"""The layout in a NeMo YAML: degrees, batches, what is recomputed, sharded and overlapped."""

from __future__ import annotations

from comp_comm.configs.importers.dispatch import read_dispatch
from comp_comm.configs.importers.imported import Findings, Keys, is_off, shown
from comp_comm.configs.importers.loss import set_loss
from comp_comm.configs.importers.nemo_ignored import OFF, OPTIM
from comp_comm.configs.importers.recomputation import set_modules, set_offloading

FORMATS = {"bf16": "bf16", "bf16-mixed": "bf16", "16": "fp16", "16-mixed": "fp16", "fp16": "fp16", "32": "fp32",
           "32-true": "fp32", "bf16-true": "bf16", "fp32": "fp32"}  # fmt: skip
STATES = {**FORMATS, "float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "torch.float32": "fp32",
          "torch.float16": "fp16", "torch.bfloat16": "bf16"}  # fmt: skip
NUMBERS = {
    "micro_batch": "micro_batch_size", "global_batch": "global_batch_size", "tp": "tensor_model_parallel_size",
    "pp": "pipeline_model_parallel_size", "vpp": "virtual_pipeline_model_parallel_size", "cp": "context_parallel_size",
    "ep": "expert_model_parallel_size", "etp": "expert_tensor_parallel_size",
}  # fmt: skip
ADAM = ("adam", "adamw", "fused_adam", "distributed_fused_adam", "megatron_fused_adam", "mcore_distributed_optim",
        "distributed_adam", "")  # fmt: skip


def read(keys: Keys, f: Findings, precision: str) -> None:
    """Set the fields of the layout; ``precision`` is the trainer's word."""
    for name, key in NUMBERS.items():
        keys.set(name, key)
    if f.count("pp") == 1:
        f.fields.pop("vpp", None)
    for name in ("ep", "etp"):
        if "experts" not in f.fields:
            f.fields.pop(name, None)
    read_dispatch(keys, f, lambda name: name, "all_to_all")
    f.set("sp", keys.truth("sequence_parallel"))
    _recompute(keys, f)
    _offloading(keys, f)
    if keys.truth("ub_tp_comm_overlap"):
        f.set("overlap_tp", True)
    sends = keys.truth("overlap_p2p_comm")
    if f.count("vpp") != 1:
        f.set("overlap_pp", sends)
    if keys.truth("use_tp_pp_dp_mapping"):
        f.set("placement", "tp-cp-pp-dp")
    if not (keys.truth("use_flash_attention", default=True) or keys.mapping.get("transformer_engine")):
        f.set("attention_kernel", "unfused")
    set_loss(keys, f, "cross_entropy_loss_fusion", "cross_entropy_loss_fusion_impl", "cross_entropy_fusion_impl")
    _sharding(keys, f, precision)
    if not keys.truth("gradient_accumulation_fusion", default=True) and f.count("zero", 0) < 2:
        f.set("gradient_accumulation_fusion", False)
    _fp8(keys, f)
    if keys.truth("megatron_amp_O2", default=True) is False and FORMATS.get(precision) != "fp32":
        f.note("megatron_amp_O2 is off: weights held in 32 bit alone are counted as those in 16 bit with copies in 32")
    keys.off(OFF)
    if f.fields.get("architecture") != "encoder-decoder":
        keys.off(("pipeline_model_parallel_split_rank",), "an encoder with a layout of its own")


def _fp8(keys: Keys, f: Findings) -> None:
    gathers = keys.truth("fp8_params")
    if keys.truth("fp8") and keys.truth("transformer_engine"):
        f.set("precision", "fp8")
        if gathers:
            f.set("fp8_param_gather", True)
    elif keys.mapping.get("fp8"):
        f.note("fp8 does nothing without transformer_engine")


def _recompute(keys: Keys, f: Findings) -> None:
    kind = keys.take("activations_checkpoint_granularity", "recompute_granularity")
    modules = keys.take("recompute_modules")
    method = keys.take("activations_checkpoint_method", "recompute_method")
    count = keys.take("activations_checkpoint_num_layers", "recompute_num_layers")
    keys.off(("num_micro_batches_with_partial_activation_checkpoints", "activations_checkpoint_layers_per_pipeline"))
    if is_off(kind) or (kind == "full" and method == "block" and is_off(count) and count is not None):
        f.set("recompute", "none")
        return
    if kind == "selective":
        set_modules(f, modules, keys.place("recompute_modules"))
    else:
        f.set("recompute", kind, keys.place("activations_checkpoint_granularity", "recompute_granularity"))
    if kind == "full" and method == "block" and not is_off(count):
        f.set("recompute_layers", count, keys.place("activations_checkpoint_num_layers", "recompute_num_layers"))
    elif kind == "full" and not is_off(count) and count != 1:
        f.note(f"layers recomputed in groups of {count} are counted as each on its own: the inputs kept are fewer")


def _offloading(keys: Keys, f: Findings) -> None:
    """Set how many layers keep their activations with the host, where that is on."""
    on, activations = keys.truth("cpu_offloading"), keys.truth("cpu_offloading_activations", default=True)
    if not on:
        keys.ignore(("cpu_offloading_num_layers", "cpu_offloading_weights"))
        return
    keys.off(("cpu_offloading_weights",), "weights in host memory")
    if activations:
        set_offloading(keys, f, "cpu_offloading_num_layers")
    keys.ignore(("cpu_offloading_num_layers",))


def _sharding(keys: Keys, f: Findings, precision: str) -> None:
    """Set the ZeRO stage, that of PyTorch's FSDP (3) or of the distributed optimizer (1), and what gradients are in."""
    fsdp, strategy = keys.truth("fsdp"), keys.take("fsdp_sharding_strategy", default="full")
    reduced = keys.take("fsdp_grad_reduce_dtype", default=32)
    optim = keys.mapping_of("optim") or Keys(f, {})
    name = str(optim.take("name", default=""))
    if name not in ADAM:
        optim.wrong(
            ("name",), f"{shown(name)}: another optimizer than Adam is not modelled; only {', '.join(ADAM[:-1])}"
        )
    distributed = "distributed" in name
    kind = optim.take("grad_sync_dtype")
    f.set("zero", 3 if fsdp else 1 if distributed else 0)
    if fsdp and strategy != "full":
        keys.wrong(("fsdp_sharding_strategy",), f"{shown(strategy)} is not understood; only full")
    if fsdp:
        f.set("grad_precision", FORMATS.get(str(reduced), reduced), keys.place("fsdp_grad_reduce_dtype"))
    else:
        _gradients(f, optim, kind, precision)
    optim.set("bucket", "ddp_bucket_size")
    _states(optim, f)
    # NeMo 1.x: Apex's optimizer overlaps the sync of gradients unless told otherwise, Megatron core's does not.
    gradients = optim.truth("overlap_grad_sync", default=fsdp or name == "distributed_fused_adam")
    weights = optim.truth("overlap_param_sync", default=fsdp)
    f.set("overlap_dp", gradients)
    if distributed and gradients != weights:
        one, other = ("gradients", "weights") if gradients else ("weights", "gradients")
        counted = "on" if gradients else "off"
        f.note(f"{one} are sent beside compute, {other} not: overlap_dp, which is for both, is {counted}")
    optim.ignore(OPTIM)
    optim.finish()


def _gradients(f: Findings, optim: Keys, kind: object, precision: str) -> None:
    """Set what gradients are reduced in.

    Where nothing is said it is 32 bit ("the default precision of fp32", NeMo's guide to communication overlap): that of
    the states that Apex's optimizer keeps, and of the copies of weights in bf16; those in fp16 have none.
    """
    name = str(optim.mapping.get("name"))
    states = optim.mapping.get("dtype") if name == "distributed_fused_adam" else None
    given = kind if kind is not None else states
    if given is not None:
        f.set("grad_precision", STATES.get(str(given), given), optim.place("grad_sync_dtype", "dtype"))
    elif "distributed" in name or FORMATS.get(precision) == "bf16":
        f.set("grad_precision", "fp32")


def _states(optim: Keys, f: Findings) -> None:
    """Set what Adam's moments are in; what else of its states is in 16 bit is noted."""
    dtype = optim.take("dtype", "exp_avg_dtype")
    if dtype is not None:
        f.set("optimizer_precision", STATES.get(str(dtype), dtype), optim.place("dtype", "exp_avg_dtype"))
    gathered = optim.take("param_sync_dtype")
    if gathered is not None and STATES.get(str(gathered)) not in ("bf16", "fp16"):
        f.note(f"param_sync_dtype {gathered}: weights are counted as gathered in the precision of compute")
    if not is_off(optim.take("store_param_remainders")):
        f.note(
            "store_param_remainders: weights of which the optimizer keeps but 16 more bit are counted as 32 bit more"
        )
    if not is_off(optim.take("store_params")):
        f.note("store_params: weights in 32 bit are counted, as is usual")
