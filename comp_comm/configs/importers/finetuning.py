"""Configurations of Axolotl and of LLaMA-Factory: the model that they name, adapters, and how it is trained."""

from __future__ import annotations

from pathlib import PurePath

from comp_comm.configs.importers.adapters import set_adapters
from comp_comm.configs.importers.digit_groups import number_of_groups
from comp_comm.configs.importers.imported import NOTHING, Findings, Given, Imported, Keys, is_off, shown
from comp_comm.configs.importers.running import named_model, not_modelled, set_running, whole_weights
from comp_comm.configs.strict_yaml import Document
from comp_comm.records import Record

AXOLOTL, FACTORY = "Axolotl configuration", "LLaMA-Factory configuration"
# What changes no shape: data, learning, logs, tokens.
AXOLOTL_IGNORED = """
    output_dir datasets test_datasets learning_rate logging_steps lr_scheduler num_epochs warmup_ratio
    warmup_steps saves_per_epoch evals_per_epoch val_set_size weight_decay lora_alpha dataset_prepared_path
    special_tokens tokens resume_from_checkpoint lora_model_dir model_type chat_template tokenizer_type
    is_llama_derived_model is_mistral_derived_model is_falcon_derived_model tf32 strict trust_remote_code
    remove_unused_columns eot_tokens max_steps skip_prepare_dataset save_steps loss_watchdog_threshold
    loss_watchdog_patience seed torchdistx_path ddp_find_unused_parameters push_dataset_to_hub adam_beta1
    adam_beta2 adam_epsilon adam_eps max_grad_norm train_on_inputs group_by_length save_total_limit
    early_stopping_patience lora_fan_in_fan_out save_strategy eval_batch_size eval_steps eval_sample_packing debug
    tokenizer_use_fast tokenizer_legacy tokenizer_config auto_resume_from_checkpoints device_map save_only_model
    cosine_min_lr_ratio cosine_constant_lr_ratio save_safetensors eval_causal_lm_metrics do_causal_lm_eval
    resize_token_embeddings_to_32x shuffle_merged_datasets gradient_checkpointing_kwargs pad_to_sequence_len
    local_rank xformers_attention s2_attention flash_attn_fuse_mlp flash_attn_fuse_qkv lora_qkv_kernel
    lora_o_kernel lora_mlp_kernel base_model_config base_model_ignore_patterns hub_model_id dataset_processes
    eval_table_size eval_max_new_tokens greater_is_better float32 bfloat16 noisy_embedding_alpha
    dataloader_prefetch_factor dataloader_num_workers dataloader_pin_memory use_tensorboard
    flash_attn_cross_entropy flash_attn_rms_norm pretraining_dataset streaming accelerator_config
    streaming_multipack_buffer_size evaluation_strategy eval_strategy hf_use_auth_token eta_min torch_compile_mode
    torch_compile_backend flex_attn_compile_kwargs use_swanlab use_eaft eaft_alpha eaft_k eaft_epsilon
    min_sample_len lr_quadratic_warmup ddp_timeout ddp_bucket_cap_mb ddp_broadcast_buffers
    sample_packing_group_size dataloader_drop_last sample_packing_bin_size sample_packing_sequentially
    shuffle_before_merging_datasets curriculum_sampling use_ray dataset_num_proc neftune_noise_alpha logging_dir
    save_first_step include_tokens_per_second include_tkps hub_strategy multipack_real_batches
    excess_length_strategy cls_model_config ray_run_name resources_per_worker profiler_steps profiler_steps_start
    gc_steps is_preprocess model_revision lr_groups embedding_lr embedding_lr_scale loraplus_lr_ratio
    loraplus_lr_embedding peft_use_rslora peft_init_lora_weights peft_autocast_adapter_dtype merge_lora
    lora_embedding_kernel
"""
FACTORY_IGNORED = """
    trust_remote_code max_samples preprocessing_num_workers output_dir overwrite_output_dir do_train dataset
    template report_to logging_steps save_steps plot_loss learning_rate num_train_epochs lr_scheduler_type
    warmup_ratio dataloader_num_workers ddp_timeout save_only_model overwrite_cache resume_from_checkpoint
    run_name lora_alpha eval_dataset per_device_eval_batch_size eval_strategy eval_steps val_size dataset_dir
    ray_num_workers tokenized_path loraplus_lr_ratio pissa_init pissa_iter pissa_convert use_dft_loss
    use_asft_loss asft_alpha use_eaft_loss new_special_tokens_config init_special_tokens max_steps weight_decay
    adam_beta1 adam_beta2 max_grad_norm seed image_max_pixels video_max_pixels image_min_pixels video_min_pixels
    save_total_limit save_strategy do_eval do_predict evaluation_strategy eval_on_start warmup_steps adam_epsilon
    load_best_model_at_end logging_strategy metric_for_best_model greater_is_better data_seed group_by_length
    remove_unused_columns buffer_size streaming include_num_input_tokens_seen include_tokens_per_second
    push_to_hub hub_model_id tokenizer_name cache_dir model_revision use_fast_tokenizer split_special_tokens
    mix_strategy interleave_probs preprocessing_batch_size train_on_prompt mask_history ignore_pad_token_for_loss
    eval_num_beams tool_format default_system enable_thinking compute_accuracy disable_shuffling
    neftune_noise_alpha lr_scheduler_kwargs create_new_adapter adapter_folder low_cpu_mem_usage swanlab_project
    swanlab_run_name use_swanlab ddp_backend ddp_find_unused_parameters dataloader_pin_memory dataloader_drop_last
    dataloader_persistent_workers tf32 log_level dataloader_prefetch_factor ddp_bucket_cap_mb hf_hub_token
    ms_hub_token om_hub_token print_param_status save_safetensors ray_run_name ray_storage_path
    resources_per_worker placement_strategy use_rslora loraplus_lr_embedding infer_dtype infer_backend
    data_shared_file_system min_lr_ratio label_smoothing_factor torch_empty_cache_steps logging_first_step
    full_determinism
"""


