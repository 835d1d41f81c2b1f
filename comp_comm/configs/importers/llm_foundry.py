"""An LLM Foundry YAML (Composer): the model, FSDP, the batches; also as a run of MosaicML's platform."""

from __future__ import annotations

from pathlib import PurePath

from comp_comm.configs.importers.adapters import model_of, set_adapters
from comp_comm.configs.importers.hf_mpt import feed_forward
from comp_comm.configs.importers.hugging_face import read_model
from comp_comm.configs.importers.imported import NOTHING, Findings, Given, Imported, Keys, is_off, shown
from comp_comm.configs.importers.megatron_layout import fewest_devices
from comp_comm.configs.importers.nemo_references import resolve
from comp_comm.configs.strict_yaml import Document, Path
from comp_comm.kernel_choices import CrossEntropy
from comp_comm.records import Record

KIND = "LLM Foundry YAML"
LOSSES = {"fused_crossentropy": CrossEntropy.FUSED.word, "torch_crossentropy": CrossEntropy.EAGER.word}
MPT, OF_HUGGING_FACE = ("mpt_causal_lm",), ("hf_causal_lm",)
FORMATS = {
    "amp_bf16": "bf16",
    "amp_fp16": "fp16",
    "fp32": "fp32",
    "amp_fp8": "fp8",
    "bf16": "bf16",
    "amp_bf16_fp8": "fp8",
}
SHARDED = {"FULL_SHARD": 3, "SHARD_GRAD_OP": 2, "NO_SHARD": 0, "HYBRID_SHARD": 3}
MIXED = {"PURE": "pure", "DEFAULT": "default", "FULL": "full"}
ADAM = ("decoupled_adamw", "adamw", "adam", "decoupled_adamw_8bit")
# What changes nothing of a step.
TOP = (
    "variables", "run_name", "tokenizer", "train_loader", "eval_loader", "eval_loaders", "scheduler", "max_duration",
    "eval_interval", "eval_first", "eval_subset_num_batches", "seed", "global_seed", "device_eval_batch_size",
    "progress_bar", "log_to_console", "console_log_interval", "callbacks", "loggers", "save_interval", "save_folder",
    "save_num_checkpoints_to_keep", "save_overwrite", "save_filename", "save_latest_filename", "load_path",
    "load_weights_only", "load_ignore_keys", "load_strict_model_weights", "autoresume", "dist_timeout",
    "python_log_level", "expandable_segments", "icl_seq_len", "icl_tasks", "icl_max_seq_len", "eval_gauntlet",
    "metadata", "profiler", "name", "data_local", "data_remote", "icl_subset_num_batches", "code_paths",
    "only_hf_checkpoint", "only_composer_checkpoint", "accumulate_train_batch_on_tokens", "log_config",
    "spin_dataloaders", "flatten_imports", "optimizer_config", "tokenizer_name", "global_train_batch_size_unused",
    "save_weights_only", "save_ignore_keys", "dataset_swap", "max_split_size_mb",
)  # fmt: skip
FSDP = (
    "limit_all_gathers", "activation_checkpointing_reentrant", "state_dict_type", "verbose", "use_orig_params",
    "backward_prefetch", "forward_prefetch", "sync_module_states", "load_planner", "save_planner", "auto_wrap",
    "load_monolith_rank0_only", "min_params", "flatten_parameters", "sharded_ckpt_prefix_dir",
    "keep_low_precision_grads", "te_checkpoint_wrapper", "te_shard_fp8_weight", "ignored_modules",
    "load_fsdp_monolith_rank0_only",
)  # fmt: skip
ATTENTION = (
    "softmax_scale", "attn_uses_sequence_id", "alibi_bias_max", "rope_theta", "rope_impl", "rope_dail_config",
    "rope_hf_config", "fused_qkv", "nope", "attn_temperature_tuning", "attn_logit_softcapping", "attn_pdrop",
    "clip_qkv", "qk_gn", "kv_dim",
)  # fmt: skip


def fits(data: Record) -> int:
    """Return how well a mapping fits LLM Foundry's configuration, or a run with one; 0 where it does not."""
    inner = data.get("parameters")
    data = inner if isinstance(inner, dict) and "model" in inner else data
    signs = ("max_seq_len", "global_train_batch_size", "device_train_microbatch_size", "fsdp_config", "train_loader")
    model = data.get("model")
    if not isinstance(model, dict) or "max_sequence_length" in model:  # the latter is OLMo's
        return 0
    return min(sum(sign in data for sign in signs), 5)


