"""Keys of Hugging Face's TrainingArguments, and of programs on them, that change nothing of a step's shape."""

from __future__ import annotations

import re

_LEARNING = """
    learning_rate lr_scheduler_type lr_scheduler_kwargs warmup_steps warmup_ratio weight_decay adam_beta1
    adam_beta2 adam_epsilon max_grad_norm num_train_epochs max_steps seed data_seed label_smoothing_factor
    neftune_noise_alpha optim_args average_tokens_across_devices full_determinism min_lr_ratio num_epochs
    num_warmup_steps max_train_steps reduce_loss clip_grad_norm load_balancing_loss router_aux_loss_coef
    lora_alpha lora_bias use_rslora lora_task_type loraplus_lr_ratio lorap_lr_ratio init_lora_weights
    early_stopping_patience learning_rate_final vit_lr aligner_lr
"""
_SAVING = """
    output_dir overwrite_output_dir save_strategy save_steps save_total_limit save_only_model save_on_each_node
    save_safetensors load_best_model_at_end metric_for_best_model greater_is_better enable_jit_checkpoint
    resume_from_checkpoint ignore_data_skip restore_callback_states_from_checkpoint push_to_hub hub_token
    hub_model_id hub_private_repo hub_strategy hub_always_push hub_revision hub_model_revision push_to_hub_token
    push_to_hub_model_id push_to_hub_organization push_to_hub_revision checkpointing_steps keep_last_n_checkpoints
    resume_only_model add_version create_checkpoint_symlink model_author logging_dir cache_dir merge_lora
"""
_TELLING = """
    logging_strategy logging_steps logging_first_step log_on_each_node logging_nan_inf_filter log_level
    log_level_replica disable_tqdm report_to run_name project trackio_space_id include_num_input_tokens_seen
    include_tokens_per_second skip_memory_metrics debug do_train do_eval do_predict eval_strategy
    evaluation_strategy eval_steps eval_delay per_device_eval_batch_size prediction_loss_only eval_on_start
    eval_do_concat_batches eval_use_gather_object eval_accumulation_steps include_for_metrics
    include_inputs_for_metrics batch_eval_metrics bf16_full_eval fp16_full_eval half_precision_backend
    eval_packing fp16_backend with_tracking wandb_project wandb_entity wandb_run_name callbacks benchmarks
    log_completions eval_dataset evaluate_during_training predict_with_generate benchmark_name profiler
    jit_mode_eval use_legacy_prediction_loop eval_limit temperature top_p max_new_tokens do_sample trackio_project
    trackio_run_name swanlab_project
"""
_DATA = """
    dataloader_drop_last dataloader_num_workers dataloader_pin_memory dataloader_persistent_workers
    dataloader_prefetch_factor remove_unused_columns label_names group_by_length train_sampling_strategy
    length_column_name accelerator_config split_batches dispatch_batches dataset_name dataset_config
    dataset_config_name dataset_mixture dataset_mixer dataset_splits dataset_train_split dataset_test_split
    dataset_train_name dataset_train_subset dataset_num_proc dataset_text_field dataset_kwargs dataset_batch_size
    dataset_streaming dataset_path shuffle_dataset chat_template chat_template_path eos_token pad_token
    trust_remote_code model_revision tokenizer_name tokenizer_name_or_path config_name use_slow_tokenizer
    use_fast_tokenizer train_file validation_file validation_split_percentage preprocessing_num_workers
    overwrite_cache streaming max_train_samples max_eval_samples completion_only_loss assistant_only_loss
    truncation_mode pad_to_multiple_of skip_prepare_dataset ignore_bias_buffers low_cpu_mem_usage data_path
    eval_data_path lazy_preprocess dataset_train columns model_init_kwargs system_prompt dataset_mixer_list
    dataset_mixer_list_splits dataset_mixer_eval_list dataset_mixer_eval_list_splits train_dataset val_dataset
    dataset split_dataset_ratio load_from_cache_file system template truncation_strategy strict interleave_prob
    stopping_strategy custom_dataset_info download_mode shuffle_buffer_size num_proc loss_scale model_type use_hf
    hf_hub_token local_repo_path agent_template response_prefix tokenizer_revision keep_in_memory
    max_length_filter data_seed_shuffle model_kwargs tokenizer_file tokenizer_path torch_empty_cache_steps
    ddp_find_unused_parameters ddp_broadcast_buffers ddp_backend ddp_timeout tf32 no_cuda local_rank past_index
    mp_parameters use_ipex tpu_num_cores tpu_metrics_debug use_mps_device ray_scope use_cache
    gradient_checkpointing_kwargs liger_kernel_config cached_dataset model_description data_files
    preprocessing_batch_size use_auth_token token local_files_only pad_to_max_length ddp_bucket_cap_mb
    config_overrides attn_implementation_kwargs enable_thinking dataset_format data_format train_on_inputs
    prompt_template_name train_data eval_data data_dir
"""
IGNORED = tuple(f"{_LEARNING} {_SAVING} {_TELLING} {_DATA}".split())
# Beginnings of keys about data, models of judges, and places of logs.
BEGINNINGS = (
    "wandb_",
    "hub_",
    "report_",
    "logging_",
    "dataloader_",
    "dataset_",
    "eval_",
    "save_",
    "trackio_",
    "mlflow_",
)
# What another loss than that of the next token has, or another model than one of text.
_LOSSES = """
    num_generations reward_funcs reward_weights max_prompt_length max_completion_length rlhf_type reward_model
    reward_model_path reward_model_name_or_path ref_model ref_model_name_or_path kl_coef teacher_model
    teacher_model_name_or_path num_ppo_epochs rpo_alpha simpo_gamma desirable_weight undesirable_weight num_labels
    total_episodes num_samples_per_prompt_rollout dpo_loss_type dpo_beta pref_beta lmbda
"""
_SIGHTS = """
    vision_tower mm_projector_type mm_vision_select_layer mm_use_im_start_end mm_use_im_patch_token image_folder
    pretrain_mm_mlp_adapter tune_mm_mlp_adapter mm_projector_lr image_aspect_ratio max_pixels freeze_vision_tower
    vision_model audio_tower speech_encoder image_column audio_column_name freeze_vit freeze_aligner freeze_llm
    vit_gradient_checkpointing image_max_pixels video_max_pixels image_min_pixels freeze_multi_modal_projector
"""
LOSSES, SIGHTS = tuple(_LOSSES.split()), tuple(_SIGHTS.split())
# Of what a program calls its own arguments, the words that may change a step's shape: such a key is not passed over.
MATTERS = re.compile(
    r"(?:^|_)(?:batch|length|len|seq|parallel|lora|quant\w*|bits?|4bit|8bit|precision|dtype|checkpointing|offload\w*|"
    r"tower|vision|freeze\w*|unfreeze\w*|tune|shard\w*|zero\w*|fsdp|deepspeed|degree|fp8|fp16|bf16|half|optim\w*|flash|attn|"
    r"attention|liger|layers?|hidden|experts?|moe|rank|nodes?|gpus?|devices?|accumulation|peft|adapters?|galore|compile|"
    r"window|ctx|context|pack\w*|tp|pp|cp|ep|sp|ring|ulysses|unsloth|kernel\w*|distill\w*|block|pruning|sparse)(?:_|$)"
)