def fits_axolotl(data: Record) -> int:
    """Return how well a mapping fits Axolotl's: a base model, and how its sequences are trained on."""
    return (
        4 if "base_model" in data and {"micro_batch_size", "sequence_len", "adapter", "datasets"} & data.keys() else 0
    )


def fits_factory(data: Record) -> int:
    """Return how well a mapping fits LLaMA-Factory's."""
    return 4 if {"model_name_or_path", "stage", "finetuning_type"} <= data.keys() else 0


def import_axolotl(document: Document, given: Given = NOTHING, model: str = "") -> Imported:
    """Return the study that a configuration of Axolotl describes. Raises ``ConfigError``."""
    f = Findings(document, given)
    top = Keys(f, {key: number_of_groups(value) for key, value in document.data.items()})
    known = named_model(top, f, ("base_model",), model)
    not_modelled(top, {"rl": "reinforcement learning", "qat": "quantisation while training",
                        "gptq": "quantised weights",
                        "reward_model": "a reward model", "processor_type": "a model of more than text",
                        "unfrozen_parameters": "training some of the weights"})  # fmt: skip
    adapter = top.take("adapter")
    if (four := not is_off(top.take("load_in_4bit"))) or adapter == "qlora":
        _four_bits(top, f, adapter in ("lora", "qlora"), ("load_in_4bit",) if four else ("adapter",))
    whole_weights(top, ("load_in_8bit",), False)
    if adapter in ("lora", "qlora"):
        targets = "all" if top.truth("lora_target_linear") else top.mapping.get("lora_target_modules")
        top.mapping = {**top.mapping, "lora_target_modules": targets}
        set_adapters(top, f, ("lora_r",), ("lora_target_modules",))
        if top.take("lora_r") is None:
            f.missing("'lora_r' is missing", "lora_rank")
        top.off(("lora_modules_to_save", "lora_target_parameters"), "parts that are trained beside adapters")
        _dropout(top, f)
    elif not is_off(adapter):
        top.wrong(("adapter",), f"{shown(adapter)} is not modelled; only lora")
    else:
        ignored = [name for name in top.mapping if name.startswith("lora_") and not is_off(top.mapping[name])]
        top.ignore(name for name in top.mapping if name.startswith("lora_"))
        if "lora_r" in ignored:
            f.note("all weights are trained: there is no adapter, without which lora_r means nothing")
    if not top.set("seq_len", "sequence_len"):
        f.missing("'sequence_len' is missing", "seq_len")
    top.set("micro_batch", "micro_batch_size")
    _batch(top, f)
    for name, key in (("cp", "context_parallel_size"), ("tp", "tensor_parallel_size"), ("dp_shard", "dp_shard_size"),
                      ("ep", "expert_parallel_size"), ("gpus", "ray_num_workers")):  # fmt: skip
        top.set(name, key)
    _old_batch(top, f)
    top.off(("use_kernels", "use_scattermoe", "use_sonicmoe"), "kernels of experts that are not PyTorch's")
    top.only("experts_implementation", "grouped_mm")
    _replicas(top, f)
    set_running(top, f, ("fsdp", "fsdp_config"))
    _liger(top, f)
    for key in ("flash_attention", "sdp_attention", "attn_implementation"):
        top.take(key)
    f.set("attention_kernel", "unfused" if top.mapping.get("attn_implementation") == "eager" else "flash_causal")
    _packing(f, "sample_packing", top.truth("sample_packing"))
    top.ignore(name for name in top.mapping if name.startswith(("wandb_", "mlflow_", "comet_", "trackio_", "swanlab_")))
    return _done(AXOLOTL, top, f, AXOLOTL_IGNORED, known)