def import_foundry(document: Document, given: Given = NOTHING, model: str = "") -> Imported:
    """Return the study that an LLM Foundry configuration describes; ``model`` stands in for the model it names.

    Raises ``ConfigError`` with everything in it that is not understood.
    """
    f = Findings(document, given)
    inner = document.data.get("parameters")
    path: Path = ("parameters",) if isinstance(inner, dict) and "model" in inner else ()
    data = resolve(inner if path and isinstance(inner, dict) else document.data, document.file)
    top = Keys(f, data, path)
    named = _model(top, f, model)
    if not top.set("seq_len", "max_seq_len"):
        f.missing("'max_seq_len' is missing", "seq_len")
    for name, key in (("global_batch", "global_train_batch_size"), ("micro_batch", "device_train_microbatch_size")):
        if top.mapping.get(key) == "auto":
            top.take(key)
            f.missing(f"{key} is 'auto', found when training starts; give --set {name}=N", name)
        else:
            top.set(name, key)
    precision = top.choice(("precision",), FORMATS, "amp_bf16")
    if precision is not None:
        f.set("precision", precision)
    _fsdp(top, f)
    _optimizer(top, f)
    compiled = top.take("compile_config")
    f.fields.setdefault("kernels", "eager" if compiled is None else "compiled")
    _devices(document.data if path else {}, f)
    top.ignore(TOP)
    top.finish()
    f.problems.raise_if_any()
    name = PurePath(document.file).stem
    return Imported(KIND, name, name, f"{document.file} ({KIND})", f.fields, tuple(f.notes), model=named)


def _model(top: Keys, f: Findings, instead: str) -> str:
    """Set the model that is described, or return the one of the catalogue that is named."""
    keys = top.mapping_of("model") or Keys(f, {})
    kind = keys.mapping.get("name")
    adapters = keys.mapping_of("peft_config")
    if adapters is not None:
        if str(adapters.take("peft_type", default="LORA")).upper() != "LORA":
            adapters.wrong(("peft_type",), "training a part of the weights but by LoRA is not modelled")
            f.problems.raise_if_any()
        set_adapters(adapters, f, ("r",), ("target_modules",))
        adapters.ignore(("task_type", "lora_alpha", "lora_dropout", "bias"))
        adapters.finish()
    if kind in MPT and not instead:
        _mpt(dict(keys.mapping), keys.place("name")[:-1], f)
        return ""
    if kind not in (*MPT, *OF_HUGGING_FACE):
        keys.wrong(("name",), f"{shown(kind)} is not understood; only {', '.join((*MPT, *OF_HUGGING_FACE))}")
        f.problems.raise_if_any()
    source = str(keys.take("pretrained_model_name_or_path", default=""))
    if not is_off(keys.take("config_overrides")):
        f.note("config_overrides change what the model is: the catalogue's is taken as it is")
    keys.ignore((*keys.mapping, "name"))
    known = instead or model_of(source)
    if not known:
        keys.wrong(("pretrained_model_name_or_path",), f"no model is called {shown(source)}; give --model NAME")
    return known or ""


