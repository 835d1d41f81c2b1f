"""Keys of a torchtitan TOML that change nothing of a step, section by section."""

from __future__ import annotations

_SECTIONS = {
    "job": """config_file dump_folder description use_for_integration_test print_args print_config
        custom_config_module save_config_file""",
    "profiling": """enable_profiling save_traces_folder profile_freq enable_memory_snapshot save_memory_snapshot_folder
        profiler_active profiler_warmup profiler_repeat with_stack""",
    "profiler": """enable_profiling save_traces_folder profile_freq enable_memory_snapshot save_memory_snapshot_folder
        profiler_active profiler_warmup""",
    "metrics": """log_freq enable_tensorboard disable_color_printing save_tb_folder save_for_all_ranks enable_wandb
        enable_color_printing rank_0_only""",
    "lr_scheduler": """warmup_steps decay_ratio decay_type lr_min min_lr_factor total_steps""",
    "checkpoint": """enable_checkpoint folder initial_load_path initial_load_model_weights_only interval interval_type
        last_save_model_weights_only model_weights_only export_dtype create_seed_checkpoint async_mode keep_latest_k
        load_step exclude_from_loading enable enable_ft_dataloader_checkpoints initial_load_model_only
        initial_load_in_hf initial_load_in_hf_quantized last_save_model_only last_save_in_hf
        enable_first_step_checkpoint load_only additional_checkpoints""",
    "comm": """init_timeout_seconds train_timeout_seconds trace_buf_size save_traces_folder save_traces_file_prefix
        mode""",
    "memory_estimation": "enabled disable_fake_mode enable",
    "experimental": "custom_import custom_args_module",
    "validation": """enable enabled dataset dataset_path local_batch_size seq_len freq steps dataloader num_samples""",
    "debug": "seed deterministic deterministic_warn_only moe_force_load_balance print_config save_config_file",
}
SECTIONS = {name: frozenset(keys.split()) for name, keys in _SECTIONS.items()}
_TRAINING = """
    max_norm steps dataset dataset_path seed deterministic gc_freq gc_debug warmup_steps fsdp_bucket_cap_mb
    debug_moe_force_load_balance dataloader mock_data num_workers
"""
_FLOAT8 = """
    precompute_float8_dynamic_scale_for_fsdp force_recompute_fp8_weight_in_bwd filter_fqns emulate scaling_type_input
    scaling_type_weight scaling_type_grad_output use_fp8_dim1_cast_triton_kernel mxfp8_dim1_cast_kernel_choice fqns
    moe_fqns_prototype moe_fqns
"""
TRAINING, FLOAT8 = (frozenset(names.split()) for names in (_TRAINING, _FLOAT8))
MODEL = ("hf_assets_path", "tokenizer_path", "print_after_conversion", "tokenizer_type")
OPTIMIZER = ("lr", "beta1", "beta2", "betas", "eps", "weight_decay", "implementation", "fused", "foreach")
# Recipes of torchao's Float8Linear; those of mx are all of MXFP8 (mxfp8_cublas, mxfp8_rceil and so on).
FLOAT8_RECIPES = ("tensorwise", "rowwise", "rowwise_with_gw_hp")