def import_factory(document: Document, given: Given = NOTHING, model: str = "") -> Imported:
    """Return the study that a configuration of LLaMA-Factory describes. Raises ``ConfigError``."""
    f = Findings(document, given)
    top = Keys(f, document.data)
    known = named_model(top, f, ("model_name_or_path",), model)
    stage, kind = top.take("stage"), top.take("finetuning_type")
    if stage not in ("sft", "pt"):
        top.wrong(("stage",), f"{shown(stage)}: other training than on text (sft, pt) is not modelled")
    not_modelled(top, {"use_galore": "GaLore", "use_apollo": "APOLLO", "use_badam": "BAdam",
                        "use_llama_pro": "LLaMA Pro",
                        "mixture_of_depths": "tokens that skip layers", "use_adam_mini": "Adam-mini",
                        "use_kt": "experts in the host's memory (KTransformers)", "use_v1_kernels": "other kernels",
                        "use_unsloth": "Unsloth's kernels", "pref_loss": "training on preferences",
                        "freeze_vision_tower": "a model of more than text", "media_dir": "a model of more than text",
                        "tensor_model_parallel_size": "Megatron-LM as LLaMA-Factory starts it"})  # fmt: skip
    bits = top.take("quantization_bit")
    four = bits == 4 and top.take("quantization_method", default="bnb") in ("bnb", "bitsandbytes")
    four = four and top.take("quantization_type", default="nf4") == "nf4"
    if four:
        _four_bits(top, f, kind == "lora", ("quantization_bit",), top.truth("double_quantization", default=True))
    else:
        whole_weights(top, ("quantization_bit",), False)
    top.ignore(("quantization_method", "quantization_type", "double_quantization", "quantization_device_map"))
    if kind == "lora":
        set_adapters(top, f, ("lora_rank",), ("lora_target",))
        f.fields.setdefault("lora_rank", 8)
        f.fields.setdefault("lora_targets", "q_proj+k_proj+v_proj+o_proj+gate_proj+up_proj+down_proj")
        _dropout(top, f)
    elif kind != "full":
        top.wrong(("finetuning_type",), f"{shown(kind)} is not modelled; only full and lora")
    if not top.set("seq_len", "cutoff_len"):
        f.set("seq_len", 2048)
    top.set("micro_batch", "per_device_train_batch_size")
    _batch(top, f)
    if top.truth("use_muon"):
        f.set("optimizer", "muon")
    f.set("recompute", "none" if top.truth("disable_gradient_checkpointing") else "full")
    top.ignore(("gradient_checkpointing", "use_reentrant_gc", "gradient_checkpointing_kwargs"))
    set_running(top, f, ("fsdp", "fsdp_config"))
    liger = top.truth("enable_liger_kernel")
    f.set("kernels", "fused" if liger else "eager")
    if top.take("flash_attn") in ("disabled", False):
        f.set("attention_kernel", "unfused")
    if top.truth("pure_bf16"):
        f.set("optimizer_precision", "bf16")
        f.note("pure_bf16: weights are trained in 16 bit without copies in 32, which are counted all the same")
    _packing(f, "packing", top.truth("packing"))
    return _done(FACTORY, top, f, FACTORY_IGNORED, known)