def _mpt(data: Record, path: Path, f: Findings) -> None:
    """Set an MPT model, with what LLM Foundry has beside the config.json of one."""
    attention, ffn = data.get("attn_config"), data.get("ffn_config")
    if data.get("block_overrides") is not None:
        f.wrong((*path, "block_overrides"), "layers that differ from one another are not modelled; leave it out")
    data = {"vocab_size": 50368, "d_model": 2048, "n_heads": 16, "n_layers": 24, **data}
    config = dict(attention) if isinstance(attention, dict) else {}
    kernel = str(config.pop("attn_impl", "flash"))
    normed = config.pop("qk_ln", False)
    for key in ATTENTION:
        config.pop(key, None)
    if isinstance(attention, dict):
        data["attn_config"] = config
    own = {key: value for key, value in data.items() if key not in ("ffn_config", "name", "attention_bias", "head_dim")}
    keys = read_model(f, own, path, "mpt")
    if "seq_len" not in f.given:
        f.fields.pop("seq_len", None)
    f.set("attention_kernel", "unfused" if kernel == "torch" else "flash_causal")
    if normed is True:
        f.set("qk_norm", "whole")
    if data.get("attention_bias") is True and data.get("no_bias") is True:
        f.set("bias", "qkv")
    elif data.get("attention_bias") is False and not data.get("no_bias"):
        f.set("bias", "not_qkv")
    if data.get("head_dim") is not None:
        f.set("head_dim", data["head_dim"], (*path, "head_dim"))
    feed_forward(Keys(f, ffn, (*path, "ffn_config")) if isinstance(ffn, dict) else Keys(f, {}), f)
    keys.ignore(("name", "init_device", "logit_scale", "use_pad_tok_in_ffn", "tokenizer_name", "pretrained", "device",
                 "additional_train_metrics", "mup_config"))  # fmt: skip
    loss = keys.choice(("loss_fn",), LOSSES, "fused_crossentropy")
    if not is_off(keys.take("use_train_metrics", default=True)) and loss == CrossEntropy.FUSED.word:
        loss = CrossEntropy.FUSED_METRICS.word
    if loss:
        f.set("cross_entropy", loss)
    keys.finish()


def _fsdp(top: Keys, f: Findings) -> None:
    """Set ZeRO, what is recomputed, and what gradients are in; without FSDP gradients are all-reduced."""
    keys = top.mapping_of("fsdp_config", "fsdp")
    tensor = top.mapping_of("tp_config")
    f.set("overlap_dp", True)
    if tensor is not None:
        tensor.set("tp", "tensor_parallel_degree")
        if not is_off(tensor.take("strategy")):
            tensor.wrong(("strategy",), "layers that are split in a part alone are not modelled; leave it out")
        tensor.finish()
    if keys is None:
        f.set("zero", 0)
        return
    strategy = keys.choice(("sharding_strategy",), SHARDED, "FULL_SHARD")
    if strategy is not None:
        f.set("zero", strategy)
    mixed = keys.choice(("mixed_precision",), MIXED, "DEFAULT")
    if mixed == "default":
        f.set("grad_precision", "fp32")
    elif mixed == "full":
        f.set("precision", "fp32")
    shards = keys.take("data_parallel_shard_degree")
    if shards is not None and not is_off(strategy):
        f.set("dp_shard", shards, keys.place("data_parallel_shard_degree"))
    elif keys.mapping.get("sharding_strategy") == "HYBRID_SHARD":
        f.missing(
            "how many devices share states under HYBRID_SHARD is not in the file; give --set dp_shard=N", "dp_shard"
        )
    f.set("recompute", "full" if keys.truth("activation_checkpointing") else "none")
    target = keys.take("activation_checkpointing_target")
    if f.fields["recompute"] == "full" and not is_off(target):
        f.note("activation_checkpointing_target: all layers are counted as recomputed")
    keys.off(("activation_cpu_offload", "cpu_offload"), "it keeps in host memory what devices need")
    keys.ignore((*FSDP, "data_parallel_replicate_degree"))
    keys.finish()


def _optimizer(top: Keys, f: Findings) -> None:
    keys = top.mapping_of("optimizer")
    if keys is not None:
        name = str(keys.take("name", default="decoupled_adamw"))
        if name not in ADAM:
            keys.wrong(("name",), f"{shown(name)}: another optimizer than Adam is not modelled; only {', '.join(ADAM)}")
        if name.endswith("8bit"):
            f.set("optimizer_precision", "fp8")
            f.note("the two moments of 8-bit Adam are counted as fp8, a byte each")
        keys.ignore(("lr", "betas", "eps", "weight_decay", "disable_grad", "param_str_match"))
        keys.finish()
    algorithms = top.mapping_of("algorithms")
    if algorithms is not None:
        algorithms.ignore(("gradient_clipping", "low_precision_layernorm", "low_precision_groupnorm"))
        algorithms.finish()


def _devices(run: Record, f: Findings) -> None:
    """Set the number of devices, which only a run of the platform says."""
    compute = run.get("compute")
    number = compute.get("gpus") if isinstance(compute, dict) else run.get("gpu_num")
    if "gpus" in f.given:
        return
    parts = f.count("tp")
    if type(number) is int and number > 0 and number % parts == 0:
        f.set("gpus", number)
    else:
        fewest_devices(f, "the number of devices is not in the file")