def _replicas(top: Keys, f: Findings) -> None:
    """Set the devices where it is said how many share states: those of context parallelism do, too."""
    replicas, shards = int(top.number("dp_replicate_size", default=1) or 1), f.count("dp_shard", 0)
    if shards and "gpus" not in f.given:
        f.set("gpus", replicas * shards * f.count("tp") * f.count("cp"))
    if "dp_shard" in f.given:
        return
    if shards and replicas > 1:
        f.set("dp_shard", shards * f.count("cp"))
    elif replicas > 1:
        f.missing("how many devices share states is not in the file; give --set dp_shard=N", "dp_shard")
    else:
        f.fields.pop("dp_shard", None)


def _four_bits(top: Keys, f: Findings, adapted: bool, place: tuple[str, ...], double: bool = True) -> None:
    """Set frozen weights of 4-bit NormalFloat, whose scales both tools have in 8 bits unless they are told not to."""
    if adapted:
        f.set("frozen_precision", "nf4" if double else "nf4_single", top.place(*place))
    else:
        top.wrong(place, "weights of 4 bits are frozen, and there are no adapters (lora) that are trained")


def _old_batch(top: Keys, f: Findings) -> None:
    """Set how often gradients are added up by the sequences of a device in a step, as older files of Axolotl say it."""
    batch = top.number("batch_size")
    each = f.count("micro_batch", 0)
    if batch is not None and each and not top.has("gradient_accumulation_steps"):
        f.set("accumulation", max(int(batch) // each, 1), top.place("batch_size"))


def _dropout(top: Keys, f: Findings) -> None:
    if not is_off(top.take("lora_dropout")):
        f.note("lora_dropout: masks of its inputs are not counted")


def _batch(top: Keys, f: Findings) -> None:
    top.set("accumulation", "gradient_accumulation_steps")
    if "global_batch" in f.given:
        f.fields.pop("accumulation", None)


def _liger(top: Keys, f: Findings) -> None:
    """Set fused kernels where Liger's are asked for."""
    plugins = top.take("plugins", default=[])
    known = ("axolotl.integrations.liger.LigerPlugin", "axolotl.integrations.swanlab.SwanLabPlugin",
             "axolotl.integrations.expert_parallel.ExpertParallelPlugin", "axolotl.integrations.kernels.KernelsPlugin",
             "axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin")  # fmt: skip
    strange = [str(each) for each in plugins if str(each) not in known] if isinstance(plugins, list) else [str(plugins)]
    if strange:
        top.wrong(("plugins",), f"what {', '.join(strange)} does is not known")
    switches = [top.truth(name) for name in list(top.mapping) if name.startswith("liger_")]
    if any(switches) and f.fields.get("kernels") == "eager":
        f.set("kernels", "fused")
    if not is_off(top.take("cut_cross_entropy")) or any("Cut" in str(each) for each in plugins):
        f.note("cut cross entropy, which keeps no logits, is counted as the loss of other kernels")


def _packing(f: Findings, key: str, packed: bool) -> None:
    """Say what sequences are counted."""
    f.note(f"{key}: sequences are counted full" if packed else f"{key} is off: sequences are counted full all the same")


def _done(kind: str, top: Keys, f: Findings, ignored: str, known: str) -> Imported:
    top.ignore(ignored.split())
    top.finish()
    f.problems.raise_if_any()
    name = PurePath(f.document.file).stem
    return Imported(kind, name, name, f"{f.document.file} ({kind})", f.fields, tuple(f.notes), model=known)
